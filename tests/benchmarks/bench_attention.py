"""The weights of calibrated: set by hand, and learned on the logs of other institutions, on the recorded traces.

SOFTWALLTIME_TEST_WEIGHTS names a folder with a file NAME.json for each trace, where NAME begins the trace's name; from
``softwalltime train ... --leave-out NAME --out FOLDER/NAME.json``.  Without a file the weights in the package are
measured, where they were not trained on the trace.
"""

import calendar
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from softwalltime.accounting.reader import read_jobs
from softwalltime.accounting.tally import Tally
from softwalltime.events import Kind
from softwalltime.jobs import CompletedJob, Prediction
from softwalltime.predictors.calibrated import PLAIN, Calibrated
from softwalltime.predictors.learned.network import SHIPPED, load
from softwalltime.predictors.learned.similarity import Estimate
from softwalltime.predictors.registry import make
from softwalltime.replay.workload import Workload
from softwalltime.text_table import table
from tests.samples import TRACES

NAMES = ("KTH", "SDSC", "LLNL", "HPC2N", "CEA")
TARGETS = (0.05, 0.02, 0.1)
QUANTILES = tuple(number / 20 for number in range(1, 20))
LEFT_OUT = 30 * 86400
"""First seconds that are not scored."""
WINDOW = (calendar.timegm((2012, 7, 25, 0, 0, 0)), calendar.timegm((2012, 8, 24, 0, 0, 0)))
"""Submissions of CEA-Curie for which others have published errors."""
HEADER = (
    "trace", "weights", "A, U at 2%", "A, U at 5%", "A, U at 10%", "50%", "90%", "MAE median", "MAE mean", "pinball"
)  # fmt: skip


def main() -> None:
    """Print one row for each trace and kind of weights."""
    folder = weights_folder()
    rows = []
    for name in NAMES:
        for file in sorted(TRACES.glob(f"{name}*.swf.gz")):
            workload = Workload(list(read_jobs([file], Tally())))
            for weights in (PLAIN, *held_out(file.name, folder)):
                rows.append([name, "plain" if weights == PLAIN else "learned", *_figures(workload, weights)])
                print(rows[-1], flush=True)
    print(table(HEADER, rows))


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


class _Estimates:
    """Predictors with different targets that share their estimates: the estimates do not depend on the target."""

    def __init__(self, weights: str) -> None:
        self.models = [make(f"calibrated:weights={weights},target={target}") for target in TARGETS]
        self._made: list[Estimate] = []
        first = self.models[0]
        assert isinstance(first, Calibrated)
        estimate = first._estimate
        first._estimate = lambda known: self._keep(estimate(known))  # type: ignore[method-assign]

    def _keep(self, estimate: Estimate) -> Estimate:
        self._made.append(estimate)
        return estimate

    def each(self) -> Iterator[Calibrated]:
        """Yield each predictor, for the same call."""
        self._made.clear()
        for number, model in enumerate(self.models):
            assert isinstance(model, Calibrated)
            if number:
                made = iter(self._made)
                model._estimate = lambda _, made=made: next(made)  # type: ignore[misc]
            yield model


def _figures(workload: Workload, weights: str) -> list[str]:
    count = len(workload.jobs)
    chosen, means = np.zeros((len(TARGETS), count)), np.zeros(count)
    quantiles = np.zeros((count, len(QUANTILES)))
    estimates = _Estimates(weights)
    for stride in workload.stream(everything=True):
        for kind, number, job in zip(*stride, strict=True):
            if kind == Kind.SUBMITTED:
                answers = [model.predict(job.submission, job.submission.submitted) for model in estimates.each()]
                _note(answers, job, chosen[:, number], quantiles[number])
                first = answers[0]
                means[number] = first.mean if isinstance(first, Prediction) else job.submission.walltime or 0
            estimates.models[0].observe(workload.event(kind, number, job))
            if kind == Kind.ENDED and workload.teaches[number]:
                for model in estimates.each():
                    model.learn(job)
    scored = workload.scored & (workload.submitted >= workload.submitted[0] + LEFT_OUT)
    runtime = np.minimum(workload.runtime, workload.walltime)[scored].astype(float)
    cells = []
    for target in np.argsort(TARGETS):
        p = chosen[target, scored]
        accuracy = (np.minimum(p, runtime) / np.maximum(p, runtime)).mean()
        cells.append(f"{accuracy:.3f}, {(p < runtime).mean():.1%}")
    found = quantiles[scored].T
    for low, high in ((4, 14), (0, 18)):
        cells.append(f"{((found[low] - 0.5 <= runtime) & (runtime <= found[high] + 0.5)).mean():.1%}")
    errors = np.abs(found[9] - runtime)
    cells += [f"{errors.mean():,.0f}", f"{np.abs(means[scored] - runtime).mean():,.0f}"]
    q, found = np.array(QUANTILES)[1:, None], found[1:]
    cells.append(f"{np.maximum(q * (runtime - found), (q - 1) * (runtime - found)).mean():,.0f}")
    submitted = workload.submitted[scored]
    window = (submitted >= WINDOW[0]) & (submitted < WINDOW[1])
    if window.any():
        at_target = np.abs(chosen[0, scored] - runtime)[window].mean()
        print(f"published window, {window.sum():,} jobs: MAE {errors[window].mean():,.0f} s, at 5% {at_target:,.0f} s")
    return cells


def _note(answers: list[object], job: CompletedJob, chosen: np.ndarray, quantiles: np.ndarray) -> None:
    walltime = job.submission.walltime or 0
    for place, answer in enumerate(answers):
        chosen[place] = min(answer.seconds, walltime) if isinstance(answer, Prediction) else walltime
    first = answers[0]
    quantiles[:] = first.quantiles(QUANTILES) if isinstance(first, Prediction) else walltime
