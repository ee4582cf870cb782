"""Numbers and texts as people read them."""

from datetime import UTC, datetime

MINUTE, HOUR, DAY = 60, 3600, 86400
MISSING = "\N{EN DASH}"
"""Stands where there is no number."""


def duration(seconds: float | None) -> str:
    """A duration to about two digits, in the unit that suits it.

    >>> [duration(seconds) for seconds in (0, 45, 90, 5400, 200_000, -7200)]
    ['0 s', '45 s', '1.5 min', '1.5 h', '2.3 d', '\N{MINUS SIGN}2 h']
    """
    if seconds is None:
        return MISSING
    size = abs(seconds)
    sign = "\N{MINUS SIGN}" if seconds < 0 else ""
    for unit, name in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min")):
        # 23.97 h is a day, to two digits.
        if size >= unit * 0.995:
            return f"{sign}{_digits(size / unit)} {name}"
    return f"{sign}{_digits(size)} s"


def walltime(seconds: int) -> str:
    """A walltime exactly, as ``36 h`` or ``1 h 30 min``; users choose round ones.

    >>> [walltime(seconds) for seconds in (3600, 5400, 86400, 172800, 59, 3661)]
    ['1 h', '1 h 30 min', '24 h', '2 d', '59 s', '1 h 1 min 1 s']
    """
    parts = []
    if seconds >= 2 * DAY:
        parts.append(f"{seconds // DAY} d")
        seconds %= DAY
    for unit, name in ((HOUR, "h"), (MINUTE, "min"), (1, "s")):
        if seconds >= unit:
            parts.append(f"{seconds // unit} {name}")
            seconds %= unit
    return " ".join(parts)


def percent(share: float | None, digits: int = 1) -> str:
    """A share as per cent.

    >>> percent(0.0525)
    '5.2%'
    """
    return MISSING if share is None else f"{share:.{digits}%}"


def exact_percent(share: float) -> str:
    """A share that somebody chose, as they wrote it.

    >>> exact_percent(0.025), exact_percent(0.05)
    ('2.5%', '5%')
    """
    return f"{round(share * 100, 6):g}%"


def number(value: float | None, digits: int = 0) -> str:
    """A number with its thousands set apart.

    >>> number(312826)
    '312,826'
    """
    return MISSING if value is None else f"{value:,.{digits}f}"


def day(epoch: float) -> str:
    """The day of a time in epoch seconds, in UTC.

    >>> day(1_700_000_000)
    '2023-11-14'
    """
    return moment(epoch).date().isoformat()


def moment(epoch: float) -> datetime:
    """A time in epoch seconds as a date in UTC; one beyond the calendar becomes its last or first year."""
    try:
        return datetime.fromtimestamp(epoch, UTC)
    except (OverflowError, ValueError, OSError):
        return datetime(9999 if epoch > 0 else 1, 1, 1, tzinfo=UTC)


def plural(count: int, noun: str) -> str:
    """A count with its noun.

    >>> plural(1, "job"), plural(1200, "job")
    ('1 job', '1,200 jobs')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def printable(text: str, instead: str = "?") -> str:
    """A text without what cannot be seen, moves the cursor, changes colours or turns the text around it.

    :param instead: stands for each such letter.

    >>> printable("a\\x1b[31m\\n")
    'a?[31m?'
    """
    return "".join(letter if letter.isprintable() else instead for letter in text)


def _digits(value: float) -> str:
    return f"{value:.0f}" if value >= 9.95 or abs(value - round(value)) < 0.05 else f"{value:.1f}"
