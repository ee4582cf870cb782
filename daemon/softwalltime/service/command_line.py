"""What a job executes, from its command line in PBS; the text of the script is where no hook can read it."""

from collections.abc import Mapping, Sequence
from typing import Any

_BEGIN, _END = "<jsdl-hpcpa:Argument>", "</jsdl-hpcpa:Argument>"
_ENTITIES = (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&apos;", "'"), ("&amp;", "&"))
_OPTIONS_WITH_VALUE = "aACcejJklMmNopPqrRSuvW"
"""Options of qsub (OpenPBS, PBS Professional, TORQUE); the others are flags."""


def executed_path(job: Mapping[str, Any]) -> str:
    """Return the absolute path of a job's script, or the executable with its first argument; ``""`` if unknown.

    :param job: of a request.
    """
    command, executable, arguments, folder = (
        value if isinstance(value := job.get(name), str) else ""
        for name in ("submit_arguments", "executable", "argument_list", "workdir")
    )
    if executable:
        return " ".join([executable, *_arguments(arguments)[:1]])
    script = _operand(_arguments(command)).removeprefix("./")
    if not script or script.startswith("/"):
        return script
    # After qalter -v the request's variables hide those of the submission: another path would be another script.
    return f"{folder}/{script}" if folder else ""


def _arguments(xml: str) -> list[str]:
    """Return the complete arguments of a command line before the first part that is none; the hook may have cut it."""
    arguments = []
    for part in xml.split(_END)[:-1]:
        if not part.startswith(_BEGIN):
            break
        argument = part[len(_BEGIN) :]
        for entity, character in _ENTITIES if "&" in argument else ():
            argument = argument.replace(entity, character)
        arguments.append(argument)
    return arguments


def _operand(arguments: Sequence[str]) -> str:
    """Return the script in the arguments of qsub as it is given; ``""`` without one, as from standard input."""
    following = iter(arguments)
    for argument in following:
        if not argument.startswith("-"):
            return argument
        if argument in ("-", "--"):
            break
        # The value of an option is the rest of the argument, or the next one.
        option = next((at for at, letter in enumerate(argument) if letter in _OPTIONS_WITH_VALUE), 0)
        if option == len(argument) - 1:
            next(following, None)
    return ""
