"""What sites run and the presets, on the server for tests, and both as policies of the simulator."""

import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import numpy as np

from softwalltime.forecast.site_scheduler import site_scheduler
from softwalltime.forecast.snapshot import load_snapshot
from softwalltime.jobs import CompletedJob
from softwalltime.policy.presets import HOUR, PRESETS, PresetName
from softwalltime.reports.candidates import Baseline
from softwalltime.simulation.engine import simulate
from softwalltime.simulation.jobs import Integers, jobs_of
from softwalltime.simulation.metrics import bounded_slowdowns
from softwalltime.simulation.policies import SchedulerPolicy
from tests.acceptance.lab import STRICT, Lab
from tests.acceptance.sleeping import Record
from tests.service.running import Daemon

UNIT = 120
"""Seconds of the simulation for a second of the server: minutes stand for hours, and a preset is simulated as it is."""
AGE, GUARD = HOUR // UNIT, HOUR // UNIT
"""On the server, seconds: age in the formula, and lateness of the top job from which the guard acts."""
FORMULAS: dict[str, str] = {
    name: replace(order, age=float(AGE), days=order.days / UNIT).formula("predicted")
    for name, preset in PRESETS.items()
    if (order := preset.order) is not None
}
"""The formulas of the presets that have one, for jobs of seconds."""
HANDOVERS = (0, 1)
"""Seconds for which a job that has ended still holds its processors: the bounds of what the log can tell."""
PATIENT = {"deadline_ms": 2000}
"""The hook's deadline: a busy machine must not decide which jobs get a value."""
WFP = "(eligible_time / (walltime or 1e9))**3 * ncpus"
"""The order that sites with wide jobs run."""
BASELINES = ("as delivered", "strict ordering", "WFP")
"""What sites run."""
HALF = 'mode = "on"\nwaiting = "factor:0.5"\nrunning = "walltime"\nordering = "factor:0.2"\n'
"""Policy whose values need no history and no live values."""
LIVE = f'[live]\nmode = "on"\nguard = {GUARD}\nevery = 5\nchange_seconds = 1\nalters_per_minute = 60000\n'


def softwalltime(lab: Lab, *arguments: object) -> str:
    """Run a command of ours where PBS is; its output."""
    return lab.must(sys.executable, "-m", "softwalltime", *map(str, arguments))


@contextmanager
def baseline(lab: Lab, name: str, folder: Path) -> Iterator[Baseline]:
    """Let the server run one of BASELINES, and read it as ``--site`` does; the server is set back at the end."""
    with lab.sched_config() as replaced:
        replaced(STRICT, f"strict_ordering: {'false' if name == 'as delivered' else 'true'}\tALL")
        if name == "WFP":
            lab.qmgr("set server eligible_time_enable = True")
            lab.qmgr(f"set server job_sort_formula = '{WFP}'")
        try:
            file = folder / "snapshot.json"
            file.write_text(softwalltime(lab, "snapshot"))
            site = site_scheduler(load_snapshot(file))
            yield Baseline(name, replace(site.policy, minimum=site.policy.minimum * UNIT))
        finally:
            if name == "WFP":
                lab.qmgr("unset server job_sort_formula")
                lab.qmgr("set server eligible_time_enable = False")


@contextmanager
def preset(lab: Lab, name: str, folder: Path, dsn: str, policy: str = HALF) -> Iterator[Daemon]:
    """Set PBS up by ``softwalltime install --preset``, with a daemon that has this policy; undone at the end."""
    hook = folder / "hook"
    hook.mkdir(mode=0o755)
    (hook / "softwalltime_hook.json").write_text(json.dumps(PATIENT))
    daemon = Daemon(folder, dsn, policy)
    # Where PBS is, whose log it reads.
    daemon.prefix = tuple(lab.runner)
    accounting = lab.home / "server_priv" / "accounting"
    daemon.config.write_text(daemon.config.read_text().replace(str(daemon.accounting), str(accounting)))
    daemon.start()
    formula = ("--formula", FORMULAS[name]) if name in FORMULAS else ()
    try:
        softwalltime(lab, "install", hook, "--config", daemon.config, "--preset", name, *formula, "--apply")
        yield daemon
    finally:
        lab.delete_jobs()
        softwalltime(lab, "uninstall", hook, "--apply")
        os.kill(daemon.status()["pid"], signal.SIGTERM)
        assert daemon.process is not None
        daemon.process.wait(60)


def preset_settings(name: PresetName) -> str:
    """The settings of a preset whose guard acts."""
    return f'preset = "{name}"\n{LIVE}'


@dataclass(frozen=True, slots=True)
class Waits:
    """Mean wait in seconds of the server, and mean bounded slowdown (10 s)."""

    wait: float
    slowdown: float

    def against(self, other: "Waits") -> tuple[float, float]:
        """Return the relative changes."""
        return self.wait / other.wait - 1, self.slowdown / other.slowdown - 1


def spread(completed: Sequence[CompletedJob], records: Sequence[Record], handover: int) -> list[CompletedJob]:
    """The jobs with UNIT for a second: the records of one second follow each other at equal distances.

    pbs_sched runs a cycle after each of them, and a simulation in seconds only one after all of them.

    :param handover: seconds by which each job runs longer.
    """
    times: dict[tuple[str, int], int] = {}
    for second, group in groupby(sorted(records, key=lambda record: record.time), key=lambda record: record.time):
        members = list(group)
        for place, record in enumerate(members):
            times[record.kind, record.job] = second * UNIT + UNIT * (2 * place + 1) // (2 * len(members))
    # Those submitted before the scheduler saw any wait together for its first cycle.
    first = min(time for (kind, _), time in times.items() if kind == "S")
    found = []
    for index, job in enumerate(completed):
        start, end = times["S", index], times["E", index]
        submitted = first if times["Q", index] // UNIT <= first // UNIT else min(times["Q", index], start)
        submission = replace(job.submission, submitted=submitted, walltime=(job.submission.walltime or 0) * UNIT)
        runtime = end - start + handover * UNIT
        found.append(replace(job, submission=submission, start=start, end=start + runtime, runtime=runtime))
    return found


def recorded_waits(completed: Sequence[CompletedJob], records: Sequence[Record]) -> Waits:
    """The waits of jobs that ran on the server."""
    jobs = spread(completed, records, 0)
    waits = [(job.start or 0) - job.submission.submitted for job in jobs]
    return _waits(np.array(waits, np.int64), np.array([job.runtime for job in jobs], np.int64))


def simulated_waits(
    completed: Sequence[CompletedJob], records: Sequence[Record], processors: int, policy: SchedulerPolicy
) -> list[Waits]:
    """The waits of the same jobs in a simulation, for each of HANDOVERS."""
    found = []
    for handover in HANDOVERS:
        jobs = jobs_of(spread(completed, records, handover))
        outcome = simulate(jobs, processors, policy)
        submitted, ran = np.array(jobs.submitted, np.int64), np.array(jobs.runtime, np.int64) - handover * UNIT
        found.append(_waits(outcome.start - submitted, ran))
    return found


def _waits(wait: Integers, ran: Integers) -> Waits:
    return Waits(float(wait.mean() / UNIT), float(bounded_slowdowns(wait, ran, 10 * UNIT).mean()))
