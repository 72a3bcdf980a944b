"""How sure correction was of the families of a bucket, in whole numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from umimill.jit import count_bits, kernel
from umimill.kernels.families import compare

U = np.uint64

# Bits of a share, and the least score whose share is 1 in them.
SHARE_BITS = 20
SURE_SCORE = 16 << 10


class Counts(NamedTuple):
    """Sums by sample and bin; columns are named in merge_counts.

    Attributes:
        posteriors: i64[S, P, 3], by bin of the posterior.
        corrections: i64[S, 32, 5], by doublings of reads.
        parents: i64[S, 32, 5], by doublings of the parent's reads.
        keys: i64[S, 1, 3].
    """

    posteriors: Any
    corrections: Any
    parents: Any
    keys: Any


@kernel
def count_merges(
    families: Any, fates: Any, edges: Any, shares: Any, scores: Any, counts: Counts
) -> None:
    """Count families of whole keys.

    Args:
        families: FAMILY[n].
        fates: FATE[n].
        edges: EDGE[n], their best parents.
        shares: i64[2 SURE_SCORE + 1], 2^SHARE_BITS times the posterior of a score, from
            -SURE_SCORE on.
        scores: i64[P - 1], least score of each bin but the first.
        counts: added to.
    """
    key_reads = np.int64(0)
    agreeing = np.int64(0)
    for row in range(families.size):
        family, fate, edge = families[row], fates[row], edges[row]
        sample = np.int64(family["sample"])
        reads = np.int64(family["reads"])
        moved = np.int64(fate["moved"])
        stayed = np.int64(moved == 0 and fate["status"] == 0)
        parent_reads = np.int64(edge["parent_reads"])
        share = np.int64(0)
        if parent_reads > 0:
            score = np.int64(edge["score"])
            place = min(max(score, -SURE_SCORE), SURE_SCORE) + SURE_SCORE
            share = shares[place]
            number = 0
            while number < scores.size and scores[number] <= score:
                number += 1
            cell = counts.posteriors[sample, number]
            cell[0] += 1
            cell[1] += reads
            cell[2] += moved
        doubling = 0
        while reads >> (doubling + 1) > 0:
            doubling += 1
        cell = counts.corrections[sample, doubling]
        cell[0] += 1
        cell[1] += moved
        cell[2] += stayed
        cell[3] += stayed * share
        if parent_reads > 0:
            cell[4] += moved * ((np.int64(1) << SHARE_BITS) - share)
        differ = U(family["key"]) ^ U(edge["parent_key"])
        lanes = (differ | (differ >> U(1))) & U(0x5555555555555555)
        child = np.int64(moved == 1 and parent_reads > 0 and count_bits(lanes) == 1)
        if child == 1 or stayed == 1:
            if child == 1:
                doubling = 0
                while parent_reads >> (doubling + 1) > 0:
                    doubling += 1
            cell = counts.parents[sample, doubling]
            cell[0] += stayed
            cell[1] += stayed * reads
            cell[2] += child
            cell[3] += child * reads
            cell[4] += reads * np.int64(family["umi_length"])
        key_reads += reads
        agreeing += reads * (reads - 1)
        if row + 1 == families.size or compare(family, families[row + 1]) != 0:
            cell = counts.keys[sample, 0]
            cell[0] += 1
            cell[1] += key_reads * (key_reads - 1)
            cell[2] += agreeing
            key_reads = np.int64(0)
            agreeing = np.int64(0)
