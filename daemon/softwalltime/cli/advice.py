"""What is recommended: for the output of ``tune`` and ``policy compare``, and as a plan file."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from softwalltime.cli.output import Output
from softwalltime.cli.written import write_text
from softwalltime.policy.plan_file import plan_text
from softwalltime.reports.plan import plan_of
from softwalltime.reports.recommendation import Recommendation, Verdict
from softwalltime.reports.simulation import SimulationFigures, SimulationSkipped


@dataclass(frozen=True, slots=True)
class Advice:
    """The verdict and its reasons."""

    verdict: str
    """on: switch the policy on; off: do not; unknown: the simulation cannot tell."""
    name: str | None
    """The recommended policy; null: none."""
    sentence: str
    """The verdict in a sentence."""
    reasons: tuple[str, ...]
    """Reasons of the verdict, one sentence for each."""
    cautions: tuple[str, ...]
    """What to consider before following it, a sentence each."""


def advice_of(found: Recommendation) -> Advice:
    """Return the advice to print."""
    name = None if found.waits is None else found.waits.setting.name
    return Advice(found.verdict.name.lower(), name, found.sentence, found.reasons, found.cautions)


def write_plan(file: Path, found: Recommendation, simulated: SimulationFigures | SimulationSkipped) -> str:
    """Write the plan of a recommendation to switch a policy on; return a line that says what was done.

    :raises SourceError: if the file cannot be written.
    """
    if found.verdict is not Verdict.ON or isinstance(simulated, SimulationSkipped):
        return f"{file}: not written: no policy is recommended"
    plan = plan_of(found, simulated, datetime.now(UTC).replace(microsecond=0))
    write_text(file, plan_text(plan, file.name))
    return f"{file}: written; softwalltime policy set {file} lists what it changes"


def print_advice(output: Output, advice: Advice) -> None:
    """Print the verdict, then reasons and cautions."""
    output.line()
    output.paragraph(advice.sentence, "strong")
    for sentence in advice.reasons:
        output.paragraph(sentence)
    for sentence in advice.cautions:
        output.paragraph(sentence, "warning")
