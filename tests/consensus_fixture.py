"""Molecules called by the kernels of consensus, and reads to call them from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

import oracle
from kernel_cases import dna, staged
from oracle import HAS_UNKNOWN, Called, Template
from umimill.cells import MOLECULE, make_votes
from umimill.consensus import make_model, make_tables
from umimill.kernels import consensus as kernels
from umimill.kernels import molecules as molecule_kernels
from umimill.loading import Piece, make_batch
from umimill.partition import sorted_order

WIDTH = 6
SAMPLES = 2
FLOORS = (1e-4, 1e-6, 1e-9, 0.1)
MODELS = {floor: make_model(floor) for floor in FLOORS}
TABLES = {
    floor: oracle.Tables(
        *(column.tolist() for column in (made.votes, made.losers, made.thresholds)), made.floor
    )
    for floor, made in ((floor, make_tables(floor)) for floor in FLOORS)
}
LEVELS = (0, 2, 12, 37)
BARCODES = (("", "AC"), ("", "ACA"), ("G", "TT"), ("", "TTTTTT"))


def piece_of(rows: Sequence[Template], bits: int, levels: Sequence[int] = LEVELS) -> Piece:
    """Return rows as they are read from one run of a file."""
    hot, barcode_quality, *_ = staged(rows, WIDTH)
    words = [word for row in rows for word in oracle.pack_cold(row, levels if bits == 2 else None)]
    # Fewer levels than four are filled up as partition_writer.py does.
    table = np.array([*levels, 255, 255, 255][:4], np.uint8)
    return Piece(hot, barcode_quality, np.array(words, np.uint64), bits, table)


def votes_for(rows: Sequence[Template]) -> Any:
    votes = make_votes(max((len(text) for row in rows for text in row.payload), default=0))
    votes.planes[:], votes.barcode[:] = 99, 99
    votes.codes[:], votes.qualities[:] = 9, 9
    return votes


def called_of(entry: Any, letters: Any, qualities: Any, umi_quality: Any) -> Called:
    start = int(entry["offset"])
    middle = start + int(entry["length_1"])
    stop = middle + int(entry["length_2"])
    spans = slice(start, middle), slice(middle, stop)
    quality = [(qualities[span].astype(int) - 33).tolist() for span in spans]
    assert [int(entry["quality_sum_1"]), int(entry["quality_sum_2"])] == [
        sum(
            value
            for value, letter in zip(values, letters[span].tolist(), strict=True)
            if letter != ord("N")
        )
        for values, span in zip(quality, spans, strict=True)
    ]
    umi_length = int(entry["umi_length"])
    return Called(
        [letters[span].tobytes().decode() for span in spans],
        quality,
        (umi_quality[:umi_length].astype(int) - 33).tolist(),
        *(
            int(entry[name])
            for name in (
                "depth_min",
                "depth_max",
                "error_sum",
                "base_votes",
                "disagreements",
                "called",
            )
        ),
    )


def molecules_of(rows: Sequence[Template], numbers: Sequence[int], minimum: int) -> Any:
    """Return the molecules of rows as assemble lists them, with rubbish where nothing is known."""
    held = sorted({(row.order, n) for row, n in zip(rows, numbers, strict=True) if n >= 0})
    table = np.zeros(len(held), MOLECULE)
    for name in ("error_sum", "base_votes", "disagreements", "quality_sum_1", "called"):
        table[name] = 99
    groups = oracle.molecules(rows, numbers)
    for entry, (_, number), group in zip(table, held, groups, strict=True):
        entry["sample"], entry["key"] = group[0].sample, oracle.key_of(group[0].barcode)
        entry["cell_length"], entry["umi_length"] = len(group[0].cell), len(group[0].umi)
        entry["number"], entry["reads"] = number, len(group)
        entry["kept"] = len(group) >= minimum
    return table


def call(
    runs: Sequence[Sequence[Template]],
    bits: Sequence[int],
    floor: float,
    minimum: int = 1,
    numbers: Sequence[int] | None = None,
    given: Sequence[int] | None = None,
) -> tuple[Any, list[Called | None], list[list[int]]]:
    """Return (molecules, what was called of each, hash sums) of rows in several runs.

    Args:
        runs: rows.
        bits: bits of a quality of each run.
        floor: error floor.
        minimum: molecules of fewer reads are not called.
        numbers: molecule of its key of each row; -1 where it was moved away; 0 unless told.
        given: family of rows that were moved here, else -1.
    """
    rows = [row for run in runs for row in run]
    numbers = numbers or [0] * len(rows)
    batch = make_batch([piece_of(*pair) for pair in zip(runs, bits, strict=True)], WIDTH)
    order = sorted_order(batch.hot, len(rows))
    table = molecules_of(rows, numbers, minimum)
    ordered = np.full(len(rows), -9)
    found = molecule_kernels.order_rows(
        batch.hot, order, np.array(numbers, np.int64), table, ordered
    )
    assert found == sum(number >= 0 for number in numbers)
    kept = table["kept"] == 1
    size = int((table["length_1"].astype(int) + table["length_2"])[kept].sum())
    letters, qualities = np.zeros(size, np.uint8), np.zeros(size, np.uint8)
    umi, sums = np.zeros((table.size, 32), np.uint8), np.zeros((2, SAMPLES), np.uint64)
    kernels.call_molecules(
        batch,
        ordered,
        np.array(given or [-1] * len(rows), np.int64),
        table,
        MODELS[floor],
        votes_for(rows),
        letters,
        qualities,
        umi,
        sums,
    )
    called = [
        called_of(entry, letters, qualities, values) if entry["reads"] >= minimum else None
        for entry, values in zip(table, umi, strict=True)
    ]
    return table, called, sums.tolist()


@st.composite
def reads_of_molecules(draw: st.DrawFn, most: int = 14) -> list[Template]:
    """Draw rows of few barcodes whose payloads are alike, with few qualities, so that votes tie."""
    truth = draw(dna(0, 40)), draw(st.one_of(st.just(""), dna(0, 20)))
    rows = []
    for number in range(draw(st.integers(1, most))):
        cell, umi = draw(st.sampled_from(BARCODES))
        payload, quality = [], []
        for text in truth:
            held = list(text[: draw(st.integers(0, len(text)))] if draw(st.booleans()) else text)
            for place in draw(st.lists(st.integers(0, 39), max_size=6)):
                if place < len(held):
                    held[place] = draw(st.sampled_from("ACGTN"))
            payload.append("".join(held))
            levels = LEVELS if draw(st.booleans()) else (37,)
            size = len(held)
            quality.append(
                tuple(draw(st.lists(st.sampled_from(levels), min_size=size, max_size=size)))
            )
        barcode = tuple(
            draw(st.lists(st.integers(0, 93), min_size=len(cell + umi), max_size=len(cell + umi)))
        )
        flags = HAS_UNKNOWN if "N" in "".join(payload) else 0
        rows.append(
            Template(
                draw(st.integers(0, SAMPLES - 1)),
                cell,
                umi,
                barcode,
                (payload[0], payload[1]),
                (quality[0], quality[1]),
                number,
                flags=flags,
            )
        )
    return rows
