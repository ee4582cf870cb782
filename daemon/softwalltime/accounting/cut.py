"""Detect records that a line break inside a value splits into several lines, which may look like other records.

PBS writes a line break in a value (``qsub -A``) into the log unchanged.  The user's text after it may contain complete
records of another user's jobs, and its last line may begin with any text.  The user cannot choose the text that PBS
writes around it.  Before it: the record's stamp and type and an opening quotation mark, because PBS quotes every
account and every other value with a blank, and every stamp has a blank.  After it: the closing quotation mark and the
fields that always follow, among them a time equal to the stamp: ``qtime`` (Q), ``start`` (S) or ``end`` (E, R).

So a record with an unclosed quotation mark is set aside with all lines up to the last line that has this end and this
time.  This includes records of other jobs that follow within seconds and have the same time.

A log alone does not show that a user closed the quotation mark before the line break and opened another record before
the end of the text: each line is then as PBS writes it.  The hook replaces line breaks before PBS accepts the job.
"""

import re
import time
from calendar import timegm
from collections.abc import Generator, Iterator
from dataclasses import replace

from softwalltime.accounting.daily_files import Block, PartialLine, blocks
from softwalltime.accounting.log_file import Contents

SEARCH_BYTES = 1 << 20
"""Bytes to search for the record's end after an unclosed quotation mark."""
TIMELESS_SEARCH_BYTES = 1 << 16
"""Bytes to search for an end without a time: of a record that is cut in a resource, or of an alter."""
REST_OF_RECORD_PAUSE_S = 0.1
"""Seconds to wait for the rest of a record that is being written: PBS writes a record in one call."""
_TAIL = 1 << 16
"""Bytes to search at the end of a line: they contain the part that PBS writes."""
_QUARTER_HOUR_S = 900
"""Seconds by which local time may differ from epoch seconds: any number of quarters of an hour."""
_TOLERANCE = {b"Q": 5, b"S": 60, b"E": 5, b"R": 5, b"a": 0}
"""Seconds by which the time of a record's field may differ from its stamp."""

_MAX_STAMP_GAP_S = 60
"""Maximum seconds between the stamps of a cut record and its end; later lines belong to other jobs."""

_HEAD = re.compile(rb"\d\d/\d\d/\d{4} \d\d:\d\d:\d\d;([QSERa]);[^;\s]+;")
_STAMP = re.compile(rb"(\d\d)/(\d\d)/(\d{4}) (\d\d):(\d\d):(\d\d);.;")
# Nearly all quoted values are closed before one of these fields; only other lines are parsed.
_DOUBTFUL = re.compile(rb"""="(?![^"\n]*" (?:project|accounting_id|jobname|queue)=)""")
_OPENING = re.compile(rb"""[ ;](?:(account)="|[A-Za-z_][\w.\-]*=(["']))""")
_FIELD = rb"(?:[A-Za-z_]\w*\.[\w.\-]+|[A-Za-z_]\w*)="
_AFTER_ACCOUNT = re.compile(rb'"(?= +(?:project|accounting_id|jobname|queue)=)')
_CLOSING = {quote: re.compile(rb"%b(?= +%b| *$)" % (quote, _FIELD)) for quote in (b'"', b"'")}
_NEXT_FIELD = re.compile(rb" " + _FIELD)
_TIMES = re.compile(rb" ctime=\d{1,12} qtime=(\d{1,12}) etime=\d{1,12}(?= |$)")
_ENDED = re.compile(rb" (?:run_count=\d+|resources_used\.\w+=[^\"' ]*) *$")
_START = re.compile(rb" start=(\d{1,12})(?= |$)")
_END = re.compile(rb" end=(\d{1,12})(?= |$)")


def whole_records(
    contents: Contents, offset: int = 0, line: int = 1, unfinished: PartialLine | None = None, *, live: bool = False
) -> Iterator[Block]:
    """Yield an accounting log as :func:`blocks`, with the lines of each cut record in a separate block.

    The result does not depend on the block size.

    :param live: whether the log may be in use by its writer.
    """
    waiting: Block | None = None
    for block in blocks(contents, offset, line, unfinished):
        if waiting is not None and block.piece:
            yield from _settled(waiting, final=True)
            waiting = None
        if block.piece:
            yield block
        else:
            waiting = yield from _settled(block if waiting is None else _joined(waiting, block), final=False)
    if waiting is not None and live:
        time.sleep(REST_OF_RECORD_PAUSE_S)
        more = list(blocks(contents, waiting.offset, waiting.line, unfinished))
        waiting = _joined(*more) if not any(block.piece for block in more) else waiting
    if waiting is not None:
        yield from _settled(waiting, final=True)


def open_value(line: bytes) -> int:
    """Return the position of the quoted value that is not closed in this line; -1 if there is none.

    >>> open_value(b';user=a account="x'), open_value(b';user=a account="x "y" z" jobname=j')
    (8, -1)
    """
    unclosed: set[re.Pattern[bytes]] = set()
    position = 0
    while opening := _OPENING.search(line, position):
        position = opening.end()
        closing = _AFTER_ACCOUNT if opening[1] else _CLOSING[opening[2]]
        closed = None if closing in unclosed else closing.search(line, position)
        if closed is not None:
            position = closed.end()
        # A quotation mark may be part of an unquoted value; then other fields follow it.
        elif opening[1] or not _NEXT_FIELD.search(line, position):
            return opening.start() + 1
        else:
            unclosed.add(closing)
    return -1


def _settled(block: Block, *, final: bool) -> Generator[Block, None, Block | None]:
    """Yield the block in parts, cut records separately; return the rest that needs more data.

    :param final: whether there is no more data.
    """
    while (head := _first_cut(block.content)) is not None:
        begin, head_end = head
        if begin:
            before, block = _divided(block, begin)
            yield before
            head_end -= begin
        if not final and len(block.content) - head_end < SEARCH_BYTES:
            return block
        end = _end_of_cut(block.content, head_end)
        # A record without an end is treated as complete.
        cut, end = end is not None, head_end if end is None else end
        if end >= len(block.content):
            yield replace(block, cut=cut)
            return None
        part, block = _divided(block, end + 1)
        yield replace(part, cut=cut)
    yield block
    return None


def _first_cut(content: bytes) -> tuple[int, int] | None:
    """Return begin and end of the first record that ends inside a quoted value; ``None`` if there is none."""
    # A search for one byte is ten times as fast as a search for two.
    if b'"' not in content and b"'" not in content:
        return None
    position = _doubtful(content, 0)
    while position >= 0:
        begin = content.rfind(b"\n", 0, position) + 1
        end = content.find(b"\n", position)
        end = len(content) if end < 0 else end
        line = content[begin:end]
        if _HEAD.match(line) and open_value(line) >= 0:
            return begin, end
        position = _doubtful(content, end)
    return None


def _doubtful(content: bytes, begin: int) -> int:
    """Return the position of the next value that may be unclosed; -1 if there is none."""
    double, single = _DOUBTFUL.search(content, begin), content.find(b"='", begin) if b"'" in content else -1
    positions = [position for position in (double.start() if double else -1, single) if position >= 0]
    return min(positions, default=-1)


def _end_of_cut(content: bytes, head_end: int) -> int | None:
    """Return the end of the cut record at the start of the content; ``None`` if no line is its end."""
    head = content[:head_end]
    kind, stamp = head[20:21], _stamp(head, 0) or 0
    known = head[: open_value(head)]
    first = last = last_orphan = None
    begin = head_end + 1
    while begin < min(len(content), head_end + SEARCH_BYTES):
        end = content.find(b"\n", begin)
        end = len(content) if end < 0 else end
        times = _times_of_end(content[max(begin, end - _TAIL) : end], known, kind)
        if times is not None:
            first = end if first is None else first
            own, following = _stamp(content, begin), _stamp(content, end + 1)
            orphan = own is None
            # A later stamp, and no earlier one on the next line: the line belongs to another job.
            later = own is not None and own > stamp + _MAX_STAMP_GAP_S and (following is None or following >= own)
            agrees = any((stamp - time + _TOLERANCE[kind]) % _QUARTER_HOUR_S <= 2 * _TOLERANCE[kind] for time in times)
            if agrees and not later:
                last = end
            if orphan and not times and end - head_end < TIMELESS_SEARCH_BYTES:
                last_orphan = end
        begin = end + 1
    return last or last_orphan or first


def _stamp(content: bytes, position: int) -> int | None:
    """Return the stamp of the record at this position, in seconds as if UTC; ``None`` if there is no record."""
    match = _STAMP.match(content, position)
    if match is None:
        return None
    month, day, year, hours, minutes, seconds = map(int, match.groups())
    try:
        return timegm((year, month, day, hours, minutes, seconds))
    except ValueError:
        return None


def _times_of_end(line: bytes, known: bytes, kind: bytes) -> list[int] | None:
    """Return the times in the line if it may be the end of a record of this type; ``None`` if it is not.

    :param known: the record's first line before the unclosed value; PBS writes the other fields after the value.
    """
    queued = [] if kind == b"a" or _TIMES.search(known) else list(_TIMES.finditer(line))
    if not queued and kind != b"a" and not _TIMES.search(known):
        return None
    # PBS closes the quotation mark before these fields.
    begin, closed_by = (queued[-1].start(), queued[-1].start() + 1) if queued else (0, len(line))
    if not any(closing.search(line, 0, closed_by) for closing in _CLOSING.values()):
        return None
    match kind:
        case b"E" | b"R":
            return [int(match[1]) for match in _END.finditer(line, begin)] or None
        # The job's later records have these times too, but end with other fields, which no user can remove.
        case b"S" if not _ENDED.search(line):
            starts = [int(match[1]) for match in _START.finditer(line, begin)]
            return starts if starts or _START.search(known) else None
        case b"Q" | b"a" if not (queued and _START.match(line, queued[-1].end())):
            return [int(match[1]) for match in queued]
    return None


def _divided(block: Block, position: int) -> tuple[Block, Block]:
    """Divide a block before the line that begins at this position in its content."""
    before = replace(block, content=block.content[: position - 1], end=block.offset + position)
    after = replace(block, content=block.content[position:], offset=before.end, line=before.last_line + 1)
    return before, after


def _joined(*parts: Block) -> Block:
    return replace(parts[0], content=b"\n".join(part.content for part in parts), end=parts[-1].end)
