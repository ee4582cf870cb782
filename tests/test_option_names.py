"""An option name has one meaning in all commands."""

from collections import defaultdict
from collections.abc import Iterator

import click

from softwalltime.cli import cli

MEANINGS = {
    "--apply": "make the changes instead of printing them",
    "--config": "the settings file",
    "--formula": "job_sort_formula",
    "--group": "the jobs' group",
    "--if": "a job that is not submitted, or how one would be altered, to forecast",
    "--log": "a source of recorded jobs",
    "--order": "the order of the queue",
    "--ordering": "what gives the ordering value",
    "--output": "the file that the command writes",
    "--plan": "the plan file of a policy; of me a job to plan",
    "--preset": "a set of values of the policy",
    "--policies": "a TOML file with a table for each policy",
    "--predictor": "a predictor",
    "--predictors": "predictors, separated by commas",
    "--processes": "number of processes on this host",
    "--processors": "size of the machine",
    "--project": "the jobs' project",
    "--pseudonyms": "replace names, with the key in this file",
    "--queue": "the jobs' queue",
    "--running": "what gives the value of running jobs",
    "--runs": "number of runs for the ranges",
    "--seeds": "seeds of shaken workloads",
    "--server": "name of the PBS server",
    "--share": "share of the users for whom values are set",
    "--simulated-jobs": "number of the newest jobs to simulate",
    "--snapshot": "the state of a PBS server in a file",
    "--socket": "the socket of the process that answers",
    "--user": "the jobs' user",
    "--waiting": "what gives the value of waiting jobs",
}
"""The meaning of the names that commands describe in different words, reviewed by a person."""


def options(group: click.Group, path: str = "") -> Iterator[tuple[str, str, click.Option]]:
    """Each name of an option, the command, and the option."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from options(command, f"{path} {name}".strip())
            continue
        assert command is not None
        for option in command.params:
            if isinstance(option, click.Option):
                for written in option.opts:
                    if written.startswith("--"):
                        yield written, f"{path} {name}".strip(), option


def test_an_option_name_has_one_type_and_one_meaning_in_all_commands() -> None:
    kinds: dict[str, set[object]] = defaultdict(set)
    words: dict[str, set[str]] = defaultdict(set)
    used: dict[str, list[str]] = defaultdict(list)
    for name, command, option in options(cli):
        kinds[name].add((option.is_flag, option.type.name.removesuffix(" range")))
        words[name].add(option.help or "")
        used[name].append(command)
    # Of tune --order is a flag: the order is what is searched.  Of me --plan is a job script or options of qsub.
    assert {name for name, found in kinds.items() if len(found) > 1} == {"--order", "--plan"}
    different = {name for name, found in words.items() if len(found) > 1}
    assert different == set(MEANINGS), "give the option another name, the same help, or its meaning here"
