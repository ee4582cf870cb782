"""Pictures: matplotlib's SVG, converted for embedding in a page with light and dark mode.

Figures are drawn in placeholder colors, which become CSS variables of the page.  Text stays text, in the page's font.
Every id gets the picture's name as prefix, so ids are unique in the page.
"""

import io
import logging
import re
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from softwalltime.formatting import DAY, day

INK, MUTED, GRID = "#0a0001", "#0a0002", "#0a0003"
SERIES = tuple(f"#0b000{number}" for number in range(8))
"""Placeholder colors; the style sheet of the page defines them."""
_VARIABLES = {
    INK: "ink", MUTED: "muted", GRID: "grid", **{color: f"s{number}" for number, color in enumerate(SERIES)},
}  # fmt: skip
DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1)), (0, (6, 1.5, 1.5, 1.5)), (0, (3, 1, 1, 1, 1, 1)))
"""Line styles: lines differ without colors, too."""
MARKERS = "osD^vPX*"

WIDTH = 7.6
"""Width of the page's column, in inches."""

_STYLE: Any = {
    "svg.fonttype": "none", "svg.hashsalt": "softwalltime", "path.simplify": True, "text.parse_math": False,
    "font.size": 9, "font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans"],
    "axes.titlesize": 9.5, "axes.titleweight": "bold", "axes.spines.top": False, "axes.spines.right": False,
    "axes.grid": True, "axes.axisbelow": True, "grid.linewidth": 0.7, "lines.linewidth": 1.7, "patch.linewidth": 0.8,
    "legend.frameon": False, "legend.fontsize": 8.5, "legend.handlelength": 2.4,
    "text.color": INK, "axes.edgecolor": MUTED, "axes.labelcolor": INK, "grid.color": GRID, "xtick.color": MUTED,
    "ytick.color": MUTED, "xtick.labelcolor": INK, "ytick.labelcolor": INK, "axes.facecolor": "none",
    "figure.facecolor": "none", "savefig.facecolor": "none",
}  # fmt: skip

_ID = re.compile(r'\bid="([^"]+)"')
_REFERENCE = re.compile(r'(xlink:href="#|url\(#)([^")]+)')
_FONT = re.compile(r" font-family: [^;\"]*;?")
_HEADER = re.compile(
    r"^.*?<svg [^>]*?viewBox=\"([^\"]*)\"[^>]*>\s*<metadata>.*?</metadata>\s*(?:<defs>.*?</defs>)?", re.DOTALL
)
_PLACEHOLDER = re.compile("|".join(_VARIABLES))
_NO_ROTATION = re.compile(r' transform="rotate\(-?0 [^"]*\)"')


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure and its caption: content, how to read it, source.  ``alt`` is the text alternative."""

    name: str
    title: str
    shows: str
    read: str
    source: str
    alt: str
    svg: str


@contextmanager
def drawing(height: float, columns: int = 1) -> Iterator["Drawing"]:
    """Create a figure in the report's style, ``height`` inches high, with so many axes side by side."""
    # matplotlib logs about its font cache on standard error.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        # The browser draws the text; this font only measures it.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        FigureCanvasSVG(figure)
        yield Drawing(figure, figure.subplots(1, columns, squeeze=False, sharey=True)[0])


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure and its axes, from left to right."""

    figure: Figure
    axes: Any

    @property
    def ax(self) -> Axes:
        """The first axes."""
        axes: Axes = self.axes[0]
        return axes

    def legend(self, columns: int) -> None:
        """Add a legend of the first axes above all axes."""
        handles, labels = self.ax.get_legend_handles_labels()
        self.figure.legend(handles, labels, loc="outside upper left", ncols=columns)

    def svg(self, name: str) -> str:
        """Return the SVG for embedding."""
        stream = io.StringIO()
        self.figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
        return make_embeddable(stream.getvalue(), name)


def make_embeddable(svg: str, name: str) -> str:
    """Convert matplotlib's SVG for a page: unique ids, colors and font of the page."""
    header = _HEADER.match(svg)
    if header is None:
        raise ValueError("not an SVG written by matplotlib")
    body = svg[header.end() :]
    body = _ID.sub(rf'id="{name}-\1"', body)
    body = _REFERENCE.sub(rf"\g<1>{name}-\2", body)
    body = _FONT.sub("", body)
    body = _NO_ROTATION.sub("", body)
    body = _PLACEHOLDER.sub(lambda match: f"var(--{_VARIABLES[match.group()]})", body)
    # Line breaks in paths are a tenth of the size.
    body = re.sub(r"\s*\n\s*", " ", body).replace("> <", "><")
    opening = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" role="img"'
    names = f'aria-labelledby="{name}-title {name}-alt"'
    return f'{opening} viewBox="{header.group(1)}" {names}>{body.strip()}'


def format_day_axis(axis: Axis, starts: Collection[int]) -> None:
    """Label an axis in days since 1970 with at most seven of these days, which are given in epoch seconds."""
    shown = sorted(starts)[:: -(-len(starts) // 7) or 1]
    axis.set_ticks([start / DAY for start in shown], labels=[day(start) for start in shown])


def format_percent_axis(axis: Axis) -> None:
    """Format the ticks of shares as percentages."""
    axis.set_major_formatter(PercentFormatter(1, decimals=0))


def wrap_label(label: str, width: int = 20) -> str:
    """Break a predictor's label after colons, commas and pluses."""
    lines = [""]
    for part in re.split(r"(?<=[:,+])", label):
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)
