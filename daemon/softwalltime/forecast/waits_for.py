"""What a waiting job waits for, in one sentence."""

import numpy as np

from softwalltime.forecast.queue_model import ModelledQueue
from softwalltime.forecast.start_times import StartForecast
from softwalltime.formatting import local_time, percent, plural


def waits_for(queue: ModelledQueue, starts: StartForecast, position: int) -> str:
    """Return why the job at this position starts when it is expected to.

    :param position: of the job in the model, after the running jobs.
    """
    model = queue.model
    first = model.running
    start = int(starts.point[position - first])
    submitted = model.jobs.submitted[position]
    if start <= model.now:
        return "enough processors are free: starts at the next scheduling cycle"
    if start == submitted:
        return f"delayed until {local_time(submitted, model.now)} (qsub -a)"
    behind = _behind(queue, starts, position)
    reserved = [] if model.pooling is None else model.pooling.reservations
    ended_reservation = next((reservation for reservation in reserved if reservation.end == start), None)
    if ended_reservation is not None:
        moment = local_time(start, model.now)
        return f"{behind}; reservation {ended_reservation.name} ends at {moment}"
    ended = np.flatnonzero(starts.ends[: len(model.jobs)] == start)
    ended = ended[ended != position]
    if not len(ended):
        return f"{behind}; starts when its walltime fits before the jobs ahead"
    freed = sum(model.jobs.processors[job] for job in ended.tolist())
    last = max(ended.tolist(), key=lambda job: model.jobs.processors[job])
    name = queue.live[last].submission.job_id
    others = f" and {plural(len(ended) - 1, 'other')}" if len(ended) > 1 else ""
    moment = local_time(start, model.now)
    come, end = "comes" if freed == 1 else "come", "end" if others else "ends"
    sentence = f"{behind}; {plural(freed, 'processor')} {come} free at {moment} when {name}{others} {end}"
    if last < first and len(starts.sampled_ends):
        likely = float((starts.sampled_ends[:, last] <= start).mean())
        sentence += f", by then with probability {percent(likely, 0)}"
    return sentence


def _behind(queue: ModelledQueue, forecast: StartForecast, position: int) -> str:
    """How many jobs are ahead of it and start before it, and of which queue if it is one."""
    first, now = queue.model.running, queue.model.now
    own = forecast.point[position - first]
    starts = forecast.point if queue.model.policy.order != "fcfs" else forecast.point[: position - first]
    before = (starts > now) & (starts <= own)
    before[position - first :][:1] = False
    ahead = [first + index for index in np.flatnonzero(before).tolist()]
    if not ahead:
        return "first in the queue" if position == first else "by backfilling"
    names = {queue.live[job].submission.queue for job in ahead}
    of = f" of queue {next(iter(names))}" if len(names) == 1 and "" not in names else ""
    return f"behind {plural(len(ahead), 'job')}{of}"
