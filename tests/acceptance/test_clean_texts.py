"""No user can write a line into the accounting log, with any client."""

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.lab import Lab, until

CLIENT = Path(__file__).parent / "unchecked_client.py"
FORGED = "x\\n11/20/2026 12:00:00;E;777771.pbs1;user=bob end=1795000000 run_count=1\\ny"
"""In the client's notation; each text adds two lines to the log if it is not replaced."""
PROJECT = "x\\n11-20-2026 E 777771.pbs1\\ny"
"""PBS takes no slashes, colons and semicolons in a project."""
AT_SUBMISSION = ("Account_Name", "project", "Job_Name", "gridname")
AT_ALTER = (
    *AT_SUBMISSION, "stagein", "stageout", "Join_Path", "Mail_Users", "Mail_Points", "Shell_Path_List", "Output_Path",
    "Error_Path", "tolerate_node_failures", "Submit_arguments", "executable", "argument_list", "Submit_Host",
    "credential_id",
)  # fmt: skip
RESOURCES = ("software", "site", "pgov", "vntype", "resc")


@pytest.fixture
def client(lab: Lab) -> Callable[..., str]:
    """Send a request as alice without the checks of PBS's commands; return the job's id."""

    def ask(*arguments: str) -> str:
        job = lab.must("python3", str(CLIENT), *arguments, user="alice")
        lab.jobs.append(job)
        return job

    return ask


def forged(lab: Lab, position: int) -> list[str]:
    """Return the forged lines of the accounting log from this position on."""
    lines = accounting(lab).read_bytes()[position:].decode(errors="replace").splitlines()
    return [line for line in lines if line.startswith(("y", "11/20/2026", "11-20-2026"))]


def accounting(lab: Lab) -> Path:
    """The newest accounting log."""
    return max((lab.home / "server_priv" / "accounting").iterdir())


def size(lab: Lab) -> int:
    """Its size in bytes."""
    return accounting(lab).stat().st_size


@pytest.mark.parametrize("field", AT_SUBMISSION)
def test_a_submission(field: str, lab: Lab, hook: None, client: Callable[..., str]) -> None:
    log, before = lab.server_log(), size(lab)
    job = client(f"{field}={PROJECT if field == 'project' else FORGED}")
    lab.must("qrls", job)
    lab.wait(job, "F")
    assert forged(lab, before) == []
    assert re.match(r"x_11.20.2026", str(lab.job(job)[field]))
    assert log.lines(f"control characters replaced in {field}")


@pytest.mark.parametrize("field", AT_ALTER)
def test_an_alter(field: str, lab: Lab, hook: None, client: Callable[..., str]) -> None:
    job = client("Account_Name=a")
    log, before = lab.server_log(), size(lab)
    client(f"alter:{job}", f"{field}={PROJECT if field == 'project' else FORGED}")
    assert forged(lab, before) == []
    assert log.lines(f"control characters replaced in {field}")


def test_an_alter_of_the_environment(lab: Lab, hook: None, client: Callable[..., str]) -> None:
    """If a hook runs, PBS does not change the variables."""
    job = client("Account_Name=a")
    before = size(lab)
    client(f"alter:{job}", f"Variable_List=X={FORGED}")
    assert forged(lab, before) == []


@pytest.mark.parametrize("name", RESOURCES)
def test_a_requested_resource(name: str, lab: Lab, hook: None, client: Callable[..., str]) -> None:
    log, before = lab.server_log(), size(lab)
    client(f"Resource_List.{name}=x\\ny")
    assert forged(lab, before) == []
    assert log.lines(f"control characters replaced in {name}")


def test_quoted_values_of_a_select_specification_are_cleaned(lab: Lab, hook: None, client: Callable[..., str]) -> None:
    log, before = lab.server_log(), size(lab)
    client("Resource_List.select=1:ncpus=1:host='x\\ny'")
    assert forged(lab, before) == []
    assert log.lines("control characters replaced in select")


@pytest.mark.parametrize("alters", [False, True])
@pytest.mark.parametrize("field", ["Account_Name", "Resource_List.software"])
def test_a_reservation(field: str, alters: bool, lab: Lab, hook: None) -> None:
    """PBS logs a reservation's account when it begins, without quotation marks: no reader could recognise the end."""
    if alters and field != "Account_Name":
        pytest.skip("PBS lets nobody alter it")
    log, before, begin = lab.server_log(), size(lab), int(time.time()) + 8
    text = f"{field}={FORGED.replace(' ', '_')}"
    times = [f"reserve_start={begin}", f"reserve_end={begin + 3}", "Resource_List.select=1:ncpus=1"]
    name = lab.must("python3", str(CLIENT), "reserve:", *times, *([] if alters else [text]), user="alice").split()[0]
    if alters:
        until(lambda: "RESV_CONFIRMED" in lab.must("pbs_rstat", "-f", name), 8, "a confirmed reservation")
        lab.must("python3", str(CLIENT), f"reserve:{name}", text, user="alice")
    begun = f";B;{name};".encode()
    until(lambda: begun in accounting(lab).read_bytes()[before:], 30, "the record of its begin")
    assert forged(lab, before) == []
    assert log.lines(f"control characters replaced in {field.partition('.')[2] or field}")


def test_texts_of_qsub_are_cleaned_without_a_daemon(lab: Lab, hook: None, daemon: object) -> None:
    daemon.stop()  # type: ignore[attr-defined]
    before = size(lab)
    lab.qsub("-h", "-q", "short", "-l", "walltime=600", "-A", "x\ny", "-P", "p\ny")
    assert forged(lab, before) == []


@pytest.mark.parametrize("field", ["Account_Name", "project"])
def test_without_the_hook_pbs_logs_line_breaks(field: str, lab: Lab, hook: None, client: Callable[..., str]) -> None:
    """The hook replaces them for this reason; the test fails when PBS corrects it."""
    lab.qmgr("set hook softwalltime enabled = false")
    before = size(lab)
    client(f"{field}={PROJECT if field == 'project' else FORGED}")
    assert len(forged(lab, before)) == 2
