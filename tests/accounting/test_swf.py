"""Standard Workload Format traces as completed jobs."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softwalltime.accounting.reader import read_jobs
from softwalltime.accounting.swf import Header, completed_values
from softwalltime.accounting.tally import Tally
from softwalltime.core.errors import RecordError
from softwalltime.core.jobs import CompletedJob, job_of
from softwalltime.measure.replay.job_columns import JobColumns

LINE = b"    7  1000    50   600   16   590    -1   16  3600    -1   1   12    3   44    2   -1 -1 -1"
HEADER = Header(1_000_000, columns=18)


def completed_job(line: bytes, header: Header) -> CompletedJob:
    return job_of(completed_values(line, header))


def test_a_line_becomes_a_job() -> None:
    job = completed_job(LINE, HEADER)
    submission = job.submission
    assert (submission.job_id, submission.user) == ("7", "user12")
    assert submission.project == submission.group == "group3"
    assert (submission.job_name, submission.queue) == ("app44", "queue2")
    assert (submission.ncpus, submission.walltime) == (16, 3600)
    assert (submission.submitted, job.start, job.end, job.runtime) == (1_001_000, 1_001_050, 1_001_650, 600)
    assert (job.exit_status, job.cput) == (0, 590 * 16)


def test_unknown_values_stay_unknown() -> None:
    job = completed_job(b"7 1000 -1 600 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1", HEADER)
    submission = job.submission
    assert (submission.user, submission.project, submission.job_name, submission.queue) == ("", "", "", "")
    assert (submission.walltime, submission.ncpus, submission.mem, job.cput) == (None, None, None, None)
    assert job.end == 1_001_600, "an unknown wait counts as none"


def test_a_job_that_never_ran_has_no_start_and_no_runtime() -> None:
    job = completed_job(b"7 1000 90 -1 4 -1 -1 4 3600 -1 5 1 1 -1 -1 -1 -1 -1", HEADER)
    assert (job.start, job.runtime, job.ran) == (None, 0, False)


def test_a_walltime_above_five_years_counts_as_five_years() -> None:
    job = completed_job(LINE.replace(b" 3600 ", b" %d " % 10**19), HEADER)
    assert job.submission.walltime == 5 * 365 * 86400


@pytest.mark.parametrize("column", [4, 5, 6, 7, 9])
@pytest.mark.parametrize("value", [10**12 - 1, 2**31 - 1, 2**30, 2**40 - 1, 10**18, 10**30])
def test_no_number_of_an_optional_column_is_too_large_for_the_store(column: int, value: int) -> None:
    columns = LINE.split()
    columns[7] = b"%d" % (2**31 - 1)
    columns[column] = b"%d" % value
    jobs = JobColumns.of([completed_values(b" ".join(columns), Header(0, columns=18))])
    assert jobs[0].runtime == 600
    assert max(jobs[0].cput or 0, jobs[0].mem_used or 0, jobs[0].submission.mem or 0) < 2**63


@pytest.mark.parametrize(("kilobytes", "memory"), [(2**30, 16 * 2**40), (2**30 + 1, None), (2**32, None), (-1, None)])
def test_memory_beyond_belief_is_left_out_and_counted(kilobytes: int, memory: int | None) -> None:
    columns = LINE.split()
    columns[6] = columns[9] = b"%d" % kilobytes
    header = Header(columns=18)
    job = completed_job(b" ".join(columns), header)
    assert (job.submission.mem, job.mem_used) == (memory, memory)
    names = [name.partition(" (")[0] for name in header.left_out]
    assert sorted(names) == (["requested memory", "used memory"] if kilobytes > 2**30 else [])


@pytest.mark.parametrize(
    ("header", "machine"),
    [
        (b"; MaxNodes: 100\n; MaxProcs: 400\n", 400),
        (b"; MaxNodes: 100\n", 100),
        (b"; MaxProcs: unknown\n;MaxNodes: 1,024\n", 0),
        (b"; MaxProcs: 64\n; MaxProcs: 128\n", 64),
        (b"; Note: MaxProcs: 7\n", 0),
    ],
)
def test_the_header_tells_the_size_of_the_machine(header: bytes, machine: int, tmp_path: Path) -> None:
    trace = tmp_path / "t.swf"
    trace.write_bytes(header + LINE + b"\n")
    assert read(trace)[1].machine == machine
    tally = Tally()
    assert len(list(read_jobs([trace, trace], tally))) == 2
    assert tally.machine == 0, "two traces are of two machines"


def test_averages_may_be_fractions() -> None:
    assert completed_job(LINE.replace(b" 590 ", b" 590.6 "), HEADER).cput == 590 * 16


@pytest.mark.parametrize("line", [b"1 2 3", LINE + b" 5", LINE.replace(b"600", b"x"), LINE.replace(b"600", b"9" * 20)])
def test_a_line_that_is_not_a_job_is_rejected(line: bytes) -> None:
    with pytest.raises(RecordError):
        completed_job(line, HEADER)


@given(st.binary(max_size=100) | st.lists(st.integers(-(10**14), 10**14), min_size=18, max_size=18).map(str))
def test_any_line_is_read_or_rejected(line: bytes | str) -> None:
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
    assert (tally.jobs, tally.malformed, tally.blank, tally.unfinished) == (2, 1, 1, [])
    assert str(tally.kept[0]).startswith(f"{trace}:5: not a line of 18 columns (job number, submit time, ")
    assert str(tally.kept[0]).endswith("think time) ('bad line')")


def read(trace: Path) -> tuple[list[CompletedJob], Tally]:
    tally = Tally()
    return list(read_jobs([trace], tally)), tally


ALEA = b"1 0 5 60 8 -1 -1 8 3600 4096 1 alice chem matlab -1 -1 -1 -1 -1 q_2h 1:ppn=8:cl_x#excl\n"


def test_a_trace_may_have_names_a_queues_name_and_a_node_specification(tmp_path: Path) -> None:
    trace = tmp_path / "metacentrum.swf"
    trace.write_bytes(ALEA + ALEA.replace(b"alice chem matlab", b"7 -1 9").replace(b"q_2h 1:ppn=8:cl_x#excl", b"-1 -1"))
    jobs, tally = read(trace)
    assert (tally.jobs, tally.malformed) == (2, 0)
    first, second = (job.submission for job in jobs)
    assert (first.user, first.group, first.project, first.job_name) == ("alice", "chem", "chem", "matlab")
    assert (first.queue, first.select, first.ncpus, first.walltime) == ("q_2h", "1:ppn=8:cl_x#excl", 8, 3600)
    assert (second.user, second.group, second.job_name, second.queue, second.select) == ("user7", "", "app9", "", "")


@pytest.mark.parametrize("columns", [18, 19, 20, 21])
def test_the_first_job_determines_the_number_of_columns(columns: int, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    line = b" ".join(ALEA.split()[:columns])
    trace.write_bytes(
        b"\xef\xbb\xbf\n" + line + b"\n" + line + b" x\n" + line.rsplit(b" ", 1)[0] + b"\n" + line + b"\n"
    )
    jobs, tally = read(trace)
    assert (len(jobs), tally.malformed) == (2, 2)
    assert jobs[0].submission.queue == ("q_2h" if columns > 19 else "")
    named = ["think time", "unused", "queue name", "node specification"][columns - 18]
    assert tally.kept[0].error.reason.startswith(f"not a line of {columns} columns (job number, ")
    assert tally.kept[0].error.reason.endswith(f"{named})")


def test_a_trace_with_a_malformed_first_job_is_recognised_by_its_header(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    trace.write_bytes(b"; Version: 2.2\n1 2 3\n" + LINE + b"\n")
    jobs, tally = read(trace)
    assert (len(jobs), tally.malformed) == (1, 1)


def test_a_malformed_optional_column_is_left_out(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    bad = LINE.replace(b"  590  ", b"  x  ").replace(b"  7 ", b"  8 ")
    trace.write_bytes(LINE + b"\n" + bad + b"\n" + LINE.replace(b" 3600 ", b" x ") + b"\n")
    jobs, tally = read(trace)
    assert [job.cput for job in jobs] == [590 * 16, None]
    assert tally.left_out == Counter({"average CPU time used": 1})
    assert str(tally.kept[0]) == f"{trace}:3: requested time: not a number ('x')"
