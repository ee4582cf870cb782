"""Parsing of one accounting record, with all special cases observed on a real server."""

from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from softwalltime.accounting import pbs_records
from softwalltime.accounting.fields import attributes
from softwalltime.accounting.record_shapes import MIN_SHAPE_RECORDS, Shapes
from softwalltime.accounting.writer import end_record
from softwalltime.core.errors import RecordError
from softwalltime.core.jobs import CompletedJob, job_of
from tests.samples import completed_jobs

HEADER = "user=bob group=staff jobname=x queue=q ctime=100 qtime=100 etime=100 start=110"


def completed(message: str, job_id: str = "7.srv", server: str = "") -> CompletedJob:
    return job_of(pbs_records.completed_values(job_id, message, server))


@given(completed_jobs())
def test_any_job_is_written_as_a_record_and_read_back_unchanged(job: CompletedJob) -> None:
    line = f"11/20/2026 10:16:10;E;{job.submission.job_id};{end_record(job)}".encode()
    kind, job_id, message = pbs_records.split(line)
    assert kind == "E"
    assert completed(message, job_id) == job


def test_an_account_may_contain_quotes_blanks_semicolons_and_equal_signs() -> None:
    line = b'11/20/2026 10:16:15;E;6.pbs1;user=bob group=bob account="chem grant; 2026 "x=1"" project=p jobname=acct'
    assert attributes(pbs_records.split(line)[2]) == {
        "user": "bob", "group": "bob", "account": 'chem grant; 2026 "x=1"', "project": "p", "jobname": "acct",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ('project="a b=c"', "a b=c"),
        ("project=plain", "plain"),
        ('project="quoted"', "quoted"),
        ("""Resource_List.note='say "hi" to x=1'""", 'say "hi" to x=1'),
        ("""Resource_List.json='{"a": 1, "b": [2]}'""", '{"a": 1, "b": [2]}'),
        ('Resource_List.json={"a":1}', '{"a":1}'),
        ('Resource_List.note="it\'s; fine"', "it's; fine"),
        ('Resource_List.note="', '"'),
        ("group=domain users", "domain users"),
        ("Resource_List.a.b=two.dots", "two.dots"),
        ("exec_vnode=(n1:ncpus=2+n2:ncpus=2)", "(n1:ncpus=2+n2:ncpus=2)"),
        ('project=""', ""),
        ('Resource_List.note="x"', '"x"'),
        ('account=" queue=x"', " queue=x"),
        ("account='a b'", "'a b'"),
        ('Resource_List.note="a" b"', '"a" b"'),
    ],
)
def test_a_value_is_read_as_before_quoting(written: str, value: str) -> None:
    fields = attributes(f"user=bob {written} queue=q end=5")
    assert fields == {"user": "bob", written.partition("=")[0]: value, "queue": "q", "end": "5"}


def test_a_quote_that_closes_nothing_leaves_the_next_value_its_quotes() -> None:
    fields = attributes("""Resource_List.a='x Resource_List.b="y z" end=5""")
    assert fields == {"Resource_List.a": "'x", "Resource_List.b": "y z", "end": "5"}


@pytest.mark.parametrize(
    "message",
    [
        "user=alice group=g account=x user=bob group=root ctime=1 end=5",
        "user=alice group=g account=x user=bob group=root ctime=1 end=5 Resource_List.note=it's",
        'user=alice group=g account="x user=bob group=root" jobname=j ctime=1 end=5',
    ],
)
def test_a_user_s_text_replaces_neither_user_nor_group(message: str) -> None:
    fields = attributes(message)
    assert (fields["user"], fields["group"]) == ("alice", "g")
    assert completed(message).submission.user == "alice"


def test_no_number_of_records_of_one_shape_makes_a_user_s_text_replace_the_user() -> None:
    messages = [
        f"user=alice{number} group=g account=x user=bob ctime=1 end=5" for number in range(3 * MIN_SHAPE_RECORDS)
    ]
    assert [completed(message).submission.user for message in messages] == [
        f"alice{number}" for number in range(3 * MIN_SHAPE_RECORDS)
    ]


def test_a_shape_that_occurs_often_is_read_by_one_match(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = Shapes(pbs_records._FIELDS)
    monkeypatch.setattr(pbs_records, "_shapes", shapes)
    message = "user=bob ctime=1 end=5"
    for _ in range(MIN_SHAPE_RECORDS):
        assert shapes.values(message) is None
        assert completed(message).end == 5
    assert shapes.values(message) is not None
    assert completed(message).end == 5


@pytest.mark.parametrize("quote", ["'", '"'])
@pytest.mark.parametrize("key", ["project", "jobname", "Resource_List.site", "account"])
@pytest.mark.parametrize(
    "later", ['Resource_List.z="a b"', "Resource_List.z='say \"hi\" x'", "Resource_List.z=it's Resource_List.zz='"]
)
def test_a_value_may_begin_with_a_quotation_mark_of_its_own(quote: str, key: str, later: str) -> None:
    project = f"project={quote}p" if key == "project" else 'project="p q"'
    jobname = f"jobname={quote}p" if key == "jobname" else "jobname=j"
    account = 'account="' + quote + 'p"' if key == "account" else 'account="a"'
    site = f"Resource_List.site={quote}p"
    rest = f"{later} {site} end=9" if key == "Resource_List.site" else f"{later} end=9"
    message = f"user=bob group=g {account} {project} {jobname} queue=q ctime=1 Resource_List.walltime=1:00 {rest}"
    fields = attributes(message)
    assert fields[key] == f"{quote}p"
    assert (fields["queue"], fields["ctime"], fields["Resource_List.walltime"], fields["end"]) == (
        "q",
        "1",
        "1:00",
        "9",
    )
    assert completed(message).submission.walltime == 60


def test_a_user_s_text_cannot_replace_the_user_or_the_end() -> None:
    forged = 'x" user=root end=1 Exit_status=0 walltime'
    job = completed(f'user=bob group=staff account="{forged}" jobname=j queue=q ctime=5 end=99 Exit_status=3')
    assert (job.submission.user, job.end, job.exit_status) == ("bob", 99, 3)


def test_the_runtime_is_measured_by_pbs_or_else_end_minus_start() -> None:
    assert completed(f"{HEADER} end=200 resources_used.walltime=00:01:15").runtime == 75
    assert completed(f"{HEADER} end=200").runtime == 90
    assert completed("user=bob ctime=100 end=200").runtime == 0


def test_a_late_kill_leaves_a_runtime_above_the_walltime() -> None:
    job = completed(f"{HEADER} Resource_List.walltime=00:00:05 end=125 resources_used.walltime=00:00:15")
    assert (job.submission.walltime, job.runtime) == (5, 15)


@pytest.mark.parametrize("text", ["1000000000001", "277777777:46:41", "43800:00:01", "43800:00:00", "43799:59:59"])
def test_a_walltime_above_five_years_counts_as_five_years(text: str) -> None:
    limits = " ".join(f"Resource_List.{name}={text}" for name in ("max_walltime", "min_walltime", "soft_walltime"))
    job = completed(f"{HEADER} {limits} Resource_List.walltime={text} end=200")
    expected = 5 * 365 * 86400 - (text == "43799:59:59")
    submission = job.submission
    walltimes = (submission.walltime, submission.min_walltime, submission.max_walltime, job.soft_walltime)
    assert walltimes == (expected,) * 4
    assert job.runtime == 90


def test_a_job_without_walltime_has_none() -> None:
    assert completed(f"{HEADER} end=200").submission.walltime is None


def test_a_start_of_zero_means_never_started() -> None:
    assert completed("user=bob ctime=100 start=0 end=200").start is None


def test_torque_is_read_too() -> None:
    message = (
        "user=ann group=chem jobname=md queue=batch ctime=1500000000 qtime=1500000000 etime=1500000000 "
        "start=1500000100 owner=ann@login1 exec_host=n1/0-7+n2/0-7 Resource_List.nodes=2:ppn=8:gpus=1+n7:ppn=4 "
        "Resource_List.nodect=3 Resource_List.neednodes=2:ppn=8 Resource_List.walltime=12:00:00 session=999 "
        "total_execution_slots=20 unique_node_count=3 end=1500003700 Exit_status=0 "
        "resources_used.cput=3600 resources_used.mem=1048576kb resources_used.walltime=01:00:00"
    )
    job = completed(message, "1166970[3].torque.example.org")
    assert job.server == "torque.example.org"
    assert job.submission.project == ""
    assert (job.submission.ncpus, job.submission.ngpus, job.submission.nodect) == (20, 2, 3)
    assert job.submission.select == "2:ppn=8:gpus=1+n7:ppn=4"
    assert (job.runtime, job.cput, job.mem_used) == (3600, 3600, 2**30)


def test_the_server_is_the_end_of_the_id_unless_it_is_given() -> None:
    message = f"{HEADER} end=200"
    assert completed(message, "7.srv.example.org").server == "srv.example.org"
    assert completed(message, "7.srv", "cluster-a").server == "cluster-a"


@pytest.mark.parametrize(
    ("message", "field", "value"),
    [
        ("group=g ctime=1 end=2", "user", ""),
        ("user=bob ctime=1", "end", ""),
        ("user=bob end=2", "ctime", ""),
        ("user=bob ctime=1 end=soon", "end", "soon"),
        ("user=bob ctime=1 end=2 Resource_List.walltime=long", "Resource_List.walltime", "long"),
        ("user=bob ctime=1 start=soon end=2", "start", "soon"),
        ("user=bob ctime=1 end=2 Resource_List.mem=lots resources_used.walltime=x", "resources_used.walltime", "x"),
    ],
)
def test_an_error_names_field_and_value(message: str, field: str, value: str) -> None:
    with pytest.raises(RecordError) as caught:
        completed(message)
    assert (caught.value.field, caught.value.value) == (field, value)


@pytest.mark.parametrize("job_id", ["", "7 .srv", " "])
def test_a_job_needs_an_id_of_one_word(job_id: str) -> None:
    with pytest.raises(RecordError, match="is not a job id"):
        completed("user=bob ctime=1 end=2", job_id)


@pytest.mark.parametrize(
    ("fields", "counts"),
    [("", (2, 4)), ("Resource_List.ncpus=8", (8, 4)), ("Resource_List.ngpus=1", (2, 1))],
)
def test_the_nodes_of_torque_give_the_count_that_is_missing(fields: str, counts: tuple[int, int]) -> None:
    submission = completed(f"user=bob ctime=1 end=2 Resource_List.nodes=2:gpus=2 {fields}").submission
    assert (submission.ncpus, submission.ngpus) == counts


def test_a_malformed_optional_field_is_left_out() -> None:
    left_out: Counter[str] = Counter()
    message = "user=bob ctime=1 end=9 qtime=soon Resource_List.mem=lots Resource_List.ncpus=4 Exit_status=99999999999"
    job = job_of(pbs_records.completed_values("7.srv", message, left_out=left_out))
    assert left_out == Counter({"qtime": 1, "Resource_List.mem": 1, "Exit_status": 1})
    assert (job.submission.user, job.submission.ncpus, job.end) == ("bob", 4, 9)
    assert (job.qtime, job.submission.mem, job.exit_status) == (None, None, None)


@pytest.mark.parametrize(
    ("line", "part"),
    [
        (b"garbage", "semicolons"), (b"", "semicolons"), (b"now;E;1.srv;user=x", "time stamp"),
        (b"21/11/2026 10:16:10;E;1.srv;user=x", "time stamp"), (b"02/30/2026 10:16:10;E;1.srv;user=x", "time stamp"),
        (b"11/20/2026 24h16m10;E;1.srv;user=x", "time stamp"), (b"11/20/2026_10:16:10;E;1.srv;user=x", "time stamp"),
        (b"11/20/2026 10:16:10;EE;1.srv;user=x", "record type"),
    ],
)  # fmt: skip
def test_a_line_that_is_not_a_record_is_rejected(line: bytes, part: str) -> None:
    with pytest.raises(RecordError, match=part):
        pbs_records.split(line)


@pytest.mark.parametrize(("longer", "accepted"), [(0, True), (1, False)])
@pytest.mark.parametrize("which", ["user", "project", "queue", "id"])
def test_names_and_job_id_have_300_characters_together_at_most(which: str, longer: int, accepted: bool) -> None:
    texts = {"user": "u", "project": "p", "queue": "q", "id": "1.srv"}
    texts[which] += "x" * (300 - sum(map(len, texts.values())) + longer)
    message = f"user={texts['user']} project={texts['project']} queue={texts['queue']} ctime=1 end=2"
    try:
        assert completed(message, texts["id"]).submission.user == texts["user"]
    except RecordError as error:
        assert (accepted, error.field) == (False, "user")
    else:
        assert accepted


def test_the_cache_of_days_is_bounded_and_days_are_read_again() -> None:
    assert pbs_records._is_day.cache_info().maxsize == 10_000
    for day in (*range(1, 9), *range(1, 9)):
        assert pbs_records.split(f"11/{day:02}/2026 10:16:10;E;1.srv;user=x".encode())[0] == "E"
        with pytest.raises(RecordError, match="MM/DD"):
            pbs_records.split(f"13/{day:02}/2026 10:16:10;E;1.srv;user=x".encode())


def test_a_record_of_a_job_whose_end_is_before_its_start_has_no_negative_runtime() -> None:
    assert completed("user=bob ctime=1 start=9 end=5").runtime == 0
    assert completed("user=bob ctime=1 start=4 end=5").runtime == 1


def test_the_nodes_of_torque_are_bounded_by_what_the_store_holds() -> None:
    job = completed(f"user=bob ctime=1 end=5 Resource_List.nodes={10**9}:ppn=9999999999:gpus=9999999999")
    assert (job.submission.ncpus, job.submission.ngpus) == (2**31 - 1, 2**31 - 1)


@given(st.binary(max_size=300))
@example(b"11/20/2026 10:16:10;E;1.srv;user=\xe9\x00 ctime=1 end=2")
@example(b'11/20/2026 10:16:10;E;1.srv;user=a account="')
def test_any_bytes_are_read_or_rejected(line: bytes) -> None:
    try:
        _, job_id, message = pbs_records.split(line)
        job = completed(message, job_id)
    except RecordError as error:
        assert error.reason
    else:
        # Any database accepts the values.
        assert "\0" not in job.submission.user
        assert job.submission.user.encode()
