"""Render the report as one self-contained HTML page."""

import re
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from softwalltime import __version__
from softwalltime.core import formatting
from softwalltime.measure.simulation.differences import Interval
from softwalltime.measure.simulation.shaking import MIN_USERS
from softwalltime.predict.policy.presets import HOUR, UNDO
from softwalltime.reports import likeness, recommendation, waits_by_class
from softwalltime.reports.cautions import changed_classes
from softwalltime.reports.report_figures import Report
from softwalltime.reports.simulation import SettingWaits, SimulationFigures

KINDS = {"runtime": "runtime", "size": "size", "queue": "queue", "user": "user", "month": "month of submission"}
"""Titles of the kinds of classes."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Sources of the page; ``malformed`` lines are not included; ``selection`` says which jobs are."""

    sources: tuple[str, ...]
    malformed: int = 0
    pseudonyms: bool = False
    selection: str = ""


def pages() -> Environment:
    """Return the templates."""
    environment = Environment(
        loader=PackageLoader("softwalltime.reports", "templates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {
        "duration": formatting.duration, "percent": formatting.percent, "number": formatting.number,
        "day": formatting.day, "exact_percent": formatting.exact_percent, "plural": formatting.plural,
        "breakable": _breakable, "interval": _interval, "whole_options": whole_options,
    }  # fmt: skip
    return environment


def render(report: Report, origin: Origin) -> str:
    simulated = report.simulation if isinstance(report.simulation, SimulationFigures) else None
    advice = report.recommendation
    return pages().get_template("report.html.j2").render(
        r=report,
        origin=origin,
        version=__version__,
        simulated=simulated is not None,
        simulation=report.simulation,
        simulation_off=not report.options.simulation.jobs,
        # The recommended one first.
        settings_shown=sorted(simulated.settings, key=lambda waits: waits is not advice.waits) if simulated else [],
        kinds=KINDS,
        classes=waits_by_class,
        guard=HOUR,
        least_users=MIN_USERS,
        scored_jobs=f"all {formatting.plural(report.document.scored, 'scored job')}",
        rules=recommendation,
        undo=UNDO,
        limits=likeness,
        likeness=simulated.likeness if simulated else None,
        gains=_gains(simulated, advice.waits) if simulated and advice.waits else None,
    )  # fmt: skip


def _gains(simulated: SimulationFigures, chosen: SettingWaits) -> dict[str, object]:
    """Return the classes that wait less, and the hours of waiting saved in a month of 30 days."""
    months = max((simulated.until - simulated.since) / (30 * formatting.DAY), 1)
    jobs = (simulated.jobs - simulated.unscored) / months
    saved = (simulated.baseline.wait_mean or 0.0) - (chosen.metrics.wait_mean or 0.0)
    return {"classes": changed_classes(simulated, chosen, longer=False), "jobs": jobs, "hours": saved * jobs / 3600}


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
