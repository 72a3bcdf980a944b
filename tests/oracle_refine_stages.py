"""Naive twins of what follows link: queries, fates, moved rows, molecules, statuses.

Written from docstrings and the manual, never from the code. Families are those of oracle_link.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, product

from oracle import Template
from oracle_link import Family

MOST_UNSURE = 6
MOST_READS = 3

# Sample, cell, UMI, number.
Identity = tuple[int, str, str, int]


def identity(family: Family) -> Identity:
    """Return what names a family."""
    return family.sample, family.cell, family.umi, family.family


# -- queries ---------------------------------------------------------------------------------------


def worst_bases(family: Family, misread: Sequence[float], least: float) -> list[int]:
    """Return the places of the UMI that are the least sure, the worst first, at most
    MOST_UNSURE.

    Args:
        family: the family.
        misread: ln(e / 3) by half-Phred.
        least: a base below is sure.
    """
    places = range(len(family.cell), len(family.barcode))
    unsure = [place for place in places if misread[family.quality[place]] >= least]
    unsure.sort(key=lambda place: (-misread[family.quality[place]], place))
    return unsure[:MOST_UNSURE]


def asked(
    family: Family, misread: Sequence[float], right: Sequence[float], least: float
) -> dict[str, float]:
    """Return the barcodes that a family may have been, with ln of the rate of its errors.

    Args:
        family: the family.
        misread: ln(e / 3) by half-Phred.
        right: ln(1 - e) by half-Phred.
        least: a base below is sure.
    """
    places = worst_bases(family, misread, least)
    everywhere = range(len(family.cell), len(family.barcode))
    all_right = sum(right[family.quality[at]] for at in everywhere)
    found = {}
    several = [combinations(places, count) for count in range(3, len(places) + 1)]
    for chosen in chain(combinations(everywhere, 2), *several):
        letters = [[base for base in "ACGT" if base != family.barcode[at]] for at in chosen]
        rate = all_right + sum(
            misread[family.quality[at]] - right[family.quality[at]] for at in chosen
        )
        for bases in product(*letters):
            barcode = list(family.barcode)
            for at, base in zip(chosen, bases, strict=True):
                barcode[at] = base
            found["".join(barcode)] = family.reads * rate
    return found


def missed_both(
    family: Family, misread: Sequence[float], right: Sequence[float], least: float
) -> float:
    """Return P(a read is wrong both at one of its worst bases and at another one); see asked."""
    worst = worst_bases(family, misread, least)
    places = range(len(family.cell), len(family.barcode))

    def wrong(at: Iterable[int]) -> float:
        return 1 - math.exp(sum(right[family.quality[one]] for one in at))

    return wrong(worst) * wrong(one for one in places if one not in worst)


def ln_unasked(independent: float, few: int, missed: float, reads: float, singles: float) -> float:
    """Return ln of how many families of a key and size have no parent to be found.

    Args:
        independent: the same of molecules with this very key.
        few: reads of the family.
        missed: chance that a read is misread in a way that is not asked for.
        reads: of the sample.
        singles: its molecules of one read, which reads misread look like.
    """
    return independent + (math.log1p(missed * reads / singles) if few == 1 else 0.0)


def ln_changes(few: int, many: int, growth: Sequence[float], errors: float) -> float:
    """Return ln of the rate at which a parent of `many` reads has a child of `few`.

    Args:
        few: reads of the child.
        many: reads of the parent.
        growth: ln of how often a molecule has so many reads.
        errors: ln of the rate of its errors, of all its reads.
    """
    if few + many < len(growth):
        ways = growth[few + many] - growth[many] + math.log(math.comb(few + many, few))
    else:
        ways = few * math.log(many) - math.lgamma(few + 1)
    return ways + errors


# Child, parent, its errors -> score.
Score = Callable[[int, int, float], int]


def may_agree(draft: str, other: str) -> bool:
    """Return whether a quarter of two drafts is equal, or a base of one is not known."""
    if "N" in draft + other:
        return True
    return any(draft[at : at + 8] == other[at : at + 8] for at in range(0, 32, 8))


def best_answer(
    families: Sequence[Family],
    held: Mapping[tuple[int, str, str], Sequence[int]],
    child: int,
    barcodes: Mapping[str, float],
    score: Score,
    rare: Callable[[float], bool] = lambda _: False,
) -> tuple[int, int] | None:
    """Return (score, parent) of the best of those who have the barcodes that a family asks for.

    Where errors are so `rare` that the payload has to agree, a quarter of the drafts is equal, or
    one of them is not whole. The best of another barcode speaks against it, where its score is not
    below 0.
    """
    family = families[child]
    cell = len(family.cell)
    found = []
    for barcode, errors in barcodes.items():
        for parent in held.get((family.sample, barcode[:cell], barcode[cell:]), ()):
            if rare(errors) and not may_agree(family.draft, families[parent].draft):
                continue
            if families[parent].rank < family.rank:
                found.append((-score(child, parent, errors), families[parent].rank, parent))
    if not found:
        return None
    best = min(found)
    rivals = [one for one in found if families[one[2]].barcode != families[best[2]].barcode]
    rival = -min(rivals)[0] if rivals else -1
    return -best[0] - (rival + 1 if rival >= 0 else 0), best[2]


# -- fates -----------------------------------------------------------------------------------------


@dataclass
class Fate:
    """What became of a family: reads and families that are in it, and where it went, if it did."""

    reads: int
    families: int = 1
    root: Identity | None = None
    status: int = 0
    number: int = 0
    several: bool = False


def fates_of(
    reads: Mapping[Identity, int],
    roots: Mapping[Identity, Identity],
    statuses: Mapping[Identity, int],
) -> dict[Identity, Fate]:
    """Return the fates of families, their numbers among those of their key included."""
    fates = {one: Fate(count, root=roots.get(one)) for one, count in reads.items()}
    for child, root in roots.items():
        fates[root].reads += reads[child]
        fates[root].families += 1
    for one, fate in fates.items():
        fate.status = 0 if fate.root else statuses.get(one, 0)
    for key in {one[:3] for one in fates}:
        stayed = [one for one in fates if one[:3] == key and fates[one].root is None]
        stayed.sort(key=lambda one: (fates[one].status != 0, -fates[one].reads, one[3]))
        molecules = sum(fates[one].status == 0 for one in stayed)
        for number, one in enumerate(stayed):
            fates[one].number = number
            fates[one].several = molecules > 1 or number > 0
    return fates


def cut_cells(keys: Sequence[tuple[int, bool]], limit: int) -> list[int]:
    """Return the cells of keys as their sizes, in keys.

    Args:
        keys: reads that stayed in each key or came to it, and whether it begins a group.
        limit: reads.
    """
    cells: list[list[int]] = []
    for own, begins in keys:
        held = sum(cells[-1]) if cells else limit
        # A cell of keys that were moved away goes on, whatever begins.
        ended = held >= limit or own >= limit or (begins and held > 0)
        if ended or not cells:
            cells.append([])
        cells[-1].append(own)
    return [len(cell) for cell in cells]


# -- moved rows ------------------------------------------------------------------------------------


def moved_barcode(row: Template, root: Identity) -> tuple[str, tuple[int, ...]]:
    """Return the barcode of a moved row, and its qualities: 0 where it was not read so."""
    barcode = root[1] + root[2]
    qualities = tuple(
        quality if old == new else 0
        for quality, old, new in zip(row.barcode_quality, row.barcode, barcode, strict=False)
    )
    return barcode, qualities


# -- statuses --------------------------------------------------------------------------------------


def known_pairs(draft: str, other: str) -> Iterator[bool]:
    """Yield whether bases known in both differ, from the first on."""
    for one, two in zip(draft, other, strict=True):
        if "N" not in (one, two):
            yield one != two


def share_an_end(draft: str, other: str) -> bool:
    """Return whether all but one of the first, or the last, 8 bases known in both agree."""
    differ = list(known_pairs(draft, other))
    return len(differ) >= 8 and (sum(differ[:8]) <= 1 or sum(differ[-8:]) <= 1)


def is_mixed(first: str, second: str) -> bool:
    """Return whether drafts agree at one end, and behind their second mismatch are as by chance."""
    both = [one != two for one, two in zip(first, second, strict=True) if "N" not in one + two]
    for differ in (both, both[::-1]):
        places = [place for place, one in enumerate(differ) if one]
        if len(places) < 2 or places[1] < 8:
            continue
        behind = differ[places[1] :]
        if len(behind) >= 6 and 2 * sum(behind) >= len(behind):
            return True
    return False


def at_least(reads: int, mean: float) -> float:
    """Return P(X >= reads), X ~ Poisson(mean), smallest terms first."""
    if mean < reads:
        top = reads + 60 + int(20 * math.sqrt(reads))
        terms = range(top, reads - 1, -1)
    else:
        terms = range(reads)
    logs = [at * math.log(mean) - mean - math.lgamma(at + 1) for at in terms]
    total = math.fsum(math.exp(one) for one in logs if one > -740)
    return total if mean < reads else 1 - total


def missed(errors: Sequence[float], unsure: Sequence[bool]) -> float:
    """Return the chance that a barcode was misread in a way that is not asked for.

    Asked for are all with at most one wrong base, and all whose wrong bases are of the
    MOST_UNSURE worst.
    """
    worst = sorted(range(len(errors)), key=lambda at: (-errors[at], at))[:MOST_UNSURE]
    if sum(unsure) <= MOST_UNSURE:
        return 0.0
    found = 0.0
    for wrong in product((False, True), repeat=len(errors)):
        outside = [at for at, one in enumerate(wrong) if one and at not in worst]
        if sum(wrong) > 1 and outside:
            found += math.prod(
                error if one else 1 - error for error, one in zip(errors, wrong, strict=True)
            )
    return found
