"""``softwalltime top``: the daemon's status, live."""

import os
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

from softwalltime.cli.daemon import ask_status
from softwalltime.cli.options import LazySettings, store_options
from softwalltime.errors import SoftwalltimeError
from softwalltime.formatting import printable
from softwalltime.service.client import NoAnswerError

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.table import Table
    from sqlalchemy import Engine

    from softwalltime.service.status import DecisionCount, Status
    from softwalltime.store.current import Overview

SHOWN = 10
"""Rows of each list."""
PIPED = 140
"""Least width of a line, if standard output is not a terminal."""
RETRY = 5.0
"""Seconds between attempts to open an unreachable store."""

_OVERDUE_NAMES = ("job", "user", "queue", "soft walltime", "overdue by", "killed in")
_RECENT_NAMES = ("time", "event", "job", "user", "action", "soft walltime", "walltime", "reason")


@dataclass(frozen=True, slots=True)
class StoreSnapshot:
    """The store's overview, or the reason why it cannot be read."""

    overview: "Overview | None"
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Sample:
    """Status and store at one time (monotonic seconds)."""

    at: float
    status: "Status"
    stored: StoreSnapshot


@click.command()
@click.option("--socket", type=click.Path(dir_okay=False, path_type=Path), help="Socket of the daemon.")
@click.option(
    "--interval", type=click.FloatRange(0.2, 60), default=1.0, show_default=True, help="Seconds between updates."
)
@click.option("--once", is_flag=True, help="Print one snapshot and exit.")
@store_options
def top(socket: Path | None, interval: float, once: bool, settings: LazySettings) -> None:
    """Show the daemon's status and decisions live.

    It shows requests, latencies, lag, overdue jobs and the last decisions.  Quit with q or Ctrl-C.  Jobs and
    decisions come from the database; without database access they are omitted.

    \b
    Example:
      softwalltime top
    """
    from rich.console import Console

    from softwalltime.store.opening import open_engine

    loaded = settings(socket=socket)
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, PIPED)
    if not once and not console.is_terminal:
        raise click.UsageError("standard output is not a terminal: use --once")
    store = _Store(lambda: open_engine(loaded))
    try:
        before = _take_sample(loaded.socket, store)
        if once:
            time.sleep(interval)
            console.print(render(_take_sample(loaded.socket, store), before))
            return
        _live(console, before, interval, lambda: _take_sample(loaded.socket, store))
    except KeyboardInterrupt:
        return
    finally:
        store.close()


def _live(console: Any, before: Sample, interval: float, sample: Callable[[], Sample]) -> None:
    from rich.live import Live
    from rich.text import Text

    with _keys() as pressed, Live(Text("reading status ..."), console=console, screen=True, auto_refresh=False) as live:
        while not pressed(interval):
            try:
                now = sample()
            except NoAnswerError as error:
                live.update(Text(f"{error}\n\ntrying again; q to quit", style="red"), refresh=True)
                continue
            live.update(render(now, before), refresh=True)
            before = now


@contextmanager
def _keys() -> Iterator[Callable[[float], bool]]:
    """Return a function that waits and returns whether q was pressed meanwhile."""
    if not sys.stdin.isatty():
        never = Event()
        yield never.wait
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)

    def pressed(seconds: float) -> bool:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if select.select([descriptor], [], [], left)[0]:
                # Read past Python's buffer: select() does not see buffered keys.
                keys = os.read(descriptor, 64)
                if not keys or set(keys) & set(b"qQ"):
                    return True
        return False

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


def render(now: Sample, before: Sample) -> "Group":
    """Render a sample, with rates since the sample before."""
    from rich.columns import Columns
    from rich.console import Group
    from rich.text import Text

    from softwalltime.cli.overview import problems, span

    status, policy = now.status, now.status.policy
    wrong = list(problems(status))
    head = Text.assemble(
        ("softwalltime top", "bold"),
        f"  up {span(status.uptime)}  preset {policy.get('preset', 'custom')}  mode {policy['mode']}  "
        f"waiting {policy['waiting']}  running {policy['running']}"
        + (f"  ordering {ordering}" if (ordering := policy.get("ordering")) is not None else ""),
    )
    parts: list[RenderableType] = [head, *(Text(f"! {line}", style="yellow") for line in wrong), Text()]
    parts.append(Columns([_requests(now, before), _latencies(now, before), _lag(now)], padding=(0, 4)))
    stored = now.stored
    if (overview := stored.overview) is None:
        parts += [Text(), Text(f"jobs and decisions omitted: {stored.problem}", style="yellow")]
        return Group(*parts)
    title = f"jobs: {overview.running:,} running, {overview.waiting:,} waiting, {overview.overdue:,} overdue"
    parts += [Text(), _list(title, _OVERDUE_NAMES, overview.most_overdue, right=3)]
    parts += [Text(), _list("last decisions", _RECENT_NAMES, overview.last_decisions, right=5, left=7)]
    return Group(*parts)


def _requests(now: Sample, before: Sample) -> "Table":
    """Render decisions by event and action: rate since the last sample, and total."""
    seconds = max(now.at - before.at, 1e-9)
    table = _table("requests", ("event", "action", "per second", "total"), right=2)
    earlier = {_key(each): each.count for each in before.status.decisions}
    for each in now.status.decisions:
        # After a restart of the daemon the counters begin at 0.
        known = earlier.get(_key(each), 0)
        since = each.count - known if each.count >= known else each.count
        table.add_row(each.event, each.action, f"{since / seconds:,.1f}", f"{each.count:,}")
    rate = max(0, now.status.requests.get("predict", 0) - before.status.requests.get("predict", 0)) / seconds
    table.add_row("all", "", f"{rate:,.1f}", f"{now.status.requests.get('predict', 0):,}", style="bold")
    return table


def _key(decision: "DecisionCount") -> tuple[str, str, str]:
    return decision.event, decision.mode, decision.action


def _latencies(now: Sample, before: Sample) -> "Table":
    """Render latency percentiles since the last sample and in total."""
    from softwalltime.cli.overview import SHARES, milliseconds

    table = _table("latency", ("", *(f"p{share * 100:g}" for share in SHARES)), right=1)
    for name, times, earlier in (
        ("answer", now.status.answer_times, before.status.answer_times),
        ("round trip", now.status.exchange_times, before.status.exchange_times),
    ):
        for label, histogram in ((f"{name}, now", times.since(earlier)), (name, times)):
            found = [histogram.percentile(share) for share in SHARES]
            table.add_row(label, *("-" if time is None else milliseconds(time) for time in found))
    return table


def _lag(now: Sample) -> "Table":
    """Render the lag of reading, learning and recording."""
    from softwalltime.cli.overview import size, span

    status = now.status
    table = _table("log and store", ("", ""), right=1)
    for name, value in (
        ("behind", f"{size(status.behind_bytes)}, {span(status.behind_seconds)}"),
        ("jobs stored", f"{status.stored:,}"),
        ("jobs learned", f"{status.learnt:,}"),
        ("malformed lines", f"{status.malformed:,}"),
        ("decisions to store", f"{status.to_record:,}"),
        ("hook timeouts", f"{status.timeouts:,}"),
    ):
        table.add_row(name, value)
    return table


def _list(title: str, names: tuple[str, ...], rows: tuple[tuple[str, ...], ...], right: int, left: int = 99) -> "Table":
    from rich.text import Text

    table = _table(title, names, right, left)
    for row in rows:
        # No markup: users choose some of these texts.
        table.add_row(*(Text("-" if value is None else printable(value), no_wrap=True) for value in row))
    if not rows:
        table.add_row("none")
    return table


def _table(title: str, names: tuple[str, ...], right: int, left: int = 99) -> "Table":
    """Return a table without lines, with columns ``right`` to ``left`` - 1 right-aligned."""
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for number, name in enumerate(names):
        table.add_column(
            name,
            justify="right" if right <= number < left else "left",
            # The last column is cut first.
            no_wrap=number < len(names) - 1,
            overflow="ellipsis",
            header_style="dim",
        )
    return table
