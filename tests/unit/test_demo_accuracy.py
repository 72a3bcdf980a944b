"""The demo library, with another seed, against its truth: records, sequences, qualities.

`migec` runs on the same file where it is installed (x86_64).
"""

from __future__ import annotations

import platform
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from demo_fixture import (
    LEAST_READS,
    Demo,
    Key,
    Sequences,
    Truth,
    make_demo,
    own_records,
    own_sequences,
    share,
)
from library_run import Record, read_consensus
from umimill.simulate import SimulationParameters

SEED = 2


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    return make_demo(SimulationParameters(seed=SEED), tmp_path_factory.mktemp("demo"))


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """The same library with nothing corrected or judged."""
    parameters = SimulationParameters(seed=SEED)
    return make_demo(parameters, tmp_path_factory.mktemp("exact"), method="unique")


def is_toss(record: Record, expected: str) -> bool:
    """Whether a record is wrong where two bases have equal votes, and there alone."""
    wrong = [
        quality
        for base, quality, other in zip(record.bases, record.qualities, expected, strict=False)
        if base != other
    ]
    return bool(wrong) and max(wrong) <= 3


# -- what became of the reads --------------------------------------------------------------------


def test_each_family_is_a_record_by_method_unique(exact: Demo) -> None:
    sizes, truth = exact.reads_of_keys(), exact.truth
    names = [
        record.name for sample in exact.run.library.samples for record in exact.run.records(sample)
    ]
    rows = exact.rows()
    assert sorted(names) == sorted(row["molecule_id"] for row in rows)
    assert len(set(names)) == len(names)
    assert {row["status"] for row in rows} == {"molecule"}
    # A key has several where its reads are not alike: chimeras, and shifted reads.
    simulation = truth.simulation
    odd = simulation.read_is_chimera | (simulation.read_shift != 0)
    mixed = {key for key, reads in truth.reads.items() if odd[reads].any()}
    split = {(row["sample"], row["umi"]) for row in rows if row["n"] > 1}
    assert len(split) > 50
    assert len(split - mixed - truth.collided) <= 0.1 * len(split)
    # In doubt are reads whose tag was read as another sample's, and a foreign one.
    counts = {key: len(reads) for key, reads in truth.reads.items()}
    moved = sum(abs(sizes.get(key, 0) - counts.get(key, 0)) for key in sizes.keys() | counts.keys())
    assert moved <= 0.001 * exact.run.total("checkout", "reads")
    whole = [key for key in truth.molecules if sizes.get(key) == counts.get(key)]
    assert len(whole) >= 0.99 * len(truth.molecules)


def test_molecules_are_those_that_were_made(demo: Demo, exact: Demo) -> None:
    """Their number is that of the molecules with a read, and nearly each is one of them."""
    truth, simulation = demo.truth, demo.truth.simulation
    names = simulation.parameters.samples
    held = np.unique(simulation.read_molecule[~truth.refused & ~simulation.read_is_foreign])
    made = Counter(
        (names[simulation.molecule_sample[one]], simulation.molecule_umi[one].tobytes().decode())
        for one in held.tolist()
    )
    rows = [row for row in demo.rows() if row["status"] == "molecule"]
    found = Counter((row["sample"], row["umi"]) for row in rows)
    said = (
        f"{len(rows):,} molecules of {held.size:,} with a read, {len(exact.rows()):,} families; "
        f"{(found - made).total()} are none, {(made - found).total()} are missing"
    )
    assert abs(len(rows) - held.size) <= 0.01 * held.size, said
    assert (found - made).total() <= 0.02 * held.size, said
    assert (made - found).total() <= 0.02 * held.size, said
    assert len(exact.rows()) > 1.1 * held.size, said


def test_foreign_reads_are_refused_and_odd_ones_kept(demo: Demo) -> None:
    simulation, refused = demo.truth.simulation, demo.truth.refused
    foreign = simulation.read_is_foreign
    assert foreign.sum() > 500
    assert (foreign & ~refused).sum() <= 3
    assert (refused & ~foreign).sum() <= 0.005 * (~foreign).sum()
    for odd, least in (
        (simulation.read_is_chimera, 100),
        (simulation.read_shift != 0, 10),
        (simulation.read_front > 0, 400),
    ):
        assert odd.sum() >= least
        assert (odd & refused).sum() <= max(3, 0.01 * odd.sum())


def test_the_books_close(demo: Demo) -> None:
    ledger, reads = demo.run.ledger(), demo.truth.simulation.names.size
    by_stage: Counter[str] = Counter()
    for (stage, _, _), count in ledger.items():
        by_stage[stage] += count
    assigned = sum(demo.run.line("assigned", sample) for sample in demo.run.library.samples)
    assert by_stage["checkout"] == reads
    assert assigned == reads - demo.truth.refused.sum()
    assert by_stage["plan"] == by_stage["tally"] == by_stage["assemble"] == assigned
    assert by_stage["settle"] == assigned
    assert demo.run.total("settle", "corrected_families") > 500
    assert sum(demo.reads_of_keys().values()) == assigned
    kept = [row for row in demo.rows() if row["status"] == "molecule"]
    assert by_stage["gather"] == len(kept) < len(demo.rows())
    assert sum(row["reads"] for row in kept) == sum(
        demo.run.line("voted", sample, "assemble") for sample in demo.run.library.samples
    )


# -- sequences -----------------------------------------------------------------------------------


def vote(bases: npt.NDArray[np.uint8], qualities: npt.NDArray[np.uint8], columns: int) -> str:
    """Call each column by the likelihoods of its bases; `bases` is 0 where a read has none."""
    error = 10.0 ** (-qualities.astype(float) / 10)
    own, other = np.log1p(-error), np.log(error / 3)
    sums = [
        np.where(bases == letter, own, np.where(bases == 0, 0.0, other)).sum(axis=0)
        for letter in b"ACGT"
    ]
    return "".join("ACGT"[best] for best in np.argmax(sums, axis=0)[:columns])


def oracle(truth: Truth) -> float:
    """Return the share of molecules that are right where their true reads vote in true places."""
    simulation = truth.simulation
    parameters = simulation.parameters
    head, columns = len(parameters.layouts[0]), parameters.payload_length
    order = np.argsort(simulation.read_molecule, kind="stable")
    order = order[~truth.refused[order] & (simulation.read_molecule[order] >= 0)]
    right = []
    starts = np.searchsorted(
        simulation.read_molecule[order], np.arange(simulation.molecule_reads.size + 1)
    )
    for molecule in range(simulation.molecule_reads.size):
        reads = order[starts[molecule] : starts[molecule + 1]]
        if reads.size < LEAST_READS:
            continue
        bases = np.zeros((reads.size, columns), np.uint8)
        qualities = np.full((reads.size, columns), 2, np.uint8)
        for row, read in enumerate(reads.tolist()):
            start = head + int(simulation.read_front[read])
            length = simulation.bases1.shape[1] - start
            bases[row, :length] = simulation.bases1[read, start:]
            qualities[row, :length] = simulation.qualities1[read, start:] - 33
        right.append(vote(bases, qualities, columns) == truth.template(molecule))
    return share(right)


def test_consensus_is_the_template(demo: Demo) -> None:
    sequences = own_sequences(demo)
    own = share(bases == demo.truth.template_of(key) for key, bases in sequences.items())
    known = oracle(demo.truth)
    said = (
        f"{own:.3%} of {len(sequences):,} consensuses of {LEAST_READS} reads or more, true groups "
        f"{known:.3%}, {len(demo.truth.collided)} keys of two molecules left out"
    )
    assert len(sequences) > 3000, said
    assert len(demo.truth.collided) <= 5, said
    assert own >= 0.995, said
    assert own >= known - 0.001, said


def run_migec(demo: Demo, folder: Path) -> Sequences:
    """Run migec's checkout and assemble; return its consensus of each key as own_sequences does."""
    if platform.machine() != "x86_64":
        pytest.skip("migec has wheels for x86_64 alone")
    program = Path(sys.executable).with_name("migec")
    assert program.exists(), "the test environment has no migec; set it up anew"

    def call(*arguments: str | Path) -> None:
        done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    barcodes = folder / "barcodes.tsv"
    library = demo.run.library
    barcodes.write_text("".join(f"{sample}\t{layout}\n" for sample, layout, _ in library.layouts))
    checkout, reads = folder / "checkout", demo.folder / "demo_R1.fastq.gz"
    call("checkout", "-b", barcodes, "-o", checkout, "-t", "1", reads)
    found: Sequences = {}
    depths: dict[Key, int] = {}
    for sample in library.samples:
        call("assemble", checkout / f"{sample}.fq.gz", "-o", folder, "-t", "1")
        for record in read_consensus(folder / f"{sample}.consensus.fq.gz"):
            key, depth = (sample, record.tags["RX"]), int(record.tags["cD"])
            # It splits some keys: the deepest part stands for the key.
            if depth > depths.get(key, LEAST_READS - 1) and key not in demo.truth.collided:
                found[key], depths[key] = record.bases, depth
    return found


@pytest.fixture(scope="module")
def migec_sequences(demo: Demo, tmp_path_factory: pytest.TempPathFactory) -> Sequences:
    return run_migec(demo, tmp_path_factory.mktemp("migec"))


@pytest.mark.parametrize("method", ["unique", "posterior"])
def test_no_worse_than_migec(
    method: str, migec_sequences: Sequences, request: pytest.FixtureRequest
) -> None:
    demo: Demo = request.getfixturevalue("exact" if method == "unique" else "demo")
    peer, own = migec_sequences, own_sequences(demo)
    truth = {key: demo.truth.template_of(key) for key in own.keys() & peer.keys()}
    # Correction brings molecules of two reads to three, so there are more.
    most = max(len(own), len(peer)) if method == "unique" else len(peer)
    assert len(truth) >= 0.99 * most > 3000
    assert len(own) > 1.01 * len(peer) or method == "unique"
    whole = [share(found[key] == truth[key] for key in truth) for found in (own, peer)]
    if method == "posterior":
        # A read that was moved may bring a column to equal votes: there it is a toss for the one,
        # and the other has a read less.
        records = own_records(demo)
        tosses = [key for key in truth if is_toss(records[key], truth[key][: len(peer[key])])]
        assert len(tosses) <= 0.001 * len(truth)
        truth = {key: expected for key, expected in truth.items() if key not in tosses}
    # It cuts a molecule at its shortest read: beside it, over the bases that it gives. There the
    # two differ only where bases have equal votes, a toss that one in 2,000 consensuses meets.
    common = [
        share(found[key][: len(peer[key])] == truth[key][: len(peer[key])] for key in truth)
        for found in (own, peer)
    ]
    said = (
        f"of {len(truth):,} consensuses of {LEAST_READS} reads or more equal their template: "
        f"whole {whole[0]:.3%}, migec {whole[1]:.3%}; over the bases that migec gives "
        f"{common[0]:.3%}, migec {common[1]:.3%}"
    )
    assert whole[0] >= whole[1], said
    assert common[0] >= common[1], said


# -- qualities -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("floor", "best"), [(1e-4, 40), (1e-6, 60)])
def test_qualities_are_worth_what_they_say(floor: float, best: int, tmp_path: Path) -> None:
    # Sequencing errors alone, drawn from the qualities, and few reads a molecule: it is the vote
    # that is tried, on columns that one read or two decide.
    parameters = SimulationParameters(
        seed=3, molecules=20_000, mean_reads=2, sigma_reads=0.6, chimera_share=0, shift_share=0,
        pcr_error=0, barcode_error=0, foreign_share=0, front_share=0,
    )  # fmt: skip
    demo = make_demo(parameters, tmp_path, floor=floor)
    columns, errors = np.zeros(94, np.int64), np.zeros(94, np.int64)
    strangers = 0
    for sample in demo.run.library.samples:
        for record in demo.run.records(sample):
            key = (sample, record.tags["RX"])
            if key in demo.truth.collided:
                continue
            if key not in demo.truth.molecules:
                strangers += 1
                continue
            template = demo.truth.template(demo.truth.molecules[key][0])
            assert len(record.bases) == len(template)
            for base, quality, expected in zip(
                record.bases, record.qualities, template, strict=True
            ):
                if base != "N":
                    columns[quality] += 1
                    errors[quality] += base != expected
    assert strangers <= 5
    assert np.flatnonzero(columns).max() == best
    said, tried = [], 0
    for quality in np.flatnonzero(columns).tolist():
        # The floor stands for errors that this library has not got.
        expected = float(columns[quality]) * max(0.0, 10 ** (-quality / 10) - floor)
        if expected < 30:
            continue
        tried += 1
        said.append(f"Q{quality}: {errors[quality]} errors, {expected:.0f} expected")
        # A whole number of quality is worth 12% either way; the rest is chance.
        assert abs(errors[quality] - expected) <= 0.12 * expected + 4 * expected**0.5, said
    assert tried >= 5, said
    # Above what a single read can say there are most bases, and hardly an error.
    assert columns[38:].sum() > columns.sum() / 2
    assert errors[38:].sum() <= 10
