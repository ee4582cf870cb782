"""What a doctor found, as tests look at it."""

from collections.abc import Iterable

from softwalltime.deployment.finding import Finding


def bad(findings: Iterable[Finding]) -> list[tuple[str, str]]:
    """The checks that are not well, each with its verdict; somebody must act on every one."""
    found = [finding for finding in findings if finding.verdict in ("advice", "warning", "problem")]
    assert all(finding.act for finding in found)
    return [(finding.check, finding.verdict) for finding in found]
