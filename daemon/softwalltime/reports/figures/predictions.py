"""Figures of the predictors' accuracy."""

from collections.abc import Mapping, Sequence

import numpy as np

from softwalltime.formatting import DAY, MINUTE, duration, exact_percent, percent, plural
from softwalltime.predictors.registry import BASELINE
from softwalltime.replay.metrics import Scores
from softwalltime.reports.analysis.groups import LEAST_JOBS
from softwalltime.reports.analysis.predictions import CLASSES, WEEK_LEAST, Box, Predictions
from softwalltime.reports.figures.picture import (
    INK,
    MUTED,
    ON_COLOR,
    SERIES,
    Picture,
    Style,
    drawing,
    format_day_axis,
    format_percent_axis,
    format_time_axis,
    shorten_label,
)
from softwalltime.reports.figures.walltimes import CHLUMSKY, TANG


def draw_plane(scores: Mapping[str, Scores], look: Mapping[str, Style], target: float) -> Picture:
    """Draw accuracy against underestimation."""
    with drawing(3.6) as picture:
        ax = picture.ax
        ax.axvspan(0, target, color=SERIES[2], alpha=0.08, linewidth=0)
        ax.axvline(
            target,
            color=SERIES[2],
            linewidth=1,
            linestyle=(0, (4, 2)),
            label=f"target: at most {exact_percent(target)}",
        )
        for spec, score in scores.items():
            ax.plot(
                [score.underestimated or 0], [score.accuracy_mean or 0], linestyle="none", marker=look[spec].marker,
                markersize=8, color=look[spec].color, label=look[spec].label, zorder=3, clip_on=False,
            )  # fmt: skip
        right = max(target * 1.6, 0.1, *(score.underestimated or 0 for score in scores.values()))
        every = [score.accuracy_mean or 0 for score in scores.values()]
        ax.set(
            xlim=(0, right * 1.06), ylim=(max(0, min(every) - 0.06), min(1, max(every) + 0.06)),
            xlabel="jobs underestimated", ylabel="mean accuracy",
        )  # fmt: skip
        format_percent_axis(ax.xaxis)
        picture.legend(3)
        svg = picture.svg("plane")
    best = max(scores, key=lambda spec: scores[spec].accuracy_mean or 0)
    return Picture(
        "plane",
        "Accuracy against underestimation",
        "Mean accuracy and share of underestimated jobs of each predictor. request is the users' walltime.",
        "Higher is better, and further left is better. The shaded area is within the target. A predictor below and "
        "right of another one is inferior.",
        f"{TANG}, equation 3 (accuracy)",
        "; ".join(
            f"{spec}: accuracy {score.accuracy_mean or 0:.2f}, {percent(score.underestimated)} underestimated"
            for spec, score in scores.items()
        )
        + f". The most accurate is {best}.",
        svg,
    )


def draw_rates_by_week(found: Sequence[Predictions], look: Mapping[str, Style], target: float) -> Picture | None:
    """Draw the rate of underestimation by week against the target; ``None`` with fewer than two weeks of enough jobs.

    The walltimes are left out: they underestimate nothing.
    """
    shown = [one for one in found if len(one.weeks) > 1 and one.spec != BASELINE]
    if not shown:
        return None
    together = shown[0].weeks[0].weeks
    period = "week" if together == 1 else f"{together} weeks"
    with drawing(3.6) as picture:
        ax = picture.ax
        for one in shown:
            style = look[one.spec]
            x, y = [week.start / DAY for week in one.weeks], [week.underestimated for week in one.weeks]
            ax.plot(
                x, y, color=style.color, linestyle=style.dash, marker=style.marker, markersize=2.5, label=style.label
            )
        ax.axhline(
            target,
            color=SERIES[2],
            linewidth=1,
            linestyle=(0, (4, 2)),
            label=f"target: at most {exact_percent(target)}",
        )
        format_day_axis(ax.xaxis, {week.start for one in shown for week in one.weeks})
        ax.set(ylim=(0, None), ylabel="jobs underestimated")
        ax.grid(visible=False, axis="x")
        format_percent_axis(ax.yaxis)
        picture.legend(3)
        svg = picture.svg("rates-by-week")
    above = {one.spec: sum(week.underestimated > target for week in one.weeks) / len(one.weeks) for one in shown}
    return Picture(
        "rates-by-week",
        f"Underestimation by {period}",
        f"Share of the jobs that each predictor underestimates, by the {period} in which they were submitted (UTC). "
        f"Points of fewer than {WEEK_LEAST} scored jobs are not shown. The walltime underestimates no job.",
        "A predictor keeps the target while its line stays below the target's. A line that is often above it does not "
        "keep the target, whatever its mean.",
        "",
        "; ".join(f"{spec}: {percent(share, 0)} of the points are above the target" for spec, share in above.items())
        + ".",
        svg,
    )


def draw_error_curves(found: Sequence[Predictions], look: Mapping[str, Style]) -> Picture:
    """Draw sorted errors on a log scale."""
    top = max(int(np.abs(one.errors).max()) for one in found)
    with drawing(3.6) as picture:
        ax = picture.ax
        for one in found:
            share = np.linspace(0, 1, len(one.errors))
            size = np.maximum(np.abs(one.errors), 1)
            ax.plot(share, size, color=look[one.spec].color, linestyle=look[one.spec].dash, label=look[one.spec].label)
        ax.set_yscale("log")
        ax.set(
            xlim=(0, 1),
            ylim=(1, max(top, 100) * 1.3),
            xlabel="jobs, the most underestimated first",
            ylabel="size of the error",
        )
        format_time_axis(ax.yaxis, 1, max(top, 100))
        format_percent_axis(ax.xaxis)
        picture.legend(4)
        svg = picture.svg("errors")
    return Picture(
        "errors",
        "Sorted errors",
        "All jobs of each predictor, from the most underestimated to the most overestimated, on a log scale. "
        "Errors below 1 s are drawn as 1 s.",
        "Each line is a V. Left of its lowest point are underestimated jobs, right of it overestimated jobs. A V "
        "further left with a lower right arm is better.",
        f"{CHLUMSKY}, fig. 4",
        "; ".join(
            f"{one.spec}: the V's lowest point after {percent(one.outcomes[2] + one.outcomes[3])} of the jobs"
            for one in found
        )
        + ".",
        svg,
    )


def draw_boxes_by_runtime(found: Sequence[Predictions], look: Mapping[str, Style]) -> Picture:
    """Draw errors of short, medium and long jobs."""
    rows = [(one.spec, one.by_runtime) for one in found]
    return Picture(
        "boxes-runtime",
        "Errors of short, medium and long jobs",
        f"The errors of each predictor over jobs that ran {', '.join(CLASSES[:2])} and {CLASSES[2]}: the box "
        "is the middle half of the jobs, its line the median, the whiskers 90%.",
        "Right of 0 jobs are overestimated, left of 0 underestimated. A small box near 0 for short jobs improves "
        "backfilling. A whisker far left for long jobs breaks reservations.",
        f"{CHLUMSKY}, fig. 5",
        _boxes_alt(rows),
        _boxes(rows, look, "boxes-runtime"),
    )


def draw_boxes_by_queue(found: Sequence[Predictions], look: Mapping[str, Style]) -> Picture:
    """Draw errors by queue."""
    name, title, source = "boxes-queue", "Errors by queue", f"{CHLUMSKY}, fig. 7"
    rows = [(one.spec, one.by_queue) for one in found]
    shows = f"The same for the {plural(len(rows[0][1]), 'queue')} with the most jobs: middle half, median, 90%."
    read = "Exclude a queue whose boxes lie left of 0. In a queue with a box on 0 the estimates are accurate."
    if len(rows[0][1]) < 2:
        return Picture(name, title, shows, read, source, "", absent="All jobs belong to one queue: nothing to compare.")
    return Picture(name, title, shows, read, source, _boxes_alt(rows), _boxes(rows, look, name))


def _boxes(rows: Sequence[tuple[str, Sequence[Box]]], look: Mapping[str, Style], name: str) -> str:
    """Draw a panel for each class of jobs with a box for each predictor."""
    panels = len(rows[0][1])
    across = min(3, panels)
    down = -(-panels // across)
    values = [value for _, boxes in rows for one in boxes for value in _percentiles(one) or ()]
    low, high = min([*values, -2.0 * MINUTE]), max([*values, 2.0 * MINUTE])
    labels = [look[spec].label for spec, _ in rows]
    lines = len(rows) * max(1.35, *(label.count("\n") + 1.2 for label in labels))
    height = 0.65 + down * (0.5 + 0.17 * lines)
    with drawing(height, rows=down, columns=across, sharex=True, sharey=True) as picture:
        for panel, ax in enumerate(picture.axes.flat):
            if panel >= panels:
                ax.set_axis_off()
                continue
            for row, (spec, boxes) in enumerate(rows):
                percentiles = _percentiles(boxes[panel])
                if percentiles is None:
                    continue
                p5, p25, p50, p75, p95 = percentiles
                color = look[spec].color
                ax.plot([p5, p95], [row, row], color=color, linewidth=1.1)
                ax.barh(row, p75 - p25, 0.56, left=p25, color=color, alpha=0.35, edgecolor=color, linewidth=1)
                ax.plot([p50, p50], [row - 0.28, row + 0.28], color=INK, linewidth=2)
            one = rows[0][1][panel]
            if one.jobs < LEAST_JOBS:
                said = "too few jobs" if one.jobs else "no jobs"
                ax.text(0.5, 0.5, said, transform=ax.transAxes, ha="center", va="center", color=MUTED)
            ax.set_title(f"{shorten_label(one.label)}\n", loc="left")
            ax.text(0, 1.02, plural(one.jobs, "job"), transform=ax.transAxes, fontsize=8, color=MUTED)
            ax.axvline(0, color=INK, linewidth=0.9)
            ax.set_xscale("symlog", linthresh=MINUTE, linscale=0.5)
            ax.set(xlim=(low * 1.5, high * 1.5), ylim=(len(rows) - 0.4, -0.6))
            format_time_axis(ax.xaxis, low * 1.5, high * 1.5, signed=True)
            ax.tick_params(axis="x", labelsize=7.5, labelbottom=True)
            ax.set_yticks(range(len(rows)), labels)
            ax.tick_params(axis="y", length=0)
            ax.grid(visible=False, axis="y")
        picture.figure.supxlabel("error: prediction \N{MINUS SIGN} runtime", fontsize=9)
        return picture.svg(name)


def _percentiles(box: Box) -> tuple[float, ...] | None:
    """The percentiles to draw: none of few jobs."""
    return box.percentiles if box.jobs >= LEAST_JOBS else None


def _boxes_alt(rows: Sequence[tuple[str, Sequence[Box]]]) -> str:
    spec, boxes = rows[-1]
    lines = [
        f"{one.label}, {plural(one.jobs, 'job')}: median {duration(drawn[2])}, 90% between "
        f"{duration(drawn[0])} and {duration(drawn[4])}"
        for one in boxes
        if (drawn := _percentiles(one))
    ]
    return f"Box plots of errors; for {spec}: {'; '.join(lines)}."


OUTCOMES = (
    "not adjusted (NA)", "overestimated (OE)", "underestimated by up to 30 min (UE)", "underestimated by more (BE)",
)  # fmt: skip


def draw_outcomes(found: Sequence[Predictions], look: Mapping[str, Style]) -> Picture:
    """Draw NA, OE, UE and BE of each predictor."""
    labels = [look[one.spec].label for one in found]
    colors = ((MUTED, 0.35), (SERIES[0], 0.75), (SERIES[4], 0.85), (SERIES[1], 0.95))
    with drawing(0.95 + 0.17 * sum(max(1.9, label.count("\n") + 1.5) for label in labels)) as picture:
        ax = picture.ax
        places = np.arange(len(found))
        left = np.zeros(len(found))
        for which, (label, (color, alpha)) in enumerate(zip(OUTCOMES, colors, strict=True)):
            shares = np.array([one.outcomes[which] for one in found])
            ax.barh(places, shares, 0.66, left=left, color=color, alpha=alpha, edgecolor="none", label=label)
            for place, share, start in zip(places, shares, left, strict=True):
                if share >= 0.045:
                    ax.text(
                        start + share / 2,
                        float(place),
                        percent(share, 0),
                        ha="center",
                        va="center",
                        fontsize=8,
                        color=ON_COLOR if which else INK,
                    )
            left += shares
        ax.set(yticks=places, yticklabels=labels, xlim=(0, 1), xlabel="share of jobs")
        ax.invert_yaxis()
        ax.tick_params(axis="y", length=0)
        ax.grid(visible=False, axis="y")
        format_percent_axis(ax.xaxis)
        picture.legend(2)
        svg = picture.svg("outcomes")
    return Picture(
        "outcomes",
        "Outcomes",
        "Shares of jobs without soft walltime, with a sufficient soft walltime, and with a soft walltime that was too "
        "short by up to 30 minutes or by more.",
        "Keep the last part short: these jobs break reservations. The first part contains jobs for which the predictor "
        "knew too little or predicted the walltime.",
        f"{TANG}, fig. 5",
        "; ".join(
            f"{one.spec}: "
            + ", ".join(f"{percent(share)} {name}" for share, name in zip(one.outcomes, OUTCOMES, strict=True))
            for one in found
        )
        + ".",
        svg,
    )


def draw_accuracy_curves(found: Sequence[Predictions], look: Mapping[str, Style]) -> Picture:
    """Draw the cumulative distribution of the accuracy."""
    grid = np.linspace(0, 1, 101)
    with drawing(3.3) as picture:
        ax = picture.ax
        for one in found:
            ax.plot(
                grid,
                one.accuracies,
                color=look[one.spec].color,
                linestyle=look[one.spec].dash,
                label=look[one.spec].label,
            )
        ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="accuracy", ylabel="cumulative share of jobs")
        format_percent_axis(ax.yaxis)
        picture.legend(4)
        svg = picture.svg("accuracies")
    return Picture(
        "accuracies",
        "Cumulative accuracy",
        "Share of jobs with at most this accuracy: min(p, t) / max(p, t), where p is the scheduler's estimate and t "
        "the runtime.",
        "A lower line is better: fewer jobs have a low accuracy. A steep rise at the right means many almost exact "
        "predictions.",
        f"{TANG}, fig. 11",
        "; ".join(
            f"{one.spec}: {percent(float(one.accuracies[50]))} of the jobs below an accuracy of 0.5" for one in found
        )
        + ".",
        svg,
    )
