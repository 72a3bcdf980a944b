"""Job of rule index."""

from pathlib import Path

from umimill.index import Fragments, index
from umimill.job import run_job
from umimill.library_tables import LibrarySettings

SETTINGS = ("library", "layouts", "reads", "buckets", "parts", "floor", "minimum_reads")
SETTINGS += ("method", "minimum_posterior", "suspects", "cell_list", "limit_reads")
LISTS = ("mate1", "mate2", "molecules", "families", "fates", "jobs", "probes")
files = {name: [Path(path) for path in snakemake.input[name]] for name in LISTS}
asked = {name: snakemake.params[name] for name in SETTINGS}
with run_job(snakemake, "index", "write") as meter:
    index(
        Path(snakemake.input.plan),
        Fragments(
            mates=(files["mate1"], files["mate2"]),
            molecules=files["molecules"],
            families=files["families"],
            fates=files["fates"],
        ),
        Path(snakemake.input.routes),
        files["jobs"],
        Path(snakemake.output.index),
        Path(snakemake.output.jobs).parent,
        LibrarySettings(
            probes=dict(zip(asked["reads"], files["probes"], strict=True)),
            model=Path(snakemake.input.model),
            **asked,
        ),
        meter,
    )
