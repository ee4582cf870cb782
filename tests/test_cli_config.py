"""softwalltime config: all errors of a configuration at once with file and line, and where each value came from."""

import csv
import io
import json
from pathlib import Path

import pytest

from softwalltime.cli import run
from softwalltime.core import settings as settings_module
from softwalltime.deployment.check_configuration import line_of, toml_lines
from tests.samples import ROOT

SETTINGS = """\
dsn = "postgresql://bob:geheim@db/sw"
refresh_seconds = "no"
metricz = "1"
[policy]
preset = "safe"
waiting = "v3"
rules = [
  {queue = "a", mode = "off"},
  {que = "b", waiting = "v99"},
]
[live]
mode = "maybe"
[[policy_of.others]]
x = 1
"""
HOOK = """\
{
  "deadline_ms": 0,
  "evnts": {},
  "events": {"queuejob": 1},
  "postgres": {"dsn": ["password=geheim"]}
}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


def test_all_errors_are_printed_with_file_and_line(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings, hook = home / "settings.toml", home / "hook.json"
    settings.write_text(SETTINGS)
    hook.write_text(HOOK)
    assert run(["config", "check", str(settings), str(hook)]) == 1
    captured = capsys.readouterr()
    assert run(["config", "check", str(hook), "--config", str(settings)]) == 1
    assert sorted(capsys.readouterr().out.splitlines()) == sorted(captured.out.splitlines())
    assert [line.partition("; there are")[0] for line in captured.out.splitlines()] == [
        f"{settings}:2: refresh_seconds: should be a valid integer, unable to parse string as an integer ('no')",
        f"{settings}:3: metricz: unknown key; is metrics meant?",
        f"{settings}:6: policy.waiting: has no effect with preset safe",
        f"{settings}:7: policy.rules[1].que: unknown key; is queue meant?",
        f"{settings}:7: policy.rules[1].waiting: no predictor is called 'v99'",
        f"{settings}:12: live.mode: should be 'off', 'shadow' or 'on' ('maybe')",
        f"{settings}:13: policy_of: unknown key; is policy meant?",
        f"{hook}: deadline_ms: should be greater than or equal to 1 ('0')",
        f"{hook}: events.queuejob: should be a valid boolean ('1')",
        f"{hook}: evnts: unknown key; is events meant?",
        f"{hook}: postgres.dsn: should be a valid string",
    ]
    assert captured.err == "10 errors in 2 files\n"


@pytest.mark.parametrize(
    ("policy", "live", "error"),
    [
        ('preset = "safe"', "", ":3: live.mode: preset safe: the guard needs live values, and they are off"),
        ('preset = "balanced"', 'mode = "shadow"', ":4: live.mode: preset balanced: the guard needs live values"),
        ('preset = "order"', "", ":3: live.mode: preset order: the guard needs live values"),
        ('preset = "balanced"', "slack = 60", ":3: live.mode: preset balanced: the guard and slack need live values"),
        (
            'preset = "safe"',
            'mode = "on"\nslack = 60',
            ":4: live.mode: preset safe: slack in [live] has no effect: jobs keep the order of the queue",
        ),
        ('mode = "on"\nwaiting = "v1"', "guard = 60", "live.mode: the policy: the guard needs live values"),
        ('preset = "safe"', 'mode = "on"\nguard = "off"', "preset safe: the guard is off"),
        ('preset = "safe"', 'mode = "on"', ""),
        ('preset = "balanced"', 'guard = "off"', ""),
        ('mode = "on"\nwaiting = "v1"', "", ""),
        ('mode = "shadow"\nwaiting = "v1"', "guard = 60", ""),
        ('preset = "shadow"', "", ""),
    ],
)
def test_a_guard_that_cannot_act_is_an_error(
    policy: str, live: str, error: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = home / "settings.toml"
    settings.write_text(f"[policy]\n{policy}\n[live]\n{live}\n")
    assert run(["config", "check", str(settings)]) == bool(error)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{settings}:")
    assert error in lines[0]


def test_the_users_and_the_systems_settings_are_checked_together(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = home / "softwalltime.toml", home / "system.toml"
    monkeypatch.setattr(settings_module, "SYSTEM_FILE", second)
    first.write_text('[live]\nmode = "on"\n')
    second.write_text('[policy]\npreset = "safe"\n[live]\nmode = "off"\n')
    assert run(["config", "check", str(second)]) == 1
    assert "the guard needs live values" in capsys.readouterr().out
    assert "the guard" not in (run(["config", "check"]), capsys.readouterr().out)[1]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.toml", b"x = [\n\n", "a.toml: not TOML: "),
        ("b.toml", b"dsn = 'x'\ny = = 2\n", "b.toml:2: not TOML: "),
        ("c.toml", b"\xff", "c.toml: not UTF-8 at byte 0"),
        ("d.toml", b'dsn = "postgresql://bob:geheim@x@db/sw"', "d.toml:1: dsn: the DSN is neither a URL"),
        ("e.json", b'{\n"socket": }', "e.json:2: not JSON: "),
        ("f.json", b"[]", "f.json: not a JSON object"),
        ("g.json", b'{"events": true}', "g.json: events: should be a JSON object"),
    ],
)
def test_a_file_that_cannot_be_parsed_is_one_error(
    name: str, content: bytes, expected: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / name).write_bytes(content)
    assert run(["config", "check", str(home / name)]) == 1
    captured = capsys.readouterr()
    assert captured.out.startswith(f"{home}/{expected}")
    assert "geheim" not in captured.out + captured.err


def test_what_is_shipped_has_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    files = [ROOT / "deploy" / "softwalltime.toml", ROOT / "hooks" / "softwalltime_hook.json"]
    assert run(["config", "check", *map(str, files), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_a_list_in_the_environment_that_is_not_json_is_named(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOFTWALLTIME_TEACHING", "finished")
    assert run(["config", "show"]) == 2
    assert "environment: SOFTWALLTIME_TEACHING: not JSON" in capsys.readouterr().err


def test_the_environment_is_checked_with_the_files_that_commands_read(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "softwalltime.toml").write_text("keep_days = -1\n")
    monkeypatch.setenv("SOFTWALLTIME_DNS", "postgresql:///x")
    monkeypatch.setenv("SOFTWALLTIME_REFRESH_SECONDS", "often")
    monkeypatch.setenv("SOFTWALLTIME_POLICY", "{")
    assert run(["config", "check"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{home}/softwalltime.toml:1: keep_days: should be greater than or equal to 0")
    assert "environment: SOFTWALLTIME_DNS: unknown variable; is SOFTWALLTIME_DSN meant?" in lines
    assert "environment: SOFTWALLTIME_POLICY: not JSON" in lines
    assert run(["config", "show"]) == 2
    assert f"{home}/softwalltime.toml:1: keep_days" in capsys.readouterr().err


def test_show_names_the_source_of_each_value_and_no_password(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = home / "s.toml"
    file.write_text(
        'dsn = "host=db password=\'ge heim\' dbname=sw"\n[policy]\npreset = "safe"\nwaiting = "v3"\nminimum = 120\n'
        'rules = [\n  {queue = "a", mode = "off"}]\n[live]\nevery = 30\n'
    )
    monkeypatch.setenv("SOFTWALLTIME_KEEP_DAYS", "7")
    assert run(["config", "show", "--config", str(file), "--format", "json"]) == 0
    text = capsys.readouterr().out
    assert "heim" not in text
    shown = {one["key"]: (one["value"], one["source"]) for one in json.loads(text)}
    assert {key: shown[key] for key in (
        "keep_days", "refresh_seconds", "policy.preset", "policy.waiting", "policy.minimum", "policy.share",
        "policy.rules", "live.every", "live.mode", "live.guard",
    )} == {
        "keep_days": (7, "SOFTWALLTIME_KEEP_DAYS"), "refresh_seconds": (3600, "default"),
        "policy.preset": ("safe", f"{file}:3"), "policy.waiting": ("walltime", f"preset safe ({file}:3)"),
        "policy.minimum": (120, f"{file}:5"), "policy.share": (1.0, "default"),
        "policy.rules": ([{"queue": "a", "mode": "off"}], f"{file}:6"),
        "live.every": (30, f"{file}:9"), "live.mode": ("off", "default"),
        "live.guard": (3600, f"preset safe ({file}:3)"),
    }  # fmt: skip
    assert (set(shown["dsn"][0].split()), shown["dsn"][1]) == ({"host=db", "dbname=sw", "password=***"}, f"{file}:1")
    assert run(["config", "show", "--config", str(file), "--format", "csv"]) == 0
    rows = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert {row["key"]: row["source"] for row in rows} == {key: source for key, (_, source) in shown.items()}


def test_lines_of_toml() -> None:
    text = '# comment\na = [\n  "x",  # ]\n]\n[b]\n"c" . d = 1\nc.d = 2\n[[b.e]]\nf = 1\n[[b.e]]\nf = {g = 2}\n'
    lines = toml_lines(text)
    assert lines == {
        ("a",): 2, ("b",): 5, ("b", "c", "d"): 7, ("b", "e", 0): 8, ("b", "e", 0, "f"): 9, ("b", "e", 1): 10,
        ("b", "e", 1, "f"): 11,
    }  # fmt: skip
    assert [line_of(lines, path) for path in (("b", "e", 1, "f", "g"), ("a", 0), ("b", "c"), ("z",))] == [
        11,
        2,
        7,
        None,
    ]


def test_a_hook_configuration_that_cannot_be_looked_at_is_left_out(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # A name that is too long fails for root too, as a folder without permission does for others.
    monkeypatch.setattr("softwalltime.cli.config.HOOK", home / (300 * "x"))
    (home / "softwalltime.toml").write_text("keep_days = 30\n")
    assert run(["config", "check"]) == 0
    assert "softwalltime.toml: no error" in capsys.readouterr().out
