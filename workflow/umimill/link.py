"""link: find the best parent of each family of a bucket.

A parent differs at one base of the UMI and ranks above its child. Those that differ behind the
first bases of a block are found inside it, the others by merging it with its siblings, from
whichever bucket's table holds them: the answer is that of one pass over all families.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umimill.asks import AskWriter
from umimill.blockfile import BlockWriter
from umimill.errors import UmimillError
from umimill.family_blocks import (
    KEY_BYTES,
    Block,
    FamilyFile,
    FamilyFiles,
    barcode_lengths,
    cut_blocks,
    first_keys,
    new_keys,
    pairs_beside,
    read_into,
)
from umimill.kernels import link as kernels
from umimill.metrics import Meter
from umimill.model import read_model
from umimill.neighbours import neighbour_pairs
from umimill.plan import read_plan

EDGE = np.dtype(
    [
        ("parent_key", "<u8"),
        ("score", "<i4"),
        ("ln_error", "<i4"),
        ("ln_independent", "<i4"),
        ("payload", "<i4"),
        ("parent_reads", "<u4"),
        ("parent_family", "<u2"),
        ("position", "u1"),
        ("flags", "u1"),
    ]
)
BLOCK_SHARE = 0.6
# Of a family in a block, beside itself, its qualities and its key: rank, edge, quality of parent.
LINK_BYTES = 4 + EDGE.itemsize + 4

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Outputs:
    """What link writes.

    Attributes:
        edges: best parents one base away, EDGE[n], a row a family of the bucket.
        queries: families with several unsure bases, which ask for what they may have been.
    """

    edges: Path
    queries: Path


class _Room:
    """Memory for one block, used again for the next.

    Args:
        rows: families.
        file: their table.
    """

    def __init__(self, rows: int, file: FamilyFile) -> None:
        self.rows = rows
        self._keys = new_keys(np.empty(rows, file.table.read(0, 0).dtype))
        self._ranking = kernels.Ranking(
            np.empty((rows, file.quality_width), np.uint8), np.empty(rows, np.int32)
        )
        self._best = kernels.Best(np.empty(rows, EDGE), np.empty(rows, np.int32))
        arrays = (*self._keys, *self._ranking, *self._best)
        self.bytes = sum(array.nbytes for array in arrays)

    def load(
        self, block: Block, file: FamilyFile
    ) -> tuple[kernels.KeyTable, kernels.Ranking, kernels.Best]:
        """Read the families of a block, none of which has a parent yet."""
        families = read_into(file.table.read, block.start, block.stop, self._keys.families)
        quality = read_into(file.read_quality, block.start, block.stop, self._ranking.quality)
        best = kernels.Best(self._best.edges[: block.rows], self._best.qualities)
        kernels.clear_edges(best.edges)
        return (
            self._keys._replace(families=families),
            self._ranking._replace(quality=quality),
            best,
        )


class _Linker:
    """Links the blocks of a bucket.

    Args:
        files: families of the library.
        model: what pairs are scored by.
        meter: metrics of the job.
    """

    def __init__(self, files: FamilyFiles, model: Any, meter: Meter) -> None:
        self._files = files
        self._model = model
        self._meter = meter

    def link(
        self,
        block: Block,
        table: kernels.KeyTable,
        ranking: kernels.Ranking,
        best: kernels.Best,
    ) -> None:
        """Find the best parents of the families of a block."""
        for umi, cell in barcode_lengths(table.families):
            with self._meter.clock("sort"):
                count = kernels.list_keys(table, umi, cell)
                kernels.rank_families(table, ranking, count)
            keys = first_keys(table, count)
            self._add("keys", count)
            with self._meter.clock("match"):
                self._link_within(block, (umi, cell), keys, ranking, best)
            with self._meter.clock("match"):
                self._link_beside(block, (umi, cell), keys, ranking, best)

    def _link_within(
        self,
        block: Block,
        lengths: tuple[int, int],
        keys: kernels.KeyTable,
        ranking: kernels.Ranking,
        best: kernels.Best,
    ) -> None:
        length = sum(lengths)
        begin = min(max(block.depth, lengths[1]), length)
        for pairs in neighbour_pairs(keys.keys, length, bases=(begin, length)):
            scored = kernels.link_pairs(
                keys, ranking.quality, keys, ranking, pairs, 2, self._model, best
            )
            self._add("pairs", pairs.first.size)
            self._add("scored", scored)

    def _link_beside(
        self,
        block: Block,
        lengths: tuple[int, int],
        keys: kernels.KeyTable,
        ranking: kernels.Ranking,
        best: kernels.Best,
    ) -> None:
        for position in range(lengths[1], min(block.depth, sum(lengths))):
            for change in (1, 2, 3):
                for file in self._files.holding(block.sibling(position, change)):
                    for beside in pairs_beside(
                        keys.keys, block.sample, lengths, position, change, file.table
                    ):
                        rows = beside.table.families.size
                        quality = file.read_quality(beside.start, beside.start + rows)
                        ranks = kernels.Ranking(quality, np.empty(rows, np.int32))
                        kernels.rank_families(beside.table, ranks, beside.table.keys.size)
                        scored = kernels.link_pairs(
                            keys,
                            ranking.quality,
                            beside.table,
                            ranks,
                            beside.pairs,
                            1,
                            self._model,
                            best,
                        )
                        self._meter.read_bytes += beside.table.families.nbytes + quality.nbytes
                        self._add("sibling_pairs", beside.pairs.first.size)
                        self._add("scored", scored)

    def _add(self, counter: str, count: int) -> None:
        self._meter.counters[counter] = self._meter.counters.get(counter, 0) + int(count)


def link(
    plan_path: Path,
    tables: Sequence[Path],
    bucket: int,
    model_path: Path,
    outputs: Outputs,
    meter: Meter,
    *,
    block_bytes: int | None = None,
) -> None:
    """Find the best parent of each family of a bucket.

    Args:
        plan_path: plan of the library.
        tables: tables of families, by bucket.
        bucket: number of the bucket, from 0.
        model_path: model of the library.
        outputs: files to write.
        meter: metrics of the job.
        block_bytes: memory for a block of families; None takes it from the budget.

    Raises:
        UmimillError: where a table is damaged, or has families that are not the bucket's.
    """
    plan = read_plan(plan_path)
    edge_model = read_model(model_path)
    budget = block_bytes or int(meter.budget_bytes * BLOCK_SHARE)
    counters = ("families", "keys", "pairs", "sibling_pairs", "scored", "linked", "blocks")
    meter.counters.update(dict.fromkeys(counters, 0))
    with (
        FamilyFiles(plan, tables) as files,
        FamilyFile(tables[bucket]) as file,
        BlockWriter(outputs.edges) as writer,
        AskWriter(outputs.queries, edge_model) as ask_writer,
    ):
        linker = _Linker(files, edge_model, meter)
        family_bytes = file.table.read(0, 0).dtype.itemsize + file.quality_width
        limit = max(1, budget // (family_bytes + KEY_BYTES + LINK_BYTES))
        room = _Room(0, file)
        start = writer.append(np.empty(0, EDGE))
        for block in cut_blocks(file.table, plan.leaves, *files.bucket_leaves(bucket), limit):
            if room.rows < block.rows:
                # The smaller one goes before the larger one comes.
                room = _Room(0, file)
                room = _Room(block.rows, file)
                meter.umi_memory_bytes = max(meter.umi_memory_bytes, room.bytes)
            with meter.clock("decode"):
                table, ranking, best = room.load(block, file)
            meter.read_bytes += table.families.nbytes + ranking.quality.nbytes
            meter.reads += int(table.families["reads"].sum(dtype=np.int64))
            linker.link(block, table, ranking, best)
            with meter.clock("write"):
                writer.append(best.edges)
            with meter.clock("match"):
                ask_writer.add(
                    table.families, ranking.quality, best.edges, meter.counters["families"]
                )
            meter.counters["families"] += block.rows
            meter.counters["linked"] += int(kernels.count_parents(best.edges))
            meter.counters["blocks"] += 1
            # Else a block would stay in memory until all of the next one is there.
            del table, ranking, best
        if meter.counters["families"] != file.table.rows:
            raise UmimillError(
                f"{tables[bucket]}: has families of other buckets; delete results/tally, run again"
            )
        writer.list_array("edges", start, (meter.counters["families"],), EDGE)
        meter.counters["asks"] = ask_writer.finish(bucket)
        writer.finish({"bucket": bucket})
        meter.written_bytes = writer.offset
    # The table of the bucket is read once; what is beside a block, once a base and change.
    meter.umi_read_back_bytes = files.closed_bytes
