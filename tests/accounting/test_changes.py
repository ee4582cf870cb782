"""Changes of jobs in a part of a log do not depend on how the part is divided."""

from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from softwalltime.accounting.daily_files import Block
from softwalltime.accounting.queue_changes import ChangedJobs, Changes, Record
from softwalltime.accounting.reader import pbs_batch
from softwalltime.accounting.tally import Tally
from softwalltime.core.jobs import MAX_WALLTIME, UNSET, Alter
from tests.samples import RECORDED_LOG
from tests.service.histories import expected_state, history, random_plans

HEAD = b"user=bob ctime=100"


def changes(lines: list[bytes]) -> Changes:
    content = b"\n".join(lines)
    return pbs_batch(Block(content, 0, 1, len(content) + 1), "log", Tally()).changes if lines else Changes()


def comparable(outcome: ChangedJobs) -> tuple[object, ...]:
    return (
        {job.submission.job_id: job for job in outcome.current}, set(outcome.removed), set(outcome.requeued),
        {alter.job_id: alter for alter in outcome.altered}, len(outcome.malformed),
    )  # fmt: skip


@given(st.integers(0, 10**6), st.lists(st.floats(0, 1), max_size=8))
def test_changes_of_parts_add_up_to_the_changes_of_the_log(seed: int, cuts: list[float]) -> None:
    lines = history(random_plans(Random(seed), 12, 600))
    places = [0, *sorted(round(cut * len(lines)) for cut in cuts), len(lines)]
    together = Changes()
    for begin, end in pairwise(places):
        together.add(changes(lines[begin:end]))
    assert comparable(together.outcome()) == comparable(changes(lines).outcome())


@given(st.integers(0, 10**6), st.floats(0, 1), st.floats(0, 1))
def test_adding_parts_is_associative(seed: int, first: float, second: float) -> None:
    lines = history(random_plans(Random(seed), 12, 600))
    one, two = sorted((round(first * len(lines)), round(second * len(lines))))
    pieces = lines[:one], lines[one:two], lines[two:]
    left, right = Changes(), Changes()
    for piece in pieces:
        left.add(changes(piece))
    later = changes(pieces[1])
    later.add(changes(pieces[2]))
    right.add(changes(pieces[0]))
    right.add(later)
    assert comparable(left.outcome()) == comparable(right.outcome())


@given(st.integers(0, 10**6))
def test_current_jobs_equal_a_fold_of_all_records(seed: int) -> None:
    lines = history(random_plans(Random(seed), 20, 600))
    current = changes(lines).outcome().current
    assert {
        job.submission.job_id: (job.start, job.submission.walltime, job.soft_walltime) for job in current
    } == expected_state(lines).current


def test_no_records_of_a_completed_job_are_kept() -> None:
    found = changes(RECORDED_LOG.read_bytes().splitlines())
    assert b"0.pbs1" in found.completed
    assert b"0.pbs1" not in found.records
    # The alters before an S record are not kept either.
    records = [b"x" * 19 + b";Q;1.s;" + HEAD, *[b"x" * 19 + b";a;1.s;Resource_List.walltime=60"] * 99]
    found = changes([*records, b"x" * 19 + b";S;1.s;" + HEAD + b" start=5"])
    assert [len(kept or ()) for kept in found.records.values()] == [1]


def test_alters_of_jobs_from_earlier_parts_are_merged() -> None:
    found = Changes()
    for number, message in enumerate(
        (b"Resource_List.walltime=60", b"Job_Name=x", b"Resource_List.soft_walltime=UNSET", b"Resource_List.walltime=7")
    ):
        line = b"x" * 19 + b";a;1.s;" + message
        found.note(b"1.s", Record(b";a;", "log", number, 0, line.replace(b"x" * 19, b"11/20/2026 10:00:00")))
    outcome = found.outcome("named")
    assert outcome.altered == [Alter("1.s", "named", 7, UNSET)]
    line = b"11/20/2026 10:00:00;a;1.s;Resource_List.walltime=1000000000001"
    found.note(b"1.s", Record(b";a;", "log", 9, 0, line))
    assert found.outcome("named").altered == [Alter("1.s", "named", MAX_WALLTIME, UNSET)]
    assert (outcome.current, outcome.removed, outcome.requeued, outcome.malformed) == ([], [], [], [])
