"""Naive twins of drafts and families: a draft is a string of 32 letters, "." where not known.

Written from the rules of the design, never from the kernels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from oracle import BASES, WORD, Template

DRAFT_BASES = 32
LEAST_COMPARED = 12
UNKNOWN = "." * DRAFT_BASES


@dataclass(frozen=True)
class Draft:
    """Draft of a read.

    Attributes:
        text: 32 letters.
        quality: 32 Phreds, 0 where not known.
    """

    text: str
    quality: tuple[int, ...]


@dataclass
class Family:
    """A family as its row of the table says.

    Attributes:
        draft: 32 letters.
        trust: mean Phred of the draft, doubled.
        rows: numbers of its reads.
    """

    draft: str
    trust: int
    rows: list[int]
    overfull: bool = False
    shifted: bool = False

    @property
    def order(self) -> tuple[int, int, int]:
        """What families of a key are numbered by."""
        return (-len(self.rows), word(self.draft), mask(self.draft))


def splitmix64(value: int) -> int:
    """Return the hash of a word."""
    state = (value + 0x9E3779B97F4A7C15) % WORD
    state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 % WORD
    state = (state ^ state >> 27) * 0x94D049BB133111EB % WORD
    return state ^ state >> 31


@cache
def word(draft: str) -> int:
    """Return a draft as a word."""
    return int("".join(format(max(0, BASES.find(one)), "02b") for one in draft), 2)


@cache
def mask(draft: str) -> int:
    """Return the mask of a draft."""
    return int("".join("01"[one != "."] for one in draft), 2)


def unpack_draft(packed: int, known: int) -> str:
    """Undo `word` and `mask`."""
    digits, bits = format(packed, "064b"), format(known, "032b")
    letters = [BASES[int(digits[2 * at : 2 * at + 2], 2)] for at in range(DRAFT_BASES)]
    return "".join(one if bit == "1" else "." for one, bit in zip(letters, bits, strict=True))


def stride_of(rows: int, bases: int) -> int:
    """Return the stride of a sample's drafts."""
    return min(3, max(1, bases // rows // DRAFT_BASES)) if rows else 1


def take_draft(row: Template, stride: int, least_quality: int) -> Draft:
    """Take the draft of a read or pair."""
    sides = 2 if row.payload[1] else 1
    text, quality = "", []
    for side in range(sides):
        letters = row.payload[side][::stride][: DRAFT_BASES // sides]
        values = row.quality[side][::stride][: DRAFT_BASES // sides]
        known = [
            letter in BASES and value >= least_quality
            for letter, value in zip(letters, values, strict=True)
        ]
        rest = DRAFT_BASES // sides - len(letters)
        text += "".join(b if k else "." for b, k in zip(letters, known, strict=True)) + "." * rest
        quality += [q if k else 0 for q, k in zip(values, known, strict=True)] + [0] * rest
    return Draft(text, tuple(quality))


@cache
def compared(first: str, second: str) -> int:
    """Return in how many bases both are known."""
    return sum("." not in a + b for a, b in zip(first, second, strict=True))


@cache
def mismatches(first: str, second: str) -> int:
    """Return in how many of them they differ."""
    return sum("." not in a + b and a != b for a, b in zip(first, second, strict=True))


def evident(first: str, second: str) -> bool:
    """Return whether comparing two drafts says anything."""
    return compared(first, second) >= LEAST_COMPARED


def compatible(first: str, second: str) -> bool:
    """Return whether two drafts may be of one molecule."""
    limit = (3 * compared(first, second) + 16) // 32
    return not evident(first, second) or mismatches(first, second) <= limit


def assign(draft: str, families: Sequence[str]) -> int | None:
    """Return the number of the family that a read belongs to; None: of family 0, unproven."""
    able = [number for number, one in enumerate(families) if evident(draft, one)]
    return min(
        able,
        key=lambda number: (
            mismatches(draft, families[number]),
            -compared(draft, families[number]),
            word(families[number]),
            mask(families[number]),
        ),
        default=None,
    )


def starts_beside(row: Template, stride: int, draft: str) -> bool:
    """Return whether a read fits a draft where one of its mates starts 1 to 3 bases beside."""
    sides = 2 if row.payload[1] else 1
    width = DRAFT_BASES // sides
    for side in range(sides):
        for shift in (-3, -2, -1, 1, 2, 3):
            text = ""
            for mate in range(sides):
                for number in range(width):
                    place = number * stride + (shift if mate == side else 0)
                    there = 0 <= place < len(row.payload[mate])
                    text += row.payload[mate][place] if there else "."
            # A base that is not known is stored as the first one.
            text = "".join(one if one in BASES + "." else BASES[0] for one in text)
            if evident(text, draft) and compatible(text, draft):
                return True
    return False


def flag_shifted(
    families: Sequence[Family], lead: Family, rows: Sequence[Template], stride: int
) -> None:
    """Flag the families of which most reads fit the first one, the first leader's, beside."""
    if families[0] is lead and stride:
        for family in families[1:]:
            fit = sum(starts_beside(rows[row], stride, lead.draft) for row in family.rows)
            family.shifted = 2 * fit > len(family.rows)


def hash_draft(draft: str) -> tuple[int, int, int]:
    """Return what too many drafts are chosen by."""
    rotated = (mask(draft) << 29 | mask(draft) >> 35) % WORD
    return splitmix64(word(draft) ^ rotated), word(draft), mask(draft)


def find_leaders(drafts: Sequence[str], distinct: int, most: int) -> tuple[list[str], bool]:
    """Return the leaders among drafts, and whether there were more than `most`."""
    counts = Counter(drafts)
    kept = sorted(counts, key=hash_draft)[:distinct]

    def rank(draft: str) -> tuple[bool, int, int, int, int]:
        known = compared(draft, draft)
        few = known < LEAST_COMPARED
        return few, -counts[draft], -known, word(draft), mask(draft)

    leaders: list[str] = []
    full = False
    for draft in sorted(kept, key=rank):
        able = [one for one in leaders if evident(draft, one)]
        if any(compatible(draft, one) for one in able) or (leaders and not able):
            continue
        if len(leaders) == most:
            full = True
        else:
            leaders.append(draft)
    return leaders, full


def call_draft(reads: Sequence[Draft]) -> tuple[str, int]:
    """Return the draft of some reads and how far it is trusted."""
    text, trust, known = "", 0, 0
    for position in range(DRAFT_BASES):
        sums = dict.fromkeys(BASES, 0)
        for read in reads:
            if read.text[position] != ".":
                sums[read.text[position]] += read.quality[position]
        best = max(BASES, key=lambda base: (sums[base], -ord(base)))
        text += best if sums[best] else "."
        if sums[best]:
            known += 1
            trust += min(40, max(0, sums[best] - (sum(sums.values()) - sums[best])))
    return text, 2 * trust // known if known else 0


def call_groups(reads: Sequence[Draft], leaders: Sequence[str]) -> list[tuple[str, int]]:
    """Return what the reads of each leader make, without those that an earlier leader's make."""
    groups: list[list[Draft]] = [[] for _ in leaders]
    for read in reads:
        able = [number for number, one in enumerate(leaders) if evident(read.text, one)]
        if able:
            best = min(
                able,
                key=lambda n: (mismatches(read.text, leaders[n]), -compared(read.text, leaders[n])),
            )
            groups[best].append(read)
    called: dict[str, int] = {}
    for group in groups:
        draft, trust = call_draft(group)
        called.setdefault(draft, trust)
    return list(called.items())


def find_families(
    reads: Sequence[Draft],
    rows: Sequence[Template] = (),
    stride: int = 0,
    *,
    distinct: int = 1 << 16,
    most: int = 1 << 12,
) -> list[Family]:
    """Return the families of the reads of one key, by number."""
    leaders, full = find_leaders([read.text for read in reads], distinct, most)
    families = [Family(*called, [], full) for called in call_groups(reads, leaders)]
    lead = families[0]
    waiting = list(range(len(reads)))
    for _ in range(4):
        waiting = []
        for family in families:
            family.rows = []
        for number, read in enumerate(reads):
            found = assign(read.text, [family.draft for family in families])
            (waiting if found is None else families[found].rows).append(number)
        if len(families) == 1 or all(family.rows for family in families):
            break
        families = [family for family in families if family.rows]
    families.sort(key=lambda family: family.order)
    flag_shifted(families, lead, rows, stride)
    families[0].rows += waiting
    return families
