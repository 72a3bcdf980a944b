"""What a file is by its first bytes; its name says nothing."""

from __future__ import annotations

HEAD_BYTES = 8
PLAIN = "plain"
GZIP = "gzip"
# Files of reads may be any of these.
PACKED = {
    b"\x1f\x8b": GZIP,
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
}
REFUSED = {b"BAM\x01": "BAM", b"CRAM": "CRAM"}


def format_of(head: bytes) -> str:
    """Return the name of the format that a file with these first bytes has."""
    for signature, name in (PACKED | REFUSED).items():
        if head.startswith(signature):
            return name
    return PLAIN
