"""``softwalltime doctor``: check PBS, hook, daemon and store."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from softwalltime import __version__
from softwalltime.cli.output import Output, output_options
from softwalltime.errors import UsageError
from softwalltime.formatting import plural
from softwalltime.text_table import Meaning

if TYPE_CHECKING:
    from softwalltime.deployment.finding import Finding

COLUMNS = ("check", "verdict", "text", "act")
"""Columns of CSV: a row for each finding."""
_MEANINGS: dict[str, Meaning] = {"ok": "good", "warning": "warning", "problem": "bad", "skipped": "faint"}


@click.command()
@click.option("--config", type=click.Path(dir_okay=False, path_type=Path), help="Settings file of the daemon.")
@click.option("--prove", is_flag=True, help="Prove with five short jobs that the scheduler uses soft walltimes.")
@click.option(
    "--submit-as",
    "user",
    default="",
    metavar="NAME",
    help="With --prove: who submits the jobs.  Default: who called sudo.",
)
@click.option("--force", is_flag=True, help="With --prove: run although jobs run or wait.")
@output_options
def doctor(config: Path | None, output: Output, prove: bool, user: str, force: bool) -> int:
    """Check PBS, hook, daemon and store.

    Each problem names who must fix it.  Run the command as root on the host of the PBS server.  On
    other hosts and as another user it skips the checks that it cannot make and names them.  It changes nothing.  The
    exit status is 1 if there is a problem; advice about choices of the site and warnings do not count.

    With --prove it also creates a queue, submits five sleeping jobs to it, checks which of them the scheduler starts,
    and deletes jobs and queue again, within about a minute.  It refuses that while jobs run or wait.

    \b
    Example:
      softwalltime doctor
      softwalltime doctor --prove --submit-as alice
    """
    from softwalltime.deployment.doctor import Doctor
    from softwalltime.deployment.finding import Finding
    from softwalltime.deployment.prove import prove as run_proof

    if (user or force) and not prove:
        raise UsageError("--submit-as and --force are for --prove")
    checks = Doctor(config, __version__)

    def examined() -> Iterator[Finding]:
        yield from checks.examine()
        if prove:
            yield from run_proof(checks.resource, user, force=force)

    findings = []
    for finding in examined():
        findings.append(finding)
        if output.form == "table":
            _print(output, finding)
    if output.form == "json":
        output.document(findings)
    elif output.form == "csv":
        output.rows(COLUMNS, map(asdict, findings))
    counts = Counter(finding.verdict for finding in findings)
    wrong = ", ".join(plural(counts[verdict], verdict) for verdict in ("problem", "warning"))
    click.echo(f"{wrong}, {counts['advice']} advice, {counts['skipped']} skipped", err=True)
    return 1 if counts["problem"] else 0


def _print(output: Output, finding: "Finding") -> None:
    """Print a finding; in a terminal its verdict is coloured, and what to do has a line of its own."""
    if not output.terminal:
        output.line(str(finding))
        return
    verdict = output.style(f"{finding.verdict:<9}", _MEANINGS.get(finding.verdict, ""))
    output.paragraph(f"{verdict}{output.style(finding.check, 'strong')}: {finding.text}", indent=9)
    if finding.act:
        output.paragraph(f"{'':9}-> {finding.act}", indent=12)
