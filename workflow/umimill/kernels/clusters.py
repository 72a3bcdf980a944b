"""Clusters of the drafts of one key: distinct drafts, leaders among them, and sums of their reads.

The result depends on which reads there are, not on their order; kernels/tally.py has the steps.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from umimill.jit import count_bits, inline_kernel, store_word
from umimill.kernels.bases import splitmix64, spread_eight
from umimill.kernels.drafts import (
    DRAFT_BASES,
    LEAST_COMPARED,
    Drafts,
    compare_lanes,
    mask_to_lanes,
    mismatch_limit,
)

U = np.uint64

# Entries of Clusters.state: distinct drafts, slots in use, whether some were cut, leaders, whether
# there were more, reads that say nothing.
DISTINCT, SLOTS, CUT, LEADERS, FULL, WAITING = range(6)


class Clusters(NamedTuple):
    """Buffers for the clusters of one key.

    D is twice the most distinct drafts that leaders are chosen from, F the most families.

    Attributes:
        draft: u64[D], distinct drafts.
        mask: u32[D], their masks.
        count: i64[D], their reads.
        order: i64[D], their numbers in order.
        slots: i64[2 D], hash table: number + 1; D is a power of two.
        state: i64[6], see the constants.
        bound: u64[3], hash, draft and mask of the last draft kept, where some were cut.
        leader: u64[F], drafts of leaders.
        lanes: u64[F], their masks in lanes.
        planes: i64[F, 4, 32], sums of Phred by base and position.
        barcode: i64[F + 1, 32], sums of the barcode's Phreds by family, the last for reads that
            say nothing.
        shifted: i64[F], reads that fit the first leader's family, starting some bases beside.
        codes: u8[32], scratch.
    """

    draft: Any
    mask: Any
    count: Any
    order: Any
    slots: Any
    state: Any
    bound: Any
    leader: Any
    lanes: Any
    planes: Any
    barcode: Any
    shifted: Any
    codes: Any


# -- distinct drafts -------------------------------------------------------------------------------


@inline_kernel
def hash_draft(draft: Any, mask: Any) -> Any:
    """Return the hash that chooses among too many drafts."""
    rotated = (U(mask) << U(29)) | (U(mask) >> U(35))
    return splitmix64(draft ^ rotated)


@inline_kernel
def begin_key(clusters: Clusters, rows: int) -> None:
    """Clear what the steps of a key fill; `rows` is the most that will be collected."""
    size = 8
    while size < clusters.slots.size and size < 2 * rows:
        size *= 2
    clusters.slots[:size] = 0
    clusters.state[:] = 0
    clusters.state[SLOTS] = size
    clusters.barcode[clusters.leader.size] = 0


@inline_kernel
def is_before(clusters: Clusters, first: int, second: int, by_hash: int) -> bool:
    """Return whether one distinct draft comes before another.

    By hash; or drafts that can be compared at all first, then by reads, then by known bases, both
    descending, then by draft and mask.
    """
    mask_1, mask_2 = clusters.mask[first], clusters.mask[second]
    draft_1, draft_2 = clusters.draft[first], clusters.draft[second]
    if by_hash:
        hash_1, hash_2 = hash_draft(draft_1, mask_1), hash_draft(draft_2, mask_2)
        if hash_1 != hash_2:
            return hash_1 < hash_2
    else:
        known_1, known_2 = count_bits(U(mask_1)), count_bits(U(mask_2))
        if (known_1 >= LEAST_COMPARED) != (known_2 >= LEAST_COMPARED):
            return known_1 >= LEAST_COMPARED
        if clusters.count[first] != clusters.count[second]:
            return clusters.count[first] > clusters.count[second]
        if known_1 != known_2:
            return known_1 > known_2
    if draft_1 != draft_2:
        return draft_1 < draft_2
    return mask_1 < mask_2


@inline_kernel
def sink(clusters: Clusters, root: int, stop: int, by_hash: int) -> None:
    """Restore the heap (last in order on top) of order[:stop] below `root`."""
    order = clusters.order
    moved = order[root]
    child = 2 * root + 1
    while child < stop:
        if child + 1 < stop and is_before(clusters, order[child], order[child + 1], by_hash):
            child += 1
        if not is_before(clusters, moved, order[child], by_hash):
            break
        order[root] = order[child]
        root = child
        child = 2 * root + 1
    order[root] = moved


@inline_kernel
def sort_distinct(clusters: Clusters, by_hash: int) -> None:
    """Fill `order` with the distinct drafts in order: a heap sort."""
    count = clusters.state[DISTINCT]
    order = clusters.order
    for number in range(count):
        order[number] = number
    for root in range(count // 2 - 1, -1, -1):
        sink(clusters, root, count, by_hash)
    for stop in range(count - 1, 0, -1):
        top = order[0]
        order[0] = order[stop]
        order[stop] = top
        sink(clusters, 0, stop, by_hash)


@inline_kernel
def find_slot(clusters: Clusters, draft: Any, mask: Any) -> int:
    """Return the slot of a draft, or the empty one where it belongs."""
    wrap = clusters.state[SLOTS] - 1
    slot = np.int64(hash_draft(draft, mask) >> U(1)) & wrap
    while clusters.slots[slot] > 0:
        number = clusters.slots[slot] - 1
        if clusters.draft[number] == draft and clusters.mask[number] == mask:
            break
        slot = (slot + 1) & wrap
    return slot


@inline_kernel
def cut_distinct(clusters: Clusters) -> None:
    """Keep the distinct drafts of smallest hash, half of what there is room for."""
    most = clusters.draft.size // 2
    if clusters.state[DISTINCT] <= most:
        return
    sort_distinct(clusters, 1)
    last = clusters.order[most - 1]
    clusters.bound[0] = hash_draft(clusters.draft[last], clusters.mask[last])
    clusters.bound[1] = clusters.draft[last]
    clusters.bound[2] = U(clusters.mask[last])
    clusters.state[CUT] = 1
    kept = np.int64(0)
    for number in range(clusters.state[DISTINCT]):
        draft, mask = clusters.draft[number], clusters.mask[number]
        if is_beyond(clusters, draft, mask):
            continue
        clusters.draft[kept] = draft
        clusters.mask[kept] = mask
        clusters.count[kept] = clusters.count[number]
        kept += 1
    clusters.state[DISTINCT] = kept
    clusters.slots[: clusters.state[SLOTS]] = 0
    for number in range(kept):
        clusters.slots[find_slot(clusters, clusters.draft[number], clusters.mask[number])] = (
            number + 1
        )


@inline_kernel
def is_beyond(clusters: Clusters, draft: Any, mask: Any) -> bool:
    """Return whether a draft comes behind those that were kept."""
    if clusters.state[CUT] == 0:
        return False
    code = hash_draft(draft, mask)
    if code != clusters.bound[0]:
        return code > clusters.bound[0]
    if draft != clusters.bound[1]:
        return draft > clusters.bound[1]
    return U(mask) > clusters.bound[2]


@inline_kernel
def collect(clusters: Clusters, draft: Any, mask: Any) -> None:
    """Count a read's draft. What is kept at last was never cut, so its count is exact."""
    slot = find_slot(clusters, draft, mask)
    if clusters.slots[slot] > 0:
        clusters.count[clusters.slots[slot] - 1] += 1
        return
    if is_beyond(clusters, draft, mask):
        return
    number = clusters.state[DISTINCT]
    clusters.draft[number] = draft
    clusters.mask[number] = mask
    clusters.count[number] = 1
    clusters.slots[slot] = number + 1
    clusters.state[DISTINCT] = number + 1
    if number + 1 == clusters.draft.size:
        cut_distinct(clusters)


# -- leaders ---------------------------------------------------------------------------------------


@inline_kernel
def add_leader(clusters: Clusters, draft: Any, mask: Any) -> None:
    """Make a draft a leader, with empty sums."""
    number = clusters.state[LEADERS]
    clusters.leader[number] = draft
    clusters.lanes[number] = mask_to_lanes(mask)
    clusters.planes[number] = 0
    clusters.barcode[number] = 0
    clusters.shifted[number] = 0
    clusters.state[LEADERS] = number + 1


@inline_kernel
def choose_leaders(clusters: Clusters) -> None:
    """Choose leaders: each distinct draft in order joins a leader or is the next."""
    cut_distinct(clusters)
    sort_distinct(clusters, 0)
    for place in range(clusters.state[DISTINCT]):
        draft = clusters.draft[clusters.order[place]]
        mask = clusters.mask[clusters.order[place]]
        lanes = mask_to_lanes(mask)
        evidence = False
        joined = False
        for number in range(clusters.state[LEADERS]):
            mismatches, compared = compare_lanes(
                draft, lanes, clusters.leader[number], clusters.lanes[number]
            )
            if compared >= LEAST_COMPARED:
                evidence = True
                if mismatches <= mismatch_limit(compared):
                    joined = True
                    break
        if joined or not (evidence or place == 0):
            continue
        if clusters.state[LEADERS] == clusters.leader.size:
            clusters.state[FULL] = 1
        else:
            add_leader(clusters, draft, mask)


@inline_kernel
def find_leader(clusters: Clusters, draft: Any, mask: Any) -> int:
    """Return the leader of fewest mismatches, then most compared, or -1 without evidence."""
    lanes = mask_to_lanes(mask)
    best = np.int64(-1)
    fewest = np.int64(0)
    most = np.int64(0)
    for number in range(clusters.state[LEADERS]):
        mismatches, compared = compare_lanes(
            draft, lanes, clusters.leader[number], clusters.lanes[number]
        )
        if compared < LEAST_COMPARED:
            continue
        if best < 0 or mismatches < fewest or (mismatches == fewest and compared > most):
            best = np.int64(number)
            fewest = mismatches
            most = compared
    return best


@inline_kernel
def add_plane(plane: Any, codes: Any, quality: Any, base: int) -> None:
    """Add the Phreds of one base. A loop a base: with four in one it is not vectorised."""
    zero = np.uint8(0)
    for position in range(DRAFT_BASES):
        plane[position] += quality[position] if codes[position] == base else zero


@inline_kernel
def add_to_leader(clusters: Clusters, drafts: Drafts, row: int) -> None:
    """Add a read's Phreds to the planes of its leader."""
    draft = drafts.draft[row]
    leader = find_leader(clusters, draft, drafts.mask[row])
    if leader < 0:
        return
    codes = clusters.codes
    for eighth in range(4):
        store_word(codes, 8 * eighth, spread_eight(draft >> U(48 - 16 * eighth)))
    at = DRAFT_BASES * row
    quality = drafts.quality[at : at + DRAFT_BASES]
    for base in range(4):
        add_plane(clusters.planes[leader, base], codes, quality, base)
