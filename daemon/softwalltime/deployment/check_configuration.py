"""Check settings files, the environment and the hook's configuration: all errors at once, with file and line."""

import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from psycopg.conninfo import conninfo_to_dict, make_conninfo
from pydantic import BaseModel, ValidationError
from pydantic_core import to_jsonable_python

from softwalltime.core.errors import SourceError, UsageError
from softwalltime.core.settings import Settings, settings_from
from softwalltime.core.validation import Place, problems, written
from softwalltime.deployment import configuration
from softwalltime.deployment.configuration import problems_in
from softwalltime.deployment.finding import ConfigProblem
from softwalltime.predict.policy.presets import guard_of, resolved
from softwalltime.predict.policy.presets import unused as unused_keys
from softwalltime.predict.policy.site import SitePolicy
from softwalltime.service.forecast_thread import StartOptions
from softwalltime.service.live.live_options import LiveOptions, inert, read_policy
from softwalltime.store.connections import parse_dsn

PREFIX = "SOFTWALLTIME_"
TABLES: Mapping[str, type[BaseModel]] = {"policy": SitePolicy, "live": LiveOptions, "starts": StartOptions}
"""Models of the settings' tables."""
_VARIABLES = {"CONFIG", "COMPLETE"}
"""Environment variables with the prefix that are not settings."""
_DSN = "dsn"
DEFAULT = "default"
_HEADER = re.compile(r"""\s*(\[\[?)([\w.\- \t"']+)\]""")
_KEY = re.compile(r"""\s*([\w.\-"']+)\s*=""")


def check_file(file: Path) -> list[ConfigProblem]:
    """Return the errors of a file: the hook's configuration if its name ends in .json, else settings."""
    try:
        text = file.read_bytes().decode("utf-8")
    except OSError as error:
        raise SourceError(f"{file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        return [ConfigProblem(str(file), None, "", f"not UTF-8 at byte {error.start}")]
    return sorted(
        (check_hook if file.suffix == ".json" else check_settings)(text, str(file)),
        key=lambda problem: (problem.line or 0, problem.key),
    )


def check_settings(text: str, file: str) -> Iterator[ConfigProblem]:
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        yield ConfigProblem(file, getattr(error, "lineno", None) or _line(str(error)), "", f"not TOML: {error}")
        return
    lines = toml_lines(text)
    for path, reason in _errors(values):
        yield ConfigProblem(file, line_of(lines, path), written(path), reason)
    policy = values.get("policy")
    # Another preset is an error of its own.
    if isinstance(policy, dict) and isinstance(preset := policy.get("preset"), str):
        for key in unused_keys(policy):
            line = line_of(lines, ("policy", key))
            yield ConfigProblem(file, line, f"policy.{key}", f"has no effect with preset {preset}", "note")


def check_guard(files: Sequence[Path]) -> Iterator[ConfigProblem]:
    """Yield an error if guard or slack has no effect with these settings files, which are merged.

    :param files: in order of precedence, without another error.
    """
    texts = {str(file): file.read_text(encoding="utf-8") for file in files}
    settings = settings_from(map(tomllib.loads, texts.values()), {}, environment=False)
    reason = inert(*read_policy(settings.policy, settings.live))
    for file, lines in ((file, toml_lines(text)) for file, text in texts.items() if reason):
        if line := line_of(lines, ("live", "mode")) or line_of(lines, ("policy", "preset")):
            yield ConfigProblem(file, line, "live.mode", reason)
            return


def check_environment() -> Iterator[ConfigProblem]:
    given = {variable for variable, value in os.environ.items() if variable.startswith(PREFIX) and value}
    try:
        Settings()
    except ValueError as error:
        for path, reason in _reasons(error):
            if path and (variable := f"{PREFIX}{path[0]}".upper()) in given:
                yield ConfigProblem("environment", None, variable, reason)
    # Compare without the prefix, which would make all names similar.
    for name in sorted(variable.removeprefix(PREFIX) for variable in given):
        near = get_close_matches(name.lower(), Settings.model_fields, n=1)
        known = name.lower() in Settings.model_fields or name in _VARIABLES
        # SOFTWALLTIME_TEST_... are for the project's own tests.
        if near and not known and not name.startswith("TEST_"):
            text = f"unknown variable; is {PREFIX}{near[0].upper()} meant?"
            yield ConfigProblem("environment", None, PREFIX + name, text)


def check_hook(text: str, file: str) -> Iterator[ConfigProblem]:
    try:
        values = configuration.read(text, file)
    except UsageError as error:
        yield ConfigProblem(file, _line(str(error)), "", str(error).removeprefix(f"{file}: "))
        return
    for place, reason in problems_in(values):
        yield ConfigProblem(file, None, written(place), reason)


def _errors(values: dict[str, Any]) -> Iterator[tuple[Place, str]]:
    try:
        settings_from((), values, environment=False)
    except ValueError as error:
        yield from _reasons(error)
    if isinstance(dsn := values.get(_DSN), str):
        try:
            parse_dsn(dsn)
        except UsageError as error:
            yield (_DSN,), str(error)
    for name, model in TABLES.items():
        if isinstance(table := values.get(name), dict):
            try:
                model.model_validate(table)
            except ValidationError as error:
                yield from (((name, *path), reason) for path, reason in _reasons(error, model))


def _reasons(error: ValueError, model: type[BaseModel] = Settings) -> Iterator[tuple[Place, str]]:
    if not isinstance(error, ValidationError):
        # A variable that must be JSON and is not: the message names the field.
        name = next((name for name in Settings.model_fields if f'"{name}"' in str(error)), "")
        yield (name,), "not JSON"
        return
    yield from problems(error, model, secret=_DSN)


def _line(message: str) -> int | None:
    match = re.search(r"line (\d+)", message)
    return None if match is None else int(match[1])


def line_of(lines: dict[Place, int], path: Place) -> int | None:
    """Return the line of a value, else of its first child, else of its nearest parent."""
    if path in lines or not path:
        return lines.get(path)
    within = (line for other, line in lines.items() if other[: len(path)] == path)
    return next(within, None) or line_of(lines, path[:-1])


def toml_lines(text: str) -> dict[Place, int]:
    """Return the line, from 1, of each table and key of a valid TOML document that begins a line.

    tomllib and tomlkit do not provide line numbers.
    """
    found: dict[Place, int] = {}
    tables: dict[Place, int] = {}
    table: Place = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = _path(header[2])
            if header[1] == "[[":
                tables[table] = tables.get(table, -1) + 1
                table = (*table, tables[table])
            found.setdefault(table, number)
        elif key := _KEY.match(line):
            found.setdefault((*table, *_path(key[1])), number)
    return found


def _path(dotted: str) -> Place:
    return tuple(part.strip(" \t\"'") for part in dotted.split("."))


@dataclass(frozen=True, slots=True)
class EffectiveValue:
    """One effective setting: its value and where it comes from."""

    key: str
    """Its key, with its table."""
    value: Any
    """Its value; passwords are not shown."""
    source: str
    """default, file:line, the environment's variable, or the preset."""


def effective_values(settings: Settings, files: list[Path]) -> Iterator[EffectiveValue]:
    """Yield each setting with its source.

    :param files: the settings files, in order of precedence; all are valid.
    """
    parsed = {file: (tomllib.loads(text := file.read_text(encoding="utf-8")), toml_lines(text)) for file in files}
    preset = settings.policy.get("preset")

    def source_of(*path: str) -> str:
        """Return the source of the value with this path; ``default`` if it is not set."""
        if os.environ.get(variable := f"{PREFIX}{path[0]}".upper()):
            return variable
        for file, (given, lines) in parsed.items():
            # A table that is not there has no keys.
            table = given if len(path) == 1 else given.get(path[0], {})
            if path[-1] in table:
                return f"{file}:{line_of(lines, path)}"
        return DEFAULT

    policy, live = read_policy(settings.policy, settings.live)
    guard = {} if (seconds := guard_of(preset)) is None else {"guard": seconds}
    tables: dict[str, tuple[BaseModel, Mapping[str, Any]]] = {
        "policy": (policy, resolved(settings.policy)),
        "live": (live, {**guard, **settings.live}),
        "starts": (StartOptions.model_validate(settings.starts), settings.starts),
    }
    for name in Settings.model_fields:
        given = getattr(settings, name)
        if name not in tables:
            yield EffectiveValue(name, _shown(name, given), source_of(name))
            continue
        model, with_preset = tables[name]
        for key in type(model).model_fields:
            source = source_of(name, key)
            set_there = key in with_preset and (source == DEFAULT or with_preset[key] != given.get(key))
            if preset is not None and set_there:
                source = f"preset {preset} ({source_of('policy', 'preset')})"
            yield EffectiveValue(f"{name}.{key}", _shown(key, getattr(model, key)), source)


def _shown(name: str, value: Any) -> Any:
    """Return a value as JSON, without passwords."""
    if name == _DSN and value is not None:
        try:
            parse_dsn(value)
        except UsageError:
            return "(not shown: it cannot be read)"
        given = {key: "***" if "password" in key else text for key, text in conninfo_to_dict(value).items()}
        return make_conninfo("", **given)
    return to_jsonable_python(value, exclude_none=True)
