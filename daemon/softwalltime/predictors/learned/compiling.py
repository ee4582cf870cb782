"""Compile a function by numba, and keep what it made for the next process.

numba takes what it kept for valid as long as the file that defines the function is the same.  Numbers from other
modules are compiled in too, such as how many values a row has.  Therefore what is kept is named by a digest of all
modules of this package.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32


@cache
def sources_digest() -> str:
    digest = 0
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest = crc32(path.read_bytes(), digest)
    return f"{digest:08x}"


def compile_function(function: Callable[..., Any], signature: str) -> Callable[..., Any]:
    """Compile a function for one signature, or load what was compiled before; some seconds."""
    from numba import njit  # type: ignore[import-not-found,import-untyped,unused-ignore]  # an extra without types

    compiler: Any = njit
    # The name under which numba keeps it.
    function.__qualname__ = f"{function.__name__}_{sources_digest()}"
    try:
        made: Callable[..., Any] = compiler(signature, cache=True)(function)
    # No folder in which to keep it can be written to.
    except RuntimeError:
        made = compiler(signature)(function)
    return made
