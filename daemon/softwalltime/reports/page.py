"""Render the report as one self-contained HTML page."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from softwalltime import __version__, formatting
from softwalltime.policy.presets import HOUR, UNDO
from softwalltime.reports import likeness, recommendation, waits_by_class
from softwalltime.reports.analysis import groups, periods, predictions
from softwalltime.reports.cautions import shorter_classes
from softwalltime.reports.document import to_document, to_embedded_json
from softwalltime.reports.figures import groups as group_figures
from softwalltime.reports.figures import periods as period_figures
from softwalltime.reports.figures import predictions as prediction_figures
from softwalltime.reports.figures import walltimes as walltime_figures
from softwalltime.reports.figures.picture import Picture, select_styles
from softwalltime.reports.figures.waits import draw_changes
from softwalltime.reports.figures.waits_by_class import draw_classes
from softwalltime.reports.published import compare_published_order
from softwalltime.reports.report import Report
from softwalltime.reports.simulation import SettingWaits, SimulationFigures
from softwalltime.simulation.differences import Interval
from softwalltime.simulation.shaking import MIN_USERS

TOP = 10
"""Number of users in each table."""
LARGEST = 25
"""Number of projects and queues in each table."""
KINDS = {"runtime": "runtime", "size": "size", "queue": "queue", "user": "user", "month": "month of submission"}
"""What makes the classes of jobs, in words."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Title and sources of the page; ``malformed`` lines are not included; ``selection`` says which jobs are."""

    title: str
    sources: tuple[str, ...]
    malformed: int = 0
    pseudonyms: bool = False
    selection: str = ""


def render(report: Report, origin: Origin) -> str:
    """Render the page.  The same report gives the same bytes."""
    environment = Environment(
        loader=PackageLoader("softwalltime.reports", "templates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {
        "duration": formatting.duration, "percent": formatting.percent, "number": formatting.number,
        "day": formatting.day, "exact_percent": formatting.exact_percent, "plural": formatting.plural,
        "breakable": _breakable, "change": recommendation.change,
        "seconds_interval": _seconds_interval, "interval": _interval, "whole_options": whole_options,
    }  # fmt: skip
    document = to_document(report, origin.title, list(origin.sources), origin.selection)
    # matplotlib has escaped all text.
    pictures = {
        section: [(picture, Markup(picture.svg)) for picture in drawn]  # noqa: S704 - drawn by ourselves
        for section, drawn in _pictures(report).items()
    }
    whom = report.for_whom
    return environment.get_template("report.html.j2").render(
        r=report,
        origin=origin,
        version=__version__,
        pictures=pictures,
        numbers=Markup(to_embedded_json(document)),  # noqa: S704  # every < is written as \u003c
        outcomes=prediction_figures.OUTCOMES,
        extension_classes=_extension_classes(),
        published=compare_published_order(report.scores),
        improved=groups.most_improved(whom.users, whom.most_underestimated)[:TOP] if whom else [],
        deteriorated=groups.most_deteriorated(whom.users)[:TOP] if whom else [],
        least_group=groups.LEAST_JOBS,
        projects=_with_enough_jobs(whom.projects) if whom else [],
        queues=_with_enough_jobs(whom.queues) if whom else [],
        simulated=isinstance(report.simulation, SimulationFigures),
        simulation=report.simulation,
        simulation_off=report.options.simulation is None,
        settings_shown=_settings(report),
        kinds=KINDS,
        small_class=waits_by_class.SMALL,
        largest_class=waits_by_class.LARGEST,
        notable=waits_by_class.NOTABLE,
        guard=HOUR,
        least_users=MIN_USERS,
        population=_populations(report),
        largest=LARGEST,
        rules=recommendation,
        undo=UNDO,
        limits=likeness,
        likeness=report.simulation.likeness if isinstance(report.simulation, SimulationFigures) else None,
        classes=periods.pair_classes(report.happened.periods) if report.happened.periods else [],
        changes_of_waits=_changes_of_waits(report),
        least_weeks=periods.LEAST_BLOCKS,
        bounds=list(enumerate(periods.BOUNDS)),
        **_gains(report),
    )  # fmt: skip


def _gains(report: Report) -> dict[str, object]:
    """Return who waits less, and the hours of waiting that the jobs of a month of 30 days save."""
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
    """Draw the pictures of each section."""
    drawn: dict[str, list[Picture]] = {
        "waits": [],
        "classes": [],
        "walltimes": [],
        "predictors": [],
        "whom": [],
        "since": [],
    }
    if isinstance(report.simulation, SimulationFigures):
        drawn["waits"] = [draw_changes(report.simulation, report.recommendation.waits)]
        drawn["classes"] = [draw_classes(report.simulation, _settings(report))] if _settings(report) else []
    if report.walltimes is not None:
        drawn["walltimes"] = [
            walltime_figures.draw_r_distribution(report.walltimes),
            walltime_figures.draw_runtimes_and_walltimes(report.walltimes),
            walltime_figures.draw_r_by_period(report.walltimes),
            walltime_figures.draw_popular_walltimes(report.walltimes),
            *walltime_figures.draw_heat_maps(report.walltimes),
        ]
    if report.predictions:
        drawn["predictors"] = _of_predictors(report)
    whom = report.for_whom
    if whom is not None:
        drawn["whom"] = [
            group_figures.draw_users(whom.users, whom.shares, whom.spec),
            group_figures.draw_dumbbells(
                whom.projects, "by-project", report.project_field, whom.spec, whom.most_underestimated
            ),
            group_figures.draw_dumbbells(whom.queues, "by-queue", "queue", whom.spec, whom.most_underestimated),
        ]
    if report.happened.weeks:
        drawn["since"].append(period_figures.draw_weeks(report.happened.weeks))
    if report.happened.periods is not None:
        drawn["since"].append(period_figures.draw_waits(report.happened.periods))
    return drawn


def _settings(report: Report) -> Sequence[SettingWaits]:
    """Return the simulated candidates, the recommended one first."""
    if not isinstance(report.simulation, SimulationFigures):
        return ()
    recommended = report.recommendation.waits
    return sorted(report.simulation.settings, key=lambda setting: setting is not recommended)


def _of_predictors(report: Report) -> list[Picture]:
    look = select_styles([figures.spec for figures in report.predictions], report.recommendation.predictor)
    scores = {spec: warm for spec, (_, warm) in report.scores.items()}
    rates = prediction_figures.draw_rates_by_week(report.predictions, look, report.options.target)
    return [
        prediction_figures.draw_plane(scores, look, report.options.target),
        *([rates] if rates is not None else []),
        prediction_figures.draw_error_curves(report.predictions, look),
        prediction_figures.draw_boxes_by_runtime(report.predictions, look),
        prediction_figures.draw_boxes_by_queue(report.predictions, look),
        prediction_figures.draw_outcomes(report.predictions, look),
        prediction_figures.draw_accuracy_curves(report.predictions, look),
    ]


def _populations(report: Report) -> dict[str, str]:
    """Name the jobs of the figures of each section."""
    simulated = report.simulation.jobs if isinstance(report.simulation, SimulationFigures) else 0
    return {
        "simulated": f"the {formatting.plural(simulated, 'simulated job')}",
        "scored": f"all {formatting.plural(report.scored, 'scored job')}",
        "periods": _population_of_periods(report),
        "since": f"all {formatting.plural(report.jobs, 'job')}",
    }


def _population_of_periods(report: Report) -> str:
    if report.happened.periods is None:
        return ""
    before, after = report.happened.periods
    return f"{before.jobs:,} before and {after.jobs:,} after, all that ran and whose start is known"


def _with_enough_jobs(all_groups: Sequence[groups.Group]) -> Sequence[groups.Group]:
    """Return the groups whose means say something."""
    return [group for group in all_groups if group.jobs >= groups.LEAST_JOBS]


def _breakable(spec: str) -> Markup:
    """Allow line breaks after colons, commas and pluses in a predictor's specification."""
    return Markup("<wbr>").join(re.split(r"(?<=[:,+])(?=[a-z])", spec))


def whole_options(text: str) -> Markup:
    """Keep options such as ``--processors`` on one line."""
    option = Markup('<code class="option">{}</code>')
    parts = enumerate(re.split(r"(--[a-z-]+)", text))
    # Every second part is an option.
    return Markup("").join(option.format(part) if number % 2 else _breakable(part) for number, part in parts)


def _interval(relative: Interval) -> Markup:
    """Format a relative change; its interval stays on one line."""
    mean, space, between = recommendation.change(relative).partition(" ")
    return Markup('{} <span class="interval">{}</span>').format(mean, between) if space else escape(mean)


def _seconds_interval(change: Interval) -> Markup:
    """Format a change in seconds; its interval stays on one line."""
    mean, low, high = (_signed(value) for value in (change.mean, change.low, change.high))
    between = f"({low} to {high})" if low and high else ""
    return Markup('{} <span class="interval">{}</span>').format(mean, between)


def _signed(seconds: float | None) -> str:
    return "" if seconds is None else f"{'+' if seconds > 0 else ''}{formatting.duration(seconds)}"


def _changes_of_waits(report: Report) -> dict[str, Interval]:
    """Return the change of the mean wait of each class that both periods have."""
    pairs = periods.pair_classes(report.happened.periods) if report.happened.periods else []
    return {
        name: periods.change_of_mean(both[0], both[1])
        for name, both in pairs
        if both[0] is not None and both[1] is not None
    }


def _extension_classes() -> Sequence[str]:
    least = predictions.EXTENSIONS
    return [str(low) if high == low + 1 else f"{low} to {high - 1}" for low, high in pairwise(least)] + [
        f"{least[-1]} or more"
    ]
