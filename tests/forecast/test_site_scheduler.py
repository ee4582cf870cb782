"""A snapshot of a server as the policy of the simulator that stands for what the site runs."""

from dataclasses import replace

import pytest

from softwalltime.measure.forecast.server_vnodes import is_up
from softwalltime.measure.forecast.site_scheduler import site_scheduler
from softwalltime.measure.forecast.snapshot import AdvanceReservation, QueueSettings, ServerSnapshot, VnodeState
from softwalltime.measure.simulation.engine import simulate
from softwalltime.measure.simulation.policies import SchedulerPolicy
from softwalltime.measure.simulation.resources import RunLimit, Vnodes
from softwalltime.measure.simulation.shares import FairShareSettings, ShareGroup
from softwalltime.measure.simulation.simulated_jobs import jobs_of
from tests.forecast.states import NOW, recorded, server
from tests.samples import job

QUEUES = (
    QueueSettings("slow", execution=True, enabled=True, started=True, priority=10, max_walltime=7200),
    QueueSettings("route", execution=False, enabled=True, started=True, priority=200),
    QueueSettings("fast", execution=True, enabled=True, started=True, priority=100, default_walltime=600),
)


ALL_USERS = "PBS_GENERIC"
SHARES = FairShareSettings("egroup", "cput", 3600, 0.25, 10, (ShareGroup("physics", "root", 40),))


def site(**settings: object) -> ServerSnapshot:
    return replace(server(64, **settings), queues=QUEUES)


def test_a_recorded_server_is_read_whole() -> None:
    read = site_scheduler(recorded())
    limits = (RunLimit("short", "u", ALL_USERS, "", 4), RunLimit("long", "u", ALL_USERS, "ncpus", 64))
    assert read.policy == SchedulerPolicy(backfill="pbs", depth=2, limits=limits, vnodes=(Vnodes(3, 8),))
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
            {"fair_share": True, "shares": SHARES},
            SchedulerPolicy(order="fairshare", fair_share=SHARES, backfill="pbs"),
            "fair share, strict, backfill_depth 1",
        ),
        (
            {"formula": "fairshare_factor * 100", "shares": SHARES},
            SchedulerPolicy(order="formula", formula="fairshare_factor * 100", fair_share=SHARES, backfill="pbs"),
            "by fairshare_factor * 100, strict, backfill_depth 1",
        ),
        (
            {"formula": "ncpus / walltime"},
            SchedulerPolicy(order="formula", formula="ncpus / walltime", backfill="pbs"),
            "by ncpus / walltime, strict, backfill_depth 1",
        ),
        (
            {"by_queue": True, "backfill_depth": 3},
            SchedulerPolicy(queues=("fast", "slow"), backfill="pbs", depth=3),
            "queue by queue, order of arrival, strict, backfill_depth 3",
        ),
        (
            {"formula": "queue_priority + ncpus", "by_queue": True},
            SchedulerPolicy(
                order="formula", formula="queue_priority + ncpus", queue_priorities=(("slow", 10), ("fast", 100)),
                queues=("fast", "slow"), backfill="pbs",
            ),
            "queue by queue, by queue_priority + ncpus, strict, backfill_depth 1",
        ),
    ],
)  # fmt: skip
def test_the_scheduler_as_it_is(settings: dict[str, object], policy: SchedulerPolicy, name: str) -> None:
    read = site_scheduler(site(**settings))
    assert (read.policy, read.name) == (replace(policy, vnodes=(Vnodes(1, 64),)), name)


@pytest.mark.parametrize(
    ("depth", "depths", "name"),
    [
        (2, (("fast", 0),), "order of arrival, strict, backfill_depth 2, 0 of fast"),
        # Nothing is planned ahead.
        (0, (), "order of arrival, strict, backfill_depth 0"),
    ],
)
def test_queues_with_a_backfill_depth_of_their_own(depth: int, depths: tuple[tuple[str, int], ...], name: str) -> None:
    found = site(backfill_depth=depth)
    queues = tuple(replace(queue, backfill_depth=0 if queue.name == "fast" else None) for queue in found.queues)
    read = site_scheduler(replace(found, queues=queues))
    assert (read.policy.queue_depths, read.name) == (depths, name)
    assert not [remark for remark in read.remarks if "backfill_depth" in remark]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"formula": "predicted / ncpus"}, "uses predictions"),
        ({"formula": "licences * 2"}, "job_sort_formula is approximated by the order of arrival"),
        ({"round_robin": True}, "round_robin"),
        ({"limits": (("max_run_res.lic", "[u:PBS_GENERIC=4]"),)}, "these limits are not modelled: max_run_res.lic"),
        ({"unmodelled": ("job_sort_key = ncpus HIGH",)}, "job_sort_key = ncpus HIGH"),
    ],
)
def test_what_is_not_simulated_is_said(settings: dict[str, object], said: str) -> None:
    read = site_scheduler(site(**settings))
    assert any(said in remark for remark in read.remarks)
    assert read.policy.order == "fcfs"
    assert not any(said in remark for remark in site_scheduler(site()).remarks)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"fair_share": True}, "equal shares of all users of ncpus*walltime are simulated"),
        ({"fair_share": True, "shares": FairShareSettings(usage="licences")}, "is simulated as ncpus*walltime"),
        ({"formula": "fairshare_factor"}, "equal shares of all users"),
        ({"formula": "job_priority"}, "job_priority is 0"),
        ({"formula": "eligible_time + ncpus", "eligible_time": False}, "eligible_time_enable is off"),
    ],
)
def test_where_the_order_differs_is_said(settings: dict[str, object], said: str) -> None:
    assert any(said in remark for remark in site_scheduler(site(**settings)).remarks)
    assert not any(said in remark for remark in site_scheduler(site(formula="eligible_time + ncpus")).remarks)


def test_eligible_time_is_0_where_the_server_does_not_count_it() -> None:
    assert site_scheduler(site(formula="eligible_time + ncpus", eligible_time=False)).policy.formula == "0 + ncpus"


def test_gpus_and_memory_of_all_vnodes_are_limits_where_the_scheduler_considers_them() -> None:
    vnodes = tuple(VnodeState(name, name, "free", 16, ngpus=4, mem=2**30) for name in ("n1", "n2"))
    gpus, memory = (RunLimit("", "o", "PBS_ALL", *each) for each in (("ngpus", 8), ("mem", 2**31)))
    for resources, limits in ((("ncpus", "ngpus"), (gpus,)), (("ncpus", "mem"), (memory,)), ((), (gpus, memory))):
        assert site_scheduler(replace(site(resources=resources), vnodes=vnodes)).policy.limits == limits
    assert site_scheduler(site()).policy.limits == ()


def test_what_the_machine_has_besides_processors_is_said() -> None:
    vnodes = (
        VnodeState("n1", "n1", "free", 16, sharing="default_shared"),
        VnodeState("n2", "n2", "maintenance", 32, ngpus=4, queue="fast", sharing="force_exclhost"),
    )
    read = site_scheduler(
        replace(site(), vnodes=vnodes, reservations=(AdvanceReservation("S1.srv", NOW, NOW + 60, 1, "RESV_CONFIRMED"),))
    )
    assert read.processors == 48
    assert read.policy.vnodes == (Vnodes(1, 16, "", "default_shared"), Vnodes(1, 32, "fast", "force_exclhost", ngpus=4))
    assert read.remarks == (
        "32 of the processors are of vnodes that are down or offline: --processors gives another size",
        "reservations and dedicated times are not simulated: 1",
    )


def test_vnodes_that_jobs_share_on_one_host_are_one() -> None:
    def policy_with(sharing: str, *resources: str) -> SchedulerPolicy:
        vnodes = tuple(
            VnodeState(f"{host}[{number}]", host, "free", 8, sharing=sharing, mem=2**30)
            for host in ("h1", "h2")
            for number in range(2)
        )
        return site_scheduler(replace(site(resources=resources), vnodes=vnodes)).policy

    assert policy_with("default_shared", "ncpus", "mem").vnodes == (Vnodes(2, 16, "", "default_shared", 2**31),)
    assert policy_with("default_shared", "ncpus").vnodes == (Vnodes(2, 16, "", "default_shared"),)
    assert policy_with("force_excl", "ncpus").vnodes == (Vnodes(4, 8, "", "force_excl"),)


@pytest.mark.parametrize("state", ["maintenance", "Stale", "busy", "free,offline_by_mom", "state-unknown,down"])
def test_no_job_starts_on_a_vnode_in_this_state(state: str) -> None:
    assert not is_up(VnodeState("n1", "n1", state, 16))
    assert is_up(VnodeState("n1", "n1", "job-busy", 16))


def test_a_job_of_the_first_queue_starts_first() -> None:
    policy = site_scheduler(site(by_queue=True)).policy
    jobs = jobs_of(
        [
            job(submitted=submitted, queue=queue, ncpus=64, walltime=200)
            for submitted, queue in ((0, "slow"), (1, "slow"), (2, "fast"))
        ]
    )
    assert simulate(jobs, 64, policy).start.tolist() == [0, 200, 100]
