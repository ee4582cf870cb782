"""What sites run and the presets, on the server for tests, and both as policies of the simulator."""

import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from softwalltime.core.jobs import CompletedJob
from softwalltime.measure.forecast.site_scheduler import site_scheduler
from softwalltime.measure.forecast.snapshot import load_snapshot
from softwalltime.measure.simulation.engine import simulate
from softwalltime.measure.simulation.machine import FOREVER
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.schedule_metrics import bounded_slowdowns
from softwalltime.measure.simulation.simulated_jobs import Integers, jobs_of
from softwalltime.predict.policy.presets import HOUR, PRESETS, PresetName
from softwalltime.reports.candidates import Baseline
from tests.acceptance import fast_daemon
from tests.acceptance.fast_daemon import UNIT
from tests.acceptance.lab import STRICT, Lab
from tests.service.running import Daemon

AGE, GUARD = HOUR // UNIT, HOUR // UNIT
"""On the server, seconds: age in the formula, and lateness of the top job from which the guard acts."""
FORMULAS: dict[str, str] = {
    name: replace(order, age=float(AGE), days=order.days / UNIT).formula("predicted")
    for name, preset in PRESETS.items()
    if (order := preset.order) is not None
}
"""The formulas of the presets that have one, for jobs of seconds."""
EARLIER = 30 * 86400
"""How long before the simulated jobs those begin from which the predictor learns, seconds of the simulation."""
SAMPLES = 100
"""Simulations of a workload, whose records have whole seconds."""
PATIENT = {"deadline_ms": 2000}
"""The hook's deadline: a busy machine must not decide which jobs get a value."""
WFP = "(eligible_time / (walltime or 1e9))**3 * ncpus"
"""The order that sites with wide jobs run."""
BASELINES = ("as delivered", "strict ordering", "WFP")
"""What sites run."""
HALF = 'mode = "on"\nwaiting = "factor:0.5"\nrunning = "walltime"\nordering = "factor:0.2"\n'
"""Policy whose values need no history and no live values."""
LOOK = 1
"""Seconds between two looks of live values."""
ALONE = '[live]\nguard = "off"\n'
LIVE = f'[live]\nmode = "on"\nguard = {GUARD}\nevery = {LOOK}\nchange_seconds = 1\nalters_per_minute = 60000\n'


def softwalltime(lab: Lab, *arguments: object) -> str:
    """Run a command of ours where PBS is; its output."""
    return lab.must(sys.executable, "-m", "softwalltime", *map(str, arguments))


@contextmanager
def baseline(lab: Lab, name: str, folder: Path) -> Iterator[Baseline]:
    """Let the server run one of BASELINES, and read it as ``--site`` does; the server is set back at the end."""
    with lab.sched_config() as replaced:
        replaced(STRICT, f"strict_ordering: {'false' if name == 'as delivered' else 'true'}\tALL")
        # PBS looks for a top job's start in steps of a minute, which is half of a walltime here.
        lab.qmgr("set sched opt_backfill_fuzzy = off")
        try:
            if name == "WFP":
                lab.qmgr("set server eligible_time_enable = True")
                lab.qmgr(f"set server job_sort_formula = '{WFP}'")
            file = folder / "snapshot.json"
            file.write_text(softwalltime(lab, "snapshot"))
            site = site_scheduler(load_snapshot(file))
            yield Baseline(name, replace(site.policy, minimum=site.policy.minimum * UNIT))
        finally:
            lab.qmgr("unset sched opt_backfill_fuzzy")
            # If a run is killed, the formula of its preset stays.
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
    daemon.program = (str(Path(fast_daemon.__file__)),)
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


def preset_settings(name: PresetName, *, live: bool = True) -> str:
    """The settings of a preset, whose guard acts if live values are on."""
    return f'preset = "{name}"\n{LIVE if live else ALONE}'


@dataclass(frozen=True, slots=True)
class Waits:
    """Mean wait in seconds of the server, and mean bounded slowdown (10 s)."""

    wait: float
    slowdown: float

    def against(self, other: "Waits") -> "Waits":
        """Return the relative changes."""
        return Waits(self.wait / other.wait - 1, self.slowdown / other.slowdown - 1)


def recorded_waits(completed: Sequence[CompletedJob]) -> Waits:
    """The waits of jobs that ran on the server."""
    waits = np.array([(job.start or 0) - job.submission.submitted for job in completed], np.int64)
    return _waits(waits, np.array([job.runtime for job in completed], np.int64), 1)


def simulated_waits(completed: Sequence[CompletedJob], processors: int, policy: SchedulerPolicy) -> list[Waits]:
    """The waits of the same jobs in SAMPLES simulations, each with times between the seconds of the accounting log.

    The predictor has learnt these jobs before, as the daemon has from that log.
    """
    found = []
    for seed in range(SAMPLES):
        again = list(_between_seconds(completed, np.random.default_rng(seed)))
        jobs = jobs_of([*map(_earlier, again), _holding(again, processors), *again])
        waits = simulate(jobs, processors, policy).start - np.array(jobs.submitted, np.int64)
        count = len(again)
        found.append(_waits(waits[-count:], np.array(jobs.runtime, np.int64)[-count:], UNIT))
    return found


def _earlier(job: CompletedJob) -> CompletedJob:
    submitted = job.submission.submitted - EARLIER
    submission = replace(job.submission, job_id=f"earlier-{job.submission.job_id}", submitted=submitted)
    return replace(job, submission=submission, start=submitted, end=submitted + job.runtime)


def _holding(completed: Sequence[CompletedJob], processors: int) -> CompletedJob:
    """A job that has the whole machine from before the first submission until the first start.

    It stands for a scheduler that is off (:func:`.sleeping.run`): the jobs age meanwhile, and none starts.  Nor is one
    promised a start: the job could run for ever.
    """
    begin = min(job.submission.submitted for job in completed) - 1
    runtime = min(job.start or 0 for job in completed) - begin
    submission = replace(completed[0].submission, job_id="hold", submitted=begin, ncpus=processors, walltime=FOREVER)
    return replace(completed[0], submission=submission, start=begin, end=begin + runtime, runtime=runtime)


def _between_seconds(completed: Sequence[CompletedJob], random: np.random.Generator) -> Iterator[CompletedJob]:
    """Yield the jobs with UNIT for a second, submitted at any time in their second, in the order of the queue.

    A job that has ended holds its processors for up to a second, until the scheduler knows.
    """
    later, longer = random.integers(0, UNIT, (2, len(completed)))
    seconds = np.array([job.submission.submitted for job in completed])
    in_order = np.empty_like(later)
    in_order[np.argsort(seconds, kind="stable")] = later[np.lexsort((later, seconds))]
    for job, place, more in zip(completed, in_order.tolist(), longer.tolist(), strict=True):
        submitted, runtime = job.submission.submitted * UNIT + place, job.runtime * UNIT + more
        submission = replace(job.submission, submitted=submitted, walltime=(job.submission.walltime or 0) * UNIT)
        start = max((job.start or 0) * UNIT, submitted)
        yield replace(job, submission=submission, start=start, end=start + runtime, runtime=runtime)


def _waits(wait: Integers, ran: Integers, unit: int) -> Waits:
    return Waits(float(wait.mean() / unit), float(bounded_slowdowns(wait, ran, 10 * unit).mean()))
