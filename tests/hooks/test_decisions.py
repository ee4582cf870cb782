"""The hook and the daemon give the same reason in the same words."""

from types import ModuleType

from softwalltime.core.reasons import Reason, sentence


def test_shared_reasons_have_the_same_sentence_as_in_the_daemon(hook: ModuleType) -> None:
    assert sentence(Reason.NO_WALLTIME) == hook.NO_WALLTIME
    assert sentence(Reason.SHRINK_TO_FIT) == hook.SHRINK_TO_FIT
