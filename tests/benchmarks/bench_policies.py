"""The presets on a real PBS server beside the simulator: one workload of sleeping jobs under FCFS and the presets.

Seconds stand for hours: 300 jobs of 7 to 56 s with walltimes that are five times too long in the mean, on one vnode
with 80 virtual processors.  Each run takes about seven minutes.  The simulator gets the same jobs with the submissions
and runtimes that the accounting log shows.

Printed for each policy: how many decisions of pbs_sched the simulator repeats in the same state, the rank correlation
of the starts, mean wait and mean bounded slowdown (10 s) of both, and the gain against FCFS of both.

It needs a server for tests, which SOFTWALLTIME_TEST_PBS names (see tests/acceptance/lab.py), with nobody else on it.
SOFTWALLTIME_BENCH_JOBS changes the number of jobs, SOFTWALLTIME_BENCH_POLICIES the policies, separated by commas.
"""

import os
from collections.abc import Sequence

from softwalltime.text_table import table
from tests.acceptance.lab import RUNNER, Lab
from tests.acceptance.presets import POLICIES, Compared, compared, preset
from tests.acceptance.sleeping import overestimated
from tests.benchmarks.workload import empty_store, scratch_folder

PROCESSORS = 80
LOAD = 1.3
SEED = 7
TIMEOUT = 1500.0
LEGEND = """\
decisions: groups of starts; same: the simulator starts the same jobs in the same state; explained: or would, if jobs
that ended within a second still ran or were exiting; start order: rank correlation; simulated: with 0 and with 1 s for
which a job that has ended still holds its processors"""


def main() -> None:
    """Run the workload under each policy, and print both schedules' figures."""
    lab = Lab.configured()
    if lab is None or (reason := lab.ready()):
        print(f"not measured: {reason if lab else f'{RUNNER} names no command that runs things on a PBS server'}")
        return
    count = int(os.environ.get("SOFTWALLTIME_BENCH_JOBS", "300"))
    names = os.environ.get("SOFTWALLTIME_BENCH_POLICIES", ",".join(POLICIES)).split(",")
    sleepers = overestimated(count, PROCESSORS, LOAD, SEED)
    found: dict[str, Compared] = {}
    lab.uninstall()
    with lab.virtual_processors(PROCESSORS):
        for name in names:
            with scratch_folder() as folder, empty_store(folder) as (dsn, _), preset(lab, name, folder, dsn):
                found[name] = compared(lab, sleepers, PROCESSORS, POLICIES[name], TIMEOUT)
            lab.delete_jobs()
            print(" ".join(_row(name, found[name])), flush=True)
    print(f"\n{count} jobs on {PROCESSORS} virtual processors, seed {SEED}\n")
    header = ["policy", "decisions", "same", "explained", "start order", "wait: server", "simulated", "difference",
              "slowdown: server", "simulated", "difference"]  # fmt: skip
    print(table(header, [_row(name, one) for name, one in found.items()]))
    first, *others = found.values()
    header = ["against the first", "wait: server", "simulated", "slowdown: server", "simulated"]
    rows = [
        [name, *_gain(one.wait, first.wait), *_gain(one.slowdown, first.slowdown)]
        for name, one in zip(list(found)[1:], others, strict=True)
    ]
    print(f"\n{table(header, rows)}\n\n{LEGEND}")


def _row(name: str, one: Compared) -> list[str]:
    return [
        name, str(len(one.cycles)), str(one.same), str(one.explained), _range([f"{each:.3f}" for each in one.order]),
        *_figures(one.wait, 1, " s"), *_figures(one.slowdown, 2, ""),
    ]  # fmt: skip


def _figures(values: Sequence[float], digits: int, unit: str) -> list[str]:
    server, *simulated = values
    return [
        f"{server:.{digits}f}{unit}",
        _range([f"{each:.{digits}f}{unit}" for each in simulated]),
        _range([_relative(each, server) for each in simulated]),
    ]


def _gain(values: Sequence[float], base: Sequence[float]) -> list[str]:
    gains = [_relative(one, other) for one, other in zip(values, base, strict=True)]
    return [gains[0], _range(gains[1:])]


def _range(texts: Sequence[str]) -> str:
    return " to ".join(dict.fromkeys(texts))


def _relative(value: float, base: float) -> str:
    return f"{100 * (value / base - 1):+.1f}%"


if __name__ == "__main__":
    main()
