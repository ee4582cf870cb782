"""Durations, sizes, numbers and times: PBS's formats are read, all others are rejected."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softwalltime.accounting.attributes import submission_of
from softwalltime.accounting.conversions import MAX_SECONDS, clock, duration, epoch, size, whole


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("00:00:00", 0), ("01:00:30", 3630), ("2777:46:39", 9_999_999), ("30:00", 1800), ("3600", 3600), ("0", 0),
        ("1:00:00:00", 86400), ("00:00:10.75", 10), ("100:00:00", 360000), ("7.5", 7),
    ],
)  # fmt: skip
def test_a_duration_is_read_in_every_form(text: str, seconds: int) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "-1", "-00:10:00", "1h", "::", "1:2:3:4:5", "10:", "1e3", "nan", "1.", "1.x", "9" * 30, "1:-2:3"]
)
def test_a_malformed_duration_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        duration(text)


@given(st.integers(0, MAX_SECONDS))
def test_a_duration_is_written_and_read_back_unchanged(seconds: int) -> None:
    assert duration(clock(seconds)) == seconds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0kb", 0), ("512", 512), ("10b", 10), ("1kb", 2**10), ("400mb", 400 * 2**20), ("1gb", 2**30), ("2tb", 2**41),
        ("1pb", 2**50), ("3w", 24), ("2kw", 2**14), ("100mw", 800 * 2**20), ("1gw", 2**33), ("1GB", 2**30),
        ("1.5mb", 1572864), ("4g", 2**32),
    ],
)  # fmt: skip
def test_a_size_is_read_in_every_unit(text: str, expected: int) -> None:
    assert size(text) == expected


@pytest.mark.parametrize("text", ["", "kb", "-1kb", "1xb", "1kbb", "1 kb", "0x10", "1.kb", ".5gb", "9999999999pb"])
def test_a_malformed_size_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="size"):
        size(text)


@pytest.mark.parametrize("text", ["", "-", "1.0", "+1", "2147483648", "-2147483649", "12345678901", "1_0", "a"])
def test_a_number_beyond_32_bits_or_malformed_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="number"):
        whole(text)


@given(st.integers(-(2**31), 2**31 - 1))
def test_a_whole_number_is_read(number: int) -> None:
    assert whole(str(number)) == number


@pytest.mark.parametrize("text", ["", "-1", "1.5", "9999999999999", "11/20/2026"])
def test_a_malformed_epoch_time_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="time"):
        epoch(text)


@given(st.text(max_size=20))
def test_any_text_is_read_or_rejected(text: str) -> None:
    for convert in (duration, size, whole, epoch):
        with contextlib.suppress(ValueError):
            assert isinstance(convert(text), int)


def test_a_job_of_the_server_with_a_walltime_above_five_years_has_one() -> None:
    resources = {"walltime": "1000000000001", "ncpus": "1"}
    assert submission_of("1.srv", 5, {"euser": "bob"}, resources).walltime == 5 * 365 * 86400
