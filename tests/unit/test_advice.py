"""Every sentence and piece of advice, word for word."""

from dataclasses import replace

import pytest

from advice_fixture import checkout, texts
from umimill import advice, findings
from umimill.summary import Job, LedgerRow, Library, Sample


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (findings.count(1234567), "1,234,567"),
        (findings.percent(0, 10), "0%"),
        (findings.percent(10, 10), "100%"),
        (findings.percent(0, 0), "0%"),
        (findings.percent(1, 3), "33.3%"),
        (findings.percent(1, 100_000), "<0.1%"),
        (findings.percent(99_999, 100_000), ">99.9%"),
        (findings.size(0), "0 B"),
        (findings.size(999), "999 B"),
        (findings.size(1_500), "1.5 kB"),
        (findings.size(212_400_000), "212 MB"),
        (findings.size(999_960_000), "1.0 GB"),
        (findings.size(1_234_567_890_123), "1,235 GB"),
        (findings.duration(0.05), "0.05 s"),
        (findings.duration(3.21), "3.2 s"),
        (findings.duration(9.96), "10 s"),
        (findings.duration(59.6), "1 min"),
        (findings.duration(130), "2 min 10 s"),
        (findings.duration(3600), "1 h"),
        (findings.duration(10_950), "3 h 2 min"),
        (findings.duration(183_600), "2 d 3 h"),
        (findings.plural(1, "sample"), "1 sample"),
        (findings.plural(1204, "sample"), "1,204 samples"),
        (findings.names(["A"]), "A"),
        (findings.names(["A", "B", "C"]), "A, B and C"),
        (findings.names(list("ABCDEF")), "A, B, C, D and 2 more"),
    ],
)
def test_numbers_and_names(made, text):
    assert made == text


@pytest.mark.parametrize(
    ("library", "expected"),
    [
        (checkout(), []),
        (checkout(unmatched=11), []),
        (
            checkout(assigned=88, unmatched=12),
            (
                "warning",
                "12.0% of the templates match no sample: compare `layout` in samples.tsv with the "
                "reads; `outputs: unmatched` writes them to a file.",
            ),
        ),
        (
            checkout(assigned=98, ambiguous=2),
            (
                "warning",
                "2.0% of the templates match two samples equally well: sample barcodes lie close "
                "together, or their bases are of low quality.",
            ),
        ),
        (
            checkout(assigned=94, too_short=6),
            (
                "warning",
                "6.0% of the templates end before their barcode does: check that `layout` fits "
                "the read length.",
            ),
        ),
        (
            checkout(assigned=79, low_umi_quality=21),
            (
                "warning",
                "21.0% of the templates have a UMI base below `min_umi_quality`: lower it to keep "
                "them.",
            ),
        ),
        (
            checkout(assigned=94, empty_payload=6),
            (
                "warning",
                "6.0% of the templates hold nothing behind the barcode: these are mostly primer "
                "dimers.",
            ),
        ),
        (
            checkout(assigned=94, unresolved=6),
            (
                "warning",
                "6.0% of the templates have a barcode that was not fully read, and no molecule "
                "that they fit: look for cycles with many N, and at the synthesis of the UMIs.",
            ),
        ),
        (
            checkout(provenance={"expected_chance_matches": {"S1": 2.4}}),
            (
                "warning",
                "Sample S1 expects 2 chance matches (2.4% of its reads): give its layout more "
                "constant bases, or anchor it with `^`.",
            ),
        ),
        (checkout(provenance={"expected_chance_matches": {"S1": 1.0}}), []),
        (
            checkout(assigned=0, samples=(Sample("L1", "S1", 0, 0),)),
            ("warning", "Library L1 has no reads: its input files are empty."),
        ),
        (
            checkout(samples=(Sample("L1", "S1", 100, 9), Sample("L1", "S3", 0, 0))),
            (
                "note",
                "Sample S3 has no reads: right for a blank control, else check its barcode in "
                "samples.tsv.",
            ),
        ),
        (
            checkout(samples=(Sample("L1", "S1", 100, 9), *(Sample("L1", x, 0, 0) for x in "AB"))),
            (
                "note",
                "Samples A and B have no reads: right for a blank control, else check their "
                "barcodes in samples.tsv.",
            ),
        ),
        (
            checkout(sizes={"S1": ((1, 60), (2, 20))}),
            (
                "note",
                "75.0% of the molecules rest on a single read: sequence deeper, or set "
                "`min_reads: 2` to leave them out.",
            ),
        ),
    ],
)
def test_advice_on_reads(library, expected):
    assert texts(library) == ([expected] if expected else [])


def job(stage="tally", number=1, of=8, **values):
    return Job(stage, "L1", bucket=f"{number}-of-{of}", **values)


def buckets(*jobs, of=8):
    return checkout(jobs=jobs, provenance={"buckets": of})


SPILL = "The results are the same, only slower."
MB = 1_000_000


@pytest.mark.parametrize(
    ("library", "expected"),
    [
        (
            buckets(
                *(job(number=i, umi_memory_bytes=400, umi_spill_bytes=400 * MB) for i in "123")
            ),
            (
                "note",
                "3 jobs spilled 1.2 GB: raise `buckets` from 8 to 4096 or `mem_mb` of tally. "
                f"{SPILL}",
            ),
        ),
        (
            buckets(job(umi_memory_bytes=400 * MB, umi_spill_bytes=300 * MB)),
            (
                "note",
                f"1 job spilled 300 MB: raise `buckets` from 8 to 16 or `mem_mb` of tally. {SPILL}",
            ),
        ),
        (
            buckets(job(umi_memory_bytes=4 * MB, umi_spill_bytes=13 * MB)),
            (
                "note",
                f"1 job spilled 13 MB: raise `buckets` from 8 to 64 or `mem_mb` of tally. {SPILL}",
            ),
        ),
        (
            buckets(job(umi_memory_bytes=MB, umi_spill_bytes=MB, of=4096), of=4096),
            ("note", f"1 job spilled 1.0 MB: raise `mem_mb` of tally. {SPILL}"),
        ),
        (
            buckets(Job("checkout", "L1", umi_memory_bytes=MB, umi_spill_bytes=MB)),
            ("note", f"1 job spilled 1.0 MB: raise `mem_mb` of checkout. {SPILL}"),
        ),
        (
            # Jobs of the whole library get no smaller with more buckets.
            buckets(
                job(umi_memory_bytes=4 * MB, umi_spill_bytes=3 * MB),
                Job("settle", "L1", umi_memory_bytes=MB, umi_spill_bytes=20 * MB),
            ),
            (
                "note",
                "2 jobs spilled 23 MB: raise `buckets` from 8 to 16 or `mem_mb` of tally and "
                f"settle. {SPILL}",
            ),
        ),
        (
            buckets(Job("link", "L1", "small_2", umi_memory_bytes=MB, umi_spill_bytes=MB)),
            ("note", f"1 job spilled 1.0 MB: raise `mem_mb` of small_2. {SPILL}"),
        ),
        (
            buckets(job(peak_rss_bytes=600 * MB, budget_bytes=400 * MB, baseline_rss_bytes=MB)),
            (
                "warning",
                "1 job used more memory than planned (tally, bucket 1-of-8 of library L1: 600 MB "
                "of 401 MB): raise `mem_mb` of tally.",
            ),
        ),
        (
            buckets(job(peak_rss_bytes=400 * MB, budget_bytes=1600 * MB)),
            (
                "note",
                "No job used more than 25.0% of its memory: `mem_mb` can be lowered, so that "
                "more jobs run at once.",
            ),
        ),
        (buckets(job(peak_rss_bytes=100 * MB, budget_bytes=400 * MB)), []),
        (
            buckets(job(wall_seconds=1.0, clocks={"start": 0.5, "compile": 0.25})),
            (
                "note",
                "75.0% of the busy time went into starting up: fewer `buckets` would be faster.",
            ),
        ),
        (buckets(job(wall_seconds=1.0, clocks={"start": 0.75}, of=1), of=1), []),
        (
            buckets(*(job(number=i, wall_seconds=10 + 90 * (i == 3)) for i in range(1, 9))),
            (
                "note",
                "Bucket 3-of-8 took 1 min 40 s, 10.0 times the median: few barcodes hold most "
                "reads, so more buckets will not help.",
            ),
        ),
        (buckets(*(job(number=i, wall_seconds=1 + 9 * (i == 3)) for i in range(1, 9))), []),
    ],
)
def test_advice_on_jobs(library, expected):
    assert texts(library) == ([expected] if expected else [])


def test_spill_is_never_answered_with_fewer_buckets():
    clocks = {"start": 0.9}
    made = buckets(job(wall_seconds=1.0, clocks=clocks, umi_memory_bytes=MB, umi_spill_bytes=MB))
    assert [text.split(":")[0] for _, text in texts(made)] == ["1 job spilled 1.0 MB"]


def test_advice_names_the_library_only_where_there_are_several():
    lost, fine = checkout("L1", assigned=50, unmatched=50), checkout("L2")
    assert texts(lost)[0][1].startswith("50.0% of the templates match")
    assert texts(lost, fine)[0][1].startswith("50.0% of the templates of library L1 match")


def test_a_long_series_of_one_kind_is_folded():
    made = [checkout(f"L{i}", assigned=50, unmatched=50) for i in range(1, 6)]
    found = [text for _, text in texts(*made)]
    assert len(found) == 3
    assert found[-1] == "The same holds for L3, L4 and L5."
    assert len(texts(*made[:3])) == 3


def open_ledger():
    made = checkout(assigned=10, unmatched=40)
    rows = (*made.ledger, LedgerRow("tally", "S1", "families", 9))
    return Library("L1", made.samples, (), rows)


def test_a_limited_run_says_that_it_is_no_sample():
    shallow = checkout(samples=(Sample("L1", "S1", 100, 90),), sizes={"S1": [(1, 85), (3, 5)]})
    limited = replace(shallow, provenance={"limit_reads": 200_000})
    assert any("sequence deeper" in text for _, text in texts(shallow))
    assert not any("sequence deeper" in text for _, text in texts(limited))
    said = findings.worked([limited])[-1]
    assert said.startswith("Only the first 200,000 templates of each unit were read (`limit_reads`")
    assert "A limit is not a sample" in said
    assert len(findings.worked([shallow])) == len(findings.worked([limited])) - 1


def test_an_open_ledger_comes_first_and_changes_the_verdict():
    made = open_ledger()
    first = advice.advise([made])[0]
    assert first.level == "error"
    assert first.text == (
        "The ledger of library L1 does not close: assigned = reads in families, but 10 and 9 were "
        "counted. Do not use these results; rerun the library and report this."
    )
    assert findings.worked([made])[-1] == "The ledger does not close in L1."
    verdict = advice.verdict([made], advice.advise([made]))
    assert verdict.text == "The counts do not add up: do not use these results."


@pytest.mark.parametrize(
    ("libraries", "text"),
    [
        ([checkout()], "The run worked."),
        ([checkout(assigned=80, unmatched=20)], "The run worked; 1 thing to look at."),
        ([checkout(assigned=0)], "The run finished, but its inputs hold no reads."),
        ([], "The run finished, but its inputs hold no reads."),
    ],
)
def test_verdict(libraries, text):
    assert advice.verdict(libraries, advice.advise(libraries)).text == text


def test_first_screen_of_a_full_run():
    samples = tuple(Sample("L1", f"S{i}", 103_000, 24_552, mean_quality=38.0) for i in range(1, 5))
    started = {"started": "2026-01-02T03:04:05+00:00"}
    jobs = (
        Job(
            "tally",
            "L1",
            bucket="3-of-8",
            wall_seconds=31,
            cpu_seconds=130,
            peak_rss_bytes=212 * MB,
            baseline_rss_bytes=112 * MB,
            budget_bytes=400 * MB,
            provenance=started,
        ),
    )
    made = checkout(
        assigned=412_000,
        unmatched=8_000,
        samples=samples,
        jobs=jobs,
        sizes={"S1": ((1, 4_000), (34, 12_000))},
        provenance={"floor": 1e-4, "expected_chance_matches": {"S1": 12}},
    )
    assert [(a.question, a.sentences) for a in findings.answers([made])] == [
        (
            "Did it work?",
            (
                "412,000 of 420,000 templates (98.1%) were assigned to 4 samples.",
                "Every template is accounted for.",
            ),
        ),
        ("How many molecules?", ("98,208 consensus molecules, 4.2 reads each on average.",)),
        (
            "Can I trust them?",
            (
                "The mean consensus quality is Q38.0; no base claims more than Q40 (the error "
                "floor, 0.0001).",
                "Chance matches: less than 0.1% of a sample's reads.",
                "25.0% of the molecules rest on a single read: their consensus is that read.",
                "Barcodes are taken as they were read: a sequencing error in a barcode makes a "
                "molecule of its own, so the number of molecules is an upper bound.",
            ),
        ),
        (
            "What did it cost?",
            (
                "The run took 2 min 10 s of CPU time, 31 s of wall time (13,548 templates per "
                "second).",
                "The largest job (tally, bucket 3-of-8 of library L1) used 212 MB of its 512 MB.",
                "No job spilled.",
            ),
        ),
    ]


def test_first_screen_of_a_run_without_reads():
    made = Library("L1", (Sample("L1", "S1", 0, 0),))
    assert [answer.sentences for answer in findings.answers([made])] == [
        ("The inputs hold no reads.",),
        ("No consensus molecule was written.",),
        ("There is nothing to judge.",),
        ("No job wrote its measurements.",),
    ]


def test_cost_of_a_resumed_run():
    starts = ("2026-01-02T03:00:00+00:00", "2026-01-02T05:00:00+00:00")
    jobs = [
        Job("tally", "L1", wall_seconds=60, cpu_seconds=50, provenance={"started": start})
        for start in starts
    ]
    assert findings.cost([checkout(jobs=jobs)])[:2] == [
        "The run took 1 min 40 s of CPU time, 2 min of wall time (1 template per second).",
        "From first start to last end 2 h 1 min went by: the run was resumed, or its jobs waited "
        "in a queue.",
    ]


def test_spill_sentence():
    jobs = [job(umi_spill_bytes=300 * MB), job(), job(umi_spill_bytes=900 * MB)]
    assert findings.spill_sentence(jobs) == "2 of 3 jobs spilled 1.2 GB."
    assert findings.spill_sentence(jobs[1:2]) == "No job spilled."


def test_barcodes_are_called_corrected_once_they_are():
    made = checkout(jobs=[Job("settle", "L1")])
    assert not any("as they were read" in text for text in findings.trusted([made]))


def test_sizes_sentence_from_molecules_and_from_reads():
    made = Library("L1", sizes={"A": ((1, 6), (2, 2)), "B": ((20, 1),)})
    assert findings.size_sentence([made]) == (
        "More than half of the molecules have 1 read; half of the reads are in molecules of "
        "20 reads or more"
    )
    made = Library("L1", sizes={"A": ((1, 2), (2, 2))})
    assert findings.size_sentence([made]).startswith("Half of the molecules have 2 reads or more;")
