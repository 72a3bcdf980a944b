"""index: books that close, a fault in any one number, and the library's tables."""

import copy
import re
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from bucket_fixture import ASSEMBLE_LINES, Buckets, run_buckets, run_index, settings
from stage_fixture import (
    Library,
    all_rows,
    files_below,
    random_reads,
    run_checkout,
    run_plan,
    write_fastq,
)
from umimill.blockfile import BlockFile
from umimill.errors import UmimillError
from umimill.files import read_json, write_json
from umimill.index import SETTLE_LINES, check_books, check_outcomes, check_rows
from umimill.library_tables import provenance
from umimill.outcomes import CORRECTED
from umimill.plan import Plan, read_plan

LAYOUTS = [
    ("S2", "^TTGCXXNNNN", None),
    ("S1", "^ACGTNNNNNN", None),
    ("S3", "^GGAANNNNNN", None),
]
SAMPLES = ("S1", "S2", "S3")
MINIMUM = 2
BOOKS = ("checkout", "tally", "settle", "assemble")


class Run(NamedTuple):
    """A library whose stages have run as far as assemble."""

    library: Library
    plan_path: Path
    made: Buckets
    metrics: list[dict[str, Any]]
    sizes: list[Counter[int]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("index")
    rng = np.random.default_rng(1)
    units = {}
    # Reads of a UMI are alike: each key is one molecule.
    drawn = random_reads(rng, 6000, [b"ACGT", b"TTGC", b"CATG"], umis=300, templates=1)
    for unit, reads in (("u1", drawn[:3000]), ("u2", drawn[3000:])):
        name = reads[0][0]
        # One of each line of the ledger that is not made by chance.
        reads[:3] = [
            (name, b"ACGTANCCTTAGG", b"I" * 13),
            (name, b"TTGCACCCTT", b"I" * 10),
            (name, b"TTGCACCCT", b"I" * 9),
        ]
        units[unit] = [write_fastq(folder / f"{unit}.fq", reads)]
    library = Library(folder, LAYOUTS, units)
    partitions, metrics = run_checkout(library, parts=2, record_block=500)
    plan_path = run_plan(library, partitions, 3)
    made, more = run_buckets(library, plan_path, minimum_reads=MINIMUM)
    families: list[Counter[str]] = [Counter() for _ in SAMPLES]
    for row, times in all_rows(partitions).items():
        families[row[0]][row[1]] += times
    sizes = [Counter(one.values()) for one in families]
    return Run(library, plan_path, made, metrics + more, sizes)


@pytest.fixture(scope="module")
def indexed(run: Run) -> dict[str, Any]:
    path = run_index(run.library, run.made, run.metrics, minimum_reads=MINIMUM)
    found: dict[str, Any] = read_json(path)
    return found


# -- the books -------------------------------------------------------------------------------------


def refusal(plan: Plan, metrics: Sequence[Any]) -> str:
    with pytest.raises(UmimillError) as caught:
        check_books(plan, metrics)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_books_close(run: Run) -> None:
    rows = check_books(read_plan(run.plan_path), run.metrics)
    lines = Counter({(stage, sample, line): templates for stage, sample, line, templates in rows})
    assert len(rows) == len(lines) == 2 + 3 * 18
    assert sum(number for (stage, _, _), number in lines.items() if stage == "checkout") == 6000
    for line in ("unmatched", "too_short", "empty_payload", "unresolved", "assigned"):
        found = [number for (_, _, name), number in lines.items() if name == line]
        assert sum(found) > 0, line
    assert lines["assemble", "S1", "below_filter"] > 0
    assert {name for stage, _, name in lines if stage == "assemble"} == set(ASSEMBLE_LINES)


def test_every_number_of_the_books_counts(run: Run) -> None:
    """Each number of each ledger, one too many or too few, is noticed and its line is named."""
    plan = read_plan(run.plan_path)
    names = {
        "checkout": "templates read",
        "tally": "reads in families",
        "settle": "reads settled",
        "assemble": "reads assembled",
    }
    changed = Counter[tuple[str, str]]()
    for number, job in enumerate(run.metrics):
        for place, entry in enumerate(job["ledger"]):
            for step in (1, -1):
                metrics = copy.deepcopy(run.metrics)
                metrics[number]["ledger"][place]["templates"] += step
                message = refusal(plan, metrics)
                name = names[job["stage"]]
                if job["stage"] != "assemble" and entry["line"] in (
                    "partial",
                    "placed",
                    "unresolved",
                ):
                    name = "partial" if job["stage"] != "checkout" else name
                assert name in message
                if job["stage"] != "checkout":
                    assert message.startswith(f"sample {entry['sample']}: ")
            changed[job["stage"], entry["line"]] += 1
    assert changed == {
        ("checkout", "unmatched"): 4,
        ("checkout", "ambiguous"): 4,
        **{
            ("checkout", line): 12
            for line in (
                "too_short",
                "low_umi_quality",
                "empty_payload",
                "unresolved",
                "partial",
                "assigned",
            )
        },
        ("tally", "families"): 9,
        ("tally", "partial"): 9,
        **{("settle", line): 3 for line in SETTLE_LINES},
        **{("assemble", line): 9 for line in ASSEMBLE_LINES},
    }


def test_a_template_on_another_line_is_noticed(run: Run) -> None:
    """Sums that close in checkout alone do not hide it."""
    plan = read_plan(run.plan_path)
    for sample in SAMPLES[:2]:
        metrics = copy.deepcopy(run.metrics)
        for entry in metrics[0]["ledger"]:
            if entry["sample"] == sample:
                entry["templates"] += {"assigned": -1, "too_short": 1}.get(entry["line"], 0)
        rows = int(plan.rows[SAMPLES.index(sample)])
        assert refusal(plan, metrics) == (
            f"sample {sample}: {rows:,} rows of the partition but {rows - 1:,} assigned; this is a "
            "fault of umimill or of the disk: please report it"
        )


def test_templates_rows_and_hashes_count(run: Run) -> None:
    plan = read_plan(run.plan_path)
    for number, job in enumerate(run.metrics):
        if job["stage"] == "checkout":
            metrics = copy.deepcopy(run.metrics)
            metrics[number]["reads"] += 1
            assert refusal(plan, metrics).startswith(
                "checkout: 6,000 all lines but 6,001 templates read"
            )
    for sample, name in enumerate(SAMPLES):
        rows = plan.rows.copy()
        rows[sample] += 1
        assert refusal(replace(plan, rows=rows), run.metrics).startswith(
            f"sample {name}: {int(rows[sample]):,} rows of the partition but"
        )


def test_rows_count(run: Run, tmp_path: Path) -> None:
    """Those read by assemble and move are those of the partition, those moved arrived."""
    plan = read_plan(run.plan_path)
    routes = read_json(run.made.routes)
    for sample, name in enumerate(SAMPLES):
        sums = plan.hash_sums.copy()
        sums[sample] ^= np.uint64(1 << 40)
        for pair in ((sums, plan.hash_sums), (plan.hash_sums, sums)):
            with pytest.raises(UmimillError) as caught:
                check_rows(plan, *pair, "partition")
            assert str(caught.value) == (
                f"sample {name}: the rows assembled are not the rows written (their hashes "
                "differ); delete results/partition and results/plan and run again"
            )
        for kind, folder in (("read", "partition"), ("written", "move")):
            changed = copy.deepcopy(routes)
            changed[f"{kind}_hash_sums"][sample] ^= 1 << 40
            write_json(tmp_path / "routes.json", changed)
            made = replace(run.made, routes=tmp_path / "routes.json")
            library = Library(tmp_path, run.library.layouts, run.library.units)
            match = f"^sample {name}: the rows assembled .*; delete results/{folder} and"
            with pytest.raises(UmimillError, match=match):
                run_index(library, made, run.metrics, minimum_reads=MINIMUM)


def test_a_missing_job_is_noticed(run: Run) -> None:
    plan = read_plan(run.plan_path)
    for number in range(len(run.metrics)):
        metrics = run.metrics[:number] + run.metrics[number + 1 :]
        # Of all jobs that keep books only those that saw no read can be missing without harm.
        if run.metrics[number]["reads"] and run.metrics[number]["stage"] in BOOKS:
            refusal(plan, metrics)
        else:
            check_books(plan, metrics)


def test_open_books_leave_nothing(run: Run, tmp_path: Path) -> None:
    metrics = copy.deepcopy(run.metrics)
    metrics[-1]["ledger"][0]["templates"] += 1
    library = Library(tmp_path, run.library.layouts, run.library.units)
    with pytest.raises(UmimillError, match="reads assembled"):
        run_index(library, run.made, metrics)
    assert {name.split("/")[0] for name in files_below(tmp_path)} == {"jobs"}


# -- the list of fragments -------------------------------------------------------------------------


def test_fragments_are_listed(run: Run, indexed: dict[str, Any]) -> None:
    """Each range of a fragment belongs to one sample; together they are all there is."""
    assert [entry["sample"] for entry in indexed["samples"]] == list(SAMPLES)
    ranges: dict[str, list[tuple[int, int]]] = {}
    for number, entry in enumerate(indexed["samples"]):
        sizes = run.sizes[number]
        assert entry["molecule_count"] == sizes.total()
        assert entry["records"] == sum(sizes[size] for size in sizes if size >= MINIMUM)
        rows = sum(stop - start for _, start, stop in entry["molecules"])
        assert rows == entry["molecule_count"]
        assert len(entry["mates"]) == 2
        for path, start, stop in entry["mates"][0] + entry["molecules"]:
            assert start < stop
            ranges.setdefault(path, []).append((start, stop))
        assert entry["mates"][1] == []
    for one in run.made.files:
        found = ranges.get(str(one["mate1"]), [])
        assert [start for start, _ in found[1:]] == [stop for _, stop in found[:-1]]
        with BlockFile(one["mate1"]) as file:
            assert sum(stop - start for start, stop in found) == file.read("sample_bytes").sum()
        if found:
            assert found[0][0] == 8
            text = one["mate1"].read_bytes()
            assert text[8:12] == b"\x1f\x8b\x08\x04"
    assert indexed["unit_templates"] == {"u1": 3000, "u2": 3000}
    assert indexed["sizes"] == [[list(item) for item in sorted(one.items())] for one in run.sizes]


# -- tables ----------------------------------------------------------------------------------------


def table(path: Path) -> list[dict[str, str]]:
    head, *lines = path.read_text().splitlines()
    return [dict(zip(head.split("\t"), line.split("\t"), strict=True)) for line in lines]


def test_tables(run: Run, indexed: dict[str, Any]) -> None:
    folder = run.library.folder / "metrics"
    assert [entry["sample"] for entry in indexed["samples"]] == list(SAMPLES)
    assert files_below(folder) == [
        "barcodes.tsv", "corrections.tsv", "family_sizes.tsv", "jobs.json", "ledger.tsv",
        "outcomes.tsv", "posteriors.tsv", "provenance.json", "ranks.tsv", "samples.tsv",
        "sizes.tsv", "umi_errors.tsv",
    ]  # fmt: skip
    jobs = read_json(folder / "jobs.json")
    assert (jobs["schema"], jobs["library"]) == (1, "L1")
    assert [job["stage"] for job in jobs["jobs"]] == [job["stage"] for job in run.metrics]
    ledger = table(folder / "ledger.tsv")
    assert list(ledger[0]) == ["stage", "library", "sample", "line", "templates"]
    assert [row["sample"] for row in ledger[:2]] == [".", "."]
    assert sum(int(row["templates"]) for row in ledger if row["stage"] == "checkout") == 6000
    found = [(row["sample"], int(row["family_size"]), int(row["count"]))
             for row in table(folder / "sizes.tsv")]  # fmt: skip
    assert found == [
        (sample, *item)
        for sample, sizes in zip(SAMPLES, run.sizes, strict=True)
        for item in sorted(sizes.items())
    ]
    for row, sizes in zip(table(folder / "samples.tsv"), run.sizes, strict=True):
        kept = [size for size in sizes.elements() if size >= MINIMUM]
        assert int(row["reads"]) == sum(sizes.elements())
        assert int(row["molecules"]) == len(kept)
        assert int(row["below_filter"]) == sizes[1]
        mean = statistics.mean(kept) if kept else 0
        assert float(row["mean_reads_per_molecule"]) == pytest.approx(mean, rel=1e-5)
        median = statistics.median(kept) if kept else 0
        assert float(row["median_reads_per_molecule"]) == median
        assert (float(row["mean_quality"]) > 2) == bool(kept)
        assert 0 <= float(row["posterior_error"]) < 0.75


def test_table_of_barcodes(run: Run, indexed: dict[str, Any]) -> None:
    folder = run.library.folder / "metrics"
    outcomes = table(folder / "outcomes.tsv")
    rows = table(folder / "barcodes.tsv")
    assert [row["sample"] for row in rows] == list(SAMPLES)
    for row, sizes, entry in zip(rows, run.sizes, indexed["samples"], strict=True):
        assert int(row["families"]) == int(row["molecules"]) == entry["molecule_count"]
        assert row["corrected"] == row["corrected_reads"] == "0"
        own = [one for one in outcomes if one["sample"] == row["sample"]]
        assert {one["outcome"] for one in own} <= {"molecule"}
        bins: Counter[int] = Counter()
        for size in sizes.elements():
            bins[1 << (size.bit_length() - 1)] += 1
        assert {int(one["reads_from"]): int(one["families"]) for one in own} == bins
        assert sum(int(one["reads"]) for one in own) == sum(sizes.elements())
        occupancy = int(row["molecules"]) / float(row["space"])
        assert float(row["occupancy"]) == pytest.approx(occupancy, rel=1e-5)


@pytest.mark.parametrize(
    ("place", "numbers", "message"),
    [
        ((1, 0), (8, 29), "9 families kept but 4 assembled"),
        ((1, 0), (3, 28), "29 reads of families kept but 30 assigned or placed"),
        ((0, CORRECTED), (2, 3), "3 reads of families corrected but 2 corrected"),
    ],
)
def test_families_that_went_elsewhere_are_noticed(
    place: tuple[int, int], numbers: tuple[int, int], message: str
) -> None:
    ledger = [["checkout", "S", "assigned", 30], ["settle", "S", "corrected", 2],
              ["settle", "S", "placed", 0]]  # fmt: skip
    entries = [{"sample": "S", "molecule_count": 4}]
    held = {(0, 0): (1, 1), (1, 0): (3, 29), (0, CORRECTED): (2, 2)}
    check_outcomes(entries, [held], ledger)
    with pytest.raises(UmimillError, match=r"sample S: ") as caught:
        check_outcomes(entries, [held | {place: numbers}], ledger)
    assert message in str(caught.value)


def test_provenance(run: Run, indexed: dict[str, Any]) -> None:
    found = read_json(run.library.folder / "metrics" / "provenance.json")
    assert found["layouts"][0] == {
        "sample": "S2", "layout": "^TTGCXXNNNN", "layout_read2": None, "umi_length": 4,
        "cell_length": 2, "anchored": True,
    }  # fmt: skip
    assert [one["sample"] for one in found["layouts"]] == ["S2", "S1", "S3"]
    levels = found["units"][0].pop("quality_levels")
    assert found["units"][0] == {
        "unit": "u1", "read1": str(run.library.units["u1"][0]), "read2": None, "templates": 3000,
        "phred_offset": 33,
    }  # fmt: skip
    assert levels == [2, 20, 37, 40]
    assert (found["buckets"], found["parts"], found["floor"]) == (3, 1, 1e-4)
    unmatched = sum(row[3] for row in indexed["ledger"] if row[2] == "unmatched")
    # Four bases: one foreign read in 256 has a tag by chance.
    for sample in SAMPLES:
        assert found["expected_chance_matches"][sample] == pytest.approx(unmatched / 256, rel=0.01)
    asked = settings(run.library, run.made, minimum_reads=MINIMUM)
    assert found == provenance(indexed, asked) | {"units": found["units"]}


def test_no_run_details_in_tables(run: Run, indexed: dict[str, Any]) -> None:
    """Times, hosts and threads are in the metrics alone."""
    for name in files_below(run.library.folder / "metrics"):
        if not name.endswith(".tsv"):
            continue
        text = (run.library.folder / "metrics" / name).read_text()
        assert not re.search(r"host|thread|seconds|cpu|20\d\d-\d\d-\d\d", text), name
    assert indexed["library"] == "L1"
