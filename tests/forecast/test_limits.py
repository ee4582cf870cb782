"""What limits the start of jobs besides processors: limits on running jobs, GPUs, reservations, vnodes."""

from dataclasses import replace

import pytest

from softwalltime.accounting.chunks import Chunks
from softwalltime.core.jobs import Submission
from softwalltime.measure.forecast.pbs_state import SnapshotReader
from softwalltime.measure.forecast.pooling import limits_of
from softwalltime.measure.forecast.queue_model import ModelledQueue, model_of
from softwalltime.measure.forecast.snapshot import (
    DEDICATED,
    AdvanceReservation,
    LiveJob,
    QueueSettings,
    ServerSnapshot,
    VnodeState,
)
from softwalltime.measure.simulation.resources import ResourceRequest, request_of
from tests.forecast.states import NOW, recorded, running, server, waiting

GENERIC = "[u:PBS_GENERIC=1]"


def starts(queue: ModelledQueue, **runtimes: int) -> dict[str, int]:
    """Seconds from now to the start of each waiting job; each job runs for its walltime or as given by its number."""
    model = queue.model
    given = {name.removeprefix("job"): seconds for name, seconds in runtimes.items()}
    numbers = [job.submission.job_id.partition(".")[0] for job in queue.live]
    seconds = [given.get(number, limit) for number, limit in zip(numbers, model.jobs.walltime, strict=True)]
    found = model.run(seconds).start - NOW
    return dict(zip(numbers[model.running :], found[model.running :].tolist(), strict=True))


def limited(snapshot: ServerSnapshot, attribute: str, value: str, queue: str = "") -> ServerSnapshot:
    """The server with a limit of its own or of a queue."""
    if not queue:
        return replace(snapshot, scheduler=replace(snapshot.scheduler, limits=((attribute, value),)))
    return replace(snapshot, queues=(QueueSettings(queue, True, True, True, limits=((attribute, value),)),))


JOBS = (
    running(1, 2, 600, elapsed=0),
    waiting(2, 2, 300),
    waiting(3, 2, 300, user="bob"),
    waiting(4, 2, 300, user="bob"),
)


@pytest.mark.parametrize(
    ("attribute", "value", "expected"),
    [
        ("max_run", GENERIC, {"2": 600, "3": 0, "4": 300}),
        ("max_run", "[u:PBS_GENERIC=1],[u:bob=2]", {"2": 600, "3": 0, "4": 0}),
        ("max_run", "[u:alice=1]", {"2": 600, "3": 0, "4": 0}),
        ("max_run", "[o:PBS_ALL=2]", {"2": 0, "3": 300, "4": 600}),
        ("max_run", "[p:PBS_GENERIC=2], [g:PBS_GENERIC=9]", {"2": 0, "3": 300, "4": 600}),
        ("max_run_res.ncpus", "[u:PBS_GENERIC=3]", {"2": 600, "3": 0, "4": 300}),
        ("max_run_res.ncpus", "[o:PBS_ALL=4]", {"2": 0, "3": 300, "4": 600}),
        ("max_user_run", "1", {"2": 600, "3": 0, "4": 300}),
        ("max_running", "2", {"2": 0, "3": 300, "4": 600}),
        ("max_user_res.ncpus", "2", {"2": 600, "3": 0, "4": 300}),
    ],
)
@pytest.mark.parametrize("queue", ["", "q"])
def test_limits_on_running_jobs_delay_starts(attribute: str, value: str, expected: dict[str, int], queue: str) -> None:
    for depth in (1, 5):
        found = model_of(limited(server(16, *JOBS, backfill_depth=depth), attribute, value, queue))
        assert found.model.policy.backfill == "pbs"
        assert starts(found) == expected
        assert found.remarks == ()


def test_a_limit_of_another_queue_does_not_count() -> None:
    assert starts(model_of(limited(server(16, *JOBS), "max_run", "[o:PBS_ALL=1]", "other"))) == dict.fromkeys("234", 0)


def test_a_job_above_its_limit_has_a_reason_in_place_of_a_forecast() -> None:
    snapshot = limited(server(16, *JOBS, waiting(5, 4, 60, user="carol")), "max_run_res.ncpus", "[u:PBS_GENERIC=3]")
    (impossible,) = model_of(snapshot).impossible
    assert impossible.job.submission.job_id == "5.srv"
    assert impossible.reason == "the server lets carol run 3 ncpus at one time, and it needs 4"


def test_limits_that_cannot_be_modelled_are_named() -> None:
    snapshot = limited(server(16, *JOBS), "max_run_res.licenses", "[u:PBS_GENERIC=3]", "q")
    assert model_of(snapshot).remarks == ("these limits are not modelled: max_run_res.licenses of queue q",)


def test_soft_limits_limit_no_job() -> None:
    soft = limited(limited(server(16, *JOBS), "max_run_soft", GENERIC), "max_user_res_soft.ncpus", "1")
    found = model_of(soft)
    assert found.remarks == ()
    assert starts(found) == starts(model_of(server(16, *JOBS)))


def test_limits_of_recorded_queues_are_read_as_pbs_writes_them() -> None:
    found, unread = limits_of(recorded())
    assert [(each.queue, each.kind, each.name, each.resource, each.most) for each in found] == [
        ("short", "u", "PBS_GENERIC", "", 4), ("long", "u", "PBS_GENERIC", "ncpus", 64),
    ]  # fmt: skip
    assert unread == []


def test_several_limits_in_one_attribute_are_all_read() -> None:
    limits = {
        "max_run": "[o:PBS_ALL=100],[u:PBS_GENERIC=4]",
        "max_run_res.ncpus": '[g:"some group"=3],[u:PBS_GENERIC=8],[u:alice=12]',
    }
    scheduler = SnapshotReader([]).scheduler(limits, "")
    found = limits_of(replace(recorded(), scheduler=scheduler))[0]
    assert [(each.kind, each.name, each.resource, each.most) for each in found if not each.queue] == [
        ("o", "PBS_ALL", "", 100), ("u", "PBS_GENERIC", "", 4),
        ("g", "some group", "ncpus", 3), ("u", "PBS_GENERIC", "ncpus", 8), ("u", "alice", "ncpus", 12),
    ]  # fmt: skip


def test_a_reservation_is_kept_free_by_walltimes() -> None:
    # Of 8 processors 6 are reserved from 1000 s to 2000 s from now.
    jobs = (waiting(1, 4, 1500), waiting(2, 4, 900), waiting(3, 2, 5000), waiting(4, 8, 600))
    reserved = replace(
        server(8, *jobs), reservations=(AdvanceReservation("R1.srv", NOW + 1000, NOW + 2000, 6, "RESV_CONFIRMED"),)
    )
    for depth in (1, 3):
        snapshot = replace(reserved, scheduler=replace(reserved.scheduler, backfill_depth=depth))
        found = starts(model_of(snapshot))
        assert found["1"] == 2000
        assert found["2"] == 0
    unconfirmed = replace(reserved.reservations[0], state="RESV_UNCONFIRMED")
    assert starts(model_of(replace(reserved, reservations=(unconfirmed,))))["1"] == 0


def test_jobs_end_before_a_dedicated_time_or_start_after_it() -> None:
    crossing = "Job would cross dedicated time boundary"
    jobs = (
        running(1, 4, 900, elapsed=100),
        waiting(2, 4, 900), waiting(3, 4, 1500, lacks=crossing), waiting(4, 2, 100, lacks="Job would cross into prime"),
    )  # fmt: skip
    dedicated = waiting(5, 1, 60)
    dedicated = replace(dedicated, submission=replace(dedicated.submission, queue="dedicated_q"))
    snapshot = replace(
        server(8, *jobs, dedicated), reservations=(AdvanceReservation(DEDICATED, NOW + 1000, NOW + 3000, 8),)
    )
    found = model_of(snapshot)
    assert starts(found) == {"2": 0, "3": 3000}
    assert [each.reason for each in found.impossible] == [
        "PBS says: Job would cross into prime; when that ends is not predicted",
        "queue dedicated_q runs jobs in dedicated time only",
    ]
    assert found.remarks == ()
    renamed = replace(snapshot, scheduler=replace(snapshot.scheduler, dedicated_prefix="maintenance"))
    assert starts(model_of(renamed)) == {"2": 0, "3": 3000, "5": 800}
    # Where dedicated times cannot be read, only PBS knows when they end.
    assert "3.srv" in [each.job.submission.job_id for each in model_of(replace(snapshot, reservations=())).impossible]


def test_jobs_inside_a_reservation_use_its_processors() -> None:
    inside = running(1, 6, 900, elapsed=100)
    inside = replace(inside, submission=replace(inside.submission, queue="R1"))
    queued = replace(waiting(3, 1, 60), submission=replace(waiting(3, 1, 60).submission, queue="R1"))
    snapshot = replace(
        server(8, inside, waiting(2, 4, 600), queued),
        reservations=(AdvanceReservation("R1.srv", NOW - 500, NOW + 2000, 6, "RESV_RUNNING"),),
    )
    found = model_of(snapshot)
    assert starts(found) == {"2": 2000}
    assert found.impossible[0].reason == "it is in the queue of reservation R1, whose jobs are not forecast"


def test_processors_of_vnodes_that_are_down_do_not_come_free() -> None:
    def on(vnodes: str, ncpus: int, number: int, walltime: int) -> LiveJob:
        return replace(running(number, ncpus, walltime, elapsed=0), exec_vnode=vnodes)

    vnodes = (VnodeState("n1", "n1", "job-busy", 8), VnodeState("n2", "n2", "job-busy,offline", 8))
    jobs = (on("(n2:ncpus=8)", 8, 1, 100), on("(n1:ncpus=4)+(n1:ncpus=4)", 8, 2, 900), waiting(3, 8, 60))
    found = model_of(replace(server(16, *jobs), vnodes=vnodes))
    assert found.model.processors == 8
    assert starts(found) == {"3": 900}


def test_exclusive_jobs_hold_whole_vnodes() -> None:
    vnodes = tuple(VnodeState(name, name, "free", 8) for name in ("n1", "n2", "n3"))
    alone = replace(running(1, 2, 900, elapsed=0), exec_vnode="(n1:ncpus=1)+(n2:ncpus=1)")
    alone = replace(alone, submission=replace(alone.submission, place="scatter:excl", select="2:ncpus=1"))
    jobs = (alone, waiting(2, 9, 60), waiting(3, 8, 60))
    found = model_of(replace(server(24, *jobs), vnodes=vnodes))
    assert found.model.jobs.processors[0] == 16
    assert starts(found) == {"2": 900, "3": 0}
    wanted = Submission("4.srv", "bob", NOW, 60, ncpus=6, select="3:ncpus=2", place="free:excl")
    more = LiveJob(wanted, "Q", 4)
    assert model_of(replace(server(24, alone, more), vnodes=vnodes)).model.jobs.processors == (16, 8)
    shared = tuple(replace(each, sharing="default_excl") for each in vnodes)
    assert model_of(replace(server(24, waiting(5, 3, 60)), vnodes=shared)).model.jobs.processors == (8,)


def test_a_select_is_read_chunk_by_chunk() -> None:
    job = Submission("1.srv", "bob", NOW, 60, select="2:ncpus=4:mem=2gb+ngpus=1:ncpus=1+3", place="scatter:excl")
    chunks = (Chunks(2, (4, 2 << 30, 0)), Chunks(1, (1, 0, 1)), Chunks(3, (1, 0, 0)))
    assert request_of(job) == ResourceRequest(chunks, "scatter")


@pytest.mark.parametrize("select", ["", "1:ncpus=many", "x:ncpus=2", "-2:ncpus=4"])
def test_without_a_select_that_can_be_read_the_totals_count(select: str) -> None:
    job = Submission("1.srv", "bob", NOW, 60, ncpus=8, select=select)
    assert request_of(replace(job, nodect=2)).chunks == (Chunks(2, (4, 0, 0)),)
    assert request_of(replace(job, nodect=1)).chunks == (Chunks(8, (1, 0, 0)),)


def test_gpus_and_vnodes_of_a_queue_are_pools_of_their_own() -> None:
    def with_gpus(job: LiveJob, count: int, queue: str = "q") -> LiveJob:
        return replace(job, submission=replace(job.submission, ngpus=count, queue=queue))

    vnodes = (VnodeState("n1", "n1", "free", 16, ngpus=2), VnodeState("n2", "n2", "free", 8, queue="big"))
    jobs = (
        with_gpus(running(1, 2, 900, elapsed=0), 2), with_gpus(waiting(2, 2, 60), 1), waiting(3, 2, 60),
        with_gpus(waiting(4, 12, 60), 0, "big"), with_gpus(waiting(5, 8, 70), 0, "big"),
        with_gpus(waiting(6, 8, 70), 0, "big"), with_gpus(waiting(7, 1, 60), 3),
    )  # fmt: skip
    found = model_of(replace(server(24, *jobs), vnodes=vnodes))
    assert starts(found) == {"2": 900, "3": 0, "5": 0, "6": 70}
    assert [each.reason for each in found.impossible] == [
        "it needs 12 processors, the vnodes for its queue have 8", "it needs 3 GPUs, the vnodes that are up have 2",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("depths", "expected"),
    [
        # Job 2 is the only top job: job 3 is not planned, and job 4 delays it.
        ({}, {"2": 600, "3": 1800, "4": 0, "5": 1200}),
        # Job 3 is planned too, and job 4 would delay it.
        ({"big": 1}, {"2": 600, "3": 1200, "4": 1500, "5": 0}),
        # Nothing of queue q runs behind job 2, then behind job 4.
        ({"q": 0}, {"2": 600, "3": 1200, "4": 1500, "5": 1500}),
    ],
)
def test_queues_with_a_backfill_depth_of_their_own(depths: dict[str, int], expected: dict[str, int]) -> None:
    def big(job: LiveJob) -> LiveJob:
        return replace(job, submission=replace(job.submission, queue="big"))

    jobs = (
        running(1, 6, 600, elapsed=0), waiting(2, 6, 600), big(waiting(3, 8, 300)), waiting(4, 2, 1800),
        waiting(5, 2, 300),
    )  # fmt: skip
    queues = tuple(QueueSettings(name, True, True, True, backfill_depth=depths.get(name)) for name in ("q", "big"))
    found = model_of(replace(server(8, *jobs), queues=queues))
    assert found.remarks == ()
    assert starts(found) == expected


def test_what_is_only_approximated_is_said() -> None:
    jobs = (waiting(1, 1, 60), waiting(2, 1, 60))
    queues = (
        QueueSettings("q", True, True, True, priority=150),
        QueueSettings("p_other", True, True, True),
    )
    settings = {"fair_share": True, "preemption": True, "resources": ("ncpus", "licenses")}
    snapshot = replace(
        server(8, *jobs, formula="fairshare_perc * 2", **settings),
        queues=queues,
        reservations=(AdvanceReservation("S7.srv", NOW + 50, NOW + 60, 1, "RESV_CONFIRMED"),),
    )
    found = model_of(snapshot)
    assert found.model.policy.order == "fcfs"
    assert [remark.partition(":")[0] for remark in found.remarks] == [
        "job_sort_formula is approximated by the order of arrival",
        "fair share is on",
        "preemption is not modelled",
        "of standing reservations only the next occurrence is modelled",
        "these resources are not modelled",
    ]


def test_the_formula_knows_priorities_and_the_predicted_resource() -> None:
    jobs = (
        running(1, 8, 600, elapsed=0),
        waiting(2, 8, 100),
        waiting(3, 8, 100, priority=5),
        waiting(4, 8, 100, predicted=30.0),
    )
    by_priority = model_of(server(8, *jobs, formula="job_priority"))
    assert starts(by_priority) == {"2": 700, "3": 600, "4": 800}
    by_prediction = model_of(server(8, *jobs, formula="-(predicted or walltime)"))
    assert starts(by_prediction) == {"2": 700, "3": 800, "4": 600}


def test_fewer_runs_are_made_where_limits_make_them_expensive() -> None:
    jobs = [waiting(number, 1, 600) for number in range(1000)]
    plain = model_of(server(8, *jobs)).model
    limited = model_of(server(8, *jobs, limits=(("max_run", "[u:PBS_GENERIC=9]"),))).model
    assert plain.affordable_runs() > limited.affordable_runs() >= 20
