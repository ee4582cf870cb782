"""The hook's configuration: the default, the administrator's changes, and invalid values."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from softwalltime import resources
from softwalltime.deployment.hook_settings import hook_module, problems_in
from softwalltime.errors import UsageError
from softwalltime.validation import written as written_place

Values = dict[str, Any]
_MISSING = object()
_UNSHOWN = "dsn"
"""The key whose value is not shown, because it may contain a password."""
_REMEDY = "correct it, or move it away to start with the defaults"


@dataclass(frozen=True, slots=True)
class Difference:
    """A key with another value; ``None``: the key is missing."""

    key: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        """Return the change as text."""
        if self.before is None:
            return f"{self.key}: new, {self.after}"
        return f"{self.key}: {self.before}, will be {self.after}" if self.after is not None else f"{self.key}: removed"


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
    """Return a configuration as text."""
    return json.dumps(values, indent=2) + "\n"


def merged(own: Values, defaults: Values) -> Values:
    """Return the administrator's values, with the defaults of missing keys, such as those of a newer version."""
    result = {}
    for key, default in defaults.items():
        value = own.get(key, default)
        result[key] = merged(value, default) if isinstance(default, dict) and isinstance(value, dict) else value
    return {**result, **{key: value for key, value in own.items() if key not in defaults}}


def differences(before: Values, after: Values, prefix: str = "") -> Iterator[Difference]:
    for key in {**before, **after}:
        old, new = before.get(key, _MISSING), after.get(key, _MISSING)
        if isinstance(old, dict) and isinstance(new, dict):
            yield from differences(old, new, f"{prefix}{key}.")
        elif old != new or type(old) is not type(new):
            shown = _hidden if key == _UNSHOWN else _shown
            yield Difference(prefix + key, shown(old), shown(new))


def errors(values: Values) -> list[str]:
    """Return the errors in a configuration, each with its key."""
    return [f"{written_place(place)}: {reason}" for place, reason in problems_in(values)]


def effective(values: Values) -> Values:
    """Return the configuration that the hook uses: it replaces a value of another type by the default."""
    return cast("Values", hook_module().configured(values, []))


def events(values: Values) -> Mapping[str, bool]:
    return cast("Mapping[str, bool]", effective(values)["events"])


def _shown(value: object) -> str | None:
    return None if value is _MISSING else json.dumps(value)


def _hidden(value: object) -> str | None:
    return None if value is _MISSING else "(not shown)" if value else "none"
