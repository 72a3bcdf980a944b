"""Sums of the report, against small literal tables."""

import pytest

from umimill import summary
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
    ("assemble", "A", "voted", 9),
    ("assemble", "A", "set_aside(indel)", 1),
    ("assemble", "B", "voted", 4),
    ("gather", "A", "records", 3),
    ("gather", "B", "records", 4),
)
SAMPLES = (Sample("L1", "A", 10, 3), Sample("L1", "B", 4, 4))
SIZES = {"A": ((1, 1), (4, 1), (5, 1)), "B": ((1, 4),)}


def verdicts(rows, samples=SAMPLES, sizes=SIZES, templates=20):
    provenance = {"units": [{"templates": templates}]}
    made = library(rows, samples=samples, sizes=sizes, provenance=provenance)
    return [check.closed for check in summary.checks(made)]


def test_a_ledger_that_closes():
    assert verdicts(CLOSED) == [True] * 6


@pytest.mark.parametrize(
    ("changed", "opened"),
    [
        (("checkout", None, "unmatched", 4), [0]),
        (("checkout", "A", "assigned", 9), [0, 1, 2]),
        (("plan", "B", "planned", 3), [1]),
        (("tally", "A", "families", 11), [2, 3, 5]),
        (("assemble", "A", "voted", 8), [3]),
        (("gather", "B", "records", 3), [4]),
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
    filtered[8] = ("assemble", "A", "voted", 8)
    fewer = [
        ("gather", "A", "records", 2) if row[:2] == ("gather", "A") else row for row in filtered
    ]
    more = [
        ("gather", "A", "records", 9) if row[:2] == ("gather", "A") else row for row in filtered
    ]
    assert verdicts(fewer)[4] is True
    assert verdicts(more)[4] is False


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
    assert summary.wall_spans(jobs) == pytest.approx(spans)


def test_rate_of_a_stage_leaves_out_jobs_without_reads():
    fed = job(reads=100, wall_seconds=2, cpu_seconds=2, clocks={"sort": 1.5})
    idle = job(reads=0, wall_seconds=8, cpu_seconds=0)
    (stage,) = summary.stage_sums([fed, idle])
    assert (stage.jobs, stage.reads, stage.wall_seconds) == (2, 100, 10)
    assert stage.reads_per_second == 50
    assert stage.clocks == pytest.approx({"sort": 1.5, "other": 8.5})


def test_stages_come_in_the_order_of_the_flow_and_unknown_ones_last():
    jobs = [job(name) for name in ("zeta", "gather", "probe", "alpha", "tally")]
    order = [stage.stage for stage in summary.stage_sums(jobs)]
    assert order == ["probe", "tally", "gather", "alpha", "zeta"]


def test_clocks_of_many_threads_leave_no_negative_rest():
    threaded = job(wall_seconds=2, cpu_seconds=7, clocks={"match": 7.5})
    assert summary.busy_seconds(threaded) == {"match": 7.5}


def test_spill_by_bucket_holds_the_largest_table_and_adds_up_the_spills():
    jobs = (
        job("tally", bucket="2-of-3", umi_memory_bytes=5, umi_spill_bytes=7),
        job("assemble", bucket="2-of-3", umi_memory_bytes=3, umi_spill_bytes=1),
        job("tally", bucket="3-of-3", umi_memory_bytes=4),
        job("checkout", unit="u", part="1-of-1", umi_memory_bytes=99),
    )
    assert summary.spill_by_bucket(library(jobs=jobs)) == [(0, 0), (5, 8), (4, 0)]
    assert summary.spill_by_bucket(library()) == []


def test_allowed_memory_is_the_budget_and_the_baseline():
    assert job(budget_bytes=300, baseline_rss_bytes=100).allowed_bytes == 400
    assert job(baseline_rss_bytes=100).allowed_bytes == 0


def test_chance_shares_of_a_sample_without_reads_are_zero():
    samples = (Sample("L1", "A", 50, 5), Sample("L1", "blank", 0, 0))
    expected = {"expected_chance_matches": {"A": 2, "blank": 3, "gone": 1}}
    made = library(samples=samples, provenance=expected)
    assert summary.chance_shares(made) == {"A": (2, 0.04), "blank": (3, 0)}


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
