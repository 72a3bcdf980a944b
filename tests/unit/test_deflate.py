"""Deflate: streams that any reader takes, and the same bytes every time."""

import gzip
import random
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from isal import igzip_lib

from stage_fixture import fastq_text, random_bases, slow_settings
from umimill.deflate import GZIP, HEAD_BYTES, RAW, deflate


def consensus_like(seed: int, records: int) -> bytes:
    rng = np.random.default_rng(seed)
    reads = (
        (b"S1.%s RX:Z:AC" % random_bases(rng, 12), random_bases(rng, 90), b"I" * 90)
        for _ in range(records)
    )
    return fastq_text(list(reads))


@slow_settings(60)
@given(st.lists(st.binary(max_size=40) | st.just(b"@ACGT" * 400), max_size=8))
def test_pieces_come_back(pieces: list[bytes]) -> None:
    text = b"".join(pieces)
    views = [memoryview(piece) for piece in pieces]
    assert zlib.decompress(b"".join(deflate(views, RAW)), RAW) == text
    assert gzip.decompress(b"".join(deflate(pieces, GZIP))) == text


def test_member_has_no_time_and_no_name() -> None:
    assert b"".join(deflate([b"text"], GZIP))[:8] == b"\x1f\x8b\x08\x00\0\0\0\0"


def test_head_is_a_block_of_its_own() -> None:
    """What keeps the code that reads an unset register from running."""
    text = consensus_like(1, 200)
    for pieces in ([text], [text[:3], b"", text[3:5], text[5:100], text[100:]]):
        stream = b"".join(deflate(pieces, RAW))
        end = stream.index(b"\0\0\xff\xff") + 4
        assert zlib.decompressobj(RAW).decompress(stream[:end]) == text[:HEAD_BYTES]
        assert end < 30


def nested(depth: int, text: bytes) -> bytes:
    """Compress with `depth` frames of C below."""
    found: list[bytes] = []

    def step(_: int) -> int:
        found.append(nested(depth - 1, text) if depth else b"".join(deflate([text], RAW)))
        return 0

    sorted([0], key=step)
    return found[0]


def test_bytes_depend_on_the_text_alone() -> None:
    """Not on thread, stack, addresses, or what was compressed before.

    A stream without a head differs too seldom for this to be sure to see it: the test of the head
    is the sure one.
    """
    texts = [consensus_like(seed, 40) for seed in range(40)]
    first = [b"".join(deflate([text], RAW)) for text in texts]

    def again(number: int) -> bool:
        source = random.Random(number)
        if number % 10 == 0:
            igzip_lib.compress(source.randbytes(70_000), source.randrange(4))
        one = number % len(texts)
        return nested(source.randrange(20), texts[one]) == first[one]

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(again, range(1000)))
    # Streams under way at once lie at different addresses.
    streams = [deflate(iter([texts[0]]), RAW) for _ in range(1500)]
    begun = [next(stream) for stream in streams]
    for head, stream in zip(begun, streams, strict=True):
        assert head + b"".join(stream) == first[0]
