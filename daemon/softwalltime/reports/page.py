"""Render the report as one self-contained HTML page."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from softwalltime import __version__
from softwalltime.core import formatting
from softwalltime.measure.simulation.differences import Interval
from softwalltime.measure.simulation.shaking import MIN_USERS
from softwalltime.predict.policy.presets import HOUR, UNDO
from softwalltime.reports import groups, likeness, recommendation, waits_by_class
from softwalltime.reports.cautions import shorter_classes
from softwalltime.reports.drawings import (
    Picture,
    draw_changes,
    draw_r_distribution,
    draw_rates_by_week,
)
from softwalltime.reports.report_figures import Report
from softwalltime.reports.simulation import SettingWaits, SimulationFigures

MAX_USERS = 10
"""Number of users in the table of deteriorations."""
MAX_GROUPS = 25
"""Number of projects and queues in each table."""
KINDS = {"runtime": "runtime", "size": "size", "queue": "queue", "user": "user", "month": "month of submission"}
"""Titles of the kinds of classes."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Sources of the page; ``malformed`` lines are not included; ``selection`` says which jobs are."""

    sources: tuple[str, ...]
    malformed: int = 0
    pseudonyms: bool = False
    selection: str = ""


def render(report: Report, origin: Origin) -> str:
    environment = Environment(
        loader=PackageLoader("softwalltime.reports", "templates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {
        "duration": formatting.duration, "percent": formatting.percent, "number": formatting.number,
        "day": formatting.day, "exact_percent": formatting.exact_percent, "plural": formatting.plural,
        "breakable": _breakable, "interval": _interval, "whole_options": whole_options,
    }  # fmt: skip
    # matplotlib has escaped all text.
    pictures = {
        section: [(picture, Markup(picture.svg)) for picture in drawn]  # noqa: S704 - drawn by ourselves
        for section, drawn in _pictures(report).items()
    }
    whom = report.groups
    return environment.get_template("report.html.j2").render(
        r=report,
        origin=origin,
        version=__version__,
        pictures=pictures,
        deteriorated=groups.most_deteriorated(whom.users)[:MAX_USERS] if whom else [],
        least_group=groups.MIN_GROUP_JOBS,
        projects=_with_enough_jobs(whom.projects) if whom else [],
        queues=_with_enough_jobs(whom.queues) if whom else [],
        simulated=isinstance(report.simulation, SimulationFigures),
        simulation=report.simulation,
        simulation_off=report.options.simulation is None,
        settings_shown=_settings(report),
        kinds=KINDS,
        small_class=waits_by_class.MIN_CLASS_JOBS,
        largest_class=waits_by_class.MAX_CLASSES,
        notable=waits_by_class.NOTABLE_WAIT_S,
        guard=HOUR,
        least_users=MIN_USERS,
        population=_populations(report),
        largest=MAX_GROUPS,
        rules=recommendation,
        undo=UNDO,
        limits=likeness,
        likeness=report.simulation.likeness if isinstance(report.simulation, SimulationFigures) else None,
        **_gains(report),
    )  # fmt: skip


def _gains(report: Report) -> dict[str, object]:
    """Return the classes that wait less, and the hours of waiting saved in a month of 30 days."""
    simulated, chosen = report.simulation, report.recommendation.waits
    if not isinstance(simulated, SimulationFigures) or chosen is None:
        return {"gainers": []}
    months = max((simulated.until - simulated.since) / (30 * formatting.DAY), 1)
    jobs = (simulated.jobs - simulated.unscored) / months
    saved = (simulated.baseline.wait_mean or 0.0) - (chosen.metrics.wait_mean or 0.0)
    return {
        "gainers": shorter_classes(simulated, chosen),
        "month_jobs": jobs,
        "saved_hours": saved * jobs / 3600,
    }


def _pictures(report: Report) -> dict[str, list[Picture]]:
    drawn: dict[str, list[Picture]] = {"waits": [], "walltimes": [], "predictors": []}
    if isinstance(report.simulation, SimulationFigures):
        drawn["waits"] = [draw_changes(report.simulation, report.recommendation.waits)]
    if report.walltimes is not None:
        drawn["walltimes"] = [draw_r_distribution(report.walltimes)]
    rates = draw_rates_by_week(report.rates, report.recommendation.predictor, report.options.target)
    if rates is not None:
        drawn["predictors"] = [rates]
    return drawn


def _settings(report: Report) -> Sequence[SettingWaits]:
    """Return the simulated candidates, the recommended one first."""
    if not isinstance(report.simulation, SimulationFigures):
        return ()
    recommended = report.recommendation.waits
    return sorted(report.simulation.settings, key=lambda setting: setting is not recommended)


def _populations(report: Report) -> dict[str, str]:
    simulated = report.simulation.jobs if isinstance(report.simulation, SimulationFigures) else 0
    return {
        "simulated": f"the {formatting.plural(simulated, 'simulated job')}",
        "scored": f"all {formatting.plural(report.scored, 'scored job')}",
    }


def _with_enough_jobs(all_groups: Sequence[groups.Group]) -> Sequence[groups.Group]:
    return [group for group in all_groups if group.jobs >= groups.MIN_GROUP_JOBS]


def _breakable(spec: str) -> Markup:
    return Markup("<wbr>").join(re.split(r"(?<=[:,+])(?=[a-z])", spec))


def whole_options(text: str) -> Markup:
    option = Markup('<code class="option">{}</code>')
    parts = enumerate(re.split(r"(--[a-z-]+)", text))
    # Odd parts are options.
    return Markup("").join(option.format(part) if number % 2 else _breakable(part) for number, part in parts)


def _interval(relative: Interval) -> Markup:
    """Format a relative change; its interval stays on one line."""
    mean, space, between = recommendation.change(relative).partition(" ")
    return Markup('{} <span class="interval">{}</span>').format(mean, between) if space else escape(mean)
