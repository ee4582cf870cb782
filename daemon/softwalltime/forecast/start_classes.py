"""Classes of judged forecasts: by expected wait, by time waited, by processors, by queue."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence

from softwalltime.forecast.calibration import CLASSES, POINT
from softwalltime.forecast.judgement import COMBINED, Judged
from softwalltime.formatting import duration, plural, printable
from softwalltime.simulation.jobs import Jobs

WAITED = (3600, 2 * 3600, 4 * 3600, 8 * 3600, 24 * 3600, 3 * 24 * 3600)
"""Bounds of the classes of times waited, in seconds."""
MIN_CLASS_FORECASTS = 20
"""Forecasts from which a class has figures."""


def by_class(parts: Mapping[str, Sequence[Judged]], kind: str, jobs: Jobs) -> dict[str, list[Judged]]:
    """Return each part's classes of one of :data:`KINDS`, the smaller first, queues by name; few forecasts are none."""
    members_by_class: dict[str, list[Judged]] = {}
    for name, part in parts.items():
        classes: defaultdict[tuple[int, str], list[Judged]] = defaultdict(list)
        for forecast in part:
            classes[_class(forecast, kind, jobs)].append(forecast)
        for (_, label), members in sorted(classes.items()):
            if len(members) >= MIN_CLASS_FORECASTS:
                members_by_class[f"{name}, {label}"] = members
    return members_by_class


def _class(judged: Judged, kind: str, jobs: Jobs) -> tuple[int, str]:
    """The place of the class among the others, and its name."""
    if kind == "wait":
        place = bisect_right(CLASSES, float(judged.predicted[COMBINED][POINT]))
        if place == len(CLASSES):
            return place, f"expected wait from {duration(CLASSES[-1])} on"
        return place, f"expected wait below {duration(CLASSES[place])}"
    if kind == "waited":
        place = bisect_right(WAITED, judged.waited)
        if place == len(WAITED):
            return place, f"after {duration(WAITED[-1])} and more"
        return place, f"after less than {duration(WAITED[place])}"
    if kind == "processors":
        place = max(jobs.processors[judged.job], 1).bit_length()
        first, last = 1 << (place - 1), (1 << place) - 1
        return place, plural(1, "processor") if last == 1 else f"{first:,} to {last:,} processors"
    return 0, f"queue {printable(jobs.completed[judged.job].submission.queue) or 'without a name'}"
