"""What the 50% and 90% ranges of calibrated hold, also asked again while a job runs, and for new users.

Each job is asked about at its submission, at its start, and after 1, 10, 60 and 240 minutes of running where it still
runs then, in the order of all events and from what had ended by then.  Jobs submitted after the first 30 days of a
trace are scored.  The shipped weights; ``trained`` marks the traces that they were trained on.

SOFTWALLTIME_BENCH_TRACES (``KTH,SDSC``) names traces, SOFTWALLTIME_BENCH_JOBS (30,000) the number of their first jobs.
"""

import os
from collections import defaultdict
from collections.abc import Iterator
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from softwalltime.accounting.reader import read_jobs
from softwalltime.accounting.tally import Tally
from softwalltime.core.events import Kind
from softwalltime.core.jobs import CompletedJob, Prediction
from softwalltime.measure.replay.event_stream import event_of
from softwalltime.measure.replay.workload import Workload
from softwalltime.predict.predictors.base import Predictor
from softwalltime.predict.predictors.learned.network import SHIPPED, load
from softwalltime.predict.predictors.registry import make
from tests.benchmarks.bench_attention import LEFT_OUT
from tests.benchmarks.markdown import table
from tests.traces import TRACES

NAMES = ("KTH", "SDSC", "HPC2N", "CEA", "LLNL", "ALCF", "UniLu")
BOUNDS = (0.05, 0.25, 0.75, 0.95)
SUBMISSION, START = "submission", "start"
AFTER = {"1 min": 60, "10 min": 600, "60 min": 3600, "240 min": 14400}
BY_USER = {"user's 1st": (0, 0), "2nd to 5th": (1, 4), "6th to 20th": (5, 19)}
DAY = 86400
LEAST = 100
"""Answers from which on a share is printed."""
HEADER = (
    "trace", SUBMISSION, START, *AFTER, "past half the walltime", *BY_USER, "walltime over a day",
)  # fmt: skip

Answers = dict[str, list[tuple[float, ...]]]


def main() -> None:
    """Print one row for each trace: shares in the 50 and 90% range."""
    rows = []
    for name in os.environ.get("SOFTWALLTIME_BENCH_TRACES", ",".join(NAMES)).split(","):
        for path in sorted(TRACES.glob(f"{name}*.swf.gz")):
            first = int(os.environ.get("SOFTWALLTIME_BENCH_JOBS", "30000"))
            answers = _ask(Workload(list(read_jobs([path], Tally())), first), make("calibrated"))
            trained = ", trained" if path.name in load(SHIPPED).about["logs"] else ""
            rows.append([path.name.partition("-")[0] + trained, *(_held(answers[title]) for title in HEADER[1:])])
            print(rows[-1], flush=True)
    print(table(HEADER, rows))


def _ask(workload: Workload, model: Predictor) -> Answers:
    """Return the bounds of the ranges and the runtime, by when they were asked."""
    answers: Answers = defaultdict(list)
    later: list[tuple[int, int, str]] = []
    scored = workload.scored & (workload.submitted >= workload.submitted[0] + LEFT_OUT)
    ended: dict[str, int] = defaultdict(int)

    def ask(number: int, job: CompletedJob, now: int, when: str, elapsed: int = 0) -> None:
        answer, walltime = model.predict(job.submission, now, elapsed), job.submission.walltime or 0
        if scored[number] and isinstance(answer, Prediction):
            row = (*answer.quantiles(BOUNDS), min(job.runtime, walltime))
            for title in _titles(when, elapsed, walltime, ended[job.submission.user]):
                answers[title].append(row)

    for stride in workload.stream(everything=True):
        for kind, number, job, now, _ in zip(*stride, strict=True):
            while later and later[0][0] <= now:
                time, which, when = heappop(later)
                ask(which, workload.jobs[which], time, when, AFTER[when])
            if kind == Kind.SUBMITTED:
                ask(number, job, now, SUBMISSION)
            elif kind == Kind.STARTED:
                ask(number, job, now, START)
                runs = min(job.runtime, job.submission.walltime or 0)
                for when in (when for when, elapsed in AFTER.items() if elapsed < runs):
                    heappush(later, (now + AFTER[when], number, when))
            model.observe(event_of(kind, now, job))
            if kind == Kind.ENDED and workload.teaches[number]:
                model.learn(job)
                ended[job.submission.user] += 1
    return answers


def _titles(when: str, elapsed: int, walltime: int, of_user: int) -> Iterator[str]:
    """Yield the columns in which an answer counts."""
    yield when
    if 2 * elapsed > walltime:
        yield "past half the walltime"
    if when == SUBMISSION:
        yield from (title for title, (least, most) in BY_USER.items() if least <= of_user <= most)
        if walltime > DAY:
            yield "walltime over a day"


def _held(answers: list[tuple[float, ...]]) -> str:
    """Return the shares of the runtimes within the ranges, in percent; half a second is rounding."""
    if len(answers) < LEAST:
        return f"({len(answers)})"
    least, low, high, most, runtime = np.array(answers).T

    def share(low: NDArray[np.float64], high: NDArray[np.float64]) -> float:
        return 100 * float(((low - 0.5 <= runtime) & (runtime <= high + 0.5)).mean())

    return f"{share(low, high):.0f}/{share(least, most):.0f} ({len(answers):,})"
