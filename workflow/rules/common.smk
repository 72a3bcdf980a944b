import re
from types import SimpleNamespace

from umimill import ALGORITHM_VERSION, __version__
from umimill.config import bucket_count, is_large, load_config, small_runs
from umimill.errors import ConfigError
from umimill.layout import cell_samples, check_row, parse_layout
from umimill.names import (
    fastq_files,
    lineage_file,
    sample_runs,
    table_files,
    unmatched_files,
)

try:
    CONFIG = load_config(config, check_layout=parse_layout, check_row=check_row)
except ConfigError as error:
    raise WorkflowError(str(error))

LIBRARIES = {library.name: library for library in CONFIG.libraries}
# One job runs a run of small libraries; each stage of the others is a job.
SMALL_RUNS = small_runs(CONFIG, workflow.resource_settings.overwrite_scatter)
SMALL = {library.name for run in SMALL_RUNS for library in run}
STAGED = [library for library in CONFIG.libraries if library.name not in SMALL]


def intermediate(path):
    """Mark a file that a finished run no longer needs.

    Inputs are the same whether it is kept or not, else Snakemake would run jobs again where
    `keep_intermediates` changes. So that no file is removed too early, or missed where it was
    removed, those that are read through a list are inputs as well: fragments of gather, which reads
    them, partitions of index behind all buckets, since buckets times parts would be too many.
    """
    return path if CONFIG.keep_intermediates else temp(path)


def names_pattern(names):
    """Match these names as a wildcard, or nothing at all where there are none."""
    return "|".join(map(re.escape, names)) or r"(?!)"


# Tables and metrics of a library that the report is made from, beside those of gather.
LIBRARY_METRICS = (
    *("jobs.json", "index.json", "ledger.tsv", "sizes.tsv", "samples.tsv", "barcodes.tsv"),
    *("outcomes.tsv", "posteriors.tsv", "corrections.tsv", "umi_errors.tsv", "family_sizes.tsv"),
    *("ranks.tsv", "provenance.json"),
)
# Libraries whose cell barcodes are on a list have one file a part, and two stages, more.
LISTED = names_pattern(library.name for library in CONFIG.libraries if library.cell_list)
NOT_LISTED = names_pattern(library.name for library in CONFIG.libraries if not library.cell_list)


CELL_SAMPLES = {
    sample
    for library in CONFIG.libraries
    for sample in cell_samples([(row.sample, row.layout, row.layout_read2) for row in library.rows])
}


def library_cell_list(wildcards):
    return LIBRARIES[wildcards.library].cell_list


def library_cell_length(wildcards):
    row = LIBRARIES[wildcards.library].rows[0]
    return check_row(row.layout, row.layout_read2).cell_length


def small_threads(wildcards):
    """Share the cores among the jobs of small libraries: one takes up to four."""
    return max(1, min(4, (workflow.cores or 1) // len(SMALL_RUNS)))


def small_reads(libraries):
    """List what a job of small libraries reads."""
    files = [
        path for library in libraries for unit in library.units for path in (unit.read1, unit.read2)
    ]
    return [path for path in (*files, *(library.cell_list for library in libraries)) if path]


def small_library(library):
    """Give a small library as plain values, which Snakemake can compare."""
    wildcards = SimpleNamespace(library=library.name)
    return {
        "name": library.name,
        "units": library_reads(wildcards),
        "layouts": library_layouts(wildcards),
        "cell_list": library.cell_list,
    }


def cost_wanted(library):
    """Give what decides the cost of a library as plain values."""
    small = library.name in SMALL
    parts = CONFIG.parts * len(library.units)
    jobs = len(library.units) + parts + 4 * bucket_count(CONFIG, library) + 6
    return {
        "units": list(library_reads(SimpleNamespace(library=library.name)).values()),
        "jobs": 1 if small else jobs,
        "small": small,
    }


def small_files(library):
    """Name all that is kept of a small library."""
    names = [f"results/metrics/{library.name}/{name}" for name in LIBRARY_METRICS]
    names += [f"results/metrics/{library.name}/{name}" for name in gather_metrics(library)]
    for sample in library.samples:
        names += fastq_files(sample, paired=library.paired)
        names += table_files(sample, cells=sample in CELL_SAMPLES)
    if CONFIG.unmatched:
        names += unmatched_files(library.name, paired=library.paired)
        names.append(f"results/unmatched/{library.name}/{library.name}.metrics.json")
    if CONFIG.lineage:
        names.append(lineage_file(library.name))
        names.append(f"results/lineage/{library.name}/{library.name}.metrics.json")
    return names


def gather_runs(library):
    """Cut the samples of a library into runs, one a gather job."""
    return [library.samples] if library.name in SMALL else sample_runs(library.samples)


def gather_metrics(library):
    return [f"gather.{number + 1}.json" for number in range(len(gather_runs(library)))]


def unit_of(wildcards):
    return next(unit for unit in LIBRARIES[wildcards.library].units if unit.unit == wildcards.unit)


def unit_reads(wildcards):
    unit = unit_of(wildcards)
    return [unit.read1] if unit.read2 is None else [unit.read1, unit.read2]


def unit_number(wildcards):
    return LIBRARIES[wildcards.library].units.index(unit_of(wildcards))


def library_layouts(wildcards):
    """Give the layout rows of a library as plain values, which Snakemake can compare.

    Sorted, so that rows of the sheet in another order are the same layouts.
    """
    rows = LIBRARIES[wildcards.library].rows
    layouts = [[row.sample, row.layout, row.layout_read2] for row in rows]
    return sorted(layouts, key=lambda row: [value or "" for value in row])


def sheet_rows():
    """Give the further columns of samples.tsv, a value a row of a library, as plain values."""
    return {
        library.name: [[row.sample, dict(row.metadata)] for row in library.rows]
        for library in CONFIG.libraries
    }


def library_probes(wildcards):
    return [
        f"results/probe/{wildcards.library}/{unit.unit}.json"
        for unit in LIBRARIES[wildcards.library].units
    ]


def library_units(wildcards):
    return [unit.unit for unit in LIBRARIES[wildcards.library].units]


def library_reads(wildcards):
    return {
        unit.unit: [path for path in (unit.read1, unit.read2) if path]
        for unit in LIBRARIES[wildcards.library].units
    }


def library_parts(library, ending):
    return [
        f"results/partition/{library}/{unit.unit}/{part + 1}-of-{CONFIG.parts}.{ending}"
        for unit in LIBRARIES[library].units
        for part in range(CONFIG.parts)
    ]


def library_unplaced(wildcards):
    return library_parts(wildcards.library, "unplaced")


def partitions(wildcards):
    library = wildcards.library
    placed = [f"results/place/{library}.rows"] if library_cell_list(wildcards) else []
    return library_parts(library, "rows") + placed


def partials(wildcards):
    return library_parts(wildcards.library, "partial")


def library_buckets(library, stage, ending):
    return getattr(gather, library)(f"results/{stage}/{library}/{{scatteritem}}.{ending}")


def buckets(stage, ending):
    return lambda wildcards: library_buckets(wildcards.library, stage, ending)


def bucket_number(library):
    return len(getattr(scatter, library)("{scatteritem}"))


def of_buckets(stage, library, ending):
    """Name the file that a stage makes for all buckets of a library."""
    return f"results/{stage}/{library}/of-{bucket_number(library)}.{ending}"


def library_file(stage, ending):
    return lambda wildcards: of_buckets(stage, wildcards.library, ending)


def index_plan(wildcards):
    return of_buckets("plan", wildcards.library, "plan")


library_plan = index_plan
library_families = buckets("tally", "families")
library_edges = buckets("link", "edges")
library_queries = buckets("link", "queries")
library_outboxes = buckets("move", "outbox")


def library_jobs(wildcards):
    """Name the metrics of all jobs of a library up to index."""
    library = wildcards.library
    return [
        *(path.removesuffix(".json") + ".metrics.json" for path in library_probes(wildcards)),
        *library_parts(library, "metrics.json"),
        *(
            [f"results/{stage}/{library}.metrics.json" for stage in ("cells", "place")]
            if library_cell_list(wildcards)
            else []
        ),
        index_plan(wildcards).removesuffix(".plan") + ".metrics.json",
        *library_buckets(library, "tally", "metrics.json"),
        of_buckets("model", library, "metrics.json"),
        *library_buckets(library, "link", "metrics.json"),
        of_buckets("settle", library, "metrics.json"),
        *library_buckets(library, "move", "metrics.json"),
        of_buckets("route", library, "metrics.json"),
        *library_buckets(library, "assemble", "metrics.json"),
    ]


def library_fragments(library):
    """Name the files that gather reads through the index."""
    return [
        path
        for stage, ending in (
            ("assemble", "mate1"),
            ("assemble", "mate2"),
            ("assemble", "molecules"),
            ("tally", "families"),
            ("move", "fates"),
        )
        for path in library_buckets(library, stage, ending)
    ]


def cell_tables():
    """Name what the report shows of cells, sample by sample."""
    return [
        f"results/samples/{sample}/{sample}.{table}.tsv"
        for library in CONFIG.libraries
        for sample in library.samples
        if sample in CELL_SAMPLES
        for table in ("cell_calls", "cell_ranks")
    ]


def assemble_threads(wildcards):
    """Share the cores among the buckets: one bucket takes up to four."""
    return max(1, min(4, (workflow.cores or 1) // bucket_number(wildcards.library)))


def final_files():
    """Name every file that a run is for, beside the report."""
    names = []
    for library in CONFIG.libraries:
        for sample in library.samples:
            names += fastq_files(sample, paired=library.paired)
        if CONFIG.unmatched:
            names += unmatched_files(library.name, paired=library.paired)
        if CONFIG.lineage:
            names.append(lineage_file(library.name))
    return names
