"""The screen of ``softwalltime top``."""

from collections.abc import Sequence

from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from softwalltime.cli.overview import SHARES, guard, milliseconds, problems, promises, span
from softwalltime.cli.terminal import fit
from softwalltime.cli.top_sample import OVERDUE_NAMES, RECENT_NAMES, STARTS_NAMES, Sample
from softwalltime.formatting import printable, size
from softwalltime.service.status import DecisionCount
from softwalltime.text_table import TextColumn, TextTable

_RECENT = tuple(
    TextColumn(
        name, {"reason": 2, "walltime": 1}.get(name, 0), left="walltime" not in name, least=16 * (name == "reason")
    )
    for name in RECENT_NAMES
)
LOW = 45
"""Rows of a screen below which the decisions come first."""
_STYLES = {"late": "yellow", "none": "dim"}
"""Styles of decisions by action."""


class Selection:
    """The selected decision: the newest one, until a key selects another, which then stays selected."""

    def __init__(self) -> None:
        self._row: tuple[str, ...] | None = None

    def index(self, rows: Sequence[tuple[str, ...]]) -> int:
        """Return the selected row's index; 0 where it is no longer shown."""
        return rows.index(self._row) if self._row in rows else 0

    def move(self, key: str, rows: Sequence[tuple[str, ...]]) -> None:
        """Move up, down, or back to the newest decision."""
        if key == "newest" or not rows:
            self._row = None
            return
        self._row = rows[min(max(self.index(rows) + (1 if key == "down" else -1), 0), len(rows) - 1)]


def render(
    now: Sample, before: Sample, selection: Selection | None = None, width: int = 140, height: int = 100
) -> Group:
    """Render a sample of the daemon's status.

    Rates are computed from the difference to the previous sample.  The reason of the selected decision is shown in
    full.

    :param before: the previous sample.
    :param height: rows of the screen; if they are few, the decisions come first.
    """
    status, policy = now.status, now.status.policy
    wrong = list(problems(status))
    settings = {
        name: policy[name] for name in ("mode", "waiting", "running", "ordering") if policy.get(name) is not None
    }
    facts = {"up": span(status.uptime), "preset": policy.get("preset", "custom"), **settings}
    head = _head("softwalltime top", [f"{name} {value}" for name, value in facts.items()], width)
    parts: list[RenderableType] = [head, *(Text(f"! {line}", style="yellow") for line in wrong), Text()]
    tables = [_requests(now, before), _latencies(now, before), _lag(now)]
    tables += [_live_values(now)] if status.live.mode != "off" else []
    # An empty line below each, because those that do not fit beside the others come below them.
    figures = Columns([Padding(table, (0, 0, 1, 0)) for table in tables], padding=(0, 4))
    stored = now.stored
    if (overview := stored.overview) is None:
        parts += [figures, Text(f"jobs and decisions omitted: {stored.problem}", style="yellow")]
        return Group(*parts)
    chosen = selection.index(stored.decisions) if selection is not None else None
    decisions: list[RenderableType] = [_decisions(stored.decisions, chosen, width)]
    if chosen is not None and stored.decisions:
        row = stored.decisions[chosen]
        decisions += [Text(), Text.assemble((f"{printable(row[2])}, {row[1]}: ", "bold"), printable(row[-1]))]
    title = f"jobs: {overview.running:,} running, {overview.waiting:,} waiting, {overview.overdue:,} overdue"
    lists: list[RenderableType] = [_list(title, OVERDUE_NAMES, overview.most_overdue, right=3)]
    if overview.next_starts:
        lists += [Text(), _list("next starts", STARTS_NAMES, overview.next_starts, right=3, left=4)]
    if height < LOW:
        return Group(*parts, *decisions, Text(), figures, *lists)
    return Group(*parts, figures, *lists, Text(), *decisions)


def _head(title: str, facts: Sequence[str], width: int) -> Text:
    """Return the title and the facts, none of them broken into two lines unless it is longer than one."""
    head = Text(title, "bold")
    used = len(title)
    for fact in facts:
        begins = used + 2 + len(fact) > width
        head.append(f"\n{fact}" if begins else f"  {fact}", "not bold")
        used = len(fact) if begins else used + 2 + len(fact)
    return head


def _requests(now: Sample, before: Sample) -> Table:
    """Render decisions by event and action: rate since the last sample, and total."""
    seconds = max(now.at - before.at, 1e-9)
    table = _table("requests", ("event", "action", "per second", "total"), right=2)
    earlier = {_key(decision): decision.count for decision in before.status.decisions}
    for decision in now.status.decisions:
        # After a restart of the daemon the counters begin at 0.
        known = earlier.get(_key(decision), 0)
        since = decision.count - known if decision.count >= known else decision.count
        table.add_row(decision.event, decision.action, f"{since / seconds:,.1f}", f"{decision.count:,}")
    rate = max(0, now.status.requests.get("predict", 0) - before.status.requests.get("predict", 0)) / seconds
    table.add_row("all", "", f"{rate:,.1f}", f"{now.status.requests.get('predict', 0):,}", style="bold")
    return table


def _key(decision: DecisionCount) -> tuple[str, str, str]:
    return decision.event, decision.mode, decision.action


def _latencies(now: Sample, before: Sample) -> Table:
    """Render latency percentiles since the last sample and in total."""
    table = _table("latency", ("", *(f"p{share * 100:g}" for share in SHARES)), right=1)
    for name, times, earlier in (
        ("answer", now.status.answer_times, before.status.answer_times),
        ("round trip", now.status.exchange_times, before.status.exchange_times),
    ):
        for label, histogram in ((f"{name}, now", times.since(earlier)), (name, times)):
            percentiles = [histogram.percentile(share) for share in SHARES]
            table.add_row(label, *("-" if time is None else milliseconds(time) for time in percentiles))
    return table


def _lag(now: Sample) -> Table:
    """Render the lag of reading, learning and recording."""
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


def _live_values(now: Sample) -> Table:
    """Render promised starts and the guard."""
    live = now.status.live
    table = _table("live values", ("", ""), right=99)
    for name, value in (
        ("alters", f"{live.altered:,}"),
        ("promises", promises(live)),
        ("guard", guard(live)),
    ):
        table.add_row(name, value)
    return table


def _list(title: str, names: Sequence[str], rows: Sequence[tuple[str, ...]], right: int, left: int = 99) -> Table:
    table = _table(title, names, right, left)
    for row in rows:
        table.add_row(*map(_text, row))
    if not rows:
        table.add_row("none")
    return table


def _decisions(rows: Sequence[tuple[str, ...]], chosen: int | None, width: int) -> Table:
    """Render the last decisions in this width: the reason is shortened or left out, then the walltime."""
    widths, _ = fit(TextTable.of(_RECENT, [[str(_text(value)) for value in row] for row in rows]), width)
    table = _table("last decisions", (), 0)
    table.show_header = True
    for index, wide in widths.items():
        column = _RECENT[index]
        last = index == len(_RECENT) - 1
        table.add_column(
            column.name, justify="left" if column.left else "right", width=wide, no_wrap=last,
            overflow="ellipsis", header_style="dim", vertical="bottom",
        )  # fmt: skip
    for index, row in enumerate(rows):
        style = "reverse" if index == chosen else _STYLES.get(row[5], "")
        table.add_row(*(_text(row[column]) for column in widths), style=style)
    if not rows:
        table.add_row("none")
    return table


def _text(value: str | None) -> Text:
    """Return a value without markup, because users choose some of them."""
    return Text("-" if value is None else printable(value), no_wrap=True)


def _table(title: str, names: Sequence[str], right: int, left: int = 99) -> Table:
    """Return a table without lines, with columns ``right`` to ``left`` - 1 right-aligned."""
    table = Table(
        title=title, title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0), pad_edge=False,
        show_header=any(names),
    )  # fmt: skip
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
