"""The tables that say what correction did: rows, columns, and that pandas and the manual agree."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import sameness_fixture
from pipeline import Run, run_pipeline
from umimill import index, tables
from umimill.checkout import LIBRARY_LINES, SAMPLE_LINES, UNPLACED
from umimill.family_tables import FAMILIES
from umimill.lineage import TABLE as LINEAGE
from umimill.refine_tables import (
    correction_row,
    error_rows,
    posterior_row,
    rank_rows,
    ranks,
    size_rows,
)

ROOT = Path(__file__).parents[2]
METRICS = "results/metrics/\\<library>"
SCHEMAS: dict[str, Sequence[str]] = {
    "molecules.parquet": tables.MOLECULES.names,
    "families.parquet": FAMILIES.names,
    "lineage.parquet": LINEAGE.names,
    "sizes.tsv": tables.SIZES,
    "ledger.tsv": tables.LEDGER,
    "results/report/samples.tsv": tables.SAMPLES,
    f"{METRICS}/barcodes.tsv": tables.BARCODES,
    f"{METRICS}/outcomes.tsv": tables.OUTCOMES,
    f"{METRICS}/posteriors.tsv": tables.POSTERIORS,
    f"{METRICS}/corrections.tsv": tables.CORRECTIONS,
    f"{METRICS}/umi_errors.tsv": tables.UMI_ERRORS,
    f"{METRICS}/family_sizes.tsv": tables.FAMILY_SIZES,
    f"{METRICS}/ranks.tsv": tables.RANKS,
}


def documented(section: str) -> list[str]:
    """Return the columns that a section of the manual explains, in its order."""
    manual = (ROOT / "config/README.md").read_text(encoding="utf-8")
    _, _, behind = manual.partition(f"\n### {section}\n")
    text = re.split(r"\n##+ ", behind)[0]
    if "| column |" in text:
        # Behind the head, a row a column, or a few that are explained together.
        heads = re.findall(r"^\| (`[^|]*) \|", text, re.MULTILINE)
    else:
        heads = [re.sub(r"\([^)]*\)", "", text.strip().split("\n\n")[0])]
    return [name for head in heads for name in re.findall(r"`([^`]+)`", head)]


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_manual_has_every_column(name: str) -> None:
    assert documented(name) == list(SCHEMAS[name])


def test_the_manual_has_every_ledger_line() -> None:
    manual = (ROOT / "config/README.md").read_text(encoding="utf-8")
    text = re.split(r"\n##+ ", manual.partition("\n### ledger.tsv\n")[2])[0]
    explained = re.findall(r"^\| (\w+) \| `(\w+)` \|", text, re.MULTILINE)
    stages = {
        "checkout": (*LIBRARY_LINES, *SAMPLE_LINES, UNPLACED),
        "place": index.PLACE_LINES,
        "tally": index.TALLY_LINES,
        "settle": index.SETTLE_LINES,
        "assemble": index.ASSEMBLE_LINES,
    }
    lines = [(stage, line) for stage, names in stages.items() for line in names]
    assert sorted(explained) == sorted(lines)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A small library of four samples, one of them without reads."""
    folder = tmp_path_factory.mktemp("tables")
    library = sameness_fixture.make_library(
        folder / "reads", paired=False, molecules=900, hot_reads=400, bounds=(0.4, 0.7)
    )
    return run_pipeline(library, folder / "run")


def read(run: Run, name: str) -> pd.DataFrame:
    """Read a table as a user would."""
    return pd.read_csv(run.outputs[f"metrics/L1/{name}.tsv"], sep="\t")


def test_pandas_reads_every_table(run: Run) -> None:
    columns = {name.rpartition("/")[2]: list(schema) for name, schema in SCHEMAS.items()}
    columns["sizes.tsv"] = list(tables.SAMPLE_SIZES)
    seen = set()
    for name, path in run.outputs.items():
        if not name.endswith(".tsv"):
            continue
        frame = pd.read_csv(path, sep="\t")
        ending = name.rpartition("/")[2]
        if name.startswith("samples/"):
            ending = ".".join(ending.rsplit(".", 2)[1:])
            wanted = list(tables.SIZES if ending == "sizes.tsv" else tables.LEDGER)
        else:
            wanted = columns[ending]
        assert list(frame.columns) == wanted, name
        for column in frame.columns:
            text = column in ("library", "sample", "stage", "line", "outcome", "error_basis")
            numeric = pd.api.types.is_numeric_dtype(frame[column])
            assert text or numeric or frame.empty, (name, column)
        seen.add(ending)
    assert {name for name in columns if name.endswith(".tsv")} == seen


def test_tables_say_what_the_families_say(run: Run) -> None:
    posteriors, corrections = read(run, "posteriors"), read(run, "corrections")
    errors, sizes, barcodes = (
        read(run, "umi_errors"),
        read(run, "family_sizes"),
        read(run, "barcodes"),
    )
    some = 0
    for sample in run.library.samples:
        path = run.outputs[f"samples/{sample}/{sample}.families.parquet"]
        # Barcodes that were not fully read stand behind the families, and are in no table here.
        families = pd.read_parquet(path).query("family > 0")
        molecule, corrected = families.status == "molecule", families.status == "corrected"
        own = posteriors[posteriors["sample"] == sample]
        for row in own.itertuples():
            high = 1.1 if row.posterior_to == 1 else row.posterior_to
            inside = (families.posterior >= row.posterior_from) & (families.posterior < high)
            assert (inside.sum(), families.reads[inside].sum()) == (row.families, row.reads)
            assert (inside & corrected).sum() == row.corrected
        assert own.families.sum() == families.posterior.notna().sum()
        own = corrections[corrections["sample"] == sample]
        for row in own.itertuples():
            inside = (families.reads >= row.reads_from) & (families.reads < 2 * row.reads_from)
            assert inside.sum() == row.families
            assert (inside & corrected).sum() == row.corrected
            left = families.posterior[inside & molecule].sum()
            assert row.errors_left == pytest.approx(left, rel=1e-3, abs=1e-3)
            wrong = (1 - families.posterior[inside & corrected]).sum()
            assert row.wrong_merges == pytest.approx(wrong, rel=1e-3, abs=1e-3)
        own = errors[errors["sample"] == sample]
        assert own.parents.sum() == molecule.sum()
        assert own.child_reads.sum() == families.reads[corrected & (families.distance == 1)].sum()
        own = sizes[sizes["sample"] == sample]
        assert (own.families * own.reads).sum() == families.reads.sum()
        molecules = pd.read_parquet(run.outputs[f"samples/{sample}/{sample}.molecules.parquet"])
        counted = molecules.reads[molecules.status == "molecule"].value_counts()
        assert own[own.molecules > 0].set_index("reads").molecules.to_dict() == counted.to_dict()
        row = barcodes[barcodes["sample"] == sample].iloc[0]
        assert row.barcodes == families.umi.nunique()
        some += int(corrected.sum())
    assert some > 80
    # The simulation put in 0.003 and less. Reads with several errors are not among the children,
    # and these qualities say more than there is.
    deep = errors[errors.parent_reads_from.between(4, 300)]
    reads = deep.parent_reads + deep.child_reads
    merged = float((deep.error_merged * reads).sum() / reads.sum())
    model = float((deep.error_model * reads).sum() / reads.sum())
    assert merged < model < 3 * merged
    assert merged == pytest.approx(0.0015, rel=0.4)


def test_ranks_are_evenly_spaced_and_end_at_the_last() -> None:
    assert ranks(0) == []
    assert ranks(1) == [1]
    assert ranks(7) == [1, 2, 3, 4, 5, 6, 7]
    many = ranks(123_456)
    assert (many[0], many[-1]) == (1, 123_456)
    assert {10, 100, 1000, 10_000, 100_000} <= set(many)
    steps = np.diff(np.log10(many[25:-1]))
    assert steps.max() < 0.06
    assert len(many) < 105


def test_reads_at_each_rank() -> None:
    sizes = [[1, 40], [2, 3], [9, 1], [100, 2]]
    reads = np.repeat([100, 9, 2, 1], [2, 1, 3, 40])
    found = list(rank_rows([[], sizes]))
    assert [row[1] for row in found] == ranks(46)
    for sample, rank, size, share in found:
        assert (sample, size) == (1, reads[rank - 1])
        assert share == pytest.approx(reads[:rank].sum() / reads.sum())


def test_rows() -> None:
    assert posterior_row([3, 0, 5, 6, 0]) == (3, 0.0, 0.001, 5, 6, 0)
    assert posterior_row([0, 15, 5, 6, 5]) == (0, 0.999, 1.0, 5, 6, 5)
    one = 1 << 20
    assert correction_row([1, 2, 8, 2, 5, 3 * one, one // 2]) == (1, 4, 8, 2, 0.25, 5, 3.0, 0.5)
    assert list(error_rows([[1, 3, 2, 20, 1, 1, 210]], [0.0, 0.002])) == [
        (1, 8, 2, 20, 1, 1, 1 / 210, 0.002)
    ]
    rows = size_rows([[0, 1, 9], [0, 4, 2], [1, 1, 3]], [[[1, 5], [6, 2]], [[1, 3]]])
    assert list(rows) == [(0, 1, 9, 5), (0, 4, 2, 0), (0, 6, 0, 2), (1, 1, 3, 3)]
