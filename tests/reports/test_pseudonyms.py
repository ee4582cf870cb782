"""Pseudonyms: stable, keyed, and different for different names."""

from pathlib import Path

import pytest

from softwalltime.errors import SourceError
from softwalltime.reports.pseudonyms import Pseudonyms, read_key

KEY = b"0123456789abcdef"


def test_the_same_key_gives_the_same_pseudonyms_whatever_came_before() -> None:
    first, second = Pseudonyms(KEY), Pseudonyms(KEY)
    second("user", "bob")
    assert first("user", "alice") == second("user", "alice") == first("user", "alice")
    assert first("user", "alice").startswith("user-")
    assert len(first("user", "alice")) == len("user-3f9a1c02b7")


def test_another_key_or_another_kind_gives_others() -> None:
    assert Pseudonyms(KEY)("user", "x") != Pseudonyms(KEY[::-1])("user", "x")
    assert Pseudonyms(KEY)("user", "x").partition("-")[2] != Pseudonyms(KEY)("group", "x").partition("-")[2]


def test_queues_keep_their_names_unless_asked() -> None:
    assert Pseudonyms(KEY)("queue", "long") == "long"
    assert Pseudonyms(KEY, queues=True)("queue", "long").startswith("queue-")


def test_many_names_are_told_apart() -> None:
    pseudonyms = Pseudonyms(KEY)
    assert len({pseudonyms("user", f"user{number}") for number in range(10_000)}) == 10_000


def test_a_key_that_is_not_there_is_made_for_its_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "report.key"
    key = read_key(file)
    assert len(key) == 64
    assert file.stat().st_mode & 0o777 == 0o600
    assert read_key(file) == key
    assert read_key(tmp_path / "other.key") != key


def test_a_short_key_or_one_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    short = tmp_path / "short"
    short.write_text("secret\n")
    with pytest.raises(SourceError, match="has 6 bytes; name a file with at least 16"):
        read_key(short)
    with pytest.raises(SourceError, match="cannot be read or made"):
        read_key(tmp_path / "no" / "folder")
