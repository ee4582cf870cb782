"""PBS's objects in a hook: event, job, queue, server and resource lists.

They are strict: an unknown attribute raises, and so does an assignment that the event does not permit.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any, ClassVar, NoReturn

from softwalltime.emulation.pbs import attribute_types, value_types
from softwalltime.emulation.pbs.pbs_events import HOOK_NAME, Attributes, Event
from softwalltime.emulation.pbs.value_types import (
    BadAttributeValueError,
    BadAttributeValueTypeError,
    BadResourceValueTypeError,
    EventIncompatibleError,
    UnsetAttributeNameError,
    UnsetResourceNameError,
)


@dataclass(slots=True)
class HookRun:
    """State of one run of a hook: the event, and whether it was accepted or rejected."""

    event: Event
    accepted: bool = True
    over: bool = False
    message: str = ""
    resources: Mapping[str, str] = field(init=False)
    """Type of each resource of the site."""

    def __post_init__(self) -> None:
        self.resources = _resources(tuple(self.event.site.resources.items()))

    def check(self, readonly: bool, name: str) -> None:
        if self.over:
            raise AssertionError(
                f"Not permitted to modify attributes (name={name}): an event.accept() or event.reject() already called."
            )
        if readonly:
            raise BadAttributeValueError(f"attribute '{name}' is part of a readonly object")


@lru_cache(maxsize=8)
def _resources(own: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    return MappingProxyType({**attribute_types.RESOURCES, **dict(own)})


class _State:
    """State of an object or a resource list in one run; ``_lazy``: resource lists are empty until they are indexed."""

    _run: HookRun
    _readonly: bool
    _lazy: bool
    _changes: dict[str, Any]


class PbsObject(_State):
    """An object with the attributes of a table; one that is not set is ``None``."""

    _class: ClassVar[str]
    _table: ClassVar[Mapping[str, str]]
    _label: ClassVar = "name"
    _name: str
    _attributes: Attributes

    def __init__(self, run: HookRun, name: str, attributes: Attributes, *, readonly: bool = True) -> None:
        lazy = readonly or run.event.name in ("postqueuejob", "runjob")
        self.__dict__.update(_run=run, _name=name, _attributes=attributes, _readonly=readonly, _lazy=lazy, _changes={})
        self.__dict__[self._label] = name

    def __str__(self) -> str:
        return self._name

    def __getattr__(self, name: str) -> Any:
        kind = self._table.get(name)
        if kind is None:
            raise AttributeError(f"'_{self._class}' object has no attribute '{name}'")
        raw: Any = self._attributes.get(name)
        value: Any
        if kind == "resources":
            value = ResourceList(self, name, raw or {})
        elif kind == "queue" and raw:
            # A server's default queue, and the queue of a request, have only a name.
            known = self._run.event.site.queues.get(raw, {}) if self._lazy and not isinstance(self, Server) else {}
            value = Queue(self._run, raw, known)
        elif kind == "server" and raw is not None:
            value = Server(self._run, self._run.event.site.host, self._run.event.site.server)
        else:
            value = raw if raw is None else value_types.loaded(kind, raw)
        self.__dict__[name] = value
        return value

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse an unknown name, and a change of an object that no request can change."""
        if name not in self._table and name != self._label:
            raise UnsetAttributeNameError(f"{self._class} attribute '{name}' not found")
        self._run.check(self._readonly, name)


class ResourceList(_State):
    """Resources of a job, queue or server: ``job.Resource_List["walltime"]``."""

    _attribute: str
    _resources: Mapping[str, str]
    _values: dict[str, Any]
    _texts: bool

    def __init__(self, owner: PbsObject, attribute: str, resources: Mapping[str, str]) -> None:
        self.__dict__.update(
            _run=owner._run,
            _attribute=attribute,
            _resources=resources,
            _changes={},
            _values={},
            _readonly=owner._readonly,
            _lazy=owner._lazy,
            # At queuejob durations of queues and the server are plain texts (measured).
            _texts=owner._run.event.name == "queuejob" and not isinstance(owner, Job),
        )

    def __getitem__(self, name: str) -> Any:
        self.__dict__["_lazy"] = False
        return getattr(self, name)

    def __getattr__(self, name: str) -> Any:
        kind = self._run.resources.get(name)
        if kind is None:
            raise AttributeError(f"'pbs_resource' object has no attribute '{name}'")
        if self._lazy:
            return None
        if name not in self._values:
            raw = self._resources.get(name)
            self._values[name] = raw if raw is None or self._texts else value_types.loaded(kind, raw)
        return self._values[name]

    def __setitem__(self, name: str, value: object) -> None:
        self.__dict__["_lazy"] = False
        setattr(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        run = self._run
        if name not in run.resources:
            # PBS ignores the case of a resource's name in assignments only.
            name = next((known for known in run.resources if known.lower() == name.lower()), name)
        kind = run.resources.get(name)
        if kind is None:
            raise UnsetResourceNameError(f"resource attribute '{name}' not found")
        run.check(self._readonly, self._attribute)
        if self._attribute not in ("Resource_List", "estimated"):
            raise BadAttributeValueError(f"job attribute '{self._attribute}' is readonly")
        if run.event.name == "runjob" and self._attribute != "Resource_List":
            raise AssertionError(f"Can only set job's {attribute_types.JOB_SETTABLE_AT_START} under RUNJOB event")
        self._values[name] = self._changes[name] = value_types.assigned(
            kind,
            value,
            lambda why: BadResourceValueTypeError(f"value for class <pbs_resource> attribute <{name}> {why}"),
        )

    def __contains__(self, name: str) -> bool:
        # As in PBS, true for every known resource, set or not.
        return name in self._run.resources

    def keys(self) -> list[str]:
        """Return the resources that are set; none before the first access by name."""
        return [name for name in self._run.resources if getattr(self, name) is not None]

    def __str__(self) -> str:
        known = self._resources if self._lazy else {name: getattr(self, name) for name in self.keys()}
        return value_types.resource_list(known.items())


class Queue(PbsObject):
    """A queue, which a hook may only read."""

    _class = "queue"
    _table = attribute_types.QUEUE


class Server(PbsObject):
    """The server, which a hook may only read."""

    _class = "server"
    _table = attribute_types.SERVER

    def queue(self, name: str) -> Queue | None:
        if "@" in name:
            raise AssertionError(f"Got '{name}', please specify a queue name only (no @)")
        known = self._run.event.site.queues.get(name)
        return None if known is None else Queue(self._run, name, known)

    def job(self, job_id: str) -> "Job | None":
        site = self._run.event.site
        known = site.jobs.get(job_id if "." in job_id else f"{job_id}.{site.host}")
        return None if known is None else Job(self._run, job_id, known)


class Job(PbsObject):
    """A job, or a request about one."""

    _class = "job"
    _table = attribute_types.JOB
    _label = "id"

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        self._check_settable(name)
        kind, where = self._table[name], f"value for class <_job> attribute <{name}>"
        if kind != "queue":
            value = value_types.assigned(kind, value, lambda why: BadAttributeValueTypeError(f"{where} {why}"))
        elif value is not None and not isinstance(value, Queue):
            raise BadAttributeValueTypeError(f"{where} must be a queue")
        self.__dict__[name] = self._changes[name] = value

    def _check_settable(self, name: str) -> None:
        event = self._run.event.name
        if name == "Variable_List":
            raise BadAttributeValueError("attribute 'Variable_List' cannot be directly set.")
        if event == "runjob":
            if name not in attribute_types.JOB_SETTABLE_AT_START:
                raise AssertionError(
                    f"Can only set job's {attribute_types.JOB_SETTABLE_AT_START} under RUNJOB event - got {name}"
                )
            if name == "Resource_List":
                raise BadAttributeValueTypeError(
                    "value for class <_job> attribute <Resource_List> must be a pbs_resource"
                )
            return
        if name == "id":
            raise BadAttributeValueError("attribute 'id' is readonly")
        if name in ("Resource_List", "estimated"):
            raise AssertionError(f"can't set the head resource '{name}' directly")
        if name not in attribute_types.JOB_SETTABLE or (name == "queue" and event != "queuejob"):
            raise BadAttributeValueError(f"job attribute '{name}' is readonly")


class EventObject:
    """``pbs.event()``."""

    _attributes: ClassVar = ("type", "hook_name", "hook_type", "requestor", "requestor_host", "freq")

    def __init__(self, run: HookRun) -> None:
        event, request = run.event, run.event.job
        parameters: dict[str, Any] = {}
        if event.name == "modifyjob":
            original = event.original or {}
            # The variables of a request start with the job's.
            if "Variable_List" in original and not request.get("Variable_List"):
                request = {**request, "Variable_List": original["Variable_List"]}
            shown = event.original is not None and event.shows_original
            parameters["job_o"] = Job(run, event.job_id, original) if shown else None
        parameters["job"] = Job(run, event.job_id, request, readonly=False)
        self.__dict__.update(
            _run=run,
            _param=parameters,
            type=attribute_types.CONSTANTS[event.name.upper()],
            hook_name=HOOK_NAME,
            hook_type="site",
            requestor=event.requestor,
            requestor_host=event.site.host,
            freq=None,
        )

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_param"][name]
        except KeyError:
            raise EventIncompatibleError(f'"{name}" not found in self._param') from None

    def __setattr__(self, name: str, value: object) -> None:
        if name in self.__dict__["_param"]:
            raise BadAttributeValueError(f"event attribute '{name}' is readonly")
        if name not in self._attributes:
            raise UnsetAttributeNameError(f"event attribute '{name}' not found")
        raise BadAttributeValueError(f"attribute '{name}' is part of a readonly object")

    def accept(self, ecode: int = 0) -> NoReturn:
        run: HookRun = self._run
        run.accepted, run.over = True, True
        raise SystemExit(str(ecode))

    def reject(self, emsg: str = "", ecode: int = 255) -> NoReturn:
        run: HookRun = self._run
        run.accepted, run.over, run.message = False, True, emsg
        raise SystemExit(str(ecode))


def changed(job: Job) -> dict[str, Any]:
    return job._changes


def changed_resources(job: Job) -> dict[str, Any]:
    resources = job.__dict__.get("Resource_List")
    return resources._changes if isinstance(resources, ResourceList) else {}
