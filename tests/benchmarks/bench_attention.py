"""The weights of calibrated, learned on the logs of other institutions, on the recorded traces.

Four tables: accuracy and share underestimated at submission and at start; the greatest share underestimated in a
month; the users of whom more than twice the target is underestimated; what the middle ranges hold, and errors.

SOFTWALLTIME_TEST_WEIGHTS names a folder with a file NAME.json for each trace, where NAME begins the trace's name; from
``softwalltime train`` with the other traces and ``--output FOLDER/NAME.json``.  Without a file the weights in the
package are measured, where they were not trained on the trace.
"""

import calendar
import math
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from softwalltime.accounting.reader import read_jobs
from softwalltime.accounting.tally import Tally
from softwalltime.core.events import Kind
from softwalltime.core.jobs import Prediction
from softwalltime.measure.benchmark.entry import LEVELS
from softwalltime.measure.benchmark.figures import MONTH_JOBS, USER_JOBS
from softwalltime.measure.benchmark.protocol import LEFT_OUT_S
from softwalltime.measure.replay.event_stream import event_of
from softwalltime.measure.replay.workload import Workload
from softwalltime.predict.predictors.learned.distribution import Floats
from softwalltime.predict.predictors.learned.network import SHIPPED, load
from tests.benchmarks.markdown import table
from tests.benchmarks.shared_estimates import SharedEstimates
from tests.traces import TRACES

NAMES = ("KTH", "SDSC", "LLNL", "HPC2N", "CEA")
TARGETS = (0.05, 0.02, 0.1)
WINDOW = (calendar.timegm((2012, 7, 25, 0, 0, 0)), calendar.timegm((2012, 8, 24, 0, 0, 0)))
"""Submissions of CEA-Curie for which others have published errors."""
BY_TARGET = tuple(f"{target:.0%}" for target in sorted(TARGETS))
RANGES = {"50%": (4, 14), "90%": (0, 18)}
"""Places of the bounds of the middle ranges among ``LEVELS``."""
HEADERS = {
    "accuracy": ("trace", *(f"{when} {at}" for when in ("submission", "start") for at in BY_TARGET)),
    "worst month": ("trace", *BY_TARGET),
    "users over twice the target": ("trace", *BY_TARGET),
    "ranges and errors": (
        "trace", *(f"{share}{how}" for share in RANGES for how in ("", " rounded")),
        "MAE median", "MAE mean", "pinball",
    ),
}  # fmt: skip


def main() -> None:
    """Print one row for each trace."""
    folder = weights_folder()
    rows: dict[str, list[list[str]]] = {title: [] for title in HEADERS}
    for name in NAMES:
        for file in sorted(TRACES.glob(f"{name}*.swf.gz")):
            workload = Workload(list(read_jobs([file], Tally())))
            for weights in held_out(file.name, folder):
                found = _figures(workload, weights)
                for title, cells in found.items():
                    rows[title].append([name, *cells])
                    print(title, rows[title][-1], flush=True)
    for title, header in HEADERS.items():
        print(f"\n{title}\n{table(header, rows[title])}")


def weights_folder() -> Path:
    """Return the folder that SOFTWALLTIME_TEST_WEIGHTS names."""
    return Path(os.environ.get("SOFTWALLTIME_TEST_WEIGHTS", "/nonexistent"))


def held_out(trace: str, folder: Path) -> Iterator[str]:
    """Yield the weights to measure a trace with, if there are any that were not trained on it."""
    files = [file for file in sorted(folder.glob("*.json")) if trace.startswith(file.stem)]
    if files:
        yield str(files[0])
    elif trace not in load(SHIPPED).about["logs"]:
        yield SHIPPED


def _figures(workload: Workload, weights: str) -> dict[str, list[str]]:
    walltime = workload.walltime.astype(float)
    at_submission, at_start = np.tile(walltime, (len(TARGETS), 1)), np.tile(walltime, (len(TARGETS), 1))
    quantiles, means = np.tile(walltime[:, None], len(LEVELS)), walltime.copy()
    models = SharedEstimates([f"calibrated:weights={weights},target={target}" for target in TARGETS])
    for stride in workload.stream(everything=True):
        for kind, number, job, now, _ in zip(*stride, strict=True):
            if kind in (Kind.SUBMITTED, Kind.STARTED):
                chosen = at_submission if kind == Kind.SUBMITTED else at_start
                answers = models.predict(job.submission, now)
                chosen[:, number] = [_seconds(answer, walltime[number]) for answer in answers]
                first = answers[0]
                if kind == Kind.SUBMITTED and isinstance(first, Prediction):
                    quantiles[number], means[number] = first.quantiles(LEVELS), first.mean
            models.models[0].observe(event_of(kind, now, job))
            if kind == Kind.ENDED and workload.teaches[number]:
                models.learn(job)
    scored = workload.scored & (workload.submitted >= workload.submitted[0] + LEFT_OUT_S)
    runtime, submitted = np.minimum(workload.runtime, workload.walltime)[scored].astype(float), workload.submitted
    order = np.argsort(TARGETS).tolist()
    at_submission, at_start = at_submission[order][:, scored], at_start[order][:, scored]
    users = np.unique(list(workload.jobs.values("user")), return_inverse=True)[1][scored]
    month = submitted[scored].astype("datetime64[s]").astype("datetime64[M]").astype(int)
    window = (submitted[scored] >= WINDOW[0]) & (submitted[scored] < WINDOW[1])
    if window.any():
        median = np.abs(quantiles[scored, 9] - runtime)[window].mean()
        at_target = np.abs(at_submission[1] - runtime)[window].mean()
        print(f"published window, {window.sum():,} jobs: MAE {median:,.0f} s, at 5% {at_target:,.0f} s")
    return {
        "accuracy": [_accuracy(p, runtime) for p in (*at_submission, *at_start)],
        "worst month": [_worst_month(p < runtime, month) for p in at_submission],
        "users over twice the target": [
            _users_over(p < runtime, users, 2 * target)
            for p, target in zip(at_submission, sorted(TARGETS), strict=True)
        ],
        "ranges and errors": _errors(quantiles[scored].T, means[scored], runtime),
    }


def _seconds(answer: object, walltime: float) -> float:
    return min(math.ceil(answer.seconds), walltime) if isinstance(answer, Prediction) else walltime


def _accuracy(p: Floats, runtime: Floats) -> str:
    return f"{(np.minimum(p, runtime) / np.maximum(p, runtime)).mean():.3f}, {(p < runtime).mean():.1%}"


def _worst_month(underestimated: NDArray[np.bool_], month: NDArray[np.int64]) -> str:
    """Return the greatest share of a month with enough jobs."""
    _, of_month = np.unique(month, return_inverse=True)
    counts = np.bincount(of_month)
    shares = np.bincount(of_month, underestimated) / counts
    return f"{shares[counts >= MONTH_JOBS].max(initial=0.0):.1%}"


def _users_over(underestimated: NDArray[np.bool_], user: NDArray[np.int64], share: float) -> str:
    """Return the share of users with more underestimated jobs than ``share``, of those with enough jobs."""
    counts = np.bincount(user)
    shares = (np.bincount(user, underestimated) / np.maximum(counts, 1))[counts >= USER_JOBS]
    return f"{(shares > share).mean():.0%} of {shares.size}"


def _errors(quantiles: Floats, means: Floats, runtime: Floats) -> list[str]:
    cells = []
    for low, high in ((quantiles[low], quantiles[high]) for low, high in RANGES.values()):
        held, rounded = (low <= runtime) & (runtime <= high), (low - 0.5 <= runtime) & (runtime <= high + 0.5)
        cells += [f"{share.mean():.1%}" for share in (held, rounded)]
    cells += [f"{np.abs(quantiles[9] - runtime).mean():,.0f}", f"{np.abs(means - runtime).mean():,.0f}"]
    q, found = np.array(LEVELS)[1:, None], quantiles[1:]
    cells.append(f"{np.maximum(q * (runtime - found), (q - 1) * (runtime - found)).mean():,.0f}")
    return cells
