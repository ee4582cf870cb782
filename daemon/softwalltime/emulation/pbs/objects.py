"""PBS's objects in a hook: event, job, queue, server and resource lists.

They are strict: an unknown attribute raises, and so does an assignment that the event does not permit.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, ClassVar, NoReturn

from softwalltime.emulation.pbs import attribute_types, value_types
from softwalltime.emulation.pbs.pbs_events import Attributes, Event, Site
from softwalltime.emulation.pbs.value_types import (
    BadAttributeValueError,
    BadAttributeValueTypeError,
    BadResourceValueTypeError,
    EventIncompatibleError,
    UnsetAttributeNameError,
    UnsetResourceNameError,
)


class HookRun:
    """State of one run of a hook: the event, and whether it was accepted or rejected."""

    __slots__ = ("accepted", "event", "message", "over", "resources")

    def __init__(self, event: Event) -> None:
        self.event = event
        self.over = False
        self.accepted = True
        self.message = ""
        self.resources = resources_of(event.site)

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


def resources_of(site: Site) -> Mapping[str, str]:
    return _resources(tuple(site.resources.items()))


class PbsObject:
    """An object with the attributes of a table; one that is not set is ``None``."""

    _class: ClassVar[str]
    _table: ClassVar[Mapping[str, str]]
    _own: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, run: HookRun, name: str, attributes: Attributes, *, readonly: bool = True) -> None:
        self.__dict__.update(_run=run, _name=name, _attributes=attributes, _readonly=readonly, _changes={})

    def __str__(self) -> str:
        return str(self.__dict__["_name"])

    def __getattr__(self, name: str) -> Any:
        kind = self._table.get(name)
        if kind is None:
            raise AttributeError(f"'_{self._class}' object has no attribute '{name}'")
        state = self.__dict__
        raw = state["_attributes"].get(name) if kind != "pbs_env" else self._raw(name)
        value: Any
        if kind == "resources":
            value = ResourceList(self, name, raw or {})
        elif raw is None:
            value = None
        elif kind == "queue":
            value = self._queue(raw) if raw else raw
        elif kind == "server":
            value = Server(state["_run"], state["_run"].event.site.host, state["_run"].event.site.server)
        else:
            value = value_types.loaded(kind, raw)
        state[name] = value
        return value

    def _raw(self, name: str) -> Any:
        return self.__dict__["_attributes"].get(name)

    def _lazy(self) -> bool:
        """Whether resource lists are empty until they are indexed, as those that the server populates."""
        return True

    def _queue(self, name: str) -> "Queue":
        return Queue(self.__dict__["_run"], name, self.__dict__["_run"].event.site.queues.get(name, {}))

    def __setattr__(self, name: str, value: object) -> None:
        if name not in self._table and name not in self._own:
            raise UnsetAttributeNameError(f"{self._class} attribute '{name}' not found")
        state = self.__dict__
        state["_run"].check(state["_readonly"], name)
        self._check_settable(name)
        kind = self._table[name]
        state[name] = self._assigned(name, kind, value)
        state["_changes"][name] = state[name]

    def _check_settable(self, name: str) -> None:
        raise BadAttributeValueError(f"attribute '{name}' is part of a readonly object")

    def _assigned(self, name: str, kind: str, value: object) -> Any:
        if kind == "queue":
            if value is not None and not isinstance(value, Queue):
                raise BadAttributeValueTypeError(f"value for class <_job> attribute <{name}> must be a queue")
            return value
        return value_types.assigned(
            kind, value, lambda why: BadAttributeValueTypeError(f"value for class <_job> attribute <{name}> {why}")
        )


class ResourceList:
    """Resources of a job, queue or server: ``job.Resource_List["walltime"]``."""

    def __init__(self, owner: "PbsObject", attribute: str, resources: Mapping[str, str]) -> None:
        of_owner = owner.__dict__
        run: HookRun = of_owner["_run"]
        self.__dict__.update(
            _run=run,
            _attribute=attribute,
            _resources=resources,
            _changes={},
            _values={},
            _readonly=of_owner["_readonly"],
            _lazy=owner._lazy(),
            # At queuejob durations of queues and the server are plain texts (measured).
            _texts=run.event.name == "queuejob" and not isinstance(owner, Job),
        )

    def __getitem__(self, name: str) -> Any:
        state = self.__dict__
        state["_lazy"] = False
        kind = state["_run"].resources.get(name)
        return getattr(self, name) if kind is None else self._value(state, name, kind)

    def __getattr__(self, name: str) -> Any:
        state = self.__dict__
        kind = state["_run"].resources.get(name)
        if kind is None:
            raise AttributeError(f"'pbs_resource' object has no attribute '{name}'")
        return None if state["_lazy"] else self._value(state, name, kind)

    @staticmethod
    def _value(state: dict[str, Any], name: str, kind: str) -> Any:
        known = state["_values"]
        if name not in known:
            raw = state["_resources"].get(name)
            known[name] = None if raw is None else raw if state["_texts"] else value_types.loaded(kind, raw)
        return known[name]

    def __setitem__(self, name: str, value: object) -> None:
        self.__dict__["_lazy"] = False
        setattr(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        state = self.__dict__
        run: HookRun = state["_run"]
        if name not in run.resources:
            # PBS ignores the case of a resource's name in assignments only.
            name = next((known for known in run.resources if known.lower() == name.lower()), name)
        kind = run.resources.get(name)
        if kind is None:
            raise UnsetResourceNameError(f"resource attribute '{name}' not found")
        run.check(state["_readonly"], state["_attribute"])
        if state["_attribute"] not in ("Resource_List", "estimated"):
            raise BadAttributeValueError(f"job attribute '{state['_attribute']}' is readonly")
        if run.event.name == "runjob" and state["_attribute"] != "Resource_List":
            raise AssertionError(f"Can only set job's {attribute_types.JOB_SETTABLE_AT_START} under RUNJOB event")
        state["_values"][name] = state["_changes"][name] = value_types.assigned(
            kind,
            value,
            lambda why: BadResourceValueTypeError(f"value for class <pbs_resource> attribute <{name}> {why}"),
        )

    def __contains__(self, name: str) -> bool:
        # As in PBS, true for every known resource, set or not.
        return name in self.__dict__["_run"].resources

    def keys(self) -> list[str]:
        """Return the resources that are set; none before the first access by name."""
        state = self.__dict__
        return [] if state["_lazy"] else [name for name in state["_run"].resources if getattr(self, name) is not None]

    def __str__(self) -> str:
        if self.__dict__["_lazy"]:
            return value_types.resource_list(self.__dict__["_resources"].items())
        return value_types.resource_list((name, getattr(self, name)) for name in self.keys())


class Queue(PbsObject):
    """A queue, which a hook may only read."""

    _class = "queue"
    _table = attribute_types.QUEUE
    _own = frozenset({"name"})

    @property
    def name(self) -> str:
        return str(self)

    def job(self, job_id: str) -> "Job | None":
        job = Server(self.__dict__["_run"], "", {}).job(job_id)
        return job if job is not None and str(job.queue) == str(self) else None


class Server(PbsObject):
    """The server, which a hook may only read."""

    _class = "server"
    _table = attribute_types.SERVER
    _own = frozenset({"name"})

    @property
    def name(self) -> str:
        return str(self)

    def _queue(self, name: str) -> Queue:
        return Queue(self.__dict__["_run"], name, {})  # default_queue has only its name

    def queue(self, name: str) -> Queue | None:
        if "@" in name:
            raise AssertionError(f"Got '{name}', please specify a queue name only (no @)")
        known = self.__dict__["_run"].event.site.queues.get(name)
        return None if known is None else Queue(self.__dict__["_run"], name, known)

    def queues(self) -> Iterator[Queue]:
        run: HookRun = self.__dict__["_run"]
        return (Queue(run, name, known) for name, known in run.event.site.queues.items())

    def job(self, job_id: str) -> "Job | None":
        run: HookRun = self.__dict__["_run"]
        known = run.event.site.jobs.get(job_id if "." in job_id else f"{job_id}.{run.event.site.host}")
        return None if known is None else Job(run, job_id, known)

    def jobs(self) -> "Iterator[Job]":
        run: HookRun = self.__dict__["_run"]
        return (Job(run, name, known) for name, known in run.event.site.jobs.items())

    def vnode(self, name: str) -> NoReturn:
        raise NotImplementedError("the emulation has no vnodes")

    resv = vnode


class Job(PbsObject):
    """A job, or a request about one."""

    _class = "job"
    _table = attribute_types.JOB
    _own = frozenset({"id", "failed_mom_list", "succeeded_mom_list", "_connect_server"})
    failed_mom_list = None
    succeeded_mom_list = None

    @property
    def id(self) -> str:
        return str(self)

    def _raw(self, name: str) -> Any:
        event: Event = self.__dict__["_run"].event
        if name == "Variable_List" and event.name == "modifyjob" and not self.__dict__["_readonly"]:
            # The variables of a request start with the job's.
            return super()._raw(name) or (event.original or {}).get(name)
        return super()._raw(name)

    def _lazy(self) -> bool:
        return bool(self.__dict__["_readonly"]) or self.__dict__["_run"].event.name in ("postqueuejob", "runjob")

    def _queue(self, name: str) -> Queue:
        known = super()._queue(name)
        return known if self._lazy() else Queue(self.__dict__["_run"], name, {})

    def _check_settable(self, name: str) -> None:
        event = self.__dict__["_run"].event.name
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
        if name in self._own:
            raise LookupError(f"job attribute '{name}' not found")
        if name in ("Resource_List", "estimated"):
            raise AssertionError(f"can't set the head resource '{name}' directly")
        if name not in attribute_types.JOB_SETTABLE or (name == "queue" and event != "queuejob"):
            raise BadAttributeValueError(f"job attribute '{name}' is readonly")


class EventObject:
    """``pbs.event()``."""

    _attributes: ClassVar = ("type", "hook_name", "hook_type", "requestor", "requestor_host", "freq")

    def __init__(self, run: HookRun) -> None:
        event = run.event
        job_id = "" if event.offline else event.job_id
        parameters: dict[str, Any] = {"job": Job(run, job_id, event.job, readonly=False)}
        if event.name == "modifyjob":
            parameters["job_o"] = (
                None
                if event.original is None or event.offline or not event.shows_original
                else Job(run, event.job_id, event.original)
            )
        self.__dict__.update(
            _run=run,
            _param=parameters,
            type=attribute_types.CONSTANTS[event.name.upper()],
            hook_name=event.hook_name,
            hook_type=event.hook_type,
            requestor=event.requestor,
            requestor_host=event.requestor_host or event.site.host,
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
        run: HookRun = self.__dict__["_run"]
        run.accepted, run.over = True, True
        raise SystemExit(str(ecode))

    def reject(self, emsg: str = "", ecode: int = 255) -> NoReturn:
        run: HookRun = self.__dict__["_run"]
        run.accepted, run.over, run.message = False, True, emsg
        raise SystemExit(str(ecode))


def changed(job: Job) -> dict[str, Any]:
    known: dict[str, Any] = job.__dict__["_changes"]
    return known


def changed_resources(job: Job) -> dict[str, Any]:
    resources = job.__dict__.get("Resource_List")
    known: dict[str, Any] = resources.__dict__["_changes"] if isinstance(resources, ResourceList) else {}
    return known
