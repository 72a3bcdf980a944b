"""The steps of the simulator, in arrays: molecules, history of the reads, bases, errors.

The numbers of the steps are those of the model described in `simulate`.
"""

from dataclasses import dataclass

import numpy as np

from umimill.simulate_parameters import SimulationParameters
from umimill.synthetic import (
    ALPHABET,
    Bytes,
    Flags,
    Integers,
    cumulative_cuts,
    draw_below,
    draw_class,
    draw_family_sizes,
    draw_hits,
    draw_qualities,
    draw_words,
    replace_bases,
)

ADAPTER = "AGATCGGAAGAGC"


@dataclass(frozen=True)
class LibraryModel:
    """Molecules with reads, and base codes 0..3 of patterns (N is 0) and clones."""

    heads: Bytes
    clones: Bytes
    sample: Integers
    umi: Bytes
    clone: Integers
    sizes: Integers


@dataclass(frozen=True)
class ReadModel:
    """What is decided of reads before their bases are made: per-read arrays, then PCR errors."""

    molecule: Integers
    other_clone: Integers
    breakpoint: Integers
    shift: Integers
    front: Integers
    edit_read: Integers  # ascending
    edit_place: Integers  # base of UMI + insert
    edit_change: Integers  # 1..3, added to the base code modulo 4

    def block(self, start: int, stop: int) -> "ReadModel":
        """Return reads start .. stop - 1, numbered from 0."""
        low, high = np.searchsorted(self.edit_read, [start, stop])
        return ReadModel(
            self.molecule[start:stop],
            self.other_clone[start:stop],
            self.breakpoint[start:stop],
            self.shift[start:stop],
            self.front[start:stop],
            self.edit_read[low:high] - start,
            self.edit_place[low:high],
            self.edit_change[low:high],
        )


def _codes(text: str) -> Bytes:
    table = np.zeros(256, np.uint8)
    table[ALPHABET] = np.arange(4)
    return table[np.frombuffer(text.upper().encode(), np.uint8)]


def _zipf_weights(parameters: SimulationParameters) -> list[float]:
    return [(clone + 1) ** -parameters.zipf_exponent for clone in range(parameters.clones)]


def draw_library(source: np.random.PCG64, parameters: SimulationParameters) -> LibraryModel:
    """Draw clones and molecules (steps 1 and 2), without the molecules that get no read."""
    shape, families = (parameters.clones, parameters.insert), parameters.clone_families
    clones = draw_below(source, 4, families or shape[0], shape[1]).astype(np.uint8)
    if families:
        clones = clones[np.arange(shape[0]) % families]
        replace_bases(source, clones, draw_hits(source, parameters.family_divergence, *shape))
    made = parameters.molecules
    sample = draw_below(source, len(parameters.samples), made)
    umi = draw_below(source, 4, made, parameters.umi_columns.size).astype(np.uint8)
    clone = draw_class(source, _zipf_weights(parameters), made)
    if parameters.uniform_reads:
        sizes = 1 + draw_below(source, parameters.uniform_reads, made)
    else:
        sizes = draw_family_sizes(source, made, parameters.mean_reads, parameters.sigma_reads)
    seen = sizes > 0
    heads = np.array([_codes(layout) for layout in parameters.layouts])
    return LibraryModel(heads, clones, sample[seen], umi[seen], clone[seen], sizes[seen])


def draw_reads(
    source: np.random.PCG64, parameters: SimulationParameters, library: LibraryModel
) -> ReadModel:
    """Draw the history of every read (steps 3 to 5 and 7) and shuffle the reads."""
    molecule = np.repeat(np.arange(library.sizes.size), library.sizes)
    tagged = molecule.size
    shared = _shared_cycles(source, molecule, parameters.pcr_cycles)
    umi_length = parameters.umi_columns.size
    edits = _pcr_errors(source, parameters, shared, umi_length, parameters.barcode_pcr_error)
    inner = _pcr_errors(source, parameters, shared, parameters.insert, parameters.pcr_error)
    inner[1] += umi_length
    edits = np.concatenate((edits, inner), axis=1)

    chimera = draw_hits(source, parameters.chimera_share, tagged)
    other = np.full(tagged, -1)
    other[chimera] = _draw_other_clone(source, parameters, library.clone[molecule[chimera]])
    breakpoint_ = np.full(tagged, -1)
    if parameters.insert > 1:
        places = draw_below(source, parameters.insert - 1, int(chimera.sum()))
        breakpoint_[chimera] = 1 + places
    shift = np.where(draw_hits(source, parameters.shift_share, tagged), 1, 0)
    shift *= 2 * draw_below(source, 2, tagged) - 1
    front = np.where(draw_hits(source, parameters.front_share, tagged), 1, 0)
    front *= np.minimum(1 + draw_below(source, parameters.front_bases, tagged),
                        parameters.front_bases)  # fmt: skip

    foreign = round(tagged * parameters.foreign_share / (1 - parameters.foreign_share))
    order = np.argsort(draw_words(source, tagged + foreign), kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    edits[0] = rank[edits[0]]
    edits = edits[:, np.argsort(edits[0], kind="stable")]
    columns = [
        np.concatenate((values, np.full(foreign, blank)))[order]
        for values, blank in zip(
            (molecule, other, breakpoint_, shift, front), (-1, -1, -1, 0, 0), strict=True
        )
    ]
    return ReadModel(*columns, *edits)


def _shared_cycles(source: np.random.PCG64, molecule: Integers, cycles: int) -> Integers:
    """Draw PCR paths; return how many cycles a read shares with the read before it.

    Reads of a molecule are put in order of path, so that the reads below any branch of the tree
    follow one another, and two reads share the least of what the steps between them share.
    """
    path = draw_words(source, molecule.size) >> np.uint64(64 - cycles)
    path = path[np.lexsort((path, molecule))]
    differing = np.frexp((path[1:] ^ path[:-1]).astype(np.float64))[1]
    shared = np.zeros(molecule.size, np.int64)
    shared[1:] = np.where(molecule[1:] == molecule[:-1], cycles - differing, 0)
    return shared


def _pcr_errors(
    source: np.random.PCG64,
    parameters: SimulationParameters,
    shared: Integers,
    length: int,
    error: float,
) -> Integers:
    """Draw PCR errors of `length` bases on the branches of all trees.

    A read adds the branches of the cycles it does not share with the read before; the number of
    errors on them is binomial, their cycles and places uniform.

    Returns:
        int64 of shape (3, errors seen): read, place, change; a row for each read below an error.
    """
    fresh = parameters.pcr_cycles - shared
    chance = draw_words(source, shared.size) >> np.uint64(11)
    count = np.zeros(shared.size, np.int64)
    for depth in range(1, parameters.pcr_cycles + 1):
        rows = np.flatnonzero(fresh == depth)
        cuts = np.array(_binomial_cuts(depth * length, error), np.uint64)
        count[rows] = np.searchsorted(cuts, chance[rows], side="right")
    read = np.repeat(np.arange(shared.size), count)
    cycle = shared[read] + 1 + draw_below(source, fresh[read], read.size)
    place = draw_below(source, length, read.size)
    change = 1 + draw_below(source, 3, read.size)
    found = [np.stack((read, place, change))]
    while read.size:
        read = read + 1
        below = read < shared.size
        below[below] = shared[read[below]] >= cycle[below]
        read, cycle, place, change = read[below], cycle[below], place[below], change[below]
        found.append(np.stack((read, place, change)))
    return np.concatenate(found, axis=1)


def _binomial_cuts(trials: int, probability: float) -> list[int]:
    """Return floor(2^53 P(X <= k)) for k = 0, 1 .. as long as it is below 2^53 (by 2^10)."""
    if probability >= 1:
        return [0] * trials
    term = (1 - probability) ** trials
    cuts, cumulated = [], 0.0
    for k in range(trials):
        cumulated += term
        if cumulated >= 1 - 2.0**-43:
            break
        cuts.append(int(cumulated * 2**53))
        term *= (trials - k) / (k + 1) * probability / (1 - probability)
    return cuts


def _draw_other_clone(
    source: np.random.PCG64, parameters: SimulationParameters, clone: Integers
) -> Integers:
    """Draw clones by the Zipf law among those that are not `clone`."""
    cuts = np.array(cumulative_cuts(_zipf_weights(parameters), 2**31 - 1), np.int64)
    own = cuts[clone + 1] - cuts[clone]
    point = draw_below(source, cuts[-1] - own, clone.size)
    point += np.where(point >= cuts[clone], own, 0)
    return np.searchsorted(cuts, point, side="right") - 1


def composition(library: LibraryModel) -> list[float]:
    """Count A, C, G, T in the clean strands (pattern, UMI, insert) of all tagged reads."""
    places = np.zeros(4, np.int64)
    heads = np.bincount(library.sample, library.sizes, library.heads.shape[0]).astype(np.int64)
    inserts = np.bincount(library.clone, library.sizes, library.clones.shape[0]).astype(np.int64)
    for base in range(4):
        places[base] += ((library.heads == base).sum(axis=1) * heads).sum()
        places[base] += ((library.clones == base).sum(axis=1) * inserts).sum()
        places[base] += ((library.umi == base).sum(axis=1) * library.sizes).sum()
    # The N of the patterns have code 0 and were counted as A.
    places[0] -= library.umi.shape[1] * library.sizes.sum()
    return [float(count) for count in places]


def strands(parameters: SimulationParameters, library: LibraryModel, reads: ReadModel) -> Bytes:
    """Return pattern + insert of each read, with PCR errors and chimeras; (reads, bases) codes."""
    head, columns = library.heads.shape[1], parameters.umi_columns
    strands = np.concatenate(
        (library.heads[library.sample[reads.molecule]],
         library.clones[library.clone[reads.molecule]]), axis=1)  # fmt: skip
    strands[:, columns] = library.umi[reads.molecule]
    edited = np.concatenate((columns, head + np.arange(parameters.insert)))
    changes = reads.edit_change.astype(np.uint8)
    np.add.at(strands, (reads.edit_read, edited[reads.edit_place]), changes)
    strands &= 3
    rows = np.flatnonzero(reads.breakpoint >= 0)
    beyond = np.arange(parameters.insert) >= reads.breakpoint[rows, None]
    other = library.clones[reads.other_clone[rows]]
    strands[rows, head:] = np.where(beyond, other, strands[rows, head:])
    return strands


def _with_tail(codes: Bytes, cycles: int) -> Bytes:
    """Append adapter and then G to rows of codes, at least up to cycles + 1 bases."""
    tail = _codes(ADAPTER.ljust(max(cycles + 1 - codes.shape[1], len(ADAPTER)), "G"))
    return np.concatenate((codes, np.broadcast_to(tail, (codes.shape[0], tail.size))), axis=1)


def read1_bases(
    source: np.random.PCG64,
    parameters: SimulationParameters,
    strands: Bytes,
    reads: ReadModel,
    head: int,
) -> Bytes:
    """Return what read 1 shows of the strands, with shifts and bases in front; codes."""
    cycles = head + parameters.payload_length
    strands = _with_tail(strands, cycles)
    codes = np.ascontiguousarray(strands[:, :cycles])
    rows = np.flatnonzero((reads.front > 0) | (reads.shift != 0))
    shift, front = reads.shift[rows, None], reads.front[rows, None]
    place = np.arange(cycles) - front
    random = (place < 0) | ((shift > 0) & (place == head))
    place = place + ((shift < 0) & (place >= head - 1)) - ((shift > 0) & (place > head))
    moved = np.take_along_axis(strands[rows], np.maximum(place, 0), axis=1)
    moved[random] = draw_below(source, 4, int(random.sum()))
    codes[rows] = moved
    return codes


def read2_bases(strands: Bytes, cycles: int) -> Bytes:
    """Return the start of the reverse complement of the strands; codes."""
    return np.ascontiguousarray(_with_tail(3 - strands[:, ::-1], cycles)[:, :cycles])


def draw_quality(
    source: np.random.PCG64, parameters: SimulationParameters, shape: tuple[int, ...]
) -> tuple[Bytes, Flags]:
    """Return Phred values and where sequencing errs (steps 8 and 9), both of the shape given."""
    phred, wrong = draw_qualities(
        source, shape[0], shape[1], parameters.quality_levels, parameters.quality_shares,
        parameters.quality_persistence)  # fmt: skip
    return phred, wrong & (parameters.mean_error > 0)


def barcode_places(
    parameters: SimulationParameters, reads: ReadModel, head: int
) -> tuple[Integers, Flags]:
    """Return where UMI bases are in read 1 and whether they are there; (reads, UMI length)."""
    columns = parameters.umi_columns
    lost = (reads.shift[:, None] < 0) & (columns == head - 1)
    return columns + reads.front[:, None], (reads.molecule[:, None] >= 0) & ~lost


def apply_barcode_law(
    source: np.random.PCG64,
    parameters: SimulationParameters,
    wrong: Flags,
    place: Integers,
    there: Flags,
) -> None:
    """Thin or add to the sequencing errors of UMI bases, in place (step 10)."""
    pcr = parameters.pcr_cycles * parameters.barcode_pcr_error
    wanted, mean = np.maximum(parameters.barcode_errors - pcr, 0.0), parameters.mean_error
    kept = np.minimum(wanted / mean, 1.0) if mean > 0 else np.ones_like(wanted)
    added = np.maximum(wanted - mean, 0.0)
    words = draw_words(source, *place.shape)
    keep = words >> np.uint64(32) < np.rint(kept * 2**32).astype(np.uint64)
    add = words & np.uint64(2**32 - 1) < np.rint(added * 2**32).astype(np.uint64)
    before = np.take_along_axis(wrong, place, axis=1)
    np.put_along_axis(wrong, place, np.where(there, (before & keep) | add, before), axis=1)
