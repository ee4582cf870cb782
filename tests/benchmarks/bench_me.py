"""Users who ask for their jobs all at once: answers a second, and what others notice of one who never stops.

Run it as root: each client is another user, by its uid.  Each answer has 40 jobs.  The last table is what reading the
store takes that the answers come from.
"""

import multiprocessing
import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import quantiles
from typing import Any

from sqlalchemy import text

from softwalltime.service.users.own_jobs_server import (
    MAX_ENDED_JOBS,
    MAX_LIVE_JOBS,
    RATE,
    AnswerRows,
    OwnJobsServer,
    long_requests,
)
from softwalltime.service.users.rate_limit import RateLimit
from softwalltime.store.completed_jobs import vacuum_analyze
from softwalltime.store.own_jobs_rows import read_ended, read_live, read_requests
from tests.benchmarks.markdown import table
from tests.benchmarks.workload import empty_store, scratch_folder
from tests.users.site import listening

USERS, FIRST_UID, CLIENTS = 500, 61_000, 4
SECONDS = 5.0
ENDED, WAITING = 400_000, 10_000
FREE = 1e12
_FILL = """
INSERT INTO softwalltime.completed_jobs (
    ctime, etime, start_time, end_time, walltime, runtime, ncpus, mem, mem_used, state, server, job_id, user_name, queue
)
SELECT
    :now - 5000 - n, :now - 5000 - n, :now - 4000 - n, :now - n, 3600 * (1 + n % 24), 60 + n % 4000, 8, 1e9, 1e8,
    'finished', 'srv', n || '.srv', 'user' || n % :users, 'long'
FROM generate_series(1, :ended) AS n;
INSERT INTO softwalltime.current_jobs (ctime, walltime, ncpus, is_array, server, job_id, user_name, queue, job_name)
SELECT :now - n, 7200, 8, false, 'srv', (10000000 + n) || '.srv', 'user' || n % :users, 'long', 'a job'
FROM generate_series(1, :waiting) AS n;
INSERT INTO softwalltime.expected_starts (
    forecast_at, ctime, expected, low90, low50, high50, high90, walltime, ncpus, server, job_id, user_name, waits_for
)
SELECT
    :now, ctime, :now + 900, :now, :now + 600, :now + 2000, :now + 9000, walltime, ncpus, server, job_id, user_name,
    'behind 7 jobs of queue long, 8 processors come free at 14:10 when 12345.srv ends'
FROM softwalltime.current_jobs LIMIT 1000;
"""


def main() -> None:
    """Print three tables."""
    with scratch_folder() as folder:
        rows = _reading(folder)
        if os.geteuid() != 0:
            sys.exit("only root can be several users: run it as root")
        folder.chmod(0o755)
        print(table(("clients", "answers a second", "median", "99%", "longest"), [_crowd(folder, rows)]), end="\n\n")
        print(table(("one user asks", "another: median", "99%", "longest"), _flood(folder, rows)), end="\n\n")


def _reading(folder: Path) -> AnswerRows:
    """Print how long the store takes; return what was read, for users by their numbers."""
    uids = {f"user{number}": FIRST_UID + number for number in range(USERS)}
    rows, now = AnswerRows(uids.get, read_at=int(time.time()), problem=""), int(time.time())
    with empty_store(folder) as (_, engine):
        values = {"now": now, "ended": ENDED, "waiting": WAITING, "users": USERS}
        with engine.begin() as connection:
            for statement in _FILL.split(";")[:-1]:
                connection.execute(text(statement), values)
        vacuum_analyze(engine)
        took = []
        with engine.connect() as connection:
            for work in (
                lambda: setattr(rows, "live", read_live(connection, MAX_LIVE_JOBS)),
                lambda: setattr(rows, "ended", tuple(read_ended(connection, now - 28 * 86400, MAX_ENDED_JOBS))),
                lambda: setattr(rows, "requests", long_requests(read_requests(connection, now - 28 * 86400, 20))),
                rows.answers,
            ):
                begin = time.monotonic()
                work()
                took.append(f"{time.monotonic() - begin:.2f} s")
    counts = (f"{WAITING:,} waiting jobs", f"{ENDED:,} ended jobs", "their walltimes", f"answers of {USERS} users")
    print(table(("reading", "takes"), list(zip(counts, took, strict=True))), end="\n\n")
    return rows


def _crowd(folder: Path, rows: AnswerRows) -> Sequence[str]:
    """Each client is another user at each request."""
    path = folder / "crowd.sock"
    with _Served(path, rows, RateLimit(FREE, FREE)), multiprocessing.Pool(CLIENTS) as pool:
        found = pool.starmap(_ask, [(path, SECONDS, range(client, USERS, CLIENTS)) for client in range(CLIENTS)])
    times = sorted(seconds for each in found for seconds in each)
    return (str(CLIENTS), f"{len(times) / SECONDS:,.0f}", *_summary(times))


def _flood(folder: Path, rows: AnswerRows) -> list[Sequence[str]]:
    """Another user asks as often as he may, while one asks with two processes without a pause, and without him."""
    lines: list[Sequence[str]] = []
    for name, processes in (("nothing", 0), ("without a pause", 2)):
        path = folder / f"flood{processes}.sock"
        with _Served(path, rows, None), multiprocessing.Pool(processes + 1) as pool:
            floods = [pool.apply_async(_ask, (path, SECONDS + 2, (0,))) for _ in range(processes)]
            time.sleep(1)
            times = pool.apply(_ask, (path, SECONDS, (1,), 1 / RATE))
            asked = sum(len(flood.get()) for flood in floods)
        lines.append((f"{name}: {asked / (SECONDS + 2):,.0f} a second", *_summary(sorted(times))))
    return lines


class _Served:
    """A server in a process of its own."""

    def __init__(self, path: Path, rows: AnswerRows, users: RateLimit | None) -> None:
        listener, answers = listening(path), rows.answers()
        serve: Callable[[], Any] = OwnJobsServer(listener, lambda: answers, users).run
        self._process = multiprocessing.Process(target=serve)

    def __enter__(self) -> None:
        self._process.start()

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()


def _ask(path: Path, seconds: float, users: Sequence[int], pause: float = 0.0) -> list[float]:
    """Ask as these users in turn; return the seconds that each answer took."""
    os.setgroups([])
    os.setgid(FIRST_UID)
    end = time.monotonic() + seconds
    took: list[float] = []
    while (begin := time.monotonic()) < end:
        # The effective user is the one that the kernel names.
        os.seteuid(0)
        os.seteuid(FIRST_UID + users[len(took) % len(users)])
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            while client.recv(1 << 20):
                pass
        took.append(time.monotonic() - begin)
        time.sleep(pause)
    return took


def _summary(times: Sequence[float]) -> Sequence[str]:
    hundredths = quantiles(times, n=100, method="inclusive")
    return [f"{1000 * seconds:.2f} ms" for seconds in (hundredths[49], hundredths[98], times[-1])]
