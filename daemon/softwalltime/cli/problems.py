"""What could not be read in accounting logs and traces."""

from collections.abc import Iterator

from softwalltime.accounting.tally import Tally

SHOWN = 10
"""Number of malformed lines to print."""


def problems(tally: Tally) -> Iterator[str]:
    """Say what could not be read, a line each: files, the first malformed lines, how many more, values left out."""
    for broken in tally.broken:
        yield str(broken)
    for malformed in tally.kept[:SHOWN]:
        yield str(malformed)
    if tally.malformed > SHOWN:
        yield f"... and {tally.malformed - SHOWN:,} more malformed lines"
    if tally.left_out:
        fields = ", ".join(f"{name} ({count:,})" for name, count in tally.left_out.most_common(SHOWN))
        yield f"{tally.left_out.total():,} values of optional fields cannot be read and were left out: {fields}"
    if tally.unfinished:
        yield f"{tally.unfinished} last line without a line end, left alone"
