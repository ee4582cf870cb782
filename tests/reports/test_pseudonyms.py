"""Pseudonyms: stable, keyed, and different for different names."""

from pathlib import Path

import pytest

from softwalltime.core.errors import SourceError
from softwalltime.reports.pseudonyms import Pseudonyms, read_key

KEY = b"0123456789abcdef"


def test_the_same_key_gives_the_same_pseudonyms() -> None:
    first, second = Pseudonyms(KEY), Pseudonyms(KEY)
    second("user", "bob")
    assert first("user", "alice") == second("user", "alice") == first("user", "alice")
    assert first("user", "alice").startswith("user-")
    assert len(first("user", "alice")) == len("user-3f9a1c02b7")


def test_another_key_or_kind_gives_other_pseudonyms() -> None:
    assert Pseudonyms(KEY)("user", "x") != Pseudonyms(KEY[::-1])("user", "x")
    assert Pseudonyms(KEY)("user", "x").partition("-")[2] != Pseudonyms(KEY)("group", "x").partition("-")[2]


def test_queues_keep_their_names_by_default() -> None:
    assert Pseudonyms(KEY)("queue", "long") == "long"


def test_pseudonyms_of_10000_names_differ() -> None:
    pseudonyms = Pseudonyms(KEY)
    assert len({pseudonyms("user", f"user{number}") for number in range(10_000)}) == 10_000


def test_a_missing_key_is_created_for_its_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "report.key"
    key = read_key(file)
    assert len(key) == 64
    assert file.stat().st_mode & 0o777 == 0o600
    assert read_key(file) == key
    assert read_key(tmp_path / "other.key") != key


@pytest.mark.parametrize(
    ("content", "mode", "message"),
    [
        ("secret", 0o600, "not 16 to 1024 bytes long"),
        ("x" * 1025, 0o600, "not 16 to 1024 bytes long"),
        ("x" * 64, 0o644, r"readable by other users \(mode 0644\): chmod 600 it"),
        ("root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1:daemon:/usr/sbin:/bin/sh\n", 0o600, "more than one word"),
    ],
)
def test_a_file_that_is_no_secret_key_is_refused(tmp_path: Path, content: str, mode: int, message: str) -> None:
    file = tmp_path / "report.key"
    file.write_text(content)
    file.chmod(mode)
    with pytest.raises(SourceError, match=f"no key for pseudonyms: {message}.*; name a new file"):
        read_key(file)


def test_a_special_file_is_no_key() -> None:
    with pytest.raises(SourceError, match="/dev/zero: no key for pseudonyms: not a regular file"):
        read_key(Path("/dev/zero"))


def test_a_key_in_a_missing_folder_cannot_be_created(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot be read or created"):
        read_key(tmp_path / "no" / "folder")
