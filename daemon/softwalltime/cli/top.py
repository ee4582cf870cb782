"""``softwalltime top``: the daemon's status, live."""

import os
import re
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import click

from softwalltime.cli.command import Result, command
from softwalltime.cli.daemon import ask_status
from softwalltime.cli.options import StoreOptions
from softwalltime.cli.output import Output
from softwalltime.cli.parameters import option, options
from softwalltime.cli.top_sample import OVERDUE_NAMES, RECENT_NAMES, STARTS_NAMES, Sample, StoreSnapshot
from softwalltime.errors import SoftwalltimeError
from softwalltime.service.protocol import NoAnswerError

if TYPE_CHECKING:
    from rich.console import Console
    from sqlalchemy import Engine


SHOWN = 10
"""Rows of each list."""
PIPED = 140
"""Least width of a line, if standard output is not a terminal."""
RETRY = 5.0
"""Seconds between attempts to open an unreachable store."""

KEYS = {b"q": "quit", b"Q": "quit", b"j": "down", b"\x1b[B": "down", b"k": "up", b"\x1b[A": "up", b"\x1b": "newest"}
"""What keys do; the arrow keys as terminals send them."""
_KEY = re.compile(rb"\x1b\[[0-9;]*[@-~]|.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class TopDocument:
    """Status of the daemon and its store at one time."""

    status: dict[str, Any]
    """As softwalltime status prints it."""
    running: int | None
    """Number of running jobs; null: the store cannot be read."""
    waiting: int | None
    """Number of waiting jobs."""
    overdue: int | None
    """Number of jobs that run beyond their soft walltime."""
    most_overdue: tuple[dict[str, str], ...]
    """The jobs that are furthest beyond their soft walltimes."""
    last_decisions: tuple[dict[str, str], ...]
    """The newest decisions, the newest first."""
    next_starts: tuple[dict[str, str], ...]
    """The jobs that are expected to start next; none where the daemon forecasts no starts."""
    problem: str
    """Why the store cannot be read; empty: it can."""


@options
class TopOptions:
    socket: Path | None = option("Socket of the daemon.")
    interval: float = option("Seconds between updates.", type=click.FloatRange(0.2, 60), default=1.0)
    once: bool = option("Print one snapshot and exit.")
    output: Output
    settings: StoreOptions


@command({"--once": "a decision, the newest first"}, columns=RECENT_NAMES)
def top(options: TopOptions) -> Result[TopDocument] | None:
    """Show the daemon's status and decisions live.

    It shows requests, latencies, lag, overdue jobs, expected starts and the last decisions.  The arrow keys, or j and
    k, select a decision, whose reason is shown in full; Esc selects the newest one again.  Quit with q or Ctrl-C.  Jobs
    and decisions come from the database; without database access they are omitted.

    \b
    Example:
      softwalltime top --once --config softwalltime.toml
      softwalltime top
    """
    from softwalltime.store.opening import open_engine

    output, once, interval = options.output, options.once, options.interval
    loaded = options.settings(socket=options.socket)
    if output.form != "table" and not once:
        raise click.UsageError(f"--format {output.form} prints one snapshot: add --once")
    if not once and not sys.stdout.isatty():
        raise click.UsageError("standard output is not a terminal: use --once")
    # Before the daemon is asked: rich may be missing.
    console = _console(output) if output.form == "table" else None
    store = _Store(lambda: open_engine(loaded))
    try:
        before = _take_sample(loaded.socket, store)
        if console is None:
            document = _document(before)
            return Result(document, rows=document.last_decisions)
        if once:
            from softwalltime.cli.top_screen import render

            time.sleep(interval)
            console.print(render(_take_sample(loaded.socket, store), before, width=console.width))
        else:
            _live(console, before, interval, lambda: _take_sample(loaded.socket, store))
    except KeyboardInterrupt:
        pass
    finally:
        store.close()
    return None


def _console(output: Output) -> "Console":
    from rich.console import Console

    color = None if output.color else True
    console = Console(highlight=False, no_color=color, force_terminal=output.terminal or None)
    if not console.is_terminal or output.wide:
        console.width = max(console.width, PIPED)
    return console


def _live(console: "Console", before: Sample, interval: float, sample: Callable[[], Sample]) -> None:
    from rich.live import Live
    from rich.text import Text

    from softwalltime.cli.top_screen import Selection, render

    selection = Selection()
    with _keys() as pressed, Live(Text("reading status ..."), console=console, screen=True, auto_refresh=False) as live:
        shown: tuple[Sample, Sample] | None = None
        while (key := pressed(interval)) != "quit":
            if key and shown is not None:
                selection.move(key, shown[0].stored.decisions)
                live.update(render(*shown, selection, console.width, console.height), refresh=True)
                continue
            try:
                now = sample()
            except NoAnswerError as error:
                shown = None
                live.update(Text(f"{error}\n\ntrying again; q to quit", style="red"), refresh=True)
                continue
            shown = now, before
            live.update(render(now, before, selection, console.width, console.height), refresh=True)
            before = now


def _document(sample: Sample) -> TopDocument:
    overview = sample.stored.overview
    late = () if overview is None else overview.most_overdue
    upcoming = () if overview is None else overview.next_starts
    return TopDocument(
        status=sample.status.to_json(),
        running=None if overview is None else overview.running,
        waiting=None if overview is None else overview.waiting,
        overdue=None if overview is None else overview.overdue,
        most_overdue=tuple(dict(zip(OVERDUE_NAMES, row, strict=True)) for row in late),
        last_decisions=tuple(dict(zip(RECENT_NAMES, row, strict=True)) for row in sample.stored.decisions),
        next_starts=tuple(dict(zip(STARTS_NAMES, row, strict=True)) for row in upcoming),
        problem=sample.stored.problem,
    )


@contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """Return a function that waits and returns what a pressed key does; empty if none was pressed."""
    if not sys.stdin.isatty():
        never = Event()
        yield lambda seconds: "quit" if never.wait(seconds) else ""
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    waiting: list[str] = []

    def pressed(seconds: float) -> str:
        until = time.monotonic() + seconds
        if waiting:
            return waiting.pop(0)
        while (left := until - time.monotonic()) > 0:
            if select.select([descriptor], [], [], left)[0]:
                # Read past Python's buffer: select() does not see buffered keys.
                keys = os.read(descriptor, 64)
                if not keys or set(keys) & set(b"qQ"):
                    return "quit"
                # Several keys may arrive at once, from a key held down or a slow line.
                waiting.extend(KEYS[key] for key in _KEY.findall(keys) if key in KEYS)
                if waiting:
                    return waiting.pop(0)
        return ""

    try:
        # No line buffering and no echo; Ctrl-C still works.
        tty.setcbreak(descriptor)
        yield pressed
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


class _Store:
    """The store, opened at the first use and again some time after an error."""

    def __init__(self, open_engine: Callable[[], Any]) -> None:
        self._open = open_engine
        self._opened: Any = None
        self._engine: Engine | None = None
        self._problem = ""
        self._next_try = 0.0

    def read(self) -> StoreSnapshot:
        """Read the figures, or return the error."""
        from softwalltime.store.current import read_overview

        if self._engine is None and time.monotonic() < self._next_try:
            return StoreSnapshot(None, self._problem)
        try:
            if self._engine is None:
                self._opened = self._open()
                self._engine = self._opened.__enter__()
            with self._engine.connect() as connection:
                return StoreSnapshot(read_overview(connection, SHOWN))
        except SoftwalltimeError as error:
            self.close()
            self._problem, self._next_try = str(error), time.monotonic() + RETRY
            return StoreSnapshot(None, self._problem)

    def close(self) -> None:
        """Close the connections."""
        opened, self._opened, self._engine = self._opened, None, None
        if opened is not None:
            with suppress(SoftwalltimeError):
                opened.__exit__(None, None, None)


def _take_sample(socket: Path, store: _Store) -> Sample:
    return Sample(time.monotonic(), ask_status(socket), store.read())
