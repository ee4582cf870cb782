"""Input of the experiments: jobs of a trace, machine, seeds, processes, and estimates by replay."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from softwalltime.core.errors import OptionError, SourceError, UsageError
from softwalltime.core.formatting import plural
from softwalltime.core.jobs import CompletedJob
from softwalltime.core.progress import ShowProgress, no_progress
from softwalltime.core.states import TEACHING, State
from softwalltime.measure.experiments.papers import paper_text
from softwalltime.measure.experiments.result_tables import PaperResults, Table
from softwalltime.measure.replay.fast_replay import drive_specs
from softwalltime.measure.replay.workload import Workload
from softwalltime.measure.simulation.simulated_jobs import Floats, Integers, Jobs, jobs_of
from softwalltime.predict.predictors.registry import BASELINE, make


@dataclass(frozen=True, slots=True)
class Study:
    """A trace, and the settings of its simulation.

    ``completed``: its records.  ``jobs``: those that fit on ``processors``.  ``shake``: empty for the recorded
    workload; otherwise there is one shaken workload for each seed.  ``processes``: ``None``: one per core.
    """

    source: str
    completed: tuple[CompletedJob, ...]
    jobs: Jobs
    refused: int
    processors: int
    shake: str = ""
    seeds: tuple[int, ...] = (0,)
    processes: int | None = 1
    teaching: tuple[State, ...] = tuple(sorted(TEACHING))
    bar: ShowProgress = field(default=no_progress, compare=False)

    @property
    def workload(self) -> Workload:
        return Workload(self.completed, teaching=self.teaching)

    def results(
        self, paper: str, tables: Iterable[Table], settings: Mapping[str, object] = MappingProxyType({}),
        unavailable: Mapping[str, str] = MappingProxyType({}), differences: Sequence[str] = (),
    ) -> PaperResults:  # fmt: skip
        """Return the tables of a paper with its texts, with the settings of this study and ``settings``."""
        text = paper_text(paper)
        seeds = {"seeds": " ".join(map(str, self.seeds))} if self.shake else {}
        workload = f"shaken ({self.shake})" if self.shake else "as recorded"
        return PaperResults(
            paper, text.citation, self.source, len(self.jobs), self.refused, self.processors,
            {"workload": workload, **seeds, **settings}, (*text.differences, *differences), dict(unavailable),
            tuple(text.tables[table.key].completed(table) for table in tables),
        )  # fmt: skip


def study_of(
    source: str, completed: Iterable[CompletedJob], processors: int | None = None, limit: int | None = None,
    months: Sequence[int] = (), seeds: Sequence[int] = (), processes: int | None = 1,
    teaching: Iterable[State] = TEACHING, bar: ShowProgress = no_progress,
) -> Study:  # fmt: skip
    """Create the study of a trace.

    :param processors: size of the machine; by default the most in use at one time.
    :param limit: only the first so many jobs, in order of submission, of those months.
    :param months: calendar months of the trace (UTC) to use, counted from 1; all by default.
    :param seeds: a workload shaken by weeks for each; the recorded one if there are none.
    Jobs without a walltime are left out, as the papers do.

    :raises SourceError: if no job can be simulated.
    """
    records = sorted(completed, key=lambda job: job.submission.submitted)
    if months and records:
        labels = months_of([job.submission.submitted for job in records]).tolist()
        names = list(dict.fromkeys(labels))
        for month in months:
            if not 1 <= month <= len(names):
                raise UsageError(f"{source} spans {plural(len(names), 'month')}: there is no month {month}")
        wanted = {names[month - 1] for month in months}
        records = [job for job, label in zip(records, labels, strict=True) if label in wanted]
    records = records[:limit]
    jobs = jobs_of(records, tuple(teaching), limited_only=True)
    if not len(jobs):
        raise SourceError(f"no job in {source} has a runtime, a walltime and processors")
    size = processors or jobs.peak()
    jobs, refused = jobs.that_fit(size)
    if not len(jobs):
        raise UsageError(f"every job of {source} is larger than {plural(size, 'processor')}: correct --processors")
    return Study(
        source, tuple(records), jobs, refused, size, "week" if seeds else "", tuple(seeds) or (0,),
        processes=processes, teaching=tuple(sorted(teaching)), bar=bar,
    )  # fmt: skip


def available(specs: Iterable[str]) -> tuple[list[str], dict[str, str]]:
    """Return the predictors that can be used here, and the reason for each of the others: a missing package."""
    usable: list[str] = []
    missing: dict[str, str] = {}
    for spec in specs:
        try:
            make(spec)
        except OptionError as error:
            missing[spec] = str(error)
        else:
            usable.append(spec)
    return usable, missing


def months_of(times: Sequence[int]) -> NDArray[np.str_]:
    """Return the calendar months (UTC) of times in epoch seconds, as sortable texts.

    >>> months_of([1_700_000_000]).tolist()
    ['2023-11']
    """
    return np.array(times, "datetime64[s]").astype("datetime64[M]").astype(str)


@dataclass(frozen=True, slots=True)
class ScoredJobs:
    """The scored jobs of a workload, in order of submission.

    ``runtime`` is capped at the ``walltime``, ``recorded`` is not.  ``estimate`` has the soft walltimes by predictor,
    or the walltime if there is none.  ``submitted`` in epoch seconds.
    """

    walltime: Integers
    runtime: Integers
    recorded: Integers
    estimate: dict[str, Integers]
    submitted: Integers
    processors: Integers
    users: list[str]
    queues: list[str]

    def errors(self, spec: str) -> Integers:
        """Estimate minus runtime of each job, in seconds: negative where underestimated."""
        return self.estimate[spec] - self.runtime


def estimates(study: Study, specs: list[str]) -> ScoredJobs:
    """Replay the trace through each predictor; ``request``, the walltime, comes first."""
    workload = study.workload
    index = np.flatnonzero(workload.scored)
    walltime = workload.walltime[index]
    predicted = {BASELINE: walltime}
    with study.bar("replaying", len(specs) * len(workload.jobs)) as progress:
        for spec, result in drive_specs(workload, specs, progress=progress).items():
            soft = result.soft_walltimes[index]
            predicted[spec] = np.where(soft < 0, walltime, soft)
    recorded = workload.runtime[index]
    jobs = workload.jobs.select(index)
    return ScoredJobs(
        walltime, np.minimum(recorded, walltime), recorded, predicted, workload.submitted[index], jobs.numbers("ncpus"),
        [job.submission.user for job in jobs], [job.submission.queue for job in jobs],
    )  # fmt: skip


def mean_of(values: NDArray[np.bool_] | Floats | Integers) -> float | None:
    return float(values.mean()) if len(values) else None
