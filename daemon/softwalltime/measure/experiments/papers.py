"""What the papers say: their claims, and the titles and published values of their tables; one TOML file for each."""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files

from softwalltime.measure.experiments.result_tables import Cell, ClaimVerdict, Figure, PaperResults, Table
from softwalltime.measure.simulation.differences import Interval


@dataclass(frozen=True, slots=True)
class TableText:
    """Texts of a table; ``rows``: the published figure of a row, by its texts, or by its first value without any.

    ``columns``: published values for columns of their own, by the first value of a row.
    """

    title: str
    published: str = ""
    setting: str = ""
    rows: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def completed(self, table: Table) -> Table:
        """Return the table with its texts, and its published figures in a last column."""
        table = replace(table, title=self.title, published=self.published, setting=self.setting.format(**table.facts))
        if not self.rows:
            return table
        labels = [column.kind == "text" for column in table.columns].index(False)
        names = [" ".join(map(str, row[: labels or 1])).strip() for row in table.rows]
        rows = [(*row, self.rows.get(name, "")) for name, row in zip(names, table.rows, strict=True)]
        return replace(table, texts=(*table.texts, "published"), rows=rows)


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of a paper, which ``figures`` decide: values of its tables, such as ``fig1, share, r=0.5``.

    ``shown`` is their format.  The claim holds if each figure is ``between`` two numbers; or if the first one is at
    least ``ratio`` times the second; or else if it is the least.  Without figures public logs cannot test it; ``shown``
    says why.
    """

    text: str
    published: str
    shown: str
    figures: Sequence[str] = ()
    between: Sequence[tuple[float, float]] = ()
    ratio: float | None = None

    def verdict(self, paper: str, results: Iterable[PaperResults]) -> ClaimVerdict:
        """Decide the claim on each trace that has its figures."""
        ours, held = dict[str, str](), list[str]()
        for result in results if self.figures else ():
            values = [result.value(figure) for figure in self.figures]
            if None not in values and Interval() not in values:
                ours[result.source] = self.shown.format(*map(Figure, values))
                held += [result.source] * self._holds(values)
        some = "not testable" if not ours else "not held" if not held else f"held on {', '.join(held)} only"
        verdict = "held" if ours and len(held) == len(ours) else some
        same = len(ours) > 1 and len(set(ours.values())) == 1
        shown = "; ".join(set(ours.values()) if same else map(": ".join, ours.items()))
        return ClaimVerdict(paper, self.text, verdict, shown if self.figures else self.shown, self.published)

    def _holds(self, values: Sequence[Cell]) -> bool:
        first, *others = (_number(value) for value in values)
        if self.between:
            limits = zip(values, self.between, strict=True)
            return all(low <= _number(value) <= high and _is_shown(value) for value, (low, high) in limits)
        return first < min(others) if self.ratio is None else first >= self.ratio * others[0]


def _number(value: Cell) -> float:
    return float((value.mean or 0.0) if isinstance(value, Interval) else value or 0.0)


def _is_shown(value: Cell) -> bool:
    """Whether a change is beyond chance, as far as it has an interval."""
    return not isinstance(value, Interval) or value.low is None or value.above or value.below


@dataclass(frozen=True, slots=True)
class PaperText:
    """The texts of a paper: its tables by key, its claims, and the differences from its setting."""

    citation: str
    differences: tuple[str, ...]
    tables: Mapping[str, TableText]
    claims: tuple[Claim, ...]


@cache
def paper_text(name: str) -> PaperText:
    """Return the texts of a paper, by the name of its module."""
    text = tomllib.loads(files("softwalltime.measure.experiments").joinpath(f"{name}.toml").read_text("utf-8"))
    tables = {key: TableText(**table) for key, table in text["tables"].items()}
    return PaperText(
        text["citation"], tuple(text["differences"]), tables, tuple(Claim(**one) for one in text["claims"])
    )
