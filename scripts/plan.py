"""Job of rule plan."""

from pathlib import Path

from umimill.job import run_job
from umimill.layout import tiled_samples
from umimill.plan import plan

with run_job(snakemake, "plan", "sort") as meter:
    plan(
        [Path(path) for path in snakemake.input.partitions],
        int(snakemake.wildcards.buckets),
        Path(snakemake.output.plan),
        meter,
        partials=[Path(path) for path in snakemake.input.partials],
        tile=tiled_samples(snakemake.params.layouts, snakemake.params.placement),
    )
