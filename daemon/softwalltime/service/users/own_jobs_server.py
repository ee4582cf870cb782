"""The server of own jobs: who connects gets the answer for his account, and the connection is closed.

The connection is the whole question: the server never reads from a client, so nothing that a client sends can select
other users' jobs, or break anything.  Who connects is known by the kernel (``SO_PEERCRED``), at the moment of the
connection.  One thread serves all clients and never blocks on one of them.
"""

import json
import pwd
import select
import socket
import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic

from softwalltime.core.shorter_walltimes import shorter_walltime
from softwalltime.service.users.own_jobs import VERSION
from softwalltime.store.own_jobs_rows import LiveRows, OwnRows, PastRuntimes

RATE, BURST = 20.0, 60.0
"""Answers to one user: a second in the long run, and at once."""
STRANGERS = -1
"""The users without known jobs: they share an allowance, as one user may have thousands of uids (/etc/subuid)."""
STRANGERS_RATE, STRANGERS_BURST = 200.0, 400.0
MOST_OPEN, MOST_OPEN_OF_ONE = 256, 4
"""Connections that have not taken their whole answer yet, in all and of one user; one more is closed."""
PATIENCE = 5.0
"""Seconds in which a client must take its answer."""
ROUND = 64
"""Connections accepted before those that wait are served."""
_CREDENTIALS = struct.Struct("3i")

_NONE = OwnRows("", 0, "[]")
DAYS = 28
"""Days of which ended jobs are counted, and the walltimes that they requested judged."""
MOST_LIVE = 5_000
"""Waiting jobs, and running jobs, in one answer."""
MOST_ENDED = 20
"""Ended jobs in one answer."""


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers as of one moment: all begin with ``head``; ``tails`` has the rest by uid, ``empty`` for others."""

    head: bytes
    tails: Mapping[int, bytes]
    empty: bytes

    def of(self, uid: int) -> tuple[bytes, bytes]:
        return self.head, self.tails.get(uid, self.empty)


@dataclass(slots=True)
class AnswerRows:
    """What was read from the store last, from which the answers are made.

    ``accounts`` returns the uid of a user name, ``None`` if this host has no such account.
    """

    accounts: Callable[[str], int | None]
    live: LiveRows = field(default_factory=lambda: LiveRows((), (), ()))
    ended: tuple[OwnRows, ...] = ()
    requests: Mapping[str, str] = field(default_factory=dict)
    read_at: int = 0
    problem: str = "the jobs are not read yet: ask again in some seconds"
    unknown: frozenset[str] = frozenset()
    """Users with jobs who have no account on this host."""

    def head(self) -> bytes:
        forecasts = [{"server": server, "forecast_at": made} for server, made in self.live.forecasts]
        values = {"v": VERSION, "read_at": self.read_at, "problem": self.problem, "days": DAYS, "forecasts": forecasts}
        return json.dumps(values)[:-1].encode()

    def answers(self) -> Answers:
        """Return the answers to all users, and note who has no account."""
        by_user: dict[str, dict[str, OwnRows]] = defaultdict(dict)
        kinds = {"waiting": self.live.waiting, "running": self.live.running, "ended": self.ended}
        for kind, users in kinds.items():
            for rows in users:
                by_user[rows.user][kind] = rows
        tails: dict[int, bytes] = {}
        unknown = set()
        for user, jobs in by_user.items():
            uid = self.accounts(user)
            if uid is None:
                unknown.add(user)
            # Two names of one account: those of its first name, which is that of its processes.
            elif uid not in tails or _is_first_name(user, uid):
                tails[uid] = _tail(user, jobs, self.requests.get(user, "[]"))
        self.unknown = frozenset(unknown)
        return Answers(self.head(), tails, _tail("", {}, "[]"))


@dataclass(slots=True, eq=False)
class _Client:
    connection: socket.SocketType
    who: int
    left: list[memoryview]
    deadline: float


class Allowance:
    """A bucket of requests for each key, which fills with time.

    :param rate: requests a second in the long run.
    :param burst: requests at once.
    """

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = burst
        self._buckets: dict[Hashable, tuple[float, float]] = {}

    def take(self, key: Hashable, now: float) -> bool:
        """Return whether the key may ask now, and count the request if so.

        :param now: seconds of a clock that never goes back.
        """
        left, since = self._buckets.get(key, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._rate)
        allowed = left >= 1
        self._buckets[key] = (left - 1 if allowed else left, now)
        return allowed

    def forget(self, now: float) -> None:
        full = self._burst / self._rate
        self._buckets = {key: (left, since) for key, (left, since) in self._buckets.items() if now - since < full}


class OwnJobsServer:
    """Serves a listening socket.

    :param answers: returns the answers of this moment.
    """

    def __init__(
        self, listener: socket.socket, answers: Callable[[], Answers], users: Allowance | None = None,
        strangers: Allowance | None = None,
    ) -> None:  # fmt: skip
        self.answered = self.refused = 0
        self._listener = listener
        self._answers = answers
        self._users = users or Allowance(RATE, BURST)
        self._strangers = strangers or Allowance(STRANGERS_RATE, STRANGERS_BURST)
        self._open: dict[int, _Client] = {}
        self._open_of: Counter[int] = Counter()
        self._epoll = select.epoll()
        listener.setblocking(False)
        self._epoll.register(listener.fileno(), select.EPOLLIN)

    def run(self, until: Callable[[], bool] = lambda: False) -> None:
        """Serve until the condition is true; it is asked once a second at least."""
        tidied = monotonic()
        while not until():
            for descriptor, _ in self._epoll.poll(1.0):
                if descriptor == self._listener.fileno():
                    self._accept()
                elif descriptor in self._open:
                    self._send(self._open[descriptor])
            if (now := monotonic()) - tidied >= 1.0:
                tidied = now
                self._tidy(now)

    def _accept(self) -> None:
        for _ in range(ROUND):
            try:
                connection, _address = self._listener.accept()
            except OSError:
                # None waits, or no descriptor is free: the next round tries again.
                return
            connection.setblocking(False)
            self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        _pid, uid, _gid = _CREDENTIALS.unpack(
            connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        )
        answers, now = self._answers(), monotonic()
        known = uid in answers.tails
        who = uid if known else STRANGERS
        allowed = len(self._open) < MOST_OPEN and self._open_of[who] < MOST_OPEN_OF_ONE
        allowed = allowed and (self._users if known else self._strangers).take(who, now)
        self.answered += allowed
        self.refused += not allowed
        parts = answers.of(uid) if allowed else (BUSY,)
        self._send(_Client(connection, who, [memoryview(part) for part in parts], now + PATIENCE))

    def _send(self, client: _Client) -> None:
        """Send what can be sent now; close the connection when all is sent, or the client is gone."""
        try:
            sent = client.connection.sendmsg(client.left, [], socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._close(client)
            return
        while client.left and sent >= len(client.left[0]):
            sent -= len(client.left.pop(0))
        if not client.left:
            self._close(client)
            return
        client.left[0] = client.left[0][sent:]
        descriptor = client.connection.fileno()
        if descriptor not in self._open:
            self._open[descriptor] = client
            self._open_of[client.who] += 1
            self._epoll.register(descriptor, select.EPOLLOUT)

    def _close(self, client: _Client) -> None:
        if self._open.pop(client.connection.fileno(), None) is not None:
            self._open_of[client.who] -= 1
            with suppress(OSError):
                self._epoll.unregister(client.connection.fileno())
        client.connection.close()

    def _tidy(self, now: float) -> None:
        for client in [client for client in self._open.values() if client.deadline < now]:
            self._close(client)
        self._open_of = +self._open_of
        self._users.forget(now)
        self._strangers.forget(now)


def refusal(reason: str) -> bytes:
    """Return an answer without jobs, which says why."""
    return AnswerRows(lambda _: None, problem=reason).head() + _tail("", {}, "[]")


def long_requests(past: Iterable[PastRuntimes]) -> dict[str, str]:
    """Return the advice for each user, as the text of a JSON array: of his walltimes those that are too long."""
    found: dict[str, list[dict[str, int]]] = defaultdict(list)
    for user, walltime, runtimes in past:
        suggested = shorter_walltime(walltime, runtimes).seconds
        if suggested is not None:
            longer = sum(runtime > suggested for runtime in runtimes)
            found[user].append({"walltime": walltime, "jobs": len(runtimes), "suggested": suggested, "longer": longer})
    return {user: json.dumps(sorted(rows, key=lambda row: -row["jobs"])) for user, rows in found.items()}


def _tail(user: str, jobs: Mapping[str, OwnRows], requests: str) -> bytes:
    parts = [f', "user": {json.dumps(user)}, "requests": {requests}']
    for kind in ("waiting", "running", "ended"):
        rows = jobs.get(kind, _NONE)
        parts.append(f', "{kind}_jobs": {rows.jobs}, "{kind}": {rows.rows}')
    return "".join([*parts, "}\n"]).encode()


def _is_first_name(user: str, uid: int) -> bool:
    try:
        return pwd.getpwuid(uid).pw_name == user
    except KeyError:
        return False


BUSY = refusal("asked too often: ask again in some seconds")
