"""The folder of an installation: owners, modes, links, and its configuration."""

import json
import os
import stat
from pathlib import Path

import pytest

from softwalltime.core.errors import SourceError, UsageError
from softwalltime.deployment import hook
from softwalltime.deployment.hook_folder import files_in, read_own, remove_files, write
from tests.deploy.installations import plan, present


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_the_error_for_a_user_without_permission_names_who_has_it(tmp_path: Path) -> None:
    for parent in (tmp_path, *tmp_path.parents):
        parent.chmod(parent.stat().st_mode | 0o011)
    write(plan(), tmp_path)
    os.seteuid(65534)
    try:
        with pytest.raises(SourceError, match=r"Permission denied; run this as root on the PBS server's host$"):
            read_own(tmp_path)
        with pytest.raises(SourceError, match=r"Permission denied; run this as root on the PBS server's host$"):
            write(plan(), tmp_path / "new")
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("transport", ["daemon", "postgres"])
def test_writing_again_changes_nothing_and_removing_leaves_nothing(tmp_path: Path, transport: str) -> None:
    folder = tmp_path / "a" / "hook"
    made = plan(own={"transport": transport})
    assert write(made, folder) == [folder / name for name in made.files]
    assert write(made, folder) == []
    assert (folder / "softwalltime_hook.py").read_text() == hook.script()
    assert read_own(folder) == json.loads(made.files["softwalltime_hook.json"])
    assert (folder / "softwalltime_postgres.py").exists() == (transport == "postgres")
    assert sorted(remove_files(folder)) == sorted(folder / name for name in made.files)
    assert not folder.exists()
    assert remove_files(folder) == files_in(folder) == []


def test_files_of_others_in_the_folder_are_kept(tmp_path: Path) -> None:
    write(plan(), tmp_path)
    (tmp_path / "notes").touch()
    remove_files(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


@pytest.mark.skipif(os.geteuid() != 0, reason="PBS takes hooks from root alone, so only root is kept from mistakes")
@pytest.mark.parametrize("mode", [0o777, 0o775])
def test_root_refuses_a_folder_that_others_can_write_to(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "open" / "hook"
    folder.mkdir(parents=True)
    folder.parent.chmod(mode)
    with pytest.raises(UsageError, match=r"open can be written by others.*chmod go-w"):
        write(plan(), folder)
    folder.parent.chmod(0o755)
    os.chown(folder, 65534, 65534)
    with pytest.raises(UsageError, match="chown root"):
        write(plan(), folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="files of another owner are made")
def test_root_refuses_a_symbolic_link_of_another_user(tmp_path: Path) -> None:
    (tmp_path / "roots").mkdir(mode=0o755)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "roots")
    write(plan(), link / "hook")
    # It leads to a folder of root's now, and to another one when PBS reads it.
    os.lchown(link, 65534, 65534)
    with pytest.raises(UsageError, match=r"link belongs to another user.*chown root"):
        write(plan(), link / "hook")


@pytest.mark.skipif(os.geteuid() != 0, reason="PBS takes hooks from root alone, so only root is kept from mistakes")
def test_root_refuses_a_sticky_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    write(plan(), tmp_path / "hook")
    with pytest.raises(UsageError, match="can be written by others"):
        write(plan(), tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="files of another owner are made")
def test_a_file_that_others_could_change_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "hook"
    write(plan(), folder)
    script = folder / "softwalltime_hook.py"
    for owner, mode in ((65534, 0o644), (0, 0o664), (0, 0o646)):
        os.chown(script, owner, 0)
        script.chmod(mode)
        assert write(plan(), folder) == [script]
        assert (script.stat().st_uid, stat.S_IMODE(script.stat().st_mode)) == (0, 0o644)
    assert write(plan(), folder) == []


def test_a_password_is_neither_readable_nor_shown(tmp_path: Path) -> None:
    own = {"postgres": {"dsn": "postgresql://hook:secret@db/softwalltime"}}
    folder = tmp_path / "hook"
    made = plan(present(values={"postgres": {"dsn": "postgresql://hook:before@db/x"}}), own=own)
    write(made, folder)
    file = folder / "softwalltime_hook.json"
    assert "secret" in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    # As an editor may have left it.
    file.chmod(0o644)
    assert write(made, folder) == [file]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    said = "\n".join([*made.notes, *(f"{step.statement} {step.why}" for step in made.steps)])
    assert "postgres.dsn: (not shown), will be (not shown)" in said
    assert "secret" not in said
    assert "before" not in said


def test_a_link_in_the_folder_is_replaced_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("precious")
    folder = tmp_path / "hook"
    folder.mkdir(mode=0o755)
    (folder / "softwalltime_hook.py").symlink_to(elsewhere)
    write(plan(), folder)
    assert elsewhere.read_text() == "precious"
    assert not (folder / "softwalltime_hook.py").is_symlink()
    assert stat.S_IMODE((folder / "softwalltime_hook.py").stat().st_mode) == 0o644


@pytest.mark.parametrize("name", ["with blank", 'with"quote', "with'quote", "with\ttab"])
def test_a_path_that_qmgr_cannot_read_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="give another FOLDER"):
        write(plan(), tmp_path / name)


def test_an_invalid_configuration_in_the_folder_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "softwalltime_hook.json").write_text('{"deadline_ms": 80,}')
    with pytest.raises(UsageError, match=rf"^{tmp_path}/softwalltime_hook.json: not JSON: .*move it away"):
        read_own(tmp_path)
