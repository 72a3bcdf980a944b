"""Layout rows as the matcher and as its oracle have them, reads, and tags."""

from __future__ import annotations

import random
from collections.abc import Sequence

from hypothesis import strategies as st

import kernel_wrappers as wrapped
from kernel_cases import (
    LETTERS,
    compiled,
    foreign_of,
    kernel_read,
    oracle_rows,
    random_sequence,
    row_scratch,
    scratch_for,
)
from oracle_match import ASSIGNED, Read, Row
from umimill.kernels.match import Foreign, Match, Patterns
from umimill.layout import SampleLayout, check_row

EVEN = (0.25, 0.25, 0.25, 0.25)
NO_FOREIGN = foreign_of(0.001, EVEN)
EMPTY: Read = ("", [])


class Library:
    """Layout rows in both forms, with the buffers of a worker."""

    def __init__(
        self,
        layouts: Sequence[str | tuple[str, str]],
        samples: Sequence[int] | None = None,
        foreign: Foreign = NO_FOREIGN,
    ) -> None:
        numbers = range(len(layouts)) if samples is None else samples
        sides = [one if isinstance(one, tuple) else (one, "") for one in layouts]
        rows = [
            SampleLayout(sample, check_row(*pair).sides)
            for sample, pair in zip(numbers, sides, strict=True)
        ]
        self.patterns: Patterns = compiled(rows)
        self.rows: list[Row] = oracle_rows(rows)
        self.foreign = foreign
        self._scratch = scratch_for(400)
        self._row_scratch, self._places = row_scratch(self.patterns)

    def match(self, read: Read, mate: Read = EMPTY, hint: int = 0) -> Match:
        patterns, reads = self.patterns, (kernel_read(read), kernel_read(mate))
        if patterns.posterior:
            return wrapped.match_anchored(
                patterns, *reads, self.foreign, LETTERS, self._row_scratch
            )
        if patterns.two_sided:
            return wrapped.match_both_sides(patterns, *reads, LETTERS, self._scratch, self._places)
        self._scratch.hint[0] = hint
        found = wrapped.match_searched(patterns, reads[0], LETTERS, self._scratch)
        if found.verdict == ASSIGNED:
            assert self._scratch.hint[0] == found.offset_1
        return found

    def rows_weighed(self, read: Read) -> int:
        """Return how many rows an anchored library looks at for a read."""
        return int(wrapped.list_rows(self.patterns, kernel_read(read), LETTERS, self._row_scratch))


def high(bases: str, quality: int = 37) -> Read:
    return bases, [quality] * len(bases)


read_strategy = st.lists(
    st.tuples(st.sampled_from("ACGTACGTACGTNagR"), st.sampled_from([0, 2, 10, 11, 20, 40, 93])),
    max_size=24,
).map(lambda pairs: ("".join(one for one, _ in pairs), [one for _, one in pairs]))


def spread_tags(count: int, length: int, distance: int, rng: random.Random) -> list[str]:
    """Return tags that differ from each other at `distance` positions or more."""
    tags: list[str] = []
    while len(tags) < count:
        tag = random_sequence(rng, length)
        if all(sum(a != b for a, b in zip(tag, one, strict=True)) >= distance for one in tags):
            tags.append(tag)
    return tags
