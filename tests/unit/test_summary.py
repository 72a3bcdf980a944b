"""Sums of the report, against small literal tables."""

import pytest

from umimill import barcode_sums, job_sums, ledger_checks, summary
from umimill import outcomes as move_outcomes
from umimill.barcode_sums import Barcodes, Outcome
from umimill.summary import Job, LedgerRow, Library, Sample


def job(stage="tally", **values):
    return Job(stage, "L1", **values)


def library(rows=(), **values):
    return Library("L1", ledger=tuple(LedgerRow(*row) for row in rows), **values)


CLOSED = (
    ("checkout", None, "unmatched", 5),
    ("checkout", "A", "too_short", 1),
    ("checkout", "A", "assigned", 10),
    ("checkout", "B", "assigned", 4),
    ("plan", "A", "planned", 10),
    ("plan", "B", "planned", 4),
    ("tally", "A", "families", 10),
    ("tally", "B", "families", 4),
    ("settle", "A", "kept", 8),
    ("settle", "A", "corrected", 2),
    ("settle", "B", "kept", 4),
    ("assemble", "A", "voted", 9),
    ("assemble", "A", "set_aside(indel)", 1),
    ("assemble", "B", "voted", 4),
    ("gather", "A", "records", 3),
    ("gather", "B", "records", 4),
)
SAMPLES = (Sample("L1", "A", 10, 3), Sample("L1", "B", 4, 4))
SIZES = {"A": ((1, 1), (4, 1), (5, 1)), "B": ((1, 4),)}


def verdicts(rows, samples=SAMPLES, sizes=SIZES, templates=20, suspects=False, **values):
    provenance = {"units": [{"templates": templates}], "suspects": suspects}
    made = library(rows, samples=samples, sizes=sizes, provenance=provenance, **values)
    return [check.closed for check in ledger_checks.checks(made)]


def test_a_ledger_that_closes():
    assert verdicts(CLOSED) == [True] * 7


@pytest.mark.parametrize(
    ("changed", "opened"),
    [
        (("checkout", None, "unmatched", 4), [0]),
        (("checkout", "A", "assigned", 9), [0, 1, 2]),
        (("plan", "B", "planned", 3), [1]),
        (("tally", "A", "families", 11), [2, 3, 4, 6]),
        (("settle", "A", "corrected", 1), [3]),
        (("assemble", "A", "voted", 8), [4]),
        (("gather", "B", "records", 3), [5]),
    ],
)
def test_one_changed_line_opens_its_sums(changed, opened):
    rows = [changed if row[:3] == changed[:3] else row for row in CLOSED]
    assert [i for i, closed in enumerate(verdicts(rows)) if not closed] == opened


def test_opposite_errors_of_two_samples_do_not_hide_each_other():
    swap = {("tally", "A"): 9, ("tally", "B"): 5}
    rows = [(*row[:3], swap.get(row[:2], row[3])) for row in CLOSED]
    assert verdicts(rows)[2] is False


def test_templates_below_the_filter_may_be_missing_from_records_but_not_added():
    filtered = [*CLOSED, ("assemble", "A", "below_filter", 1)]
    filtered[11] = ("assemble", "A", "voted", 8)
    fewer = [
        ("gather", "A", "records", 2) if row[:2] == ("gather", "A") else row for row in filtered
    ]
    more = [
        ("gather", "A", "records", 9) if row[:2] == ("gather", "A") else row for row in filtered
    ]
    assert verdicts(fewer)[5] is True
    assert verdicts(more)[5] is False


def test_families_that_are_no_molecules_close_the_sums():
    others = {"A": Barcodes(chimera_suspects=1, chimera_suspect_reads=3, unresolved=1,
                            unresolved_reads=1)}  # fmt: skip
    sizes = SIZES | {"A": ((1, 1), (5, 1))}
    samples = (Sample("L1", "A", 10, 2), SAMPLES[1])
    rows = [row for row in CLOSED if row[:2] not in {("assemble", "A"), ("gather", "A")}]
    apart = [*rows, ("assemble", "A", "voted", 6), ("assemble", "A", "chimera_suspect", 3),
             ("assemble", "A", "unresolved", 1), ("gather", "A", "records", 2)]  # fmt: skip
    assert verdicts(apart, samples, sizes, barcodes=others) == [True] * 7
    assert verdicts(apart, samples, sizes) == [True] * 6 + [False]
    written = [*rows, ("assemble", "A", "voted", 10), ("gather", "A", "records", 4)]
    assert verdicts(written, samples, sizes, suspects=True, barcodes=others) == [True] * 7
    assert verdicts(written, samples, sizes, barcodes=others)[5] is False
    fates = summary.fates(library(apart))
    assert fates == {
        "voted": 10, "chimera_suspect": 3, "unmatched": 5, "too_short": 1, "unresolved": 1,
    }  # fmt: skip


def outcomes(*rows):
    return [Outcome("A", *row) for row in rows]


def test_families_by_size_and_outcome():
    assert barcode_sums.outcome_bins([]) == []
    rows = outcomes(
        (1, "molecule", 2), (1, "corrected", 3), (4, "molecule", 5), (64, "molecule", 1)
    )
    none = dict.fromkeys(barcode_sums.OUTCOMES, 0)
    assert barcode_sums.outcome_bins(rows) == [
        (0, False, none | {"molecule": 2, "corrected": 3}),
        (2, False, none | {"molecule": 5}),
        (3, True, none | {"molecule": 1}),
    ]
    rows += outcomes((32, "corrected", 1), (64, "molecule", 4))
    assert [bin[:2] for bin in barcode_sums.outcome_bins(rows)] == [
        (0, False), (2, False), (5, False), (6, False),
    ]  # fmt: skip
    assert barcode_sums.outcome_bins(rows)[-1][2]["molecule"] == 5
    assert set(barcode_sums.OUTCOMES) == set(move_outcomes.OUTCOMES)


def test_sums_of_barcodes():
    one = Barcodes(families=9, corrected=2, chimera_suspects=1, chimera_suspect_reads=4, error=0.1)
    assert barcode_sums.total([one, one]) == Barcodes(
        families=18, corrected=4, chimera_suspects=2, chimera_suspect_reads=8
    )
    assert barcode_sums.total([]) == Barcodes()


def test_fates_sum_to_the_templates_and_drop_reasons():
    fates = summary.fates(library(CLOSED))
    assert fates == {"voted": 13, "set_aside": 1, "unmatched": 5, "too_short": 1}
    assert list(fates) == ["voted", "set_aside", "unmatched", "too_short"]
    assert sum(fates.values()) == summary.templates_in(library(CLOSED))


def test_fates_of_a_library_that_stopped_after_checkout():
    assert summary.fates(library(CLOSED[:4])) == {"assigned": 14, "unmatched": 5, "too_short": 1}


@pytest.mark.parametrize(
    ("sizes", "bins"),
    [
        ((), []),
        (((1, 3),), [(3, 3)]),
        (((1, 1), (2, 1), (3, 2), (4, 1), (7, 1)), [(1, 1), (3, 8), (2, 11)]),
        (((8, 1),), [(0, 0), (0, 0), (0, 0), (1, 8)]),
    ],
)
def test_power_of_two_bins(sizes, bins):
    assert summary.size_bins(sizes) == bins


def test_titles_of_bins():
    titles = [summary.bin_title(k) for k in (0, 1, 2, 10)]
    assert titles == ["1", "2\N{EN DASH}3", "4\N{EN DASH}7", "1,024\N{EN DASH}2,047"]


def at(second, wall, **values):
    started = {"started": f"2026-01-02T00:00:{second:02d}+00:00"}
    return job(wall_seconds=wall, provenance=started, **values)


@pytest.mark.parametrize(
    ("jobs", "spans"),
    [
        ([], (0, 0)),
        ([at(0, 10)], (10, 10)),
        ([at(0, 10), at(5, 10)], (15, 15)),
        ([at(0, 10), at(2, 3)], (10, 10)),
        ([at(0, 5), at(30, 5)], (10, 35)),
        ([at(30, 5), at(0, 5)], (10, 35)),
        ([at(0, 5), job(wall_seconds=7)], (12, 12)),
    ],
)
def test_wall_time_counts_overlaps_once_and_gaps_not(jobs, spans):
    assert job_sums.wall_spans(jobs) == pytest.approx(spans)


def test_rate_of_a_stage_leaves_out_jobs_without_reads():
    fed = job(reads=100, wall_seconds=2, cpu_seconds=2, clocks={"sort": 1.5})
    idle = job(reads=0, wall_seconds=8, cpu_seconds=0)
    (stage,) = job_sums.stage_sums([fed, idle])
    assert (stage.jobs, stage.reads, stage.wall_seconds) == (2, 100, 10)
    assert stage.reads_per_second == 50
    assert stage.clocks == pytest.approx({"sort": 1.5, "other": 8.5})


def test_stages_come_in_the_order_of_the_flow_and_unknown_ones_last():
    jobs = [job(name) for name in ("zeta", "gather", "probe", "alpha", "tally")]
    order = [stage.stage for stage in job_sums.stage_sums(jobs)]
    assert order == ["probe", "tally", "gather", "alpha", "zeta"]


def test_clocks_of_many_threads_leave_no_negative_rest():
    threaded = job(wall_seconds=2, cpu_seconds=7, clocks={"match": 7.5})
    assert job_sums.busy_seconds(threaded) == {"match": 7.5}


def test_the_clock_of_spill_is_a_part_of_the_others():
    """A second of three that were sorted went to disk: two are left, not one."""
    spilled = job(wall_seconds=5, cpu_seconds=4, clocks={"sort": 3.0, "spill": 1.0})
    assert job_sums.busy_seconds(spilled) == {"sort": 3.0, "other": 2.0}


def test_spill_by_bucket_holds_the_largest_table_and_adds_up_the_spills():
    jobs = (
        job("tally", bucket="2-of-3", umi_memory_bytes=5, umi_spill_bytes=7),
        job("assemble", bucket="2-of-3", umi_memory_bytes=3, umi_spill_bytes=1),
        job("tally", bucket="3-of-3", umi_memory_bytes=4),
        job("checkout", unit="u", part="1-of-1", umi_memory_bytes=99),
    )
    assert job_sums.spill_by_bucket(library(jobs=jobs)) == [(0, 0), (5, 8), (4, 0)]
    assert job_sums.spill_by_bucket(library()) == []


def test_allowed_memory_is_the_budget_and_the_baseline():
    assert job(budget_bytes=300, baseline_rss_bytes=100).allowed_bytes == 400
    assert job(baseline_rss_bytes=100).allowed_bytes == 0


def test_chance_shares_of_a_sample_without_reads_are_zero():
    samples = (Sample("L1", "A", 50, 5), Sample("L1", "blank", 0, 0))
    expected = {"expected_chance_matches": {"A": 2, "blank": 3, "gone": 1}}
    made = library(samples=samples, provenance=expected)
    assert summary.chance_shares(made) == {"A": (2, 0.04), "blank": (3, 0)}


def test_medians_by_molecules_and_by_reads():
    made = [library(sizes={"A": ((1, 6), (2, 2)), "B": ((20, 1),)})]
    assert (summary.median_size(made), summary.median_size_of_reads(made)) == (1, 20)
    made = [library(sizes={"A": ((2, 2), (1, 2))})]
    assert (summary.median_size(made), summary.median_size_of_reads(made)) == (2, 2)
    assert (summary.median_size([library()]), summary.median_size_of_reads([library()])) == (0, 0)


def test_means_of_nothing():
    assert summary.mean_quality([library()]) is None
    assert summary.single_read_share([library()]) == 0
    assert summary.mean_quality([library(samples=(Sample("L1", "A", 0, 0),))]) is None


def test_mean_quality_is_weighted_by_molecules():
    samples = (
        Sample("L1", "A", 1, 1, mean_quality=30.0),
        Sample("L1", "B", 3, 3, mean_quality=34.0),
    )
    assert summary.mean_quality([library(samples=samples)]) == 33.0
