"""What ``what-if`` foresaw of ten changes of a queue, and what a real PBS server did after each of them.

16 sleeping jobs of two users on 8 virtual processors; a log with 1,500 like jobs teaches what share of their walltime
they run.  Once the first ones run, the server's state is saved, the change is made, and the starts of the jobs that
waited are compared with those foreseen from the state: the error of the expected start, and how many of the starts that
are not certain lie within their 90% ranges.  "As it is" is the forecast without the change.  A change takes two to
three minutes.

It needs a server for tests, which SOFTWALLTIME_TEST_PBS names (see tests/acceptance/lab.py), with nobody else on it.
SOFTWALLTIME_BENCH_SEEDS (``1``) names the seeds of the jobs.
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from softwalltime.accounting.writer import write_logs
from softwalltime.core.jobs import CompletedJob
from softwalltime.measure.forecast.snapshot import load_snapshot
from tests.acceptance.lab import RUNNER, STRICT, Lab
from tests.acceptance.presets import softwalltime
from tests.acceptance.sleeping import recorded
from tests.benchmarks.markdown import table
from tests.benchmarks.workload import scratch_folder
from tests.samples import job

PROCESSORS = 8
JOBS, LEARNT = 16, 1500
WALLTIMES = (30, 45, 60, 90)
SHARES = {"alice": (0.3, 0.95), "bob": (0.2, 0.7)}
"""Least and greatest share of the walltime that a user's jobs run."""
LIMIT = "server max_run = [u:PBS_GENERIC=2]"
LATE_S = 2
"""Seconds that a start may be late: PBS needs up to one after another job's end, and writes whole seconds."""

Setter = Callable[[str, str], None]
"""Replaces a pattern in sched_config."""


class Change(NamedTuple):
    """A change: the options of what-if, and how it is made.

    ``jobs``: one that runs, then those that wait, in order of submission.
    """

    options: Callable[[list[str]], list[str]]
    make: Callable[[Lab, Setter, list[str]], object]


def _submit(lab: Lab, _: Setter, __: list[str]) -> None:
    for _number in range(4):
        lab.qsub("-q", "workq", "-l", "select=1:ncpus=2,walltime=60", command=("/bin/sleep", "36"))


def _prefer(lab: Lab, setter: Setter, _: list[str]) -> None:
    lab.qmgr("set queue workq Priority = 100")
    setter(r"^by_queue:.*$", "by_queue: true ALL")


CHANGES = {
    "nothing": Change(lambda _: ["--set", "server backfill_depth = 1"], lambda *_: None),
    "hold a job": Change(lambda jobs: ["--hold", jobs[2]], lambda lab, _, jobs: lab.must("qhold", "-h", "o", jobs[2])),
    "delete a running job": Change(
        lambda jobs: ["--delete", jobs[0]], lambda lab, _, jobs: lab.must("qdel", "-W", "force", jobs[0])
    ),
    "delete two that wait": Change(
        lambda jobs: ["--delete", jobs[1], "--delete", jobs[2]], lambda lab, _, jobs: lab.must("qdel", *jobs[1:3])
    ),
    "two jobs a user": Change(lambda _: ["--set", LIMIT], lambda lab, *_: lab.qmgr(f"set {LIMIT}")),
    "short jobs first": Change(
        lambda _: ["--formula", "1e6 / walltime"],
        lambda lab, *_: lab.qmgr("set server job_sort_formula = '1e6 / walltime'"),
    ),
    "a queue first": Change(
        lambda _: ["--set", "queue workq Priority = 100", "--set", "sched_config by_queue = True"], _prefer
    ),
    "four more jobs": Change(
        lambda _: ["--submit", "user=alice,ncpus=2,walltime=0:01:00,queue=workq,count=4"], _submit
    ),
    "twice the processors": Change(
        lambda _: ["--add-nodes", "1"],
        lambda lab, *_: lab.qmgr(f"set node {_first(lab)} resources_available.ncpus = {2 * PROCESSORS}"),
    ),
    "not strict": Change(
        lambda _: ["--set", "sched_config strict_ordering = False"],
        lambda _, setter, __: setter(STRICT, "strict_ordering: false ALL"),
    ),
}  # fmt: skip


def main() -> None:
    """Make each change, and print what was foreseen beside what happened."""
    lab = Lab.configured()
    if lab is None or (reason := lab.ready()):
        print(f"not measured: {reason if lab else f'{RUNNER} names no command that runs things on a PBS server'}")
        return
    rows, judged = [], []
    lab.uninstall()
    lab.qmgr("set sched opt_backfill_fuzzy = off")
    with scratch_folder() as folder:
        for seed in map(int, os.environ.get("SOFTWALLTIME_BENCH_SEEDS", "1").split(",")):
            random = np.random.default_rng(seed)
            log = folder / f"log{seed}"
            write_logs(list(_history(random)), log, UTC)
            for name, change in CHANGES.items():
                foreseen = _judge(lab, change, folder, log, random)
                judged.append(foreseen)
                rows.append([name, *_cells(*foreseen)])
                print(rows[-1], flush=True)
    lab.qmgr("unset sched opt_backfill_fuzzy")
    rows.append(["all", *_cells(*map(np.concatenate, zip(*judged, strict=True)))])
    header = [
        "change",
        "jobs",
        "mean wait",
        "foreseen",
        "as it is",
        "error",
        "of as it is",
        "in the 90% range",
        "as it is",
    ]
    print(table(header, rows))


def _history(random: np.random.Generator) -> Iterator[CompletedJob]:
    begin = int(time.time()) - 20 * 86400
    for number in range(LEARNT):
        user, ncpus, walltime, runtime, queue = _drawn(random, number)
        # Jobs are submitted 16 at a time, as in the queue that is judged.
        start = begin + 1000 * (number - number % JOBS)
        yield job(
            user, job_id=f"{number}.old", submitted=start, start=start, end=start + runtime, runtime=runtime,
            walltime=walltime, ncpus=ncpus, queue=queue,
        )  # fmt: skip


def _drawn(random: np.random.Generator, number: int) -> tuple[str, int, int, int, str]:
    user, walltime = str(random.choice(list(SHARES))), int(random.choice(WALLTIMES))
    queue = "workq" if number % 3 == 0 else "nodefault"
    return user, int(random.choice([1, 2, 4])), walltime, round(walltime * random.uniform(*SHARES[user])), queue


def _first(lab: Lab) -> str:
    return next(iter(lab.json("pbsnodes", "-a", "-F", "json")["nodes"]))


Judged = tuple[Any, ...]
"""Arrays of the start, expected start and 90% range with the change and as it is, in seconds from the change."""


def _judge(lab: Lab, change: Change, folder: Path, log: Path, random: np.random.Generator) -> Judged:
    with lab.virtual_processors(PROCESSORS), lab.sched_config() as setter:
        setter(STRICT, "strict_ordering: true ALL")
        lab.qmgr("set server scheduling = False")
        jobs = []
        for number in range(JOBS):
            user, ncpus, walltime, runtime, queue = _drawn(random, number)
            options = ("-q", queue, "-l", f"select=1:ncpus={ncpus},walltime={walltime}")
            jobs.append(lab.qsub(*options, user=user, command=("/bin/sleep", str(runtime))))
        lab.qmgr("set server scheduling = True")
        time.sleep(4)
        state = folder / "state.json"
        state.write_text(softwalltime(lab, "snapshot"))
        runs = {job.submission.job_id: job.occupies for job in load_snapshot(state).jobs}
        named = [next(job for job in jobs if runs[job]), *(job for job in jobs if not runs[job])]
        change.make(lab, setter, named)
        lab.qmgr("set server scheduling = True")
        held = {named[2]} if "--hold" in change.options(named) else set()
        while set(lab.must("qselect", "-s", "EQR").split()) & set(jobs):
            time.sleep(1)
        files = ("--snapshot", state, "--log", log)
        output = softwalltime(lab, "what-if", *change.options(named), *files, "--runs", "200", "--format", "json")
        document = json.loads(output)
        rows = [row for row in document["jobs"] if row["before"] and row["after"] and row["job"] not in held]
        completed, _ = recorded(lab, [row["job"] for row in rows])
        starts = [done.start or 0 for done in completed]
        lab.delete_jobs()
        for unset in ("server max_run", "server job_sort_formula", "queue workq Priority"):
            lab.qmgr(f"unset {unset}")
    columns = [starts, *([row[name] for row in rows] for name in ("after", "before"))]
    ranges = [np.array([row[name] for row in rows]) for name in ("after90", "before90")]
    return (
        *(np.array(column) - document["taken"] for column in columns),
        *(ends - document["taken"] for ends in ranges),
    )


def _cells(start: Any, after: Any, before: Any, after90: Any, before90: Any) -> list[str]:
    def held(ends: Any) -> str:
        uncertain = ends[:, 0] < ends[:, 1]
        inside = (ends[:, 0] <= start) & (start <= ends[:, 1] + LATE_S)
        return f"{inside[uncertain].mean():.0%}" if uncertain.any() else "-"

    means = [f"{values.mean():.0f} s" for values in (start, after, before)]
    errors = [f"{np.abs(values - start).mean():.0f} s" for values in (after, before)]
    return [f"{len(start)}", *means, *errors, held(after90), held(before90)]


if __name__ == "__main__":
    main()
