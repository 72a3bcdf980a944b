"""Write the demo library, or one like it with another seed: reads and truth tables.

In the clone: PYTHONPATH=workflow python -m umimill.simulate_demo --help
"""

import argparse
from pathlib import Path

from umimill.simulate import SimulationParameters, simulate, write_simulation


def main() -> None:
    """Read the command line, simulate, write, and say what was written."""
    demo = SimulationParameters()
    parser = argparse.ArgumentParser(
        prog="umimill.simulate_demo",
        description=__doc__.splitlines()[0] if __doc__ else None,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
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
