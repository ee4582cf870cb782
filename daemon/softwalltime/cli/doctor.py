"""``softwalltime doctor``: check PBS, hook, daemon and store."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from softwalltime.cli.command import Result, command
from softwalltime.cli.options import CONFIG
from softwalltime.cli.output import Output
from softwalltime.cli.parameters import options
from softwalltime.core.formatting import plural
from softwalltime.core.text_table import Meaning

if TYPE_CHECKING:
    from softwalltime.deployment.finding import Finding

_MEANINGS: dict[str, Meaning] = {"ok": "good", "warning": "warning", "problem": "bad", "skipped": "faint"}


@options
class DoctorOptions:
    config: Path | None = CONFIG
    output: Output


@command("a finding")
def doctor(options: DoctorOptions) -> Result[list["Finding"]]:
    """Check PBS, hook, daemon and store.

    Each problem names who must fix it.  Run the command as root on the host of the PBS server.  On
    other hosts and as another user it skips the checks that it cannot make and names them.  It changes nothing.  The
    exit status is 1 if there is a problem; advice about choices of the site and warnings do not count.

    \b
    Example:
      softwalltime doctor
    """
    from softwalltime.deployment.doctor import Doctor

    findings = []
    for finding in Doctor(options.config).examine():
        findings.append(finding)
        if options.output.form == "table":
            verdict = options.output.style(f"{finding.verdict:<9}", _MEANINGS.get(finding.verdict, ""))
            options.output.paragraph(f"{verdict}{str(finding)[9:]}", indent=9)
    counts = Counter(finding.verdict for finding in findings)
    wrong = ", ".join(plural(counts[verdict], verdict) for verdict in ("problem", "warning"))
    remark = f"{wrong}, {counts['advice']} advice, {counts['skipped']} skipped"
    return Result(findings, status=1 if counts["problem"] else 0, remarks=[remark])
