"""Policies as files and names."""

from pathlib import Path

import pytest

from softwalltime.core.errors import OptionError, SoftwalltimeError, UsageError
from softwalltime.measure.simulation.engine import check
from softwalltime.measure.simulation.policies import SchedulerPolicy, policy_of, read_policies


def test_a_name_lists_the_values_other_than_the_default() -> None:
    assert SchedulerPolicy().name == "fcfs+easy"
    assert SchedulerPolicy(order="xf", waiting="factor:0.5", kill_at_walltime=False).name == (
        "xf+easy waiting=factor:0.5 run-as-recorded"
    )
    assert SchedulerPolicy(kill_at_walltime=False, kill_at_estimate=True).name == "fcfs+easy kill-at-estimate"


def test_a_file_holds_a_table_for_each_policy(tmp_path: Path) -> None:
    file = tmp_path / "policies.toml"
    file.write_text('[today]\n[half]\nwaiting = "factor:0.5"\nguard = 3600\n')
    assert read_policies(file, {"order": "wfp"}) == {
        "today": SchedulerPolicy(order="wfp"),
        "half": SchedulerPolicy(order="wfp", waiting="factor:0.5", guard=3600),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no policy"),
        ("[a", "not TOML"),
        ("order = 'wfp'", "order is outside a table"),
        ("[a]\nordr = 'wfp'", r"\[a\]: unknown key ordr; is order meant"),
        ("[a]\nguard = 'soon'", r"\[a\]: guard = 'soon': should be a valid integer"),
        ("[a]\nfair_share = {entty = 'euser'}", r"\[a\]: unknown key fair_share.entty; is entity meant"),
        ("[a]\nfair_share = {decay_time = 0}", r"fair_share.decay_time = 0: should be greater"),
        ("[a]\nfair_share = {groups = [{name = 'b', parent = 'c', shares = 1}]}", r"no group 'c' comes before 'b'"),
        ("[a]\nfair_share = {groups = [{name = 'unknown', parent = 'root', shares = 1}]}", r"'unknown' is there twice"),
        ("[a]\nguard = -1", r"\[a\]: guard = -1: should be greater than or equal to 0"),
        ("[a]\nwaiting = 'v9'", "no predictor is called 'v9'"),
    ],
)
def test_a_wrong_file_gets_one_clear_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "policies.toml"
    file.write_text(text)
    with pytest.raises(SoftwalltimeError, match=message) as caught:
        read_policies(file, {})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("key", ["order", "backfill", "correction"])
def test_a_name_that_does_not_exist_is_refused_with_those_that_do(key: str) -> None:
    with pytest.raises(UsageError, match=r"is called 'x'; there are \w+"):
        check(policy_of({key: "x"}, "here"))


def test_a_value_is_checked_before_anything_runs() -> None:
    with pytest.raises(OptionError):
        policy_of({"ordering": "percentile:p=x"}, "here")
