"""The jobs of a server as of the last look; a look reads details of those jobs only that were modified since."""

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from softwalltime.accounting.attributes import converted
from softwalltime.accounting.values import epoch
from softwalltime.live.ifl import Attributes

T = TypeVar("T")

SETTLING = 2
"""Seconds after a modification in which a job's details are read again at the next look."""
DETAILS_AT_ONCE = 500
"""Jobs whose details are read in one request."""


class JobSource(Protocol):
    """Reads attributes of jobs, as :class:`softwalltime.live.connection.PbsConnection` does."""

    def jobs(self, names: Sequence[str], ids: Sequence[str] = (), *, subjobs: bool = False) -> dict[str, Attributes]:
        """Return attributes of jobs by job id."""


class JobWatcher(Generic[T]):
    """What is made of each job of a server.

    With 10,000 waiting jobs a look costs the server some 10 ms; reading all details each time would cost 250 ms.

    :param state: attributes that are read of all jobs at each look; ``mtime`` is among them.
    :param details: attributes that change only together with ``mtime``.
    :param wanted: whether a job is, by its id and state attributes.
    :param make: makes a job of its id and all attributes.
    :param update: returns the job with other state attributes.
    :param subjobs: whether subjobs of arrays are read too.
    """

    def __init__(
        self,
        source: JobSource,
        state: Sequence[str],
        details: Sequence[str],
        wanted: Callable[[str, Attributes], bool],
        make: Callable[[str, Attributes], T],
        update: Callable[[T, Attributes], T],
        *,
        subjobs: bool = False,
    ) -> None:
        self._source = source
        self._state = state
        self._details = details
        self._wanted = wanted
        self._make = make
        self._update = update
        self._subjobs = subjobs
        self._known: dict[str, tuple[int, T]] = {}
        self._read_at = 0

    def look(self, now: int) -> list[T]:
        """Return the wanted jobs in the server's order.

        :param now: epoch seconds.
        :raises IflError: if PBS cannot be read.
        """
        states = {
            job_id: state
            for job_id, state in self._source.jobs(self._state, subjobs=self._subjobs).items()
            if self._wanted(job_id, state)
        }
        old = self._known
        # PBS's times are whole seconds: a job may have been modified again in the second in which it was read.
        settled = self._read_at - SETTLING
        stale = [
            job_id
            for job_id, state in states.items()
            if job_id not in old or old[job_id][0] != modified(state) or modified(state) >= settled
        ]
        self._read_at = now
        details: dict[str, Attributes] = {}
        for begin in range(0, len(stale), DETAILS_AT_ONCE):
            ids = stale[begin : begin + DETAILS_AT_ONCE]
            details |= self._source.jobs(self._details, ids, subjobs=self._subjobs)
        self._known = {}
        ended = set(stale) - details.keys()
        for job_id, state in states.items():
            if job_id in ended:
                continue
            if job_id in details:
                job = self._make(job_id, details[job_id] | state)
            else:
                job = self._update(old[job_id][1], state)
            self._known[job_id] = modified(state), job
        return [job for _, job in self._known.values()]


def modified(attributes: Mapping[str, str]) -> int:
    """Return PBS's ``mtime``, epoch seconds; 0 if it cannot be read."""
    return converted(attributes.get("mtime"), epoch) or 0
