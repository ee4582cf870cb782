"""Requests that the daemon accepts, and its response to invalid ones."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softwalltime.core.jobs import MAX_WALLTIME
from softwalltime.service.protocol import (
    MAX_LINE_BYTES,
    MAX_SELECT_CHARS,
    JobValueError,
    ProtocolError,
    answer_set,
    read_request,
)

JOB = {"user": "alice", "walltime": 3600}
BOUNDED = ("job_id", "user", "group", "project", "account", "job_name", "queue")


def line(**fields: object) -> bytes:
    return json.dumps({"v": 1, "op": "predict", "event": "queuejob", "now": 5, "job": JOB, **fields}).encode()


def test_a_request_is_read_into_a_submission() -> None:
    request = read_request(line(event="runjob", job={**JOB, "mem": "4gb", "soft_walltime": 60, "job_id": "3[1].srv"}))
    assert (request.operation, request.event, request.now, request.soft_walltime) == ("predict", "runjob", 5, 60)
    assert (request.job.user, request.job.walltime, request.job.mem) == ("alice", 3600, 4 * 2**30)
    assert request.job.submitted == 5, "at queuejob there is no ctime yet"


@pytest.mark.parametrize(
    ("resources", "derived"),
    [
        ({"select": "1:ncpus=2:mem=500mb+2:ncpus=1:mem=250mb"}, (4, 3, None, 1000 * 2**20)),
        ({"select": "1:ncpus=1:ngpus=1"}, (1, 1, 1, None)),
        ({"select": "2:ncpus=4", "mem": "1gb"}, (8, 2, None, 2**30)),
        ({"nodes": "1:ppn=2"}, (2, 1, None, None)),
        ({"nodes": "2:ppn=4:bigmem+node7#excl"}, (9, 3, None, None)),
        ({"ncpus": 4}, (4, 1, None, None)),
        ({}, (1, 1, None, None)),
        ({"ncpus": 4, "nodect": 2, "select": "7:ncpus=7"}, (4, 2, None, None)),
        ({"select": "2:ncpus=x"}, (None, None, None, None)),
        ({"select": "2000000000:ncpus=2000000000"}, (None, None, None, None)),
        ({"select": "1+" * MAX_SELECT_CHARS + "1"}, (None, None, None, None)),
        ({"nodes": "1+" * MAX_SELECT_CHARS + "1"}, (None, None, None, None)),
        ({"nodes": 7}, (None, None, None, None)),
        ({"nodes": [7]}, (None, None, None, None)),
    ],
)
def test_what_pbs_derives_after_queuejob_is_derived_from_the_request(
    resources: dict[str, object], derived: tuple[int | None, ...]
) -> None:
    job = read_request(line(job={**JOB, **resources})).job
    assert (job.ncpus, job.nodect, job.ngpus, job.mem) == derived


@pytest.mark.parametrize("seconds", [MAX_WALLTIME - 1, MAX_WALLTIME, MAX_WALLTIME + 1, 10**12 + 1, 10**400])
def test_a_walltime_above_five_years_is_limited_and_not_refused(seconds: int) -> None:
    fields = ("walltime", "min_walltime", "max_walltime", "soft_walltime")
    request = read_request(line(job={"user": "alice", **dict.fromkeys(fields, seconds)}))
    limited = min(seconds, 5 * 365 * 24 * 3600)
    assert [getattr(request.job, name) for name in fields[:3]] == [limited] * 3
    assert request.soft_walltime == limited


def test_a_script_is_read_as_its_digest_and_an_older_hook_sends_none() -> None:
    def script(user: str, path: object) -> str:
        read = read_request(line(job={**JOB, "user": user, "script_path": path})).job
        assert read is not None
        return read.script

    assert len(script("alice", "/a.sh")) == 16
    assert script("alice", "/a.sh") == script("alice", "/a.sh") != script("bob", "/a.sh") != script("bob", "/b.sh")
    assert len(script("alice", "caf\udce9" * 1000)) == 16
    assert {script("alice", nothing) for nothing in (None, "", 7, ["/a.sh"])} == {""}
    read = read_request(line()).job
    assert read is not None
    assert read.script == ""


def test_unknown_fields_of_a_newer_hook_are_ignored() -> None:
    assert read_request(line(new_field=[1], job={**JOB, "colour": {"of": "hair"}})) == read_request(line())


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (b"", "not JSON"),
        (b"[]", "not a JSON object"),
        (b"[" * 50_000, "not JSON"),
        (line(v=3), "version 3 of the protocol is not supported; version 1 is"),
        (line(v=True), "version True of the protocol is not supported; version 1 is"),
        (line(op="destroy"), "op: one of"),
        (line(event="execjob_begin"), "event: one of"),
        (line(job=None), "job: an object"),
        (line(job={}), "job.user is missing"),
        (line(job={"user": 7}), "user: a string"),
        (line(job={**JOB, "walltime": -5}), "walltime: a whole number"),
        (line(job={**JOB, "walltime": True}), "walltime: a whole number"),
        (line(job={**JOB, "walltime": 1e12}), "walltime: a whole number"),
        (line(now="today"), "now: a whole number"),
        (b" " * MAX_LINE_BYTES, "longer than"),
    ],
)
def test_an_invalid_request_is_refused_and_names_the_field(bad: bytes, message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        read_request(bad)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"ncpus": 10**12 + 1, "job_id": "7.srv"}, "ncpus: 1000000000001 is not below 1000000000000; job 7.srv "),
        *(({name: "x" * 601}, f"{name}: longer than 600 characters; job ") for name in BOUNDED),
    ],
)
def test_a_value_of_a_user_outside_the_limits_is_distinguished(value: dict[str, object], message: str) -> None:
    with pytest.raises(JobValueError, match=message):
        read_request(line(job={**JOB, **value}))


def test_texts_up_to_the_limit_and_long_selections_are_read() -> None:
    request = read_request(line(job={**JOB, "account": "x" * 600, "select": "+".join(["1:ncpus=1"] * 1000)}))
    assert (len(request.job.account), len(request.job.select)) == (600, 9_999)


def test_an_unreadable_memory_size_is_ignored() -> None:
    request = read_request(line(job={**JOB, "mem": "lots"}))
    assert request.job.mem is None


documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda each: st.lists(each) | st.dictionaries(st.text(), each),
)


@given(st.binary(max_size=200) | documents.map(lambda document: json.dumps(document).encode()))
def test_any_line_is_read_or_refused(raw: bytes) -> None:
    try:
        assert read_request(raw).operation
    except ProtocolError as error:
        assert str(error)


@given(st.text())
def test_a_response_is_one_line_of_ascii(text: str) -> None:
    answer = answer_set(60, text)
    assert answer.endswith(b"\n")
    assert answer.count(b"\n") == 1
    assert answer.isascii()
    assert json.loads(answer) == {"v": 1, "action": "set", "soft_walltime": 60, "basis": text}
