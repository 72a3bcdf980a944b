"""gather: the fragments of each sample, appended in key order, and its tables.

FASTQ is appended as it was compressed; molecules are rewritten in row groups that do not depend on
buckets. Records and their order are checked against what the buckets said they wrote.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umimill import tables
from umimill.bgzf import EOF_BLOCK
from umimill.blockfile import BlockFile
from umimill.cell_tables import write_cells
from umimill.errors import UmimillError
from umimill.family_tables import write_families
from umimill.files import read_json, whole_file
from umimill.kernels.molecules import first_unordered
from umimill.metrics import Meter

COPY_BYTES = 4 << 20
READ_MOLECULES = 1 << 15


def gather(
    index_path: Path,
    samples: Sequence[str],
    fastq: Mapping[str, Sequence[Path]],
    folder: Path,
    meter: Meter,
    *,
    cells: Collection[str] = (),
) -> None:
    """Write the files of a run of samples.

    Args:
        index_path: index of the library.
        samples: samples to write.
        fastq: FASTQ files of each sample, one a mate.
        folder: the folder with a folder for each sample.
        meter: metrics of the job.
        cells: those of the samples that have cell barcodes.

    Raises:
        UmimillError: where fragments do not hold what the index says.
    """
    index = read_json(index_path)
    order = [entry["sample"] for entry in index["samples"]]
    for sample in samples:
        number = order.index(sample)
        entry = index["samples"][number]
        home = folder / sample
        # First, since it checks what it reads: nothing of the sample has its final name yet.
        with meter.clock("compress"):
            records = write_molecules(
                entry,
                home / f"{sample}.molecules.parquet",
                paired=len(fastq[sample]) == 2,
            )
            write_families(entry, home / f"{sample}.families.parquet")
            for name in ("molecules", "families"):
                meter.written_bytes += (home / f"{sample}.{name}.parquet").stat().st_size
            if sample in cells:
                write_cells(entry, home)
        if records != entry["records"]:
            raise UmimillError(
                f"sample {sample}: {entry['records']:,} records but {records:,} molecules "
                "with enough reads; delete results/assemble and run again"
            )
        with meter.clock("write"):
            # Mate 2 of a library without pairs is an empty list.
            for path, pieces in zip(fastq[sample], entry["mates"], strict=False):
                meter.written_bytes += append_pieces(pieces, path)
        meter.count(sample, "records", records)
        meter.reads += entry["molecule_count"]
        write_sizes(home / f"{sample}.sizes.tsv", index["sizes"][number])
        tables.write_tsv(
            home / f"{sample}.ledger.tsv",
            tables.LEDGER,
            (
                (stage, index["library"], sample, line, templates)
                for stage, name, line, templates in index["ledger"]
                if name == sample
            ),
        )


def append_pieces(pieces: Sequence[tuple[str, int, int]], path: Path) -> int:
    """Append byte ranges of fragments and the BGZF end-of-file block; return the bytes."""
    scratch = np.zeros(COPY_BYTES + (1 << 17), np.uint8)
    total = 0
    with whole_file(path) as temporary, temporary.open("wb") as file:
        for fragment, start, stop in pieces:
            with BlockFile(Path(fragment)) as blocks:
                for at in range(start, stop, COPY_BYTES):
                    data, scratch = blocks.read_bytes(at, min(at + COPY_BYTES, stop), scratch)
                    total += file.write(memoryview(data))
        total += file.write(EOF_BLOCK)
    return total


def _molecule_pieces(entry: Mapping[str, Any]) -> Iterator[npt.NDArray[Any]]:
    for path, start, stop in entry["molecules"]:
        with BlockFile(Path(path)) as blocks:
            for at in range(start, stop, READ_MOLECULES):
                yield blocks.read("molecules", at, min(at + READ_MOLECULES, stop))


def write_molecules(entry: Mapping[str, Any], path: Path, *, paired: bool) -> int:
    """Write molecules.parquet of a sample; return the molecules that have a record.

    Raises:
        UmimillError: where molecules are not in the order of their keys.
    """
    records = 0
    before: npt.NDArray[Any] | None = None
    with whole_file(path) as temporary:
        writer = tables.TableWriter(temporary, tables.MOLECULES, ["sample", "status", "flags"])
        for rows in _molecule_pieces(entry):
            joined = rows if before is None else np.concatenate([before, rows])
            if first_unordered(joined) >= 0:
                raise UmimillError(
                    f"sample {entry['sample']}: molecules are out of order; delete "
                    "results/assemble and run again"
                )
            before = rows[-1:].copy()
            records += int(rows["kept"].sum(dtype=np.int64))
            writer.add(tables.molecules_table(rows, entry["sample"], paired=paired))
        writer.close()
    return records


def write_sizes(path: Path, sizes: Sequence[tuple[int, int]]) -> None:
    """Write reads per molecule in the form that fgbio gives family sizes (MultiQC knows it)."""
    total = sum(count for _, count in sizes)
    left = total
    rows = []
    for size, count in sizes:
        rows.append((size, count, count / total, left / total))
        left -= count
    tables.write_tsv(path, tables.SIZES, rows)


def gather_unmatched(
    pieces: Sequence[Path], parts: int, outputs: Sequence[Path], meter: Meter
) -> None:
    """Write the unmatched templates of a library in the order of units and records.

    Args:
        pieces: what checkout kept, unit after unit and part after part.
        parts: parts of a unit.
        outputs: FASTQ files to write, one a mate.
        meter: metrics of the job.
    """
    listed: list[tuple[int, int, int, str, int, int]] = []
    for number, path in enumerate(pieces):
        with BlockFile(path) as blocks:
            for mate, block, start, length, records in blocks.read("pieces").tolist():
                listed.append((mate, number // parts, block, str(path), start, start + length))
                meter.reads += records if mate == 0 else 0
    listed.sort()
    for mate, output in enumerate(outputs):
        ranges = [(path, start, stop) for one, _, _, path, start, stop in listed if one == mate]
        meter.written_bytes += append_pieces(ranges, output)
