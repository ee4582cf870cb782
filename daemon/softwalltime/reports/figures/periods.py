"""Figures of the time since soft walltimes are set."""

from collections.abc import Sequence

from softwalltime.formatting import DAY, MINUTE, duration, percent, plural
from softwalltime.reports.analysis.periods import BOUNDS, PeriodWaits, Waits, Week, pair_classes
from softwalltime.reports.figures.picture import (
    DASHES,
    MARKERS,
    MUTED,
    SERIES,
    Picture,
    annotate_bar,
    drawing,
    format_day_axis,
    format_linear_time_axis,
    format_percent_axis,
)
from softwalltime.reports.figures.walltimes import CHLUMSKY


def draw_weeks(found: Sequence[Week]) -> Picture:
    """Draw predicted against actual runtimes by week and predictor."""
    names = list(dict.fromkeys(week.predictor for week in found))
    with drawing(4.4, rows=3, sharex=True, height_ratios=(2.2, 2, 1)) as picture:
        accuracy, under, jobs = picture.axes[:, 0]
        base: dict[int, float] = {}
        for number, name in enumerate(names):
            weeks = [week for week in found if week.predictor == name]
            x = [week.start / DAY for week in weeks]
            color = SERIES[number % len(SERIES)]
            look = {"color": color, "marker": MARKERS[number % len(MARKERS)], "markersize": 3.5}
            dash = DASHES[number % len(DASHES)]
            accuracy.plot(x, [week.accuracy for week in weeks], label=name, linestyle=dash, **look)
            accuracy.plot(
                x, [week.walltime_accuracy for week in weeks], color=MUTED, linewidth=1.2, linestyle=(0, (1.5, 1.5)),
                label="their walltimes" if number == 0 else None,
            )  # fmt: skip
            under.plot(x, [week.underestimated for week in weeks], linestyle=dash, **look)
            bottom = [base.get(week.start, 0.0) for week in weeks]
            jobs.bar(x, [week.jobs for week in weeks], 6, bottom=bottom, color=color, alpha=0.6, edgecolor="none")
            base.update({week.start: low + week.jobs for week, low in zip(weeks, bottom, strict=True)})
        accuracy.set(ylim=(0, 1), ylabel="mean accuracy")
        under.set(ylim=(0, None), ylabel="underestimated")
        format_percent_axis(under.yaxis)
        jobs.set_ylabel("jobs")
        format_day_axis(jobs.xaxis, {week.start for week in found})
        for ax in (accuracy, under, jobs):
            ax.grid(visible=False, axis="x")
        picture.legend(3, accuracy)
        svg = picture.svg("by-week")
    total = sum(week.jobs for week in found)
    mean = sum(week.underestimated * week.jobs for week in found) / total
    return Picture(
        "by-week",
        "Predictions against runtimes, by week",
        "The jobs with a predicted soft walltime, by the week in which they ended (UTC) and by predictor: mean "
        "accuracy, with that of the same jobs' walltimes dotted; share underestimated; number of jobs. Of a predictor "
        "marked shadow nothing was set.",
        "Predictions should lie well above the dotted line. An increasing share of underestimated jobs means that the "
        "workload has changed or that the predictor's settings no longer fit.",
        f"{CHLUMSKY}, section 4",
        f"{plural(total, 'job')} over {plural(len({week.start for week in found}), 'week')}, {percent(mean)} "
        "underestimated.",
        svg,
    )


def draw_waits(periods: Sequence[PeriodWaits]) -> Picture:
    """Draw waits and bounded slowdowns of two periods by class."""
    rows = pair_classes(periods)
    labels = [name for name, _ in rows]
    labels_of_periods = ("before", "after")
    with drawing(1.1 + 0.42 * len(rows), columns=2, sharey=True) as picture:
        left, right = picture.axes[0]
        for number, (label, color, alpha) in enumerate(
            zip(labels_of_periods, (MUTED, SERIES[0]), (0.5, 0.85), strict=True)
        ):
            for place, (_, both) in enumerate(rows):
                one = both[number]
                if one is None:
                    continue
                y = place + (number - 0.5) * 0.38
                left.barh(
                    y,
                    one.mean,
                    0.36,
                    color=color,
                    alpha=alpha,
                    edgecolor="none",
                    label=label if not place else None,
                )
                right.barh(y, one.slowdowns[1], 0.36, color=color, alpha=alpha, edgecolor="none")
                annotate_bar(left, one.mean, y, duration(one.mean))
                annotate_bar(right, one.slowdowns[1], y, f"{one.slowdowns[1]:.3g}")
        every = [one for _, both in rows for one in both if one]
        top = max(max(one.mean for one in every), MINUTE)
        # Linear, because a bar's length is its value.
        left.set(xlim=(0, top * 1.2), title="mean wait", yticks=range(len(rows)), yticklabels=labels)
        format_linear_time_axis(left.xaxis, top)
        right.set(
            title=f"mean bounded slowdown ({duration(BOUNDS[1])})",
            xlim=(0, max(one.slowdowns[1] for one in every) * 1.2),
        )
        left.invert_yaxis()
        for ax in (left, right):
            ax.grid(visible=False, axis="y")
            ax.tick_params(axis="y", length=0)
        picture.legend(2)
        svg = picture.svg("waits")
    before, after = rows[0][1]
    return Picture(
        "waits",
        "Waits before and after",
        "Mean time from when a job could have run to its start, and mean bounded slowdown, by how long jobs ran, in "
        "the two periods.",
        "Shorter is better. Two periods differ in more than soft walltimes: compare the numbers of jobs, the load "
        "and the mean runtimes in the table first.",
        f"{CHLUMSKY}, section 4",
        f"All jobs: mean wait {_mean(before)} before, {_mean(after)} after.",
        svg,
    )


def _mean(one: Waits | None) -> str:
    return duration(one.mean if one else None)
