"""Random reads of one key, and the arrays that the kernels of drafts take for them."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

import oracle
import oracle_drafts as naive
from kernel_cases import fill_hot, random_sequence
from oracle import Template
from oracle_drafts import Draft
from umimill.drafts import make_drafts
from umimill.kernels.consensus import Batch
from umimill.kernels.drafts import Drafts
from umimill.partition import HOT

WIDTH = 12


def batch_of(rows: Sequence[Template], levels: Sequence[int] | None = None) -> Batch:
    """Return rows as they are loaded; with levels, every second is of a run of 2-bit qualities."""
    hot = np.zeros(len(rows), HOT)
    barcode = np.zeros((len(rows), WIDTH), np.uint8)
    starts = np.zeros(len(rows), np.int64)
    runs = np.arange(len(rows)) % 2 * int(levels is not None)
    cold: list[int] = [7]
    for number, row in enumerate(rows):
        fill_hot(hot[number], row)
        barcode[number, : len(row.barcode_quality)] = row.barcode_quality
        starts[number] = len(cold)
        cold += oracle.pack_cold(row, levels if runs[number] else None)
    table = np.full((2, 4), 255, np.uint8)
    table[1, : len(levels or [])] = levels or []
    return Batch(
        hot, barcode, np.array([*cold, 7], np.uint64), starts, runs, np.array([8, 2]), table
    )  # fmt: skip


def drafts_of(reads: Sequence[Draft]) -> Drafts:
    """Return drafts as they are extracted."""
    found = make_drafts(len(reads))
    for number, read in enumerate(reads):
        found.draft[number], found.mask[number] = naive.word(read.text), naive.mask(read.text)
        found.quality[32 * number : 32 * number + 32] = read.quality
    return found


def reads_of(drafts: Drafts) -> list[Draft]:
    """Undo drafts_of."""
    return [
        Draft(
            naive.unpack_draft(int(draft), int(mask)),
            tuple(drafts.quality[32 * number : 32 * number + 32].tolist()),
        )
        for number, (draft, mask) in enumerate(zip(drafts.draft, drafts.mask, strict=True))
    ]


def mutated(rng: random.Random, text: str, count: int) -> str:
    """Change so many bases."""
    letters = list(text)
    for place in rng.sample(range(len(text)), min(count, len(text))):
        letters[place] = rng.choice("ACGT".replace(letters[place], ""))
    return "".join(letters)


def random_key(rng: random.Random, most: int) -> list[Template]:
    """Make the reads of a key: several molecules, chimeras, shifted reads, errors, N, lengths."""
    length = rng.choice([rng.randint(0, 200), rng.randint(30, 70)])
    paired = rng.random() < 0.3
    base = [random_sequence(rng, length), random_sequence(rng, length) if paired else ""]
    molecules = [base]
    for _ in range(rng.randint(0, 5)):
        apart = rng.randint(0, 32) * max(1, length) // 32
        molecules.append([mutated(rng, text, apart) for text in base])
    unknown, error = rng.choice([0, 0.05, 0.4]), rng.choice([0, 0.01, 0.1])
    levels = rng.choice([[37], [2, 12, 23, 37], [8, 9, 10, 11]])
    cut, chimeras, shifts = rng.choice([0, 0.2]), rng.choice([0, 0.1]), rng.choice([0, 0.1])
    weights = [rng.choice([1, 3, 20]) for _ in molecules]
    rows = []
    for _ in range(rng.choice([1, 2, 4, rng.randint(1, most)])):
        (texts,) = rng.choices(molecules, weights)
        if rng.random() < chimeras:
            other, at = rng.choice(molecules), rng.randint(0, length)
            texts = [one[:at] + two[at:] for one, two in zip(texts, other, strict=True)]
        if rng.random() < shifts:
            mate, bases = rng.randrange(2), rng.randint(-4, 4)
            gained = random_sequence(rng, bases) if bases > 0 else ""
            texts = list(texts)
            texts[mate] = (gained + texts[mate])[max(0, -bases) :][: len(texts[mate])]
        if rng.random() < cut:
            texts = [text[: rng.randint(0, length)] for text in texts]
        payload = []
        for text in texts:
            wrong = mutated(rng, text, sum(rng.random() < error for _ in text))
            payload.append("".join("N" if rng.random() < unknown else base for base in wrong))
        rows.append(
            Template(
                0,
                "",
                "ACGTAC",
                tuple(rng.choices(range(94), k=6)),
                (payload[0], payload[1]),
                (
                    tuple(rng.choices(levels, k=len(payload[0]))),
                    tuple(rng.choices(levels, k=len(payload[1]))),
                ),
                flags=32 * ("N" in "".join(payload)),
            )
        )
    return rows


def tied_reads(rng: random.Random) -> list[Draft]:
    """Make reads of few letters, a few steps apart, so that mismatches and sums are often equal."""
    blocks = [[rng.choice("AC.") if rng.random() < 0.3 else "A" for _ in range(8)] for _ in "123"]
    reads = []
    places = rng.choice([4, 5, 9])
    for _ in range(rng.randint(1, 14)):
        text = [letter for letter in rng.choice(blocks) for _ in range(4)]
        if places < 9:
            text = [*rng.choices("AC.", [3, 3, 1], k=places), *"A" * (32 - places)]
        for _ in range(rng.choice([0, 1, 2, 3, 4, 6])):
            text[rng.randrange(places)] = rng.choice("AC.")
        quality = rng.choice([10, 20, 40])
        reads.append(Draft("".join(text), tuple(quality * (one != ".") for one in text)))
    return reads


def simple_rows(texts: Sequence[str], level: int = 37) -> list[Template]:
    """Make reads of one key and quality."""
    return [
        Template(0, "", "ACGTAC", (30,) * 6, (text, ""), ((level,) * len(text), ()))
        for text in texts
    ]
