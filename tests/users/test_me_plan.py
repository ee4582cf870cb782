"""What ``softwalltime me`` says of jobs before they are submitted or altered."""

import os
import pty
import shlex
import subprocess
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from softwalltime.cli.me_plan import altered, altered_walltime, enough, plan, print_brief_plan
from softwalltime.cli.output import Output
from softwalltime.cli.qsub_options import JobRequest, request_of_qsub
from softwalltime.core.errors import SourceError, UsageError
from softwalltime.core.formatting import local_time, time_range
from softwalltime.service.users.own_jobs import ProbeStart, WaitingJob
from tests.samples import ROOT
from tests.users.test_me import NOW, waiting

HOUR = 3600


def probe(queue: str, ncpus: int, walltime: int, wait: int, *submit_to: str, server: str = "srv") -> ProbeStart:
    start = NOW + wait
    return ProbeStart(server, queue, ncpus, walltime, submit_to or (queue,), start, (start, start + HOUR), NOW - 60)


GRID = [
    probe("short", 16, HOUR, 600, "", "short"), probe("short", 64, HOUR, 7200, "", "short"),
    probe("long", 16, 4 * HOUR, 3 * HOUR, ""), probe("long", 16, 24 * HOUR, 9 * HOUR, ""),
    probe("long", 64, 4 * HOUR, 5 * HOUR, ""), probe("long", 64, 24 * HOUR, 9 * HOUR, ""),
    probe("night", 64, 24 * HOUR, 6 * HOUR), probe("closed", 64, 24 * HOUR, 0, "none"),
]  # fmt: skip
GRID[-1] = replace(GRID[-1], submit_to=())


@pytest.mark.parametrize(
    ("text", "queue", "ncpus", "walltime", "ignored"),
    [
        ("-l select=4:ncpus=32,walltime=4:00:00 -q long", "long", 128, 4 * HOUR, ()),
        ("-lselect=2:ncpus=4:mem=8gb+ncpus=16:ngpus=1 -N 'my job' -V", "", 24, None, ("mem", "ngpus")),
        ("-l nodes=2:ppn=8+n07:gpu:ppn=4#shared -l walltime=30:00", "", 20, 1800, ()),
        ("-l nodes=4 -l ncpus=16", "", 16, None, ()),
        ("-l ncpus=8,place=excl,soft_walltime=60 -q a -q b", "b", 8, None, ("place",)),
        ("-q route@srv", "route@srv", 1, None, ()),
    ],
)
def test_options_of_qsub(text: str, queue: str, ncpus: int, walltime: int | None, ignored: tuple[str, ...]) -> None:
    assert request_of_qsub(text) == JobRequest(queue, ncpus, walltime, ignored)


def test_directives_of_a_script_count_up_to_its_first_command(tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_bytes(
        b"#!/bin/bash\r\n# caf\xe9\r\n\r\n  #PBS -l select=2:ncpus=4 # two nodes\r\n#PBS -l walltime=1:00:00 -j oe\r\n"
        b"##PBS -q never\r\n#PBS -q long\r\ncd /tmp\r\n#PBS -q never -l walltime=9\r\n"
    )
    assert request_of_qsub(str(script)) == JobRequest("long", 8, HOUR, ())
    script.write_text(":\n#PBS -l ncpus=3\n")
    assert request_of_qsub(str(script)).ncpus == 3
    script.write_text("#PBS -l ncpus=3 walltime=9\n")
    with pytest.raises(UsageError, match=r"job\.sh:1: walltime=9 is no option of qsub"):
        request_of_qsub(str(script))
    script.write_text("#PBS -l ncpus=3\n#PBS -Q x\n")
    with pytest.raises(UsageError, match=r"job\.sh:2: .*option -Q not recognized: write options as for qsub"):
        request_of_qsub(str(script))
    # Arguments of qsub replace the directives; a command after -- has none.
    script.write_text("#PBS -l ncpus=3,walltime=1:00:00\n#PBS -q long\n")
    assert request_of_qsub(f"-q short -l walltime=60 '{script}'") == JobRequest("short", 3, 60, ())
    assert request_of_qsub(f"-V '--' '{script}' '-q' 'x'") == JobRequest("", 1, None, ())
    for missing in (tmp_path, tmp_path / "none", "a\0b", "", "-q long walltime=1:00:00"):
        with pytest.raises(SourceError, match="give a job script, or options such as"):
            request_of_qsub(str(missing))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("-l walltime=soon", "walltime=soon: not a duration"),
        ("-l select=x:ncpus=1", "select=x:ncpus=1: not a whole number"),
        ("-l select=1:ncpus=-1", "a number is negative"),
        ("-l walltime=0", "at least one processor and one second"),
        ("-l ncpus=0", "at least one processor and one second"),
        ("-N 'x", "No closing quotation"),
        ("-l", "option -l requires argument"),
        ("--format \x1b[2J", r"--format \?\[2J"),
    ],
)
def test_what_is_no_request_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message.replace("(", r"\(")) as raised:
        request_of_qsub(text)
    assert str(raised.value).isprintable()


def requests(asked: JobRequest, grid: list[ProbeStart] = GRID, now: int = NOW) -> list[tuple[str, str, int, int]]:
    """Request, queue, processors and wait in seconds of each line of a plan."""
    return [(row.request, row.queue, row.ncpus, row.expected - NOW) for row in plan(grid, asked, now)]


def test_a_plan_has_the_next_larger_job_and_requests_that_start_sooner_than_all_longer_ones() -> None:
    assert requests(JobRequest("", 20, 24 * HOUR, ())) == [
        ("", "long", 64, 9 * HOUR), ("-q night", "night", 64, 6 * HOUR), ("-l walltime=04:00:00", "long", 64, 5 * HOUR),
        ("-l walltime=01:00:00", "short", 64, 2 * HOUR),
    ]  # fmt: skip
    # Without a walltime the longest one counts; into long a job gets only without -q.
    assert requests(JobRequest("night", 10, None, ())) == [
        ("", "night", 64, 6 * HOUR), ("-l walltime=04:00:00 without -q", "long", 16, 3 * HOUR),
        ("-l walltime=01:00:00 -q short", "short", 16, 600),
    ]  # fmt: skip
    assert requests(JobRequest("short", 1, 60, ())) == [("", "short", 16, 600)]
    # A queue of another server, and what starts at once anyway.
    other = probe("fast", 64, 24 * HOUR, 0, server="other")
    assert requests(JobRequest("night", 64, 24 * HOUR, ()), [*GRID[-2:], other]) == [("", "night", 64, 6 * HOUR)]
    assert len(requests(JobRequest("night", 64, 24 * HOUR, ()), now=NOW + 9 * HOUR)) == 1


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            JobRequest("x\x1b", 1, None, ()),
            r"queue x\?: no job is forecast there; queues with forecasts are night, short",
        ),
        (JobRequest("", 65, None, ()), "the default queue: .* at most 64 processors and 24 h"),
        (JobRequest("short", 1, 2 * HOUR, ()), "queue short: .* at most 64 processors and 1 h"),
    ],
)
def test_a_job_that_is_not_forecast_has_a_reason(asked: JobRequest, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        plan(GRID, asked, NOW)
    assert enough([], 1, None) is None


def job(**more: Any) -> WaitingJob:
    """A job of 4 processors and 24 hours in queue long that is expected in 4 hours."""
    return WaitingJob(**waiting(wait=4 * HOUR, **more))


@pytest.mark.parametrize(
    ("waits", "seconds", "new", "latest"),
    [
        # A new job would start sooner, or later.
        (job(), 4 * HOUR, 3 * HOUR, 3 * HOUR),
        (job(), 5 * HOUR, 9 * HOUR, 4 * HOUR),
        # With a longer walltime it may start later than as it is.
        (job(walltime=HOUR), 5 * HOUR, 9 * HOUR, 9 * HOUR),
        (job(walltime=None), 5 * HOUR, 9 * HOUR, 4 * HOUR),
        # The gain of a walltime is known of it and of shorter ones.
        (job(suggested=5 * HOUR, sooner=7200), 5 * HOUR, 9 * HOUR, 2 * HOUR),
        (job(suggested=5 * HOUR, sooner=7200), 6 * HOUR, 9 * HOUR, 4 * HOUR),
        (job(suggested=5 * HOUR, sooner=-60), 5 * HOUR, 9 * HOUR, 4 * HOUR),
        # Nothing is forecast of its queue or size.
        (job(queue="other"), HOUR, None, 4 * HOUR),
        (job(ncpus=65, walltime=HOUR), 5 * HOUR, None, None),
        (WaitingJob(**waiting(wait=None)), HOUR, 3 * HOUR, None),
    ],
)
def test_an_altered_job_starts_no_later_than_as_it_is_or_as_a_new_one(
    waits: WaitingJob, seconds: int, new: int | None, latest: int | None
) -> None:
    found = altered(waits, GRID, seconds)
    assert (found.submitted_now, found.at_the_latest) == (new and NOW + new, latest and NOW + latest)


def test_of_several_servers_that_of_the_job_counts() -> None:
    elsewhere = [replace(row, server="other", expected=NOW) for row in GRID]
    assert altered(job(), [*elsewhere, *GRID], HOUR).submitted_now == NOW + 3 * HOUR


@pytest.mark.parametrize("text", ["ncpus=3", "walltime=x", "walltime=1:00,ncpus=2", "walltime=60 -q x", "", "x\x1b"])
def test_another_walltime_is_one_walltime(text: str) -> None:
    with pytest.raises(UsageError, match="walltime=4:00:00") as raised:
        altered_walltime(text)
    assert str(raised.value).isprintable()
    assert altered_walltime("walltime=1:00:00") == HOUR


def test_a_plan_in_one_line_names_the_next_sooner_request(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("time.time", lambda: NOW)
    shown = plan(GRID, JobRequest("", 20, 24 * HOUR, ()), NOW)
    print_brief_plan(Output.given(), shown)
    at, sooner = (local_time(NOW + hours * HOUR, NOW) for hours in (9, 6))
    held = time_range((NOW + 9 * HOUR, NOW + 10 * HOUR), NOW)
    assert capsys.readouterr().out == f"such a job starts about {at} (90%: {held}); with -q night about {sooner}\n"
    print_brief_plan(Output.given(), plan(GRID, JobRequest("short", 1, 60, ()), NOW + HOUR)[:1])
    assert capsys.readouterr().out.startswith("such a job starts about ")
    monkeypatch.setattr("time.time", lambda: NOW + HOUR)
    print_brief_plan(Output.given(), plan(GRID, JobRequest("short", 1, 60, ()), NOW + HOUR)[:1])
    assert capsys.readouterr().out == "such a job starts now\n"


def test_qsub_in_an_interactive_shell_says_when_the_job_starts(tmp_path: Path) -> None:
    """Commands that write down their arguments stand for qsub and softwalltime."""
    for name, status in (("qsub", 0), ("softwalltime", 9)):
        command = tmp_path / name
        command.write_text(f'#!/bin/sh\nprintf "%s\\n" {name} "$@"\nexit {status}\n')
        command.chmod(0o755)
    script = ROOT / "deploy" / "profile.d" / "softwalltime.sh"
    hostile = """it's "$(touch hacked)" `touch hacked` \\ -l x=1"""
    typed = f". {script}; qsub -N {shlex.quote(hostile)} -l ncpus=4 -- sleep 10; echo status $?"
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "PS1": "", "HOME": str(tmp_path)}

    def run(*options: str) -> list[str]:
        master, slave = pty.openpty()
        with subprocess.Popen(
            ["bash", "--norc", *options, "-c", typed], stdin=slave, stdout=subprocess.PIPE, stderr=slave,
            env=environment, cwd=tmp_path,
        ) as process:  # fmt: skip
            os.close(slave)
            out = process.communicate(timeout=20)[0].decode()
            with suppress(OSError):  # the end of a terminal that nothing holds open; one read may give a part only
                while part := os.read(master, 9999):
                    out += part.decode()
            os.close(master)
        return [line for line in out.splitlines() if "job control" not in line and "terminal process" not in line]

    submitted = ["qsub", "-N", hostile, "-l", "ncpus=4", "--", "sleep", "10", "status 0"]
    shown = run("-i")
    assert shown[:9] == submitted
    assert shown[9:12] == ["softwalltime", "me", "--brief"]
    assert shlex.split(shown[13]) == ["-V", *submitted[1:-1]]
    assert request_of_qsub(shown[13]) == JobRequest("", 4, None, ())
    assert run() == submitted
    assert not (tmp_path / "hacked").exists()
