"""Whose prediction is whose: by the decisions themselves and in the store's views."""

import random
from dataclasses import replace

import pytest
from sqlalchemy import Engine

from softwalltime.core.jobs import CompletedJob, DecisionRecord
from softwalltime.measure.replay.workload import Workload
from tests.store.monitored import HOUR, NOW, decision, ended, found, fresh, store
from tests.store.whose_prediction import from_decisions, recorded_predictions

pytestmark = pytest.mark.postgres

CASES = 1000
SUBMITTED = NOW - 2 * HOUR


def case(number: int, chance: random.Random) -> tuple[list[CompletedJob], list[DecisionRecord]]:
    """A user's jobs, submitted within some seconds, and what was asked about some of them, and about others, then."""
    user, serial = f"u{number}", 10 * number
    projects, walltimes = ("p", "other"), (HOUR, 2 * HOUR)
    jobs = []
    for each in range(chance.randint(1, 4)):
        job_id = chance.choice((f"{serial + each}.srv", f"{serial}[{each}].srv"))
        jobs.append(
            ended(
                job_id,
                user=user,
                start=SUBMITTED + HOUR + chance.randint(0, 6),
                project=chance.choice(projects),
                walltime=chance.choice(walltimes),
                queue=f"q{serial + each}",
            )
        )
    decisions = []
    for each in range(chance.randint(0, 5)):
        asked, at = chance.choice(jobs).submission, SUBMITTED + chance.randint(-5, 11)
        walltime = asked.walltime or 0
        soft = chance.choice((600 + each, walltime))
        event = chance.choice(("queuejob", "queuejob", "queuejob", "modifyjob"))
        if event == "queuejob":
            asked = replace(asked, job_id="", walltime=chance.choice(walltimes), project=chance.choice(projects))
            soft = min(soft, asked.walltime or 0)
        elif chance.random() < 0.5:
            asked = replace(asked, job_id=f"{serial}[].srv", walltime=HOUR)
            soft = min(soft, HOUR)
        mode = chance.choice(("on", "shadow"))
        made = decision(at=at, event=event, soft_walltime=soft, mode=mode, action="set" if mode == "on" else mode)
        decisions.append(replace(made, submission=asked, predictor=f"v{each}"))
    return jobs, sorted(decisions, key=lambda made: made.at)


def test_the_decisions_agree_with_the_stores_views(engine: Engine) -> None:
    chance = random.Random(1)
    cases = [case(number, chance) for number in range(CASES)]
    jobs = [job for some, _ in cases for job in some]
    store(engine, jobs, [made for _, some in cases for made in some])
    fresh(engine)
    stored = {row["queue"]: row for row in found(engine, "SELECT * FROM softwalltime.daily_scores")}
    assert len(stored) == len(jobs)
    adjusted = 0
    for some, decisions in cases:
        workload = Workload(some)
        predicted = from_decisions(workload, decisions, recorded_predictions(workload))
        for job, soft, code in zip(workload.jobs, predicted.soft_walltime, predicted.predictor, strict=True):
            row = stored[job.submission.queue]
            planned = int(soft) if soft >= 0 else job.submission.walltime or 0
            assert row["absolute_error"] == abs(planned - job.runtime), (job, decisions)
            if soft >= 0:
                adjusted += 1
                shadow = " (shadow)" if row["mode"] == "shadow" else ""
                assert predicted.names[code] == row["predictor"] + shadow, (job, decisions)
    assert adjusted > CASES / 4
