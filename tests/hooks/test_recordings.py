"""The hook accepts every recorded event of a real server, for any answer or failure of the daemon."""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from softwalltime.emulation.pbs.hook_runner import HookOutcome, HookScript
from softwalltime.emulation.pbs.pbs_events import Event
from tests.hooks import recordings
from tests.hooks.conftest import HASTY, HOOK, HUNG, PATIENT
from tests.hooks.peer import Peer
from tests.hooks.test_breaker import PAUSE

EVENTS = Path(__file__).parent / "events"
RECORDED = sorted(EVENTS.glob("*.in"))
OFFLINE = [path for path in RECORDED if path.name.startswith(("queuejob-", "modifyjob-"))]

PBS_PYTHON = os.environ.get("SOFTWALLTIME_TEST_PBS_PYTHON", "/opt/pbs/bin/pbs_python")

recorded = pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
offline = pytest.mark.parametrize("path", OFFLINE, ids=lambda path: path.stem)

IDLE = "import pbs\npbs.event().accept()\n"


def test_there_are_all_56_recordings() -> None:
    assert len(RECORDED) == 56
    assert {path.name.partition("-")[0] for path in RECORDED} == {"queuejob", "postqueuejob", "modifyjob", "runjob"}


@recorded
def test_a_hook_that_sets_nothing_gives_the_output_of_the_server(path: Path, tmp_path: Path) -> None:
    event = recordings.read(path)
    outcome = script(tmp_path, IDLE).run(event)
    assert recordings.write(outcome, event) == path.with_suffix(".out").read_text()


def safe(event: Event, outcome: HookOutcome, minimum: int = 60) -> bool:
    """Return whether the hook set nothing, removed the soft walltime, or set one from the minimum to the walltime."""
    if "soft_walltime" not in outcome.resources or outcome.resources["soft_walltime"] == "":
        return True
    after = {**resources(event.original), **resources(event.job)}
    walltime = event_walltime(event, after)
    return minimum <= outcome.resources["soft_walltime"] and (
        walltime is not None and outcome.resources["soft_walltime"] <= walltime and not after.get("min_walltime")
    )


def resources(attributes: Any) -> dict[str, str]:
    return dict((attributes or {}).get("Resource_List", {}))


def event_walltime(event: Event, after: dict[str, str]) -> int | None:
    text = after.get("walltime")
    if not text and event.name == "queuejob":
        queue = event.site.queues.get(str(event.job.get("queue", "")), {})
        text = resources({"Resource_List": queue.get("resources_default", {})}).get("walltime")
    return recordings_seconds(text) if text else None


def recordings_seconds(text: str) -> int:
    total = 0
    for part in text.split(":"):
        total = 60 * total + int(part)
    return total


def refused_anyway(path: Path) -> bool:
    """PBS refuses a user's request for a soft walltime, with or without a hook."""
    return path.stem == "queuejob-noperm"


BEHAVIOURS: dict[str, dict[str, Any]] = {
    "right": {"share": 0.5},
    "nothing": {"none": True},
    "0": {"set": 0},
    "negative": {"set": -1800},
    "huge": {"set": 10**15},
    "text": {"raw": '{"v": 1, "action": "set", "soft_walltime": "half an hour", "basis": ""}\n'},
    "garbage": {"raw": "\x00\x01{]garbage\n"},
    "half a line": {"raw": '{"v": 1, "action": "set", "soft_wall'},
    "closes": {"close": True},
}


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
@pytest.mark.parametrize("submission", ["queuejob", "postqueuejob"])
def test_every_recording_is_accepted_for_any_answer(
    behaviour: str, submission: str, peer: Peer, run: Callable[..., HookOutcome]
) -> None:
    peer.behave(**BEHAVIOURS[behaviour])
    events = {"queuejob": True, "postqueuejob": submission == "postqueuejob", "modifyjob": True, "runjob": True}
    for path in RECORDED:
        event = recordings.read(path)
        outcome = run(event, events=events)
        assert outcome.accepted != refused_anyway(path), (path.stem, outcome.message)
        assert safe(event, outcome), (path.stem, outcome.resources)
    assert peer.asked() or behaviour == "closes"


@pytest.mark.parametrize("situation", ["absent", "killed", "suspended", "late", "trickling", "flooding"])
def test_every_recording_is_accepted_in_time_for_any_failure_of_the_daemon(
    situation: str, tmp_path: Path, script: HookScript, configured: Callable[..., Path]
) -> None:
    """Three runs take the deadline each; then the breaker is open."""
    late = 0
    with Peer(tmp_path) as peer:
        match situation:
            case "absent":
                peer.stop()
            case "killed":
                peer.kill()
            case "suspended":
                peer.suspend()
            case "late":
                peer.behave(late=3 * HUNG, set=100)
            case "trickling":
                peer.behave(trickle=0.02, set=100)
            case "flooding":
                peer.behave(flood=True)
        deadline = PATIENT if situation in ("absent", "killed") else HASTY
        configuration = configured(socket=str(peer.socket), deadline_ms=deadline, breaker_seconds=PAUSE)
        begin = time.monotonic()
        for path in RECORDED:
            outcome = script.run(recordings.read(path), configuration)
            assert not outcome.error
            assert outcome.accepted != refused_anyway(path)
            late += any("no answer: timed out" in line for _, line in outcome.log)
        assert time.monotonic() - begin < HUNG
    if situation != "flooding":  # an invalid answer in most runs
        assert late == (0 if situation in ("absent", "killed") else 3)


# ---- The emulation against pbs_python, which supports these two events without a server ----------------------------


def script(folder: Path, source: str) -> HookScript:
    file = folder / "hook.py"
    file.write_text(source)
    return HookScript(file)


@pytest.fixture
def pbs_python(tmp_path: Path) -> Callable[..., str]:
    """Run a hook on a recording in PBS's own interpreter; return its output."""
    if not os.access(PBS_PYTHON, os.X_OK):
        pytest.skip(f"no pbs_python at {PBS_PYTHON}: SOFTWALLTIME_TEST_PBS_PYTHON names another")
    # No server runs: pbs_python would read the altered job from a running one, and accept any job.
    pbs_conf = tmp_path / "pbs.conf"
    folder = Path(PBS_PYTHON).resolve().parents[1]
    pbs_conf.write_text(f"PBS_SERVER=localhost\nPBS_BATCH_SERVICE_PORT=9\nPBS_EXEC={folder}\nPBS_HOME={tmp_path}\n")
    resourcedef = tmp_path / "resourcedef"
    resourcedef.write_text("ngpus type=long flag=hn\n")

    def run(path: Path, hook: Path, configuration: Path | None = None) -> str:
        out = tmp_path / "out"
        command: list[str | Path] = [PBS_PYTHON, "--hook", "-i", path, "-s", path.with_suffix(".data"), "-o", out]
        environment = {"PATH": "/usr/bin:/bin", "PBS_CONF_FILE": str(pbs_conf)}
        if configuration is not None:
            environment["PBS_HOOK_CONFIG_FILE"] = str(configuration)
        out.unlink(missing_ok=True)
        # It writes a log to the working folder.
        subprocess.run([*command, "-r", resourcedef, hook], env=environment, cwd=tmp_path, timeout=300, check=False)
        return out.read_text()

    return run


STATEMENTS = {
    "a number": 'job.Resource_List["soft_walltime"] = 77',
    "a duration": 'job.Resource_List["soft_walltime"] = pbs.duration(77)',
    "hours and minutes": 'job.Resource_List["soft_walltime"] = pbs.duration("00:01:30")',
    "a fraction": 'job.Resource_List["soft_walltime"] = pbs.duration(90.5)',
    "an empty duration": 'job.Resource_List["soft_walltime"] = pbs.duration("")',
    "none": 'job.Resource_List["soft_walltime"] = None',
    "several resources": 'job.Resource_List["mem"] = pbs.size("4gb"); job.Resource_List["ncpus"] = 2',
    "any case": 'job.Resource_List["Soft_Walltime"] = 77',
    "an attribute": 'job.comment = "changed"; job.Job_Name = "other"; job.project = "p"',
    "a text": 'job.Resource_List["soft_walltime"] = "77"',
    "no duration": 'job.Resource_List["soft_walltime"] = pbs.duration("abc")',
    "less than nothing": 'job.Resource_List["soft_walltime"] = pbs.duration(-1)',
    "true": 'job.Resource_List["soft_walltime"] = True',
    "a misspelt attribute": "job.Jobname",
    "setting a misspelt attribute": 'job.Jobname = "x"',
    "what is read only": 'job.euser = "root"',
    "a misspelt name": "pbs.durations(5)",
    "a missing parameter": "event.vnode",
    "too late": "event.accept(); job.comment = 1",
    "a refusal": 'event.reject("not now")',
}


def both(path: Path, statement: str, folder: Path, pbs_python: Callable[..., str]) -> tuple[str, str]:
    """Return the outputs of emulation and pbs_python for a hook."""
    lines = ["import pbs", "event = pbs.event()", "job = event.job", STATEMENTS[statement], "event.accept()", ""]
    hook = script(folder, "\n".join(lines))
    event = recordings.read(path, offline=True)
    return recordings.write(hook.run(event), event, "pbs_python"), pbs_python(path, folder / "hook.py")


@offline
@pytest.mark.parametrize("statement", ["a duration", "none"])
def test_the_emulation_writes_the_output_of_pbs_python(
    path: Path, statement: str, tmp_path: Path, pbs_python: Callable[..., str]
) -> None:
    ours, theirs = both(path, statement, tmp_path, pbs_python)
    assert ours == theirs


@pytest.mark.parametrize("name", ["queuejob-chunks", "modifyjob-held-3"])
@pytest.mark.parametrize("statement", STATEMENTS)
def test_the_emulation_is_as_strict_as_pbs_python(
    name: str, statement: str, tmp_path: Path, pbs_python: Callable[..., str]
) -> None:
    ours, theirs = both(EVENTS / f"{name}.in", statement, tmp_path, pbs_python)
    assert ours == theirs


@offline
def test_the_hook_gives_the_same_output_in_pbs_python_and_in_the_emulation(
    path: Path, peer: Peer, script: HookScript, configured: Callable[..., Path], pbs_python: Callable[..., str]
) -> None:
    peer.behave(share=0.5)
    configuration = configured(
        socket=str(peer.socket),
        deadline_ms=PATIENT,
        events={"queuejob": True, "postqueuejob": False, "modifyjob": True, "runjob": True},
    )
    event = recordings.read(path, offline=True)
    written = recordings.write(script.run(event, configuration), event, "pbs_python")
    assert written == pbs_python(path, HOOK, configuration)
    # The time and the duration of the previous exchange differ between runs.
    requests = [{**request, "now": 0, "previous_us": None} for request in peer.asked()]
    assert requests[: len(requests) // 2] == requests[len(requests) // 2 :]
