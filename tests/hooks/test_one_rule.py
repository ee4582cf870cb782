"""One rule from a predicted runtime to the soft walltime: policy, replay, simulator, hook and SQL agree."""

from collections.abc import Callable
from math import ceil

import pytest
from sqlalchemy import Connection

from softwalltime.core.events import Kind
from softwalltime.core.jobs import CompletedJob, NoPrediction, Prediction, Submission
from softwalltime.core.reasons import Reason
from softwalltime.emulation.pbs.hook_runner import HookOutcome
from softwalltime.emulation.pbs.pbs_events import Event, Site, altered, postqueued, started
from softwalltime.measure.replay.fast_replay import drive
from softwalltime.measure.replay.workload import Workload
from softwalltime.measure.simulation.planned_values import Values
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.simulated_jobs import jobs_of
from softwalltime.predict.policy.clamp import soft_walltime
from softwalltime.predict.policy.decide import decide
from softwalltime.predict.policy.site import JobPolicy
from softwalltime.predict.predictors.base import Options, Predictor
from tests.hooks.jobs import NOW, submission
from tests.hooks.peer import Peer
from tests.hooks.test_postgres import Ask, ask
from tests.policy.cases import CASES, Case
from tests.samples import job
from tests.store.stored import add_jobs

__all__ = ["ask"]
Run = Callable[..., HookOutcome]


class Fixed(Predictor):
    """Predicts what a case says."""

    name, summary, source = "fixed", "", ""

    def __init__(self, seconds: float | None) -> None:
        super().__init__(Options())
        self._seconds = seconds

    def learn(self, job: CompletedJob) -> None:
        pass

    def predict(self, submission: Submission, now: int, elapsed: int = 0) -> Prediction | NoPrediction:
        return NoPrediction(Reason.OTHER, ("a test",)) if self._seconds is None else Prediction(self._seconds, "a test")


class Fitted(Fixed):
    """The same, off the fast path of a replay."""

    def fit(self, now: int) -> None:
        pass


def cases(name: str, chosen: Callable[[Case], bool] = lambda _: True) -> pytest.MarkDecorator:
    """The cases that a place can have; the number is their position in the table."""
    some = [pytest.param(case, id=f"{name}-{number}") for number, case in enumerate(CASES) if chosen(case)]
    return pytest.mark.parametrize("case", some)


def at_submission(case: Case) -> bool:
    return case.kind == Kind.SUBMITTED and not case.guarded


def waits_with_its_walltime(case: Case) -> bool:
    return case.kind != Kind.STARTED and (case.exclusive or case.guarded)


def decided(case: Case) -> int | None:
    """The soft walltime that the policy gives the job, ``None`` for none."""
    place = "excl" if case.exclusive else ""
    terms = JobPolicy("on", "fixed", "fixed", case.minimum, exclusive=True, guarded=case.guarded)
    of = submission(walltime=case.walltime, min_walltime=case.min_walltime, place=place)
    predictor = Fixed(case.prediction)
    return decide(terms, case.kind, of, case.has, lambda _, asked: predictor.predict(asked, NOW)).soft_walltime


@cases("decide")
def test_the_policy_decides(case: Case) -> None:
    assert (decided(case) or case.has) == case.expected


@cases("replay", lambda case: at_submission(case) and not case.exclusive)
@pytest.mark.parametrize("predictor", [Fixed, Fitted])
def test_a_replay_decides_as_the_policy(case: Case, predictor: type[Fixed]) -> None:
    recorded = job(walltime=case.walltime, min_walltime=case.min_walltime)
    result = drive(Workload([recorded]), predictor(case.prediction), case.minimum)
    assert result.soft_walltimes.tolist() == [-1 if case.expected is None else case.expected]
    answer = Fixed(case.prediction).predict(recorded.submission, 0)
    assert soft_walltime(answer, recorded.submission, case.minimum) == case.expected


def simulated(case: Case, duration: int, **policy: str) -> int | None:
    """The value of a job in a simulation after the event; ``None`` where it is the walltime and was not set."""
    place = "excl" if case.exclusive else ""
    recorded = job(walltime=case.walltime, min_walltime=case.min_walltime, place=place, ncpus=1, runtime=10)
    jobs = jobs_of([recorded])
    chosen = SchedulerPolicy(minimum=case.minimum, **policy)
    values = Values(jobs, chosen, [duration], {"fixed": Fixed(case.prediction)})
    (limit,) = values.limit
    if case.kind != Kind.STARTED:
        if values.change_at_submission:
            values.submitted(0, 0)
        return None if values.waiting[0] == limit else values.waiting[0]
    values.waiting[0] = case.has or limit
    if values.change_at_start:
        values.started(0, 0)
    (value,) = values.running
    return None if value == limit and case.has is None else value


@cases("live", lambda case: case.kind != Kind.ALTERED and not case.guarded)
def test_values_of_predictors_in_a_simulation_are_those_of_the_policy(case: Case) -> None:
    spec = "running" if case.kind == Kind.STARTED else "waiting"
    assert simulated(case, 10, **{spec: "fixed"}) == case.expected


@cases("runtime", lambda case: case.kind != Kind.ALTERED and not case.guarded and isinstance(case.prediction, int))
@pytest.mark.parametrize("ordering", ["walltime", "fixed"])
def test_the_runtime_in_a_simulation_is_set_as_a_prediction_is(case: Case, ordering: str) -> None:
    assert case.prediction is not None
    spec = "running" if case.kind == Kind.STARTED else "waiting"
    assert simulated(case, int(case.prediction), ordering=ordering, **{spec: "runtime"}) == case.expected


def event_of(case: Case, site: Site, user: str = "alice") -> Event:
    """The event in PBS; an alter requests the walltime again."""
    place = "excl" if case.exclusive else ""
    of = submission(user=user, walltime=case.walltime, min_walltime=case.min_walltime, place=place, queue="nodefault")
    if case.kind == Kind.STARTED:
        return started(of, site=site, now=NOW, soft_walltime=case.has)
    if case.kind == Kind.ALTERED:
        return altered(of, {"walltime": str(case.walltime)}, site=site, now=NOW, soft_walltime=case.has)
    return postqueued(of, site=site)


def after(case: Case, outcome: HookOutcome) -> int | None:
    """The soft walltime that the job has after the hook."""
    return outcome.soft_walltime if "soft_walltime" in outcome.resources else case.has


@cases("hook")
def test_the_hook_sets_what_the_policy_decides(case: Case, run: Run, peer: Peer, site: Site) -> None:
    value = decided(case)
    peer.behave(**({"none": True} if value is None else {"set": value}))
    assert after(case, run(event_of(case, site), minimum=case.minimum)) == case.expected


@cases("check", lambda case: case.prediction is not None and not waits_with_its_walltime(case))
def test_the_hook_checks_an_answer_by_the_same_rule(case: Case, run: Run, peer: Peer, site: Site) -> None:
    assert case.prediction is not None
    peer.behave(set=ceil(case.prediction))
    assert after(case, run(event_of(case, site), minimum=case.minimum)) == case.expected


@cases("sql", lambda case: not case.guarded)
@pytest.mark.postgres
def test_the_sql_functions_and_the_hook_decide_as_the_policy(
    case: Case, ask: Ask, database: str, connection: Connection, site: Site
) -> None:
    # last2 predicts the mean runtime of the user's last two jobs.
    twice = int(2 * (case.prediction or 0))
    runtimes = () if case.prediction is None else (twice // 2, twice - twice // 2)
    add_jobs(
        connection,
        [
            job("alice", job_id=f"{n}.pbs1", submitted=NOW - 20_000 + n, runtime=runtime, walltime=86_400)
            for n, runtime in enumerate(runtimes)
        ],
    )
    connection.commit()
    settings = {"waiting": "last2", "running": "last2"}
    outcome = ask(event_of(case, site), database, settings=settings, minimum=case.minimum)
    assert after(case, outcome) == case.expected
