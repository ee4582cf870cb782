"""The table of decisions is complete, and the reasons that it shares with the daemon have the same sentences."""

from types import ModuleType

import pytest

from softwalltime.reasons import Reason, sentence

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
        assert value in (hook.LEAVE, hook.REMOVE) or callable(getattr(facts, value))
        assert then in (hook.STOP, hook.ASK, hook.ASK_AT_START)
        assert reason in hook.REASONS or reason == ""


def test_shared_reasons_have_the_same_sentence_as_in_the_daemon(hook: ModuleType) -> None:
    shared = {code: text for code, text in hook.REASONS.items() if code in list(Reason)}
    assert set(shared) >= {"no_walltime", "shrink_to_fit"}
    assert {code: sentence(Reason(code)) for code in shared} == shared
