"""All predictors on all traces: accuracy, underestimation, errors and processor time.

``python -m tests.benchmarks predictors`` prints the tables of TABLE.md beside the predictors.  Figures are
saved in build/predictors as they are computed; the same command continues from there.  The learned weights of
calibrated are held out for each trace (see :mod:`.held_out_weights`).

SOFTWALLTIME_BENCH_PREDICTORS prints only the rows that begin with one of these words, joined by commas.
"""

import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

from softwalltime.accounting.reader import read_values
from softwalltime.accounting.tally import Tally
from softwalltime.measure.replay.accuracy_metrics import score
from softwalltime.measure.replay.job_columns import JobColumns
from softwalltime.measure.replay.sweep.jobs_file import take
from softwalltime.measure.replay.sweep.kept_lines import KeptLines
from softwalltime.measure.replay.sweep.trial import Part, Trial, TrialTask
from softwalltime.measure.replay.sweep.trials import run_trials, saved_trials
from softwalltime.measure.replay.sweep.workers import local_workers
from softwalltime.measure.replay.workload import Scoring, Workload
from tests.benchmarks.held_out_weights import held_out, weights_folder
from tests.benchmarks.markdown import table
from tests.benchmarks.shared_estimates import record_together
from tests.samples import ROOT
from tests.traces import TRACES

FOLDER = ROOT / "build" / "predictors"
SPECS = (
    "request", "factor:0.5", "v1", "v2", "v3", "v4",
    "percentile:keys=user", "percentile:keys=user+project", "percentile", "percentile:p=95",
    "memorizer", "templates", "adaboost", "trip", "random-forest", "svr",
    "gaussier", "gaussier:over=linear,under=squared",
)  # fmt: skip
LEARNED = (
    "target=0.02", "target=0.05", "target=0.1", "objective=absolute-error",
    "statistic=mean", "statistic=median",
)  # fmt: skip
"""Options of calibrated with the weights held out for the trace."""
FIRST = 30 * 86400
"""Seconds at the beginning of a trace whose jobs are not scored; predictors learn from them."""
MINIMUM = 1
"""Least soft walltime in seconds."""
TIMEOUT = 5400
"""Greatest processor time of one predictor on one trace in seconds."""
HEADER = (
    "predictor", "A", "U", "badly", "MAE, s", "CPU, s", "CPU per job, us",
)  # fmt: skip


def main(names: Sequence[str] = (), processes: int | None = None) -> None:
    """Print a table for each trace whose name begins with one of the names; by default all."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    found = sorted(TRACES.glob("*.swf.gz"))
    if not found:
        sys.exit(f"no trace in {TRACES}")
    for path in found:
        if not names or any(path.name.startswith(name) for name in names):
            _print(path, processes)


def _print(path: Path, processes: int | None) -> None:
    jobs = JobColumns.of(read_values([path], Tally()))
    since = int(jobs.numbers("submitted").min()) + FIRST
    specs, keep = _specs(path.name), FOLDER / f"{path.name}.jsonl"
    shared: dict[str, list[str]] = {}
    for spec in specs.values():
        if spec.startswith("calibrated:weights="):
            shared.setdefault(spec.partition(",")[0], []).append(spec)
    alone = [spec for spec in specs.values() if not any(spec in group for group in shared.values())]
    parts = (Part(since=since),)
    with tempfile.TemporaryDirectory() as folder, closing(KeptLines(keep)) as kept:
        snapshot = take(Workload(jobs), Path(folder) / "jobs.parquet")
        tasks = [TrialTask("", snapshot, spec, parts, MINIMUM, TIMEOUT) for spec in specs.values()]
        done = saved_trials(tasks, kept)
        todo = [task for task in tasks if task not in done]
        done |= run_trials([task for task in todo if task.spec in alone], local_workers(processes), kept)
        for group in shared.values():
            together = [task for task in todo if task.spec in group]
            if together:
                done |= _tried_together(Workload(jobs), together, since, kept)
        trials = {task.spec: trial for task, trial in done.items()}
    scored = Workload(jobs, scoring=Scoring(since))
    print(f"### {path.name.partition('.')[0]}: {int(scored.scored.sum()):,} scored of {len(jobs):,} jobs\n")
    print(table(HEADER, [_row(name, trials[spec], len(jobs)) for name, spec in specs.items()]))
    print(flush=True)


def _tried_together(
    workload: Workload, tasks: Sequence[TrialTask], since: int, kept: KeptLines
) -> dict[TrialTask, Trial]:
    """Return the trials of predictors that share their estimates, and save them."""
    found = {}
    together = record_together(workload, [task.spec for task in tasks], MINIMUM)
    for task, (soft_walltimes, spent) in zip(tasks, together, strict=True):
        scores = score(workload, soft_walltimes, since=since)
        found[task] = Trial(task.spec, (scores,), spent)
        kept.add(task.key, {"trial": asdict(found[task])})
    return found


def _specs(trace: str) -> dict[str, str]:
    """Return the predictors by what the table calls them."""
    specs = {spec: spec for spec in SPECS}
    for weights in held_out(trace, weights_folder()):
        specs |= {f"calibrated:{options}": f"calibrated:weights={weights},{options}" for options in LEARNED}
    wanted = tuple(filter(None, os.environ.get("SOFTWALLTIME_BENCH_PREDICTORS", "").split(",")))
    return {name: spec for name, spec in specs.items() if not wanted or name.startswith(wanted)}


def _row(name: str, trial: Trial, jobs: int) -> list[str]:
    if trial.failure:
        return [name, trial.failure, *["-"] * (len(HEADER) - 2)]
    (part,) = trial.parts
    shares = [f"{100 * share:.1f}%" for share in (part.underestimated or 0.0, part.badly_underestimated or 0.0)]
    accuracy, error = part.accuracy_mean or 0.0, part.mean_absolute_error or 0.0
    per_job = f"{1e6 * trial.seconds / jobs:.0f}"
    return [name, f"{accuracy:.3f}", *shares, f"{error:,.0f}", f"{trial.seconds:.1f}", per_job]
