"""Write the demo library, or one like it with another seed: reads and truth tables."""

import argparse
import sys
from pathlib import Path

# A plain program, run outside Snakemake, which would put the package on the path.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow"))

from umimill.simulate import SimulationParameters, simulate, write_simulation


def main() -> None:
    """Read the command line, simulate, write, and say what was written."""
    demo = SimulationParameters()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=demo.seed, help="of the random numbers")
    parser.add_argument("--molecules", type=int, default=demo.molecules, help="molecules made")
    parser.add_argument("--mean-reads", type=float, default=demo.mean_reads, help="a molecule")
    parser.add_argument("--insert-length", type=int, default=0, help="bases; 0: the payload's")
    parser.add_argument("--read2-length", type=int, default=0, help="bases; 0: single-end")
    parser.add_argument("--output", type=Path, default=Path("resources/demo"), help="folder")
    options = vars(parser.parse_args())
    folder = options.pop("output")
    try:
        parameters = SimulationParameters(**options)
        simulation = simulate(parameters)
        write_simulation(simulation, folder)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    reads, molecules = simulation.names.size, simulation.molecule_reads.size
    print(f"{folder}: {reads:,} reads of {molecules:,} molecules")


if __name__ == "__main__":
    main()
