"""Run a hook file as pbs_server does."""

import builtins
import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from softwalltime.core.errors import SourceError
from softwalltime.emulation.pbs import attribute_types, value_types
from softwalltime.emulation.pbs.objects import EventObject, HookRun, Server, changed, changed_resources
from softwalltime.emulation.pbs.pbs_events import HOOK_NAME, Attributes, Event
from softwalltime.emulation.pbs.value_types import as_seconds

BAD_VALUE = "Illegal attribute or resource value"
SHRINK_TO_FIT = "soft_walltime is not supported with Shrink to Fit jobs"
READ_ONLY = "Cannot set attribute, read only or insufficient permission  Resource_List.soft_walltime"

_NOT_EXPORTED: Final = ("str", "job_state", "queue_type", "server_state", "generic", "vnode", "resv")


class Pbs(ModuleType):
    """``pbs``; a name that is unknown or not emulated raises AttributeError."""

    def __init__(self, run: HookRun, configuration: str | None) -> None:
        super().__init__("pbs")
        self.__dict__.update(_FIXED if run.event.site.postqueuejob else _WITHOUT_POSTQUEUEJOB)
        self.hook_config_filename = configuration
        self.lines: list[tuple[int, str]] = []
        self._event = EventObject(run)
        self._server = Server(run, run.event.site.host, run.event.site.server)

    def event(self) -> EventObject:
        return self._event

    def server(self) -> Server:
        return self._server

    def logmsg(self, loglevel: int, message: str) -> None:
        if loglevel not in _LEVELS:
            raise TypeError(f"Invalid severity or eventtype value <{loglevel}>")
        message.encode()  # A lone surrogate raises, as in PBS's C code.
        self.lines.append((loglevel, message))


@dataclass(frozen=True, slots=True)
class HookOutcome:
    """The outcome of one run.

    ``accepted``: whether PBS accepts the request; ``message``: why not; ``hook_accepted``: whether the hook accepted
    it; ``attributes`` and ``resources``: values that the hook set and PBS keeps (``""``: unset); ``soft_walltime``: the
    job's final one in seconds; ``log``: the hook's log lines with their levels; ``error``: the traceback of an
    unhandled exception of the hook; ``pbs``: the module of the run.
    """

    accepted: bool
    hook_accepted: bool
    message: str
    attributes: Mapping[str, Any]
    resources: Mapping[str, Any]
    soft_walltime: int | None
    log: list[tuple[int, str]]
    error: str
    pbs: Pbs


class HookScript:
    """A hook file, compiled once and executed in new globals for each event.

    Runs share only ``sys.modules`` and ``os.environ``, as in pbs_server.  Several threads can run the same script at
    once.

    :raises SourceError: if the file cannot be read or compiled.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._code = compile(path.read_bytes(), "<embedded code object>", "exec")
        except (OSError, SyntaxError, ValueError) as error:
            raise SourceError(f"cannot read the hook {path}: {error}") from error

    def run(self, event: Event, configuration: Path | None = None) -> HookOutcome:
        """Run the hook for an event.

        :param configuration: its configuration file, which PBS calls ``pbs.hook_config_filename``.
        """
        run = HookRun(event)
        pbs = Pbs(run, None if configuration is None else str(configuration))
        error = failure = ""
        names: dict[str, Any] = {"__builtins__": _builtins(pbs, event)}
        try:
            exec(self._code, names)  # noqa: S102 - that is what a hook is for
        except SystemExit:
            pass
        except KeyboardInterrupt:
            error, failure = traceback.format_exc(), "got an alarm call"
        except BaseException:
            error, failure = traceback.format_exc(), "encountered an exception"
        if error:
            run.accepted = False
            run.message = f"request rejected as filter hook '{HOOK_NAME}' {failure}. Please inform Admin"
        names.clear()  # PBS does this too; functions and their globals refer to each other.
        run.over = True
        return _outcome(run, pbs, error)


def restart_interpreter() -> None:
    """Drop the state that the hook keeps between runs, as a restart of PBS's interpreter does."""
    if (kept := sys.modules.pop("softwalltime_hook_kept", None)) is not None:
        kept.disconnect()


def _outcome(run: HookRun, pbs: Pbs, error: str) -> HookOutcome:
    """Apply PBS's own rules to the values that the hook has set."""
    event = run.event
    job = pbs.event().job
    attributes, resources = changed(job), changed_resources(job)
    accepted, message = run.accepted, run.message
    if accepted:
        message = refusal(event, attributes, resources)
        accepted = not message
    # At postqueuejob PBS keeps none of an array's.
    kept = {} if not accepted or (event.name == "postqueuejob" and is_array(event)) else resources
    values = {**_existing(event), **(_resources(event.job) if accepted else {}), **kept}
    soft_walltime = as_seconds(values.get("soft_walltime"))
    if event.name == "postqueuejob":
        accepted = True  # The job is queued already: PBS only logs a refusal.
    return HookOutcome(accepted, run.accepted, message, attributes, kept, soft_walltime, pbs.lines, error, pbs)


def _builtins(pbs: Pbs, event: Event) -> dict[str, Any]:
    """Return builtins whose ``import`` knows ``pbs`` and, if the event has a time, a module ``time`` with that time.

    pbs_server gives a hook globals that hold nothing but ``__builtins__``; hence ``__name__`` is found there, and is
    "builtins".
    """
    modules: dict[str, ModuleType] = {"pbs": pbs}
    if event.now is not None:
        # The wall clock stands still; the monotonic clock continues.
        modules["time"] = ModuleType("time")
        modules["time"].__dict__.update(vars(time), time=lambda: float(event.now or 0))

    def hooked(name: str, *arguments: Any, **options: Any) -> ModuleType:
        return modules[name] if name in modules else builtins.__import__(name, *arguments, **options)

    return {**vars(builtins), "__import__": hooked}


def refusal(event: Event, attributes: Mapping[str, object], resources: Mapping[str, object]) -> str:
    """Return why PBS refuses a request after the hook has set these values; ``""`` if it accepts it.

    At postqueuejob PBS checks nothing.  At runjob it accepts any value, but only of certain attributes.
    """
    if event.name == "postqueuejob":
        return ""
    if event.name == "runjob":
        if any(name in attribute_types.JOB_SETTABLE_AT_REFUSED_START for name in attributes):
            return "request rejected by filter hook: cannot modify job after runjob request has been accepted."
        chunk = [name for name in resources if name in attribute_types.RESOURCES_OF_CHUNKS]
        failed = "request rejected by filter hook: failed to set job's"
        return f"{failed} Resource_List.{chunk[0]} (not allowed)" if chunk else ""
    request, original = _resources(event.job), event.original or {}
    if request.keys() - resources.keys() >= {"soft_walltime"} and event.requestor not in event.site.managers:
        return READ_ONLY
    wanted = {**request, **{name: str(value) for name, value in resources.items()}}
    running = event.name == "modifyjob" and original.get("job_state") not in ("Q", "H", "W", "B")
    if running and (own := event.site.resources.keys() & wanted.keys()):
        return f"Cannot modify attribute while job running  Resource_List.{min(own)}"
    result = {**_existing(event), **wanted}
    soft, walltime = as_seconds(result.get("soft_walltime")), as_seconds(result.get("walltime"))
    if soft is None:
        return ""
    # PBS does not compare with a default walltime.
    if walltime is not None and soft > walltime:
        return BAD_VALUE
    return SHRINK_TO_FIT if as_seconds(result.get("min_walltime")) is not None else ""


def is_array(event: Event) -> bool:
    """Return whether the event's job is an array, such as ``5[].server``."""
    return event.job_id.partition(".")[0].endswith("[]")


def _existing(event: Event) -> Mapping[str, str]:
    """Return the resources of the job before the request."""
    if event.name == "queuejob":
        return {}
    return _resources(event.original or {}) if event.name == "modifyjob" else _resources(event.job)


def _resources(attributes: Attributes) -> Mapping[str, str]:
    values = attributes.get("Resource_List", {})
    return values if isinstance(values, Mapping) else {}


_FIXED: Final[dict[str, Any]] = {
    **attribute_types.CONSTANTS,
    **{name: kind for name, kind in value_types.TYPES.items() if name not in _NOT_EXPORTED},
    **{
        name: error
        for name, error in vars(value_types).items()
        if isinstance(error, type) and issubclass(error, Exception)
    },
}
_WITHOUT_POSTQUEUEJOB: Final = {name: value for name, value in _FIXED.items() if "POSTQUEUEJOB" not in name}
_LEVELS: Final = {value for name, value in attribute_types.CONSTANTS.items() if name.startswith(("EVENT_", "LOG_"))}
