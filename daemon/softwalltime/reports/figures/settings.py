"""Figures of the settings of the percentile predictor."""

from collections.abc import Sequence

from softwalltime.formatting import exact_percent, percent, plural
from softwalltime.reports.analysis.settings import PERCENTILES, THRESHOLDS, WINDOWS, PercentileSetting
from softwalltime.reports.figures.picture import (
    DASHES,
    INK,
    MARKERS,
    SERIES,
    Picture,
    drawing,
    format_percent_axis,
)
from softwalltime.reports.figures.walltimes import TANG

DEFAULT_WINDOW = 30


def draw_settings_plane(
    found: Sequence[PercentileSetting], walltimes: float, target: float, best: PercentileSetting | None
) -> Picture:
    """Draw all settings.

    :param walltimes: mean accuracy of the users' walltimes.
    """
    keys = _keys(found)
    with drawing(3.6) as picture:
        ax = picture.ax
        ax.axvspan(0, target, color=SERIES[2], alpha=0.08, linewidth=0)
        ax.axvline(target, color=SERIES[2], linewidth=1, linestyle=(0, (4, 2)))
        ax.axhline(walltimes, color=INK, linewidth=1, linestyle=(0, (1.5, 1.5)), label="users' walltimes")
        for number, key in enumerate(keys):
            for threshold in THRESHOLDS:
                chosen = [one.halves.older for one in found if one.keys == key and one.threshold == threshold]
                ax.plot(
                    [part.underestimated for part in chosen], [part.accuracy for part in chosen], linestyle="none",
                    marker=MARKERS[number], markersize=5, color=SERIES[number], alpha=0.75, markeredgewidth=1,
                    markerfacecolor=SERIES[number] if threshold is None else "none",
                    label=_name(key) + ("" if threshold is None else f", at least {exact_percent(threshold)}"),
                )  # fmt: skip
        if best is not None:
            at = best.halves.older
            ax.plot(
                [at.underestimated], [at.accuracy], linestyle="none", marker="o", markersize=13, markerfacecolor="none",
                color=INK, markeredgewidth=1.4, label=f"most accurate within {exact_percent(target)}",
            )  # fmt: skip
        ax.set(xlabel="jobs underestimated", ylabel="mean accuracy", xlim=(0, None))
        format_percent_axis(ax.xaxis)
        picture.legend(3)
        svg = picture.svg("settings-plane")
    said = (
        f"Within the target the best is {best.halves.spec}, with {best.halves.older.accuracy:.3f} and "
        f"{percent(best.halves.older.underestimated)}."
        if best
        else "No setting is within the target."
    )
    return Picture(
        "settings-plane",
        "All settings",
        f"Each of {plural(len(found), 'setting')} of the percentile predictor as a point. Hollow points never "
        "predict less than half of the walltime.",
        "Higher and further left is better; the shaded area is within the target. The best settings form the upper "
        "left edge. If one kind of key forms this edge, use it.",
        f"{TANG}, table 2",
        f"{plural(len(found), 'setting')} between {percent(min(one.halves.older.underestimated for one in found))} and "
        f"{percent(max(one.halves.older.underestimated for one in found))} underestimated. {said}",
        svg,
    )


def draw_percentiles(found: Sequence[PercentileSetting]) -> Picture:
    """Accuracy and underestimation over the percentile, by kind of key."""
    keys = _keys(found)
    chosen = {
        key: [one for one in found if one.keys == key and one.window == DEFAULT_WINDOW and one.threshold is None]
        for key in keys
    }
    with drawing(2.9, columns=2) as picture:
        left, right = picture.axes[0]
        for number, key in enumerate(keys):
            x = [one.percentile for one in chosen[key]]
            look = {"color": SERIES[number], "marker": MARKERS[number], "markersize": 4, "linestyle": DASHES[number]}
            left.plot(x, [one.halves.older.accuracy for one in chosen[key]], label=_name(key), **look)
            right.plot(x, [one.halves.older.underestimated for one in chosen[key]], **look)
        left.set(xlabel="percentile P", ylabel="mean accuracy", title="accuracy")
        right.set(xlabel="percentile P", ylabel="jobs underestimated", title="underestimation", ylim=(0, None))
        format_percent_axis(right.yaxis)
        picture.legend(4)
        svg = picture.svg("by-percentile")
    return Picture(
        "by-percentile",
        "Percentile and keys",
        f"Accuracy and underestimation by percentile, with a window of {DEFAULT_WINDOW} days and no threshold. Jobs "
        "with the same keys are similar.",
        "The percentile balances the two: about (100 - P)% of the jobs are underestimated at P, more if the workload "
        "changes. More keys describe a job better but match fewer jobs.",
        f"{TANG}, fig. 4 to 7",
        "; ".join(
            f"{_name(key)}: accuracy from {ones[0].halves.older.accuracy:.2f} at P {ones[0].percentile} to "
            f"{ones[-1].halves.older.accuracy:.2f} at P {ones[-1].percentile}"
            for key, ones in chosen.items()
        )
        + ".",
        svg,
    )


def draw_windows_and_thresholds(found: Sequence[PercentileSetting]) -> Picture:
    """Draw accuracy against underestimation by window and threshold, for the finest key."""
    key = _keys(found)[-1]
    with drawing(2.9, columns=2, sharey=True, sharex=True) as picture:
        left, right = picture.axes[0]
        panels = (
            (left, "window", [(f"{window} d", window, None) for window in WINDOWS]),
            (
                right,
                "threshold",
                [
                    ("none" if threshold is None else exact_percent(threshold), DEFAULT_WINDOW, threshold)
                    for threshold in THRESHOLDS
                ],
            ),
        )
        for ax, title, lines in panels:
            for number, (label, window, threshold) in enumerate(lines):
                chosen = [
                    one.halves.older
                    for one in found
                    if one.keys == key and one.window == window and one.threshold == threshold
                ]
                ax.plot(
                    [part.underestimated for part in chosen], [part.accuracy for part in chosen], color=SERIES[number],
                    marker=MARKERS[number], markersize=4, linestyle=DASHES[number], label=label,
                )  # fmt: skip
            ax.set(xlabel="jobs underestimated", title=title)
            format_percent_axis(ax.xaxis)
            ax.legend(loc="lower right")
        left.set(ylabel="mean accuracy", xlim=(0, None))
        svg = picture.svg("by-window")
    return Picture(
        "by-window",
        "Window and threshold",
        f"Accuracy against underestimation for P from {PERCENTILES[0]} (right) to {PERCENTILES[-1]} (left) with the "
        f"keys {_name(key)}: by window, without threshold, and by threshold, with {DEFAULT_WINDOW} days.",
        "The upper left line is better. If lines coincide, use the default.",
        f"{TANG}, fig. 8 to 10",
        f"Lines for windows of {', '.join(map(str, WINDOWS))} days and for thresholds of none and 50%.",
        svg,
    )


def _keys(found: Sequence[PercentileSetting]) -> list[tuple[str, ...]]:
    return list(dict.fromkeys(one.keys for one in found))


def _name(keys: tuple[str, ...]) -> str:
    return " + ".join(keys)
