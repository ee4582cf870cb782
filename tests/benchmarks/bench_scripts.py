"""What the script of a job adds to the predictions of calibrated, on generated workloads.

Each user of the generator runs two to five applications with runtimes of their own; here each is a script.  The
workloads differ in what else tells the applications apart:

- as generated: job name, walltime and size;
- one name: all jobs of a user have the same name;
- one name and walltime: and each asks for the user's longest walltime;
- other files: the same, but each submission runs a file with another path, so that no script occurs twice;
- names alike: the script's name is the job's, as PBS names a job without ``-N``; the walltime is the longest.

A script that is edited in place keeps its path and with it its identity.  Accuracy and share underestimated are those
at a target of 5%, the error is that of the median; jobs after the first tenth, means of the seeds, and the least and
greatest change of accuracy.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from softwalltime.core.events import Kind
from softwalltime.core.jobs import CompletedJob, Prediction
from softwalltime.measure.replay.workload import Workload, event_of
from softwalltime.measure.workloads.synthetic import generate
from softwalltime.predict.predictors.registry import make
from tests.benchmarks.markdown import table

SEEDS = (1, 2, 3)
JOBS = 6_000
HEADER = ("workload", "script", "accuracy", "change", "underestimated", "MAE of median, s")


def main() -> None:
    """Print one row for each workload, without and with the scripts."""
    seeds = [generate(JOBS, seed=seed, scripts=True) for seed in SEEDS]
    names = list(workloads(seeds[0]))
    rows = []
    for name in names:
        known = [workloads(jobs)[name] for jobs in seeds]
        without = np.array([figures(without_scripts(jobs)) for jobs in known])
        with_them = np.array([figures(jobs) for jobs in known])
        change = with_them[:, 0] - without[:, 0]
        rows.append([name, "unknown", *_cells(without, "")])
        rows.append(["", "known", *_cells(with_them, f"{change.min():+.3f} to {change.max():+.3f}")])
        print(rows[-2], rows[-1], flush=True)
    print(table(HEADER, rows))


def _cells(found: NDArray[np.float64], change: str) -> list[str]:
    accuracy, underestimated, error = found.mean(axis=0)
    return [f"{accuracy:.3f}", change, f"{underestimated:.1%}", f"{error:,.0f}"]


def workloads(jobs: Sequence[CompletedJob]) -> dict[str, list[CompletedJob]]:
    """Return the workloads made of generated jobs with scripts."""
    longest: defaultdict[str, int] = defaultdict(int)
    for job in jobs:
        longest[job.submission.user] = max(longest[job.submission.user], job.submission.walltime or 0)

    def changed(alike: bool, same_walltime: bool, other_files: bool = False) -> list[CompletedJob]:
        found = []
        for job in jobs:
            of = job.submission
            walltime = longest[of.user] if same_walltime and of.walltime else of.walltime
            script = of.job_id.partition("[")[0] if other_files else of.script
            name = "run" if alike else of.script
            found.append(replace(job, submission=replace(of, walltime=walltime, job_name=name, script=script)))
        return found

    return {
        "as generated": list(jobs),
        "one name": changed(True, False),
        "one name and walltime": changed(True, True),
        "other files": changed(True, True, other_files=True),
        "names alike": changed(False, True),
    }


def without_scripts(jobs: Iterable[CompletedJob]) -> list[CompletedJob]:
    """Return the jobs as they are where nothing records scripts."""
    return [replace(job, submission=replace(job.submission, script="")) for job in jobs]


def figures(jobs: Sequence[CompletedJob], options: str = "target=0.05") -> tuple[float, float, float]:
    """Return mean accuracy and share underestimated of predictions at submission, and the median's error in seconds."""
    workload = Workload(list(jobs))
    model = make(f"calibrated:{options}")
    predicted, median = np.full((2, len(jobs)), np.nan)
    for stride in workload.stream(everything=True):
        for kind, number, job, now, _ in zip(*stride, strict=True):
            if kind == Kind.SUBMITTED:
                answer = model.predict(job.submission, job.submission.submitted)
                if isinstance(answer, Prediction):
                    predicted[number], median[number] = answer.seconds, answer.quantile(0.5)
            model.observe(event_of(kind, now, job))
            if kind == Kind.ENDED and workload.teaches[number]:
                model.learn(job)
    scored = workload.scored & (np.arange(len(jobs)) >= len(jobs) // 10) & np.isfinite(predicted)
    runtime = np.minimum(workload.runtime, workload.walltime)[scored].astype(float)
    given, half = np.minimum(predicted[scored], workload.walltime[scored]), median[scored]
    accuracy = np.minimum(given, runtime) / np.maximum(given, runtime)
    return float(accuracy.mean()), float((given < runtime).mean()), float(np.abs(half - runtime).mean())
