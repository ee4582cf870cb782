"""Li, Chen, Tao, Groep & Wolters, "Predicting job start times on clusters" (2004).

Runtimes are predicted from like jobs (section 2), and start times by simulating the scheduler from the state of the
queue with predicted runtimes (sections 3 and 4).
"""

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import process_time

import numpy as np

from softwalltime.measure.experiments.distributions import by_predictor
from softwalltime.measure.experiments.result_tables import Cell, PaperResults, Table
from softwalltime.measure.experiments.study import Study, available, estimates, mean_of
from softwalltime.measure.simulation.differences import Interval, interval
from softwalltime.measure.simulation.engine import Engine, ScheduleOutcome
from softwalltime.measure.simulation.machine import Processors
from softwalltime.measure.simulation.policies import RUNTIME, WALLTIME, SchedulerPolicy
from softwalltime.measure.simulation.runs import run
from softwalltime.measure.simulation.shaking import shaken
from softwalltime.measure.simulation.simulated_jobs import Floats, Integers, Jobs, starts_of
from softwalltime.predict.drive import PredictorDriver
from softwalltime.predict.policy.clamp import soft_walltime
from softwalltime.predict.predictors.base import Predictor
from softwalltime.predict.predictors.registry import make

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
TIMED = 100
"""Predictions whose processor time is measured."""
POLICY = SchedulerPolicy()
"""The site's scheduler: first come, first served, EASY, walltimes."""
Probe = tuple[int, int]
"""Processors and walltime in seconds of a probe job."""
Runtimes = list[tuple[list[int], list[int]]]
"""For each state, remaining runtimes of the running jobs and runtimes of the waiting jobs in seconds."""


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
) -> Runtimes:
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


def actual_runtimes(outcome: ScheduleOutcome, sample: Sequence[QueueState]) -> Runtimes:
    """Return the actual runtimes in the same form: a bound for every predictor."""
    end = outcome.start + outcome.duration
    return [
        ([int(end[job]) - state.now for job in state.running], [int(outcome.duration[job]) for job in state.waiting])
        for state in sample
    ]


def forward(
    jobs: Jobs, outcome: ScheduleOutcome, state: QueueState, remaining: Sequence[int], runtimes: Sequence[int],
    processors: int, policy: SchedulerPolicy, probe: Probe | None = None,
) -> int:  # fmt: skip
    """Return the predicted wait of a job that was just submitted, in seconds.

    The simulated scheduler plans with walltimes, jobs run for their predicted runtimes, and no further job is
    submitted.

    :param probe: processors and walltime of a probe in place of the submitted job.
    """
    starts = outcome.start[list(state.running)].tolist()
    total = (state.now - start + seconds for start, seconds in zip(starts, remaining, strict=True))
    queue = replace(jobs.chosen([*state.running, *state.waiting]), runtime=(*total, *runtimes))
    if probe is not None:
        sizes, limits = (*queue.processors[:-1], probe[0]), (*queue.walltime[:-1], probe[1])
        queue = replace(queue, processors=sizes, walltime=limits)
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


def recorded_schedule(jobs: Jobs) -> ScheduleOutcome:
    """Return the starts and runtimes of the records as a schedule."""
    none = np.zeros(len(jobs), np.int64)
    start, duration = starts_of(jobs.completed), np.array(jobs.runtime, np.int64)
    return ScheduleOutcome(start, duration, none, none > 0, none, none, 0.0)


def probes_of(jobs: Jobs, submitted: Sequence[int]) -> list[Probe | None]:
    """Return the probe of each submission: the median processors and walltime of the user's last ten jobs before it.

    ``None`` where the user has none.
    """
    found: dict[int, Probe | None] = dict.fromkeys(submitted)
    last: dict[str, deque[int]] = {}
    for job, user in enumerate(record.submission.user for record in jobs.completed):
        before = last.setdefault(user, deque(maxlen=10))
        if before and job in found:
            sizes, limits = (sorted(column[index] for index in before) for column in (jobs.processors, jobs.walltime))
            found[job] = sizes[len(before) // 2], limits[len(before) // 2]
        before.append(job)
    return [found[job] for job in submitted]


def runtimes_from(name: str, jobs: Jobs, outcome: ScheduleOutcome, sample: Sequence[QueueState]) -> Runtimes:
    """Return the runtimes of the jobs of each state from a source: the walltime, a predictor, or what was recorded."""
    if name == RUNTIME:
        return actual_runtimes(outcome, sample)
    return predicted_runtimes(jobs, outcome, sample, None if name == WALLTIME else make(name))


def repeat(study: Study, more: Sequence[str] = ()) -> PaperResults:
    """Repeat figures 1 to 4 and tables 2 to 4."""
    usable, missing = available([*COMPARED, *more])
    single, best = _templates(study)
    settings = {"sampled submissions": min(SAMPLE, len(study.jobs))}
    tables = (single, _runtimes(study, [*usable, best]), _speed(study), _starts(study, usable), _recorded(study))
    return study.results("li2004", tables, settings, missing)


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
        "template",
        *(f"{estimator}|{estimator[:2].upper()}({estimator[2:]})|duration" for estimator in ESTIMATORS),
        "adjusted|not the walltime|share",
    )
    rows: list[tuple[Cell, ...]] = []
    for template in TEMPLATES:
        other = float((predicted.estimate[specs[template, "wm1"]] != predicted.walltime).mean())
        rows.append((template, *(errors[template, estimator] for estimator in ESTIMATORS), other))
    return Table("fig1_3", columns, rows), specs[min(errors, key=errors.__getitem__)]


def _runtimes(study: Study, specs: list[str]) -> Table:
    predicted = estimates(study, specs)
    mean = mean_of(predicted.runtime) or 1.0
    errors = {spec: float(np.abs(predicted.errors(spec)).mean()) for spec in predicted.estimate}
    figures: dict[str, Callable[[str], Cell]] = {
        "mae|mean abs. error|duration": lambda spec: errors[spec], "runtime|mean runtime|duration": lambda _: mean,
        "relative|error / mean runtime|share": lambda spec: errors[spec] / mean,
    }  # fmt: skip
    return Table("table2", *by_predictor(predicted, figures))


def sampled(jobs: Jobs, count: int = SAMPLE) -> list[int]:
    """Positions of jobs spread evenly, without the first 1%."""
    first = len(jobs) // 100
    return sorted(set(np.linspace(first, len(jobs) - 1, min(count, len(jobs) - first)).astype(int).tolist()))


def _speed(study: Study) -> Table:
    """Table 3: processor time of a prediction, from the state of the queue to the predicted start."""
    jobs, size, times = study.jobs, study.processors, list[float]()
    outcome = run(jobs, size, POLICY)
    sample = states(jobs, outcome, sampled(jobs, TIMED))
    for state, (remaining, waiting) in zip(sample, predicted_runtimes(jobs, outcome, sample, None), strict=True):
        begin = process_time()
        forward(jobs, outcome, state, remaining, waiting, size, POLICY)
        times.append(1000 * (process_time() - begin))
    queue = sum(len(state.waiting) for state in sample) / len(sample)
    columns = (
        "predictions||count", "waiting|mean waiting jobs|number", "mean|mean processor time (ms)|number",
        "max|longest (ms)|number",
    )  # fmt: skip
    return Table("table3", columns, [(len(times), queue, sum(times) / len(times), max(times))])


def _starts(study: Study, specs: Sequence[str]) -> Table:
    names = [LINEAR, WALLTIME, *specs, RUNTIME]
    relative, absolute, high = (defaultdict[str, list[float]](list) for _ in range(3))
    mean_waits: list[float] = []
    with study.bar("predicting starts", len(study.seeds) * len(names)) as progress:
        for seed in study.seeds:
            jobs = shaken(study.jobs, study.shake, seed)
            outcome = run(jobs, study.processors, POLICY)
            waits, predicted = predicted_waits(study.processors, jobs, outcome, names[1:], progress=progress)
            mean_waits.append(float(waits.mean()))
            for name, values in predicted.items():
                error = values - waits
                absolute[name].append(float(np.abs(error).mean()))
                high[name].append(float((error > 0).mean()))
                if waits.mean():
                    relative[name].append(float(np.abs(error).mean() / waits.mean()))
    linear = sum(absolute[LINEAR])
    rows = [
        (
            name, _mean(absolute[name]), _mean(mean_waits), _mean(relative[name]), _shown(interval(relative[name])),
            _mean(high[name]), linear / sum(absolute[name]) if sum(absolute[name]) else None,
        )
        for name in names
    ]  # fmt: skip
    columns = (
        "source|runtimes from", "mae|mean abs. error|duration", "wait|mean wait|duration",
        "relative|error / mean wait|share", "interval|95% interval", "high|predicted too late|share",
        "smaller|linear scale's error / this|number",
    )  # fmt: skip
    return Table("table4", columns, rows)


def _recorded(study: Study) -> Table:
    """Table 4 on the recorded starts, predicted with probe jobs and with the submitted jobs."""
    jobs, names = study.jobs, [WALLTIME, COMPARED[0], RUNTIME]
    outcome, probes = recorded_schedule(jobs), probes_of(jobs, sampled(jobs))
    waits, probed = predicted_waits(study.processors, jobs, outcome, names, probes)
    _, themselves = predicted_waits(study.processors, jobs, outcome, names)
    mean = float(waits.mean()) or 1.0
    rows: list[tuple[Cell, ...]] = [
        (name, mean, *(float(np.abs(values[name] - waits).mean()) / mean for values in (probed, themselves)))
        for name in (LINEAR, *names)
    ]
    columns = (
        "source|runtimes from", "wait|mean wait|duration", "probe|error / mean wait, probe|share",
        "job|error / mean wait, the job itself|share",
    )  # fmt: skip
    return Table("table4_recorded", columns, rows)


def predicted_waits(
    processors: int, jobs: Jobs, outcome: ScheduleOutcome, names: Sequence[str],
    probes: Sequence[Probe | None] = (), progress: Callable[[int], None] = lambda _: None,
) -> tuple[Integers, dict[str, Floats]]:  # fmt: skip
    """Return the waits of the sampled jobs in a schedule, and those predicted by source of runtimes, in seconds.

    :param probes: probe jobs in place of the sampled jobs.
    """
    sample = states(jobs, outcome, sampled(jobs))
    predicted = {LINEAR: np.array([work_ahead(jobs, outcome, state, processors) for state in sample], np.float64)}
    for name in names:
        runtimes = runtimes_from(name, jobs, outcome, sample)
        waits = [
            forward(jobs, outcome, state, remaining, waiting, processors, POLICY, probe)
            for state, (remaining, waiting), probe in zip(sample, runtimes, probes or [None] * len(sample), strict=True)
        ]
        predicted[name] = np.array(waits, np.float64)
        progress(1)
    return waits_of(outcome, sample), predicted


def _mean(values: Sequence[float]) -> float | None:
    return mean_of(np.array(values))


def _shown(found: Interval) -> str:
    return "" if found.low is None or found.high is None else f"{found.low:.1%} to {found.high:.1%}"
