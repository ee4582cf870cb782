"""The answer to each user in memory, by the number that the kernel knows him by."""

import json
import pwd
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from softwalltime.shorter_walltimes import shorter_walltime
from softwalltime.store.own_jobs import LiveRows, OwnRows, PastRuntimes
from softwalltime.users.own_jobs import VERSION

DAYS = 28
"""Days of which ended jobs are counted, and the walltimes that they requested judged."""
MOST_LIVE = 5_000
"""Waiting jobs, and running jobs, in one answer."""
MOST_ENDED = 20
"""Ended jobs in one answer."""
_NONE = OwnRows("", 0, "[]")


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
