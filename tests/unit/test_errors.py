"""What a user reads when a job ends badly."""

import errno
import gzip
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from umimill.errors import (
    ConfigError,
    FastqError,
    UmimillError,
    error_text,
    job_errors,
    note,
    one_line,
)


def test_fastq_error_says_where_with_thousands_separators() -> None:
    error = FastqError("lane1_R2.fastq.gz", 1204551, 4818203, "sequence has 150 bases, quality 149")
    assert str(error) == (
        "lane1_R2.fastq.gz, record 1,204,551 (line 4,818,203): sequence has 150 bases, quality 149"
    )


def test_config_error_joins_its_problems() -> None:
    error = ConfigError(["a: one", "b: two\nlines"])
    assert error.problems == ("a: one", "b: two lines")
    assert str(error) == "a: one\nb: two lines"


@pytest.mark.parametrize(
    "error",
    [UmimillError("x: y"), ConfigError(["a", "b"]), FastqError("a.fq", 1, 2, "cut")],
)
def test_errors_survive_pickling(error: UmimillError) -> None:
    # A process pool sends them to the parent this way.
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            OSError(errno.ENOSPC, "No space left on device", "results/a.fastq.gz"),
            "results/a.fastq.gz: no space left on the device; "
            "free some, or run in a folder on another one",
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "a b.fq"),
            "a b.fq: permission denied; check who owns it and its mode",
        ),
        (
            OSError(errno.EACCES, "Permission denied", "a.tmp", None, "a.gz"),
            "a.tmp -> a.gz: permission denied; check who owns it and its mode",
        ),
        (
            FileNotFoundError(errno.ENOENT, "No such file or directory", b"a.fq"),
            "a.fq: no such file or folder; check the path, and that nothing removed it",
        ),
        (
            OSError(errno.ENOSPC, "No space left on device"),
            "no space left on the device; free some, or run in a folder on another one",
        ),
        (OSError(errno.EBADF, "Bad file descriptor", 7), "Bad file descriptor"),
        (OSError(errno.ELOOP, "Too many levels", "a"), "a: Too many levels"),
        (gzip.BadGzipFile("Not a gzipped file"), "Not a gzipped file"),
        (OSError(), "OSError"),
        (UmimillError("first\nsecond"), "first second"),
        (UmimillError(), "UmimillError"),
    ],
)
def test_one_line(error: BaseException, line: str) -> None:
    assert one_line(error) == line


def test_a_fault_of_ours_has_its_traceback_and_a_users_mistake_has_none() -> None:
    assert error_text(ConfigError(["a", "b"])) == "umimill: a\numimill: b\n"
    assert error_text(UmimillError("x: y\nz")) == "umimill: x: y z\n"
    assert error_text(IsADirectoryError(errno.EISDIR, "Is a directory", "a")).startswith(
        "umimill: a"
    )
    try:
        {}["gone"]
    except KeyError as error:
        text = error_text(error)
    assert text.startswith("Traceback (most recent call last):\n")
    assert text.endswith("KeyError: 'gone'\n")


def test_a_note_is_in_the_log_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "logs" / "job.log"
    note("one\n", str(log))
    note("two\n", str(log))
    assert log.read_text() == "one\ntwo\n"
    assert capsys.readouterr() == ("", "")
    # A log that cannot be written must not stop the job.
    note("three\n", str(tmp_path / "logs"))


def test_a_real_full_disk_is_named() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    no_space = pytest.raises(OSError, match="No space left")
    with open("/dev/full", "wb", buffering=0) as full, no_space as caught:
        full.write(b"x")
    assert one_line(caught.value).startswith("no space left on the device; ")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (UmimillError("a.fq: cut; copy it again"), "umimill: a.fq: cut; copy it again\n"),
        (ConfigError(["a: 1", "b: 2"]), "umimill: a: 1\numimill: b: 2\n"),
        (
            IsADirectoryError(errno.EISDIR, "Is a directory", "a"),
            "umimill: a: is a folder, not a file; check the path\n",
        ),
    ],
)
def test_a_users_mistake_is_said_once(
    error: Exception, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "logs" / "deep" / "job.log"
    with pytest.raises(SystemExit) as caught, job_errors(str(log)):
        raise error
    assert caught.value.code == 1
    assert capsys.readouterr().err == said
    assert log.read_text(encoding="utf-8") == said


def test_a_bug_leaves_its_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "job.log"
    log.write_text("earlier\n")
    with pytest.raises(SystemExit) as caught, job_errors(str(log)):
        int("x")
    assert caught.value.code == 1
    said = capsys.readouterr().err
    assert said.startswith("Traceback (most recent call last):\n")
    assert said.endswith("ValueError: invalid literal for int() with base 10: 'x'\n")
    assert log.read_text() == "earlier\n" + said


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_exits_pass(
    error: BaseException, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "job.log"
    with pytest.raises(type(error)) as caught, job_errors(str(log)):
        raise error
    assert caught.value is error
    assert capsys.readouterr().err == ""
    assert not log.exists()


def test_a_good_block_says_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with job_errors(str(tmp_path / "job.log")):
        pass
    assert capsys.readouterr().err == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("log", [None, "/dev/full", "/dev/null/no/job.log"])
def test_a_log_that_fails_hides_nothing(
    log: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit), job_errors(log):
        raise UmimillError("a: b")
    assert capsys.readouterr().err == "umimill: a: b\n"


def test_a_script_exits_with_1_and_no_traceback(tmp_path: Path) -> None:
    script = textwrap.dedent(
        """
        from umimill.errors import UmimillError, job_errors
        with job_errors(None):
            raise UmimillError("a: b")
        """
    )
    package = Path(__file__).parents[2] / "workflow"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={"PYTHONPATH": str(package)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "umimill: a: b\n")
