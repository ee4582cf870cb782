"""The protocol of the benchmark: which jobs a predictor is asked about, when, and what it knows by then.

All events of a log come in the order of time.  A predictor learns a job at its end, and is asked about it at its
submission, at its start, and, if it predicts distributions, after 1, 10, 60 and 240 minutes of running.  The jobs
submitted in the first 30 days, at most half of the log, are not scored.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from softwalltime.core.events import Kind
from softwalltime.core.jobs import Submission
from softwalltime.measure.benchmark.entry import LEVELS, EntryProcess, Happened, Question
from softwalltime.measure.replay.workload import Flags, Integers, Workload, event_of
from softwalltime.measure.simulation.simulated_jobs import Floats

LEFT_OUT_S = 30 * 86400
"""First seconds of a log that are not scored, at most half of the log."""
SUBMISSION, START = "submission", "start"
AFTER_S = {"1 min": 60, "10 min": 600, "60 min": 3600, "240 min": 14400}
"""Seconds that a job has run when it is asked about again."""
WHEN = (SUBMISSION, START, *AFTER_S)


@dataclass(frozen=True, slots=True)
class MomentAnswers:
    """Answers at one moment: numbers of the jobs, predicted seconds, and quantiles.

    NaN stands for no prediction, and for no distribution.
    """

    jobs: Integers
    seconds: Floats
    quantiles: Floats


@dataclass(frozen=True, slots=True)
class AllAnswers:
    """All answers of a predictor by moment; ``seconds``: its processor time.

    ``of_user``: how many jobs of a job's user had ended at its submission.
    """

    answers: dict[str, MomentAnswers]
    of_user: Integers
    seconds: float


def scored_jobs(workload: Workload) -> Flags:
    if not len(workload.submitted):
        return workload.scored
    first, last = int(workload.submitted[0]), int(workload.submitted[-1])
    return workload.scored & (workload.submitted >= first + min(LEFT_OUT_S, (last - first) // 2))


def ask_all(workload: Workload, entry: EntryProcess) -> AllAnswers:
    """Put all events and questions to a predictor.

    :raises EntryError: if the predictor fails.
    """
    scored, found = scored_jobs(workload), {when: list[tuple[int, list[float]]]() for when in WHEN}
    happened: list[Happened] = []
    later: list[tuple[int, int, str, Submission]] = []
    ended: dict[str, int] = defaultdict(int)
    of_user = np.zeros(len(workload.jobs), np.int64)

    def ask(number: int, when: str, now: int, submission: Submission) -> bool:
        """Return whether the answer is a distribution."""
        answer = entry.ask(Question(happened, submission, now, AFTER_S.get(when, 0)))
        happened.clear()
        found[when].append((number, answer))
        return len(answer) > 1

    def ask_later(until: int) -> None:
        while later and later[0][0] <= until:
            now, number, when, submission = heappop(later)
            ask(number, when, now, submission)

    for stride in workload.stream(everything=True):
        for kind, number, job, now, taught in zip(*stride, strict=True):
            ask_later(now)
            if kind == Kind.SUBMITTED:
                of_user[number] = ended[job.submission.user]
                if scored[number]:
                    ask(number, SUBMISSION, now, job.submission)
            elif kind == Kind.STARTED and scored[number] and ask(number, START, now, job.submission):
                runs = min(job.runtime, workload.walltime[number])
                for when, elapsed in AFTER_S.items():
                    if elapsed < runs:
                        heappush(later, (now + elapsed, number, when, job.submission))
            teaches = kind == Kind.ENDED and taught
            happened.append(Happened(now, event_of(kind, now, job), job if teaches else None))
            if teaches:
                ended[job.submission.user] += 1
    (seconds,) = entry.ask(Question(happened))
    return AllAnswers({when: _gathered(rows) for when, rows in found.items()}, of_user, seconds)


def _gathered(rows: Sequence[tuple[int, list[float]]]) -> MomentAnswers:
    """:param rows: number of the job and answer."""
    nothing = [np.nan] * len(LEVELS)
    return MomentAnswers(
        np.array([job for job, _ in rows], np.int64),
        np.array([answer[0] if answer else np.nan for _, answer in rows], np.float64),
        np.array([answer[1:] or nothing for _, answer in rows], np.float64).reshape(-1, len(LEVELS)),
    )
