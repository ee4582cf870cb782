"""The preset in the settings file is changed in place; what cannot be changed line by line is left alone."""

from pathlib import Path

import pytest

from softwalltime.cli import run
from softwalltime.deployment import pbs
from softwalltime.deployment.settings_file import with_policy
from softwalltime.errors import UsageError
from tests.samples import ROOT

SHIPPED = (ROOT / "deploy" / "softwalltime.toml").read_text()


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("", '\n[policy]\npreset = "safe"\n'),
        ('server = "x"', 'server = "x"\n\n[policy]\npreset = "safe"\n'),
        ("[policy]", '[policy]\npreset = "safe"\n'),
        ("[policy] # ours\n", '[policy] # ours\npreset = "safe"\n'),
        ('[policy]\npreset = "off"\n', '[policy]\npreset = "safe"\n'),
        ("[policy]\n  preset='off'   # for now\nshare = 0.1", "[policy]\n  preset=\"safe\"   # for now\nshare = 0.1"),
        (
            '[policy]\nshare = 0.1\n[[policy.rules]]\nqueue = "a"\n',
            '[policy]\npreset = "safe"\nshare = 0.1\n[[policy.rules]]\nqueue = "a"\n',
        ),
        (SHIPPED, SHIPPED.replace('\npreset = "shadow"', '\npreset = "safe"')),
    ],
)  # fmt: skip
def test_only_the_preset_changes(text: str, after: str) -> None:
    assert with_policy(text, {"preset": "safe"}, "x.toml") == after


@pytest.mark.parametrize(
    "text", ['policy.preset = "off"\n', 'policy = {preset = "off"}\n', '[policy]\npreset = """\noff"""\n', "[policy\n"]
)
def test_a_file_that_cannot_be_changed_line_by_line_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"^x\.toml: not "):
        with_policy(text, {"preset": "safe"}, "x.toml")


def test_a_dry_run_shows_the_preset_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pbs, "USUAL", Path("/nonexistent"))
    monkeypatch.setenv("PBS_CONF_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    config = tmp_path / "softwalltime.toml"
    config.write_text(SHIPPED)
    assert run(["policy", "set", "order", "--config", str(config), "--folder", str(tmp_path / "hook")]) == 0
    said = capsys.readouterr()
    assert f'to do: {config}: preset = "order"' in said.out
    assert "preset order: PBS's settings are not known here: no qmgr" in said.err
    assert config.read_text() == SHIPPED
    assert [path.name for path in tmp_path.iterdir()] == ["softwalltime.toml"]
    assert run(["policy", "set", "safe", "--config", str(config), "--formula", "1"]) == 2
    # Without PBS nothing is set, the settings neither.
    assert run(["policy", "set", "order", "--apply", "--config", str(config), "--folder", str(tmp_path / "hook")]) == 1
    assert config.read_text() == SHIPPED
