"""Calls that several threads make at the same moment, as two commands of a user would."""

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

Result = TypeVar("Result")


def at_once(call: Callable[[int], Result], threads: int = 4) -> list[Result]:
    """Return the results of ``call(0)`` to ``call(threads - 1)``; threads change as often as they can.

    :raises Exception: what the first call that failed raised.
    """
    barrier = Barrier(threads)

    def begin(number: int) -> Result:
        barrier.wait()
        return call(number)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(begin, range(threads)))
    finally:
        sys.setswitchinterval(before)
