"""Recordings of a real server's events are read, and written in the server's format."""

from pathlib import Path

import pytest

from softwalltime.accounting.conversions import clock
from softwalltime.core.errors import SourceError
from softwalltime.emulation.pbs.pbs_events import Site, altered, postqueued, started
from tests.hooks import recordings
from tests.hooks.emulated import SET, Do
from tests.hooks.jobs import NOW, submission
from tests.hooks.test_recordings import EVENTS


def test_a_resource_list_printed_again_with_another_name_is_ignored() -> None:
    """PBS prints the queue's defaults a second time as the server's."""
    event = recordings.read(EVENTS / "postqueuejob-p4.in")
    assert event.site.server["resources_default"] == {"ncpus": "1"}
    assert event.site.queues["short"]["resources_default"] == {"walltime": "00:30:00"}
    assert "Resource_List" not in event.site.server
    routed = recordings.read(EVENTS / "queuejob-routed.in")
    assert "resources_default" not in routed.site.queues["route_q"]


def test_a_recording_is_read_completely() -> None:
    event = recordings.read(EVENTS / "modifyjob-held-2.in")
    assert (event.name, event.job_id, event.requestor) == ("modifyjob", "17.pbs1", "root")
    assert event.job == {"Resource_List": {"soft_walltime": "00:08:00"}}
    assert event.original is not None
    assert event.original["job_state"] == "H"
    account = recordings.read(EVENTS / "queuejob-acct.in").job["Account_Name"]
    assert account == 'chem grant; 2026 "x=1"'


def test_a_value_may_contain_line_breaks(tmp_path: Path) -> None:
    lines = ["pbs.event().job.Variable_List=A=1\n2,B=3", "pbs.event().type=queuejob", ""]
    (tmp_path / "x.in").write_text("\n".join(lines))
    (tmp_path / "x.data").write_text("")
    assert recordings.read(tmp_path / "x.in").job["Variable_List"] == "A=1\n2,B=3"


@pytest.mark.parametrize(
    ("request_", "data", "said"),
    [
        ("hello", "", r"x\.in:1: not a line of a recording"),
        ("pbs.event().type=movejob", "", "no event of type 'movejob' is emulated"),
        ("pbs.event().type=queuejob", "pbs.server()=x", r"x\.data:1: not a line"),
    ],
)
def test_an_invalid_recording_is_refused(request_: str, data: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "x.in").write_text(request_)
    (tmp_path / "x.data").write_text(data)
    with pytest.raises(SourceError, match=said):
        recordings.read(tmp_path / "x.in")


def test_a_missing_recording_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot read"):
        recordings.read(tmp_path / "x.in")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "00:00:00"), (59, "00:00:59"), (3600, "01:00:00"), (360000, "100:00:00")]
)
def test_durations_are_printed_as_pbs_prints_them(seconds: int, text: str) -> None:
    assert clock(seconds) == text


def test_set_values_are_written_as_by_the_server(do: Do, site: Site) -> None:
    """Observed on the server: at postqueuejob and runjob only the values set before accept or reject are written."""
    verdict = "pbs.event().accept=True\npbs.event().reject=False\n"
    for event in (postqueued(submission(), site=site), started(submission(), site=site, now=NOW)):
        written = recordings.write(do(event, SET.format(200)), event)
        assert written == f"pbs.event().job.Resource_List[soft_walltime]=200\n{verdict}"
    event = altered(submission(), {"walltime": "00:30:00"}, site=site, now=NOW)
    written = recordings.write(do(event, SET.format(77)), event)
    changes = ["walltime]=00:30:00", "soft_walltime]=77"]
    assert written == verdict + "".join(f"pbs.event().job.Resource_List[{change}\n" for change in changes)
    refused = recordings.write(do(event, "event.reject('no thanks')"), event)
    assert refused == "pbs.event().reject=True\npbs.event().accept=False\npbs.event().reject_msg=no thanks\n"
