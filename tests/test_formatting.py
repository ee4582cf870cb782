"""Numbers and texts as people read them."""

import pytest

from softwalltime.core import formatting

DASH = "\N{EN DASH}"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, DASH), (0, "0 s"), (0.25, "0.2 s"), (45, "45 s"), (59.9, "1 min"), (60, "1 min"), (90, "1.5 min"),
        (3599, "1 h"), (5400, "1.5 h"), (86400, "1 d"), (200_000, "2.3 d"), (-7200, "\N{MINUS SIGN}2 h"),
        (86400 * 365, "365 d"),
    ],
)  # fmt: skip
def test_a_duration_has_two_digits_and_a_suitable_unit(seconds: float | None, text: str) -> None:
    assert formatting.duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(3600, "1 h"), (5400, "1 h 30 min"), (86400, "24 h"), (172_860, "2 d 1 min"), (5, "5 s")]
)
def test_a_walltime_is_exact(seconds: int, text: str) -> None:
    assert formatting.walltime(seconds) == text


def test_shares_that_are_missing_are_dashes() -> None:
    assert formatting.percent(None) == DASH
    assert formatting.number(None) == DASH
    assert formatting.percent(0.0525) == "5.2%"
    assert formatting.exact_percent(0.025) == "2.5%"


def test_times_beyond_the_calendar_are_clamped() -> None:
    assert formatting.day(1_700_000_000) == "2023-11-14"
    assert formatting.day(10**18) == "9999-01-01"
    assert formatting.day(-(10**18)) == "0001-01-01"


def test_control_characters_and_text_direction_are_replaced() -> None:
    assert formatting.printable("a\x1b[31m\n\u202e") == "a?[31m??"
    assert formatting.printable("a\nb", "\N{REPLACEMENT CHARACTER}") == "a\N{REPLACEMENT CHARACTER}b"


def test_what_is_past_of_a_range_is_now() -> None:
    now = 1_800_000_000
    later = formatting.local_time(now + 3600, now)
    ranges = [(now - 60, now + 3600), (now - 60, now), (now + 3600, now + 3600)]
    assert [formatting.time_range(ends, now) for ends in ranges] == [f"now to {later}", "now", later]
