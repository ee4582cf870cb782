"""Standard Workload Format traces as completed jobs."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softwalltime.accounting.reader import read_jobs
from softwalltime.accounting.swf import Header, completed_job
from softwalltime.accounting.tally import Tally
from softwalltime.errors import RecordError

LINE = b"    7  1000    50   600   16   590    -1   16  3600    -1   1   12    3   44    2   -1 -1 -1"
HEADER = Header(1_000_000)


def test_a_line_becomes_a_job() -> None:
    job = completed_job(LINE, HEADER)
    submission = job.submission
    assert (submission.job_id, submission.user) == ("7", "user12")
    assert submission.project == submission.group == "group3"
    assert (submission.job_name, submission.queue) == ("app44", "queue2")
    assert (submission.ncpus, submission.walltime) == (16, 3600)
    assert (submission.submitted, job.start, job.end, job.runtime) == (1_001_000, 1_001_050, 1_001_650, 600)
    assert (job.exit_status, job.cput) == (0, 590 * 16)


def test_what_is_unknown_stays_unknown() -> None:
    job = completed_job(b"7 1000 -1 600 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1", HEADER)
    submission = job.submission
    assert (submission.user, submission.project, submission.job_name, submission.queue) == ("", "", "", "")
    assert (submission.walltime, submission.ncpus, submission.mem, job.cput) == (None, None, None, None)
    assert job.end == 1_001_600, "an unknown wait counts as none"


def test_a_job_that_never_ran_has_no_start_and_no_runtime() -> None:
    job = completed_job(b"7 1000 90 -1 4 -1 -1 4 3600 -1 5 1 1 -1 -1 -1 -1 -1", HEADER)
    assert (job.start, job.runtime, job.ran) == (None, 0, False)


def test_averages_may_have_a_fraction() -> None:
    assert completed_job(LINE.replace(b" 590 ", b" 590.6 "), HEADER).cput == 590 * 16


@pytest.mark.parametrize("line", [b"1 2 3", LINE + b" 5", LINE.replace(b"600", b"x"), LINE.replace(b"600", b"9" * 20)])
def test_what_is_no_job_is_refused(line: bytes) -> None:
    with pytest.raises(RecordError):
        completed_job(line, HEADER)


@given(st.binary(max_size=100) | st.lists(st.integers(-(10**14), 10**14), min_size=18, max_size=18).map(str))
def test_any_line_is_read_or_refused(line: bytes | str) -> None:
    raw = line if isinstance(line, bytes) else line.translate(str.maketrans("", "", "[],")).encode()
    try:
        assert completed_job(raw, HEADER).runtime >= 0
    except RecordError as error:
        assert error.reason


def test_a_trace_is_read_with_header_blank_lines_bad_lines_and_no_last_line_end(tmp_path: Path) -> None:
    trace = tmp_path / "t.swf"
    trace.write_bytes(b"; UnixStartTime: 500\n;\n\n" + LINE + b"\nbad line\n" + LINE)
    tally = Tally()
    jobs = list(read_jobs([trace], tally))
    assert [job.submission.submitted for job in jobs] == [1500, 1500]
    assert (tally.jobs, tally.malformed, tally.blank, tally.unfinished) == (2, 1, 1, 0)
    assert str(tally.kept[0]) == f"{trace}:5: not a line of 18 numbers ('bad line')"
