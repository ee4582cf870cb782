"""Messages about records and files that cannot be read or written."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from softwalltime.errors import summary
from softwalltime.formatting import plural

if TYPE_CHECKING:
    from softwalltime.accounting.tally import Tally

SHOWN = 10
"""Number of malformed lines to print."""


def problems(tally: "Tally") -> Iterator[str]:
    """Print what could not be read, line by line: files, the first malformed lines, how many more, omitted values."""
    yield from summary(tally.broken)
    for line in summary(tally.left_out_files):
        yield f"left out: {line}"
    for malformed in tally.kept[:SHOWN]:
        yield str(malformed)
    if tally.malformed > SHOWN:
        yield f"... and {tally.malformed - SHOWN:,} more malformed lines"
    if tally.left_out:
        fields = ", ".join(f"{name} ({count:,})" for name, count in tally.left_out.most_common(SHOWN))
        yield f"{tally.left_out.total():,} values of optional fields cannot be read and were left out: {fields}"
    if tally.repeated:
        yield f"{plural(tally.repeated, 'record')} of runs that other records describe too: each run counts once"
    for path in tally.unfinished[:SHOWN]:
        yield f"{path}: the last line has no line end and was not read: PBS may still be writing it"
    if len(tally.unfinished) > SHOWN:
        yield f"... and the last lines of {len(tally.unfinished) - SHOWN:,} more files"
