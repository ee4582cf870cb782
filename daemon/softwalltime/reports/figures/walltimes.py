"""Figures of the users' walltimes."""

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.ticker import FuncFormatter

from softwalltime.formatting import duration, percent, plural, walltime
from softwalltime.reports.analysis.walltimes import BINS, HeatMap, Walltimes
from softwalltime.reports.figures.picture import (
    INK,
    MUTED,
    SERIES,
    Picture,
    annotate_bar,
    drawing,
    format_percent_axis,
    format_time_axis,
    make_heat_colormap,
)

TANG = "Tang, Desai, Buettner & Lan 2013"
CHLUMSKY = "Chlumský & Klusáček 2022"


def draw_r_distribution(found: Walltimes) -> Picture:
    """Draw the distribution of R."""
    with drawing(2.9) as picture:
        ax = picture.ax
        left = np.arange(BINS) / BINS
        width = 1 / BINS
        ax.bar(left, found.r_jobs, width, align="edge", color=SERIES[0], alpha=0.75, label="jobs", edgecolor="none")
        ax.stairs(found.r_cpu, np.append(left, 1), color=SERIES[1], linewidth=1.8, label=_hours(found), baseline=None)
        ax.axvline(found.mean_r, color=INK, linestyle=(0, (4, 2)), linewidth=1.2, label=f"mean {percent(found.mean_r)}")
        ax.axvline(
            found.median_r, color=MUTED, linestyle=(0, (1.5, 1.5)), linewidth=1.4, label=(
                f"median {percent(found.median_r)}"
            )
        )  # fmt: skip
        ax.set(xlim=(0, 1), xlabel="R = runtime / walltime", ylabel="share")
        ax.grid(visible=False, axis="x")
        format_percent_axis(ax.xaxis)
        format_percent_axis(ax.yaxis)
        picture.legend(4)
        svg = picture.svg("r-distribution")
    return Picture(
        "r-distribution",
        "Share of the walltime that jobs use",
        f"Share of jobs (bars) and of {_hours(found)} (line) by R, in bins of 5%.",
        "With exact walltimes all jobs would be in the last bin. Jobs far to the left used little of what they "
        "requested. The last bin contains the jobs that reached their walltime, or nearly did.",
        f"{TANG}, fig. 1",
        f"Histogram of R: half of the jobs use at most {percent(found.median_r)} of their walltime, "
        f"{percent(found.small)} less than a tenth of it, {percent(found.killed)} all of it.",
        svg,
    )


def _hours(found: Walltimes) -> str:
    return "CPU hours" if found.processors_known else "hours of runtime"


def draw_runtimes_and_walltimes(found: Walltimes) -> Picture:
    """Draw the distributions of runtimes and walltimes."""
    with drawing(2.9) as picture:
        ax = picture.ax
        ax.fill_between(found.grid, found.walltimes, found.runtimes, color=MUTED, alpha=0.13, linewidth=0)
        ax.plot(found.grid, found.runtimes, color=SERIES[0], label="runtime")
        ax.plot(found.grid, found.walltimes, color=SERIES[1], linestyle=(0, (5, 1.5)), label="walltime")
        ax.set_xscale("log")
        ax.set(xlim=(1, found.grid[-1]), ylim=(0, 1.02), xlabel="duration", ylabel="cumulative share of jobs")
        format_time_axis(ax.xaxis, 1, found.grid[-1])
        format_percent_axis(ax.yaxis)
        picture.legend(2)
        svg = picture.svg("runtimes")
    half = [
        duration(float(found.grid[min(int(np.searchsorted(curve, 0.5)), len(curve) - 1)]))
        for curve in (found.runtimes, found.walltimes)
    ]
    return Picture(
        "runtimes",
        "Runtimes and walltimes",
        "Cumulative share of jobs by runtime and by requested walltime.",
        "The shaded area between the lines is the overestimation by users. Steps in the walltimes are popular round "
        "values.",
        f"{CHLUMSKY}, fig. 1",
        f"Two cumulative curves: half of the jobs run at most about {half[0]}, but half request at most about "
        f"{half[1]}.",
        svg,
    )


def draw_r_by_period(found: Walltimes) -> Picture:
    """Draw the mean of R over time."""
    name, title = "r-by-period", f"Mean R by {found.period}"
    shows = f"Mean of R over the jobs submitted in each {found.period} (UTC); shaded: the middle half of the jobs."
    read = "A rising line means that walltimes become more accurate. Below: number of jobs."
    source = f"{TANG}, fig. 2"
    if len(found.periods) < 2:
        return Picture(name, title, shows, read, source, "", absent=f"All jobs belong to one {found.period}.")
    places = np.arange(len(found.periods))
    low, _, high = (np.array([period.quartiles[which] for period in found.periods]) for which in range(3))
    means = [period.mean_r for period in found.periods]
    with drawing(3.2, rows=2, sharex=True, height_ratios=(3, 1)) as picture:
        above, below = picture.axes[:, 0]
        above.fill_between(places, low, high, color=SERIES[0], alpha=0.16, linewidth=0, label="middle half of the jobs")
        above.plot(places, means, color=SERIES[0], marker="o", markersize=4, label="mean R")
        above.set(ylim=(0, 1), ylabel="R")
        format_percent_axis(above.yaxis)
        below.bar(places, [period.jobs for period in found.periods], color=MUTED, alpha=0.55, edgecolor="none")
        below.set_ylabel("jobs")
        below.yaxis.set_major_formatter(FuncFormatter(_thousands))
        step = max(1, -(-len(places) // 12))
        below.set_xticks(places[::step], [period.label for period in found.periods][::step])
        for ax in (above, below):
            ax.grid(visible=False, axis="x")
        picture.legend(2)
        svg = picture.svg(name)
    return Picture(
        name, title, shows, read, source,
        f"From {found.periods[0].label} to {found.periods[-1].label} the mean of R goes from {percent(means[0])} to "
        f"{percent(means[-1])}, lowest {percent(min(means))}, highest {percent(max(means))}.",
        svg,
    )  # fmt: skip


def draw_popular_walltimes(found: Walltimes) -> Picture:
    """Draw the most popular walltimes."""
    names = [walltime(one.walltime) for one in found.popular]
    places = np.arange(len(names))
    with drawing(0.75 + 0.26 * len(names)) as picture:
        ax = picture.ax
        shares = np.array([one.share for one in found.popular])
        used = np.array([one.mean_r for one in found.popular])
        ax.barh(places, shares, 0.72, color=SERIES[1], alpha=0.35, edgecolor="none", label="jobs that request it")
        ax.barh(
            places,
            shares * used,
            0.72,
            color=SERIES[0],
            alpha=0.9,
            edgecolor="none",
            label="used part (times mean R)",
        )
        for place, share, one in zip(places, shares, found.popular, strict=True):
            annotate_bar(ax, share, float(place), f"{share:.1%}, mean R {one.mean_r:.2f}")
        ax.set(yticks=places, yticklabels=names, xlabel="share of jobs", xlim=(0, float(shares.max()) * 1.3))
        ax.invert_yaxis()
        ax.grid(visible=False, axis="y")
        format_percent_axis(ax.xaxis)
        picture.legend(2)
        svg = picture.svg("popular")
    total = float(shares.sum())
    return Picture(
        "popular",
        "Popular walltimes",
        f"The {plural(len(names), 'walltime')} that most jobs request, out of {found.different:,}, and the part that "
        "these jobs use.",
        f"{percent(total, 0)} of the jobs request one of these values. The fewer values there are, the less a walltime "
        "says about a job. The solid part of a bar is the used part.",
        "Tsafrir, Etsion & Feitelson 2005",
        f"Bars: {percent(total)} of the jobs request one of {plural(len(names), 'walltime')}, most often {names[0]}.",
        svg,
    )


def draw_heat_maps(found: Walltimes) -> tuple[Picture, Picture, Picture]:
    """Draw jobs by size and runtime, jobs by size and walltime, and CPU hours by size and runtime."""
    known = found.processors_known
    jobs = f"{CHLUMSKY}, fig. 8"
    return (
        _heat_map(
            found.by_runtime, "heat-runtime", "Jobs by processors and runtime", "runtime", "jobs", jobs, known=known
        ),
        _heat_map(
            found.by_walltime, "heat-walltime", "Jobs by processors and walltime", "walltime", "jobs", jobs, known=known
        ),
        _heat_map(
            found.cpu_hours, "heat-cpu", "CPU hours by processors and runtime", "runtime", "CPU hours",
            f"{CHLUMSKY}, fig. 9", known=known,
        ),
    )  # fmt: skip


def _heat_map(found: HeatMap, name: str, title: str, axis: str, what: str, source: str, *, known: bool) -> Picture:
    rows, columns = found.shares.shape
    top = float(found.shares.max())
    row, column = np.unravel_index(int(found.shares.argmax()), found.shares.shape)
    if not known:
        absent = "Most records hold no number of processors."
        return Picture(name, title, "", "", source, "", absent=absent)
    norm = LogNorm(max(top / 1000, 1e-6), top * 1.0001)
    colors = make_heat_colormap()
    with drawing(1.2 + 0.2 * max(rows, 3)) as picture:
        ax = picture.ax
        shown = np.ma.masked_less(found.shares, norm.vmin or 0)
        ax.pcolormesh(np.arange(columns + 1), np.arange(rows + 1), shown, cmap=colors, norm=norm, linewidth=0)
        ax.set_xticks(
            np.arange(columns), [duration(time) if time else "0" for time in found.times], rotation=45, ha="right",
            rotation_mode="anchor",
        )  # fmt: skip
        ax.set_yticks(np.arange(rows) + 0.5, [f"{cpus:,}" for cpus in found.cpus])
        ax.tick_params(axis="y", length=0)
        ax.set(xlabel=f"{axis}, from", ylabel="processors, from")
        ax.grid(visible=False)
        bar = picture.figure.colorbar(
            ScalarMappable(norm, colors), ax=ax, pad=0.01, aspect=16, label=f"share of {what}"
        )
        bar.outline.set_visible(False)
        bar.ax.yaxis.set_major_formatter(
            FuncFormatter(lambda value, _: f"{value:.3g}" if value < 0 else f"{value * 100:.3g}%")
        )
        bar.ax.minorticks_off()
        svg = picture.svg(name)
    where = f"from {duration(found.times[column])} and from {plural(found.cpus[row], 'processor')}"
    return Picture(
        name,
        title,
        f"Share of {what} by {axis} and processors, on a log scale.",
        {
            "heat-runtime": ("Compare with the next figure, which shows the walltimes."),
            "heat-walltime": "Strongly colored columns are popular walltimes. Fields colored more than in the previous "
            "figure were requested and not used.",
            "heat-cpu": "Jobs in strongly colored fields use most of the machine, even if they are few. Their "
            "predictions matter most for the load.",
        }[name],
        source,
        f"Heat map; the largest share, {percent(top)} of the {what}, has a {axis} {where}.",
        svg,
    )


def _thousands(value: float, _: object) -> str:
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"
