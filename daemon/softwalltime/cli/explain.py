"""``softwalltime explain``: ask the daemon about a job that is not submitted."""

from pathlib import Path

import click

from softwalltime.accounting.conversions import clock, duration
from softwalltime.cli.command import command
from softwalltime.cli.daemon import DaemonOptions
from softwalltime.cli.output import Output
from softwalltime.cli.parameters import option, options
from softwalltime.core.formatting import plural
from softwalltime.core.jobs import DEFAULT_PROJECT
from softwalltime.service.protocol import ask

_ASKED = ("user", "queue", "project", "group", "job_name", "ncpus", "walltime")


def _duration(text: str) -> int:
    """Return the seconds of a duration in any of PBS's formats, or fail with a usage error."""
    try:
        return duration(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a duration such as 02:00:00 or 7200") from None


@options
class JobOptions:
    user: str = option("Owner of the job.")
    walltime: int | None = option("Walltime: 02:00:00, 30:00 or seconds.", type=_duration, metavar="DURATION")
    queue: str = option("Queue of the job.", default="")
    project: str = option("Project of the job.", default=DEFAULT_PROJECT)
    group: str = option("Group of the job.", default="")
    job_name: str = option("Name of the job.", default="")
    script: str = option("Script that it runs, where the hook records scripts.", default="", metavar="PATH")
    ncpus: int | None = option("Number of processors.", least=1)
    at_start: bool = option("Predict as at job start instead of at submission.")
    daemon: DaemonOptions


@command()
def explain(options: JobOptions) -> None:
    """Print the soft walltime of such a job, and why.

    Without a soft walltime the reason says why not: the prediction that is not below the walltime, or how many
    completed jobs are missing.  Nothing is recorded.

    \b
    Example:
      softwalltime explain --user user069 --walltime 24:00:00 --config softwalltime.toml
      softwalltime explain --user alice --walltime 24:00:00 --queue long
    """
    job = {name: getattr(options, name) for name in _ASKED}
    job["script_path"] = str(Path(options.script).absolute()) if options.script else None
    event = "runjob" if options.at_start else "queuejob"
    found = ask(options.daemon.socket, {"op": "explain", "event": event, "job": job})
    output = Output.given()

    def seconds(name: str) -> int | None:
        return None if found.get(name) is None else round(found[name])

    soft, ordering, predicted = map(seconds, ("soft_walltime", "ordering", "predicted"))
    what = output.style("no soft walltime", "warning")
    if soft is not None:
        what = output.style(f"soft walltime {clock(soft)} ({soft} s)", "strong")
    note = "; mode shadow: recorded, not set" if found["action"] == "shadow" else ""
    output.paragraph(f"{what}: {found['basis']} (predictor {found['predictor']}{note})")
    if ordering is not None:
        output.line(f"ordering value {clock(ordering)} ({ordering} s), for job_sort_formula")
    if found["reason"] == "not_below_walltime" and predicted is not None and options.walltime is not None:
        output.paragraph(
            f"The prediction is {clock(predicted)} ({predicted} s), the walltime {clock(options.walltime)} "
            f"({options.walltime} s): PBS plans with the walltime."
        )
    if missing := found.get("missing_jobs"):
        output.paragraph(f"A prediction needs at least {plural(missing, 'more completed job')} of this kind.")
