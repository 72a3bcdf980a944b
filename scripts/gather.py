"""Job of the gather rules."""

from pathlib import Path

from umimill.gather import gather
from umimill.job import run_job
from umimill.names import SAMPLES_FOLDER, fastq_files

samples = snakemake.params.samples
paired = snakemake.params.paired
with run_job(snakemake, "gather", "write", samples=samples) as meter:
    gather(
        Path(snakemake.input.index),
        samples,
        {sample: [Path(path) for path in fastq_files(sample, paired=paired)] for sample in samples},
        Path(SAMPLES_FOLDER),
        meter,
        cells=snakemake.params.cells,
    )
