"""The reads of a case and their truth: the simulator's, and what it does not do.

Barcodes are moved after the fact: a read's barcode keeps its differences (modulo 4) from that of
its molecule, so errors, PCR's among them, stay what they were, whatever the barcode becomes. What
is random here comes from raw words of PCG64 as in the simulator.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from accuracy.cases import Case
from umimill.simulate import READS_PER_BLOCK, simulate
from umimill.synthetic import (
    ALPHABET,
    Bytes,
    Flags,
    Integers,
    draw_below,
    draw_hits,
    fastq_text,
    write_gzip,
)

_CODE = np.zeros(256, np.uint8)
_CODE[ALPHABET] = np.arange(4)


@dataclass(frozen=True)
class Truth:
    """What is true of n reads of m molecules; m counts molecules with a read.

    A barcode is a number: 2 bits a base, the first base highest, that of the cell in front.

    Attributes:
        molecule: int64[n], 0 .. m - 1, each there.
        observed: uint64[n], the barcode at the places where the layout has it.
        chimera: bool[n], whether the payload is partly another clone's; the barcode is not.
        barcode: uint64[m], the molecule's own.
        clone: int64[m].
    """

    molecule: Integers
    observed: np.ndarray
    chimera: Flags
    barcode: np.ndarray
    clone: Integers

    @property
    def wrong(self) -> Flags:
        """bool[n], whether the read's barcode is another than its molecule's."""
        found: Flags = self.observed != self.barcode[self.molecule]
        return found

    @property
    def parent_seen(self) -> Flags:
        """bool[m], whether a read of the molecule has its barcode right.

        Chimeras do not count: they are no members of a family. A wrong barcode is reachable if its
        molecule is one of these.
        """
        seen = np.zeros(self.barcode.size, bool)
        seen[self.molecule[~self.wrong & ~self.chimera]] = True
        return seen


@dataclass(frozen=True)
class Reads:
    """A simulated library.

    Attributes:
        case: what was simulated.
        seed: with which seed.
        bases: uint8[n, cycles], ASCII.
        qualities: uint8[n, cycles], Phred + 33.
        truth: what is true of them.
    """

    case: Case
    seed: int
    bases: Bytes
    qualities: Bytes
    truth: Truth


def generate(case: Case, seed: int) -> Reads:
    """Simulate a case; equal arguments give equal reads."""
    simulation = simulate(replace(case.parameters, seed=seed))
    source = np.random.PCG64([seed, 1])
    kept = slice(0, case.reads or simulation.names.size)
    assert simulation.names.size >= case.reads, "the case has too few reads to keep"
    bases, qualities = simulation.bases1[kept], simulation.qualities1[kept]
    read_molecule = simulation.read_molecule[kept]
    columns = case.parameters.umi_columns
    umi = _CODE[simulation.molecule_umi]
    moved = _other_barcodes(source, case, umi)
    change = (moved - umi) & 3
    codes = (_CODE[bases[:, columns]] + change[read_molecule]) & 3
    codes[:, : case.cell_length] = moved[read_molecule, : case.cell_length]
    bases[:, columns] = ALPHABET[codes]
    if case.spread:
        bases, qualities = _windows(source, case, bases, qualities)
    if case.deletion_share:
        bases, qualities = _without_a_base(source, case, bases, qualities)
    if case.flat_quality:
        qualities = np.full_like(qualities, 33 + case.flat_quality)
    present, molecule = np.unique(read_molecule, return_inverse=True)
    truth = Truth(
        molecule=molecule,
        observed=pack(_CODE[bases[:, columns]]),
        chimera=simulation.read_is_chimera[kept],
        barcode=pack(moved)[present],
        clone=simulation.molecule_clone[present],
    )
    return Reads(case, seed, bases, qualities, truth)


def pack(codes: Bytes) -> np.ndarray:
    """Return rows of base codes 0 .. 3 as numbers, uint64[rows]; at most 32 bases."""
    number = np.zeros(codes.shape[0], np.uint64)
    for column in range(codes.shape[1]):
        number = number << np.uint64(2) | codes[:, column].astype(np.uint64)
    return number


def _other_barcodes(source: np.random.PCG64, case: Case, umi: Bytes) -> Bytes:
    """Return the barcodes of the case; those of the simulator are independent and uniform."""
    moved = umi.copy()
    if case.shared_barcodes > 1:
        rows = np.arange(umi.shape[0])
        moved = umi[rows - rows % case.shared_barcodes]
    if case.cells:
        cells = draw_below(source, 4, case.cells, case.cell_length).astype(np.uint8)
        moved[:, : case.cell_length] = cells[np.arange(umi.shape[0]) % case.cells]
    return moved


def _windows(
    source: np.random.PCG64, case: Case, bases: Bytes, qualities: Bytes
) -> tuple[Bytes, Bytes]:
    """Cut payloads that start at random places of those that are there."""
    head, width = len(case.parameters.layouts[0]), case.parameters.payload_length - case.spread
    start = draw_below(source, case.spread + 1, bases.shape[0])
    place = np.concatenate(
        (
            np.broadcast_to(np.arange(head), (bases.shape[0], head)),
            head + start[:, None] + np.arange(width),
        ),
        axis=1,
    )
    return np.take_along_axis(bases, place, axis=1), np.take_along_axis(qualities, place, axis=1)


def _without_a_base(
    source: np.random.PCG64, case: Case, bases: Bytes, qualities: Bytes
) -> tuple[Bytes, Bytes]:
    """Drop one base of each read: of the UMI where it was lost, else the last one."""
    cycles = bases.shape[1]
    columns = case.parameters.umi_columns[case.cell_length :]
    lost = draw_hits(source, case.deletion_share, bases.shape[0])
    chosen = columns[draw_below(source, columns.size, bases.shape[0])]
    without = np.where(lost, chosen, cycles - 1)
    kept = np.arange(cycles) != without[:, None]
    shape = (bases.shape[0], cycles - 1)
    return bases[kept].reshape(shape), qualities[kept].reshape(shape)


def write_reads(reads: Reads, path: Path) -> None:
    """Write the reads as FASTQ in gzip, in order, named by r and their number of 9 digits."""
    total = reads.bases.shape[0]
    digits = (np.arange(total)[:, None] // 10 ** np.arange(8, -1, -1) % 10 + ord("0")).astype("u1")
    letters = np.concatenate((np.full((total, 1), ord("r"), np.uint8), digits), axis=1)
    names = np.ascontiguousarray(letters).view("S10").reshape(total)
    write_gzip(
        path,
        (
            fastq_text(names[rows], b"", reads.bases[rows], reads.qualities[rows])
            for rows in (
                slice(start, start + READS_PER_BLOCK) for start in range(0, total, READS_PER_BLOCK)
            )
        ),
    )
