"""Users who can change files that root trusts: owners, permissions, sticky folders, and links in the path."""

import os
from pathlib import Path

import pytest

from softwalltime.cli import run
from softwalltime.deployment.ownership import (
    file_writable_by_others,
    settings_writable_by_others,
    writable_by_others,
    writable_by_others_below,
)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="files of another owner are made")
SOMEBODY = 65534


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Root's folder in a folder of root's."""
    made = tmp_path / "above" / "folder"
    made.mkdir(parents=True)
    return made


def test_files_of_root_have_no_other_writer(folder: Path) -> None:
    (folder / "file").touch()
    assert (
        writable_by_others(folder)
        is writable_by_others_below(folder)
        is file_writable_by_others(folder / "file")
        is None
    )


@pytest.mark.parametrize("which", [".", ".."])
def test_a_folder_of_another_user_or_writable_by_others_is_reported(folder: Path, which: str) -> None:
    changed = (folder / which).resolve()
    os.chown(changed, SOMEBODY, -1)
    found = writable_by_others(folder)
    assert found is not None
    assert (found.path, found.remedy) == (changed, f"chown root {changed}")
    assert writable_by_others(folder, (0, SOMEBODY)) is None
    os.chown(changed, 0, -1)
    changed.chmod(0o775)
    found = writable_by_others(folder)
    assert found is not None
    assert (found.path, found.remedy) == (changed, f"chmod go-w {changed}")


def test_a_sticky_parent_is_accepted_and_a_sticky_folder_is_not(folder: Path) -> None:
    folder.parent.chmod(0o1777)
    assert writable_by_others(folder) is None
    folder.chmod(0o1777)
    assert writable_by_others(folder) is not None


def test_the_owner_of_a_symbolic_link_counts(folder: Path) -> None:
    link = folder.parent / "link"
    link.symlink_to(folder)
    (folder / "inner").mkdir()
    assert writable_by_others(link / "inner") is None
    os.lchown(link, SOMEBODY, -1)
    found = writable_by_others(link / "inner")
    assert found is not None
    assert found.path == link


def test_contents_and_targets_of_links_count(folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "deep").mkdir(parents=True)
    library = elsewhere / "deep" / "library.py"
    library.touch()
    (folder / "package").symlink_to(elsewhere)
    (folder / "module.py").symlink_to(library)
    # Links that lead in a circle end.
    (elsewhere / "back").symlink_to(folder)
    assert writable_by_others_below(folder) is None
    library.chmod(0o666)
    found = writable_by_others_below(folder)
    assert found is not None
    assert found.path == library


def test_a_missing_folder_is_an_error(folder: Path) -> None:
    with pytest.raises(FileNotFoundError):
        writable_by_others(folder / "none")
    with pytest.raises(FileNotFoundError):
        writable_by_others_below(folder / "none")
    (folder / "broken").symlink_to(folder / "none")
    with pytest.raises(FileNotFoundError):
        writable_by_others_below(folder)


def test_serve_as_root_refuses_settings_that_others_can_change_and_doctor_reports_them(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = folder / "softwalltime.toml"
    config.write_text(f'dsn = "postgresql://127.0.0.1:1/none"\nsocket = "{folder}/s"\naccounting = "{folder}"\n')
    assert settings_writable_by_others(config) is None
    os.chown(config, SOMEBODY, -1)
    link = folder / "link.toml"
    link.symlink_to(config)
    for named in (config, link):
        assert run(["serve", "--config", str(named)]) == 2
        error = capsys.readouterr().err
        assert f"{config} belongs to another user, and root must not run with settings of another user" in error
        assert f"chown root {config}" in error
    run(["doctor", "--config", str(config), "--format", "json"])
    assert f"{config} belongs to another user; serve refuses such settings where it runs as root" in (
        capsys.readouterr().out
    )
    assert not (folder / "s").exists()
    os.chown(config, 0, -1)
    config.chmod(0o664)
    assert run(["serve", "--config", str(config)]) == 2
