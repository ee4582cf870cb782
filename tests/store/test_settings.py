"""Settings: the command line before the environment before the user's file before the system's."""

import os
from pathlib import Path

import pytest

from softwalltime.core import settings
from softwalltime.core.errors import UsageError
from softwalltime.core.settings import load_settings


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with nothing in it, and nothing in the environment."""
    for variable in [name for name in os.environ if name.startswith(("SOFTWALLTIME_", "XDG_"))]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(settings, "SYSTEM_FILE", tmp_path / "etc" / "softwalltime.toml")
    return tmp_path


def _write(file: Path, contents: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(contents)
    return file


def test_the_defaults_are_no_dsn_and_the_users_data_folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert load_settings().dsn is None
    assert load_settings().data_dir == home / ".local" / "share" / "softwalltime"
    monkeypatch.setenv("XDG_DATA_HOME", "/scratch/alice")
    assert load_settings().data_dir == Path("/scratch/alice/softwalltime")
    monkeypatch.setenv("XDG_DATA_HOME", "not/absolute")
    assert load_settings().data_dir == home / ".local" / "share" / "softwalltime"


def test_roots_data_folder_is_in_var_lib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert load_settings().data_dir == Path("/var/lib/softwalltime")


def test_sources_have_an_order_of_precedence(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(home / "etc" / "softwalltime.toml", "dsn = 'system'\ndata_dir = '/system'")
    assert (load_settings().dsn, load_settings().data_dir) == ("system", Path("/system"))
    _write(home / ".config" / "softwalltime.toml", "dsn = 'user'")
    assert (load_settings().dsn, load_settings().data_dir) == ("user", Path("/system"))
    monkeypatch.setenv("SOFTWALLTIME_DSN", "environment")
    assert load_settings(dsn=None).dsn == "environment"
    assert load_settings(dsn="option").dsn == "option"


@pytest.mark.skipif(os.geteuid() != 0, reason="a file of another owner is made")
def test_root_ignores_settings_files_of_users(home: Path) -> None:
    file = _write(home / ".config" / "softwalltime.toml", "socket = '/home/alice/hook.sock'")
    assert load_settings().socket == Path("/home/alice/hook.sock")
    os.chown(file, 1000, 1000)
    assert load_settings().socket == Path("/run/softwalltime/hook.sock")


def test_a_named_file_replaces_the_others(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(home / ".config" / "softwalltime.toml", "dsn = 'user'")
    monkeypatch.setenv("SOFTWALLTIME_CONFIG", str(_write(home / "named.toml", "dsn = 'named'")))
    assert load_settings().dsn == "named"
    assert load_settings(_write(home / "option.toml", "data_dir = '/data'")).dsn is None


def test_an_empty_variable_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTWALLTIME_DSN", "")
    assert load_settings().dsn is None


def test_folders_are_made_absolute(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    assert load_settings(data_dir=Path("here")).data_dir == home / "here"
    assert load_settings(data_dir="~/there").data_dir == home / "there"


def test_the_repr_hides_the_dsn() -> None:
    assert "geheim" not in repr(load_settings(dsn="postgresql://alice:geheim@h/jobs"))


@pytest.mark.parametrize(
    ("contents", "words"),
    [
        ("dns = 'geheim'", "unknown key dns; is dsn meant?"),
        ("colour = 1", "unknown key colour; there are dsn, data_dir"),
        ("data_dir = [1]", "data_dir = [1]: is not a valid path"),
        ("dsn = 5", "dsn: should be a valid string"),
        ("[dsn]\nhost = 'geheim'", "dsn: should be a valid string"),
        ("dsn 5", "not TOML: Expected '=' after a key in a key/value pair (at line 1, column 5)"),
        ("data_dir = '~no such user/x'", "Could not determine home directory."),
    ],
)
def test_an_error_names_file_key_and_value(home: Path, contents: str, words: str) -> None:
    file = _write(home / ".config" / "softwalltime.toml", contents)
    with pytest.raises(UsageError) as caught:
        load_settings()
    assert str(caught.value).startswith(f"settings file {file}: ")
    assert words in str(caught.value)
    assert "geheim" not in str(caught.value)


def test_the_source_of_a_wrong_value_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(home / ".config" / "softwalltime.toml", "data_dir = '/right'")
    monkeypatch.setenv("SOFTWALLTIME_DATA_DIR", "~no such user/x")
    with pytest.raises(UsageError, match=r"^SOFTWALLTIME_DATA_DIR: data_dir = '~no such user/x': "):
        load_settings()
    with pytest.raises(UsageError, match=r"^--data-dir: data_dir = 5: is not a valid path$"):
        load_settings(data_dir=5)


def test_a_file_that_is_not_utf8_is_named(home: Path) -> None:
    (home / "latin.toml").write_bytes(b"dsn = '\xe9'")
    with pytest.raises(UsageError, match=r"latin\.toml: not UTF-8 at byte 7"):
        load_settings(home / "latin.toml")


def test_a_named_file_must_exist(home: Path) -> None:
    with pytest.raises(UsageError, match=r"nothing\.toml: No such file or directory"):
        load_settings(home / "nothing.toml")


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ("Metrics = 5", "unknown key Metrics; is metrics meant?"),
        ('DSN = "postgresql:///x"', "unknown key DSN; is dsn meant?"),
        ('[Policy]\nmode = "on"', "unknown key Policy; is policy meant?"),
        ("keep_days = " + "9" * 5000, "not TOML: Exceeds the limit"),
        ("policy = " + "[" * 5000, "not TOML: nested too deeply"),
        ('accounting = "\\u0000"', "must not contain a null character"),
    ],
)
def test_a_settings_file_that_cannot_be_used_is_named_with_the_reason(home: Path, contents: str, message: str) -> None:
    file = _write(home / "wrong.toml", contents)
    with pytest.raises(UsageError) as raised:
        load_settings(file)
    assert str(raised.value).startswith(f"settings file {file}: ")
    assert message in str(raised.value)


def test_a_wrong_variable_in_lower_case_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("softwalltime_metrics", "5")
    with pytest.raises(UsageError, match="SOFTWALLTIME_METRICS: metrics = '5': must be host and port"):
        load_settings()
