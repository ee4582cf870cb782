"""The table of decisions is complete, and the reasons that it shares with the daemon have the same sentences."""

from dataclasses import replace
from types import ModuleType

import pytest

from softwalltime.emulation.pbs.events import Site, altered
from softwalltime.reasons import Reason, sentence
from tests.hooks.jobs import NOW, Run, submission
from tests.hooks.peer import Peer

EVENTS = ("queuejob", "postqueuejob", "modifyjob", "runjob")


def test_every_event_has_rows(hook: ModuleType) -> None:
    assert tuple(hook.DECISIONS) == EVENTS


@pytest.mark.parametrize("event", EVENTS)
def test_only_the_last_row_of_an_event_is_always_true(event: str, hook: ModuleType) -> None:
    conditions = [row[0] for row in hook.DECISIONS[event]]
    assert conditions.index("always") == len(conditions) - 1


@pytest.mark.parametrize("event", EVENTS)
def test_every_row_has_existing_conditions_values_and_reasons(event: str, hook: ModuleType) -> None:
    facts = hook.AlterFacts if event == "modifyjob" else hook.Facts
    for condition, value, then, reason in hook.DECISIONS[event]:
        assert callable(getattr(facts, condition))
        assert value in (hook.LEAVE, hook.REMOVE, hook.VALID)
        assert then in (hook.STOP, hook.ASK, hook.ASK_AT_START)
        assert reason in hook.REASONS or reason == ""


def test_shared_reasons_have_the_same_sentence_as_in_the_daemon(hook: ModuleType) -> None:
    shared = {code: text for code, text in hook.REASONS.items() if code in list(Reason)}
    assert set(shared) >= {"no_walltime", "shrink_to_fit"}
    assert {code: sentence(Reason(code)) for code in shared} == shared


@pytest.mark.parametrize("state", ["Q", "R"])
def test_a_soft_walltime_of_0_is_removed_from_an_alter(state: str, run: Run, peer: Peer, site: Site) -> None:
    """A manager's ``qalter -l soft_walltime=0`` on a running job would kill the scheduler."""
    event = altered(
        submission(), {"soft_walltime": "0"}, site=site, now=NOW, soft_walltime=1800, state=state, requestor="root"
    )
    assert run(event).soft_walltime is None
    assert run(replace(event, job={"Resource_List": {"soft_walltime": "00:01:00"}})).soft_walltime == 60
    assert peer.asked() == []
