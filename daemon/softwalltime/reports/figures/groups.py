"""Figures by user, project and queue."""

from collections.abc import Sequence

import numpy as np
from matplotlib.ticker import FuncFormatter, NullLocator

from softwalltime.formatting import duration, percent, plural
from softwalltime.reports.analysis.groups import LEAST_JOBS, Group, Shares
from softwalltime.reports.figures.picture import MUTED, SERIES, Picture, drawing, format_time_axis, shorten_label
from softwalltime.reports.figures.walltimes import CHLUMSKY

SHOWN = 800
"""Greatest number of users in the figure, evenly sampled."""
LARGEST = 15
"""Greatest number of projects and queues in a figure."""


SAME = 0.005
"""Difference of mean accuracies that no reader sees in a figure."""


def draw_users(found: Sequence[Group], shares: Shares, spec: str) -> Picture:
    """Draw mean absolute errors by user, sorted, with the numbers of jobs."""
    name, title = "users", "Errors of walltimes and predictions by user"
    enough = [user for user in found if user.jobs >= LEAST_JOBS]
    ordered = sorted(enough, key=lambda user: (user.walltime_error, user.name))
    chosen = np.unique(np.linspace(0, len(ordered) - 1, min(SHOWN, len(ordered))).round().astype(int))
    drawn = [ordered[place] for place in chosen.tolist()]
    shows = (
        f"Mean absolute error of the walltime (line) and of {spec} (points) for each user "
        f"with at least {LEAST_JOBS} jobs, sorted by the former. "
        "Below: number of jobs."
        + (f" {len(drawn):,} of {len(enough):,} users are shown, evenly sampled." if len(drawn) < len(enough) else "")
    )
    read = (
        "A point below the line is a user whose predictions are closer to the runtimes than the walltimes; a triangle "
        "is a user whose walltimes are closer by at least 1 min. Gray points are users who do not improve, because "
        "the error hardly changes, the mean accuracy does not rise, or more than "
        f"{percent(shares.most_underestimated)} of their jobs are underestimated."
    )
    source = f"{CHLUMSKY}, fig. 6"
    if len(found) < 2:
        return Picture(name, title, shows, read, source, "", absent="All jobs belong to one user: see the table.")
    if len(enough) < 2:
        absent = f"Fewer than two users have at least {LEAST_JOBS} jobs."
        return Picture(name, title, shows, read, source, "", absent=absent)
    places = np.arange(len(drawn)) + 1
    walltime = np.maximum([user.walltime_error for user in drawn], 1)
    error = np.maximum([user.error for user in drawn], 1)
    better = np.array([user.improves(shares.most_underestimated) for user in drawn])
    worse = np.array([user.deteriorates for user in drawn])
    with drawing(4.2, rows=2, sharex=True, height_ratios=(3.2, 1)) as picture:
        above, below = picture.axes[:, 0]
        above.plot(places, walltime, color=MUTED, linewidth=1.8, label="walltime", drawstyle="steps-mid")
        size = 3.4 if len(drawn) > 150 else 5
        for which, color, marker, label in (
            (~better & ~worse, MUTED, "o", "prediction, neither"),
            (better, SERIES[0], "o", "prediction, improved"),
            (worse, SERIES[1], "^", "prediction, deteriorated"),
        ):
            above.plot(
                places[which], error[which], linestyle="none", marker=marker, markersize=size, color=color, alpha=0.75,
                markeredgewidth=0, label=label,
            )  # fmt: skip
        above.set_yscale("log")
        low, high = float(min(walltime.min(), error.min())), float(max(walltime.max(), error.max()))
        above.set(ylim=(max(1, low / 1.6), high * 1.6), ylabel="mean absolute error", xlim=(0.3, len(drawn) + 0.7))
        format_time_axis(above.yaxis, max(1, low / 1.6), high * 1.6)
        below.bar(places, [user.jobs for user in drawn], 1.0, color=MUTED, alpha=0.6, edgecolor="none")
        below.set_yscale("log")
        below.set(ylabel="jobs", xlabel="users, by the error of their walltimes")
        below.yaxis.set_minor_locator(NullLocator())
        below.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        for ax in (above, below):
            ax.grid(visible=False, axis="x")
        picture.legend(4)
        svg = picture.svg(name)
    return Picture(
        name, title, shows, read, source,
        f"Of {plural(shares.users, 'user')} {percent(shares.better)} improve with the predictions, "
        f"{percent(shares.worse)} deteriorate; the worst deterioration is {duration(shares.worst)}.",
        svg,
    )  # fmt: skip


def draw_dumbbells(found: Sequence[Group], name: str, noun: str, spec: str, most_underestimated: float) -> Picture:
    """Draw the accuracy of walltime and prediction of each project or queue with enough jobs.

    :param most_underestimated: groups with a greater share of underestimated jobs are marked.
    """
    enough = [group for group in found if group.jobs >= LEAST_JOBS]
    drawn = enough[:LARGEST]
    title = f"Accuracy by {noun}"
    which = f"the {len(drawn)} {noun}s with the most jobs" if len(drawn) < len(enough) else f"every {noun}"
    shows = (
        f"The mean accuracy of the walltimes (ring) and of {spec} (filled) for {which} with at least {LEAST_JOBS} "
        "jobs, and the share of jobs underestimated."
    )
    read = (
        f"A filled mark right of its ring: the predictions are more accurate for this {noun}; left of it: less "
        "accurate. A triangle marks predictions that are more accurate but underestimate more than "
        f"{percent(most_underestimated)} of the jobs."
    )
    source = f"{CHLUMSKY}, fig. 6, with accuracy instead of error"
    absent = ""
    if len(found) < 2:
        absent = f"All jobs belong to one {noun}: nothing to compare."
    elif len(enough) < 2:
        absent = f"Fewer than two {noun}s have at least {LEAST_JOBS} jobs."
    if absent:
        return Picture(name, title, shows, read, source, "", absent=absent)
    places = np.arange(len(drawn))
    before = np.array([group.walltime_accuracy for group in drawn])
    after = np.array([group.accuracy for group in drawn])
    often = np.array([group.underestimated > most_underestimated for group in drawn])
    loses = after < before - SAME
    kinds = (
        (~loses & ~often, SERIES[0], "o", 6.0, "prediction"),
        (~loses & often, SERIES[4], "^", 6.5, "prediction, underestimates too often"),
        (loses, SERIES[1], "D", 5.5, "prediction, less accurate"),
    )
    with drawing(0.95 + 0.24 * len(drawn)) as picture:
        ax = picture.ax
        ax.plot(
            before, places, linestyle="none", marker="o", markersize=6, markerfacecolor="none", color=MUTED,
            label="walltime",
        )  # fmt: skip
        for chosen, color, marker, size, label in kinds:
            if chosen.any():
                ax.hlines(places[chosen], before[chosen], after[chosen], color=color, linewidth=2.2, alpha=0.6)
                ax.plot(
                    after[chosen], places[chosen], linestyle="none", marker=marker, markersize=size, color=color,
                    label=label,
                )  # fmt: skip
        for place, group in zip(places, drawn, strict=True):
            text = f"{percent(group.underestimated)} under, {plural(group.jobs, 'job')}"
            ax.text(1.02, float(place), text, transform=ax.get_yaxis_transform(), va="center", fontsize=8)
        ax.set(
            yticks=places,
            yticklabels=[shorten_label(group.name) for group in drawn],
            xlim=(0, 1),
            xlabel="mean accuracy",
        )
        ax.set_ylim(len(drawn) - 0.4, -0.6)
        ax.tick_params(axis="y", length=0)
        picture.legend(4)
        svg = picture.svg(name)
    more = int((after > before + SAME).sum())
    best = max(drawn, key=lambda group: group.accuracy - group.walltime_accuracy)
    example = f", most for {best.name}, from {best.walltime_accuracy:.2f} to {best.accuracy:.2f}" if more else ""
    return Picture(
        name, title, shows, read, source,
        f"Of {plural(len(drawn), noun)} the predictions are more accurate for {more}{example}, less accurate for "
        f"{int(loses.sum())}; they underestimate too often for {int(often.sum())}.",
        svg,
    )  # fmt: skip
