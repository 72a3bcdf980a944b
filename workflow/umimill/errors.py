"""Errors a user can act on: one line each, and how a job reports them.

Imported by every job, so the standard library only. What went wrong is known where the error
is raised; this module knows only how it is said.
"""

import contextlib
import errno
import os
import sys
import traceback
from collections.abc import Iterable, Iterator

_REMEDIES = {
    errno.ENOSPC: "no space left on the device; free some, or run in a folder on another one",
    errno.EDQUOT: "the disk quota is used up; free some, or run in a folder without that quota",
    errno.EACCES: "permission denied; check who owns it and its mode",
    errno.EPERM: "permission denied; check who owns it and its mode",
    errno.EROFS: "the file system is read-only; run in a folder that can be written",
    errno.ENOENT: "no such file or folder; check the path, and that nothing removed it",
    errno.EISDIR: "is a folder, not a file; check the path",
    errno.ENOTDIR: "a part of the path is a file, not a folder; check the path",
    errno.ENAMETOOLONG: "the name is too long for the file system; use a shorter one",
    errno.EMFILE: "too many open files; raise the limit with ulimit -n",
    errno.EIO: "the device failed to read or write; check the disk",
    errno.ESTALE: "the file changed on the file server while it was open; run again",
}


class UmimillError(Exception):
    """A mistake or fault that the user can mend; `str()` says where it is and what to do."""


class ConfigError(UmimillError):
    """Everything that is wrong with the config and its sheets.

    Attributes:
        problems: one line each, in the order config, units, samples, each by row.
    """

    def __init__(self, problems: Iterable[str]) -> None:
        """Keep the lines; `str()` joins them by newlines."""
        self.problems = tuple(" ".join(problem.split()) for problem in problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        """Join the lines."""
        return "\n".join(self.problems)


class FastqError(UmimillError):
    """A record that cannot be read.

    Attributes:
        path: the file, as the user named it.
        record: number of the record in the file, 1 = first.
        line: number of the line in the file, 1 = first.
        message: what is wrong with it.
    """

    def __init__(self, path: str, record: int, line: int, message: str) -> None:
        """Keep the parts; `str()` makes the line."""
        self.path = path
        self.record = record
        self.line = line
        self.message = message
        # All four go to the base class: a pickled exception is rebuilt from them.
        super().__init__(path, record, line, message)

    def __str__(self) -> str:
        """Say where and what, with thousands separators."""
        return f"{self.path}, record {self.record:,} (line {self.line:,}): {self.message}"


def one_line(error: BaseException) -> str:
    """Say an error in one line, with the name of the file an OSError is about.

    Args:
        error: any exception; OSErrors get a remedy where one is known.

    Returns:
        A text without line breaks, never empty.
    """
    if isinstance(error, OSError) and error.errno is not None:
        what = _REMEDIES.get(error.errno) or error.strerror or type(error).__name__
        # A failed open of a descriptor leaves its number here: no name a user could use.
        files = [
            os.fsdecode(name)
            for name in (error.filename, error.filename2)
            if isinstance(name, (str, bytes, os.PathLike))
        ]
        text = f"{' -> '.join(files)}: {what}" if files else what
    else:
        text = str(error)
    return " ".join(text.split()) or type(error).__name__


@contextlib.contextmanager
def job_errors(log_path: str | None) -> Iterator[None]:
    """Run the block of a job; say a user's mistake in one line, our own with a traceback.

    A `UmimillError` or `OSError` gives `umimill: <line>` on stderr and in the log. Any other
    exception is a bug and gives its whole traceback in both. `SystemExit` and
    `KeyboardInterrupt` pass untouched.

    Args:
        log_path: file the lines are appended to; it and its folder are made; None = no log.

    Raises:
        SystemExit: with code 1 where the block raised an exception.
    """
    try:
        yield
    except Exception as error:
        tell(error_text(error), log_path)
        raise SystemExit(1) from error


def error_text(error: Exception) -> str:
    """Say a user's mistake in lines of its own, and a fault of ours with its traceback."""
    if isinstance(error, ConfigError):
        return "".join(f"umimill: {problem}\n" for problem in error.problems)
    if isinstance(error, (UmimillError, OSError)):
        return f"umimill: {one_line(error)}\n"
    return "".join(traceback.format_exception(error))


def tell(text: str, log_path: str | None) -> None:
    """Say whole lines on stderr and in the log of the job.

    Args:
        text: lines, each with its line end; one write, so that those of jobs that run side by side
            do not mix.
        log_path: file the text is appended to; it and its folder are made; None = no log.
    """
    # A full disk may be the very error told: failing to log it must not hide it.
    with contextlib.suppress(OSError):
        sys.stderr.write(text)
        sys.stderr.flush()
    if log_path is not None:
        note(text, log_path)


def note(text: str, log_path: str) -> None:
    """Say whole lines in the log of the job alone; see `tell`."""
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(log_path) or ".", exist_ok=True)
        with open(log_path, "a", encoding="utf-8", errors="backslashreplace") as log:
            log.write(text)
