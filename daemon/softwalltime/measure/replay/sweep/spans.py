"""Divide a long log into spans of time that are replayed apart, each with the earlier jobs that its predictor needs.

A predictor names the history that suffices to answer like one that has learnt all jobs; the daemon loads only that at
its start.  A span begins with the same jobs, so its predictions are those of one replay of the whole log.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from softwalltime.core.states import State
from softwalltime.measure.replay.job_columns import JobColumns
from softwalltime.measure.replay.parquet import read_groups
from softwalltime.measure.replay.workload import Workload
from softwalltime.predict.predictors.base import History

GROUPS = 4
"""Row groups of a span: a million jobs, which take seconds to some minutes."""
_DECIDING = ("user", "submitted", "start", "end", "runtime", "walltime", "exit_status")
"""Columns that decide which jobs a predictor needs."""
_RUN = np.dtype([("user", np.int64), ("ended", np.int64), ("group", np.int64), ("index", np.int64), ("had", np.bool_)])
"""A run that teaches: its user and end, its place in the file, and whether it had a walltime."""


@dataclass(frozen=True, slots=True)
class LogSpan:
    """The jobs of the row groups from ``first`` to before ``last``, and the earlier jobs that the predictor needs.

    These are, of each row group in ``earlier``, the jobs with the given indexes, and all that ended at ``since`` (epoch
    seconds) or later.  ``scored``: the number of scored jobs before the span.
    """

    first: int
    last: int
    jobs: int
    scored: int
    since: int
    earlier: Mapping[int, NDArray[np.int32]]


def spans_of(path: Path, teaching: Collection[State], histories: Collection[History]) -> dict[History, list[LogSpan]]:
    """Return the spans of a file that is sorted by submission, for predictors that need these bounded histories.

    :raises SourceError: if the file cannot be read.
    """
    spans: dict[History, list[LogSpan]] = {history: [] for history in histories}
    known = _EarlierJobs(histories)
    jobs, scored = [0], [0]
    for group, of_group in enumerate(read_groups(path, _DECIDING)):
        part = Workload(of_group, None, teaching)
        if group % GROUPS == 0:
            known.forget(int(part.submitted[0]))
            for history, listed in spans.items():
                listed.append(LogSpan(group, 0, 0, 0, *known.needed(history)))
        known.add(group, part)
        jobs.append(jobs[-1] + len(part))
        scored.append(scored[-1] + int(np.count_nonzero(part.scored)))
    return {history: [_closed(span, jobs, scored) for span in listed] for history, listed in spans.items()}


def _closed(span: LogSpan, jobs: list[int], scored: list[int]) -> LogSpan:
    """Return the span with its end, from the number of jobs and of scored jobs before each row group."""
    last = min(span.first + GROUPS, len(jobs) - 1)
    return replace(span, last=last, jobs=jobs[last] - jobs[span.first], scored=scored[span.first])


def load_span(path: Path, span: LogSpan, teaching: Collection[State]) -> tuple[Workload, int]:
    """Return the jobs of the span after the earlier ones, and the number of the latter.

    :raises SourceError: if the file cannot be read.
    """
    parts = []
    for jobs, indexes in zip(read_groups(path, which=list(span.earlier)), span.earlier.values(), strict=True):
        needed = Workload(jobs).ended >= span.since
        needed[indexes] = True
        parts.append(jobs.select(np.flatnonzero(needed)))
    before = sum(map(len, parts))
    parts += read_groups(path, which=range(span.first, span.last))
    return Workload(JobColumns.joined(parts), None, teaching), before


class _EarlierJobs:
    """Those of the jobs read so far that a predictor of one of these histories may need from now on."""

    def __init__(self, histories: Iterable[History]) -> None:
        self._per_user = max((history.per_user or 0 for history in histories), default=0)
        self._most = max((history.most or 0 for history in histories), default=0)
        self._codes: defaultdict[str, int] = defaultdict(count().__next__)
        self._runs, self._ends = np.empty(0, _RUN), np.empty(0, np.int64)
        self._latest: list[int] = []
        """The latest end of the jobs of each row group."""
        self._now = 0

    def add(self, group: int, part: Workload) -> None:
        self._latest.append(int(part.ended.max()))
        if self._most:
            self._ends = np.concatenate([self._ends, part.ended])
        if self._per_user:
            users = np.fromiter(map(self._codes.__getitem__, part.jobs.values("user")), np.int64, len(part))
            which = np.flatnonzero(part.teaches & (part.runtime > 0))
            runs = np.empty(len(which), _RUN)
            columns = {"user": users, "ended": part.ended, "index": np.arange(len(part)), "had": part.walltime > 0}
            for name, values in columns.items():
                runs[name] = values[which]
            runs["group"] = group
            self._runs = np.concatenate([self._runs, runs])

    def forget(self, now: int) -> None:
        """Drop what no span that begins at this time (epoch seconds) or later needs."""
        self._now = now
        self._runs = self._runs[self._last_runs(self._per_user) | (self._runs["ended"] >= now)]
        self._ends = self._ends[self._ends >= self._since_last(self._most) - 1]

    def needed(self, history: History) -> tuple[int, dict[int, NDArray[np.int32]]]:
        """Return since when all ended jobs are needed, and by row group the indexes of other jobs."""
        since = self._now - (history.seconds or 0)
        if history.most is not None:
            since = max(since, self._since_last(history.most))
        runs = self._runs[self._last_runs(history.per_user or 0)]
        runs = runs[runs["ended"] < since]
        # Jobs that have not ended are needed too, because they may end within the span.
        groups = {*np.unique(runs["group"]).tolist(), *(g for g, end in enumerate(self._latest) if end >= since)}
        indexes = runs["index"].astype(np.int32)
        return since, {group: np.sort(indexes[runs["group"] == group]) for group in sorted(groups)}

    def _since_last(self, most: int) -> int:
        """Return since when the last so many jobs have ended, epoch seconds; 0: there are no more."""
        ended = self._ends[self._ends <= self._now]
        return int(np.partition(ended, -most - 1)[-most - 1]) + 1 if len(ended) > most else 0

    def _last_runs(self, per_user: int) -> NDArray[np.bool_]:
        """Return which of the runs are the last ``per_user`` of a user that have ended, or that also had a walltime."""
        ended = self._runs["ended"] < self._now
        last = np.zeros(len(self._runs), np.bool_)
        for which in map(np.flatnonzero, (ended, ended & self._runs["had"])):
            runs = self._runs[which]
            order = np.lexsort((-runs["ended"], runs["user"]))
            _, first, number = np.unique(runs["user"][order], return_index=True, return_counts=True)
            if per_user and len(order):
                # With those that ended at once with the last of them.
                oldest = runs["ended"][order][first + np.minimum(per_user, number) - 1]
                last[which[order]] |= runs["ended"][order] >= np.repeat(oldest, number)
        return last
