"""A model of the queue together with jobs that come later."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from softwalltime.forecast.arrivals import Arrival
from softwalltime.forecast.queue_model import QueueModel, limit
from softwalltime.jobs import CompletedJob
from softwalltime.replay.job_columns import JobColumns
from softwalltime.simulation.jobs import Jobs

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ExtendedQueue:
    """A model with later jobs; ``places`` are the positions that the jobs of the queue have in it.

    ``runtimes`` are those of the later jobs in seconds, with 0 for the jobs of the queue.
    """

    model: QueueModel
    places: Integers
    runtimes: Integers


def extended(model: QueueModel, draws: Sequence[Sequence[Arrival]]) -> Iterator[ExtendedQueue]:
    """Yield the model with the jobs of each draw; jobs larger than the machine do not come."""
    jobs, base = model.jobs, len(model.jobs)
    possible = [
        [arrival for arrival in draw if model.processors_of(arrival.submission) <= model.processors] for draw in draws
    ]
    # Several draws repeat the same jobs: each is a record once.
    records: list[CompletedJob] = list(jobs.completed)
    known: dict[int, int] = {}
    for arrival in (arrival for draw in possible for arrival in draw):
        if id(arrival.submission) not in known:
            known[id(arrival.submission)] = len(records)
            records.append(CompletedJob(arrival.submission, "", None, model.now, 1))
    columns = JobColumns.of(records)
    delayed = [place for place in range(base) if jobs.submitted[place] > model.now]
    first = min(delayed, default=base)
    for draw in possible:
        submitted = [*jobs.submitted, *(model.now + arrival.after for arrival in draw)]
        order = [*range(first), *sorted(range(first, len(submitted)), key=submitted.__getitem__)]
        which = [*range(base), *(known[id(arrival.submission)] for arrival in draw)]
        processors = (*jobs.processors, *(model.processors_of(arrival.submission) for arrival in draw))
        walltime = (*jobs.walltime, *(limit(arrival.submission) for arrival in draw))
        shares = (*model.shares, *(model.shares_of(arrival.submission) for arrival in draw)) if model.shares else ()
        ordering = (*model.ordering, *(float(limit(arrival.submission)) for arrival in draw)) if model.ordering else ()
        priorities = (*jobs.priorities, *((0, 0) for _ in draw))
        runtimes = (*(0 for _ in range(base)), *(arrival.runtime for arrival in draw))
        joined = Jobs(
            columns.select(np.array([which[place] for place in order], np.int64)),
            tuple(submitted[place] for place in order),
            tuple(processors[place] for place in order),
            tuple(walltime[place] for place in order),
            (1,) * len(order),
            (False,) * len(order),
            {},
            tuple(priorities[place] for place in order) if jobs.priorities else (),
        )
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        yield ExtendedQueue(
            replace(
                model,
                jobs=joined,
                shares=tuple(shares[place] for place in order) if shares else (),
                ordering=tuple(ordering[place] for place in order) if ordering else (),
            ),
            places[:base], np.array([runtimes[place] for place in order], np.int64)
        )  # fmt: skip
