"""Reads in small and the stages in sequence, for tests that call the stage functions directly."""

from __future__ import annotations

import gzip
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from umimill.checkout import Part, checkout
from umimill.errors import FastqError
from umimill.fastq import TemplateChunk, read_templates
from umimill.metrics import Meter
from umimill.partition import PartitionFile
from umimill.plan import plan
from umimill.probe import probe

# Name (without the @), bases, qualities.
Record = tuple[bytes, bytes, bytes]
Layouts = Sequence[tuple[str, str, str | None]]
Row = tuple[Any, ...]

LETTERS = b"ACGT"


def slow_settings(examples: int) -> hypothesis_settings:
    """Return settings for examples that read and write files, on a machine that may be busy."""
    return hypothesis_settings(
        max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )


# -- FASTQ -----------------------------------------------------------------------------------------


def fastq_text(records: Iterable[Record], newline: bytes = b"\n") -> bytes:
    """Write records as FASTQ text."""
    return b"".join(
        newline.join((b"@" + name, bases, b"+", qualities, b""))
        for name, bases, qualities in records
    )


def write_fastq(path: Path, records: Iterable[Record]) -> Path:
    """Write records to a file, compressed where its name ends in .gz."""
    text = fastq_text(records)
    path.write_bytes(gzip.compress(text, 1) if path.suffix == ".gz" else text)
    return path


def one_behind(chunks: Iterator[TemplateChunk]) -> Iterator[TemplateChunk]:
    """Yield each chunk when the next one is there: the most that reading ahead may do to it."""
    held = next(chunks, None)
    while held is not None:
        following = next(chunks, None)
        yield held
        held = following


def read_records(
    paths: Sequence[Path], *, ahead: bool = False, **options: Any
) -> list[tuple[Record, ...]]:
    """Read templates as tuples of records, one a mate; `ahead`: see one_behind."""
    chunks = read_templates(tuple(paths), **options)
    found = []
    for chunk in one_behind(chunks) if ahead else chunks:
        assert chunk.first_record == len(found)
        for number in range(chunk.count):
            template = []
            for mate in chunk.mates:
                name, name_stop, start, stop, quality = mate.records[number].tolist()
                template.append(
                    (
                        mate.buffer[name:name_stop].tobytes(),
                        mate.buffer[start:stop].tobytes(),
                        mate.buffer[quality : quality + stop - start].tobytes(),
                    )
                )
            found.append(tuple(template))
    return found


def refusal(paths: Sequence[Path], **options: int) -> FastqError:
    """Read what must be refused; return the error."""
    with pytest.raises(FastqError) as caught:
        read_records(paths, **options)
    assert "\n" not in str(caught.value)
    return caught.value


def place(error: FastqError) -> tuple[str, int, int]:
    """Return (name of the file, record, line) of an error."""
    return os.path.basename(error.path), error.record, error.line


def random_bases(rng: np.random.Generator, length: int, letters: bytes = LETTERS) -> bytes:
    """Draw bases."""
    return bytes(rng.choice(np.frombuffer(letters, np.uint8), length))


def random_reads(
    rng: np.random.Generator,
    count: int,
    tags: Sequence[bytes],
    *,
    umis: int = 50,
    length: int = 40,
    shortest: int = 1,
    templates: int = 0,
) -> list[Record]:
    """Make reads of tag + 6 UMI bases + payload of up to `length` bases, four quality levels.

    Each UMI has so many templates, of which payloads are the beginning; 0 = payloads are at random.
    """
    pool = [random_bases(rng, 6) for _ in range(umis)]
    held = {one: [random_bases(rng, length) for _ in range(templates)] for one in pool}
    reads = []
    for number in range(count):
        tag, umi = tags[rng.integers(len(tags))], pool[rng.integers(umis)]
        size = int(rng.integers(shortest, length + 1))
        payload = held[umi][rng.integers(templates)][:size] if templates else None
        bases = tag + umi + (random_bases(rng, size) if payload is None else payload)
        levels = b"IFII" if number % 3 else b"I5F#"
        head = len(bases) - 1
        qualities = b"I" * min(head, 14) + random_bases(rng, len(bases) - min(head, 14), levels)
        reads.append((b"read:%d" % number, bases, qualities))
    return reads


# -- stages ----------------------------------------------------------------------------------------


def new_meter(stage: str = "test", threads: int = 1, mem_mb: int = 8000, **where: Any) -> Meter:
    """Make a meter with memory to spare: a test process has its own large baseline."""
    return Meter(stage, "L1", mem_mb, threads, where)


@dataclass(frozen=True)
class Library:
    """Files and layouts of a library whose stages run in a folder."""

    folder: Path
    layouts: Layouts
    units: Mapping[str, Sequence[Path]]

    @property
    def mates(self) -> int:
        """Files of a unit."""
        return len(next(iter(self.units.values())))


def run_probes(library: Library) -> dict[str, Path]:
    """Probe every unit."""
    probes = {unit: library.folder / "probe" / f"{unit}.json" for unit in library.units}
    for unit, reads in library.units.items():
        if not probes[unit].exists():
            probe(reads, library.layouts, probes[unit], new_meter("probe", unit=unit))
    return probes


def run_checkout(
    library: Library,
    *,
    parts: int = 1,
    threads: int = 1,
    record_block: int = 8192,
    unmatched: bool = False,
    **options: Any,
) -> tuple[list[Path], list[dict[str, Any]]]:
    """Check out all units; return partition files and metrics, unit after unit, part after part."""
    probes = run_probes(library)
    outputs, metrics = [], []
    for number, (unit, reads) in enumerate(library.units.items()):
        for part in range(parts):
            name = f"{part + 1}-of-{parts}"
            home = library.folder / "partition" / unit
            meter = new_meter("checkout", threads, unit=unit, part=name)
            checkout(
                reads,
                library.layouts,
                probes,
                unit,
                Part(number, part, parts, record_block),
                home / f"{name}.rows",
                meter,
                unmatched=home / f"{name}.unmatched" if unmatched else None,
                **options,
            )
            outputs.append(home / f"{name}.rows")
            metrics.append(meter.result("match"))
    return outputs, metrics


def run_plan(library: Library, partitions: Sequence[Path], buckets: int) -> Path:
    """Plan the buckets."""
    output = library.folder / "plan" / f"of-{buckets}.plan"
    plan(partitions, buckets, output, new_meter("plan"))
    return output


# -- what is in the files --------------------------------------------------------------------------


def ledger(metrics: Iterable[Mapping[str, Any]]) -> dict[tuple[str | None, str], int]:
    """Add up ledgers, without lines of zero."""
    total: Counter[tuple[str | None, str]] = Counter()
    for job in metrics:
        for entry in job["ledger"]:
            total[entry["sample"], entry["line"]] += entry["templates"]
    return {place: count for place, count in total.items() if count}


def key_text(key: int, length: int) -> str:
    """Unpack a key, first base highest."""
    return "".join("ACGT"[(key >> (62 - 2 * place)) & 3] for place in range(length))


def _bases(words: Sequence[int], length: int) -> str:
    return "".join(key_text(word, 32) for word in words)[:length]


def _qualities(words: Sequence[int], length: int, bits: int, levels: Sequence[int]) -> bytes:
    if bits == 8:
        return b"".join(word.to_bytes(8, "little") for word in words)[:length]
    codes = [(word >> (62 - 2 * place)) & 3 for word in words for place in range(32)]
    return bytes(levels[code] for code in codes[:length])


def unpack_row(
    hot: Any, barcode: Any, words: Sequence[int], bits: int, levels: Sequence[int]
) -> Row:
    """Unpack a row: (sample, barcode, cell bases, flags, unit, record, barcode qualities, mates).

    Each mate is (bases with N, qualities from 0).
    """
    lengths = (int(hot["length_1"]), int(hot["length_2"]))
    at = 0

    def take(per_word: int) -> list[Sequence[int]]:
        nonlocal at
        parts = []
        for length in lengths:
            count = -(-length // per_word)
            parts.append(words[at : at + count])
            at += count
        return parts

    bases = [_bases(part, length) for part, length in zip(take(32), lengths, strict=True)]
    qualities = [
        _qualities(part, length, bits, levels)
        for part, length in zip(take(32 if bits == 2 else 8), lengths, strict=True)
    ]
    if int(hot["flags"]) & 32:
        for side, part in enumerate(take(64)):
            mask = "".join(f"{word:064b}" for word in part)
            bases[side] = "".join(
                "N" if bit == "1" else base for base, bit in zip(bases[side], mask, strict=False)
            )
    assert at == len(words)
    width = int(hot["cell_length"]) + int(hot["umi_length"])
    return (
        int(hot["sample"]),
        key_text(int(hot["key"]), width),
        int(hot["cell_length"]),
        int(hot["flags"]),
        int(hot["unit"]),
        int(hot["record"]),
        bytes(barcode.tolist()),
        tuple(zip(bases, qualities, strict=True)),
    )


def cold_size(hot: Any, bits: int) -> int:
    """Return the cold words of a row."""
    total = 0
    for name in ("length_1", "length_2"):
        length = int(hot[name])
        total += -(-length // 32) + -(-length // (32 if bits == 2 else 8))
        total += -(-length // 64) if int(hot["flags"]) & 32 else 0
    return total


def unpack_rows(
    hot: Any, barcode: Any, cold: Any, bits: int, levels: Sequence[int]
) -> Iterator[Row]:
    """Unpack rows that lie one after the other."""
    words = cold.tolist()
    at = 0
    for number in range(hot.size):
        stop = at + cold_size(hot[number], bits)
        yield unpack_row(hot[number], barcode[number], words[at:stop], bits, levels)
        at = stop
    assert at == len(words)


def partition_rows(path: Path) -> list[list[Row]]:
    """Read a whole partition file: the rows of each flush."""
    flushes = []
    with PartitionFile(path) as part:
        for number, entry in enumerate(part.flushes):
            count, bits = int(entry["rows"]), int(entry["quality_bits"])
            hot = part.read_hot(number, 0, count)
            barcode = part.read_barcode_quality(number, 0, count)
            cold = part.read_cold(number, 0, int(entry["cold_words"]))
            flushes.append(list(unpack_rows(hot, barcode, cold, bits, entry["levels"].tolist())))
    return flushes


def all_rows(paths: Iterable[Path]) -> Counter[Row]:
    """Return the multiset of rows of partition files."""
    return Counter(row for path in paths for flush in partition_rows(path) for row in flush)


def library_of(folder: Path, layouts: Layouts, *mates: Iterable[Record]) -> Library:
    """Make a library of one unit."""
    folder.mkdir(exist_ok=True)
    paths = [write_fastq(folder / f"R{side}.fq", mate) for side, mate in enumerate(mates, 1)]
    return Library(folder, layouts, {"u1": paths})


def checked_out(
    library: Library, **options: Any
) -> tuple[Counter[Row], dict[tuple[str | None, str], int]]:
    """Check out a library; return the multiset of its rows and its ledger."""
    partitions, metrics = run_checkout(library, **options)
    for job in metrics:
        assert sum(entry["templates"] for entry in job["ledger"]) == job["reads"]
    return all_rows(partitions), ledger(metrics)


def files_below(folder: Path) -> list[str]:
    """List all files of a folder, hidden ones too."""
    return sorted(
        os.path.relpath(os.path.join(home, name), folder)
        for home, _, names in os.walk(folder)
        for name in names
    )
