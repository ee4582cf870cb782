"""Base class of the daemon's threads: start and stop."""

from abc import ABC, abstractmethod
from threading import Event, Thread


class BackgroundThread(ABC):
    """Runs :meth:`_run` in a thread; the process does not wait for it at its end."""

    def __init__(self, name: str) -> None:
        self._stopping = Event()
        self._changed = Event()
        """Set when the thread stops or its options change, to end a wait; the thread clears it."""
        self._thread = Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float) -> bool:
        """Ask the thread to stop after its current step; return whether it stopped within ``timeout`` seconds."""
        self._stopping.set()
        self._wake()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    @abstractmethod
    def _run(self) -> None: ...

    def _wake(self) -> None:
        """Let the thread notice a change."""
        self._changed.set()
