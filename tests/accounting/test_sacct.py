"""Tables of Slurm's sacct as completed jobs, and formats of traces from other packages."""

import json
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softwalltime.accounting import sacct, traces
from softwalltime.accounting.reader import read_jobs
from softwalltime.accounting.sacct import FIELDS, SacctTable
from softwalltime.accounting.tally import Tally
from softwalltime.accounting.traces import TraceFormat
from softwalltime.cli import run
from softwalltime.core.errors import RecordError
from softwalltime.core.jobs import CompletedJob, Values, job_of, values_of
from softwalltime.core.states import State
from tests.samples import job

HEADER = FIELDS.replace(",", "|").encode()
JOB = (
    b"4711|alice|chem|staff|relax|compute|normal|2026-01-04T16:57:10|2026-01-04T16:58:00|2026-01-04T17:00:00"
    b"|2026-01-05T18:00:10|4-04:00:00|16|1|COMPLETED|0:0"
)


def changed(**values: str) -> bytes:
    """Return the line of the job with other values in some columns."""
    names = FIELDS.split(",")
    row = dict(zip(names, JOB.decode().split("|"), strict=True)) | values
    return "|".join(row[name] for name in names).encode()


def job_in(line: bytes) -> CompletedJob:
    """Return the job of this line."""
    table = SacctTable()
    assert table.values(HEADER) == "header"
    values = table.values(line)
    assert not isinstance(values, str)
    return job_of(values)


def test_a_line_becomes_a_job() -> None:
    job = job_in(JOB)
    submission = job.submission
    assert (submission.job_id, submission.user, submission.account) == ("4711", "alice", "chem")
    assert (submission.group, submission.job_name, submission.queue) == ("staff", "relax", "compute")
    assert (submission.project, submission.ncpus, submission.nodect) == ("normal", 16, 1)
    assert submission.walltime == 4 * 86400 + 4 * 3600
    assert (job.start, job.runtime) == (submission.submitted + 170, 86400 + 3610)
    assert (job.etime, job.end) == (submission.submitted + 50, submission.submitted + 170 + 90010)
    assert (submission.submitted, job.state) == (1767545830, State.FINISHED)


@pytest.mark.parametrize(
    ("values", "state"),
    [
        ({"State": "TIMEOUT", "ExitCode": "0:0"}, State.WALLTIME_EXCEEDED),
        ({"State": "CANCELLED by 1000"}, State.DELETED),
        ({"State": "FAILED", "ExitCode": "0:9"}, State.FAILED),
        ({"State": "OUT_OF_MEMORY"}, State.LIMIT_EXCEEDED),
        ({"State": "NODE_FAIL"}, State.NODE_FAILURE),
        ({"State": "PREEMPTED"}, State.RERUN),
        ({"State": "CANCELLED", "Start": "None"}, State.NOT_STARTED),
        ({"State": "CANCELLED", "Start": "2026-01-05T18:00:10"}, State.NOT_STARTED),
    ],
)
def test_the_state_is_that_of_a_job_of_pbs(values: dict[str, str], state: State) -> None:
    job = job_in(changed(**values))
    assert job.state == state
    assert job.ran == (state is not State.NOT_STARTED)


@pytest.mark.parametrize(
    ("limit", "seconds"), [("00:30:00", 1800), ("1-00:00:01", 86401), ("UNLIMITED", None), ("Partition_Limit", None)]
)
def test_the_limit_is_the_walltime(limit: str, seconds: int | None) -> None:
    assert job_in(changed(Timelimit=limit)).submission.walltime == seconds


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ({"JobID": "4711.batch"}, "step"),
        ({"State": "RUNNING", "End": "Unknown"}, "not ended"),
        ({"State": "PENDING", "Start": "Unknown", "End": "Unknown"}, "not ended"),
    ],
)
def test_other_lines_are_told_by_what_they_are(values: dict[str, str], what: str) -> None:
    table = SacctTable()
    table.values(HEADER)
    assert table.values(changed(**values)) == what


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"Submit": "yesterday"}, "Submit: neither YYYY-MM-DDTHH:MM:SS nor epoch seconds"),
        ({"Timelimit": "90"}, "Timelimit: not a duration"),
        ({"JobName": "a|b"}, "not a line of 16 columns"),
    ],
)
def test_a_malformed_line_is_reported_with_its_column(values: dict[str, str], message: str) -> None:
    with pytest.raises(RecordError, match=message):
        job_in(changed(**values))


@given(st.lists(st.sampled_from([*JOB.split(b"|"), b"", b"-1", b"9" * 30, b"\xff\0", "²".encode()]), max_size=17))
def test_no_line_gives_another_error(texts: list[bytes]) -> None:
    table = SacctTable()
    table.values(HEADER)
    try:
        values = table.values(b"|".join(texts))
    except RecordError:
        return
    assert isinstance(values, str) or job_of(values).runtime >= 0


def test_a_table_is_replayed_like_a_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "jobs.txt"
    day = "2026-01-{:02}T10:00:00".format
    rows = [
        changed(JobID=str(number), Submit=day(number), Eligible=day(number), Start=day(number), End=day(number + 1))
        for number in range(1, 20)
    ]
    # --parsable, and not --parsable2: one more separator on each line.
    table.write_bytes(b"".join(line + b"|\n" for line in (HEADER, *rows, changed(JobID="7.batch"))))
    tally = Tally()
    assert len(list(read_jobs([table], tally))) == 19
    assert dict(tally.other) == {"header": 1, "step": 1}
    assert run(["replay", str(table), "--predictors", "v1", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["jobs"] == 19


def test_a_table_without_a_needed_column_says_what_to_give(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "jobs.txt"
    table.write_bytes(b"JobID|User|State\n7|alice|COMPLETED\n")
    assert run(["replay", str(table)]) != 0
    assert sacct.COMMAND in capsys.readouterr().err


@pytest.fixture
def points(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    """The entry points of other packages."""
    there: list[EntryPoint] = []
    monkeypatch.setattr(traces, "entry_points", lambda group: [point for point in there if point.group == group])
    traces.trace_formats.cache_clear()
    yield there
    traces.trace_formats.cache_clear()


class Flux:
    """A reader of another package: one job a line, with its user and its seconds."""

    machine = 64

    def __init__(self) -> None:
        self.left_out: Counter[str] = Counter()

    def values(self, line: bytes) -> Values:
        """Return the job of the line."""
        _, user, seconds = line.decode().split()
        return values_of(job(user, runtime=int(seconds)))


FLUX = TraceFormat(lambda start: start.startswith(b"flux "), Flux)


def test_another_package_adds_a_format(points: list[EntryPoint], tmp_path: Path) -> None:
    points.append(EntryPoint("flux", f"{__name__}:FLUX", traces.ENTRY_POINT_GROUP))
    log = tmp_path / "flux.log"
    log.write_bytes(b"flux alice 100\nflux bob 200\n")
    tally = Tally()
    jobs = list(read_jobs([log], tally))
    assert [(job.submission.user, job.runtime) for job in jobs] == [("alice", 100), ("bob", 200)]
    assert tally.machine == 64


def test_a_format_that_cannot_be_loaded_is_named_and_left_out(
    points: list[EntryPoint], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    points.append(EntryPoint("broken", "no_such_module:FORMAT", traces.ENTRY_POINT_GROUP))
    table = tmp_path / "jobs.txt"
    table.write_bytes(b"".join(line + b"\n" for line in (HEADER, JOB)))
    assert len(list(read_jobs([table], Tally()))) == 1
    (message,) = caplog.messages
    assert message.startswith("the trace format broken (no_such_module:FORMAT) cannot be loaded")
