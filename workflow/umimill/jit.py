"""The one njit wrapper, its cache folder, and the three primitives that numba lacks.

numba keys its cache by the source file of the decorated function alone: an edit to a callee in
another module is not seen and the old machine code is returned. So the cache folder is named by a
digest of all kernel sources.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, TypeVar

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, event, types
from numba.core.caching import FunctionCache
from numba.extending import intrinsic

_LOG = logging.getLogger(__name__)
_Function = TypeVar("_Function", bound=Callable[..., Any])


def kernel_digest() -> str:
    """Return a digest of every source that can change compiled code."""
    sources = [Path(__file__), *sorted((Path(__file__).parent / "kernels").glob("*.py"))]
    digest = hashlib.sha256(f"{numba.__version__} {np.__version__}".encode())
    for source in sources:
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _prepare_cache() -> bool:
    """Point numba at a private, digest-named cache folder; say so and go on where none can be had.

    numba's cache holds pickles, so the folder is one that only this user can write to.
    """
    base = os.environ.get("NUMBA_CACHE_DIR")
    root = Path(base) if base else Path.cwd() / ".snakemake" / "umimill"
    folder = root / kernel_digest()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
        private = status.st_uid == os.getuid() and not status.st_mode & 0o022
        writable = os.access(folder, os.W_OK) and private
    except OSError:
        writable = False
    if writable:
        numba.config.CACHE_DIR = str(folder)
    else:
        _LOG.info("kernels are compiled anew in every job: %s cannot be written to", folder)
    return writable


_CACHE = _prepare_cache()
# Seconds to wait for another job that compiles the same kernel; the largest takes a few.
LONGEST_WAIT = 120.0


# `_nrt=False`: kernels allocate nothing, so arrays need no reference counts. Counting them took a
# third of checkout's time. numba refuses to compile a kernel that allocates.
_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "_nrt": False,
}


# Functions that only kernels call are in the machine code of those, so they are not cached.
_INNER: dict[str, Any] = {
    **_OPTIONS,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}


class _LockedCache(FunctionCache):  # type: ignore[misc]
    """The cache of a kernel; jobs that start together leave its compilation to the first of them.

    What numba finds nowhere it compiles and saves. In between the job holds a file lock; another
    that wants the kernel waits for it and looks again. Where there are no locks, or one is held for
    long, it compiles like the first.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._lock = (
            Path(numba.config.CACHE_DIR) / f"{function.__module__}.{function.__name__}.lock"
        )
        self._held: IO[bytes] | None = None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        found = super().load_overload(sig, target_context)
        if found is None and self._held is None:
            self._held = wait_for_lock(self._lock)
            found = super().load_overload(sig, target_context)
            if found is not None:
                self._release()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        super().save_overload(sig, data)
        self._release()

    def _release(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None


def wait_for_lock(path: Path, seconds: float = LONGEST_WAIT) -> IO[bytes] | None:
    """Return a file that is locked until it is closed, or None where that cannot be had."""
    end = time.monotonic() + seconds
    try:
        with ExitStack() as stack:
            file = stack.enter_context(path.open("ab"))
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    if time.monotonic() > end:
                        return None
                    time.sleep(0.05)
                else:
                    stack.pop_all()
                    return file
    except OSError:
        return None


def kernel(function: _Function) -> _Function:
    """Compile a kernel: no GIL, no Python objects, cached; never parallel (buckets are)."""
    compiled: Any = numba.njit(no_cfunc_wrapper=True, **_OPTIONS)(function)
    if _CACHE and not numba.config.DISABLE_JIT:
        compiled._cache = _LockedCache(function)
    result: _Function = compiled
    return result


def inner_kernel(function: _Function) -> _Function:
    """Compile a function that only kernels call: without the wrapper that Python would need.

    Unboxing tuples of arrays is most of the code of a small function: without wrappers the kernels
    of checkout compile in a third of the time.
    """
    compiled: _Function = numba.njit(**_INNER)(function)
    return compiled


def inline_kernel(function: _Function) -> _Function:
    """The same for a small function on the hot path that is called at many places.

    It is always inlined: a tuple of arrays is passed as some fifty words, and calls with them took
    half of checkout's time.
    """
    compiled: _Function = numba.njit(forceinline=True, **_INNER)(function)
    return compiled


def merged_kernel(function: _Function) -> _Function:
    """The same for a function that a kernel calls at one or two places, however large.

    It becomes part of its caller before anything is compiled. An inlined one is compiled, optimised
    and turned into machine code by itself first, and so is each function around it: a read's
    matcher, four calls deep, was compiled four times.
    """
    compiled: _Function = numba.njit(inline="always", **_INNER)(function)
    return compiled


class CompileClock(event.Listener):
    """Adds up the seconds that kernels are compiled in this process; loading them is not counted.

    Attributes:
        seconds: wall seconds so far.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = 0
        self._start = 0.0
        event.register("numba:compile", self)

    def on_start(self, event: Any) -> None:
        """Note the start of the outermost compilation."""
        if self._depth == 0:
            self._start = time.perf_counter()
        self._depth += 1

    def on_end(self, event: Any) -> None:
        """Add the time of the outermost compilation."""
        self._depth -= 1
        if self._depth == 0:
            self.seconds += time.perf_counter() - self._start


if numba.config.DISABLE_JIT:  # plain Python twins, for the suite that runs with the compiler off

    def load_word(buffer: Any, start: int) -> Any:
        """Return the 8 bytes at `start` as a little-endian u64."""
        return np.uint64(int.from_bytes(buffer[start : start + 8].tobytes(), "little"))

    def store_word(buffer: Any, start: int, word: Any) -> None:
        """Write a u64 as 8 little-endian bytes at `start`."""
        buffer[start : start + 8] = np.frombuffer(int(word).to_bytes(8, "little"), np.uint8)

    def find_byte(buffer: Any, start: int, stop: int, byte: int) -> int:
        """Return the first position of `byte` in buffer[start:stop], or -1."""
        return (
            buffer[start:stop].tobytes().find(bytes([byte]), 0) + start * 1
            if (bytes([byte]) in buffer[start:stop].tobytes())
            else -1
        )

    def count_bits(word: Any) -> int:
        """Return the number of set bits of a u64."""
        return int(word).bit_count()

    def prefetch(array: Any, index: int) -> None:
        """Ask for an element before it is needed; here it does nothing."""

else:

    def _element(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
        data = context.make_array(array_type)(context, builder, array).data
        return builder.gep(data, [index])

    @intrinsic
    def load_word(typingctx, buffer, start):  # type: ignore[no-untyped-def]
        """Return the 8 bytes at `start` as a little-endian u64, at any alignment, unchecked."""

        def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
            pointer = _element(context, builder, signature.args[0], args[0], args[1])
            word = builder.bitcast(pointer, ir.IntType(64).as_pointer())
            return builder.load(word, align=1)

        return types.uint64(buffer, types.intp), generate

    @intrinsic
    def store_word(typingctx, buffer, start, word):  # type: ignore[no-untyped-def]
        """Write a u64 as 8 little-endian bytes at `start`, at any alignment, unchecked."""

        def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
            pointer = _element(context, builder, signature.args[0], args[0], args[1])
            builder.store(args[2], builder.bitcast(pointer, ir.IntType(64).as_pointer()), align=1)
            return context.get_dummy_value()

        return types.void(buffer, types.intp, types.uint64), generate

    @intrinsic
    def find_byte(typingctx, buffer, start, stop, byte):  # type: ignore[no-untyped-def]
        """Return the first position of `byte` in buffer[start:stop], or -1, by libc's memchr."""

        def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
            pointer_type = ir.IntType(8).as_pointer()
            function_type = ir.FunctionType(
                pointer_type, [pointer_type, ir.IntType(32), ir.IntType(64)]
            )
            memchr = cgutils.get_or_insert_function(builder.module, function_type, "memchr")
            first = _element(context, builder, signature.args[0], args[0], args[1])
            base = _element(context, builder, signature.args[0], args[0], ir.IntType(64)(0))
            length = builder.sub(args[2], args[1])
            byte_value = builder.trunc(args[3], ir.IntType(32))
            found = builder.call(memchr, [first, byte_value, length])
            missing = builder.icmp_unsigned("==", found, pointer_type(None))
            position = builder.sub(
                builder.ptrtoint(found, ir.IntType(64)), builder.ptrtoint(base, ir.IntType(64))
            )
            return builder.select(missing, ir.IntType(64)(-1), position)

        return types.intp(buffer, types.intp, types.intp, types.intp), generate

    @intrinsic
    def count_bits(typingctx, word):  # type: ignore[no-untyped-def]
        """Return the number of set bits of a u64 (popcount)."""

        def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
            return builder.ctpop(args[0])

        return types.int64(types.uint64), generate

    @intrinsic
    def prefetch(typingctx, array, index):  # type: ignore[no-untyped-def]
        """Ask for the cache line of an element before it is needed."""

        def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
            pointer = builder.bitcast(
                _element(context, builder, signature.args[0], args[0], args[1]),
                ir.IntType(8).as_pointer(),
            )
            integer = ir.IntType(32)
            function_type = ir.FunctionType(
                ir.VoidType(), [ir.IntType(8).as_pointer(), integer, integer, integer]
            )
            function = cgutils.get_or_insert_function(
                builder.module, function_type, "llvm.prefetch.p0"
            )
            builder.call(function, [pointer, integer(0), integer(2), integer(1)])
            return context.get_dummy_value()

        return types.void(array, types.intp), generate
