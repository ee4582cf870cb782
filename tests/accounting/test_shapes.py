"""A shape reads a record exactly as the parser does, or not at all."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softwalltime.accounting import pbs_records
from softwalltime.accounting.fields import attributes
from softwalltime.accounting.record_shapes import (
    MAX_ALIKE,
    MAX_COUNTED,
    MAX_EXPRESSIONS,
    MAX_FIELDS,
    MIN_SHAPE_RECORDS,
    Shapes,
)
from softwalltime.accounting.writer import end_record
from softwalltime.core.jobs import CompletedJob
from tests.samples import RECORDED_LOG, completed_jobs, job

WANTED = ("user", "account", "project", "end", "missing")
MESSAGE = "user=u{0} group=g jobname=j project=p{0} queue=q end={0} Exit_status=0"
ACCOUNTED = 'user=u{0} account="a {0}; b=c" project=p{0} end={0} session=1'


def trained(message: str, times: int = MIN_SHAPE_RECORDS) -> Shapes:
    shapes = Shapes(WANTED)
    for _ in range(times):
        assert shapes.values(message) is None
        shapes.count(message, attributes(message))
    return shapes


@pytest.mark.parametrize("message", [MESSAGE, ACCOUNTED])
def test_a_shape_that_occurred_several_times_reads_its_records(message: str) -> None:
    shapes = trained(message.format(1))
    fields = attributes(message.format(2))
    assert shapes.values(message.format(2)) == tuple(map(fields.get, WANTED))
    assert "missing" not in fields


def test_a_rare_shape_gets_no_expression() -> None:
    assert trained(MESSAGE, MIN_SHAPE_RECORDS - 1).values(MESSAGE) is None


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
def test_a_record_of_another_shape_is_not_read(other: str) -> None:
    assert trained(MESSAGE).values(other) is None


# Ambiguous texts: a quote that is not the account's last one, a name in the account.
PIECES = [
    "user=bob", "user=eve", "group=g", "jobname=j", 'jobname="j"', "queue=q", "ctime=1", "end=5", "end=6", "odd", "",
    "=", "project=p", 'project="p q"', "account=plain", 'account="a"', 'account="a b"', 'account="', 'account=""', "'",
    '"',     "account=\"it's\"", 'account="a" project="b"', 'account="x" user=root end=1"', " ", "é=1",
    "Resource_List.note='x \"y\" z'", "Resource_List.note=a=b",
]  # fmt: skip


@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=6).map(" ".join), min_size=1, max_size=6, unique=True))
@settings(max_examples=500)
def test_every_shape_reads_a_message_as_the_parser_does(messages: list[str]) -> None:
    shapes = Shapes(WANTED)
    for _ in range(MIN_SHAPE_RECORDS):
        for message in messages:
            shapes.count(message, attributes(message))
    for message in [*messages, *(message.replace("p", "pp").replace("a b", "ab c") for message in messages)]:
        values = shapes.values(message)
        if values is not None:
            assert values == tuple(map(attributes(message).get, WANTED)), message


@given(completed_jobs())
def test_the_shape_of_any_job_reads_it_as_it_was_written(completed: CompletedJob) -> None:
    message = end_record(completed).rstrip(" ")
    shapes = trained(message)
    values = shapes.values(message)
    assert values is None or values == tuple(map(attributes(message).get, WANTED))


def test_nearly_all_records_of_a_real_server_are_read_by_their_shape() -> None:
    messages = [line.split(";", 3)[3] for line in RECORDED_LOG.read_text().splitlines() if line[19:22] == ";E;"]
    shapes = Shapes(pbs_records._FIELDS)
    for message in messages * MIN_SHAPE_RECORDS:
        if shapes.values(message) is None:
            shapes.count(message, attributes(message))
    read = [message for message in messages if shapes.values(message)]
    assert len(read) > 0.9 * len(messages)


def test_the_number_of_shapes_is_limited() -> None:
    shapes = Shapes(WANTED)
    for number in range(3 * MAX_COUNTED):
        message = f"user=u field{number}=x"
        for _ in range(MIN_SHAPE_RECORDS):
            shapes.count(message, attributes(message))
    assert len(shapes._counts) <= MAX_COUNTED
    assert len(shapes._shapes[1]) == MAX_ALIKE
    for number in range(3 * MAX_EXPRESSIONS):
        message = "user=u" + "".join(f" a{field}={field}" for field in range(number))
        for _ in range(MIN_SHAPE_RECORDS):
            shapes.count(message, attributes(message))
    assert sum(map(len, shapes._shapes.values())) <= MAX_EXPRESSIONS
    wide = Shapes(WANTED)
    message = "user=u" + " a{}=1" * MAX_FIELDS
    wide.count(message, {str(name): "" for name in range(MAX_FIELDS + 1)})
    assert not wide._counts


def test_a_job_is_the_same_before_and_after_its_shape_is_known() -> None:
    line = end_record(job()).rstrip(" ")
    seen = {pbs_records.completed_values("1.srv", line) for _ in range(3 * MIN_SHAPE_RECORDS)}
    assert len(seen) == 1
