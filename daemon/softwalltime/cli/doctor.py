"""``softwalltime doctor``: check PBS, hook, daemon and store."""

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import click

from softwalltime import __version__
from softwalltime.formatting import plural


@click.command()
@click.option("--config", type=click.Path(dir_okay=False, path_type=Path), help="Settings file of the daemon.")
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Output format."
)
def doctor(config: Path | None, form: str) -> int:
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
    for finding in Doctor(config, __version__).examine():
        findings.append(finding)
        if form == "text":
            click.echo(str(finding))
    if form == "json":
        click.echo(json.dumps([asdict(finding) for finding in findings]))
    counts = Counter(finding.verdict for finding in findings)
    wrong = ", ".join(plural(counts[verdict], verdict) for verdict in ("problem", "warning"))
    click.echo(f"{wrong}, {counts['advice']} advice, {counts['skipped']} skipped", err=True)
    return 1 if counts["problem"] else 0
