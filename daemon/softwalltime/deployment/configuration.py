"""The hook's configuration: defaults, the administrator's changes, and invalid values."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from softwalltime.core import resources
from softwalltime.core.errors import UsageError
from softwalltime.core.validation import Place, problems
from softwalltime.core.validation import written as written_place

Values = dict[str, Any]
_BUILT_IN = re.compile(
    "(soft_|min_|max_)?walltime|p?cput|p?v?mem|ncpus|nodes|nodect|ngpus|select|place|host|vnode|nice|file|arch"
    "|software|site"
)
"""Resources that PBS uses itself, which cannot hold the ordering value."""
_REMEDY = "correct it, or move it away to start with the defaults"


def shipped() -> Values:
    return read(resources.hook().with_suffix(".json").read_text(encoding="utf-8"), "the shipped configuration")


def read(text: str, where: str) -> Values:
    """Read a configuration.

    :raises UsageError: if it is no JSON object.
    """
    try:
        values = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{where}: not JSON: {error}; {_REMEDY}") from None
    if not isinstance(values, dict):
        raise UsageError(f"{where}: not a JSON object; {_REMEDY}")
    return values


def written(values: Values) -> str:
    return json.dumps(values, indent=2) + "\n"


def merged(own: Values, defaults: Values) -> Values:
    """Return the administrator's values, with the defaults of missing keys, such as those of a newer version."""
    result = {}
    for key, default in defaults.items():
        value = own.get(key, default)
        result[key] = merged(value, default) if isinstance(default, dict) and isinstance(value, dict) else value
    return {**result, **{key: value for key, value in own.items() if key not in defaults}}


def differences(before: Values, after: Values, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield each changed key, and the change as text."""
    for key in {**before, **after}:
        old, new, name = before.get(key), after.get(key), prefix + key
        if isinstance(old, dict) and isinstance(new, dict):
            yield from differences(old, new, f"{name}.")
            continue
        # The DSN may contain a password.
        old_text, new_text = (
            ("(not shown)" if value else "none") if key == "dsn" else json.dumps(value) for value in (old, new)
        )
        if key not in before:
            yield name, f"{name}: new, {new_text}"
        elif key not in after:
            yield name, f"{name}: removed"
        elif old != new or type(old) is not type(new):
            yield name, f"{name}: {old_text}, will be {new_text}"


def errors(values: Values) -> list[str]:
    return [f"{written_place(place)}: {reason}" for place, reason in problems_in(values)]


def effective(values: Values) -> Values:
    """Return the configuration that the hook uses: it replaces a value of another type by the default."""
    return cast("Values", hook_module().configured(values, []))


@cache
def hook_module() -> ModuleType:
    """Return the hook file as a module: outside pbs_server it only has definitions."""
    module = ModuleType("softwalltime_hook")
    SourceFileLoader(module.__name__, str(resources.hook())).exec_module(module)
    return module


def _absolute(path: str) -> str:
    if not path.startswith("/"):
        raise ValueError("should be an absolute path")
    return path


def _custom_resource(name: str) -> str:
    if _BUILT_IN.fullmatch(name):
        raise ValueError("has a meaning in PBS: name a custom resource")
    if re.fullmatch(r"([A-Za-z][A-Za-z0-9_-]*)?", name) is None:
        raise ValueError("should be the name of a resource")
    return name


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class HookEvents(_Table):
    queuejob: bool = True
    postqueuejob: bool = False
    modifyjob: bool = True
    runjob: bool = True
    resvsub: bool = True
    modifyresv: bool = True


class PostgresTransport(_Table):
    """The transport for sites without the daemon."""

    transport_path: Annotated[str, AfterValidator(lambda path: path and _absolute(path))] = ""
    dsn: str = ""
    psycopg_path: Annotated[str, AfterValidator(lambda path: path and _absolute(path))] = ""
    waiting: str = "usage"
    running: str = "walltime"
    exclusive: Literal["walltime", "waiting"] = "walltime"


class HookSettings(_Table):
    transport: Literal["daemon", "postgres"] = "daemon"
    socket: Annotated[str, AfterValidator(_absolute)] = "/run/softwalltime/hook.sock"
    deadline_ms: int = Field(50, ge=1, le=5000)
    breaker_failures: int = Field(3, ge=1, le=1000)
    breaker_seconds: int = Field(30, ge=0, le=86_400)
    minimum: int = Field(60, ge=60, le=86_400)
    ordering: Annotated[str, AfterValidator(_custom_resource)] = "predicted"
    daemon_users: list[str] = ["softwalltime", "softwalltime-live"]
    events: HookEvents = HookEvents()
    runjob_fallback: Literal["walltime", "keep"] = "walltime"
    jobs_without_walltime: bool = False
    attributes: bool = True
    log: Literal["all", "problems"] = "all"
    postgres: PostgresTransport = PostgresTransport()


def problems_in(values: Mapping[str, Any]) -> Iterator[tuple[Place, str]]:
    try:
        HookSettings.model_validate(values)
    except ValidationError as error:
        # The DSN may contain a password.
        for place, reason in problems(error, HookSettings, "postgres"):
            yield place, re.sub("valid dictionary or instance of [A-Za-z]+", "JSON object", reason)
