"""The hook's configuration: every key has a default, and an invalid value affects only its own key."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softwalltime.deployment.configuration import HookSettings, problems_in
from softwalltime.emulation.pbs.hook_runner import HookOutcome, HookScript
from softwalltime.emulation.pbs.pbs_events import Site, queued, started
from tests.hooks.conftest import DEFAULTS, HOOK, PATIENT
from tests.hooks.jobs import NOW, submission
from tests.hooks.peer import Peer
from tests.samples import ROOT

Run = Callable[..., HookOutcome]


@pytest.fixture
def configured(tmp_path: Path) -> Callable[..., Path]:
    """Write a configuration file: the defaults with these keys changed."""
    file = tmp_path / "softwalltime_hook.json"

    def write(**changes: Any) -> Path:
        file.write_text(json.dumps({**json.loads(DEFAULTS.read_text()), **changes}))
        return file

    return write


def test_the_shipped_file_has_the_defaults(hook: ModuleType) -> None:
    assert json.loads(DEFAULTS.read_text()) == hook.DEFAULTS == HookSettings().model_dump()
    assert hook.read_configuration(str(DEFAULTS)) == (hook.DEFAULTS, [])


def test_every_key_is_documented(hook: ModuleType) -> None:
    readme = (ROOT / "hooks" / "README.md").read_text()
    for key, default in hook.DEFAULTS.items():
        for name in [key, *(default if isinstance(default, dict) else [])]:
            assert f"`{name}`" in readme, f"{name} is not documented in hooks/README.md"


def test_without_a_file_the_defaults_are_used(hook: ModuleType) -> None:
    assert hook.read_configuration(None) == (hook.DEFAULTS, [])


def test_a_file_is_read_again_only_when_it_changes(hook: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "hook.json"
    file.write_text('{"minimum": 120}')
    first = hook.read_configuration(str(file))
    assert hook.read_configuration(str(file))[0] is first[0]
    file.write_text('{"minimum": 1200}')
    assert hook.read_configuration(str(file))[0]["minimum"] == 1200


RIGHT: list[tuple[str, Any]] = [
    ("transport", "postgres"),
    ("socket", "/tmp/other.sock"),
    ("deadline_ms", 1),
    ("deadline_ms", 5000),
    ("breaker_failures", 1),
    ("breaker_failures", 1000),
    ("breaker_seconds", 0),
    ("breaker_seconds", 86400),
    ("attributes", False),
    ("minimum", 60),
    ("minimum", 86400),
    ("ordering", ""),
    ("ordering", "expected-runtime_2"),
    ("daemon_users", []),
    ("daemon_users", ["adm"]),
    ("runjob_fallback", "keep"),
    ("jobs_without_walltime", True),
    ("log", "problems"),
]
HARMFUL: list[tuple[str, Any]] = [
    ("transport", 1),
    ("socket", None),
    ("deadline_ms", 0),
    ("deadline_ms", -50),
    ("deadline_ms", 5001),
    ("deadline_ms", "50"),
    ("deadline_ms", 50.5),
    ("deadline_ms", True),
    ("attributes", "no"),
    ("minimum", 0),
    ("minimum", 59),
    ("minimum", 86401),
    ("minimum", "60"),
    ("ordering", None),
    ("daemon_users", "adm"),
    ("runjob_fallback", None),
    ("jobs_without_walltime", "False"),
    ("jobs_without_walltime", 0),
    ("events", "all"),
    ("events", ["queuejob"]),
    ("postgres", "dbname=softwalltime"),
]
"""The hook refuses these itself: they have another type, or could hurt a job."""
WRONG: list[tuple[str, Any]] = [
    *HARMFUL,
    ("transport", "carrier pigeon"),
    ("socket", "relative/path"),
    ("socket", ""),
    ("breaker_failures", 0),
    ("breaker_seconds", -1),
    ("ordering", "walltime"),
    ("ordering", "soft_walltime"),
    ("ordering", "a b"),
    ("ordering", "predicted\n"),
    ("daemon_users", [0]),
    ("log", "errors"),
    ("postgres", {"psycopg_path": "lib"}),
    ("postgres", {"exclusive": "sometimes"}),
]
"""softwalltime install refuses these."""


@pytest.mark.parametrize(("key", "value"), RIGHT)
def test_a_valid_value_is_used(key: str, value: Any, hook: ModuleType, configured: Callable[..., Path]) -> None:
    configuration, errors = hook.read_configuration(str(configured(**{key: value})))
    assert configuration == {**hook.DEFAULTS, key: value}
    assert errors == []


@pytest.mark.parametrize(("key", "value"), RIGHT)
def test_an_installation_accepts_a_valid_value(key: str, value: Any) -> None:
    assert list(problems_in({key: value})) == []


@pytest.mark.parametrize(("key", "value"), WRONG)
def test_an_installation_refuses_an_invalid_value(key: str, value: Any) -> None:
    ((place, reason),) = problems_in({key: value})
    assert place[0] == key
    assert reason


@pytest.mark.parametrize(("key", "value"), WRONG)
def test_no_invalid_value_costs_a_job_its_value(
    key: str, value: Any, script: HookScript, configured: Callable[..., Path], peer: Peer, site: Site
) -> None:
    """As imported by hand; the hook runs at every event as usual, or does not ask."""
    peer.behave(set=600)
    file = configured(**{"socket": str(peer.socket), "deadline_ms": PATIENT, key: value})
    outcome = script.run(queued(submission(), site=site), file)
    assert outcome.accepted
    assert "accepted unchanged" not in str(outcome.log)
    outcome = script.run(started(submission(), site=site, now=NOW, soft_walltime=60), file)
    assert outcome.soft_walltime in (600, 3600)


@pytest.mark.parametrize(("key", "value"), HARMFUL)
def test_a_harmful_value_is_reported_and_the_default_is_used(
    key: str, value: Any, hook: ModuleType, configured: Callable[..., Path]
) -> None:
    other = {"minimum": 99} if key != "minimum" else {"log": "problems"}
    configuration, errors = hook.read_configuration(str(configured(**{key: value}, **other)))
    assert configuration == {**hook.DEFAULTS, **other}
    assert len(errors) == 1
    assert errors[0].startswith(key)


def test_a_long_value_is_reported_by_its_first_60_characters(hook: ModuleType, configured: Callable[..., Path]) -> None:
    assert hook.read_configuration(str(configured(socket=["x" * 100])))[1] == ['socket: invalid value ["' + "x" * 58]


def test_an_invalid_key_in_a_group_does_not_affect_the_others(
    hook: ModuleType, configured: Callable[..., Path]
) -> None:
    file = configured(events={"queuejob": False, "runjob": "no", "movejob": True}, postgres={"dsn": "x", "waiting": 3})
    configuration, errors = hook.read_configuration(str(file))
    assert configuration["events"] == {
        "queuejob": False,
        "postqueuejob": False,
        "modifyjob": True,
        "runjob": True,
        "resvsub": True,
        "modifyresv": True,
    }
    assert configuration["postgres"] == {**hook.DEFAULTS["postgres"], "dsn": "x"}
    assert errors == [
        'events.runjob: invalid value "no"',
        "postgres.waiting: invalid value 3",
    ]


def test_an_unknown_key_is_ignored_and_an_installation_refuses_it(
    hook: ModuleType, configured: Callable[..., Path]
) -> None:
    """A configuration of another version of the hook may have keys that this one does not know."""
    assert hook.read_configuration(str(configured(deadline=100))) == (hook.DEFAULTS, [])
    ((_, reason),) = problems_in({"deadline": 100})
    assert reason.startswith("unknown key")


@pytest.mark.parametrize("removed", ["runjob", "breaker_requests", "breaker_budget_ms", "clean_texts"])
def test_an_installation_refuses_a_removed_key(removed: str) -> None:
    ((place, reason),) = problems_in({**json.loads(DEFAULTS.read_text()), removed: 20})
    assert place == (removed,)
    assert reason.startswith("unknown key")


CONTENTS = {
    "nothing": b"",
    "no JSON": b"deadline_ms: 50",
    "half a file": b'{"minimum": 90, "log"',
    "a list": b"[]",
    "a number": b"5",
    "null": b"null",
    "not UTF-8": b'{"socket": "\xff"}',
    "a deep nest": b"[" * 100_000,
}


@pytest.mark.parametrize("content", CONTENTS)
def test_an_invalid_file_is_reported_and_the_defaults_are_used(
    content: str, tmp_path: Path, script: HookScript, hook: ModuleType, site: Site
) -> None:
    file = tmp_path / "hook.json"
    file.write_bytes(CONTENTS[content])
    assert hook.read_configuration(str(file))[0] == hook.DEFAULTS
    outcome = script.run(queued(submission(), site=site), file)
    assert outcome.accepted
    assert not outcome.error
    assert len([line for _, line in outcome.log if "configuration" in line]) == 1


def test_an_unreadable_file_is_reported(tmp_path: Path, script: HookScript, site: Site) -> None:
    for file in (tmp_path / "missing.json", tmp_path):
        outcome = script.run(queued(submission(), site=site), file)
        assert outcome.accepted
        assert not outcome.error
        assert "configuration: the file cannot be read" in outcome.log[0][1]


def test_all_errors_are_one_line_and_the_run_continues(run: Run, peer: Peer, site: Site) -> None:
    peer.behave(set=600)
    outcome = run(queued(submission(), site=site), minimum="x", breaker_seconds="y", log=1)
    error, decision = (line for _, line in outcome.log)
    assert error.count("invalid value") == 3
    assert "set 600" in decision
    assert outcome.soft_walltime == 600


def test_a_changed_file_takes_effect_at_once(peer: Peer, script: HookScript, tmp_path: Path, site: Site) -> None:
    file = tmp_path / "hook.json"
    found = []
    for minimum in (100, 1000, 200):
        new = tmp_path / "new.json"
        new.write_text(json.dumps({"socket": str(peer.socket), "minimum": minimum, "deadline_ms": PATIENT}))
        new.replace(file)
        peer.behave(set=60)
        found.append(script.run(queued(submission(), site=site), file).soft_walltime)
    assert found == [100, 1000, 200]


def test_another_version_of_the_hook_reads_the_configuration_anew(tmp_path: Path, peer: Peer, site: Site) -> None:
    """A new hook file runs in the same interpreter as the old one and may have more keys."""
    configuration = tmp_path / "hook.json"
    configuration.write_text(json.dumps({"socket": str(peer.socket), "deadline_ms": PATIENT}))
    file = tmp_path / "hook.py"
    source = HOOK.read_text()
    peer.behave(set=60)
    for minimum in (100, 200):
        file.write_text(source.replace('"minimum": 60', f'"minimum": {minimum}'))
        assert HookScript(file).run(queued(submission(), site=site), configuration).soft_walltime == minimum


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
keys = st.sampled_from(sorted(json.loads(DEFAULTS.read_text()))) | st.text()


@given(given_=st.dictionaries(keys, json_values, max_size=6) | json_values)
def test_no_configuration_makes_the_hook_fail(given_: Any, script: HookScript, tmp_path: Path, site: Site) -> None:
    file = tmp_path / "hook.json"
    file.unlink(missing_ok=True)
    file.write_text(json.dumps(given_))
    for event in (queued(submission(), site=site), started(submission(), site=site, now=NOW, soft_walltime=60)):
        outcome = script.run(event, file)
        assert outcome.accepted
        assert not outcome.error
