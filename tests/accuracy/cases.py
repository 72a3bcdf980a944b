"""The cases: libraries whose barcodes are corrected, with all that decides their reads.

All have one sample, 90 nt of payload and a barcode between two constant pieces, anchored at the
first base. Errors of payload and barcode are drawn from qualities of four levels, mean 3e-3, unless
a case says otherwise; PCR copies 25 times with 1e-5 errors a base. Truth is the molecules that got
at least one read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from umimill.simulate_parameters import SimulationParameters

FRONT = "cagtggtatcaacgcagagt"
BEHIND = "tgact"
MOLECULES = 20_000
# (mean of the lognormal, share of the molecules that get a read) for these mean reads of a molecule
# that got one; sigma 0.8.
MEAN_OF_SEEN = {
    1.1: (0.3976, 0.24623),
    1.11: (0.4218, 0.27006),
    1.5: (1.1016, 0.72154),
    2.32: (2.1317, 0.92111),
    3.0: (2.8853, 0.96335),
    3.12: (3.0142, 0.96753),
    7.12: (7.1072, 0.99824),
    13.3: (13.2986, 0.99989),
}
DEPTHS = (1.11, 2.32, 3.12, 7.12, 13.3)
# 120 nt, and flat qualities that say nothing of the errors, as the closest peer simulates.
PEER_READS: dict[str, Any] = {
    "payload_length": 120,
    "quality_levels": (30,),
    "quality_weights": (),
    "mean_error": 1e-3,
}
PEER_QUALITY = 32


@dataclass(frozen=True)
class Case:
    """A library to be simulated, and what is done to its reads after `simulate`.

    Attributes:
        name: as the command line takes it.
        about: what is special about it, in a few words.
        parameters: of the simulator; its seed is replaced.
        reads: with more than 0, exactly that many are kept, the first ones.
        flat_quality: with more than 0, what all qualities are written as, whatever the errors.
        deletion_share: share of reads that lost one base of their UMI, chosen evenly; all that
            follows comes one base early, and one more base at the end.
        shared_barcodes: with 2, two and two molecules have the same barcode.
        cells: with more than 0, the first `cell_length` barcode bases are those of one of so many
            cells, read without error, and molecules are spread evenly over the cells.
        cell_length: bases.
        spread: reads of a molecule start at places 0 .. spread of the payload, evenly, instead of
            all at 0.
    """

    name: str
    about: str
    parameters: SimulationParameters
    reads: int = 0
    flat_quality: int = 0
    deletion_share: float = 0.0
    shared_barcodes: int = 1
    cells: int = 0
    cell_length: int = 0
    spread: int = 0

    @property
    def layout(self) -> str:
        """The layout as tools take it: anchored, X for cell bases, N for those of the UMI."""
        pattern = self.parameters.layouts[0]
        return "^" + pattern.replace("N", "X", self.cell_length)

    @property
    def payload_length(self) -> int:
        """Bases of a read behind the layout."""
        extra = self.spread + (1 if self.deletion_share else 0)
        return self.parameters.payload_length - extra

    @property
    def expected_reads(self) -> float:
        """About how many reads there are."""
        own = self.parameters
        each = (own.uniform_reads + 1) / 2 if own.uniform_reads else own.mean_reads
        return self.reads or own.molecules * each

    def scaled(self, share: float) -> Case:
        """Return the case with that share of its molecules, four at least, and of its cells."""
        if share == 1:
            return self
        fewer = replace(self.parameters, molecules=max(4, round(self.parameters.molecules * share)))
        cells = max(1, round(self.cells * share)) if self.cells else 0
        return replace(self, parameters=fewer, reads=0, cells=cells)


def parameters(
    umi: int = 12, clones: int = 200, mean_reads: float = 5.0, **more: Any
) -> SimulationParameters:
    """Return what the cases have in common, with changes."""
    prefix = min(4, umi)
    settings: dict[str, Any] = {
        "molecules": MOLECULES,
        "mean_reads": mean_reads,
        "clones": clones,
        "zipf_exponent": 0.0,
        "samples": ("S1",),
        "layouts": (FRONT + "N" * umi + BEHIND,),
        "barcode_prefix_length": prefix,
        "barcode_prefix_share": prefix / umi,
        "chimera_share": 0.0,
        "shift_share": 0.0,
        "foreign_share": 0.0,
        "front_share": 0.0,
    }
    return SimulationParameters(**{**settings, **more})


def tenx(
    umi: int, *, cells: int = 20, umis: int = 5000, mean_reads: float = 2.0, spread: int = 60
) -> Case:
    """Return a library of single cells; full size is about cells=5000, umis=20_000."""
    return Case(
        f"tenx-{umi}",
        f"{cells:,} cells of {umis:,} UMIs of {umi} nt, {mean_reads:g} reads each, random starts",
        parameters(
            umi=16 + umi,
            clones=2000,
            mean_reads=mean_reads,
            molecules=cells * umis,
            zipf_exponent=0.7,
            payload_length=90 + spread,
        ),
        cells=cells,
        cell_length=16,
        spread=spread,
    )


def _by_clones() -> list[Case]:
    return [
        Case(f"clones-{clones}", f"clones: {clones:,}, 5 reads", parameters(clones=clones))
        for clones in (1, 200, 20_000)
    ]


def _by_depth() -> list[Case]:
    return [
        Case(
            f"depth-{depth}",
            f"{depth} reads a molecule, 200 clones",
            parameters(mean_reads=mean, molecules=round(MOLECULES / share)),
        )
        for depth in DEPTHS
        for mean, share in [MEAN_OF_SEEN[depth]]
    ]


def _two_on_one() -> list[Case]:
    return [
        Case(
            f"two-on-one-{most}",
            f"two unrelated molecules on each barcode, 1 .. {most} reads each",
            parameters(clones=4000, molecules=molecules, uniform_reads=most),
            shared_barcodes=2,
        )
        for most, molecules in ((3, 10_000), (40, 4000))
    ]


def _by_chimeras() -> list[Case]:
    molecules = {5: MOLECULES, 20: 5000, 100: 1500, 1000: 200, 10_000: 20}
    return [
        Case(
            f"chimera-{percent}-{depth}",
            f"{percent}% chimeras, 0.2% shifts, {depth:,} reads, {count:,} molecules",
            parameters(
                mean_reads=depth, molecules=count, chimera_share=percent / 100, shift_share=0.002
            ),
        )
        for percent in (1, 3)
        for depth, count in molecules.items()
    ]


def _related() -> list[Case]:
    # Two clones that each differ from their ancestor by d differ from one another by about 2d.
    kinds = {
        "vgene": ("V genes, relatives 15% apart", 400, 20, 0.079),
        "viral-3": ("one virus, 3% apart", 400, 1, 0.0152),
        "viral-10": ("one virus, 10% apart", 400, 1, 0.0519),
    }
    return [
        Case(
            f"related-{name}",
            f"{about}, 10 nt, 2 reads",
            parameters(
                umi=10, clones=clones, mean_reads=2.0, clone_families=families,
                family_divergence=divergence,
            ),
        )
        for name, (about, clones, families, divergence) in kinds.items()
    ]  # fmt: skip


def _peer_settings() -> list[Case]:
    common, flat = PEER_READS, PEER_QUALITY
    own = parameters(clones=20, mean_reads=10.0, molecules=1000, barcode_error=3e-4, **common)
    about = "the peer's own defaults: 3e-4, 10 reads"
    cases = [Case("peer-defaults", about, own, flat_quality=flat)]
    cases += [
        Case(
            f"peer-clones-{clones}",
            f"clones: {clones:,}, 5 reads, flat qualities",
            parameters(clones=clones, **common),
            flat_quality=flat,
        )
        for clones in (1, 200, 20_000)
    ]
    cases += [
        Case(
            f"peer-depth-{depth}",
            f"{depth} reads a molecule, 200 clones, flat qualities",
            parameters(mean_reads=mean, molecules=round(MOLECULES / share), **common),
            flat_quality=flat,
        )
        for depth in DEPTHS
        for mean, share in [MEAN_OF_SEEN[depth]]
    ]
    return [
        *cases,
        *(
            Case(
                f"peer-umi{umi}",
                f"{umi} nt, 2,000 molecules of 8 reads, no barcode errors, flat qualities",
                parameters(
                    umi=umi,
                    mean_reads=8.0,
                    molecules=2000,
                    barcode_error=0.0,
                    pcr_error=0.0,
                    **common,
                ),
                flat_quality=flat,
            )
            for umi in (6, 8)
        ),
        Case(
            "peer-count",
            "149,103 reads, barcode error 2e-3, flat qualities",
            parameters(mean_reads=7.7, barcode_error=2e-3, **common),
            reads=149_103,
            flat_quality=flat,
        ),
    ]


def _error_rates() -> list[Case]:
    """Libraries of which the error rate is hard to tell: only neighbours say anything of it."""
    depths = {1.1: 10 * MOLECULES, 1.5: MOLECULES, 3.0: MOLECULES}
    kinds = [
        (f"{depth:g}", f"{depth:g} reads a molecule, {molecules:,} molecules", own)
        for depth, molecules in depths.items()
        for mean, share in [MEAN_OF_SEEN[depth]]
        for own in [{"mean_reads": mean, "molecules": math.ceil(1.01 * molecules / share)}]
    ]
    kinds += [
        (f"umi{umi}", f"{umi} nt, {molecules:,} molecules", {"umi": umi, "molecules": molecules})
        for umi, molecules in ((6, 2000), (8, MOLECULES))
    ]
    return [
        Case(
            f"error-{name}",
            f"error rate from neighbours: {about}, flat qualities",
            parameters(**own, **PEER_READS),
            flat_quality=PEER_QUALITY,
        )
        for name, about, own in kinds
    ]


def all_cases() -> dict[str, Case]:
    """Return the cases by name, in the order of the table."""
    cases = [
        *_by_clones(),
        *_by_depth(),
        Case(
            "count",
            "149,103 reads, barcode error 2e-3",
            parameters(mean_reads=7.7, barcode_error=2e-3),
            reads=149_103,
        ),
        Case("umi6", "6 nt, 2,000 molecules", parameters(umi=6, molecules=2000)),
        Case("umi8", "8 nt, 20,000 molecules", parameters(umi=8)),
        *_two_on_one(),
        *_by_chimeras(),
        *_related(),
        tenx(10),
        tenx(12),
        Case(
            "deletions",
            "1% of reads lost a UMI base, 200 molecules of 20 reads, no other barcode errors",
            parameters(
                mean_reads=20.0, molecules=200, barcode_error=0.0, pcr_error=0.0, payload_length=91
            ),
            deletion_share=0.01,
        ),
        Case(
            "deletions-errors",
            "1% of reads lost a UMI base, 2,000 molecules of 20 reads, barcode error 3e-3",
            parameters(mean_reads=20.0, molecules=2000, payload_length=91),
            deletion_share=0.01,
        ),
        *_peer_settings(),
        *_error_rates(),
    ]
    return {case.name: case for case in cases}
