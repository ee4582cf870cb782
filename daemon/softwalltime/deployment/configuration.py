"""The hook's configuration: what is shipped, what the administrator has made of it, and what does not fit."""

import importlib.util
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from softwalltime import resources
from softwalltime.errors import UsageError

Values = dict[str, Any]
_MISSING = object()
_UNSHOWN = "dsn"
"""The key whose value is not shown, as it may hold a password."""
_MEND = "correct it, or move it away to begin with the defaults"


@dataclass(frozen=True, slots=True)
class Difference:
    """One key that has another value; ``None`` where there is none."""

    key: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        """In words."""
        if self.before is None:
            return f"{self.key}: new, {self.after}"
        return f"{self.key}: {self.before}, will be {self.after}" if self.after is not None else f"{self.key}: removed"


def shipped() -> Values:
    """The configuration as this version ships it."""
    return read(resources.hook().with_suffix(".json").read_text(encoding="utf-8"), "the shipped configuration")


def read(text: str, where: str) -> Values:
    """A configuration from its text.

    :raises UsageError: if it is no JSON object.
    """
    try:
        values = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{where}: not JSON: {error}; {_MEND}") from None
    if not isinstance(values, dict):
        raise UsageError(f"{where}: not a JSON object; {_MEND}")
    return values


def written(values: Values) -> str:
    """A configuration as text."""
    return json.dumps(values, indent=2) + "\n"


def merged(own: Values, defaults: Values) -> Values:
    """The administrator's values, and the defaults of keys that they lack, such as those of a newer version."""
    result = {}
    for key, default in defaults.items():
        value = own.get(key, default)
        result[key] = merged(value, default) if isinstance(default, dict) and isinstance(value, dict) else value
    return {**result, **{key: value for key, value in own.items() if key not in defaults}}


def differences(before: Values, after: Values, prefix: str = "") -> Iterator[Difference]:
    """What differs, key by key."""
    for key in {**before, **after}:
        old, new = before.get(key, _MISSING), after.get(key, _MISSING)
        if isinstance(old, dict) and isinstance(new, dict):
            yield from differences(old, new, f"{prefix}{key}.")
        elif old != new or type(old) is not type(new):
            shown = _hidden if key == _UNSHOWN else _shown
            yield Difference(prefix + key, shown(old), shown(new))


def complaints(values: Values) -> list[str]:
    """What the hook itself would complain of in this configuration."""
    hook = _hook()
    found: list[str] = []
    hook.merged(values, hook.DEFAULTS, hook.ACCEPTED, "", found)
    return found


def effective(values: Values) -> Values:
    """The configuration that counts in the hook: what does not fit is replaced by its default there."""
    hook = _hook()
    return cast("Values", hook.merged(values, hook.DEFAULTS, hook.ACCEPTED, "", []))


def events(values: Values) -> Mapping[str, bool]:
    """At which of PBS's events the hook does something."""
    return cast("Mapping[str, bool]", effective(values)["events"])


@cache
def _hook() -> ModuleType:
    """The hook file as a module: outside pbs_server it only defines, and the rules for its keys are among that."""
    return _load(resources.hook())


def _load(path: Path) -> ModuleType:
    specification = importlib.util.spec_from_file_location("softwalltime_hook", path)
    if specification is None or specification.loader is None:
        raise UsageError(f"{path}: cannot be loaded; install softwalltime again")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def _shown(value: object) -> str | None:
    return None if value is _MISSING else json.dumps(value)


def _hidden(value: object) -> str | None:
    return None if value is _MISSING else "(not shown)" if value else "none"
