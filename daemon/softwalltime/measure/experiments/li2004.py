"""Li, Chen, Tao, Groep & Wolters, "Predicting job start times on clusters" (2004).

Runtimes are predicted from like jobs (section 2), and start times by simulating the scheduler from the state of the
queue with predicted runtimes (sections 3 and 4).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from softwalltime.measure.experiments.result_tables import Cell, Column, PaperResults, Table
from softwalltime.measure.experiments.study import Study, available, estimates, mean_of
from softwalltime.measure.simulation.differences import Interval, interval
from softwalltime.measure.simulation.engine import Engine, ScheduleOutcome
from softwalltime.measure.simulation.machine import Processors
from softwalltime.measure.simulation.policies import RUNTIME, WALLTIME, SchedulerPolicy
from softwalltime.measure.simulation.runs import run
from softwalltime.measure.simulation.shaking import shaken
from softwalltime.measure.simulation.simulated_jobs import Integers, Jobs
from softwalltime.predict.drive import PredictorDriver
from softwalltime.predict.policy.clamp import soft_walltime
from softwalltime.predict.predictors.base import Predictor
from softwalltime.predict.predictors.registry import BASELINE, make

CITATION = "Li, Chen, Tao, Groep & Wolters, CCGrid 2004"
COMPARED = (
    "templates", "templates:method=lsterr", "last2", "usage", "percentile:p=50", "memorizer:window=30d",
)  # fmt: skip
"""The paper's AVER and LSTERR with the templates of its DAS-2 clusters, and others."""
TEMPLATES = ("group", "group+user", "group+user+job_name", "group+user+queue", "group+user+job_name+ncpus",
             "group+user+queue+job_name+ncpus")  # fmt: skip
"""Templates 1 to 6 of figures 1 to 3."""
ESTIMATORS = ("wm1", "wm5", "lr5")
LINEAR = "linear scale"
"""The EDG's prediction, as far as the paper describes it."""
SAMPLE = 1000
"""Submissions at which start times are predicted, spread evenly over each workload."""
POLICY = SchedulerPolicy()
"""The site's scheduler: first come, first served, EASY, walltimes."""

DIFFERENCES = (
    (
        "The paper predicts for one grid site (NIKHEF, 20 CPUs, PBS with Maui, fair share and limits). Here the "
        "site's scheduler is simulated too: first come, first served, EASY, planning with walltimes; predictions "
        "are compared with the starts in that schedule."
    ),
    (
        f"Start times are predicted at {SAMPLE} submissions, spread evenly over each workload and without the first "
        "1%, for the very job that was submitted, in place of probe jobs for each group."
    ),
    "A running job that has outlived its prediction is given the next whole multiple of it.",
    (
        "No job that comes later is foreseen, here as in the paper. Under first come, first served it can delay the "
        "job only by being backfilled."
    ),
    "The linear scale is our reading of section 1: requested processor-seconds ahead over processors.",
)


def repeat(study: Study, more: Sequence[str] = ()) -> PaperResults:
    """Repeat figures 1 to 4 and tables 2 and 4."""
    usable, missing = available([*COMPARED, *more])
    single, best = _templates(study)
    settings: dict[str, object] = {"sampled submissions": min(SAMPLE, len(study.jobs))}
    tables = (single, _runtimes(study, [*usable, best]), _starts(study, usable))
    return study.results("li2004", CITATION, DIFFERENCES, tables, missing, settings)


def _templates(study: Study) -> tuple[Table, str]:
    """Figures 1 to 3, and the best single template with its estimator (the paper's TEMP-EST) as a predictor."""
    specs = {
        (template, estimator): f"templates:templates={template},estimators={estimator}"
        for template in TEMPLATES
        for estimator in ESTIMATORS
    }
    predicted = estimates(study, list(specs.values()))
    errors = {pair: float(np.abs(predicted.errors(spec)).mean()) for pair, spec in specs.items()}
    columns = (
        Column("template", "template"),
        *(Column(estimator, f"{estimator[:2].upper()}({estimator[2:]})", "duration") for estimator in ESTIMATORS),
        Column("adjusted", "not the walltime", "share"),
    )
    rows: list[tuple[Cell, ...]] = []
    for template in TEMPLATES:
        other = float((predicted.estimate[specs[template, "wm1"]] != predicted.walltime).mean())
        rows.append((template, *(errors[template, estimator] for estimator in ESTIMATORS), other))
    published = (
        "WM(1) and LR(5) are the best estimators; finer templates are better, on the DAS-2 clusters down to number of "
        "CPUs (figures 1 to 3). Here a job without a like one has its walltime."
    )
    title = "Figures 1 to 3: mean absolute error of predicted runtimes by template and estimator"
    return Table("fig1_3", title, columns, tuple(rows), published), specs[min(errors, key=errors.__getitem__)]


def _runtimes(study: Study, specs: list[str]) -> Table:
    predicted = estimates(study, specs)
    mean = mean_of(predicted.runtime)
    rows: list[tuple[Cell, ...]] = []
    for spec in predicted.estimate:
        error = mean_of(np.abs(predicted.errors(spec)))
        rows.append((spec, error, mean, error / mean if error is not None and mean else None))
    columns = (
        Column("predictor", "predictor"), Column("mae", "mean abs. error", "duration"),
        Column("runtime", "mean runtime", "duration"), Column("relative", "error / mean runtime", "share"),
    )  # fmt: skip
    published = (
        f"{BASELINE} (walltimes) 150,100 s, 11,960 s and 3,318 s on three clusters; templates 13.8%, 32.5% and 35.3% "
        "of the mean runtime (table 2); the error of AVER is the least, that of LSTERR larger (figure 4)."
    )
    return Table("table2", "Table 2: errors of predicted runtimes", columns, tuple(rows), published)


def sampled(jobs: Jobs, count: int = SAMPLE) -> list[int]:
    """Positions of jobs spread evenly, without the first 1%."""
    first = len(jobs) // 100
    return sorted(set(np.linspace(first, len(jobs) - 1, min(count, len(jobs) - first)).astype(int).tolist()))


def _starts(study: Study, specs: Sequence[str]) -> Table:
    names = [LINEAR, WALLTIME, *specs, RUNTIME]
    relative: dict[str, list[float]] = {name: [] for name in names}
    absolute: dict[str, list[float]] = {name: [] for name in names}
    high: dict[str, list[float]] = {name: [] for name in names}
    mean_waits: list[float] = []
    with study.bar("predicting starts", len(study.seeds) * len(names)) as progress:
        for seed in study.seeds:
            jobs = shaken(study.jobs, study.shake, seed)
            waits, predicted = predicted_waits(study, jobs, specs, progress)
            mean_waits.append(float(waits.mean()))
            for name, values in predicted.items():
                error = values - waits
                absolute[name].append(float(np.abs(error).mean()))
                high[name].append(float((error > 0).mean()))
                if waits.mean():
                    relative[name].append(float(np.abs(error).mean() / waits.mean()))
    rows = tuple(
        (
            name, _mean(absolute[name]), _mean(mean_waits), _mean(relative[name]), _shown(interval(relative[name])),
            _mean(high[name]),
        )
        for name in names
    )  # fmt: skip
    columns = (
        Column("source", "runtimes from"), Column("mae", "mean abs. error", "duration"),
        Column("wait", "mean wait", "duration"), Column("relative", "error / mean wait", "share"),
        Column("interval", "95% interval"), Column("high", "predicted too late", "share"),
    )  # fmt: skip
    published = (
        "templates 15,276 s at a mean wait of 81,061 s, or 18.9%; the EDG's linear scale 325,144 s (table 4). "
        f"{RUNTIME} is the bound: what is left are backfilled later jobs."
    )
    return Table("table4", "Table 4: errors of predicted start times", columns, rows, published)


def predicted_waits(
    study: Study, jobs: Jobs, specs: Sequence[str], progress: Callable[[int], None] = lambda _: None
) -> tuple[NDArray[np.int64], dict[str, NDArray[np.float64]]]:
    """Return the actual waits of the sampled jobs, and predicted waits by source of runtimes."""
    size = study.processors
    outcome = run(jobs, size, POLICY)
    sample = states(jobs, outcome, sampled(jobs))
    predicted = {LINEAR: np.array([work_ahead(jobs, outcome, state, size) for state in sample], np.float64)}
    for name in (WALLTIME, *specs, RUNTIME):
        if name == RUNTIME:
            runtimes = actual_runtimes(outcome, sample)
        else:
            predictor = None if name == WALLTIME else make(name)
            runtimes = predicted_runtimes(jobs, outcome, sample, predictor)
        waits = [
            forward(jobs, outcome, state, remaining, waiting, size, POLICY)
            for state, (remaining, waiting) in zip(sample, runtimes, strict=True)
        ]
        predicted[name] = np.array(waits, np.float64)
        progress(1)
    return waits_of(outcome, sample), predicted


def _mean(values: Sequence[float]) -> float | None:
    return mean_of(np.array(values))


def _shown(found: Interval) -> str:
    return "" if found.low is None or found.high is None else f"{found.low:.1%} to {found.high:.1%}"


@dataclass(frozen=True, slots=True)
class QueueState:
    """The queue when a job is submitted: positions of the running and the waiting jobs, the submitted one last.

    ``now`` is the submission in epoch seconds; ends at that instant have happened, starts have not.
    """

    now: int
    running: tuple[int, ...]
    waiting: tuple[int, ...]


def states(jobs: Jobs, outcome: ScheduleOutcome, sample: Sequence[int]) -> list[QueueState]:
    """Return the state of the queue at the submission of each job of the sample, whose positions ascend."""
    end = outcome.start + outcome.duration
    queue_states = []
    first = 0
    for job in sample:
        now = jobs.submitted[job]
        # Jobs before ``first`` have ended by now, and stay so.
        while first < job and end[first] <= now:
            first += 1
        known = np.arange(first, job + 1)
        started, ended = outcome.start[known] < now, end[known] <= now
        running = known[started & ~ended]
        running = running[np.argsort(outcome.start[running], kind="stable")]
        queue_states.append(QueueState(now, tuple(running.tolist()), tuple(known[~started].tolist())))
    return queue_states


def predicted_runtimes(
    jobs: Jobs, outcome: ScheduleOutcome, sample: Sequence[QueueState], predictor: Predictor | None
) -> list[tuple[list[int], list[int]]]:
    """Return predicted remaining runtimes of the running jobs and runtimes of the waiting jobs of each state, seconds.

    A predictor has learnt the jobs that ended in the schedule by then; ``None``: the walltime.  A job that outlives its
    prediction gets the next whole multiple, as in PBS, up to the walltime.
    """
    completed = jobs.completed
    ends = (outcome.start + outcome.duration).tolist()
    by_end = sorted(range(len(jobs)), key=ends.__getitem__) if predictor is not None else []
    driver = PredictorDriver({} if predictor is None else {"": predictor})
    learnt = 0
    runtimes = []
    for state in sample:
        now = state.now
        while learnt < len(by_end) and ends[by_end[learnt]] <= now:
            job = by_end[learnt]
            learnt += 1
            start, end = int(outcome.start[job]), ends[job]
            taught = replace(completed[job], start=start, end=end, runtime=end - start) if jobs.teaches[job] else None
            driver.step(end, job=taught)
        driver.fit_due(now)

        def runtime(job: int, elapsed: int, now: int = now) -> int:
            limit = jobs.walltime[job]
            if predictor is None:
                return limit
            submission = completed[job].submission
            value = soft_walltime(driver.predict("", submission, now, elapsed), submission) or limit
            return min(limit, value * (elapsed // value + 1))

        remaining = []
        for job in state.running:
            elapsed = now - int(outcome.start[job])
            remaining.append(max(runtime(job, elapsed) - elapsed, 1))
        runtimes.append((remaining, [runtime(job, 0) for job in state.waiting]))
    return runtimes


def actual_runtimes(outcome: ScheduleOutcome, sample: Sequence[QueueState]) -> list[tuple[list[int], list[int]]]:
    """Return the actual runtimes in the same form: a bound for every predictor."""
    end = outcome.start + outcome.duration
    return [
        ([int(end[job]) - state.now for job in state.running], [int(outcome.duration[job]) for job in state.waiting])
        for state in sample
    ]


def forward(
    jobs: Jobs, outcome: ScheduleOutcome, state: QueueState, remaining: Sequence[int], runtimes: Sequence[int],
    processors: int, policy: SchedulerPolicy,
) -> int:  # fmt: skip
    """Return the predicted wait of a job that was just submitted, in seconds.

    The simulated scheduler plans with walltimes, jobs run for their predicted runtimes, and no further job is
    submitted.
    """
    starts = outcome.start[list(state.running)].tolist()
    total = (state.now - start + seconds for start, seconds in zip(starts, remaining, strict=True))
    queue = replace(jobs.chosen([*state.running, *state.waiting]), runtime=(*total, *runtimes))
    engine = Engine(queue, Processors(processors, queue.processors), policy)
    engine.resume(starts, queue.walltime[: len(starts)], state.now)
    return int(engine.run(until=[len(queue) - 1]).start[-1]) - state.now


def work_ahead(jobs: Jobs, outcome: ScheduleOutcome, state: QueueState, processors: int) -> float:
    """Return the wait by a linear scale: processor-seconds requested ahead of the job, divided by the processors.

    This is the EDG middleware's method according to section 1: walltimes and the jobs in the queue.
    """
    work = sum(
        jobs.processors[job] * max(jobs.walltime[job] - (state.now - int(outcome.start[job])), 0)
        for job in state.running
    )
    work += sum(jobs.processors[job] * jobs.walltime[job] for job in state.waiting[:-1])
    return work / processors


def waits_of(outcome: ScheduleOutcome, sample: Sequence[QueueState]) -> Integers:
    return np.array([int(outcome.start[state.waiting[-1]]) - state.now for state in sample], np.int64)
