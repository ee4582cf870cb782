"""Print a recommendation of ``tune`` or ``policy compare``, and write its plan file."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from softwalltime.cli.output import Output
from softwalltime.core.written import write_text

if TYPE_CHECKING:
    from softwalltime.reports.recommendation import Recommendation
    from softwalltime.reports.simulation import SimulationFigures, SimulationSkipped
    from softwalltime.reports.simulation_document import Advice


def write_plan(
    output: Output, file: Path | None, found: "Recommendation", simulated: "SimulationFigures | SimulationSkipped", *,
    err: bool = False,
) -> None:  # fmt: skip
    """Write the plan of a recommendation to switch a policy on, and print what was done.

    :param file: ``None``: no plan is asked for.
    :param err: print it on standard error, as where standard output holds a document.
    :raises SourceError: if the file cannot be written.
    """
    if file is None:
        return
    from softwalltime.predict.policy.plan_file import plan_text
    from softwalltime.reports.plan import plan_of
    from softwalltime.reports.recommendation import Verdict
    from softwalltime.reports.simulation import SimulationSkipped

    if found.verdict is not Verdict.ON or isinstance(simulated, SimulationSkipped):
        done = "not written: no policy is recommended"
    else:
        plan = plan_of(found, simulated, datetime.now(UTC).replace(microsecond=0))
        write_text(file, plan_text(plan, file.name))
        done = f"written; softwalltime policy set {file} lists what it changes"
    click.echo(f"{file}: {done}", err=err or output.form != "table")


def print_advice(output: Output, advice: "Advice") -> None:
    output.line()
    output.paragraph(advice.sentence, "strong")
    for sentence in advice.reasons:
        output.paragraph(sentence)
    for sentence in advice.cautions:
        output.paragraph(sentence, "warning")
