"""The preset in the settings file is changed in place; what cannot be changed line by line is left alone."""

from pathlib import Path

import pytest

from softwalltime.cli import run
from softwalltime.core.errors import UsageError
from softwalltime.deployment import qmgr
from softwalltime.deployment.settings_file import with_values
from tests.samples import ROOT

SHIPPED = (ROOT / "deploy" / "softwalltime.toml").read_text()


@pytest.fixture
def without_pbs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide a PBS of this machine, whose settings a test must not change."""
    monkeypatch.setattr(qmgr, "USUAL", Path("/nonexistent"))
    monkeypatch.setenv("PBS_CONF_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")


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
        ('[ policy ]\npreset = "off"\n', '[ policy ]\npreset = "safe"\n'),
        ('[policy]\r\npreset = "off"\r\n', '[policy]\r\npreset = "safe"\r\n'),
        ("[policy]\r\nshare = 0.1\r\n", '[policy]\r\npreset = "safe"\r\nshare = 0.1\r\n'),
        ('server = "x"\r\n', 'server = "x"\r\n\r\n[policy]\r\npreset = "safe"\r\n'),
        (SHIPPED, SHIPPED.replace('\npreset = "shadow"', '\npreset = "safe"')),
    ],
)  # fmt: skip
def test_only_the_preset_changes(text: str, after: str) -> None:
    assert with_values(text, {"policy": {"preset": "safe"}}, "x.toml")[0] == after


def test_values_of_several_tables_change_and_the_rest_stays() -> None:
    text = 'a = 1\n[live] # ours\nguard = "off"   # for now\n[policy]\nshare = 0.1\n[starts]\nmode = "on"\n'
    tables = {"policy": {"preset": "custom", "share": 1.0}, "live": {"mode": "on", "guard": 3600}}
    after, changes = with_values(text, tables, "x.toml")
    assert after == (
        'a = 1\n[live] # ours\nmode = "on"\nguard = 3600   # for now\n'
        '[policy]\npreset = "custom"\nshare = 1.0\n[starts]\nmode = "on"\n'
    )
    assert changes == [
        '[policy] preset = "custom"', "[policy] share = 1.0 (was 0.1)", '[live] mode = "on"',
        '[live] guard = 3600 (was "off")',
    ]  # fmt: skip
    assert with_values(after, tables, "x.toml") == (after, [])


@pytest.mark.parametrize(
    "text", ['policy.preset = "off"\n', 'policy = {preset = "off"}\n', '[policy]\npreset = """\noff"""\n', "[policy\n"]
)
def test_a_file_that_cannot_be_changed_line_by_line_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"^x\.toml: not "):
        with_values(text, {"policy": {"preset": "safe"}}, "x.toml")


def test_a_header_that_is_not_found_is_no_error_of_toml() -> None:
    with pytest.raises(UsageError, match=r'set by hand: preset = "safe" in \[policy\]'):
        with_values('["policy"]\nshare = 0.1\n', {"policy": {"preset": "safe"}}, "x.toml")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (None, "softwalltime.toml: No such file or directory; create it, or give --config FILE"),
        ("[live]\nnonsense = 1\n", "live.nonsense: unknown key"),
        ("[policy]\nshare = 2\n", "policy.share: "),
    ],
)
def test_wrong_settings_are_refused_before_anything_is_changed(
    text: str | None, error: str, tmp_path: Path, without_pbs: None, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "softwalltime.toml"
    if text is not None:
        config.write_text(text)
    assert run(["policy", "set", "safe", "--apply", "--config", str(config), "--folder", str(tmp_path / "hook")]) == 2
    said = capsys.readouterr()
    assert error in said.err
    assert said.out == ""
    assert (config.read_text() if config.exists() else None) == text


def test_without_pbs_nothing_is_set(tmp_path: Path, without_pbs: None, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "softwalltime.toml"
    config.write_text(SHIPPED)
    assert run(["policy", "set", "order", "--config", str(config), "--folder", str(tmp_path / "hook")]) == 1
    assert "no qmgr on the PATH" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["softwalltime.toml"]
    assert run(["policy", "set", "safe", "--config", str(config), "--formula", "1"]) == 2
    assert run(["policy", "set", "order", "--apply", "--config", str(config), "--folder", str(tmp_path / "hook")]) == 1
    assert config.read_text() == SHIPPED
