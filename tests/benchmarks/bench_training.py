"""Weights of calibrated trained on one site: alone, or tuned as ``softwalltime train`` does from those of other sites.

Weights are trained on the first half of a trace's time and measured on the second half, beside weights held out for the
trace (see :mod:`.held_out_weights`), from which the tuning starts.  Changes are relative to the held-out weights, with
their 95% interval; a week's jobs are one sample.  ``written`` are the weights that train would write, by its comparison
on the first half alone.  SOFTWALLTIME_BENCH_TRACES (``KTH,SDSC``) names traces.
"""

import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from softwalltime.accounting.reader import read_values
from softwalltime.accounting.tally import Tally
from softwalltime.core.events import Kind
from softwalltime.core.jobs import CompletedJob, Prediction
from softwalltime.core.progress import no_progress
from softwalltime.measure.benchmark.entry import LEVELS
from softwalltime.measure.benchmark.figures import pinball
from softwalltime.measure.replay.accuracy_metrics import WEEK_S, accuracies, weekly_interval
from softwalltime.measure.replay.fast_replay import pass_events
from softwalltime.measure.replay.job_columns import JobColumns
from softwalltime.measure.replay.workload import Workload
from softwalltime.measure.training.defaults import EPOCHS, JOBS, SEED
from softwalltime.measure.training.weights import MIN_WEEKS, compare, drawn, fit
from softwalltime.predict.drive import PredictorDriver
from softwalltime.predict.predictors.calibrated import Calibrated, CalibratedOptions
from softwalltime.predict.predictors.learned.network import Weights, load
from tests.benchmarks.held_out_weights import NAMES, held_out, weights_folder
from tests.benchmarks.markdown import table
from tests.traces import TRACES

Floats = NDArray[np.float64]

MAX_JOBS = 150_000
"""The first jobs of a trace that are used."""
HEADER = (
    "trace", "jobs", "weeks", "change, first half", "written", "accuracy", "alone", "tuned", "loss, s", "alone",
    "tuned",
)  # fmt: skip


def main() -> None:
    """Print accuracy and share underestimated at the target 5%, and mean loss of 19 quantiles, on each second half."""
    if find_spec("torch") is None:
        print("not measured: no torch, which pip install 'pbs-softwalltime[train]' adds")
        return
    names = os.environ.get("SOFTWALLTIME_BENCH_TRACES", ",".join((*NAMES, "ALCF", "UniLu"))).split(",")
    paths = [path for name in names for path in sorted(TRACES.glob(f"{name}*.swf.gz"))]
    rows = [_row(path, load(weights)) for path in paths for weights in held_out(path.name, weights_folder())]
    print(table(HEADER, rows))


def _row(path: Path, start: Weights) -> list[str]:
    workload = Workload(JobColumns.of(read_values([path], Tally())), MAX_JOBS)
    middle = int(workload.submitted[0] + workload.submitted[-1]) // 2
    first = Workload(workload.jobs.select(np.flatnonzero(workload.submitted < middle)))
    examples = [drawn(path.name, first, JOBS, SEED, no_progress)]
    alone, tuned = (fit(examples, EPOCHS, SEED, no_progress, each).weights({}) for each in (None, start))
    (compared,) = compare(examples, EPOCHS, SEED, no_progress, start)
    second = np.flatnonzero(workload.scored & (workload.submitted >= middle))
    submitted = workload.submitted[second]
    weeks = [len(np.unique(times // WEEK_S)) for times in (examples[0].submitted, submitted)]
    (accuracy, short, loss), *others = (_measured(workload, second, weights) for weights in (start, alone, tuned))
    return [
        path.name.partition(".")[0], f"{len(examples[0]):,}, {len(second):,}", f"{weeks[0]}, {weeks[1]}",
        f"{compared.low:+.4f} to {compared.high:+.4f}",
        "tuned" if compared.high < 0 and weeks[0] >= MIN_WEEKS else "held out",
        f"{accuracy.mean():.3f}, {short.mean():.1%}",
        *(f"{_change(other - accuracy, submitted, '.4f')}, {late.mean():.1%}" for other, late, _ in others),
        f"{loss.mean():,.0f}", *(_change((other - loss) / loss.mean(), submitted, ".1%") for *_, other in others),
    ]  # fmt: skip


def _change(changes: Floats, submitted: NDArray[np.int64], form: str) -> str:
    _, high = weekly_interval(changes, submitted)
    return f"{changes.mean():+{form}}±{high - changes.mean():{form}}"


def _measured(workload: Workload, jobs: NDArray[np.int64], weights: Weights) -> tuple[Floats, Floats, Floats]:
    """Return accuracy, whether it was underestimated, and mean loss of the quantiles, of each of these jobs."""
    model, walltime = Calibrated(CalibratedOptions(), weights), workload.walltime.astype(float)
    answers = np.repeat(walltime[:, None], 1 + len(LEVELS), axis=1)
    asked = np.zeros(len(workload), np.bool_)
    asked[jobs] = True

    def ask(now: int, kind: int, number: int, job: CompletedJob) -> None:
        if kind == Kind.SUBMITTED and asked[number]:
            answer = model.predict(job.submission, now)
            if isinstance(answer, Prediction):
                answers[number] = answer.seconds, *answer.quantiles(LEVELS)

    driver = PredictorDriver({"": model})
    for stride in workload.stream(everything=True):
        pass_events(stride, driver, ask)
    runtime = np.minimum(workload.runtime, workload.walltime)[jobs]
    predicted = np.clip(np.ceil(answers[jobs, 0]).astype(np.int64), 1, workload.walltime[jobs])
    return accuracies(predicted, runtime), (predicted < runtime).astype(float), pinball(answers[jobs, 1:], runtime)
