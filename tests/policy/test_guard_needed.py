"""safe and balanced never have short waiting values without their guard."""

from pathlib import Path

import pytest

from softwalltime.cli import run
from softwalltime.deployment import qmgr
from softwalltime.predict.policy.presets import BALANCED_WAITING, HALF
from softwalltime.predict.policy.site import KEEP, WALLTIME
from softwalltime.service.live.live_options import read_policy
from tests.samples import job

RULES = ({"queue": "a", "waiting": "v1"}, {"queue": "b", "waiting": KEEP}, {"queue": "c", "ordering": "v2"})


@pytest.mark.parametrize("preset", ["safe", "balanced"])
@pytest.mark.parametrize("live", [{}, {"mode": "shadow"}, {"mode": "on", "guard": "off"}])
def test_without_the_guard_waiting_jobs_are_planned_with_their_walltimes(preset: str, live: dict[str, object]) -> None:
    policy, _ = read_policy({"preset": preset, "rules": RULES}, live)
    waiting = {queue: policy.terms(job(queue=queue).submission).waiting for queue in "abcd"}
    assert waiting == {"a": WALLTIME, "b": KEEP, "c": WALLTIME, "d": WALLTIME}
    unguarded = read_policy({"preset": preset}, {"mode": "on"})[0].ordering
    assert policy.ordering == unguarded, "the order does not need the guard"


@pytest.mark.parametrize(
    ("policy", "live"),
    [
        ({"preset": "safe"}, {"mode": "on"}),
        ({"preset": "balanced"}, {"mode": "on", "guard": 60}),
        ({"preset": "order"}, {}),
        ({"mode": "on", "waiting": HALF}, {}),
    ],
)
def test_with_the_guard_and_where_the_site_chose_the_values_they_stay(
    policy: dict[str, object], live: dict[str, object]
) -> None:
    expected = BALANCED_WAITING if policy.get("preset") == "balanced" else HALF
    assert read_policy(policy, live)[0].terms(job().submission).waiting == expected


@pytest.mark.parametrize("live", ["", '[live]\nmode = "shadow"\n', '[live]\nmode = "on"\nguard = "off"\n'])
def test_safe_is_refused_without_its_guard_and_says_why(
    live: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # No PBS of this machine.
    monkeypatch.setattr(qmgr, "USUAL", Path("/nonexistent"))
    monkeypatch.setenv("PBS_CONF_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    config = tmp_path / "softwalltime.toml"
    config.write_text(live)
    options = ["--config", str(config), "--folder", str(tmp_path / "hook")]
    for apply in ([], ["--apply"]):
        assert run(["policy", "set", "safe", *options, *apply]) == 2
        said = capsys.readouterr()
        assert "Without its guard safe would change nothing; balanced would change the order alone" in said.err
        assert "[live]" in said.err
        assert said.out == ""
    assert run(["policy", "set", "balanced", *options]) == 1
    assert "Without its guard" not in capsys.readouterr().err, "only PBS is missing"
    assert config.read_text() == live
