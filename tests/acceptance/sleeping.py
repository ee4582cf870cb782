"""A workload of sleeping jobs: run it on a real PBS server, and read it back from the accounting log."""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from softwalltime.accounting.reader import read_jobs
from softwalltime.accounting.tally import Tally
from softwalltime.core.jobs import CompletedJob
from softwalltime.measure.simulation.simulated_jobs import Integers
from tests.acceptance.lab import Lab

_TIMES = {"Q": "qtime", "S": "start", "E": "end"}
"""The record types to read, and the attribute with the time of each."""


@dataclass(frozen=True, slots=True)
class Sleeper:
    """One job: submitted ``offset`` s after the first, sleeps ``runtime`` s on ``ncpus`` processors.

    ``chunk``: processors of each chunk, which may be on several vnodes; 0: all in one chunk.
    """

    offset: float
    ncpus: int
    runtime: int
    walltime: int
    user: str = "alice"
    queue: str = "workq"
    chunk: int = 0

    @property
    def select(self) -> str:
        each = self.chunk or self.ncpus
        return f"select={self.ncpus // each}:ncpus={each}"


WALLTIMES = (127, 163, 211, 269, 347)
"""Walltimes in seconds: more than twice the least soft walltime, and far enough apart that a second decides nothing."""


def workload(count: int, processors: int, load: float, seed: int) -> list[Sleeper]:
    """Jobs of random sizes, runtimes and walltimes, of which a third are submitted at once.

    :param load: processor-seconds of the others, over processors times the time in which they are submitted.
    """
    random = np.random.default_rng(seed)
    sizes = random.choice([1, 2, 4, processors // 2, processors], count, p=[0.35, 0.25, 0.2, 0.12, 0.08])
    runtimes = random.integers(3, 25, count)
    walltimes = random.choice(WALLTIMES, count)
    return _submitted(sizes, runtimes, walltimes, processors, load, random)


HABITS = {"alice": (0.06, 0.2), "bob": (0.15, 0.35), "carol": (0.45, 0.7)}
"""Of the users of :func:`habitual`, the least and greatest share of the walltime that their jobs run."""


def habitual(count: int, processors: int, load: float, seed: int) -> list[Sleeper]:
    """Jobs of three users, each with habits that can be learnt; a third are submitted at once.

    Those of carol, a tenth, have long walltimes, and often outlive half of them.

    :param load: as :func:`workload`.
    """
    random = np.random.default_rng(seed)
    sizes = random.choice([1, 2, 4, 8, processors // 2, processors], count, p=[0.45, 0.25, 0.17, 0.1, 0.02, 0.01])
    users = random.choice(list(HABITS), count, p=[0.45, 0.45, 0.1])
    walltimes = np.where(users == "carol", random.choice([120, 150], count), random.choice([60, 75, 90, 120], count))
    shares = np.array([random.uniform(*HABITS[user]) for user in users])
    sleepers = _submitted(sizes, np.rint(walltimes * shares).astype(np.int64), walltimes, processors, load, random)
    return [replace(sleeper, user=user) for sleeper, user in zip(sleepers, users.tolist(), strict=True)]


SHORT_WALLTIMES = (30, 40, 55, 75, 100)
"""Walltimes in seconds of jobs of which half end early."""


def half_early(count: int, processors: int, load: float, seed: int) -> list[Sleeper]:
    """Jobs of which half end after 15 to 45% of their walltimes, and half a few seconds before them.

    :param load: as :func:`workload`.
    """
    random = np.random.default_rng(seed)
    sizes = random.choice([1, 2, 4, 8, 16, processors // 2], count, p=[0.4, 0.25, 0.17, 0.1, 0.05, 0.03])
    walltimes = random.choice(SHORT_WALLTIMES, count)
    early = random.permutation(count) < count // 2
    share = np.where(early, random.uniform(0.15, 0.45, count), random.uniform(0.85, 0.95, count))
    return _submitted(sizes, np.rint(walltimes * share).astype(np.int64), walltimes, processors, load, random)


def _submitted(
    sizes: Integers, runtimes: Integers, walltimes: Integers, processors: int, load: float, random: np.random.Generator
) -> list[Sleeper]:
    """The jobs, a third submitted at once and the others at random times."""
    count = len(sizes)
    offsets = np.zeros(count)
    later = count - count // 3
    work = float((sizes * runtimes)[-later:].sum())
    offsets[-later:] = np.sort(random.uniform(0, work / processors / load, later))
    columns = (column.tolist() for column in (offsets, sizes, runtimes, walltimes))
    return [Sleeper(*values) for values in zip(*columns, strict=True)]


def run(lab: Lab, sleepers: Sequence[Sleeper], timeout: float) -> list[str]:
    """Submit the jobs when they are due and wait until all have ended; their ids in the order of submission.

    Those of the first instant are submitted before the scheduler sees any of them.
    """
    lab.qmgr("set server scheduling = False")
    begin, scheduling = time.monotonic(), False
    ids = []
    for sleeper in sleepers:
        if sleeper.offset > 0 and not scheduling:
            lab.qmgr("set server scheduling = True")
            begin, scheduling = time.monotonic(), True
        time.sleep(max(0.0, begin + sleeper.offset - time.monotonic()))
        asked = ("-l", sleeper.select, "-l", f"walltime={sleeper.walltime}", "-q", sleeper.queue)
        ids.append(lab.qsub(*asked, user=sleeper.user, command=("/bin/sleep", str(sleeper.runtime))))
    if not scheduling:
        lab.qmgr("set server scheduling = True")
    deadline = time.monotonic() + timeout
    while lab.must("qselect", "-s", "EHQRTW"):
        assert time.monotonic() < deadline, f"jobs are left after {timeout} s"
        time.sleep(1)
    return ids


class Record(NamedTuple):
    """A record of the accounting log: when (epoch seconds), its type (Q, S or E), the job's position, its vnodes."""

    time: int
    kind: str
    job: int
    exec_vnode: str = ""


def recorded(lab: Lab, ids: Sequence[str]) -> tuple[list[CompletedJob], list[Record]]:
    """Return the jobs as they ran, in the order of their ids, and their records in the order of the accounting log."""
    folder = lab.home / "server_priv" / "accounting"
    days = sorted(folder.iterdir())[-2:]
    positions = {job: index for index, job in enumerate(ids)}
    records: list[Record] = []
    for day in days:
        for line in day.read_text(errors="replace").splitlines():
            _stamp, kind, job, message = (*line.split(";", 3), "", "", "")[:4]
            if job not in positions:
                continue
            if kind == "Q":
                # A server that was set up anew gives the ids of earlier jobs again.
                records = [record for record in records if record.job != positions[job]]
            if found := re.search(rf" {_TIMES.get(kind)}=(\d+)", message):
                on = re.search(r" exec_vnode=(\S+)", message)
                records.append(Record(int(found[1]), kind, positions[job], on[1] if on else ""))
    times = {(record.kind, record.job): record.time for record in records}
    jobs = {job.submission.job_id: job for job in read_jobs(days, Tally())}
    completed = []
    for index, job in enumerate(ids):
        submission = replace(jobs[job].submission, submitted=times["Q", index])
        start, end = times["S", index], times["E", index]
        completed.append(
            replace(jobs[job], submission=submission, start=start, end=end, etime=None, runtime=end - start)
        )
    return completed, records
