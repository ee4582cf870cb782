"""A record read by its shape is read as one that is taken apart, or not at all."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softwalltime.accounting import pbs
from softwalltime.accounting.shapes import ALIKE, LONGEST, MET, MOST, REMEMBERED, Shapes
from softwalltime.accounting.writer import end_record
from softwalltime.jobs import CompletedJob
from tests.samples import RECORDED_LOG, completed_jobs, job

WANTED = ("user", "account", "project", "end", "missing")
MESSAGE = "user=u{0} group=g jobname=j project=p{0} queue=q end={0} Exit_status=0"
ACCOUNTED = 'user=u{0} account="a {0}; b=c" project=p{0} end={0} session=1'


def taught(message: str, times: int = MET) -> Shapes:
    shapes = Shapes(WANTED)
    for _ in range(times):
        assert shapes.values(message) is None
        shapes.meet(message, pbs.attributes(message))
    return shapes


@pytest.mark.parametrize("message", [MESSAGE, ACCOUNTED])
def test_a_shape_that_was_met_some_times_reads_what_has_it(message: str) -> None:
    shapes = taught(message.format(1))
    fields = pbs.attributes(message.format(2))
    assert shapes.values(message.format(2)) == tuple(map(fields.get, WANTED))
    assert "missing" not in fields


def test_before_that_every_record_is_taken_apart() -> None:
    assert taught(MESSAGE, MET - 1).values(MESSAGE) is None


@pytest.mark.parametrize(
    "other",
    [
        MESSAGE.replace("queue", "dest"),
        MESSAGE.replace("user=u", 'user="u'),
        MESSAGE.replace("group=g", "group=domain users"),
        MESSAGE.replace("=q ", "=q  "),
        f"{MESSAGE} ",
        f" {MESSAGE}",
        MESSAGE.replace("jobname=j", "project=j"),
        "",
    ],
)
def test_what_has_another_shape_is_not_read(other: str) -> None:
    assert taught(MESSAGE).values(other) is None


# What may pass for something else: a quote that is not the account's last one, a name in the account.
PIECES = [
    "user=bob", "user=eve", "group=g", "jobname=j", 'jobname="j"', "queue=q", "ctime=1", "end=5", "end=6", "odd", "",
    "=", "project=p", 'project="p q"', "account=plain", 'account="a"', 'account="a b"', 'account="', 'account=""', "'",
    '"',     "account=\"it's\"", 'account="a" project="b"', 'account="x" user=root end=1"', " ", "é=1",
    "Resource_List.note='x \"y\" z'", "Resource_List.note=a=b",
]  # fmt: skip


@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=6).map(" ".join), min_size=1, max_size=6, unique=True))
@settings(max_examples=500)
def test_no_shape_reads_a_message_otherwise_than_taking_it_apart(messages: list[str]) -> None:
    shapes = Shapes(WANTED)
    for _ in range(MET):
        for message in messages:
            shapes.meet(message, pbs.attributes(message))
    for message in [*messages, *(message.replace("p", "pp").replace("a b", "ab c") for message in messages)]:
        values = shapes.values(message)
        if values is not None:
            assert values == tuple(map(pbs.attributes(message).get, WANTED)), message


@given(completed_jobs())
def test_any_job_is_read_by_its_shape_as_it_was_written(completed: CompletedJob) -> None:
    message = end_record(completed).rstrip(" ")
    shapes = taught(message)
    values = shapes.values(message)
    assert values is None or values == tuple(map(pbs.attributes(message).get, WANTED))


def test_nearly_all_records_of_a_real_server_are_read_by_their_shape() -> None:
    messages = [line.split(";", 3)[3] for line in RECORDED_LOG.read_text().splitlines() if line[19:22] == ";E;"]
    shapes = Shapes(pbs._FIELDS)
    for message in messages * MET:
        if shapes.values(message) is None:
            shapes.meet(message, pbs.attributes(message))
    read = [message for message in messages if shapes.values(message)]
    assert len(read) > 0.9 * len(messages)


def test_shapes_without_end_take_neither_memory_nor_time() -> None:
    shapes = Shapes(WANTED)
    for number in range(3 * REMEMBERED):
        message = f"user=u field{number}=x"
        for _ in range(MET):
            shapes.meet(message, pbs.attributes(message))
    assert len(shapes._met) <= REMEMBERED
    assert len(shapes._shapes[1]) == ALIKE
    for number in range(3 * MOST):
        message = "user=u" + "".join(f" a{field}={field}" for field in range(number))
        for _ in range(MET):
            shapes.meet(message, pbs.attributes(message))
    assert sum(map(len, shapes._shapes.values())) <= MOST
    wide = Shapes(WANTED)
    message = "user=u" + " a{}=1" * LONGEST
    wide.meet(message, {str(name): "" for name in range(LONGEST + 1)})
    assert not wide._met


def test_a_job_is_the_same_before_and_after_its_shape_is_known() -> None:
    line = end_record(job()).rstrip(" ")
    seen = {pbs.completed_job("1.srv", line) for _ in range(3 * MET)}
    assert len(seen) == 1
