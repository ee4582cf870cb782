"""What completed jobs teach a model of runtimes, in the order of their events."""

from collections.abc import Collection, Sequence

from softwalltime.events import Kind
from softwalltime.forecast.like_waits import LikeWaits
from softwalltime.forecast.runtimes import RuntimeModel
from softwalltime.jobs import CompletedJob
from softwalltime.replay.workload import Workload
from softwalltime.states import TEACHING, State

_ENDED = int(Kind.ENDED)


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
    learnt = 0
    for stride in workload.stream():
        for kind, number, job in zip(stride.kinds, stride.numbers, stride.jobs, strict=True):
            time = workload.time(kind, number)
            if time > now:
                return learnt
            if kind == _ENDED:
                model.ended(job)
                if waits is not None and job.start is not None:
                    waits.started(job.submission, max(job.start - (job.etime or job.submission.submitted), 0))
                learnt += 1
            else:
                model.submitted(job.submission, time)
    return learnt
