"""Minimum number of fake jobs that change a user's own prediction, by predictor: the table in deploy/SECURITY.md.

A user has run honest jobs and has another one of the same kind to submit, which would be predicted to run as long as
they did.  To be backfilled earlier the user first submits fakes that end at once, and so teach that jobs end at once.
The fakes may ask for the same walltime, or all, the real one too, for a walltime that nobody has asked for before.
Counted is how many fakes it takes until the prediction is at most half of the honest one, and until it is at most
twenty minutes; and how many honest jobs it takes afterwards until the prediction is back at nine tenths.

``python -m tests.benchmarks.bench_gaming``
"""

from dataclasses import dataclass

from softwalltime.core.jobs import NoPrediction, Submission
from softwalltime.predict.policy.clamp import soft_walltime
from softwalltime.predict.predictors.base import Predictor
from softwalltime.predict.predictors.registry import make
from tests.benchmarks.markdown import table
from tests.samples import job

HOUR = 3600
HONEST = 60
"""Jobs that the user has run in the last month."""
WALLTIME = 24 * HOUR
RUNTIME = 20 * HOUR
OTHER = WALLTIME + 60
"""A walltime that no job has requested before."""
MAX_FAKES = 1000
PREDICTORS = (
    "v1",
    "v2",
    "v3",
    "v3:last=30",
    "v4",
    "percentile",
    "percentile:least=30",
    "percentile:least=100",
    "percentile:threshold=0.5",
    "percentile:keys=user+project",
    "percentile:keys=user+project,least=30",
    "percentile:p=95,keys=user+project",
)


@dataclass(frozen=True, slots=True)
class Gamed:
    """The number of fakes, ``None`` for more than :data:`MAX_FAKES`, and of honest jobs that undo their effect."""

    predictor: str
    walltime: int
    half: int | None
    minutes: int | None
    repaired: int | None


def gamed(spec: str, walltime: int = WALLTIME, honest: int = HONEST) -> Gamed:
    """The experiment with one predictor; the user's real job and the fakes ask for ``walltime``."""
    predictor = make(spec)
    now = 40 * 24 * HOUR
    for number in range(honest):
        predictor.learn(job("alice", end=now - (honest - number) * 10 * HOUR, runtime=RUNTIME, walltime=WALLTIME))
    target = RUNTIME * walltime // WALLTIME
    half = minutes = None
    fakes = 0
    while minutes is None and fakes < MAX_FAKES:
        fakes += 1
        now += 5
        predictor.learn(job("alice", end=now, runtime=1, walltime=walltime))
        seconds = asked(predictor, now, walltime)
        if seconds <= target / 2:
            half = half or fakes
        if seconds <= 1200:
            minutes = fakes
    repaired = None
    if half is not None:
        for number in range(1, MAX_FAKES):
            now += RUNTIME
            predictor.learn(job("alice", end=now, runtime=RUNTIME * walltime // WALLTIME, walltime=walltime))
            if asked(predictor, now, walltime) >= 0.9 * target:
                repaired = number
                break
    return Gamed(spec, walltime, half, minutes, repaired)


def asked(predictor: Predictor, now: int, walltime: int) -> int:
    """The soft walltime that the scheduler would plan with, the walltime where there is none."""
    submission = Submission("1.s", "alice", now, walltime, project="p")
    prediction = predictor.predict(submission, now)
    assert isinstance(prediction, NoPrediction) or prediction.seconds > 0
    return soft_walltime(prediction, submission) or walltime


def main() -> None:
    """Print the table."""
    rows = []
    for spec in PREDICTORS:
        same, other = gamed(spec), gamed(spec, OTHER)
        rows.append([spec, *map(shown, (same.half, same.minutes, same.repaired, other.half, other.minutes))])
    print(
        table(
            ["predictor", "fakes: half", "20 minutes", "honest jobs to repair", "own walltime: half", "20 minutes"],
            rows,
        )
    )


def shown(number: int | None) -> str:
    """A count for the table."""
    return f"over {MAX_FAKES}" if number is None else str(number)


if __name__ == "__main__":
    main()
