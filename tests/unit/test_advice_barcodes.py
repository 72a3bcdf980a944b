"""What is said and advised on barcodes, word for word."""

from dataclasses import replace

import pytest

from advice_fixture import checkout, texts
from umimill import advice, findings
from umimill.barcode_sums import Barcodes
from umimill.summary import Job


def barcodes(reads=100, **values):
    """A library with one sample whose barcodes are `values`."""
    row = Barcodes(families=50, molecules=25, **values)
    return replace(checkout(assigned=reads), barcodes={"S1": row})


BOTH = {"error_basis": "both", "error_quality": 1e-3}


@pytest.mark.parametrize(
    ("library", "expected"),
    [
        (barcodes(occupancy=0.30, chimera_rate=0.02, unresolved=2, unresolved_reads=2), []),
        (
            barcodes(occupancy=0.34),
            (
                "warning",
                "The molecules of sample S1 take 34.0% of the barcodes there could be, so "
                "neighbours by chance look like errors: use longer UMIs.",
            ),
        ),
        (
            barcodes(occupancy=1.52),
            (
                "warning",
                "Sample S1 is saturated: it has 1.5 molecules for each barcode there could be, so "
                "many share one and cannot be told apart: use longer UMIs.",
            ),
        ),
        (
            barcodes(chimera_rate=0.031),
            (
                "warning",
                "3.1% of the reads of sample S1 are chimeras: use fewer cycles of PCR, or look at "
                "the column `status` of molecules.parquet for what was set apart.",
            ),
        ),
        (
            barcodes(unresolved=3, unresolved_reads=3),
            (
                "warning",
                "3.0% of the reads of sample S1 are unresolved, with too many unsure bases in "
                "their barcode: look at the quality of these cycles.",
            ),
        ),
        (
            barcodes(error=2.4e-3, **BOTH),
            (
                "note",
                "Barcodes of sample S1 have 2.4e-03 errors a base, 2.4 times what their qualities "
                "say: they arose before the sequencer, in PCR or in the oligo; correction takes "
                "that into account.",
            ),
        ),
        (
            barcodes(error=4e-4, **BOTH),
            (
                "note",
                "Barcodes of sample S1 have 4.0e-04 errors a base, 40.0% of what their qualities "
                "say: do not trust these qualities too far; correction takes that into account.",
            ),
        ),
        (barcodes(error=1.9e-3, **BOTH), []),
        (barcodes(error=1e-3, error_basis="quality", error_quality=1e-3, error_census=9e-3), []),
        (barcodes(error=4e-3, error_basis="census"), []),
    ],
)
def test_advice_on_barcodes(library, expected):
    assert texts(library) == ([expected] if expected else [])


def test_what_became_of_barcodes_is_said():
    counts = {"corrected": 5, "corrected_reads": 6, "chimera_suspects": 1, "unresolved": 2}
    reads = {"chimera_suspect_reads": 4, "unresolved_reads": 2}
    made = replace(barcodes(200, **counts, **reads), jobs=(Job("settle", "L1"),))
    said = findings.trusted([made])[-1]
    assert said == findings.corrected([made])
    assert said == (
        "10.0% of the families were taken for errors of another barcode; their reads, 3.0% of "
        "all, count there."
    )
    assert findings.others([made]) == (
        "Besides 1 chimera suspect and 2 unresolved: these are not counted as molecules and are "
        "not written (`outputs: suspects` does)."
    )
    # 200 reads less the six that are in no molecule.
    assert findings.yielded([made]) == ["50 consensus molecules, 3.9 reads each on average."]
    asked = replace(made, provenance={"suspects": True})
    assert findings.others([asked]).endswith("not counted as molecules.")
    left = replace(made, provenance={"refine_method": "unique"})
    assert "as they were read" in findings.trusted([left])[-1]
    assert findings.others([checkout()]) == ""
    assert findings.corrected([checkout()]) == "No barcode was taken for an error of another."


# -- placement -------------------------------------------------------------------------------------

SPACE = 10_000.0


def crowded(agreement, families=2_000, keys=500, **values):
    """Families of few barcodes, and how often their reads agree."""
    row = Barcodes(families, 25, agreement=agreement, barcodes=keys, space=SPACE, **values)
    return replace(checkout(), barcodes={"S1": row})


WRONG = (
    "warning",
    "Only 12.0% of the pairs of reads with one barcode have payloads that agree in sample S1, "
    "though molecules are too few to share barcodes: where reads start at different places set "
    "`placement: tile`, else the number of molecules is wrong; where they start at one, see "
    "whether `layout` takes the UMI.",
)


def test_payloads_that_disagree_are_a_wrong_placement():
    assert texts(crowded(0.12)) == [WRONG]


@pytest.mark.parametrize(
    "library",
    [
        crowded(0.50),
        # No barcode with two reads, or nothing to compare.
        crowded(None),
        crowded(0.12, keys=0),
        # Molecules share barcodes by chance: 20,000 take 8,647 of 10,000, 2.3 each.
        crowded(0.12, families=20_000, keys=8_647),
        # A family to a barcode: they disagree, but hardly ever.
        crowded(0.12, families=500),
    ],
)
def test_molecules_that_share_barcodes_are_none(library):
    assert texts(library) == []


def test_families_a_barcode_are_held_against_chance():
    """2,000 molecules on 10,000 barcodes are 1.10 each; half as many again are too many."""
    expected = 0.2 / 0.18127
    assert advice.disagrees(crowded(0.1, keys=int(2_000 / (1.51 * expected))).barcodes["S1"])
    assert not advice.disagrees(crowded(0.1, keys=int(2_000 / (1.49 * expected))).barcodes["S1"])


def test_what_follows_from_a_wrong_placement_is_not_advised_on():
    others = {"chimera_rate": 0.5, "unresolved": 20, "unresolved_reads": 20}
    single = {"S1": ((1, 60), (2, 10))}
    assert texts(replace(crowded(0.12, **others), sizes=single)) == [WRONG]
    # Where it is right, all three are.
    assert len(texts(replace(crowded(0.9, **others), sizes=single))) == 3


def test_single_reads_beside_deep_molecules_may_be_errors():
    start = "60.0% of the molecules rest on a single read, though half of the reads are in "
    start += "molecules of 50 reads or more: "
    made = checkout(assigned=2_060, sizes={"S1": ((1, 60), (50, 40))})
    left = replace(made, jobs=(Job("settle", "L1"),), provenance={"refine_method": "unique"})
    words = "most look like errors, which `refine_method: posterior` finds."
    assert texts(left) == [("note", start + words)]
    done = replace(made, jobs=(Job("settle", "L1"),))
    words = "many may be errors that cannot be traced. Set `min_reads: 2` to leave them out."
    assert texts(done) == [("note", start + words)]
    # Half of the reads are in molecules of 4 or more: deeper sequencing finds more.
    shallow = checkout(assigned=120, sizes={"S1": ((1, 60), (4, 15))})
    assert ": sequence deeper, or set" in texts(shallow)[0][1]
