"""``softwalltime doctor``: check PBS, hook, daemon and store."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click

from softwalltime import __version__
from softwalltime.errors import UsageError
from softwalltime.formatting import plural


@click.command()
@click.option("--config", type=click.Path(dir_okay=False, path_type=Path), help="Settings file of the daemon.")
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Output format."
)
@click.option("--prove", is_flag=True, help="Prove with five short jobs that the scheduler uses soft walltimes.")
@click.option(
    "--user", default="", metavar="NAME", help="With --prove: who submits the jobs.  Default: who called sudo."
)
@click.option("--force", is_flag=True, help="With --prove: run although jobs run or wait.")
def doctor(config: Path | None, form: str, prove: bool, user: str, force: bool) -> int:
    """Check PBS, hook, daemon and store.

    Each problem names who must fix it.  Run the command as root on the host of the PBS server.  On
    other hosts and as another user it skips the checks that it cannot make and names them.  It changes nothing.  The
    exit status is 1 if there is a problem; advice about choices of the site and warnings do not count.

    With --prove it also creates a queue, submits five sleeping jobs to it, checks which of them the scheduler starts,
    and deletes jobs and queue again, within about a minute.  It refuses that while jobs run or wait.

    \b
    Example:
      softwalltime doctor
      softwalltime doctor --prove --user alice
    """
    from softwalltime.deployment.doctor import Doctor
    from softwalltime.deployment.finding import Finding
    from softwalltime.deployment.prove import prove as run_proof

    if (user or force) and not prove:
        raise UsageError("--user and --force are for --prove")
    checks = Doctor(config, __version__)

    def examined() -> Iterator[Finding]:
        yield from checks.examine()
        if prove:
            yield from run_proof(checks.resource, user, force=force)

    findings = []
    for finding in examined():
        findings.append(finding)
        if form == "text":
            click.echo(str(finding))
    if form == "json":
        click.echo(json.dumps([asdict(finding) for finding in findings]))
    counts = Counter(finding.verdict for finding in findings)
    wrong = ", ".join(plural(counts[verdict], verdict) for verdict in ("problem", "warning"))
    click.echo(f"{wrong}, {counts['advice']} advice, {counts['skipped']} skipped", err=True)
    return 1 if counts["problem"] else 0
