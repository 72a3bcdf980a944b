"""Job of rule cells."""

from pathlib import Path

from umimill.cell_list import list_cells
from umimill.job import run_job

with run_job(snakemake, "cells", "decode") as meter:
    list_cells(
        Path(snakemake.input.cell_list),
        snakemake.params.length,
        Path(snakemake.output.cells),
        meter,
    )
