"""Findings of the doctor in a form for tests."""

from collections.abc import Iterable

from softwalltime.deployment.finding import Finding


def bad(findings: Iterable[Finding]) -> list[tuple[str, str]]:
    """Return the failed checks with their verdicts; each must say who must fix it."""
    found = [finding for finding in findings if finding.verdict in ("advice", "warning", "problem")]
    assert all(finding.act for finding in found)
    return [(finding.check, finding.verdict) for finding in found]
