"""checkout: what is cut out of reads, against naive cuts, and which ledger line applies."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_fixture import (
    Record,
    Row,
    all_rows,
    checked_out,
    ledger,
    library_of,
    random_bases,
    run_checkout,
    slow_settings,
)
from umimill.checkout import LIBRARY_LINES, SAMPLE_LINES
from umimill.fastq import read_templates
from umimill.kernels.match import VERDICT, Foreign
from umimill.layout import sample_layouts
from umimill.matching import Matcher
from umimill.partition_writer import Staging

SWAPPED, REVERSED, HAS_UNKNOWN = 1, 2, 32
COMPLEMENT = bytes.maketrans(b"ACGTU", b"TGCAA")
# Segments of a read structure; length 0 is +.
Structure = Sequence[tuple[int, str]]
# Ledger line, and of a row: barcode, cell bases, flags, barcode qualities, payloads.
Cut = tuple[str, tuple[str, int, int, bytes, tuple[Any, ...]] | None]


# -- what is cut out -------------------------------------------------------------------------------


def plain_text(bases: bytes) -> str:
    text = bases.decode().upper().replace("U", "T")
    return "".join(base if base in "ACGT" else "N" for base in text)


def least_length(structure: Structure) -> int:
    """Return the bases that a read must have; a payload at the end may be missing."""
    # What is left behind the payload (+S) may be nothing.
    fixed = [segment for segment in structure if segment != (0, "S")]
    lengths = [length for length, _ in fixed]
    return sum(lengths[:-1] if fixed and fixed[-1][1] == "T" else lengths)


def expected_row(segments: Sequence[Structure], mates: Sequence[Record], minimum: int) -> Cut:
    """Cut a template by its read structures."""
    texts = [plain_text(bases) for _, bases, _ in mates]
    if any(
        len(text) < least_length(structure) for structure, text in zip(segments, texts, strict=True)
    ):
        return "too_short", None
    found: dict[str, list[tuple[str, bytes]]] = {"C": [], "M": [], "S": [], "T": []}
    payloads = []
    for structure, text, (_, _, qualities) in zip(segments, texts, mates, strict=True):
        at = 0
        found["T"].clear()
        for length, kind in structure:
            stop = at + length if length else len(text)
            found[kind].append((text[at:stop], bytes(byte - 33 for byte in qualities[at:stop])))
            at = stop
        payloads.append(found["T"][0] if found["T"] else ("", b""))
    barcode = found["C"] + found["M"]
    cell = "".join(text for text, _ in found["C"])
    key = "".join(text for text, _ in barcode)
    if min(b"".join(scores for _, scores in found["M"])) < minimum:
        return "low_umi_quality", None
    if not any(text for text, _ in payloads):
        return "empty_payload", None
    if "N" in key:
        return "unresolved", None
    flags = HAS_UNKNOWN if any("N" in text for text, _ in payloads) else 0
    payloads += [("", b"")] * (2 - len(payloads))
    scores = b"".join(scores for _, scores in barcode)
    return "assigned", (key, len(cell), flags, scores, tuple(payloads))


@st.composite
def structures(draw: st.DrawFn, *, umi: bool) -> list[tuple[int, str]]:
    """Draw a read structure with at most 12 barcode bases; length 0 is +."""
    kinds = draw(st.lists(st.sampled_from("MCSST"), max_size=4))
    found, payload = [], False
    for kind in kinds:
        if kind == "T" and payload:
            continue
        payload |= kind == "T"
        found.append((draw(st.integers(1, 3)), kind))
    if umi:
        found.insert(draw(st.integers(0, len(found))), (draw(st.integers(1, 4)), "M"))
    if not payload and draw(st.booleans()):
        found.append((0, "T"))
    elif draw(st.booleans()) or not found:
        found.append((0, "S"))
    return found


@st.composite
def reads(draw: st.DrawFn, name: bytes) -> Record:
    length = draw(st.integers(0, 24))
    text = draw(st.text("ACGTacgtACGTUN.R", min_size=length, max_size=length))
    qualities = draw(st.text("I#5!", min_size=length, max_size=length))
    return name, text.encode(), qualities.encode()


def spelled(structure: Sequence[tuple[int, str]]) -> str:
    return "".join(f"{length or '+'}{kind}" for length, kind in structure)


@slow_settings(20)
@given(data=st.data(), paired=st.booleans(), minimum=st.sampled_from([0, 0, 3, 21]))
def test_read_structures_cut_as_they_say(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, paired: bool, minimum: int
) -> None:
    """Against a naive cut: ledger line by ledger line, row by row."""
    segments = [data.draw(structures(umi=True), "read 1")]
    if paired:
        segments.append(data.draw(structures(umi=False), "read 2"))
    # Long enough for every layout, so that probe takes the unit.
    longest = tuple((b"0", b"A" * 24, b"I" * 24) for _ in segments)
    templates = [longest]
    for number in range(data.draw(st.integers(0, 40), "templates")):
        name = b"%d" % (number + 1)
        templates.append(tuple(data.draw(reads(name)) for _ in segments))
    layouts = [("S1", *(spelled(one) for one in segments), *([None] * (2 - len(segments))))]
    library = library_of(
        tmp_path_factory.mktemp("cut"), layouts, *map(list, zip(*templates, strict=True))
    )
    rows, lines = checked_out(library, minimum_umi_quality=minimum)
    expected_lines: Counter[str] = Counter()
    expected: Counter[Row] = Counter()
    for record, mates in enumerate(templates):
        line, cut = expected_row(segments, mates, minimum)
        expected_lines[line] += 1
        if cut is not None:
            barcode, cell, flags, scores, payloads = cut
            expected[0, barcode, cell, flags, 0, record, scores, payloads] += 1
    assert lines == {("S1", line): count for line, count in expected_lines.items()}
    assert rows == expected


CASES = {
    # name: (bases, qualities, ledger line with minimum_umi_quality 20)
    "assigned": (b"ACGTTTTTGG", b"IIIIIIIIII", "assigned"),
    "one base in the UMI at Q20": (b"ACGTTTTTGG", b"IIIII5IIII", "assigned"),
    "one base in the UMI at Q19": (b"ACGTTTTTGG", b"IIIII4IIII", "low_umi_quality"),
    "low qualities elsewhere": (b"ACGTTTTTGG", b"IIIIIIII##", "assigned"),
    "nothing behind the UMI": (b"ACGTTTTT", b"IIIIIIII", "empty_payload"),
    "nothing, and low": (b"ACGTTTTT", b"IIIIIII#", "low_umi_quality"),
    "N in the UMI": (b"ACGTTNTTGG", b"IIIIIIIIII", "unresolved"),
    "N and nothing": (b"ACGTTNTT", b"IIIIIIII", "empty_payload"),
    "N and low": (b"ACGTTNTTGG", b"IIIII#IIII", "low_umi_quality"),
    "cut inside the UMI": (b"ACGTTTT", b"IIIIII#", "too_short"),
    "cut inside the tag": (b"ACG", b"III", "unmatched"),
    "no bases": (b"", b"", "unmatched"),
    "foreign": (b"TGCATTTTGG", b"IIIIIIIIII", "unmatched"),
    "N only in the payload": (b"ACGTTTTTGN", b"IIIIIIIII#", "assigned"),
}


def test_first_line_that_applies(tmp_path: Path) -> None:
    found = [(name.encode(), bases, qualities) for name, (bases, qualities, _) in CASES.items()]
    library = library_of(tmp_path, [("S1", "^ACGTNNNN", None)], found)
    (chunk,) = read_templates(tuple(library.units["u1"]))
    samples, rows = sample_layouts(library.layouts)
    matcher = Matcher(rows, len(samples), Foreign(-10_000, np.zeros(5, np.int64)), 33,
                      minimum_umi_quality=20)  # fmt: skip
    stagings = [Staging(1 << 20, matcher.barcode_width + more, 100) for more in range(2)]
    matches = matcher.match(chunk, 0, chunk.count)
    assert matcher.stage(chunk, matches, 0, chunk.count, stagings) == (chunk.count, 0)
    verdicts = matches[:, VERDICT]
    numbers = LIBRARY_LINES | SAMPLE_LINES
    expected = [numbers[line] for _, _, line in CASES.values()]
    assert dict(zip(CASES, verdicts.tolist(), strict=True)) == dict(
        zip(CASES, expected, strict=True)
    )
    assert matcher.ledger.tolist() == [[expected.count(number) for number in range(8)]]
    found_rows, lines = checked_out(library, minimum_umi_quality=20)
    assert Counter(lines) == Counter(
        (None if line in LIBRARY_LINES else "S1", line) for _, _, line in CASES.values()
    )
    assert {row[5] for row in found_rows} == {
        place for place, number in enumerate(expected) if number == SAMPLE_LINES["assigned"]
    }


def test_two_samples_alike_are_ambiguous(tmp_path: Path) -> None:
    layouts = [("S1", "^ACGTACGTNNNN", None), ("S2", "^ACGTACGANNNN", None)]
    found = [
        (b"a", b"ACGTACGT" + b"C" * 20, b"I" * 28),
        (b"b", b"ACGTACGA" + b"C" * 20, b"I" * 28),
        (b"c", b"ACGTACGC" + b"C" * 20, b"I" * 28),
        (b"d", b"ACGTACGT" + b"C" * 20, b"IIIIIII!" + b"I" * 20),
    ]
    rows, lines = checked_out(library_of(tmp_path, layouts, found))
    assert lines == {("S1", "assigned"): 1, ("S2", "assigned"): 1, (None, "ambiguous"): 2}
    assert {(row[0], row[5]) for row in rows} == {(0, 0), (1, 1)}


# -- searched layouts, both ways round -------------------------------------------------------------

TAG = b"AACTGGTACCATGACT"
SEARCHED = [("S1", TAG.decode() + "NNNNNNNN", None)]


def inserts(count: int, seed: int) -> list[tuple[bytes, bytes, bytes]]:
    """Draw (bases before the tag, UMI, payload)."""
    rng = np.random.default_rng(seed)
    return [
        (random_bases(rng, int(rng.integers(0, 12))), random_bases(rng, 8), random_bases(rng, 50))
        for _ in range(count)
    ]


def scored(name: int, bases: bytes, *, turned: bool = False) -> Record:
    """Make a record whose qualities go with its bases when it is turned."""
    qualities = bytes(40 + 33 - place % 7 for place in range(len(bases)))
    if turned:
        return b"%d" % name, bases.translate(COMPLEMENT)[::-1], qualities[::-1]
    return b"%d" % name, bases, qualities


def without(row: Row, flag: int) -> Row:
    return *row[:3], row[3] & ~flag, *row[4:]


def test_reverse_complemented_reads(tmp_path: Path) -> None:
    found = inserts(200, 1)
    plain = [scored(number, before + TAG + umi + rest)
             for number, (before, umi, rest) in enumerate(found)]  # fmt: skip
    turned = [scored(number, before + TAG + umi + rest, turned=number % 2 == 1)
              for number, (before, umi, rest) in enumerate(found)]  # fmt: skip
    rows, lines = checked_out(library_of(tmp_path / "plain", SEARCHED, plain))
    assert lines == {("S1", "assigned"): 200}
    assert {row[3] for row in rows} == {0}
    assert {(row[1], row[7][0][0]) for row in rows} == {
        (umi.decode(), rest.decode()) for _, umi, rest in found
    }
    library = library_of(tmp_path / "turned", SEARCHED, turned)
    partitions, metrics = run_checkout(library)
    other = all_rows(partitions)
    assert metrics[0]["counters"]["flipped"] == 100
    assert ledger(metrics) == lines
    assert {row[5] for row in other if row[3] & REVERSED} == set(range(1, 200, 2))
    assert Counter(without(row, REVERSED) for row in other) == rows


@pytest.mark.parametrize("side_2", [None, "GTTCAGGATCCA"])
def test_swapped_pairs(tmp_path: Path, side_2: str | None) -> None:
    found = inserts(200, 2)
    tail = (side_2 or "").encode()
    plain = [
        (scored(number, before + TAG + umi + rest[:30]), scored(number, tail + rest[::-1]))
        for number, (before, umi, rest) in enumerate(found)
    ]
    mixed = [pair[::-1] if number % 3 == 0 else pair for number, pair in enumerate(plain)]
    layouts = [(*SEARCHED[0][:2], side_2)]
    rows, lines = checked_out(
        library_of(tmp_path / "plain", layouts, *map(list, zip(*plain, strict=True)))
    )
    assert lines == {("S1", "assigned"): 200}
    assert {row[7][1][0] for row in rows} == {rest[::-1].decode() for _, _, rest in found}
    library = library_of(tmp_path / "mixed", layouts, *map(list, zip(*mixed, strict=True)))
    partitions, metrics = run_checkout(library)
    other = all_rows(partitions)
    assert metrics[0]["counters"]["flipped"] == 67
    assert {row[5] for row in other if row[3] & SWAPPED} == set(range(0, 200, 3))
    assert Counter(without(row, SWAPPED) for row in other) == rows


def test_anchored_layouts_are_not_turned(tmp_path: Path) -> None:
    layouts = [("S1", "^" + TAG.decode() + "NNNNNNNN", None)]
    found = [scored(number, TAG + umi + rest, turned=number > 4)
             for number, (_, umi, rest) in enumerate(inserts(10, 3))]  # fmt: skip
    assert checked_out(library_of(tmp_path, layouts, found))[1] == {
        ("S1", "assigned"): 5,
        (None, "unmatched"): 5,
    }
