"""Benchmark corpora: made-up FASTQ of 129-nt single-end reads, streamed to disk.

    PYTHONPATH=workflow python tests/benchmark/corpus.py q4 2000000 out.fastq.gz

Every read is a pattern aa{ACT,AGA,GCC,GGT}cagtggtatcaacgcagagtNNNNtNNNNtNNNN (samples in turn, by
molecule) and 90 bases, random for each molecule but in `deep`. Kinds:

const    4 reads a molecule, adjacent, names r0, r1 .., all qualities 40, no errors. Far more
         compressible than real reads: do not quote it alone.
q4       4 reads a molecule, shuffled, NovaSeq names, qualities 2, 11, 25, 37 in a Markov chain,
         errors drawn from them, UMI bases wrong with probability 1e-3 on top.
q40      as q4 with 40 levels, 2 .. 41.
shallow  as q4 with one read a molecule, all UMIs of a sample distinct.
deep     as q4 with reads per molecule lognormal (mean 90, sigma 0.8) and the molecules' 90 bases
         from 2,000 clones, Zipf exponent 1.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from umimill.simulate_parameters import DEMO_LAYOUTS
from umimill.synthetic import (
    ALPHABET,
    COMMENT,
    Bytes,
    Words,
    coordinate_names,
    draw_class,
    draw_family_sizes,
    draw_hits,
    draw_qualities,
    draw_words,
    fastq_text,
    replace_bases,
    write_gzip,
)

KINDS = ("const", "q4", "q40", "shallow", "deep")
UMI_COLUMNS = np.flatnonzero(np.frombuffer(DEMO_LAYOUTS[0].encode(), np.uint8) == ord("N"))
UMI_ERROR = 1e-3
PAYLOAD = 90
DEEP_CLONES = 2000
READS_PER_CHUNK = 1 << 14
FOUR_LEVELS = ((2, 11, 25, 37), (0.002, 0.012, 0.2, 0.786), 0.85)
# Shares rise towards the top, as on a machine that does not bin; mean error 3.3e-3.
FORTY_LEVELS = (tuple(range(2, 42)), tuple(1.16**level for level in range(40)), 0.6)

Indices = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Molecules:
    """What each read and each molecule is, in 2-bit base codes within words.

    Attributes:
        read: (reads,) int32, the molecule of each read, in file order.
        umi: (molecules,) uint64, 12 bases.
        payload: (molecules or clones, 3) uint64, 32 bases a word.
        clone: (molecules,) int32, the row of `payload`; None where each has its own.
    """

    read: Indices
    umi: Words
    payload: Words
    clone: Indices | None


def write_corpus(path: Path, kind: str, reads: int, seed: int = 1) -> None:
    """Write a corpus as gzip (ISA-L level 1, one member).

    Memory is about 60 B a molecule and 20 B a read beside 150 MB.

    Args:
        path: FASTQ file to write; gets its name when it is complete.
        kind: One of KINDS.
        reads: Number of reads.
        seed: Of PCG64.

    Raises:
        ValueError: for another kind, a negative number of reads, or more shallow reads than UMIs.
    """
    if kind not in KINDS:
        raise ValueError(f"corpus kind is {kind!r}; give one of {', '.join(KINDS)}")
    if not 0 <= reads <= 2**31 or (kind == "shallow" and reads > 4**13):
        raise ValueError(f"corpus of {reads:,} reads; give 0 .. 2^31, shallow at most 4^13")
    write_gzip(path, corpus_text(kind, reads, seed))


def corpus_text(
    kind: str, reads: int, seed: int, layouts: Sequence[str] = DEMO_LAYOUTS
) -> Iterator[bytes]:
    """Yield the FASTQ text of a corpus, a chunk of reads at a time.

    Args:
        kind: one of KINDS.
        reads: number of reads.
        seed: of PCG64.
        layouts: patterns of the samples, as long as those of the demo and with its UMI.
    """
    source = np.random.PCG64(seed)
    molecules = draw_molecules(source, kind, reads)
    heads = np.array([_codes(pattern) for pattern in layouts])
    for start in range(0, reads, READS_PER_CHUNK):
        stop = min(start + READS_PER_CHUNK, reads)
        codes = _clean_codes(molecules, heads, molecules.read[start:stop])
        if kind == "const":
            names = np.array([b"r%d" % record for record in range(start, stop)])
            yield fastq_text(names, b"", ALPHABET[codes], np.full_like(codes, 40 + 33))
            continue
        names = coordinate_names(source, start, stop, reads)
        levels = FORTY_LEVELS if kind == "q40" else FOUR_LEVELS
        phred, wrong = draw_qualities(source, codes.shape[0], codes.shape[1], *levels)
        wrong[:, UMI_COLUMNS] |= draw_hits(source, UMI_ERROR, codes.shape[0], UMI_COLUMNS.size)
        replace_bases(source, codes, wrong)
        yield fastq_text(names, COMMENT[0], ALPHABET[codes], phred + 33)


def draw_molecules(source: np.random.PCG64, kind: str, reads: int) -> Molecules:
    """Draw the molecules of a corpus and the order of its reads."""
    if kind == "deep":
        made = reads // 45 + 100  # twice the expected number: the sizes below must reach `reads`
        sizes = draw_family_sizes(source, made, 90, 0.8)
        molecule = np.repeat(np.arange(made, dtype=np.int32), sizes)[:reads]
    else:
        molecule = np.arange(reads, dtype=np.int32) // (1 if kind == "shallow" else 4)
    count = int(molecule[-1]) + 1 if reads else 0
    if kind == "shallow":
        umi = _distinct_umis(np.arange(count, dtype=np.uint64) // np.uint64(len(DEMO_LAYOUTS)))
    else:
        umi = draw_words(source, count) >> np.uint64(40)
    clone = None
    if kind == "deep":
        weights = [1 / (rank + 1) for rank in range(DEEP_CLONES)]
        clone = draw_class(source, weights, count).astype(np.int32)
    payload = draw_words(source, DEEP_CLONES if kind == "deep" else count, 3)
    if kind != "const":
        molecule = molecule[np.argsort(draw_words(source, reads), kind="stable")]
    return Molecules(molecule, umi, payload, clone)


def _distinct_umis(number: Words) -> Words:
    """Map numbers below 4^12 one to one to UMIs that look random: xor-shifts and odd factors."""
    mask = np.uint64(4**12 - 1)
    for factor in (0x9E3779, 0x85EBCB):
        number = (number * np.uint64(factor)) & mask
        number ^= number >> np.uint64(13)
    return number


def _clean_codes(molecules: Molecules, heads: Bytes, molecule: Indices) -> Bytes:
    """Return the base codes of reads of these molecules; (reads, 129) uint8."""
    row = molecule if molecules.clone is None else molecules.clone[molecule]
    shifts = np.arange(0, 64, 2, dtype=np.uint64)
    words = molecules.payload[row]
    payload = ((words[:, :, None] >> shifts) & np.uint64(3)).astype(np.uint8)
    head = heads[molecule % len(heads)]
    umi = molecules.umi[molecule][:, None] >> shifts[: UMI_COLUMNS.size]
    head[:, UMI_COLUMNS] = umi & np.uint64(3)
    return np.concatenate((head, payload.reshape(molecule.size, -1)[:, :PAYLOAD]), axis=1)


def _codes(pattern: str) -> Bytes:
    return np.array(["ACGT".find(base) & 3 for base in pattern.upper()], np.uint8)


def main() -> None:
    """Read the command line and write a corpus."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("reads", type=int)
    parser.add_argument("path", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    try:
        write_corpus(arguments.path, arguments.kind, arguments.reads, arguments.seed)
    except (OSError, ValueError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
