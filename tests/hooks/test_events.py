"""Jobs that get no soft walltime at any event, and the hook's log."""

from pathlib import Path
from time import perf_counter

import pytest

from softwalltime.emulation.pbs.hook_runner import HookScript
from softwalltime.emulation.pbs.pbs_events import Site, altered, postqueued, queued, started
from tests.hooks.conftest import HOOK
from tests.hooks.jobs import AT_QUEUEJOB, NO_LIMIT, NOW, Run, submission
from tests.hooks.peer import Peer

# ---- Jobs without soft walltime -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "events", [AT_QUEUEJOB, {**AT_QUEUEJOB, "postqueuejob": True}], ids=["queuejob", "postqueuejob"]
)
def test_a_shrink_to_fit_job_gets_no_soft_walltime_at_any_event(
    events: dict[str, bool], run: Run, peer: Peer, site: Site
) -> None:
    peer.behave(set=600)
    job = submission(min_walltime=600, max_walltime=7200)
    for event in (queued(job, site=site), postqueued(job, site=site), started(job, site=site, now=NOW)):
        outcome = run(event, events=events)
        assert outcome.soft_walltime is None
        assert all("left without: a shrink-to-fit job" in line for _, line in outcome.log)
    assert peer.asked() == []


def test_a_job_without_walltime_gets_no_soft_walltime_unless_configured(run: Run, peer: Peer, site: Site) -> None:
    peer.behave(set=600)
    job = submission(walltime=None, queue="nodefault")
    for event in (postqueued(job, site=site), started(job, site=site, now=NOW)):
        assert run(event).soft_walltime is None
        assert run(event, jobs_without_walltime=True).soft_walltime == 600


@pytest.mark.parametrize(("soft", "at_start"), [(1800, 1800), (NO_LIMIT, NO_LIMIT), (NO_LIMIT + 1, None), (0, None)])
def test_a_job_without_walltime_loses_its_soft_walltime_at_a_move_and_an_invalid_one_at_its_start(
    soft: int, at_start: int | None, run: Run, site: Site
) -> None:
    job = submission(walltime=None, queue="nodefault")
    assert run(postqueued(job, site=site, soft_walltime=soft)).soft_walltime is None
    assert run(started(job, site=site, now=NOW, soft_walltime=soft)).soft_walltime == at_start


def test_an_answer_without_a_value_is_one_for_a_job_with_a_walltime_of_0(run: Run, site: Site) -> None:
    ((_, line),) = run(postqueued(submission(walltime=0), site=site)).log
    assert "left without: the test peer knows nothing" in line


def test_a_prediction_that_equals_the_walltime_is_not_set_on_a_job_without_one(
    run: Run, peer: Peer, site: Site
) -> None:
    peer.behave(share=1)
    assert run(postqueued(submission(), site=site)).resources == {}
    assert run(started(submission(), site=site, now=NOW)).resources == {}


def test_a_job_shorter_than_the_minimum_gets_no_soft_walltime(run: Run, peer: Peer, site: Site) -> None:
    peer.behave(share=0.5)
    assert run(postqueued(submission(walltime=40), site=site)).soft_walltime is None


def test_a_prediction_below_the_minimum_becomes_the_minimum(run: Run, peer: Peer, site: Site) -> None:
    peer.behave(set=1)
    assert run(postqueued(submission(), site=site)).soft_walltime == 60
    assert run(postqueued(submission(), site=site), minimum=900).soft_walltime == 900


@pytest.mark.parametrize("event", ["queuejob", "postqueuejob", "modifyjob", "runjob"])
def test_an_event_can_be_disabled(event: str, run: Run, peer: Peer, site: Site) -> None:
    peer.behave(set=1800)
    off = {**AT_QUEUEJOB, "postqueuejob": event != "queuejob", event: False}
    raised = {
        "queuejob": queued(submission(), site=site),
        "postqueuejob": postqueued(submission(), site=site),
        "modifyjob": altered(submission(), {"walltime": "00:30:00"}, site=site, now=NOW, soft_walltime=900),
        "runjob": started(submission(), site=site, now=NOW, soft_walltime=900),
    }
    outcome = run(raised[event], events=off)
    assert outcome.resources == {}
    assert outcome.log == []
    assert peer.asked() == []


# ---- The log --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("log", "lines"),
    [("all", [1, 1, 1]), ("problems", [0, 0, 1])],
)
def test_the_configuration_selects_what_is_logged(log: str, lines: list[int], run: Run, peer: Peer, site: Site) -> None:
    """Three runs: a value is set, none is set, and no answer comes."""
    for answer, count in zip(({"set": 1800}, {"none": True}, {"close": True}), lines, strict=True):
        peer.behave(**answer)
        assert len(run(postqueued(submission(), site=site), log=log).log) == count


def test_a_log_line_has_decision_reason_and_duration(run: Run, peer: Peer, site: Site) -> None:
    peer.behave(set=1800)
    begin = perf_counter()
    ((level, line),) = run(postqueued(submission(), site=site)).log
    assert 0 < float(line.split("(")[-1].partition(" ms")[0]) <= 1000 * (perf_counter() - begin)
    assert level == 0x100
    assert line.startswith("softwalltime: postqueuejob 7.pbs1: set 1800 of 3600: the test peer says so (")
    assert line.endswith(" ms)")


def test_texts_cannot_forge_log_lines(run: Run, peer: Peer, site: Site) -> None:
    basis = "\\n11/20/2026 12:00:00;0001;\\u001b[31m\\udc80" + "x" * 5000
    peer.behave(raw=f'{{"v": 1, "action": "none", "basis": "{basis}"}}\n')
    ((_, line),) = run(postqueued(submission(), site=site)).log
    assert line.isascii()
    assert line.isprintable()
    assert len(line) == len("softwalltime: ") + 1000


# ---- The frame: what runs at each event, outside the functions -------------------------------------------------------


def extended(folder: Path, lines: str) -> HookScript:
    """Return the hook with these lines at its end."""
    file = folder / "hook.py"
    file.write_text(HOOK.read_text() + lines)
    return HookScript(file)


def test_accepting_the_event_ends_the_run_before_the_functions_are_defined(tmp_path: Path, site: Site) -> None:
    script = extended(tmp_path, '\nif __name__ == "builtins":\n    pbs.logmsg(pbs.LOG_WARNING, "below")\n')
    outcome = script.run(queued(submission(), site=site))
    assert outcome.accepted
    assert "below" not in [line for _, line in outcome.log]


def test_an_error_that_the_run_does_not_handle_is_logged_and_the_request_is_accepted(
    tmp_path: Path, site: Site
) -> None:
    script = extended(tmp_path, "\ndef rule(job):\n    raise RuntimeError('all wrong')\n")
    outcome = script.run(queued(submission(), site=site))
    assert outcome.accepted
    assert not outcome.error
    assert [line for _, line in outcome.log] == [
        "softwalltime: RuntimeError: all wrong: the request is accepted unchanged"
    ]
