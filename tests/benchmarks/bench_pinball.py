"""Pinball loss of each quantile from 0.1 to 0.95: calibrated, percentile, memorizer and gradient boosting.

Jobs submitted after the first 30 days of a trace are scored.  One pass of a predictor gives all quantiles: those of its
distribution.  Where it predicts nothing, the quantiles are the walltime.  Three losses are printed: in seconds, of jobs
with walltimes up to a year; in seconds, of all jobs, where they differ; and of the logarithm of the runtime, in which
long jobs count like short ones.  The last tables compare calibrated with the best of the others for each quantile;
``~`` marks a difference that may be chance.

Quantiles are saved in build/pinball as they are computed, and the same command continues from there; remove that folder
after a change of a predictor.  The weights of calibrated are held out (see :mod:`.held_out_weights`).  ``lightgbm`` is
measured where it is installed, on large traces on the last weeks (see :mod:`.boosted_quantiles`).
SOFTWALLTIME_BENCH_TRACES (``KTH,SDSC``) names traces.
"""

import hashlib
import math
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from softwalltime.accounting.reader import read_values
from softwalltime.accounting.tally import Tally
from softwalltime.core.events import Kind
from softwalltime.core.jobs import Prediction
from softwalltime.measure.benchmark.protocol import LEFT_OUT_S
from softwalltime.measure.replay.job_columns import JobColumns
from softwalltime.measure.replay.workload import Workload, event_of
from softwalltime.predict.predictors.registry import contents_of, make
from tests.benchmarks.boosted_quantiles import INSTALLED, WEEK, WEEKS_OF_LARGE, boosted_quantiles, predicted_part
from tests.benchmarks.held_out_weights import NAMES, held_out, weights_folder
from tests.benchmarks.markdown import table
from tests.samples import ROOT
from tests.traces import TRACES

Floats = NDArray[np.float64]

FOLDER = ROOT / "build" / "pinball"
QUANTILES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
LIGHTGBM = "lightgbm"
OTHERS = (
    "percentile:keys=user", "percentile:keys=user+project", "percentile", "memorizer",
    *(f"memorizer:fallback=median,window={window}" for window in ("10d", "30d", "120d")),
)  # fmt: skip
YEAR = 365 * 86400
"""Walltime in seconds above which jobs are left out of the first loss: one of LLNL-Atlas has 23 years."""
OURS = "calibrated"
SECONDS, ALL_SECONDS, LOG = "walltimes up to a year, s", "all jobs, s", "ln t, x 1000"
NOISE = 1.96
"""Standard errors of a difference within which it may be chance; a week's jobs are one sample."""


def main() -> None:
    """Print the tables of each trace, and the comparisons of all."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    header = ("trace", *map(str, QUANTILES))
    against: dict[str, list[list[str]]] = {}
    for name in os.environ.get("SOFTWALLTIME_BENCH_TRACES", ",".join(NAMES)).split(","):
        for path in sorted(TRACES.glob(f"{name}*.swf.gz")):
            for title, cells in _print(path).items():
                against.setdefault(title, []).append([path.name.partition("-")[0], *cells])
    for title, rows in against.items():
        print(f"{title}\n\n{table(header, rows)}\n")


def _print(path: Path) -> dict[str, list[str]]:
    """Print the losses on a trace; return the changes of calibrated's loss against others'."""
    workload = Workload(JobColumns.of(read_values([path], Tally())))
    learned = [(OURS, f"calibrated:weights={weights}") for weights in held_out(path.name, weights_folder())]
    specs = dict(learned) | {spec: spec for spec in (*OTHERS, *([LIGHTGBM] if INSTALLED else []))}
    found = {label: _quantiles(workload, path, spec) for label, spec in specs.items()}
    scored = workload.scored & (workload.submitted >= workload.submitted[0] + LEFT_OUT_S)
    part = scored & predicted_part(workload)
    comparisons: dict[str, Sequence[str]] = {"the best of percentile and memorizer": OTHERS}
    if LIGHTGBM not in found or part.sum() == scored.sum():
        return _compare(path, workload, found, scored, "", comparisons | {LIGHTGBM: (LIGHTGBM,)})
    whole = {label: each for label, each in found.items() if label != LIGHTGBM}
    changes = _compare(path, workload, whole, scored, "", comparisons)
    last = f", the last {WEEKS_OF_LARGE} weeks"
    return changes | _compare(path, workload, found, part, last, {LIGHTGBM: (LIGHTGBM,)})


def _compare(
    path: Path, workload: Workload, found: dict[str, Floats], scored: NDArray[np.bool_], part: str,
    comparisons: dict[str, Sequence[str]],
) -> dict[str, list[str]]:  # fmt: skip
    """Print the losses on these jobs; return the changes of calibrated's loss against others, by title."""
    runtime = np.minimum(workload.runtime, workload.walltime).astype(float)
    usual = scored & (workload.walltime <= YEAR)
    losses = {SECONDS: {label: pinball(each[usual], runtime[usual]) for label, each in found.items()}}
    if usual.sum() < scored.sum():
        losses[ALL_SECONDS] = {label: pinball(each[scored], runtime[scored]) for label, each in found.items()}
    logs = np.log(runtime[scored])
    losses[LOG] = {label: 1000 * pinball(np.log(each[scored]), logs) for label, each in found.items()}
    for title, of_title in losses.items():
        rows = [
            [label, *(f"{mean:,.0f}" for mean in loss.mean(axis=0)), f"{loss.mean():,.0f}"]
            for label, loss in of_title.items()
        ]
        jobs = len(next(iter(of_title.values())))
        print(f"### {path.name.partition('.')[0]}{part}: {title}, {jobs:,} jobs\n")
        print(f"{table(('predictor', *map(str, QUANTILES), 'mean'), rows)}\n", flush=True)
    week = workload.submitted // WEEK
    return {
        f"{OURS} against {other} ({title})": _changes(losses[title], week[jobs_of], others)
        for title, jobs_of in ((SECONDS, usual), (LOG, scored))
        for other, others in comparisons.items()
        if OURS in found and any(label in found for label in others)
    }


def pinball(quantiles: Floats, runtime: Floats) -> Floats:
    """Return the pinball loss of each job, one row a job, one column a quantile of :data:`QUANTILES`."""
    over, share = runtime[:, None] - quantiles, np.array(QUANTILES)
    found: Floats = np.maximum(share * over, (share - 1) * over)
    return found


def _changes(losses: dict[str, Floats], week: NDArray[np.int64], others: Sequence[str]) -> list[str]:
    """Return by how much calibrated's loss differs from the least one of the others, with ~ where it may be chance."""
    cells = []
    _, week = np.unique(week, return_inverse=True)
    for place in range(len(QUANTILES)):
        mine = losses[OURS][:, place]
        best = min((losses[label][:, place] for label in others if label in losses), key=np.sum)
        of_week = np.bincount(week, mine - best)
        noise = NOISE * math.sqrt(len(of_week)) * float(of_week.std(ddof=1))
        change = float((mine - best).sum())
        cells.append(f"{'~' if abs(change) < noise else ''}{change / float(best.sum()):+.1%}")
    return cells


def _quantiles(workload: Workload, path: Path, spec: str) -> Floats:
    """Return the quantiles of each job in seconds, at least 1 s and at most the walltime; one row a job."""
    # Of weights count the contents, not the path.
    key = hashlib.sha256(repr((spec.partition("=/")[0], contents_of(spec), QUANTILES)).encode()).hexdigest()[:16]
    keep = FOLDER / f"{path.name.partition('.')[0]}-{key}.npy"
    if keep.exists():
        saved: Floats = np.load(keep).astype(np.float64)
        return saved
    walltime = workload.walltime.astype(float)[:, None]
    found = boosted_quantiles(workload, QUANTILES) if spec == LIGHTGBM else _of_predictor(workload, spec)
    found = np.where(np.isnan(found), walltime, np.clip(found, np.minimum(1.0, walltime), walltime))
    np.save(keep, found.astype(np.float32))
    return found


def _of_predictor(workload: Workload, spec: str) -> Floats:
    """Return the quantiles of each job at its submission, NaN without a prediction; jobs teach when they end."""
    model = make(spec)
    found = np.full((len(workload.jobs), len(QUANTILES)), np.nan)
    for stride in workload.stream(everything=True):
        for kind, number, job, now, _ in zip(*stride, strict=True):
            if kind == Kind.SUBMITTED:
                answer = model.predict(job.submission, job.submission.submitted)
                if isinstance(answer, Prediction):
                    found[number] = answer.quantiles(QUANTILES)
            if model.observes:
                model.observe(event_of(kind, now, job))
            if kind == Kind.ENDED and workload.teaches[number]:
                model.learn(job)
    return found
