"""Whether v1, v2 and v3 come in the order that was published of them."""

from collections.abc import Mapping

from softwalltime.formatting import percent
from softwalltime.replay.metrics import Scores

PUBLISHED = {"v1": "over 40%", "v2": "31%", "v3": "under 12%"}
"""Shares of underestimated jobs (Chlumský & Klusáček 2022)."""


def compare_published_order(scores: Mapping[str, tuple[Scores, Scores]]) -> str:
    """A paragraph on the order of v1, v2 and v3, and why it is another one here if it is; empty if one is missing."""
    if any(spec not in scores or not scores[spec][0].jobs for spec in PUBLISHED):
        return ""
    here = {spec: scores[spec][0] for spec in PUBLISHED}
    under = [here[spec].underestimated or 0.0 for spec in PUBLISHED]
    told = ", ".join(f"{spec} {percent(here[spec].underestimated)}" for spec in PUBLISHED)
    published = ", ".join(f"{spec} {share}" for spec, share in PUBLISHED.items())
    text = f"Chlumský & Klusáček published, of jobs underestimated: {published}. Here: {told}"
    if under[0] > under[1] > under[2]:
        text += ", the same order."
    else:
        text += f", another order: {_why(under)}"
    return (
        f"{text} The levels are a workload's own: a job that gets no soft walltime, or that is killed at its "
        f"walltime, cannot be underestimated, and v1 gave none to {percent(here['v1'].not_adjusted)} of the jobs, v3 "
        f"none to {percent(here['v3'].not_adjusted)}."
    )


def _why(under: list[float]) -> str:
    if under[0] == under[1] == under[2]:
        return "none of the three predicts often enough here to tell them apart."
    if under[0] <= under[1]:
        return (
            "v2 adds 900 s to v1 and so never underestimates more jobs; here no job's runtime lies between the two, "
            "as most runtimes differ from the ones before by more than 15 minutes, or by nothing."
        )
    return (
        "v3 rests on the share of the walltime that the user's last jobs used, and here these shares change so much "
        "from job to job that it misses more often than the last runtimes with 900 s added."
    )
