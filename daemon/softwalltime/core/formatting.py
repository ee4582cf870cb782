"""Format numbers, durations and texts for people."""

from datetime import UTC, datetime

MINUTE, HOUR, DAY = 60, 3600, 86400
MISSING = "\N{EN DASH}"
"""Shown for a missing number."""


def duration(seconds: float | None) -> str:
    """Format a duration with about two digits and a suitable unit.

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


def walltime(seconds: int | None) -> str:
    """Format a walltime exactly, such as ``36 h`` or ``1 h 30 min``.

    >>> [walltime(seconds) for seconds in (3600, 5400, 86400, 172800, 59, 3661, None)]
    ['1 h', '1 h 30 min', '24 h', '2 d', '59 s', '1 h 1 min 1 s', '\N{EN DASH}']
    """
    if not seconds:
        return MISSING
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
    """Format a share as a percentage.

    >>> percent(0.0525)
    '5.2%'
    """
    return MISSING if share is None else f"{share:.{digits}%}"


def exact_percent(share: float) -> str:
    """Format a share as a percentage without rounding.

    >>> exact_percent(0.025), exact_percent(0.05)
    ('2.5%', '5%')
    """
    return f"{round(share * 100, 6):g}%"


def number(value: float | None, digits: int = 0) -> str:
    """Format a number with thousands separators.

    >>> number(312826)
    '312,826'
    """
    return MISSING if value is None else f"{value:,.{digits}f}"


def size(count: float | None) -> str:
    """Format a number of bytes with a suitable unit.

    >>> size(800), size(1500), size(2_000_000_000)
    ('800 bytes', '1.5 kB', '2.0 GB')
    """
    if count is None:
        return MISSING
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" or count >= 10 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def day(epoch: float) -> str:
    """Format the UTC day of an epoch time.

    >>> day(1_700_000_000)
    '2023-11-14'
    """
    return moment(epoch).date().isoformat()


def moment(epoch: float) -> datetime:
    try:
        return datetime.fromtimestamp(epoch, UTC)
    except (OverflowError, ValueError, OSError):
        return datetime(9999 if epoch > 0 else 1, 1, 1, tzinfo=UTC)


def local_time(epoch: int | None, now: int) -> str:
    """Format an instant in the local time zone: the time alone where it is on the day of ``now``.

    >>> local_time(1_700_000_000, 1_700_000_000).count(":")
    1
    """
    if epoch is None:
        return MISSING
    try:
        then, today = (datetime.fromtimestamp(instant).astimezone() for instant in (epoch, now))
    except (OverflowError, ValueError, OSError):
        return MISSING
    if then.date() == today.date():
        return f"{then:%H:%M}"
    return f"{then:%b %d %H:%M}" if abs(epoch - now) < 180 * DAY else f"{then:%Y-%m-%d %H:%M}"


def time_range(ends: tuple[int, int] | None, now: int) -> str:
    """Format begin and end of a range of a coming event as :func:`local_time` does, past ones as ``now``."""
    if ends is None:
        return MISSING
    begin, end = ("now" if moment <= now else local_time(moment, now) for moment in ends)
    return begin if begin == end else f"{begin} to {end}"


def plural(count: int, noun: str) -> str:
    """Format a count with its noun.

    >>> plural(1, "job"), plural(1200, "job")
    ('1 job', '1,200 jobs')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def printable(text: str, instead: str = "?") -> str:
    """Replace characters that are invisible, move the cursor, or change colors or text direction.

    :param instead: the replacement of each such character.

    >>> printable("a\\x1b[31m\\n")
    'a?[31m?'
    """
    return "".join(letter if letter.isprintable() else instead for letter in text)


def csv_cell(text: str) -> str:
    """Return a text for CSV that spreadsheets do not evaluate as a formula, without terminal control characters.

    >>> csv_cell("=1+1"), csv_cell("-5"), csv_cell("a\\x1b[31m"), csv_cell("-")
    ("'=1+1", '-5', 'a\\\\x1b[31m', '-')
    """
    if not text.isprintable():
        text = "".join(letter if letter.isprintable() or letter in "\n\xa0" else _escaped(letter) for letter in text)
    if len(text) > 1 and text[0] in "=+-@\uff1d\uff0b\uff0d\uff20" and not _is_number(text):
        return f"'{text}"
    return text


def _escaped(letter: str) -> str:
    return letter.encode("ascii", "backslashreplace").decode() if letter > "\x7e" else f"\\x{ord(letter):02x}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _digits(value: float) -> str:
    return f"{value:.0f}" if value >= 9.95 or abs(value - round(value)) < 0.05 else f"{value:.1f}"
