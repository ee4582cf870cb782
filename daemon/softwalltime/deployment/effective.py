"""The effective settings, and where each value came from."""

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psycopg.conninfo import conninfo_to_dict, make_conninfo
from pydantic import BaseModel

from softwalltime.deployment import positions
from softwalltime.deployment.check_configuration import PREFIX, TABLES
from softwalltime.errors import UsageError
from softwalltime.live.options import read_policy
from softwalltime.policy.presets import guard_of, resolved
from softwalltime.settings import Settings
from softwalltime.store.connections import parse_dsn
from softwalltime.validation import Place

DEFAULT = "default"
_MISSING = object()


@dataclass(frozen=True, slots=True)
class EffectiveValue:
    """One effective setting: its value and where it comes from."""

    key: str
    """Its key, with its table."""
    value: Any
    """Its value; passwords are not shown."""
    source: str
    """default, file:line, the environment's variable, or the preset."""


class _Sources:
    """Which file or variable gives a key."""

    def __init__(self, files: list[Path]) -> None:
        self._lines: dict[Path, dict[Place, int]] = {}
        self._values: dict[Path, dict[str, Any]] = {}
        for file in files:
            text = file.read_text(encoding="utf-8")
            self._values[file] = tomllib.loads(text)
            self._lines[file] = positions.toml_lines(text)

    def of(self, path: Place) -> str:
        """Return where the value with this path is given; ``default`` if nowhere."""
        if os.environ.get(variable := f"{PREFIX}{path[0]}".upper()):
            return variable
        for file, values in self._values.items():
            given: Any = values
            for part in path:
                given = given.get(part, _MISSING) if isinstance(given, dict) else _MISSING
            if given is not _MISSING:
                return f"{file}:{positions.line_of(self._lines[file], path)}"
        return DEFAULT


def effective_values(settings: Settings, files: list[Path]) -> Iterator[EffectiveValue]:
    """Yield each setting with its source.

    :param files: the settings files, in order of precedence; all are valid.
    """
    sources = _Sources(files)
    for name in Settings.model_fields:
        value = getattr(settings, name)
        if name in TABLES:
            model, preset = TABLES[name].model_validate(value), settings.policy.get("preset")
            yield from _table(name, model, value, sources, preset, settings.live)
        else:
            yield EffectiveValue(name, _shown(name, value), sources.of((name,)))


def _table(
    table: str, model: BaseModel, given: Mapping[str, Any], sources: _Sources, preset: object,
    live: Mapping[str, Any],
) -> Iterator[EffectiveValue]:  # fmt: skip
    from_preset = _with_preset(table, given, preset)
    if table == "live":
        model = type(model).model_validate(from_preset)
    if table == "policy":
        model, _ = read_policy(given, live)
    for name in type(model).model_fields:
        source = sources.of((table, name))
        if (
            preset is not None
            and (source == DEFAULT or from_preset.get(name) != given.get(name))
            and name in from_preset
        ):
            source = f"preset {preset} ({sources.of(('policy', 'preset'))})"
        yield EffectiveValue(f"{table}.{name}", _shown(name, getattr(model, name)), source)


def _with_preset(table: str, given: Mapping[str, Any], preset: object) -> Mapping[str, Any]:
    """Return the values of a table with those of the policy's preset."""
    if table == "policy" and preset is not None:
        return resolved(given)
    if table == "live" and (guard := guard_of(preset)) is not None:
        return {"guard": guard, **given}
    return given


def _shown(name: str, value: Any) -> Any:
    """Return a value as JSON has it, without passwords."""
    if name == "dsn" and value is not None:
        return _without_password(value)
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_none=True)
    if isinstance(value, tuple | list):
        return [_shown("", each) for each in value]
    return str(value) if isinstance(value, Path) else value


def _without_password(dsn: str) -> str:
    try:
        parse_dsn(dsn)
    except UsageError:
        return "(not shown: it cannot be read)"
    parameters = {key: str(value) for key, value in conninfo_to_dict(dsn).items() if value is not None}
    return make_conninfo("", **{key: "***" if "password" in key else value for key, value in parameters.items()})
