"""The emulated module ``pbs`` that a hook imports."""

from types import ModuleType
from typing import Any, Final

from softwalltime.emulation.pbs import tables, values
from softwalltime.emulation.pbs.objects import EventObject, HookRun, Server

_ERRORS: Final = {
    error.__name__: error
    for error in (
        values.EventIncompatibleError,
        values.UnsetAttributeNameError,
        values.BadAttributeValueTypeError,
        values.BadAttributeValueError,
        values.UnsetResourceNameError,
        values.BadResourceValueTypeError,
        values.BadResourceValueError,
    )
}
_NOT_EXPORTED: Final = ("str", "job_state", "queue_type", "server_state", "generic", "vnode", "resv")
_FIXED: Final[dict[str, Any]] = {
    **tables.CONSTANTS,
    **{
        f"HOOK_EVENT_{name.upper()}": tables.CONSTANTS[name.upper()]
        for name in ("queuejob", "postqueuejob", "modifyjob")
    },
    "HOOK_EVENT_RUNJOB": tables.CONSTANTS["RUNJOB"],
    **_ERRORS,
    **{name: kind for name, kind in values.TYPES.items() if name not in _NOT_EXPORTED},
    "duration_to_secs": values.seconds,
}
_WITHOUT_POSTQUEUEJOB: Final = {name: value for name, value in _FIXED.items() if "POSTQUEUEJOB" not in name}
_LEVELS: Final = frozenset(
    value for name, value in _FIXED.items() if name.startswith(("EVENT_", "LOG_")) and type(value) is int
)


class Pbs(ModuleType):
    """``pbs``; an unknown name raises AttributeError, a name that is not emulated NotImplementedError."""

    def __init__(self, run: HookRun, configuration: str | None) -> None:
        super().__init__("pbs")
        self.__dict__.update(_FIXED if run.event.site.postqueuejob else _WITHOUT_POSTQUEUEJOB)
        self.hook_config_filename = configuration
        self.lines: list[tuple[int, str]] = []
        self._run = run
        self._event = EventObject(run)
        self._server: Server | None = None

    def __getattr__(self, name: str) -> Any:
        if name in tables.ELSEWHERE or name.startswith(tables.ELSEWHERE_PREFIXES):
            raise NotImplementedError(f"the emulation has no pbs.{name}")
        raise AttributeError(f"module 'pbs' has no attribute '{name}'")

    def event(self) -> EventObject:
        return self._event

    def server(self) -> Server:
        if self._server is None:
            self._server = Server(self._run, self._run.event.site.host, self._run.event.site.server)
        return self._server

    def get_local_nodename(self) -> str:
        return self._run.event.site.host

    def logmsg(self, loglevel: int, message: str) -> None:
        if loglevel not in _LEVELS:
            raise TypeError(f"Invalid severity or eventtype value <{loglevel}>")
        message.encode()  # A lone surrogate raises, as in PBS's C code.
        self.lines.append((loglevel, message))

    def logjobmsg(self, jobid: str, message: str) -> None:
        if not jobid:
            raise ValueError("no jobid given!")
        self.logmsg(tables.CONSTANTS["EVENT_JOB"], f"{jobid};{message}")
