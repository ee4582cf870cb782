"""Who waits longer and who shorter, in a picture."""

from collections.abc import Sequence

from matplotlib.axes import Axes

from softwalltime.formatting import plural
from softwalltime.reports.figures.picture import (
    MARKERS,
    MUTED,
    SERIES,
    Picture,
    drawing,
    shorten_label,
    wrap_label,
)
from softwalltime.reports.figures.waits import SHAKING
from softwalltime.reports.simulation import SettingWaits, SimulationFigures
from softwalltime.reports.waits_by_class import ClassWaits

_KINDS = ("runtime", "size", "queue", "user")
_MOST = 4
"""Settings in the figure."""
_LEAST, _GREATEST = -100.0, 100.0
"""Changes in % at which the axis ends: jobs that hardly wait today may wait many times as long."""


def draw_classes(simulated: SimulationFigures, settings: Sequence[SettingWaits]) -> Picture:
    """Draw the change of the mean wait of each class with its interval; leave out small classes.

    :param settings: at least one; the first ones are drawn.
    """
    name, title = "by-class", "Change of the mean wait against today, by class"
    shown, more = settings[:_MOST], plural(len(settings[_MOST:]), "setting") if settings[_MOST:] else ""
    shows = (
        "Mean wait of the jobs of each class: mean change over the shaken workloads (point) and its 95% confidence "
        f"interval (line). Changes beyond {_GREATEST:.0f}% are drawn at the edge. Classes with few jobs are left out"
        f"{f', and {more}: see the tables' if more else ''}."
    )
    read = "Left of 0 is shorter. A line that crosses 0 shows no effect that can be told from chance."
    places = {
        kind: [place for place, today in enumerate(simulated.classes[kind]) if not today.small] for kind in _KINDS
    }
    panels = [kind for kind in _KINDS if len(places[kind]) > 1]
    if not panels:
        return Picture(name, title, shows, read, SHAKING, "", absent="All simulated jobs are of one class.")
    rows = [len(places[kind]) for kind in panels]
    height = 0.9 + 0.4 * len(panels) + (0.14 + 0.09 * len(shown)) * sum(rows)
    with drawing(height, rows=len(panels), sharex=True, height_ratios=rows) as picture:
        for ax, kind in zip(picture.axes[:, 0], panels, strict=True):
            ax.axvline(0, color=MUTED, linewidth=1)
            for number, one in enumerate(shown):
                offset = (number - (len(shown) - 1) / 2) * 0.75 / len(shown)
                for row, place in enumerate(places[kind]):
                    _draw_change(ax, one.classes[kind][place], row + offset, number)
            labels = [shorten_label(simulated.classes[kind][place].name, 28) for place in places[kind]]
            ax.set(title=f"by {kind}", yticks=range(len(labels)), yticklabels=labels, xlim=(_LEAST, _GREATEST))
            ax.set_ylim(len(labels) - 0.5, -0.5)
            ax.tick_params(axis="y", length=0)
            ax.grid(visible=False, axis="y")
        for number, one in enumerate(shown):
            label = wrap_label(one.setting.name, 34)
            picture.ax.plot([], [], color=SERIES[number], marker=MARKERS[number], markersize=5, label=label)
        picture.legend(2)
        picture.axes[-1, 0].set_xlabel("change of the mean wait, %")
        svg = picture.svg(name)
    return Picture(name, title, shows, read, SHAKING, " ".join(_words(one, simulated) for one in shown), svg)


def _draw_change(ax: Axes, waits: ClassWaits, y: float, number: int) -> None:
    change = waits.change
    if change.mean is None:
        return
    mean, low, high = (
        min(max(100 * (change.mean if value is None else value), _LEAST), _GREATEST)
        for value in (change.mean, change.low, change.high)
    )
    ax.hlines(y, low, high, color=SERIES[number], linewidth=1.7)
    ax.plot(
        [mean], [y], linestyle="none", marker=MARKERS[number], markersize=4.5, color=SERIES[number], clip_on=False
    )  # fmt: skip


def _words(one: SettingWaits, simulated: SimulationFigures) -> str:
    """Say which classes wait longer and which shorter."""
    changed = [
        (waits.name, waits.longer)
        for kind in _KINDS
        for waits, today in zip(one.classes[kind], simulated.classes[kind], strict=True)
        if (waits.longer or waits.shorter) and not today.small
    ]
    longer, shorter = (", ".join(name for name, which in changed if which is so) or "none" for so in (True, False))
    return f"{one.setting.name}: the mean wait grows for {longer} and falls for {shorter}."
