"""Base class of the daemon's threads: start and stop."""

from abc import ABC, abstractmethod
from threading import Thread


class BackgroundThread(ABC):
    """Runs :meth:`_run` in a thread; the process does not wait for it at its end."""

    def __init__(self, name: str) -> None:
        self._thread = Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float) -> bool:
        """Ask the thread to stop after its current step; return whether it stopped within ``timeout`` seconds."""
        self._tell(timeout)
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    @abstractmethod
    def _run(self) -> None: ...

    @abstractmethod
    def _tell(self, timeout: float) -> None:
        """Signal the thread to stop; it has ``timeout`` seconds."""
