"""Files that commands write as a whole, also where another user owns the folder."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from softwalltime.core.errors import SourceError
from softwalltime.core.written import replaced, write_csv, write_text

STRANGER = 12345


def test_an_error_keeps_the_earlier_file_and_leaves_no_other(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    write_text(file, "earlier")
    with pytest.raises(UnicodeEncodeError):
        write_text(file, "\ud800")
    assert file.read_text() == "earlier"
    write_text(file, "\ud800", "backslashreplace")
    assert file.read_text() == "\\ud800"
    assert list(tmp_path.iterdir()) == [file]


def test_the_name_of_the_unfinished_file_cannot_be_guessed_and_it_must_be_new(tmp_path: Path) -> None:
    names = set()
    for _ in range(2):
        with replaced(tmp_path / "site.tar.gz", 0o600) as stream:
            names.add(stream.name)
            assert stat.S_IMODE(os.fstat(stream.fileno()).st_mode) == 0o600
            assert stream.mode == "xb"
    assert len(names) == 2
    assert not any(str(os.getpid()) == part for name in names for part in Path(name).name.split("."))


@pytest.mark.parametrize("write", [write_text, lambda path, text: write_csv(path, [text], [])])
def test_a_fifo_is_written_directly(write: Callable[[Path, str], None], tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    write(fifo, "text")
    assert os.read(reader, 100).strip() == b"text"
    os.close(reader)
    assert list(tmp_path.iterdir()) == [fifo]


def test_a_link_of_ones_own_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "page.html").symlink_to(tmp_path / "elsewhere.html")
    write_text(tmp_path / "page.html", "new")
    assert (tmp_path / "page.html").is_symlink()
    assert (tmp_path / "elsewhere.html").read_text() == "new"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root refuses links of others, and can make one")
def test_root_does_not_follow_a_link_of_another_user(tmp_path: Path) -> None:
    victim, link = tmp_path / "victim", tmp_path / "site.tar.gz"
    victim.write_text("precious")
    link.symlink_to(victim)
    os.chown(link, STRANGER, STRANGER, follow_symlinks=False)
    with pytest.raises(SourceError, match="does not follow this link of another user"):
        write_text(link, "new")
    assert victim.read_text() == "precious"
