"""Simulated UMI libraries with their truth.

This module knows how a library is made and sequenced; it knows nothing about how it is analysed.
The files in resources/demo are the fixed reference: they are what `write_simulation` writes for
`simulate(SimulationParameters())`.

Random numbers. Everything comes from the raw 64-bit words of numpy's PCG64(seed), whose stream
numpy guarantees, and from integer thresholds; the methods of `Generator` may change between
releases and are not used. With u = word >> 32 and v = word >> 11: a number below n is
floor(u n / 2^32), an event of probability p happens when v < round(2^53 p), and class k of weights
w is drawn when v is in [C(k), C(k+1)), C(k) = floor(2^53 sum(w[:k]) / sum(w)).

Model, in the order in which a read is made:

1. Clones. Independent uniform bases. With F = `clone_families` > 0 clone c instead descends from
   random ancestor c mod F, each base replaced with probability `family_divergence`. The insert is
   the whole clone sequence: `insert_length` bases, `payload_length` where that is 0.
2. Molecules. Sample uniform; UMI uniform over 4^L, so it may repeat in a sample or between
   samples; clone c (from 0) with probability proportional to (c+1)^-`zipf_exponent`.
   Reads: floor(exp(mu + s Z) + 1/2), Z standard normal, s = `sigma_reads`,
   mu = ln(`mean_reads`) - s^2/2; with U = `uniform_reads` > 0 uniform on 1 .. U instead. A molecule
   may get no read; such a molecule is dropped, so the truth holds, and numbers, only molecules with
   at least one read.
3. PCR. A molecule doubles perfectly in each of C = `pcr_cycles` cycles. A read descends from one of
   the 2^C copies, drawn uniformly: its C bits are its path in the tree, and two reads share their
   history as long as their paths agree. Each copying (each branch of the tree) replaces each base
   of UMI and insert with probability `pcr_error`, once, for all reads below it; so a read's base
   differs with probability C `pcr_error`, and an error of cycle t is in 2^-t of the copies.
4. Chimera, `chimera_share` of the tagged reads: insert bases from a breakpoint uniform in
   1 .. insert - 1 on come, clean, from another clone, drawn by the Zipf law among the others.
5. Strand: pattern of the sample with the UMI in its N, insert, adapter, then G for ever. A shift,
   `shift_share` of the tagged reads, is a lost last base of the pattern or a random base gained
   between pattern and insert (half each): all that follows moves by one base. `front_share` of the
   tagged reads have 1 .. `front_bases` random bases in front of the pattern (uniform).
6. Cycles. Read 1 is the first (pattern length + `payload_length`) bases of the strand, whatever
   precedes the pattern. Read 2, where `read2_length` > 0, is the start of the reverse complement
   of pattern + insert, then adapter: the mates overlap where `payload_length` + `read2_length` >
   the insert. Shift and front of a strand do not show in read 2.
7. Foreign reads, `foreign_share` of all reads (rounded): independent bases with the composition of
   the clean strands of all tagged reads, no pattern. All reads are then shuffled.
8. Qualities. Levels q with weights w below the highest one have shares pi(q) = a w(q), the highest
   level has the rest; a solves sum pi(q) e(q) = `mean_error`, e(q) = 10^(-q/10). Along a read a
   chain starts in pi, keeps its level with probability `quality_persistence` and is drawn anew
   from pi otherwise, so pi holds at every cycle. `mean_error` = 0 means the highest level
   everywhere and no sequencing error.
9. Sequencing errors. A base is replaced by one of the three others with probability e(q) of its
   own quality, but for the barcode:
10. Barcode errors. UMI base j of a read, counted in the UMI, is wrong with probability E(j), PCR
   included: the first `barcode_prefix_length` = w bases of L share `barcode_prefix_share` of the
   expected errors L `barcode_error`, equally, the other L - w the rest, equally. (4 of 12 and 1/3:
   uniform.) PCR makes P = C min(`pcr_error`, min E / C). Sequencing makes E - P: where this is
   below `mean_error`, errors drawn from the qualities are kept with probability
   (E - P) / `mean_error`; where it is above, all are kept and others added at every quality with
   probability E - P - `mean_error`. (Hits of the same base twice are neglected: order E^2.)
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from umimill.simulate_model import (
    apply_barcode_law,
    barcode_places,
    composition,
    draw_library,
    draw_quality,
    draw_reads,
    read1_bases,
    read2_bases,
    strands,
)
from umimill.simulate_parameters import SimulationParameters
from umimill.synthetic import (
    ALPHABET,
    COMMENT,
    Bytes,
    Flags,
    Integers,
    coordinate_names,
    draw_class,
    fastq_text,
    replace_bases,
    write_gzip,
)

READS_PER_BLOCK = 1 << 14  # part of the model: words are drawn and gzip is fed block by block

__all__ = ["Simulation", "SimulationParameters", "simulate", "write_simulation"]


@dataclass(frozen=True)
class Simulation:
    """A library and its truth. All numbers count from 0; n reads, m molecules, L UMI bases.

    Attributes:
        parameters: What was simulated.
        names: (n,) bytes, read names without @ and comment.
        bases1, qualities1: (n, cycles) uint8, ASCII; Phred + 33.
        bases2, qualities2: The same of read 2, in sequencing orientation; None if single-end.
        read_sample, read_molecule: (n,) int64, -1 for a foreign read.
        read_is_foreign, read_is_chimera: (n,) bool.
        read_other_clone, read_breakpoint: (n,) int64, -1 where not a chimera.
        read_shift: (n,) int64, -1 lost, 1 gained a base, else 0.
        read_front: (n,) int64, random bases before the pattern.
        read_barcode_errors: (n,) int64, bases of the read's UMI that differ from the molecule's
            (of those that are there: a lost base is not counted), 0 for a foreign read.
        read_sequencing_errors: (n,) int64, bases replaced by sequencing, both mates.
        molecule_sample, molecule_clone, molecule_reads: (m,) int64; reads >= 1.
        molecule_umi: (m, L) uint8, ASCII.
        molecule_template: (m, insert) uint8, ASCII.
    """

    parameters: SimulationParameters
    names: npt.NDArray[np.bytes_]
    bases1: Bytes
    qualities1: Bytes
    bases2: Bytes | None
    qualities2: Bytes | None
    read_sample: Integers
    read_molecule: Integers
    read_is_foreign: Flags
    read_is_chimera: Flags
    read_other_clone: Integers
    read_breakpoint: Integers
    read_shift: Integers
    read_front: Integers
    read_barcode_errors: Integers
    read_sequencing_errors: Integers
    molecule_sample: Integers
    molecule_clone: Integers
    molecule_reads: Integers
    molecule_umi: Bytes
    molecule_template: Bytes


def simulate(parameters: SimulationParameters) -> Simulation:
    """Simulate a library; equal parameters give equal reads on any machine.

    Args:
        parameters: What to simulate.

    Returns:
        Reads and truth, about 0.5 kB of memory a read of 129 cycles.
    """
    source = np.random.PCG64(parameters.seed)
    library = draw_library(source, parameters)
    reads = draw_reads(source, parameters, library)
    total, head = reads.molecule.size, library.heads.shape[1]
    cycles = (head + parameters.payload_length, parameters.read2_length)
    bases = [np.zeros((total, width), np.uint8) for width in cycles]
    qualities = [np.zeros((total, width), np.uint8) for width in cycles]
    barcode_errors, sequencing_errors = np.zeros(total, np.int64), np.zeros(total, np.int64)
    base_counts = composition(library)
    for start in range(0, total, READS_PER_BLOCK):
        rows = slice(start, start + READS_PER_BLOCK)
        block = reads.block(start, start + READS_PER_BLOCK)
        clean = strands(parameters, library, block)
        for mate in range(2 if cycles[1] else 1):
            if mate == 0:
                codes = read1_bases(source, parameters, clean, block, head)
            else:
                codes = read2_bases(clean, cycles[1])
            foreign = block.molecule < 0
            codes[foreign] = draw_class(source, base_counts, int(foreign.sum()), cycles[mate])
            phred, wrong = draw_quality(source, parameters, codes.shape)
            if mate == 0:
                place, there = barcode_places(parameters, block, head)
                apply_barcode_law(source, parameters, wrong, place, there)
            replace_bases(source, codes, wrong)
            if mate == 0:
                read_umi = np.take_along_axis(codes, place, axis=1)
                differs = (read_umi != library.umi[block.molecule]) & there
                barcode_errors[rows] = differs.sum(axis=1)
            sequencing_errors[rows] += wrong.sum(axis=1)
            bases[mate][rows], qualities[mate][rows] = ALPHABET[codes], phred + 33
    foreign = reads.molecule < 0
    paired = parameters.read2_length > 0
    return Simulation(
        parameters=parameters,
        names=coordinate_names(source, 0, total, total),
        bases1=bases[0],
        qualities1=qualities[0],
        bases2=bases[1] if paired else None,
        qualities2=qualities[1] if paired else None,
        read_sample=np.where(foreign, -1, library.sample[reads.molecule]),
        read_molecule=reads.molecule,
        read_is_foreign=foreign,
        read_is_chimera=reads.breakpoint >= 0,
        read_other_clone=reads.other_clone,
        read_breakpoint=reads.breakpoint,
        read_shift=reads.shift,
        read_front=reads.front,
        read_barcode_errors=barcode_errors,
        read_sequencing_errors=sequencing_errors,
        molecule_sample=library.sample,
        molecule_clone=library.clone,
        molecule_reads=library.sizes,
        molecule_umi=ALPHABET[library.umi],
        molecule_template=ALPHABET[library.clones[library.clone]],
    )


def write_simulation(simulation: Simulation, folder: Path) -> None:
    """Write reads and truth: demo_R1.fastq.gz[, demo_R2.fastq.gz], truth_{molecules,reads}.tsv.gz.

    gzip by ISA-L level 1 (package isal), one member, time 0, no name: equal simulations give equal
    bytes for one version of isal. Columns are described in resources/demo/README.md.

    Args:
        simulation: What to write.
        folder: Where; made if it is not there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    mates = [(simulation.bases1, simulation.qualities1)]
    if simulation.bases2 is not None and simulation.qualities2 is not None:
        mates.append((simulation.bases2, simulation.qualities2))
    blocks = [
        slice(start, start + READS_PER_BLOCK)
        for start in range(0, simulation.names.size, READS_PER_BLOCK)
    ]
    for mate, (bases, qualities) in enumerate(mates):
        texts = (
            fastq_text(simulation.names[rows], COMMENT[mate], bases[rows], qualities[rows])
            for rows in blocks
        )
        write_gzip(folder / f"demo_R{mate + 1}.fastq.gz", texts)
    write_gzip(folder / "truth_molecules.tsv.gz", [_molecule_table(simulation)])
    write_gzip(folder / "truth_reads.tsv.gz", [_read_table(simulation)])


def _molecule_table(simulation: Simulation) -> bytes:
    names = simulation.parameters.samples
    lines = ["molecule\tsample\tumi\tclone\treads\ttemplate\n"]
    columns = zip(
        simulation.molecule_sample.tolist(),
        _strings(simulation.molecule_umi),
        simulation.molecule_clone.tolist(),
        simulation.molecule_reads.tolist(),
        _strings(simulation.molecule_template),
        strict=True,
    )
    for molecule, (sample, *fields) in enumerate(columns):
        lines.append("\t".join(map(str, (molecule, names[sample], *fields))) + "\n")
    return "".join(lines).encode()


def _read_table(simulation: Simulation) -> bytes:
    columns = (
        simulation.read_molecule,
        simulation.read_is_foreign.astype(np.int64),
        simulation.read_is_chimera.astype(np.int64),
        simulation.read_other_clone,
        simulation.read_breakpoint,
        simulation.read_shift,
        simulation.read_front,
        simulation.read_barcode_errors,
        simulation.read_sequencing_errors,
    )
    lines = [
        "record\tsample\tmolecule\tforeign\tchimera\tother_clone\tbreakpoint\tshift\tfront"
        "\tbarcode_errors\tsequencing_errors\n"
    ]
    names = (*simulation.parameters.samples, ".")
    for record, numbers in enumerate(np.stack(columns, axis=1).tolist()):
        sample = names[simulation.read_sample[record]]
        lines.append("\t".join(map(str, (record, sample, *numbers))) + "\n")
    return "".join(lines).encode()


def _strings(letters: Bytes) -> list[str]:
    return [row.tobytes().decode() for row in letters]
