"""What settings do to waits, in a picture."""

from softwalltime.formatting import plural
from softwalltime.reports.figures.picture import INK, MARKERS, MUTED, SERIES, Picture, drawing, wrap_label
from softwalltime.reports.recommendation import change
from softwalltime.reports.simulation import SettingWaits, SimulationFigures

_PANELS = (
    ("wait_mean", "mean wait"), ("wait_p95", "95th percentile wait"), ("bsld10_mean", "bounded slowdown"),
)  # fmt: skip
SHAKING = (
    "D. Tsafrir, K. Ouaknine, D. G. Feitelson: Reducing Performance Evaluation Sensitivity and Variability by Input "
    "Shaking. MASCOTS 2007"
)


def draw_changes(simulated: SimulationFigures, recommended: SettingWaits | None) -> Picture:
    """Changes against today with their intervals, one row for each setting."""
    settings = simulated.settings
    name = "changes"
    labels = [wrap_label(one.setting.name, 24) for one in settings]
    # A row is as high as its label, so that labels do not overlap.
    heights = [max(2, label.count("\n") + 2) for label in labels]
    places = [sum(heights[:number]) + height / 2 for number, height in enumerate(heights)]
    with drawing(0.8 + 0.145 * sum(heights), columns=3, sharey=True) as picture:
        for ax, (metric, title) in zip(picture.axes[0], _PANELS, strict=True):
            ax.axvline(0, color=MUTED, linewidth=1)
            for place, one in zip(places, settings, strict=True):
                found = one.changes[metric]
                if found.mean is None:
                    continue
                color = INK if one is recommended else SERIES[0] if one.setting.keeps_order else SERIES[1]
                low = found.mean if found.low is None else found.low
                high = found.mean if found.high is None else found.high
                ax.hlines(place, 100 * low, 100 * high, color=color, linewidth=2)
                marker = MARKERS[0] if one.setting.keeps_order else MARKERS[1]
                ax.plot([100 * found.mean], [place], linestyle="none", marker=marker, markersize=5, color=color)
            ax.set(title=title, xlabel="change, %")
            ax.grid(visible=False, axis="y")
        first = picture.ax
        first.set(yticks=places, yticklabels=labels)
        first.set_ylim(sum(heights), 0)
        svg = picture.svg(name)
    return Picture(
        name,
        "Change of waits against today",
        f"Mean over {plural(len(simulated.seeds), 'shaken workload')} (point) and its 95% confidence interval (line); "
        "squares: settings that change the order of the queue.",
        "Left of 0 is shorter. A line that crosses 0 shows no effect that can be told from chance.",
        SHAKING,
        " ".join(f"{one.setting.name}: mean wait {change(one.changes['wait_mean'])}." for one in settings),
        svg,
    )
