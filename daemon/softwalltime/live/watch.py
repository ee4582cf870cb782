"""The jobs of a server as of the last look; a look reads details of those jobs only that were modified since."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Generic, NamedTuple, Protocol, TypeVar

from softwalltime.accounting.attributes import converted
from softwalltime.accounting.values import epoch
from softwalltime.live.ifl import Attributes

T = TypeVar("T")

WAITS = "Q"
"""State of a job that waits."""
SETTLING = 2
"""Seconds after a modification in which a job's details are read again at the next look."""
STATES_AT_ONCE, DETAILS_AT_ONCE = 300, 100
"""Jobs whose state or details are read in one request: it takes the server about 1 ms, and then others have a turn."""
UNKNOWN_ARRAY = 10
"""Jobs that an array counts for that was not read before."""


class JobSource(Protocol):
    """Reads attributes of jobs, as :class:`softwalltime.live.connection.PbsConnection` does."""

    def ids(self) -> list[str]:
        """Return the ids of all jobs that have not ended, in the server's order; of an array that of the whole."""

    def jobs(self, names: Sequence[str], ids: Sequence[str] = (), *, subjobs: bool = False) -> dict[str, Attributes]:
        """Return attributes of jobs by job id."""


class Extra(NamedTuple):
    """Attributes that are read of some jobs only: of those for which ``needed`` is true, by what was read of them."""

    names: tuple[str, ...]
    needed: Callable[[Attributes], bool]


class JobWatcher(Generic[T]):
    """What is made of each job of a server.

    The server answers one client at a time, and each attribute of a job costs it about half a microsecond.  So a look
    asks for few attributes, in requests of about 1 ms: first for the ids, then for the state of the jobs that were
    there at the last look, for everything of the others, and for the details of those that were modified.

    :param state: attributes that are read of all jobs at each look; ``mtime`` is among them.
    :param details: attributes that change only together with ``mtime``.
    :param wanted: whether a job is, by its id and state attributes.
    :param make: makes a job of its id and all attributes.
    :param update: returns the job with other state attributes.
    :param subjobs: whether subjobs of arrays are read too.
    :param extras: further details, each of some jobs only.
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
        extras: Sequence[Extra] = (),
    ) -> None:
        self._source = source
        self._state = tuple(state)
        self._details = tuple(details)
        self._wanted = wanted
        self._make = make
        self._update = update
        self._subjobs = subjobs
        self._extras = tuple(extras)
        self._known: dict[str, tuple[int, T]] = {}
        self._listed: frozenset[str] = frozenset()
        self._sizes: dict[str, int] = {}
        self._read_at = 0

    def look(self, now: int) -> list[T]:
        """Return the wanted jobs in the server's order.

        :param now: epoch seconds.
        :raises IflError: if PBS cannot be read.
        """
        listed = self._source.ids()
        # PBS's times are whole seconds: a job may have been modified again in the second in which it was read.
        settled = self._read_at - SETTLING
        old, known_ids = self._known, self._listed
        states: dict[str, Attributes] = {}
        details: dict[str, Attributes] = {}
        for known, ids in groupby(listed, key=known_ids.__contains__):
            if known:
                states |= self._read(self._state, ids, STATES_AT_ONCE)
                continue
            # One request instead of two, as all is to be read.
            read = self._with_extras(self._read((*self._state, *self._details), ids, DETAILS_AT_ONCE))
            states |= read
            details |= read
        sizes = _array_sizes(states)
        states = {job_id: state for job_id, state in states.items() if self._wanted(job_id, state)}
        stale = [
            job_id
            for job_id, state in states.items()
            if job_id not in details
            and (job_id not in old or old[job_id][0] != modified(state) or modified(state) >= settled)
        ]
        again = self._with_extras(self._read(("job_state", *self._details), stale, DETAILS_AT_ONCE))
        details |= again
        ended = set(stale) - again.keys()
        known_jobs: dict[str, tuple[int, T]] = {}
        for job_id, state in states.items():
            if job_id in ended:
                continue
            if job_id in details:
                job = self._make(job_id, details[job_id] | state)
            else:
                job = self._update(old[job_id][1], state)
            known_jobs[job_id] = modified(state), job
        # Only a whole look counts: after a failure the next one reads what this one has not taken in.
        self._known, self._listed, self._read_at = known_jobs, frozenset(listed), now
        self._sizes = sizes
        return [job for _, job in known_jobs.values()]

    def _read(self, names: Sequence[str], ids: Iterable[str], at_once: int) -> dict[str, Attributes]:
        jobs: dict[str, Attributes] = {}
        for part in _parts(ids, at_once, self._weight):
            jobs |= self._source.jobs(names, part, subjobs=self._subjobs)
        return jobs

    def _weight(self, job_id: str) -> int:
        return self._sizes.get(job_id, UNKNOWN_ARRAY) if self._subjobs and "[]" in job_id else 1

    def _with_extras(self, jobs: dict[str, Attributes]) -> dict[str, Attributes]:
        for names, needed in self._extras:
            wanting = [job_id for job_id, attributes in jobs.items() if needed(attributes)]
            for job_id, more in self._read(names, wanting, DETAILS_AT_ONCE).items():
                if job_id in jobs:
                    jobs[job_id] |= more
        return jobs


def _parts(ids: Iterable[str], at_once: int, weight: Callable[[str], int]) -> Iterator[list[str]]:
    """Yield parts that count for so many jobs at most, or are one array that counts for more."""
    part: list[str] = []
    total = 0
    for job_id in ids:
        total += weight(job_id)
        if part and total > at_once:
            yield part
            part, total = [], weight(job_id)
        part.append(job_id)
    if part:
        yield part


def _array_sizes(states: Mapping[str, Attributes]) -> dict[str, int]:
    """Return for each array how many jobs the server returns: it and its subjobs that wait no more.

    Those that wait are added by PBS's library.  Those that have ended remain as long as the array.

    >>> queued, ended = {"job_state": "Q"}, {"job_state": "X"}
    >>> _array_sizes({"5[].srv": queued, "5[1].srv": ended, "5[2].srv": queued, "6.srv": queued})
    {'5[].srv': 2}
    """
    sizes: Counter[str] = Counter()
    for job_id, state in states.items():
        number, bracket, rest = job_id.partition("[")
        index, _, server = rest.partition("]")
        if bracket and not (index and state.get("job_state") == WAITS):
            sizes[f"{number}[]{server}"] += 1
    return dict(sizes)


def modified(attributes: Mapping[str, str]) -> int:
    """Return PBS's ``mtime``, epoch seconds; 0 if it cannot be read."""
    return converted(attributes.get("mtime"), epoch) or 0
