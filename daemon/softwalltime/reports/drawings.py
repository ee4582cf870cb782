"""The figures of the report, each with its caption."""

import io
import logging
import re
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from softwalltime.core.formatting import DAY, day, exact_percent, percent, plural
from softwalltime.reports.groups import BINS, MIN_POINT_JOBS, Walltimes, WeekRate
from softwalltime.reports.recommendation import change
from softwalltime.reports.simulation import SettingWaits, SimulationFigures

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
    """Create a figure in the report's style, ``height`` inches high, with ``columns`` axes side by side."""
    # matplotlib logs about its font cache on standard error.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        # The browser renders the text; this font is only used to measure it.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        FigureCanvasSVG(figure)
        yield Drawing(figure, figure.subplots(1, columns, squeeze=False, sharey=True)[0])


@dataclass(frozen=True, slots=True)
class Drawing:
    figure: Figure
    axes: Any

    @property
    def ax(self) -> Axes:
        axes: Axes = self.axes[0]
        return axes

    def legend(self, columns: int) -> None:
        handles, labels = self.ax.get_legend_handles_labels()
        self.figure.legend(handles, labels, loc="outside upper left", ncols=columns)

    def svg(self, name: str) -> str:
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
    # Removing line breaks saves a tenth of the size.
    body = re.sub(r"\s*\n\s*", " ", body).replace("> <", "><")
    opening = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" role="img"'
    names = f'aria-labelledby="{name}-title {name}-alt"'
    return f'{opening} viewBox="{header.group(1)}" {names}>{body.strip()}'


def format_day_axis(axis: Axis, starts: Collection[int]) -> None:
    """Label an axis in days since 1970 with at most seven of these days, which are given in epoch seconds."""
    shown = sorted(starts)[:: -(-len(starts) // 7) or 1]
    axis.set_ticks([start / DAY for start in shown], labels=[day(start) for start in shown])


def format_percent_axis(axis: Axis) -> None:
    axis.set_major_formatter(PercentFormatter(1, decimals=0))


def wrap_label(label: str, width: int = 20) -> str:
    """Break a predictor's label after colons, commas and pluses."""
    lines = [""]
    for part in re.split(r"(?<=[:,+])", label):
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


_PANELS = (
    ("wait_mean", "mean wait"), ("wait_p95", "95th percentile wait"), ("bsld10_mean", "bounded slowdown"),
)  # fmt: skip


def draw_changes(simulated: SimulationFigures, recommended: SettingWaits | None) -> Picture:
    """Draw the changes of waits against today with their intervals, one row for each setting."""
    settings = simulated.settings
    labels = [wrap_label(waits.setting.name, 24) for waits in settings]
    # A row is as high as its label, so that labels do not overlap.
    heights = [max(2, label.count("\n") + 2) for label in labels]
    places = [sum(heights[:number]) + height / 2 for number, height in enumerate(heights)]
    with drawing(0.8 + 0.145 * sum(heights), columns=3) as picture:
        for ax, (metric, title) in zip(picture.axes, _PANELS, strict=True):
            ax.axvline(0, color=MUTED, linewidth=1)
            for place, waits in zip(places, settings, strict=True):
                relative = waits.changes[metric]
                if relative.mean is None:
                    continue
                keeps = waits.setting.keeps_order
                color = INK if waits is recommended else SERIES[0] if keeps else SERIES[1]
                low = relative.mean if relative.low is None else relative.low
                high = relative.mean if relative.high is None else relative.high
                ax.hlines(place, 100 * low, 100 * high, color=color, linewidth=2)
                marker = MARKERS[0] if keeps else MARKERS[1]
                ax.plot([100 * relative.mean], [place], linestyle="none", marker=marker, markersize=5, color=color)
            ax.set(title=title, xlabel="change, %")
            ax.grid(visible=False, axis="y")
        picture.ax.set(yticks=places, yticklabels=labels)
        picture.ax.set_ylim(sum(heights), 0)
        svg = picture.svg("changes")
    return Picture(
        "changes",
        "Change of waits against today",
        f"Mean over {plural(len(simulated.seeds), 'shaken workload')} (point) and its 95% confidence interval (line); "
        "squares: settings that change the order of the queue.",
        "Left of 0 is shorter. A line that crosses 0 shows no effect that can be told from chance.",
        "D. Tsafrir, K. Ouaknine, D. G. Feitelson: Reducing Performance Evaluation Sensitivity and Variability by "
        "Input Shaking. MASCOTS 2007",
        " ".join(f"{waits.setting.name}: mean wait {change(waits.changes['wait_mean'])}." for waits in settings),
        svg,
    )


def draw_r_distribution(requested: Walltimes) -> Picture:
    hours = "CPU hours" if requested.processors_known else "hours of runtime"
    with drawing(2.9) as picture:
        ax = picture.ax
        left = np.arange(BINS) / BINS
        mean, median = f"mean {percent(requested.mean_r)}", f"median {percent(requested.median_r)}"
        ax.bar(left, requested.r_jobs, 1 / BINS, align="edge", color=SERIES[0], alpha=0.75, label="jobs")
        ax.stairs(requested.r_cpu, np.append(left, 1), color=SERIES[1], linewidth=1.8, label=hours, baseline=None)
        ax.axvline(requested.mean_r, color=INK, linestyle=(0, (4, 2)), linewidth=1.2, label=mean)
        ax.axvline(requested.median_r, color=MUTED, linestyle=(0, (1.5, 1.5)), linewidth=1.4, label=median)
        ax.set(xlim=(0, 1), xlabel="R = runtime / walltime", ylabel="share")
        ax.grid(visible=False, axis="x")
        format_percent_axis(ax.xaxis)
        format_percent_axis(ax.yaxis)
        picture.legend(4)
        svg = picture.svg("r-distribution")
    return Picture(
        "r-distribution",
        "Share of the walltime that jobs use",
        f"Share of jobs (bars) and of {hours} (line) by R, in bins of 5%.",
        "With exact walltimes all jobs would be in the last bin. Jobs far to the left used little of what they "
        "requested. The last bin contains the jobs that reached their walltime, or nearly did.",
        "Tang, Desai, Buettner & Lan 2013, fig. 1",
        f"Histogram of R: half of the jobs use at most {percent(requested.median_r)} of their walltime, "
        f"{percent(requested.small)} less than a tenth of it, {percent(requested.killed)} all of it.",
        svg,
    )


def draw_rates_by_week(
    rates: Mapping[str, Sequence[WeekRate]], recommended: str | None, target: float
) -> Picture | None:
    """Draw the rate of underestimation by week against the target.

    :param rates: by predictor, without the walltimes, which underestimate nothing.
    :returns: ``None`` with fewer than two weeks of enough jobs.
    """
    shown = {spec: weeks for spec, weeks in rates.items() if len(weeks) > 1}
    if not shown:
        return None
    together = next(iter(shown.values()))[0].weeks
    period = "week" if together == 1 else f"{together} weeks"
    limit = f"target: at most {exact_percent(target)}"
    with drawing(3.6) as picture:
        ax = picture.ax
        for number, (spec, weeks) in enumerate(shown.items()):
            color, dash, marker, label = SERIES[number % len(SERIES)], DASHES[number % len(DASHES)], MARKERS[
                number % len(MARKERS)
            ], wrap_label(spec)  # fmt: skip
            if spec == recommended:
                color, dash, marker, label = INK, "-", "*", "recommended"
            x, y = [week.start / DAY for week in weeks], [week.underestimated for week in weeks]
            ax.plot(x, y, color=color, linestyle=dash, marker=marker, markersize=2.5, label=label)
        ax.axhline(target, color=SERIES[2], linewidth=1, linestyle=(0, (4, 2)), label=limit)
        format_day_axis(ax.xaxis, {week.start for weeks in shown.values() for week in weeks})
        ax.set(ylim=(0, None), ylabel="jobs underestimated")
        ax.grid(visible=False, axis="x")
        format_percent_axis(ax.yaxis)
        picture.legend(3)
        svg = picture.svg("rates-by-week")
    above = {spec: sum(week.underestimated > target for week in weeks) / len(weeks) for spec, weeks in shown.items()}
    return Picture(
        "rates-by-week",
        f"Underestimation by {period}",
        f"Share of the jobs that each predictor underestimates, by the {period} in which they were submitted (UTC). "
        f"Points of fewer than {MIN_POINT_JOBS} scored jobs are not shown. The walltime underestimates no job.",
        "A predictor keeps the target while its line stays below the target's. A line that is often above it does not "
        "keep the target, whatever its mean.",
        "",
        "; ".join(f"{spec}: {percent(share, 0)} of the points are above the target" for spec, share in above.items())
        + ".",
        svg,
    )
