"""Rules for each key of the hook's configuration; the hook itself checks only types, and bounds of three numbers."""

import importlib.util
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from softwalltime import resources
from softwalltime.errors import UsageError
from softwalltime.validation import Place, problems

_BUILT_IN = re.compile(
    "(soft_|min_|max_)?walltime|p?cput|p?v?mem|ncpus|nodes|nodect|ngpus|select|place|host|vnode|nice|file|arch"
    "|software|site"
)
"""Resources with a meaning in PBS, which cannot hold the ordering value."""


@cache
def hook_module() -> ModuleType:
    """Return the hook file as a module: outside pbs_server it only has definitions.

    :raises UsageError: if it cannot be loaded.
    """
    return _load(resources.hook())


def _load(path: Path) -> ModuleType:
    specification = importlib.util.spec_from_file_location("softwalltime_hook", path)
    if specification is None or specification.loader is None:
        raise UsageError(f"{path}: cannot be loaded; install softwalltime again")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def _absolute(path: str) -> str:
    if not path.startswith("/"):
        raise PydanticCustomError("absolute", "should be an absolute path")
    return path


def _absolute_or_empty(path: str) -> str:
    return path and _absolute(path)


def _custom_resource(name: str) -> str:
    if _BUILT_IN.fullmatch(name):
        raise PydanticCustomError("built_in", "has a meaning in PBS: name a custom resource")
    if re.fullmatch(r"([A-Za-z][A-Za-z0-9_-]*)?", name) is None:
        raise PydanticCustomError("resource", "should be the name of a resource")
    return name


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class HookEvents(_Table):
    """The events that the hook handles."""

    queuejob: bool = True
    postqueuejob: bool = False
    modifyjob: bool = True
    runjob: bool = True


class PostgresTransport(_Table):
    """The transport for sites without the daemon."""

    transport_path: Annotated[str, AfterValidator(_absolute_or_empty)] = ""
    dsn: str = ""
    psycopg_path: Annotated[str, AfterValidator(_absolute_or_empty)] = ""
    waiting: str = "usage"
    running: str = "walltime"
    exclusive: Literal["walltime", "waiting"] = "walltime"


class HookSettings(_Table):
    """The hook's configuration."""

    transport: Literal["daemon", "postgres"] = "daemon"
    socket: Annotated[str, AfterValidator(_absolute)] = "/run/softwalltime/hook.sock"
    deadline_ms: int = Field(50, ge=1, le=5000)
    breaker_failures: int = Field(3, ge=1, le=1000)
    breaker_requests: int = Field(20, ge=1, le=1000)
    breaker_budget_ms: int = Field(0, ge=0, le=5_000_000)
    breaker_seconds: int = Field(30, ge=0, le=86_400)
    minimum: int = Field(60, ge=60, le=86_400)
    ordering: Annotated[str, AfterValidator(_custom_resource)] = "predicted"
    daemon_users: list[str] = ["softwalltime", "softwalltime-live"]
    events: HookEvents = HookEvents()
    runjob: Literal["always", "never", "if-none"] = "always"
    runjob_fallback: Literal["walltime", "keep"] = "walltime"
    jobs_without_walltime: bool = False
    clean_texts: bool = True
    attributes: bool = True
    log: Literal["all", "changes", "errors", "off"] = "all"
    postgres: PostgresTransport = PostgresTransport()


def problems_in(values: Mapping[str, Any]) -> Iterator[tuple[Place, str]]:
    """Yield place and reason of each error in a configuration."""
    try:
        HookSettings.model_validate(values)
    except ValidationError as error:
        # The DSN may contain a password.
        for place, reason in problems(error, HookSettings, "postgres"):
            yield place, re.sub("valid dictionary or instance of [A-Za-z]+", "JSON object", reason)
