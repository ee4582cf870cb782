"""Compile functions with numba at their first call, and cache the machine code for other processes.

numba invalidates its cache only if the file with the function changes.  Constants of other modules, such as the length
of a row, are compiled in too.  Therefore the cache key includes a digest of all modules of the function's package.
"""

from collections.abc import Callable
from functools import cache, cached_property
from importlib.util import find_spec
from mmap import PAGESIZE, PROT_EXEC, PROT_READ, PROT_WRITE, mmap
from pathlib import Path
from typing import Any, Generic, TypeVar
from zlib import crc32

# Importing it takes half a second and much memory, which only a command that predicts should spend.
if find_spec("numba") is None:
    raise ModuleNotFoundError("No module named 'numba'", name="numba")

R = TypeVar("R")


@cache
def sources_digest(folder: Path) -> str:
    return f"{crc32(b''.join(path.read_bytes() for path in sorted(folder.glob('*.py')))):08x}"


class Kernel(Generic[R]):
    """A function of plain loops over arrays; ``function`` is what numba compiles."""

    every: "list[Kernel[Any]]" = []  # noqa: RUF012 - of the class

    def __init__(self, function: Callable[..., R], signature: str) -> None:
        self.function = function
        self._signature = signature
        self.every.append(self)

    def __call__(self, *args: Any) -> R:
        return self.compiled(*args)

    @cached_property
    def compiled(self) -> Callable[..., R]:
        """Compile the function, or load what was compiled before; some seconds."""
        from numba import njit

        digest = sources_digest(Path(self.function.__code__.co_filename).parent)
        self.function.__qualname__ = f"{self.function.__name__}_{digest}"
        try:
            return njit(self._signature, cache=True)(self.function)
        # No cache folder is writable.
        except RuntimeError:
            return njit(self._signature)(self.function)


def kernel(signature: str) -> Callable[[Callable[..., R]], Kernel[R]]:
    return lambda function: Kernel(function, signature)


@cache
def why_not_executable() -> str:
    """Why this process may not execute compiled code, and which setting to change; empty if it may."""
    try:
        mmap(-1, PAGESIZE, prot=PROT_READ | PROT_WRITE | PROT_EXEC).close()
    except OSError as error:
        return (
            f"no memory for compiled code: {error.strerror}. In the daemon's systemd unit set "
            "MemoryDenyWriteExecute=no, as CALIBRATED.md shows"
        )
    return ""


def compile_kernels(package: str) -> None:
    """Compile the kernels in the modules of a package that have been imported."""
    for kernel in Kernel.every:
        if kernel.function.__module__.startswith(f"{package}."):
            _ = kernel.compiled
