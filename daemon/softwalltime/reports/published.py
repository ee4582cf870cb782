"""Compare the order of v1, v2 and v3 with the published order."""

from collections.abc import Mapping

from softwalltime.formatting import percent
from softwalltime.replay.metrics import Scores

PUBLISHED = {"v1": "over 40%", "v2": "31%", "v3": "under 12%"}
"""Shares of underestimated jobs (Chlumský & Klusáček 2022)."""


def compare_published_order(scores: Mapping[str, tuple[Scores, Scores]]) -> str:
    """Return a paragraph that compares the order and explains a difference; empty if a predictor is missing."""
    if any(spec not in scores or not scores[spec][0].jobs for spec in PUBLISHED):
        return ""
    here = {spec: scores[spec][0] for spec in PUBLISHED}
    under = [here[spec].underestimated or 0.0 for spec in PUBLISHED]
    found = ", ".join(f"{spec} {percent(here[spec].underestimated)}" for spec in PUBLISHED)
    published = ", ".join(f"{spec} {share}" for spec, share in PUBLISHED.items())
    text = f"Chlumský & Klusáček published these shares of underestimated jobs: {published}. Here: {found}"
    if under[0] > under[1] > under[2]:
        text += ", the same order."
    else:
        text += f", another order: {_why(under)}"
    return (
        f"{text} The levels depend on the workload: a job without soft walltime, or killed at its walltime, cannot be "
        f"underestimated. v1 sets no soft walltime for {percent(here['v1'].not_adjusted)} of the jobs, v3 for "
        f"{percent(here['v3'].not_adjusted)}."
    )


def _why(under: list[float]) -> str:
    if under[0] == under[1] == under[2]:
        return "the three predict too few jobs to differ."
    if under[0] <= under[1]:
        return (
            "v2 adds 900 s to v1 and never underestimates more jobs. Here no runtime lies between the two: most "
            "runtimes differ from the previous ones by more than 15 minutes, or not at all."
        )
    return (
        "v3 uses the share of the walltime that the user's last jobs used. Here these shares vary so much between "
        "jobs that v3 underestimates more often than the last runtimes plus 900 s."
    )
