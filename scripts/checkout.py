"""Job of rule checkout."""

from pathlib import Path

from umimill.checkout import Aside, Part, checkout
from umimill.job import run_job, split_item

unit = snakemake.wildcards.unit
units = snakemake.params.units
number, count = split_item(snakemake.wildcards.part)
unmatched, unplaced, names = (
    snakemake.output.get(name) for name in ("unmatched", "unplaced", "names")
)
with run_job(snakemake, "checkout", "match", unit=unit, part=snakemake.wildcards.part) as meter:
    checkout(
        [Path(path) for path in snakemake.input.reads],
        snakemake.params.layouts,
        dict(zip(units, map(Path, snakemake.input.probes), strict=True)),
        unit,
        Part(units.index(unit), number, count),
        Path(snakemake.output.rows),
        meter,
        partial=Path(snakemake.output.partial),
        limit=snakemake.params.limit,
        minimum_umi_quality=snakemake.params.minimum_umi_quality,
        unmatched=Path(unmatched) if unmatched else None,
        aside=Aside(Path(snakemake.input.cells), Path(unplaced)) if unplaced else None,
        names=Path(names) if names else None,
    )
