"""Records that a line break inside a value cuts into several lines, which may look like records of their own.

PBS writes a line break in a value (``qsub -A``) into the log as it is.  What its user writes after it may be a complete
record of another user's job, and he may begin the last line with anything.  He cannot choose what PBS writes around it:
before it, the record's own stamp and type and an open quotation mark, since PBS quotes an account always and any other
value that holds a blank, as every stamp does; after it the closing quotation mark and the fields that always follow,
among them a time equal to that stamp: ``qtime`` (Q), ``start`` (S) or ``end`` (E, R).

So a record with an open quotation mark is set aside with all lines up to the last one that ends as it must and has its
time.  That includes records of other jobs that follow within seconds and have the same.

A log alone does not show that a user closed the quotation mark before the line break and opened another record before
the end of the text: each line is then as PBS writes it.  The hook replaces line breaks before PBS sees them.
"""

import re
import time
from calendar import timegm
from collections.abc import Generator, Iterator
from dataclasses import replace

from softwalltime.accounting.files import Block, Unfinished, blocks
from softwalltime.accounting.opening import Contents

WINDOW = 1 << 20
"""Bytes after an open quotation mark that are searched for the end of the record."""
TIMELESS_WINDOW = 1 << 16
"""The same where the end has no time by which it is known: of a record cut in a resource, or of an alter."""
PAUSE = 0.1
"""Seconds until a record that is being written is written to its end: PBS writes one in one go."""
_TAIL = 1 << 16
"""Bytes at the end of a line that are checked: they contain PBS's own fields."""
_STEP = 900
"""Seconds by which local time may differ from epoch seconds: any number of quarters of an hour."""
_TOLERANCE = {b"Q": 5, b"S": 60, b"E": 5, b"R": 5, b"a": 0}
"""Seconds by which the time of a record's field may differ from its stamp."""

_NEAR = 60
"""Seconds after a stamp in which other records may have the same time; later ones are others'."""

_HEAD = re.compile(rb"\d\d/\d\d/\d{4} \d\d:\d\d:\d\d;([QSERa]);[^;\s]+;")
_STAMP = re.compile(rb"(\d\d)/(\d\d)/(\d{4}) (\d\d):(\d\d):(\d\d);.;")
# Nearly all quoted values are closed like this; the others are looked at closely.
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
    contents: Contents, offset: int = 0, line: int = 1, unfinished: Unfinished | None = None, *, live: bool = False
) -> Iterator[Block]:
    """Yield an accounting log as :func:`blocks`; the lines of a record that was cut come in blocks of their own.

    Which lines those are does not depend on where blocks end.

    :param live: whether the log may be written just now.
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
        time.sleep(PAUSE)
        more = list(blocks(contents, waiting.offset, waiting.line, unfinished))
        waiting = _joined(*more) if not any(block.piece for block in more) else waiting
    if waiting is not None:
        yield from _settled(waiting, final=True)


def open_value(line: bytes) -> int:
    """Return where the value in quotation marks begins that is not closed in this line; -1 if there is none.

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
        # PBS writes a value that only begins with a quotation mark as it is; fields follow then.
        elif opening[1] or not _NEXT_FIELD.search(line, position):
            return opening.start() + 1
        else:
            unclosed.add(closing)
    return -1


def _settled(block: Block, *, final: bool) -> Generator[Block, None, Block | None]:
    """Yield the block in parts, cut records apart; return what cannot be settled before more is read.

    :param final: whether nothing more can be read.
    """
    while (head := _first_cut(block.content)) is not None:
        begin, head_end = head
        if begin:
            before, block = _divided(block, begin)
            yield before
            head_end -= begin
        if not final and len(block.content) - head_end < WINDOW:
            return block
        end = _end_of_cut(block.content, head_end)
        # Without an end it was not cut: it is what it looks like.
        cut, end = end is not None, head_end if end is None else end
        if end >= len(block.content):
            yield replace(block, cut=cut)
            return None
        part, block = _divided(block, end + 1)
        yield replace(part, cut=cut)
    yield block
    return None


def _first_cut(content: bytes) -> tuple[int, int] | None:
    """Return begin and end of the first record that ends inside a value; ``None`` if there is none."""
    # A single byte is found ten times as fast as two.
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
    """Return where the next value is that may be open; -1 if there is none."""
    double, single = _DOUBTFUL.search(content, begin), content.find(b"='", begin) if b"'" in content else -1
    places = [place for place in (double.start() if double else -1, single) if place >= 0]
    return min(places, default=-1)


def _end_of_cut(content: bytes, head_end: int) -> int | None:
    """Return where the last line ends of the record that begins the content; ``None`` if no line is its end."""
    head = content[:head_end]
    kind, stamp = head[20:21], _stamp(head, 0) or 0
    known = head[: open_value(head)]
    first = last = last_orphan = None
    begin = head_end + 1
    while begin < min(len(content), head_end + WINDOW):
        end = content.find(b"\n", begin)
        end = len(content) if end < 0 else end
        times = _times_of_end(content[max(begin, end - _TAIL) : end], known, kind)
        if times is not None:
            first = end if first is None else first
            own, following = _stamp(content, begin), _stamp(content, end + 1)
            orphan = own is None
            # A later record, and those after it are later still: it is another one's.
            later = own is not None and own > stamp + _NEAR and (following is None or following >= own)
            agrees = any((stamp - each + _TOLERANCE[kind]) % _STEP <= 2 * _TOLERANCE[kind] for each in times)
            if agrees and not later:
                last = end
            if orphan and not times and end - head_end < TIMELESS_WINDOW:
                last_orphan = end
        begin = end + 1
    return last or last_orphan or first


def _stamp(content: bytes, place: int) -> int | None:
    """Return the stamp of the record that begins at this place, in seconds as if UTC; ``None`` if none begins there."""
    match = _STAMP.match(content, place)
    if match is None:
        return None
    month, day, year, hours, minutes, seconds = map(int, match.groups())
    try:
        return timegm((year, month, day, hours, minutes, seconds))
    except ValueError:
        return None


def _times_of_end(line: bytes, known: bytes, kind: bytes) -> list[int] | None:
    """Return the times by which the line may be the end of a record of this type; ``None`` if it is no such end.

    :param known: what comes before the open value in the record's first line; PBS writes the other fields after it.
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
            return [int(found[1]) for found in _END.finditer(line, begin)] or None
        # The same job's later records have these times too, and other ends, which no user's text can take the place of.
        case b"S" if not _ENDED.search(line):
            starts = [int(found[1]) for found in _START.finditer(line, begin)]
            return starts if starts or _START.search(known) else None
        case b"Q" | b"a" if not (queued and _START.match(line, queued[-1].end())):
            return [int(found[1]) for found in queued]
    return None


def _divided(block: Block, place: int) -> tuple[Block, Block]:
    """Divide a block before the line that begins at this place in its content."""
    before = replace(block, content=block.content[: place - 1], end=block.offset + place)
    after = replace(block, content=block.content[place:], offset=before.end, line=before.last_line + 1)
    return before, after


def _joined(*parts: Block) -> Block:
    """Join blocks that follow each other."""
    return replace(parts[0], content=b"\n".join(part.content for part in parts), end=parts[-1].end)
