"""A snapshot of a server as the policy of the simulator that stands for what the site runs."""

from dataclasses import replace

import pytest

from softwalltime.measure.forecast.site_scheduler import site_scheduler
from softwalltime.measure.forecast.snapshot import QueueSettings, ServerSnapshot
from softwalltime.measure.simulation.engine import simulate
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.simulated_jobs import jobs_of
from tests.forecast.states import recorded, server
from tests.samples import job

QUEUES = (
    QueueSettings("slow", execution=True, enabled=True, started=True, priority=10, max_walltime=7200),
    QueueSettings("route", execution=False, enabled=True, started=True, priority=200),
    QueueSettings("fast", execution=True, enabled=True, started=True, priority=100, default_walltime=600),
)


def site(**settings: object) -> ServerSnapshot:
    return replace(server(64, **settings), queues=QUEUES)


def test_a_recorded_server_is_read_whole() -> None:
    read = site_scheduler(recorded())
    assert read.policy == SchedulerPolicy(backfill="pbs", depth=2)
    assert (read.processors, dict(read.walltimes)) == (24, {"short": 1800})


def test_walltimes_come_from_the_queues() -> None:
    assert site_scheduler(site()).walltimes == {"slow": 7200, "fast": 600}


@pytest.mark.parametrize(
    ("settings", "policy", "name"),
    [
        (
            {"strict_ordering": False},
            SchedulerPolicy(backfill="pbs", strict_ordering=False),
            "order of arrival, not strict",
        ),
        ({"backfill_depth": 0}, SchedulerPolicy(backfill="none"), "order of arrival, strict, backfill_depth 0"),
        (
            {"fair_share": True},
            SchedulerPolicy(order="fairshare", backfill="pbs"),
            "fair share, strict, backfill_depth 1",
        ),
        (
            {"formula": "ncpus / walltime"},
            SchedulerPolicy(order="formula", formula="ncpus / walltime", backfill="pbs"),
            "by ncpus / walltime, strict, backfill_depth 1",
        ),
        (
            {"by_queue": True, "backfill_depth": 3},
            SchedulerPolicy(
                order="formula", formula="queue_priority", queue_priorities=(("fast", 2), ("slow", 1)), backfill="pbs",
                depth=3,
            ),
            "queue by queue, strict, backfill_depth 3",
        ),
        (
            {"formula": "queue_priority + ncpus", "by_queue": True},
            SchedulerPolicy(
                order="formula", formula="queue_priority + ncpus", queue_priorities=(("slow", 10), ("fast", 100)),
                backfill="pbs",
            ),
            "by queue_priority + ncpus, strict, backfill_depth 1",
        ),
    ],
)  # fmt: skip
def test_the_scheduler_as_it_is(settings: dict[str, object], policy: SchedulerPolicy, name: str) -> None:
    read = site_scheduler(site(**settings))
    assert (read.policy, read.name) == (policy, name)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"formula": "predicted / ncpus"}, "uses predictions"),
        ({"formula": "fairshare_perc * 2"}, "job_sort_formula is approximated by the order of arrival"),
        ({"round_robin": True}, "round_robin"),
        ({"limits": (("max_run", "[u:PBS_GENERIC=4]"),)}, "limits"),
    ],
)
def test_what_is_not_simulated_is_said(settings: dict[str, object], said: str) -> None:
    read = site_scheduler(site(**settings))
    assert any(said in remark for remark in read.remarks)
    assert read.policy.order == "fcfs"
    assert not any(said in remark for remark in site_scheduler(site()).remarks)


def test_a_job_of_the_first_queue_starts_first() -> None:
    policy = site_scheduler(site(by_queue=True)).policy
    jobs = jobs_of(
        [
            job(submitted=submitted, queue=queue, ncpus=64, walltime=200)
            for submitted, queue in ((0, "slow"), (1, "slow"), (2, "fast"))
        ]
    )
    assert simulate(jobs, 64, policy).start.tolist() == [0, 200, 100]
