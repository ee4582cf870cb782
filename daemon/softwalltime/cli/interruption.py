"""SIGINT, SIGTERM and SIGHUP: clean up, then exit with status 1, or 0 where a signal is the normal end."""

import os
import signal
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event
from types import FrameType

from softwalltime.core.errors import SoftwalltimeError

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_received: list[int] = []


def handle_signals() -> None:
    """Raise ``KeyboardInterrupt`` on each of the signals, so that every ``with`` block cleans up.

    A signal that is ignored stays ignored: ``nohup`` ignores SIGHUP, a shell ignores SIGINT in background jobs.
    """
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def interrupted() -> bool:
    """Return whether a signal was received; a library may have suppressed its ``KeyboardInterrupt``."""
    return bool(_received)


class Interruption(Event):
    """An event that is set once one of the signals came, also if a library swallowed its ``KeyboardInterrupt``."""

    def is_set(self) -> bool:
        return interrupted() or super().is_set()


@contextmanager
def ending_normally() -> Iterator[None]:
    """Run a service: it ends with status 0 if one of the signals came, also while it starts.

    To systemd, another status of a unit that it stops is a failure.
    """
    try:
        yield
    except KeyboardInterrupt:
        pass
    except SoftwalltimeError:
        # The signal may have caused the error.
        if not interrupted():
            raise


def _interrupt(number: int, _frame: FrameType | None) -> None:
    _received.append(number)
    if number == signal.SIGHUP:
        _leave_terminal()
    if number != signal.SIGINT:
        # A closed terminal sends SIGHUP more than once, and the cleanup must not be interrupted.
        for each in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


def _leave_terminal() -> None:
    """Redirect output from a terminal to /dev/null: writing to a closed terminal fails."""
    for descriptor in (1, 2):
        with suppress(OSError):
            if stat.S_ISCHR(os.fstat(descriptor).st_mode):
                os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
