"""The own-jobs server: send each connecting user the jobs of his account, then close the connection.

The connection itself is the request: the server reads nothing from a client, so clients can neither select other
users' jobs nor send harmful input.  The kernel identifies the user (``SO_PEERCRED``) at the time of the connection.
There is one exception: the account of ``softwalltime web``, if the settings name it, sends one line with the name of
the user who logged in.  One thread serves all clients and never blocks on one of them.
"""

import json
import pwd
import selectors
import socket
import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic

from softwalltime.core.shorter_walltimes import shorter_walltime
from softwalltime.service.users.own_jobs import VERSION
from softwalltime.service.users.rate_limit import RateLimit
from softwalltime.store.own_jobs_rows import LiveRows, OwnRows, PastRuntimes

RATE, BURST = 20.0, 60.0
"""Rate limit for one user: responses per second, and burst."""
STRANGERS = -1
"""Key of all users without known jobs: they share one rate limit, as a user may have many uids (/etc/subuid)."""
STRANGERS_RATE, STRANGERS_BURST = 200.0, 400.0
MAX_OPEN, MAX_OPEN_OF_USER = 256, 4
"""Maximum open connections, in total and of one user; a further one is closed."""
SEND_TIMEOUT_S = 5.0
"""Seconds within which a client must receive its response."""
MAX_NAME_BYTES = 256
"""Maximum bytes of the line with a user's name."""
MAX_ROUND_CONNECTIONS = 64
"""Connections accepted before open ones are served."""
_CREDENTIALS = struct.Struct("3i")

_NONE = OwnRows("", 0, "[]")
DAYS = 28
"""Number of past days whose ended jobs are counted and whose requested walltimes are judged."""
MAX_LIVE_JOBS = 5_000
"""Maximum waiting jobs, and running jobs, in one response."""
MAX_ENDED_JOBS = 20
"""Maximum ended jobs in one response."""


@dataclass(frozen=True, slots=True)
class Answers:
    """Responses at one time: ``head`` begins all of them, ``tails`` has the rest by uid, ``empty`` for other users.

    ``uids``: the uid of each user whose name is in one of the tails.
    """

    head: bytes
    tails: Mapping[int, bytes]
    empty: bytes
    uids: Mapping[bytes, int] = field(default_factory=dict)

    def of(self, uid: int) -> tuple[bytes, bytes]:
        return self.head, self.tails.get(uid, self.empty)


@dataclass(slots=True)
class AnswerRows:
    """Rows last read from the store.

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
        return f'{json.dumps(values)[:-1]}, "probes": {self.live.probes}'.encode()

    def answers(self) -> Answers:
        """Return the responses for all users; set :attr:`unknown`."""
        by_user: dict[str, dict[str, OwnRows]] = defaultdict(dict)
        kinds = {"waiting": self.live.waiting, "running": self.live.running, "ended": self.ended}
        for kind, users in kinds.items():
            for rows in users:
                by_user[rows.user][kind] = rows
        tails: dict[int, bytes] = {}
        names: dict[int, str] = {}
        unknown = set()
        for user, jobs in by_user.items():
            uid = self.accounts(user)
            if uid is None:
                unknown.add(user)
            # Two names of one uid: use the first name, which its processes have.
            elif uid not in tails or _is_first_name(user, uid):
                tails[uid] = _tail(user, jobs, self.requests.get(user, "[]"))
                names[uid] = user
        self.unknown = frozenset(unknown)
        return Answers(self.head(), tails, _tail("", {}, "[]"), {name.encode(): uid for uid, name in names.items()})


@dataclass(slots=True, eq=False)
class _Client:
    connection: socket.SocketType
    who: int
    left: list[memoryview]
    deadline: float
    waits: bool = False
    """Whether the selector watches it.  If ``left`` is empty, the server waits for a name, else for room to send."""


class OwnJobsServer:
    """Serve own jobs on a listening socket.

    :param answers: returns the current responses.
    :param web: uid of the account that names other users; ``None``: nobody.
    """

    def __init__(
        self, listener: socket.socket, answers: Callable[[], Answers], users: RateLimit | None = None,
        strangers: RateLimit | None = None, web: int | None = None,
    ) -> None:  # fmt: skip
        self.answered = self.refused = 0
        self._listener = listener
        self._answers = answers
        self._web = web
        self._users = users or RateLimit(RATE, BURST)
        self._strangers = strangers or RateLimit(STRANGERS_RATE, STRANGERS_BURST)
        self._open_of: Counter[int] = Counter()
        """Open connections by user; the selector has their clients."""
        self._selector = selectors.DefaultSelector()
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ)

    def run(self, until: Callable[[], bool] = lambda: False) -> None:
        """Serve until the condition is true; it is checked at least once a second."""
        tidied = monotonic()
        while not until():
            for key, _ in self._selector.select(1.0):
                if key.data is None:
                    self._accept()
                elif key.data.left:
                    self._send(key.data)
                else:
                    self._read_name(key.data)
            if (now := monotonic()) - tidied >= 1.0:
                tidied = now
                self._tidy(now)

    def _accept(self) -> None:
        for _ in range(MAX_ROUND_CONNECTIONS):
            try:
                connection, _address = self._listener.accept()
            except OSError:
                # No connection is pending, or no descriptor is free: the next round tries again.
                return
            connection.setblocking(False)
            credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            uid = _CREDENTIALS.unpack(credentials)[1]
            if uid == self._web and self._open_of.total() < MAX_OPEN:
                self._wait(_Client(connection, uid, [], monotonic() + SEND_TIMEOUT_S), selectors.EVENT_READ)
            else:
                self._answer(connection, uid)

    def _read_name(self, client: _Client) -> None:
        """Answer the web server for the user whom it names; close the connection if it names nobody."""
        line = b""
        with suppress(OSError):
            line = client.connection.recv(MAX_NAME_BYTES)
        self._forget(client)
        if line.endswith(b"\n"):
            self._answer(client.connection, self._answers().uids.get(line[:-1], STRANGERS))
        else:
            client.connection.close()

    def _answer(self, connection: socket.SocketType, uid: int) -> None:
        answers, now = self._answers(), monotonic()
        known = uid in answers.tails
        who = uid if known else STRANGERS
        allowed = self._open_of.total() < MAX_OPEN and self._open_of[who] < MAX_OPEN_OF_USER
        allowed = allowed and (self._users if known else self._strangers).take(who, now)
        self.answered += allowed
        self.refused += not allowed
        parts = answers.of(uid) if allowed else (BUSY,)
        self._send(_Client(connection, who, [memoryview(part) for part in parts], now + SEND_TIMEOUT_S))

    def _send(self, client: _Client) -> None:
        """Send what the socket accepts now; close the connection when all is sent or the client has disconnected."""
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
        if not client.waits:
            self._wait(client, selectors.EVENT_WRITE)

    def _wait(self, client: _Client, event: int) -> None:
        client.waits = True
        self._open_of[client.who] += 1
        self._selector.register(client.connection, event, client)

    def _forget(self, client: _Client) -> None:
        self._open_of[client.who] -= 1
        self._selector.unregister(client.connection)

    def _close(self, client: _Client) -> None:
        if client.waits:
            self._forget(client)
        client.connection.close()

    def _tidy(self, now: float) -> None:
        for client in [key.data for key in self._selector.get_map().values()]:
            if client is not None and client.deadline < now:
                self._close(client)
        self._open_of = +self._open_of
        self._users.forget(now)
        self._strangers.forget(now)


def long_requests(past: Iterable[PastRuntimes]) -> dict[str, str]:
    """Return each user's requested walltimes that are too long, as the text of a JSON array."""
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
    with suppress(KeyError):
        return pwd.getpwuid(uid).pw_name == user
    return False


BUSY = AnswerRows(lambda _: None, problem="asked too often: ask again in some seconds").head() + _tail("", {}, "[]")
