"""Hook events as pbs_server records them (``set hook H debug=true``): reads ``.in`` and ``.data``, writes ``.out``.

::

    NAME.in     the request and the event:    pbs.event().job.Resource_List[walltime]=00:05:00
    NAME.data   what the hook could look up:  pbs.server().queue(short).resources_default[walltime]=00:30:00
    NAME.out    what the hook set:            pbs.event().job.Resource_List[soft_walltime]=120
"""

import re
from pathlib import Path
from typing import Final, Literal, TypeAlias

from softwalltime.core.errors import SourceError
from softwalltime.emulation.pbs import attribute_types
from softwalltime.emulation.pbs.hook_runner import HookOutcome, is_array
from softwalltime.emulation.pbs.objects import Job, ResourceList, changed_resources
from softwalltime.emulation.pbs.pbs_events import NAMES, Event, Site

_LINE = re.compile(
    r"""
    (?P<object> pbs\.\w+\(\) (?: \.job (?: \([^)]*\) )? | \.queue \([^)]*\) )? )
    (?: \. (?P<name> \w+ ) )?
    (?: \[ (?P<resource> [^\]]+ ) \] )?
    = (?P<value> .* )
    """,
    re.DOTALL | re.VERBOSE,
)
_LOOKED_UP = re.compile(r"pbs\.server\(\)\.(job|queue)\(([^)]*)\)")
_ORDER: Final = {
    "job": {name: index for index, name in enumerate(attribute_types.JOB)},
    "queue": {name: index for index, name in enumerate(attribute_types.QUEUE)},
    "server": {name: index for index, name in enumerate(attribute_types.SERVER)},
}
_PRINTED_BY_PYTHON: Final = {
    "duration": "long",
    "pbs_int": "long",
    "pbs_float": "float",
    "pbs_bool": "boolean",
    "size": "size",
}

_Mutable: TypeAlias = dict[str, str | dict[str, str]]


def read(path: Path, *, offline: bool = False) -> Event:
    """The recorded event: ``path`` names the ``.in`` file, and the ``.data`` file lies beside it.

    :param offline: as ``pbs_python --hook`` shows it, which knows no job but the one in the request.
    """
    request, event = _read_request(path)
    jobs, queues, server = _read_data(path.with_suffix(".data"))
    name = event.get("type", "")
    if name not in NAMES:
        raise SourceError(f"{path}: no event of type {name!r} is emulated")
    host = event.get("get_local_nodename", "pbs")
    original = next(iter(jobs.items()), None)
    site = Site(host=host, server=server, queues=queues, jobs=jobs)
    return Event(
        name=name,
        job=request if name in ("queuejob", "modifyjob") or original is None else original[1],
        job_id="" if name == "queuejob" or original is None or offline else original[0],
        original=original[1] if name == "modifyjob" and original is not None else None,
        site=site,
        requestor=event.get("requestor", ""),
        shows_original=not offline,
    )


def write(outcome: HookOutcome, event: Event, style: Literal["server", "pbs_python"] = "server") -> str:
    """The ``.out`` of a run.

    The server prints every attribute of a request and at postqueuejob and runjob what the hook has set;
    ``pbs_python --hook`` prints only what the hook has set, resources with their type.
    """
    verdict = ["pbs.event().accept=True", "pbs.event().reject=False"]
    message = outcome.message
    dropped = is_array(event) and event.name == "postqueuejob"
    if dropped:
        message = "request rejected by filter hook: "  # PBS's text; the array is unchanged.
    if dropped or not outcome.hook_accepted:
        verdict = ["pbs.event().reject=True", "pbs.event().accept=False"]
        if message and not (style == "pbs_python" and outcome.error):
            verdict.append(f"pbs.event().reject_msg={message}")
        return "\n".join(verdict) + "\n"
    if style == "pbs_python":
        return "\n".join(verdict + _set_by_hook(outcome, event, with_types=True)) + "\n"
    if event.name in ("postqueuejob", "runjob"):
        return "\n".join(_set_by_hook(outcome, event, with_types=False) + verdict) + "\n"
    return "\n".join(verdict + _all_of(outcome.pbs.event().job, event)) + "\n"


def _read_request(path: Path) -> tuple[_Mutable, dict[str, str]]:
    """Return the request's attributes and the values of the event."""
    request: _Mutable = {}
    event: dict[str, str] = {}
    for number, line in enumerate(_lines(path), 1):
        found = _LINE.fullmatch(line)
        if found is None:
            raise SourceError(f"{path}:{number}: not a line of a recording: {line[:60]!r}")
        if found["object"] == "pbs.event().job" and found["name"]:
            _put(request, found["name"], found["resource"], found["value"])
        elif found["object"] == "pbs.get_local_nodename()":
            event["get_local_nodename"] = found["value"]
        elif found["object"] == "pbs.event()" and found["name"]:
            event[found["name"]] = found["value"]
    return request, event


def _read_data(path: Path) -> tuple[dict[str, _Mutable], dict[str, _Mutable], _Mutable]:
    """Jobs, queues and the server, each from its first block of lines.

    PBS prints an object's attributes in the order of its tables when the hook first asks for the object.  Later it
    prints resource lists again as they are indexed, under the name of whatever object was printed last: a line that
    goes back in the order belongs to no object that one could trust.
    """
    objects: dict[tuple[str, str], _Mutable] = {}
    current: tuple[str, str] | None = None
    position = -1
    for number, line in enumerate(_lines(path), 1):
        found = _LINE.fullmatch(line)
        if found is None or not found["name"]:
            raise SourceError(f"{path}:{number}: not a line of a recording: {line[:60]!r}")
        looked_up = _LOOKED_UP.fullmatch(found["object"])
        key = (looked_up[1], looked_up[2]) if looked_up else ("server", "")
        order = _ORDER[key[0]].get(found["name"], -1)
        if key != current:
            current, position = (key, -1) if key not in objects else (None, -1)
        if current is None:
            continue
        if order < position or found["resource"] in objects.get(key, {}).get(found["name"], {}):
            position = len(attribute_types.JOB)  # the block is over
            continue
        position = order
        _put(objects.setdefault(key, {}), found["name"], found["resource"], found["value"])
    jobs = {name: found for (kind, name), found in objects.items() if kind == "job"}
    queues = {name: found for (kind, name), found in objects.items() if kind == "queue"}
    return jobs, queues, objects.get(("server", ""), {})


def _lines(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(f"cannot read {path}: {error}") from error
    # A value may contain line breaks; a line that starts no entry continues the previous one.
    return [line for line in re.split(r"\n(?=pbs\.|\Z)", text) if line]


def _put(attributes: _Mutable, name: str, resource: str | None, value: str) -> None:
    if resource is None:
        attributes[name] = value
        return
    resources = attributes.setdefault(name, {})
    if isinstance(resources, dict):
        resources[resource] = value


def _all_of(job: Job, event: Event) -> list[str]:
    """Return all attributes of the request after the hook, in PBS's order."""
    lines = []
    unchanged = (event.original or {}).get("Variable_List")
    for name in attribute_types.JOB:
        if name in ("queue", "server"):
            continue
        value = getattr(job, name)
        if isinstance(value, ResourceList):
            lines += [f"pbs.event().job.{name}[{resource}]={value[resource]}" for resource in value.keys()]  # noqa: SIM118 - as a mapping of PBS has it
        elif value is not None and not (name == "Variable_List" and str(value) == unchanged):
            lines.append(f"pbs.event().job.{name}={value}")
    return lines


def _set_by_hook(outcome: HookOutcome, event: Event, *, with_types: bool) -> list[str]:
    kinds = {**attribute_types.RESOURCES, **event.site.resources}
    resources = changed_resources(outcome.pbs.event().job)
    lines = []
    for name in attribute_types.JOB:
        if name == "Resource_List":
            for resource, kind in kinds.items():
                if resource in resources:
                    suffix = "," + _PRINTED_BY_PYTHON.get(kind, "string") if with_types else ""
                    lines.append(f"pbs.event().job.Resource_List[{resource}{suffix}]={resources[resource]}")
        elif name in outcome.attributes and name != "queue":
            lines.append(f"pbs.event().job.{name}={outcome.attributes[name]}")
    return lines
