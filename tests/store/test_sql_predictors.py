"""The predictors in SQL and in Python are two implementations of one rule: every single prediction is equal."""

import math

import pytest
from sqlalchemy import Connection, Engine, text

from softwalltime.accounting.reader import read_jobs
from softwalltime.accounting.tally import Tally
from softwalltime.core.events import Kind
from softwalltime.core.jobs import CompletedJob, Prediction
from softwalltime.measure.replay.workload import Workload
from softwalltime.measure.workloads.synthetic import generate
from softwalltime.predict.policy.clamp import soft_walltime
from softwalltime.predict.predictors.registry import make
from tests.samples import events, job, trace
from tests.store.stored import add_jobs

# The call in Python, and the same in SQL for one row of the store.
CALLS = {
    "v1": "last2(user_name, ctime)",
    "v2": "last2_plus(user_name, ctime)",
    "last2+900:margin=60": "last2_plus(user_name, ctime, 60)",
    "v3": "usage(user_name, walltime, ctime)",
    "v4": "usage_long(user_name, walltime, ctime)",
    "percentile": "percentile(user_name, project, walltime, ctime)",
    "percentile:p=95,keys=user": "percentile(user_name, project, walltime, ctime, 95, 'user')",
    "percentile:p=50,keys=project,window=7d": "percentile(user_name, project, walltime, ctime, 50, 'project', 604800)",
    "percentile:p=33.3,keys=user+project,least=3,threshold=0.5": (
        "percentile(user_name, project, walltime, ctime, 33.3, 'user+project', 2592000, 3, 0.5)"
    ),
}


def recorded() -> list[CompletedJob]:
    """The first 5,000 jobs of KTH-SP2, with gaps and bursts that no model has."""
    return list(read_jobs([trace("KTH-SP2-1996")], Tally()))[:5000]


def odd_jobs() -> list[CompletedJob]:
    """Ties of every kind, jobs without walltime or runtime, and shares beyond the walltime."""
    jobs = []
    for number in range(400):
        submitted = number // 8 * 50
        runtime = (number * 37) % 300
        jobs.append(
            job(
                f"user{number % 3}",
                job_id=f"{number * 919 % 1000}{('', '[3]', '[12]')[number % 3]}.srv",
                submitted=submitted,
                runtime=runtime,
                end=submitted + 50 * (1 + number % 4),
                walltime=(None, 0, 100, 200, 250)[number % 5],
                project=f"p{number % 2}",
            )
        )
    return jobs


@pytest.fixture(scope="module", params=["generated", "recorded", "odd"])
def loaded(request: pytest.FixtureRequest, module_engine: Engine) -> tuple[Engine, Workload]:
    jobs = {"generated": lambda: generate(4000, seed=5), "recorded": recorded, "odd": odd_jobs}[request.param]()
    with module_engine.begin() as connection:
        connection.execute(text("truncate softwalltime.completed_jobs restart identity"))
        assert add_jobs(connection, jobs) == len(jobs)
    # As autovacuum would soon do.
    with module_engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("analyze softwalltime.completed_jobs"))
    return module_engine, Workload(jobs)


@pytest.mark.parametrize("spec", CALLS)
def test_every_prediction_is_equal_to_the_last_bit(loaded: tuple[Engine, Workload], spec: str) -> None:
    engine, workload = loaded
    predictor = make(spec)
    in_python: dict[str, tuple[float | None, int | None]] = {}
    for kind, number, _ in events(workload):
        if kind == Kind.ENDED:
            predictor.learn(workload.jobs[number])
        else:
            asked = workload.jobs[number].submission
            answer = predictor.predict(asked, asked.submitted)
            seconds = answer.seconds if isinstance(answer, Prediction) else None
            in_python[asked.job_id] = seconds, soft_walltime(answer, asked)
    statement = f"""
        select job_id, predicted, softwalltime.soft_walltime(predicted, walltime)
        from softwalltime.completed_jobs, softwalltime.{CALLS[spec]} as predicted
    """
    with engine.connect() as connection:
        in_sql = {job_id: (seconds, soft) for job_id, seconds, soft in connection.execute(text(statement))}
    # v1 and v2 predict a runtime for jobs without walltime too, of which the policy then makes nothing, in both.
    assert in_sql == in_python
    assert any(seconds is not None and math.isfinite(seconds) for seconds, _ in in_sql.values())


def test_predict_finds_each_by_its_names(loaded: tuple[Engine, Workload]) -> None:
    engine, _ = loaded
    for name, call in (("v1", "last2"), ("last2", "last2"), ("v4", "usage_long"), ("percentile", "percentile")):
        same = f"""
            select count(*) filter (where a is distinct from b), count(*)
            from softwalltime.completed_jobs,
                softwalltime.predict('{name}', user_name, project, walltime, ctime) as a,
                softwalltime.{next(c for c in CALLS.values() if c.startswith(call + "("))} as b
        """
        with engine.connect() as connection:
            different, rows = connection.execute(text(same)).one()
        assert different == 0
        assert rows > 0


@pytest.mark.parametrize("keys", ["user", "user+project+walltime"])
def test_the_window_of_sql_and_python_has_the_same_first_and_last_second(connection: Connection, keys: str) -> None:
    # Another job is older than the window by one second, and only SQL knows one that ends after the request.
    shares = {899: 100, 900: 200, 990: 300, 1000: 400, 1001: 800}
    jobs = [job(job_id=f"{end}.srv", runtime=runtime, walltime=1000, end=end) for end, runtime in shares.items()]
    add_jobs(connection, jobs)
    predictor = make(f"percentile:p=0,keys={keys},window=100,least=1")
    for completed in jobs[:3]:
        predictor.learn(completed)
    for p, expected in ((0, 200), (100, 400)):
        call = f"softwalltime.percentile('alice', 'p', 1000, 1000, {p}, '{keys}', 100, 1)"
        assert connection.execute(text(f"SELECT {call}")).scalar_one() == expected
    assert predictor.predict(jobs[0].submission, 1000).seconds == 200
