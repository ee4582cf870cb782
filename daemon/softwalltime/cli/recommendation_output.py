"""Print a recommendation of ``tune`` or ``policy compare``, and write its plan file."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from softwalltime.cli.output import Output
from softwalltime.core.written import write_text

if TYPE_CHECKING:
    from softwalltime.reports.recommendation import Recommendation
    from softwalltime.reports.simulation import SimulationFigures, SimulationSkipped
    from softwalltime.reports.simulation_document import Advice


def write_plan(file: Path, found: "Recommendation", simulated: "SimulationFigures | SimulationSkipped") -> str:
    """Write the plan of a recommendation to switch a policy on; return a line that says what was done.

    :raises SourceError: if the file cannot be written.
    """
    from softwalltime.predict.policy.plan_file import plan_text
    from softwalltime.reports.plan import plan_of
    from softwalltime.reports.recommendation import Verdict
    from softwalltime.reports.simulation import SimulationSkipped

    if found.verdict is not Verdict.ON or isinstance(simulated, SimulationSkipped):
        return f"{file}: not written: no policy is recommended"
    plan = plan_of(found, simulated, datetime.now(UTC).replace(microsecond=0))
    write_text(file, plan_text(plan, file.name))
    return f"{file}: written; softwalltime policy set {file} lists what it changes"


def print_advice(output: Output, advice: "Advice") -> None:
    output.line()
    output.paragraph(advice.sentence, "strong")
    for sentence in advice.reasons:
        output.paragraph(sentence)
    for sentence in advice.cautions:
        output.paragraph(sentence, "warning")
