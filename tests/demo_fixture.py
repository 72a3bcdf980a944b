"""The demo library, run, and its truth.

The truth of a read is taken from the simulator: where its UMI lies, whose it is, what was done to
it.
"""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from library_run import Record
from pipeline import Library, Run, run_pipeline
from umimill.simulate import Simulation, SimulationParameters, simulate, write_simulation

LEAST_READS = 3
Key = tuple[str, str]
Sequences = dict[Key, str]


@dataclass(frozen=True)
class Truth:
    """What the simulator knows, by key: sample and UMI."""

    simulation: Simulation
    refused: npt.NDArray[np.bool_]

    @cached_property
    def molecules(self) -> dict[Key, list[int]]:
        """Molecules of each key as they were made."""
        simulation = self.simulation
        names = simulation.parameters.samples
        found: dict[Key, list[int]] = {}
        pairs = zip(simulation.molecule_sample, simulation.molecule_umi, strict=True)
        for molecule, (sample, umi) in enumerate(pairs):
            found.setdefault((names[sample], umi.tobytes().decode()), []).append(molecule)
        return found

    @cached_property
    def collided(self) -> set[Key]:
        """Keys that two molecules were given: no one can tell these apart by key."""
        return {key for key, members in self.molecules.items() if len(members) > 1}

    @cached_property
    def reads(self) -> dict[Key, list[int]]:
        """Assigned reads of each key as it was read, at the places where it truly lies."""
        simulation = self.simulation
        names, places = simulation.parameters.samples, simulation.parameters.umi_columns
        found: dict[Key, list[int]] = {}
        for read in np.flatnonzero(~self.refused & ~simulation.read_is_foreign).tolist():
            umi = simulation.bases1[read, simulation.read_front[read] + places]
            key = (names[simulation.read_sample[read]], umi.tobytes().decode())
            found.setdefault(key, []).append(read)
        return found

    def template(self, molecule: int) -> str:
        """Return the sequence of a molecule."""
        return self.simulation.molecule_template[molecule].tobytes().decode()

    def template_of(self, key: Key) -> str:
        """Return the sequence of the molecule that most reads of a key come from."""
        owners = Counter(self.simulation.read_molecule[self.reads[key]].tolist())
        return self.template(owners.most_common(1)[0][0])


@dataclass(frozen=True)
class Demo:
    """The library, its files, its run and its truth."""

    folder: Path
    run: Run
    truth: Truth

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of all molecules tables."""
        samples = self.run.library.samples
        return [row for sample in samples for row in self.run.molecules(sample)]

    def reads_of_keys(self) -> dict[Key, int]:
        """Return the reads of each key in the tables."""
        sizes: Counter[Key] = Counter()
        for row in self.rows():
            sizes[row["sample"], row["umi"]] += row["reads"]
        return dict(sizes)


def make_demo(
    parameters: SimulationParameters,
    folder: Path,
    *,
    floor: float = 1e-4,
    method: str = "posterior",
) -> Demo:
    """Simulate a library, run it, and find out which reads were refused."""
    simulation = simulate(parameters)
    write_simulation(simulation, folder)
    rows = zip(parameters.samples, parameters.layouts, strict=True)
    library = Library(
        [(sample, layout, None) for sample, layout in rows],
        {"L001": (folder / "demo_R1.fastq.gz",)},
        name="demo",
        floor=floor,
        method=method,
    )
    run = run_pipeline(library, folder / "run")
    unmatched = gzip.decompress(run.outputs["unmatched/demo/demo.unmatched.fastq.gz"].read_bytes())
    names = {line[1:].split(b" ")[0] for line in unmatched.splitlines()[::4]}
    refused = np.isin(simulation.names, np.array(sorted(names), simulation.names.dtype))
    assert refused.sum() == len(names) == run.line("unmatched") + run.line("ambiguous")
    return Demo(folder, run, Truth(simulation, refused))


def own_records(demo: Demo) -> dict[Key, Record]:
    """Return the consensus of each key with enough reads, keys of two molecules aside.

    The first molecule of a key, which is the largest, stands for it.
    """
    sizes = {row["molecule_id"]: (row["n"], row["reads"]) for row in demo.rows()}
    found = {}
    for sample in demo.run.library.samples:
        for record in demo.run.records(sample):
            key = (sample, record.tags["RX"])
            number, reads = sizes[record.name]
            if number == 1 and reads >= LEAST_READS and key not in demo.truth.collided:
                found[key] = record
    return found


def own_sequences(demo: Demo) -> Sequences:
    """Return the bases of own_records."""
    return {key: record.bases for key, record in own_records(demo).items()}


def share(hits: Iterable[bool]) -> float:
    """Return the share of what is true."""
    values = list(hits)
    return sum(values) / len(values)
