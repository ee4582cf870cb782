"""Open files of the logs that are being written: a log renamed right after its last write is still read to its end."""

import os
import stat
from contextlib import suppress
from pathlib import Path

HELD = 4
"""Number of logs to keep open: the newest, and those that were written last."""

LogState = tuple[int, int, int]
"""Size, time of the last change in nanoseconds, and inode of a log."""


class _OpenLog:
    """A file that stays open for the lifetime of this object, and its state when it was opened."""

    def __init__(self, path: Path, state: LogState) -> None:
        self.path = path
        self.state = state
        self.descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)

    def __del__(self) -> None:
        if hasattr(self, "descriptor"):
            os.close(self.descriptor)

    def now(self) -> tuple[Path, os.stat_result] | None:
        """Return the file's current path and status; ``None`` if no path leads to it."""
        status = os.fstat(self.descriptor)
        with suppress(OSError):
            if os.path.samestat(self.path.stat(), status):
                return self.path, status
        with suppress(OSError):
            # The link is dangling for a deleted file, or one that another NFS client has renamed.
            path = Path(f"/proc/self/fd/{self.descriptor}").readlink()
            if os.path.samestat(path.stat(), status):
                return path, status
        return None


class OpenLogs:
    """The logs kept open, by inode."""

    def __init__(self) -> None:
        self._held: dict[tuple[int, int], _OpenLog] = {}

    def hold(self, path: Path, state: LogState) -> None:
        """Keep a log open if it is still the same regular file; close the first ones beyond :data:`HELD`.

        :param state: the state in which it was read.
        """
        try:
            if not path.is_file():
                return
            held = _OpenLog(path, state)
            status = os.fstat(held.descriptor)
        except OSError:
            return
        if status.st_ino != state[2] or not stat.S_ISREG(status.st_mode):
            return
        key = status.st_dev, status.st_ino
        self._held.pop(key, None)
        self._held[key] = held
        while len(self._held) > HELD:
            del self._held[next(iter(self._held))]

    def now(self) -> dict[Path, tuple[LogState, os.stat_result]]:
        """Return the logs by their paths now, with the state in which they were read and their status now."""
        logs = [(held.state, held.now()) for held in self._held.values()]
        return {now[0]: (state, now[1]) for state, now in logs if now is not None}
