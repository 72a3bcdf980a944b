"""Simulated families, their sums as tally writes them, and all pairs of neighbours.

Reads are drawn from a model of molecules, qualities and errors; no FASTQ is made. A family is the
reads of one key whose molecules are of one clone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umimill import model as model_module
from umimill import payloads
from umimill.blockfile import BlockWriter
from umimill.census import Sums

FAMILY = np.dtype(
    [
        ("key", "<u8"),
        ("draft", "<u8"),
        ("mask", "<u4"),
        ("reads", "<u4"),
        ("sample", "<u2"),
        ("family", "<u2"),
        ("umi_length", "u1"),
        ("cell_length", "u1"),
        ("draft_quality", "u1"),
        ("flags", "u1"),
    ]
)
DRAW = np.dtype(
    [
        ("hash", "<u8"),
        ("draft", "<u8"),
        ("mask", "<u4"),
        ("reads", "<u4"),
        ("sample", "<u2"),
        ("draft_quality", "u1"),
        ("padding", "u1", (5,)),
    ]
)
MOST_DRAWS = 2048
BASES = 32
# Of PCR.
CYCLES = 25

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class World:
    """What a library is like.

    Attributes:
        molecules: molecules that were sequenced or not.
        depth: mean reads of a molecule that was seen.
        clones: payloads.
        length: bases of the barcode.
        spread: standard deviation of ln(reads of a molecule).
        levels: Phreds.
        shares: how often each is.
        persistence: how often a base of a barcode has the Phred of the one before.
        hidden: error of barcode bases that their Phred does not know.
        scale: true error over what the Phred says.
        weights: how often A, C, G and T are in barcodes.
        cells: cells; 0 = there are none.
        cell_length: bases of the barcode that are the cell's.
        polymerase: errors of PCR by base and cycle; 0 = there are none.
        seed: seed.
    """

    molecules: int = 20_000
    depth: float = 5.0
    clones: int = 200
    length: int = 12
    spread: float = 0.8
    levels: tuple[int, ...] = (2, 12, 23, 37)
    shares: tuple[float, ...] = (0.0008, 0.034, 0.05, 0.9152)
    persistence: float = 0.0
    hidden: float = 0.0
    scale: float = 1.0
    weights: tuple[float, float, float, float] = (0.25, 0.25, 0.25, 0.25)
    cells: int = 0
    cell_length: int = 0
    polymerase: float = 1e-5
    seed: int = 1

    @property
    def error(self) -> float:
        """Mean error of a barcode base, those of PCR among them."""
        listed = sum(
            share * phred_error(level)
            for level, share in zip(self.levels, self.shares, strict=True)
        )
        return listed * self.scale + self.hidden + CYCLES * self.polymerase


@dataclass
class Library:
    """Families of one sample and the truth about them.

    Attributes:
        families: FAMILY[n], sorted by (key, family).
        quality: u8[n, L].
        phreds: i64[94], barcode bases by Phred.
        width: w of the leaves.
        length: bases of the barcode.
        molecule: i64[n], molecule that most reads of the family are of.
        reachable: bool[n], an error whose true barcode is there, one base away.
        clone: i64[n], payload of each family.
        sizes: i64[*], reads of each molecule.
        wrong: i64[2], in 2^-20: reads with one wrong base in their UMI, wrong bases, by Phred.
    """

    families: Array
    quality: Array
    phreds: Array
    width: int
    length: int
    molecule: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    reachable: Array = field(default_factory=lambda: np.zeros(0, bool))
    own_key: Array = field(default_factory=lambda: np.zeros(0, bool))
    clone: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    sizes: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    wrong: Array = field(default_factory=lambda: np.zeros(2, np.int64))


def phred_error(level: float) -> float:
    return float(min(0.75, 10 ** (-level / 10)))


def _sizes(world: World, draw: np.random.Generator) -> Array:
    """Return reads of each molecule, at least 1, with the mean that is asked for."""
    share = np.exp(draw.normal(0, world.spread, world.molecules))
    share /= share.mean()
    low, high = 1e-3, 2 * world.depth + 1
    for _ in range(60):
        rate = (low + high) / 2
        seen = -np.expm1(-rate * share)
        low, high = (rate, high) if rate < world.depth * seen.mean() else (low, rate)
    sizes = draw.poisson(rate * share)
    while not sizes.all():
        empty = np.flatnonzero(sizes == 0)
        # A molecule without a read is drawn again, so that as many are seen as are asked for.
        again = share[draw.integers(0, world.molecules, empty.size)]
        sizes[empty] = draw.poisson(rate * again)
    return sizes


def _pack(codes: Array) -> Array:
    """Return rows of base codes as u64, the first base in the highest bits."""
    keys = np.zeros(codes.shape[0], np.uint64)
    for place in range(codes.shape[1]):
        keys |= codes[:, place].astype(np.uint64) << np.uint64(62 - 2 * place)
    return keys


def _amplify(true: Array, sizes: Array, world: World, draw: Any) -> Array:
    """Return the barcode of each read as the sequencer gets it: a part of a molecule's may be off.

    Errors of PCR that c of n reads carry are n * polymerase / ln 2 / (c (c - 1)), c >= 2; one read
    has those of all cycles.
    """
    starts = np.cumsum(sizes) - sizes
    copies = np.repeat(true, sizes, axis=0)
    for every, single in ((CYCLES, True), (1 / np.log(2), False)):
        events = draw.poisson(sizes * (world.length * world.polymerase * every))
        for one in np.flatnonzero(events).tolist():
            size, place = int(sizes[one]), int(draw.integers(world.length))
            carriers = 1 if single else int(1 / draw.random()) + 1
            if carriers <= size // 2 or single:
                first = int(starts[one]) + int(draw.integers(size - carriers + 1))
                base = (true[one, place] + draw.integers(1, 4)) % 4
                copies[first : first + carriers, place] = base
    return copies


def _misread(codes: Array, phreds: Array, extra: float, scale: float, draw: Any) -> Array:
    table = np.array([phred_error(level) for level in range(94)]) * scale + extra
    wrong = draw.random(codes.shape) < table[phreds]
    return np.where(wrong, (codes + draw.integers(1, 4, codes.shape)) % 4, codes).astype(np.uint8)


def simulate(world: World) -> Library:
    """Draw a library."""
    draw = np.random.default_rng(world.seed)
    sizes = _sizes(world, draw)
    true = draw.choice(4, (world.molecules, world.length), p=world.weights).astype(np.uint8)
    if world.cells:
        cells = draw.integers(0, 4, (world.cells, world.cell_length), dtype=np.uint8)
        true[:, : world.cell_length] = cells[draw.integers(0, world.cells, world.molecules)]
    clone = draw.integers(0, world.clones, world.molecules)
    payload = draw.integers(0, 4, (world.clones, BASES), dtype=np.uint8)
    molecule = np.repeat(np.arange(world.molecules), sizes)
    shape = molecule.size, world.length
    phreds = draw.choice(world.levels, shape, p=world.shares).astype(np.uint8)
    for place in range(1, world.length if world.persistence else 0):
        same = draw.random(molecule.size) < world.persistence
        phreds[same, place] = phreds[same, place - 1]
    copies = _amplify(true, sizes, world, draw)
    read = _misread(copies, phreds, world.hidden, world.scale, draw)
    keys = _pack(read)
    order = np.lexsort((clone[molecule], keys))
    keys, molecule, phreds, read = keys[order], molecule[order], phreds[order], read[order]
    owner = clone[molecule]
    starts = np.ones(keys.size, bool)
    starts[1:] = (keys[1:] != keys[:-1]) | (owner[1:] != owner[:-1])
    family = np.cumsum(starts) - 1
    first = np.flatnonzero(starts)
    reads = np.diff(np.append(first, keys.size))
    families = np.zeros(first.size, FAMILY)
    families["key"], families["reads"] = keys[first], reads
    families["cell_length"] = world.cell_length
    families["umi_length"] = world.length - world.cell_length
    same_key = np.zeros(first.size, bool)
    same_key[1:] = families["key"][1:] == families["key"][:-1]
    number = np.arange(first.size)
    families["family"] = number - np.maximum.accumulate(np.where(same_key, 0, number))
    sums = np.add.reduceat(phreds.astype(np.int64), first, axis=0)
    quality = np.minimum((4 * sums + reads[:, None]) // (2 * reads[:, None]), 186).astype(np.uint8)
    _add_drafts(families, payload[owner], family, world, draw)
    library = Library(
        families,
        quality,
        np.bincount(phreds.reshape(-1), minlength=94).astype(np.int64),
        min(4, world.length // 2),
        world.length,
    )
    _add_truth(library, family, molecule, true)
    library.clone, library.sizes = clone[library.molecule], sizes
    library.wrong = wrong_bases(phreds[:, world.cell_length :])
    return library


def wrong_bases(phreds: Array) -> Array:
    """Return i64[2], in 2^-20: reads of which one base alone is wrong, and wrong bases.

    Args:
        phreds: of the UMIs of reads, a row each.
    """
    errors = np.array([phred_error(level) for level in range(94)])[phreds]
    alone = (errors / (1 - errors)).sum(1) * (1 - errors).prod(1)
    return np.rint(np.array([alone.sum(), errors.sum()]) * (1 << 20)).astype(np.int64)


def _add_drafts(families: Array, codes: Array, family: Array, world: World, draw: Any) -> None:
    """Draft of each family from payload bases of its reads, with the qualities of the world."""
    phreds = draw.choice(world.levels, codes.shape, p=world.shares)
    read = _misread(codes, phreds, 0.0, world.scale, draw)
    planes = np.zeros((families.size * BASES, 4), np.int64)
    place = family[:, None] * BASES + np.arange(BASES)
    known = phreds >= 10
    np.add.at(planes, (place[known], read[known]), phreds[known])
    best = planes.max(1).reshape(-1, BASES)
    total = planes.sum(1).reshape(-1, BASES)
    families["draft"] = _pack(np.where(total > 0, planes.argmax(1).reshape(-1, BASES), 0))
    mask = np.zeros(families.size, np.uint64)
    for base in range(BASES):
        mask |= (total[:, base] > 0).astype(np.uint64) << np.uint64(31 - base)
    families["mask"] = mask
    margin = np.where(total > 0, np.clip(2 * best - total, 0, 40), 0)
    count = np.maximum(1, (total > 0).sum(1))
    families["draft_quality"] = 2 * margin.sum(1) // count


def _add_truth(library: Library, family: Array, molecule: Array, true: Array) -> None:
    # Reads of a molecule in a family; the molecule with most of them owns it.
    pair, count = np.unique(family * (1 << 32) + molecule, return_counts=True)
    owner_family, owner = pair >> 32, pair & ((1 << 32) - 1)
    order = np.lexsort((-count, owner_family))
    first = np.ones(order.size, bool)
    first[1:] = owner_family[order][1:] != owner_family[order][:-1]
    library.molecule = owner[order][first]
    true_keys = _pack(true)
    right = np.zeros(true_keys.size, bool)
    own = library.families["key"] == true_keys[library.molecule]
    right[library.molecule[own]] = True
    apart = library.families["key"] ^ true_keys[library.molecule]
    bases = (apart | (apart >> np.uint64(1))) & np.uint64(0x5555555555555555)
    one = np.bitwise_count(bases) == 1
    library.own_key = own
    library.reachable = one & right[library.molecule]


def base_codes(library: Library) -> Array:
    """Return u8[n, L], the bases of the barcodes."""
    shifts = np.array([62 - 2 * place for place in range(library.length)], np.uint64)
    return ((library.families["key"][:, None] >> shifts) & np.uint64(3)).astype(np.uint8)


def neighbours(library: Library) -> tuple[Array, Array, Array]:
    """Return (row, row, position) of all pairs one substitution apart, the smaller row first."""
    found = []
    keys = library.families["key"]
    for place in range(library.length):
        rest = keys & ~(np.uint64(3) << np.uint64(62 - 2 * place))
        order = np.lexsort((keys, rest))
        rest, sorted_keys = rest[order], keys[order]
        step = 1
        while step < keys.size:
            near = np.flatnonzero(rest[step:] == rest[:-step])
            if near.size == 0:
                break
            differ = near[sorted_keys[near] != sorted_keys[near + step]]
            left, right = order[differ], order[differ + step]
            found.append(
                (np.minimum(left, right), np.maximum(left, right), np.full(left.size, place))
            )
            step += 1
    if not found:
        empty = np.zeros(0, np.int64)
        return empty, empty, empty
    first, second, position = (np.concatenate(one) for one in zip(*found, strict=True))
    order = np.lexsort((position, second, first))
    return first[order], second[order], position[order]


def compared_mismatches(families: Array, first: Array, second: Array) -> tuple[Array, Array]:
    """Return (bases known in both drafts, bases of them that differ) of pairs of rows."""
    known = families["mask"][first] & families["mask"][second]
    apart = families["draft"][first] ^ families["draft"][second]
    low = (apart | (apart >> np.uint64(1))) & np.uint64(0x5555555555555555)
    differ = np.zeros(first.size, np.int64)
    for base in range(BASES):
        both = (known >> np.uint32(31 - base)) & np.uint32(1)
        differ += ((low >> np.uint64(62 - 2 * base)) & np.uint64(1)).astype(np.int64) * both
    return np.bitwise_count(known).astype(np.int64), differ


def agree(compared: Array, differ: Array) -> Array:
    """Return whether drafts are compatible; no evidence is."""
    return (compared < 12) | (differ <= (3 * compared + 16) // 32)


def _mix(word: Array) -> Array:
    word = word + np.uint64(0x9E3779B97F4A7C15)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


def sums(library: Library, rows: Array | None = None, sample: int = 0, samples: int = 1) -> Any:
    """Return the sums of families as tally writes them; of some rows' families where asked.

    A pair belongs to the sums of its smaller row, so those of disjoint rows add up.
    """
    chosen = np.arange(library.families.size) if rows is None else rows
    families = library.families[chosen]
    sizes, counts = np.unique(families["reads"], return_counts=True)
    composition = np.zeros((samples, 32, 4), np.int64)
    codes = base_codes(library)[chosen]
    for place in range(library.length):
        composition[sample, place] = np.bincount(codes[:, place], minlength=4)
    phreds = np.zeros((samples, 94), np.int64)
    wrong = np.zeros((samples, 2), np.int64)
    # The first part of a split has all the reads' Phreds.
    if rows is None or 0 in rows:
        phreds[sample] = library.phreds
        wrong[sample] = library.wrong
    draws = np.zeros(families.size, DRAW)
    lengths = families["umi_length"].astype(np.uint64) << np.uint64(16)
    lengths |= families["cell_length"].astype(np.uint64) << np.uint64(24)
    draws["hash"] = _mix(families["key"] ^ _mix(families["family"] | lengths))
    for name in ("draft", "mask", "reads", "draft_quality"):
        draws[name] = families[name]
    draws["sample"] = sample
    draws = draws[np.argsort(draws["hash"], kind="stable")][:MOST_DRAWS]
    first, second, position = neighbours(library)
    cell = int(library.families["cell_length"].max(initial=0))
    mine = np.isin(first, chosen) & (position >= max(library.width, cell))
    first, second, position = first[mine], second[mine], position[mine]
    alike = agree(*compared_mismatches(library.families, first, second))
    pairs = np.zeros((samples, 32, 2), np.int64)
    np.add.at(pairs, (sample, position, 0), 1)
    np.add.at(pairs, (sample, position[alike], 1), 1)
    reads = library.families["reads"].astype(np.int64)
    small = np.minimum(reads[first], reads[second])[alike]
    large = np.maximum(reads[first], reads[second])[alike]
    pair_sizes = np.zeros((samples, 32, 64), np.int64)
    counted = (large >= 2 * small) | (large == 1)
    larger = np.log2(large[counted]).astype(np.int64)
    np.add.at(pair_sizes, (sample, larger, np.minimum(small, 63)[counted]), 1)
    return {
        "sizes": np.stack([np.full(sizes.size, sample), sizes, counts], 1).astype(np.int64),
        "composition": composition,
        "barcode_phred": phreds,
        "barcode_wrong": wrong,
        "draws": draws,
        "pairs": pairs,
        "pair_sizes": pair_sizes,
        "minors": np.zeros((samples, 6), np.int64),
        "minor_sizes": np.zeros((samples, 64), np.int64),
        "cells": np.array([_cells(families, cell)] * samples),
    }


def _cells(families: Array, length: int) -> list[int]:
    """Return families in cells, the sum over these of the families of their cell, its bases."""
    if not length:
        return [0, 0, 0]
    counts = np.unique(families["key"] >> np.uint64(64 - 2 * length), return_counts=True)[1]
    return [families.size, int((counts**2).sum()), length]


def write_sums(path: Path, arrays: dict[str, Array]) -> Path:
    """Write sums as tally's file; the families are not needed."""
    with BlockWriter(path) as writer:
        for name, array in arrays.items():
            writer.add(name, array)
        writer.finish({"bucket": 0})
    return path


def write_plan(path: Path, samples: Sequence[str], widths: Sequence[int]) -> Path:
    """Write as much of a plan as `read_plan` wants."""
    count = len(samples)
    with BlockWriter(path) as writer:
        names = ("groups", "bounds", "rows", "bases", "hash_sums", "tile")
        for name in (*names, "partial_rows", "partial_hash_sums"):
            writer.add(name, np.zeros(count, np.int64))
        writer.finish(
            {
                "partitions": [],
                "partials": [],
                "samples": list(samples),
                "widths": list(widths),
                "buckets": 1,
            }
        )
    return path


def sample_sums(library: Library) -> Sums:
    """Return the sums of a library as the census takes them."""
    arrays = sums(library)
    return model_module.sample_sums(
        arrays, 0, library.width, payloads.draft_error_table(arrays["barcode_phred"][0])
    )
