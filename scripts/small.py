"""Job of the small rules."""

from pathlib import Path

from umimill.errors import job_errors
from umimill.job import check_version, jobs_maker
from umimill.small import SmallLibrary, Wishes, run_small

with job_errors(snakemake.log[0]):
    check_version(snakemake.params.version)
    run_small(
        [SmallLibrary(**library) for library in snakemake.params.libraries],
        Wishes(**snakemake.params.wishes),
        [Path(path) for path in snakemake.output],
        jobs_maker(snakemake),
    )
