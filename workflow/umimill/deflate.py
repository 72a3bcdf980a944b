"""Deflate at ISA-L's level 1 such that equal text gives equal bytes."""

from collections.abc import Iterable, Iterator

from isal import isal_zlib

LEVEL = 1
RAW, GZIP = -15, 31
# Where a stream begins, levels 1 and 2 of ISA-L (as in isal 1.9.1) hash position 2 from a register
# that was not set and holds an address: now and then a stream came out other from run to run. A few
# bytes that end at a flush take another way through ISA-L, and what follows them is no beginning.
# 3 are too few for that, 4 to 16 were seen never to reach the fault.
HEAD_BYTES = 8


def deflate(pieces: Iterable[bytes | memoryview], window_bits: int) -> Iterator[bytes]:
    """Yield pieces of text as one compressed stream.

    Args:
        pieces: the text; where it is cut may move bytes of the stream.
        window_bits: RAW for a stream without header, GZIP for a gzip member without name and time.
    """
    packer = isal_zlib.compressobj(LEVEL, isal_zlib.DEFLATED, window_bits)
    head = b""
    begun = False
    for piece in pieces:
        rest = piece
        if not begun:
            taken = HEAD_BYTES - len(head)
            head += bytes(piece[:taken])
            rest = piece[taken:]
            if len(head) < HEAD_BYTES:
                continue
            begun = True
            yield packer.compress(head)
            yield packer.flush(isal_zlib.Z_SYNC_FLUSH)
        yield packer.compress(rest)
    if not begun:
        yield packer.compress(head)
    yield packer.flush()
