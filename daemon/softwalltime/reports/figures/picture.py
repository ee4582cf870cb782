"""Pictures: matplotlib's SVG, converted for embedding in a page with light and dark mode.

Figures are drawn in placeholder colors, which become CSS variables of the page.  Text stays text, in the page's font.
Every id gets the picture's name as prefix, so ids are unique in the page.
"""

import io
import logging
import re
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MultipleLocator, NullLocator, PercentFormatter

from softwalltime.formatting import DAY, HOUR, MINUTE, day, duration

INK, MUTED, GRID, HEAT, ON_COLOR = "#0a0001", "#0a0002", "#0a0003", "#0a0004", "#0a0005"
SERIES = tuple(f"#0b000{number}" for number in range(8))
"""Placeholder colors; the style sheet of the page defines them."""
_VARIABLES = {
    INK: "ink", MUTED: "muted", GRID: "grid", HEAT: "heat", ON_COLOR: "on-color",
    **{color: f"s{number}" for number, color in enumerate(SERIES)},
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
_STAND_IN = re.compile("|".join(_VARIABLES))
_NEEDLESS = re.compile(r' transform="rotate\(-?0 [^"]*\)"')

STEPS = (
    *(count * unit for unit in (1, MINUTE) for count in (1, 2, 5, 10, 15, 30)),
    *(hours * HOUR for hours in (1, 2, 3, 6, 12)), *(days * DAY for days in (1, 2, 5, 10, 20, 50, 100)),
)  # fmt: skip
"""Distances between the ticks of a linear duration axis."""
TIMES = (1, 10, MINUTE, 10 * MINUTE, HOUR, 6 * HOUR, DAY, 7 * DAY, 30 * DAY, 365 * DAY)
"""Ticks of duration axes, in seconds."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure with its caption: content, how to read it, source; or the reason for its absence.

    ``alt`` is the text alternative.
    """

    name: str
    title: str
    shows: str
    read: str
    source: str
    alt: str
    svg: str = ""
    absent: str = ""


@contextmanager
def drawing(height: float, width: float = WIDTH, rows: int = 1, columns: int = 1, **more: Any) -> Iterator["Drawing"]:
    """Create a figure in the report's style; sizes in inches, ``more`` for matplotlib's ``subplots``."""
    # matplotlib logs about its font cache on standard error.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        # The browser draws the text; this font only measures it.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasSVG(figure)
        axes = np.atleast_2d(figure.subplots(rows, columns, squeeze=False, **more))
        yield Drawing(figure, axes)


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure and its axes by row and column."""

    figure: Figure
    axes: Any

    @property
    def ax(self) -> Axes:
        """The first axes."""
        axes: Axes = self.axes[0, 0]
        return axes

    def legend(self, columns: int = 3, source: Axes | None = None) -> None:
        """Add a legend above all axes, for ``source`` or the first axes."""
        handles, labels = (source or self.ax).get_legend_handles_labels()
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
    body = _NEEDLESS.sub("", body)
    body = _STAND_IN.sub(lambda match: f"var(--{_VARIABLES[match.group()]})", body)
    # Line breaks in paths are a tenth of the size.
    body = re.sub(r"\s*\n\s*", " ", body).replace("> <", "><")
    opening = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" role="img"'
    names = f'aria-labelledby="{name}-title {name}-alt"'
    return f'{opening} viewBox="{header.group(1)}" {names}>{body.strip()}'


def annotate_bar(ax: Axes, x: float, y: float, text: str) -> None:
    """Write text right of the end of a bar."""
    # An offset, because SVG drops leading blanks.
    ax.annotate(text, (x, y), (4, 0), textcoords="offset points", va="center", fontsize=8)


def format_time_axis(axis: Axis, low: float, high: float, *, signed: bool = False) -> None:
    """Set the ticks of a logarithmic duration axis from ``low`` to ``high`` seconds, such as 1 min, 10 min, 1 h, 1 d.

    :param signed: for a ``symlog`` axis, with ticks on both sides of 0.
    """
    ticks = [time for time in TIMES if low * 0.95 <= time <= high * 1.05]
    if signed:
        # Minutes would be too close to 0.
        sides = (HOUR, DAY, 30 * DAY) if max(-low, high) > 2 * HOUR else (MINUTE, HOUR)
        ticks = [-time for time in reversed(sides) if time <= -low] + [0] + [time for time in sides if time <= high]
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: duration(value) if value else "0"))


def format_linear_time_axis(axis: Axis, high: float) -> None:
    """Set at most six ticks at round durations on a linear axis from 0 to ``high`` seconds."""
    step = next((step for step in STEPS if high <= 5 * step), high)
    axis.set_major_locator(MultipleLocator(step))
    axis.set_major_formatter(FuncFormatter(lambda value, _: duration(value) if value else "0"))


def format_day_axis(axis: Axis, starts: Collection[int]) -> None:
    """Label an axis in days since 1970 with at most seven of these days, which are given in epoch seconds."""
    shown = sorted(starts)[:: -(-len(starts) // 7) or 1]
    axis.set_ticks([start / DAY for start in shown], labels=[day(start) for start in shown])


def format_percent_axis(axis: Axis, digits: int = 0) -> None:
    """Format the ticks of shares as percentages."""
    axis.set_major_formatter(PercentFormatter(1, decimals=digits))


def make_heat_colormap() -> LinearSegmentedColormap:
    """Return a colormap from transparent to the page's heat color, for any background."""
    color = tuple(int(HEAT[place : place + 2], 16) / 255 for place in (1, 3, 5))
    return LinearSegmentedColormap.from_list("heat", [(*color, 0.06), (*color, 1.0)], 24)


def wrap_label(label: str, width: int = 20) -> str:
    """Break a predictor's label after colons, commas and pluses."""
    lines = [""]
    for part in re.split(r"(?<=[:,+])", label):
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def shorten_label(label: str, width: int = 22) -> str:
    """Cut a name to ``width`` characters."""
    return label if len(label) <= width else label[: width - 1] + "\N{HORIZONTAL ELLIPSIS}"


@dataclass(frozen=True, slots=True)
class Style:
    """Style of one predictor in all figures."""

    label: str
    color: str
    dash: Any
    marker: str


def select_styles(specs: Sequence[str], recommended: str | None) -> dict[str, Style]:
    """Return a style for each predictor: gray for the first, the users' walltime; a special one for the recommended."""
    found = {specs[0]: Style(specs[0], MUTED, "-", "o")}
    for number, spec in enumerate(specs[1:]):
        color, dash, marker = SERIES[number % len(SERIES)], DASHES[number % len(DASHES)], MARKERS[number % len(MARKERS)]
        found[spec] = Style(wrap_label(spec), color, dash, marker)
    if recommended is not None:
        found[recommended] = Style("recommended", INK, "-", "*")
    return found
