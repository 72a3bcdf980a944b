"""The container of intermediate files: whole and checked, or refused."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_fixture import files_below, slow_settings
from umimill.blockfile import PAGE_BYTES, BlockFile, BlockWriter
from umimill.errors import UmimillError

PAIRS = np.dtype([("key", "<u8"), ("level", "u1", (4,)), ("rest", "<u4")])


def arrays() -> dict[str, npt.NDArray[Any]]:
    rng = np.random.default_rng(2)
    pairs = np.zeros(3, PAIRS)
    pairs["key"], pairs["level"], pairs["rest"] = [1, 2**64 - 1, 3], 7, [5, 6, 7]
    return {
        "bytes": rng.integers(0, 256, 5, np.uint8),
        "table": rng.integers(-(2**60), 2**60, (4, 3)),
        "pairs": pairs,
        "none": np.empty(0, np.int64),
        "no_rows": np.empty((0, 7), np.uint8),
    }


def write(path: Path, found: dict[str, npt.NDArray[Any]]) -> Path:
    with BlockWriter(path) as writer:
        writer.append_bytes(b"loose")
        for name, array in found.items():
            writer.add(name, array)
        writer.finish({"what": "a test", "numbers": [1, 2]})
    return path


def read_all(path: Path) -> dict[str, npt.NDArray[Any]]:
    with BlockFile(path) as file:
        return {name: file.read(name) for name in arrays()}


def test_arrays_come_back(tmp_path: Path) -> None:
    expected = arrays()
    path = write(tmp_path / "new" / "a.block", expected)
    assert files_below(tmp_path) == ["new/a.block"]
    for name, array in read_all(path).items():
        assert (array.dtype, array.shape) == (expected[name].dtype, expected[name].shape)
        assert array.tobytes() == expected[name].tobytes()
    with BlockFile(path) as file:
        assert file.header == {"what": "a test", "numbers": [1, 2]}
        assert [file.length(name) for name in expected] == [5, 4, 3, 0, 0]
        assert file.read("table", 1, 3).tolist() == expected["table"][1:3].tolist()
        assert file.read("table", 3, 99).tolist() == expected["table"][3:].tolist()
        assert not file.read("table", 2, 2).size


def test_same_bytes_however_appended(tmp_path: Path) -> None:
    data = np.random.default_rng(3).integers(0, 256, 3 * PAGE_BYTES + 77, np.uint8).tobytes()
    written = []
    for step in (1000, PAGE_BYTES - 8, PAGE_BYTES, len(data)):
        path = tmp_path / f"{step}"
        with BlockWriter(path) as writer:
            offsets = [
                writer.append_bytes(data[start : start + step])
                for start in range(0, len(data), step)
            ]
            writer.finish({})
        assert offsets[0] == 8
        written.append(path.read_bytes())
    assert len(set(written)) == 1


@slow_settings(100)
@given(bounds=st.tuples(st.integers(0, 3 * PAGE_BYTES), st.integers(0, 3 * PAGE_BYTES)))
def test_any_range(tmp_path_factory: pytest.TempPathFactory, bounds: tuple[int, int]) -> None:
    path = tmp_path_factory.getbasetemp() / "ranges.block"
    data = np.random.default_rng(4).integers(0, 256, 3 * PAGE_BYTES, np.uint8)
    if not path.exists():
        with BlockWriter(path) as writer:
            writer.add("data", data)
            writer.finish({})
    start, stop = sorted(bounds)
    scratch = np.zeros(100, np.uint8)
    with BlockFile(path) as file:
        found, scratch = file.read_bytes(8 + start, 8 + stop, scratch)
        assert found.tobytes() == data[start:stop].tobytes()
        # The buffer is used again, and grows only where it is too small.
        _, again = file.read_bytes(8 + start, 8 + stop, scratch)
        assert again is scratch
        assert file.read("data", start, stop).tobytes() == data[start:stop].tobytes()


def test_file_cut_at_any_byte_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.block", arrays())
    whole = path.read_bytes()
    for stop in range(len(whole)):
        path.write_bytes(whole[:stop])
        with pytest.raises(UmimillError, match=r"a\.block: its end is missing or damaged; delete"):
            BlockFile(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(UmimillError, match="its end is missing or damaged"):
        BlockFile(path)


def test_flipped_byte_is_noticed(tmp_path: Path) -> None:
    path = write(tmp_path / "a.block", arrays())
    whole = path.read_bytes()
    for place in range(len(whole)):
        for change in (1 << place % 8, 0xFF):
            flipped = bytearray(whole)
            flipped[place] ^= change
            path.write_bytes(flipped)
            with pytest.raises(
                UmimillError, match=r"a\.block: .* damaged; delete it and run again"
            ):
                read_all(path)


def test_damage_concerns_its_page_alone(tmp_path: Path) -> None:
    path = tmp_path / "pages.block"
    data = np.random.default_rng(5).integers(0, 256, 4 * PAGE_BYTES, np.uint8)
    with BlockWriter(path) as writer:
        writer.add("data", data)
        writer.finish({})
    flipped = bytearray(path.read_bytes())
    flipped[2 * PAGE_BYTES + 1234] ^= 4
    path.write_bytes(flipped)
    with BlockFile(path) as file:
        sound = file.read("data", 0, 2 * PAGE_BYTES - 8)
        assert sound.tobytes() == data[: sound.size].tobytes()
        last = file.read("data", 3 * PAGE_BYTES - 8)
        assert last.tobytes() == data[3 * PAGE_BYTES - 8 :].tobytes()
        message = r"pages\.block: the 64 kB at byte 131,072 are damaged; delete it and run again"
        for start, stop in ((2 * PAGE_BYTES - 9, 2 * PAGE_BYTES), (0, None)):
            with pytest.raises(UmimillError, match=message):
                file.read("data", start, stop)


def test_damaged_sums_are_noticed_before_they_are_used(tmp_path: Path) -> None:
    path = tmp_path / "pages.block"
    with BlockWriter(path) as writer:
        writer.add("data", np.zeros(2 * PAGE_BYTES, np.uint8))
        writer.finish({})
    whole = path.read_bytes()
    for page in range(3):
        flipped = bytearray(whole)
        flipped[8 + 2 * PAGE_BYTES + 4 * page] ^= 1
        path.write_bytes(flipped)
        with pytest.raises(UmimillError, match="its end is missing or damaged"):
            BlockFile(path)


def test_missing_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UmimillError, match=r"gone\.block: missing; run again with --rerun-inc"):
        BlockFile(tmp_path / "gone.block")


def test_error_while_writing_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyError), BlockWriter(tmp_path / "a.block") as writer:  # noqa: PT012
        writer.add("bytes", np.zeros(9, np.uint8))
        raise KeyError
    assert not files_below(tmp_path)


def test_file_that_is_there_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = write(tmp_path / "a.block", arrays())
    before = path.read_bytes()
    with BlockWriter(path) as writer:
        writer.add("bytes", np.zeros(9, np.uint8))
        assert path.read_bytes() == before
        writer.finish({})
    assert path.read_bytes() != before
    assert files_below(tmp_path) == ["a.block"]
