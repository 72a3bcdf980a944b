"""One run from start to end: sheets as Excel saves them, odd names, blank samples, empty files."""

from __future__ import annotations

import gzip
import re
import shutil
import socket
import zipfile
from collections import Counter
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import workflow_run as runs

SNAKEFILES = ("Snakefile", "workflow/Snakefile")
EOF_BLOCK = bytes.fromhex("1f8b08040000000000ff0600424302001b0003000000000000000000")
PAIRED = {
    "P1": ("^ACGTACttgcaNNNNNNNN", "^NNNNcag"),
    "P2": ("^TGCATGttgcaNNNNNNNN", "^NNNNcag"),
    "P.blank": ("^CAAGGAttgcaNNNNNNNN", "^NNNNcag"),
}
SINGLE = {"S1": ("^GATTACAcagtN{12}",), "S2": ("^CTGGTGTcagtN{12}",)}
WATER = {"W1": ("^ACGTACttgcaNNNNNNNN",)}
LIBRARIES = {"pair.x-1": PAIRED, "single": SINGLE, "water": WATER}
FOREIGN = {"pair.x-1": 80, "single": 100, "water": 0}
TABLES = ("molecules.parquet", "families.parquet", "sizes.tsv", "ledger.tsv")
# The folder of a run, in letters and signs that shells, URLs and YAML treat as special.
FOLDER = "Läufe & Proben #1 (50%)"


def spell_out(layout: str) -> str:
    return re.sub(r"N\{(\d+)\}", lambda repeat: "N" * int(repeat[1]), layout)


@dataclass(frozen=True)
class Finished:
    """A finished run, the dry runs before it, and the reads each sample was given."""

    folder: Path
    dry: dict[str, runs.Result]
    result: runs.Result
    given: dict[str, int]


def write_inputs(folder: Path) -> dict[str, int]:
    rng = np.random.default_rng(11)
    given: Counter[str] = Counter()
    tagged = [PAIRED["P1"], PAIRED["P2"]]
    for unit in ("L1", "L2"):
        texts = runs.simulate_reads(rng, tagged, molecules=300, templates=2500, foreign=40)
        given.update(runs.count_tags(texts[0], PAIRED))
        for mate, text in enumerate(texts, start=1):
            runs.write_reads(folder / f"Über sicht/größe {unit} [R{mate}].fastq.gz", text)
    layouts = [(spell_out(layout[0]),) for layout in SINGLE.values()]
    (text,) = runs.simulate_reads(
        rng, layouts, molecules=900, templates=11_000, foreign=100, umi_errors=0.003
    )
    given.update(runs.count_tags(text, {"S1": layouts[0], "S2": layouts[1]}))
    runs.write_reads(folder / "single's reads.fq", text)
    (folder / "empty.fastq.gz").touch()
    runs.write_reads(folder / "nothing.fastq.gz", b"")
    return given | {"W1": 0}


def write_sheets(folder: Path) -> None:
    pair = "Über sicht/größe {} [R{}].fastq.gz"
    units = [
        ("pair.x-1", "L2", pair.format("L2", 1), pair.format("L2", 2)),
        ("pair.x-1", "L1", pair.format("L1", 1), pair.format("L1", 2)),
        ("single", "L1", "single's reads.fq"),
        ("single", "L2", "empty.fastq.gz"),
        ("water", "L1", "nothing.fastq.gz"),
    ]
    samples = [
        (library, sample, *layouts)
        for library, members in LIBRARIES.items()
        for sample, layouts in members.items()
    ]
    # As Excel saves "CSV UTF-8" where commas are decimal points, and as a text file of Windows.
    text = runs.table_text(runs.UNITS, units, ";").replace("\n", "\r\n")
    (folder / "Läufe.csv").write_text(text, encoding="utf-8-sig", newline="")
    text = runs.table_text(runs.SAMPLES, samples).replace("\n", "\r\n")
    (folder / "Proben Liste.tsv").write_text(text, encoding="utf-8-sig", newline="")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder = tmp_path_factory.mktemp("run") / FOLDER
    folder.mkdir()
    given = write_inputs(folder)
    write_sheets(folder)
    outputs = ["unmatched", "lineage"]
    runs.write_config(folder, units="Läufe.csv", samples="Proben Liste.tsv", outputs=outputs)
    dry = {name: runs.succeed(folder, "--dry-run", snakefile=name) for name in SNAKEFILES}
    assert not (folder / "results").exists()
    return Finished(folder, dry, runs.succeed(folder), given)


def records(folder: Path, sample: str) -> list[list[tuple[str, ...]]]:
    paths = sorted((folder / "results" / "samples" / sample).glob("*.fastq.gz"))
    return [runs.read_fastq(path) for path in paths]


@pytest.mark.parametrize("snakefile", SNAKEFILES)
def test_dry_run_lists_what_is_run(finished: Finished, snakefile: str) -> None:
    assert finished.dry[snakefile].jobs == finished.result.jobs
    assert finished.result.stages == {
        "probe": 5, "checkout": 5, "plan": 3, "tally": 3, "model": 3, "link": 3, "settle": 3,
        "move": 3, "route": 3, "assemble": 3, "index": 3, "gather": 6, "lineage": 3, "report": 1,
    }  # fmt: skip


@pytest.mark.parametrize("snakefile", SNAKEFILES)
def test_finished_run_has_nothing_to_do(finished: Finished, snakefile: str) -> None:
    again = runs.succeed(finished.folder, snakefile=snakefile)
    assert "Nothing to be done" in again.output
    assert again.jobs == []


def test_files_are_those_of_the_manual(finished: Finished) -> None:
    results = finished.folder / "results"
    expected = {f"report/{name}" for name in ("index.html", "index.metrics.json", "samples.tsv")}
    for library, members in LIBRARIES.items():
        mates = ("_R1", "_R2") if library == "pair.x-1" else ("",)
        names = [f"consensus{mate}.fastq.gz" for mate in mates] + list(TABLES)
        expected |= {f"samples/{sample}/{sample}.{name}" for sample in members for name in names}
        names = [*(f"unmatched{mate}.fastq.gz" for mate in mates), "metrics.json"]
        expected |= {f"unmatched/{library}/{library}.{name}" for name in names}
        names = ["lineage.parquet", "metrics.json"]
        expected |= {f"lineage/{library}/{library}.{name}" for name in names}
        names = ["jobs.json", "ledger.tsv", "sizes.tsv", "samples.tsv", "provenance.json"]
        names += ["barcodes.tsv", "outcomes.tsv", "index.json", "gather.1.json"]
        names += ["posteriors.tsv", "corrections.tsv", "umi_errors.tsv", "family_sizes.tsv"]
        names += ["ranks.tsv"]
        expected |= {f"metrics/{library}/{name}" for name in names}
    inner = {*runs.STAGES, "partition"} - {"report"}
    found = {
        str(path.relative_to(results))
        for path in runs.files_below(results)
        if path.relative_to(results).parts[0] not in inner
    }
    assert found == expected
    assert runs.leftovers(finished.folder) == []
    top = {path.name for path in finished.folder.iterdir()}
    inputs = {"config.yaml", "Läufe.csv", "Proben Liste.tsv", "Über sicht", "single's reads.fq"}
    inputs |= {"empty.fastq.gz", "nothing.fastq.gz"}
    assert top - inputs == {"results", "logs", "benchmarks", ".snakemake"}


def test_every_read_is_accounted_for(finished: Finished) -> None:
    for library, members in LIBRARIES.items():
        home = finished.folder / "results" / "metrics" / library
        ledger = {
            (row["stage"], row["sample"], row["line"]): int(row["templates"])
            for row in runs.read_table(home / "ledger.tsv")
        }
        lines = sum(count for (stage, _, _), count in ledger.items() if stage == "checkout")
        given = sum(finished.given[sample] for sample in members) + FOREIGN[library]
        probes = [job for job in runs.job_metrics(finished.folder) if job["library"] == library]
        assert lines == given == sum(j["reads"] for j in probes if j["stage"] == "checkout")
        refused = ledger["checkout", ".", "unmatched"] + ledger["checkout", ".", "ambiguous"]
        assert refused == FOREIGN[library]
        unmatched = finished.folder / "results" / "unmatched" / library
        for path in unmatched.glob("*.fastq.gz"):
            assert len(runs.read_fastq(path)) == refused
        summary = {row["sample"]: row for row in runs.read_table(home / "samples.tsv")}
        assert sorted(summary) == sorted(members)
        for sample in members:
            check_sample(finished, library, sample, ledger, summary[sample])


def check_sample(
    finished: Finished,
    library: str,
    sample: str,
    ledger: dict[tuple[str, str, str], int],
    summary: dict[str, str],
) -> None:
    given = finished.given[sample]
    own = sum(n for (stage, one, _), n in ledger.items() if (stage, one) == ("assemble", sample))
    assert ledger["checkout", sample, "assigned"] == given
    assert ledger["tally", sample, "families"] == own == int(summary["reads"]) == given
    assert ledger["settle", sample, "kept"] + ledger["settle", sample, "corrected"] == given
    home = finished.folder / "results" / "samples" / sample
    every = pq.read_table(home / f"{sample}.molecules.parquet").to_pylist()
    assert len(every) == int(summary["molecules_all"])
    assert sum(row["reads"] for row in every) == given
    molecules = [row for row in every if row["status"] == "molecule"]
    names = [record[0].split()[0] for record in records(finished.folder, sample)[0]]
    assert len(set(names)) == len(names) == int(summary["molecules"])
    assert names == [f"@{row['molecule_id']}" for row in molecules]
    voted = sum(row["reads"] for row in molecules)
    assert voted == ledger["assemble", sample, "voted"]
    sizes = runs.read_table(home / f"{sample}.sizes.tsv")
    assert sum(int(row["family_size"]) * int(row["count"]) for row in sizes) == voted
    check_families(home, sample, ledger, every)
    rows = runs.read_table(home / f"{sample}.ledger.tsv")
    assert {(row["library"], row["sample"]) for row in rows} == {(library, sample)}
    assert all(ledger[row["stage"], sample, row["line"]] == int(row["templates"]) for row in rows)


def check_families(
    home: Path,
    sample: str,
    ledger: dict[tuple[str, str, str], int],
    molecules: list[dict[str, Any]],
) -> None:
    """Compare the families of a sample with its molecules, its ledger and the table of barcodes."""
    families = pq.read_table(home / f"{sample}.families.parquet").to_pylist()
    moved = [row for row in families if row["status"] == "corrected"]
    assert sum(row["reads"] for row in moved) == ledger["settle", sample, "corrected"]
    assert len(families) - len(moved) == len(molecules)
    statuses = Counter(row["status"] for row in families)
    statuses.subtract(row["status"] for row in molecules)
    assert statuses == Counter(corrected=len(moved))
    joined: Counter[tuple[str, int]] = Counter()
    for row in families:
        joined[row["molecule_umi"], row["molecule_family"]] += row["reads"]
        assert row["status"] != "corrected" or row["posterior"] >= 0.5
    assert sorted(joined.values()) == sorted(row["reads"] for row in molecules)
    folder = home.parents[1] / "metrics"
    tables = [runs.read_table(path) for path in folder.glob("*/barcodes.tsv")]
    (row,) = [row for table in tables for row in table if row["sample"] == sample]
    assert int(row["families"]) == len(families)
    assert int(row["corrected"]) == len(moved)
    assert int(row["corrected_reads"]) == ledger["settle", sample, "corrected"]
    assert int(row["unresolved_reads"]) == ledger["assemble", sample, "unresolved"]
    assert int(row["chimera_suspect_reads"]) == ledger["assemble", sample, "chimera_suspect"]
    counts = [0, 0]
    for path in folder.glob("*/outcomes.tsv"):
        for line in runs.read_table(path):
            if line["sample"] == sample:
                counts[line["outcome"] == "corrected"] += int(line["families"])
    assert counts == [len(molecules), len(moved)]


def test_barcodes_with_errors_are_corrected(finished: Finished) -> None:
    """Of the 900 molecules no more than a few are left over, and hardly one is lost."""
    rows = runs.read_table(finished.folder / "results" / "metrics" / "single" / "barcodes.tsv")
    assert sum(int(row["families"]) for row in rows) > 1100
    assert all(int(row["corrected"]) > 100 for row in rows)
    assert 780 < sum(int(row["molecules"]) for row in rows) <= 910


def test_pairs_stay_pairs(finished: Finished) -> None:
    first, second = records(finished.folder, "P1")
    assert [one[0].split()[0] for one in first] == [one[0].split()[0] for one in second]
    assert len(first) > 100


def test_records_are_in_the_order_of_barcodes(finished: Finished) -> None:
    for sample in ("P1", "S1"):
        path = finished.folder / "results" / "samples" / sample / f"{sample}.molecules.parquet"
        table = pq.read_table(path).to_pydict()
        assert table["umi"] == sorted(table["umi"])
        for name, umi in zip(table["molecule_id"], table["umi"], strict=True):
            assert re.fullmatch(rf"{sample}\.{umi}(\.\d+)?", name)


@pytest.mark.parametrize(("sample", "mates"), [("P.blank", 2), ("W1", 1)])
def test_sample_without_reads_has_valid_files(finished: Finished, sample: str, mates: int) -> None:
    home = finished.folder / "results" / "samples" / sample
    paths = sorted(home.glob("*.fastq.gz"))
    assert [path.read_bytes() for path in paths] == [EOF_BLOCK] * mates
    assert gzip.decompress(EOF_BLOCK) == b""
    table = pq.read_table(home / f"{sample}.molecules.parquet")
    full = finished.folder / "results" / "samples" / "S1" / "S1.molecules.parquet"
    assert table.num_rows == 0
    assert table.schema.equals(pq.read_schema(full), check_metadata=True)
    assert runs.read_table(home / f"{sample}.sizes.tsv") == []
    assert all(row["templates"] == "0" for row in runs.read_table(home / f"{sample}.ledger.tsv"))


def test_empty_library_has_a_valid_empty_unmatched_file(finished: Finished) -> None:
    path = finished.folder / "results" / "unmatched" / "water" / "water.unmatched.fastq.gz"
    assert path.read_bytes() == EOF_BLOCK


def test_every_job_keeps_to_its_memory(finished: Finished) -> None:
    jobs = runs.job_metrics(finished.folder)
    assert Counter(job["stage"].split("_")[0] for job in jobs) == finished.result.stages
    peaks = {(job["stage"], job["library"]): job["peak_rss_bytes"] for job in jobs}
    assert max(peaks.values()) <= 350e6, peaks
    for job in jobs:
        assert job["peak_rss_bytes"] <= job["budget_bytes"] + job["baseline_rss_bytes"]
        assert 0 < job["baseline_rss_bytes"] <= job["peak_rss_bytes"]
        assert job["cpu_seconds"] > 0


def test_every_job_says_two_lines_and_has_a_benchmark(finished: Finished) -> None:
    jobs = len(finished.result.jobs)
    logs = [path.read_text() for path in runs.files_below(finished.folder / "logs")]
    assert len(logs) == jobs
    for line in (r": [\d.]+ s \([\d,]+ reads/s\) = ", r": peak RSS [\d.]+ MB of which "):
        assert len(re.findall(line, finished.result.output)) == jobs
        assert all(len(re.findall(line, text)) == 1 for text in logs)
    found = list(runs.files_below(finished.folder / "benchmarks"))
    assert len(found) == jobs
    assert all(path.suffix == ".jsonl" and path.stat().st_size for path in found)


def test_data_outputs_hold_no_run_details(finished: Finished) -> None:
    unwanted = [FOLDER.split()[0], str(finished.folder.parent), socket.gethostname() + "."]
    unwanted += ["snakemake", "1-of-1"]
    for name in runs.digests(finished.folder):
        data = (finished.folder / name).read_bytes()
        text = gzip.decompress(data) if name.endswith(".gz") else data
        found = [one for one in unwanted if one.encode() in text]
        assert not found, (name, found)
        if name.endswith(".gz"):
            # Time 0, and neither name nor comment in the header.
            assert (data[3] & ~4, data[4:8]) == (0, bytes(4))


class Page(HTMLParser):
    """The text of a page, and what it would fetch."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text: list[str] = []
        self.fetched: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = [value or "" for name, value in attrs if name == "src"]
        found += [value or "" for name, value in attrs if tag == "link" and name == "href"]
        self.fetched += [value for value in found if not value.startswith(("data:", "#"))]

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_report_names_every_library_and_sample(finished: Finished) -> None:
    page = Page((finished.folder / "results" / "report" / "index.html").read_text())
    assert page.fetched == []
    words = set(" ".join(page.text).split())
    assert {*LIBRARIES, *finished.given} <= words


def test_snakemake_makes_its_own_report(finished: Finished, tmp_path: Path) -> None:
    for name in ("report.zip", "report.html"):
        runs.succeed(finished.folder, "--report", str(tmp_path / name))
    with zipfile.ZipFile(tmp_path / "report.zip") as archive:
        held = [archive.read(name) for name in archive.namelist() if "/data/" in name]
    assert (finished.folder / "results" / "report" / "index.html").read_bytes() in held
    assert "results/report/index.html" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("snakefile", SNAKEFILES)
def test_lint_finds_nothing(finished: Finished, snakefile: str) -> None:
    result = runs.run_snakemake(finished.folder, "--lint", snakefile=snakefile)
    assert result.code == 0, result.output
    assert "your workflow is in a good condition" in result.output


def test_intermediates_can_be_removed(finished: Finished, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(finished.folder, folder, symlinks=True)
    before = runs.digests(folder)
    runs.succeed(folder, "clean_intermediates")
    assert {path.name for path in (folder / "results").iterdir()} == {
        "samples", "unmatched", "lineage", "metrics", "report",
    }  # fmt: skip
    assert runs.digests(folder) == before
    assert "Nothing to be done" in runs.succeed(folder).output
