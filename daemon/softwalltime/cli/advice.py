"""What is recommended, for the output of ``tune`` and ``policy compare``."""

from dataclasses import dataclass

from softwalltime.cli.output import Output
from softwalltime.reports.recommendation import Recommendation


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


def print_advice(output: Output, advice: Advice) -> None:
    """Print the verdict, then reasons and cautions."""
    output.line()
    output.paragraph(advice.sentence, "strong")
    for sentence in advice.reasons:
        output.paragraph(sentence)
    for sentence in advice.cautions:
        output.paragraph(sentence, "warning")
