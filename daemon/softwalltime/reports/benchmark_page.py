"""Render a benchmark as one self-contained HTML page: for each log tables, and a plot of reliability."""

from collections.abc import Sequence

from softwalltime import __version__
from softwalltime.measure.benchmark.entry import LEVELS
from softwalltime.measure.benchmark.figures import BenchmarkRow, HeldRange, distributions
from softwalltime.measure.forecast.judgement import BOUND, COMBINED, WALLTIMES
from softwalltime.reports.benchmark_document import BenchmarkDocument
from softwalltime.reports.page import pages

SIZE = 200
"""Width and height of a plot; the shares from 0 to 1."""


def render_benchmark(document: BenchmarkDocument) -> str:
    names = [row.log for row in document.figures] + [row.log for row in document.schedules]
    names += [starts.source for starts in document.starts]
    return pages().get_template("benchmark.html.j2").render(
        document=document, logs=list(dict.fromkeys(names)), cards={card.name: card for card in document.logs},
        version=__version__, points=_points, size=SIZE, distributions=distributions, by_class=_by_class,
        methods=(COMBINED, WALLTIMES, BOUND),
    )  # fmt: skip


def _by_class(ranged: Sequence[BenchmarkRow]) -> dict[tuple[str, str], list[HeldRange | None]]:
    """Return what the ranges hold, of each row, by kind and name of the class."""
    of_rows = [{(held.kind, held.name): held for held in row.ranges} for row in ranged]
    return {key: [held.get(key) for held in of_rows] for key in dict.fromkeys(key for held in of_rows for key in held)}


def _points(row: BenchmarkRow) -> str:
    """Return the corners of the row's line in the plot."""
    shares = ((0.0, 0.0), *zip(LEVELS, row.reliability, strict=True), (1.0, 1.0))
    return " ".join(f"{SIZE * level:.1f},{SIZE * (1 - share):.1f}" for level, share in shares)
