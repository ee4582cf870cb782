"""Convert durations, sizes, numbers and times as PBS writes them."""

from functools import lru_cache

from softwalltime.core.jobs import MAX_WALLTIME

MAX_SECONDS = 10**12 - 1
"""Maximum seconds of a duration or epoch time: 31,000 years."""

_UNITS = {
    "": 1,
    "b": 1,
    "w": 8,
    **{prefix + unit: factor * size
       for prefix, factor in zip("kmgtp", (2**10, 2**20, 2**30, 2**40, 2**50), strict=True)
       for unit, size in (("b", 1), ("w", 8), ("", 1))},
}  # fmt: skip


# Cached: a log has few different durations in millions of records.
@lru_cache(maxsize=1 << 16)
def duration(text: str) -> int:
    """Return the seconds of ``HH:MM:SS``, ``MM:SS``, plain seconds or ``D:HH:MM:SS``; fractions are dropped.

    >>> duration("01:00:30"), duration("30:00"), duration("3600"), duration("1:00:00:00"), duration("00:00:10.75")
    (3630, 1800, 3600, 86400, 10)

    :raises ValueError: if it is none of these, negative, or beyond belief.
    """
    total = _seconds(text)
    if total > MAX_SECONDS:
        raise ValueError("duration out of range")
    return total


@lru_cache(maxsize=1 << 16)
def walltime(text: str) -> int:
    """Return the seconds of a requested walltime, which :func:`duration` could read, at most ``MAX_WALLTIME``.

    >>> walltime("36:00:00"), walltime("277777777:46:41") == MAX_WALLTIME
    (129600, True)

    :raises ValueError: if it is not a duration, or negative.
    """
    return min(_seconds(text), MAX_WALLTIME)


def _seconds(text: str) -> int:
    whole, point, fraction = text.partition(".")
    parts = whole.split(":")
    if len(parts) > 4 or len(text) > 40 or not all(map(str.isdecimal, parts)) or (point and not fraction.isdecimal()):
        raise ValueError("not a duration")
    return sum(int(part) * unit for part, unit in zip(reversed(parts), (1, 60, 3600, 86400), strict=False))


def size(text: str) -> int:
    """Return the bytes of a PBS size: ``4gb``, ``1048576kb``, ``100mw`` (words of 8 bytes) or a bare number of bytes.

    >>> size("1gb"), size("2kw"), size("512"), size("1.5mb")
    (1073741824, 16384, 512, 1572864)

    :raises ValueError: if it is none of these, negative, or beyond belief.
    """
    number = text.rstrip("bBwWkKmMgGtTpP")
    unit = _UNITS.get(text[len(number) :].lower())
    if unit is None or len(number) > 40:
        raise ValueError("not a size")
    if number.isdecimal():
        total = int(number) * unit
    else:
        whole, _, fraction = number.partition(".")
        if not (whole.isdecimal() and fraction.isdecimal()):
            raise ValueError("not a size")
        total = int(float(number) * unit)
    if total >= 2**63:
        raise ValueError("size out of range")
    return total


def whole(text: str) -> int:
    """Return a whole number that fits into 32 bits with its sign.

    :raises ValueError: if it is not one.
    """
    if len(text) < 10 and text.isdecimal():
        return int(text)
    digits = text[1:] if text[:1] == "-" else text
    if not digits.isdecimal() or len(digits) > 10 or not -(2**31) <= int(text) < 2**31:
        raise ValueError("not a whole number")
    return int(text)


def epoch(text: str) -> int:
    """Return a time in epoch seconds.

    :raises ValueError: if it is not one.
    """
    if text.isdecimal() and len(text) <= 12:
        return int(text)
    raise ValueError("not a time in epoch seconds")


def clock(seconds: int) -> str:
    """Return ``HH:MM:SS`` as PBS writes it, without a limit of the hours.

    >>> clock(90061)
    '25:01:01'
    """
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{seconds:02}"
