"""What completed jobs teach a model of runtimes, in the order of their events."""

from collections.abc import Collection, Iterable, Sequence

from softwalltime.events import Kind
from softwalltime.forecast.like_waits import LikeWaits
from softwalltime.forecast.runtimes import RuntimeModel
from softwalltime.forecast.snapshot import LiveJob
from softwalltime.jobs import CompletedJob
from softwalltime.replay.workload import Workload
from softwalltime.states import TEACHING, State


def learn_history(
    model: RuntimeModel,
    completed: Sequence[CompletedJob],
    now: int,
    teaching: Collection[State] = TEACHING,
    waits: LikeWaits | None = None,
) -> int:
    """Let a model predict each job at its submission and learn it at its end; return how many jobs it learnt.

    :param now: what happened later is not used (epoch seconds).
    :param waits: learns how long each job waited.
    """
    workload = Workload(completed, teaching=teaching)
    teaches = workload.teaches.tolist()
    learnt = 0
    for stride in workload.stream(everything=True):
        for kind, number, job in zip(stride.kinds, stride.numbers, stride.jobs, strict=True):
            time = workload.time(kind, number)
            if time > now:
                return learnt
            match kind:
                case Kind.SUBMITTED:
                    model.submitted(job.submission, time)
                case Kind.STARTED:
                    model.started(job.submission, time)
                    if waits is not None:
                        waits.started(job.submission, max(time - (job.etime or job.submission.submitted), 0))
                case Kind.DELETED:
                    model.deleted(job.submission, time)
                case _:
                    model.ended(job, teaches=teaches[number])
                    learnt += teaches[number]
    return learnt


def note_live(model: RuntimeModel, jobs: Iterable[LiveJob]) -> None:
    """Let a model know the jobs that wait and run now."""
    for job in jobs:
        model.submitted(job.submission, job.submission.submitted)
        if job.occupies and job.start is not None:
            model.started(job.submission, job.start)
