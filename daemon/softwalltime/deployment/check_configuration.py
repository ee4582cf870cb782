"""Check settings files, the environment and the hook's configuration: all errors at once, with file and line."""

import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from softwalltime.deployment import configuration, positions
from softwalltime.deployment.finding import ConfigProblem
from softwalltime.deployment.hook_settings import problems_in
from softwalltime.errors import SourceError, UsageError
from softwalltime.live.options import LiveOptions, inert, read_policy
from softwalltime.policy.presets import unused as unused_keys
from softwalltime.policy.site import SitePolicy
from softwalltime.service.start_options import StartOptions
from softwalltime.settings import Settings, settings_from
from softwalltime.store.connections import parse_dsn
from softwalltime.validation import Place, problems, written

PREFIX = "SOFTWALLTIME_"
TABLES: Mapping[str, type[BaseModel]] = {"policy": SitePolicy, "live": LiveOptions, "starts": StartOptions}
"""Models of the settings' tables."""
_VARIABLES = {"CONFIG", "COMPLETE"}
"""Variables that are no settings."""
_DSN = "dsn"


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
    lines = positions.toml_lines(text)
    for path, reason in _errors(values):
        yield ConfigProblem(file, positions.line_of(lines, path), written(path), reason)
    policy = values.get("policy")
    if isinstance(policy, dict):
        try:
            unused = unused_keys(policy)
        except TypeError:
            # An unhashable preset is an error of its own.
            unused = ()
        for key in unused:
            line = positions.line_of(lines, ("policy", key))
            yield ConfigProblem(file, line, f"policy.{key}", f"has no effect with preset {policy['preset']}", "note")


def check_guard(files: Sequence[Path]) -> Iterator[ConfigProblem]:
    """Yield the error that guard or slack cannot act with these settings files, which are read together.

    :param files: in order of precedence; nothing is checked where one has another error.
    """
    tables: dict[str, dict[str, Any]] = {"policy": {}, "live": {}}
    place = ""
    line = None
    for file in (file for file in files if file.suffix != ".json"):
        if any(problem.severity == "error" for problem in check_file(file)):
            return
        text = file.read_text(encoding="utf-8")
        for name, table in tables.items():
            tables[name] = {**tomllib.loads(text).get(name, {}), **table}
        if not place and tables["policy"]:
            lines = positions.toml_lines(text)
            line = positions.line_of(lines, ("live", "mode")) or positions.line_of(lines, ("policy", "preset"))
            place = str(file)
    if place and (text := inert(*read_policy(tables["policy"], tables["live"]))):
        yield ConfigProblem(place, line, "live.mode", text)


def check_environment(environment: Mapping[str, str] = os.environ) -> Iterator[ConfigProblem]:
    known = {PREFIX + name.upper(): name for name in Settings.model_fields}
    for variable, value in sorted(environment.items()):
        if not variable.startswith(PREFIX) or not value:
            continue
        if variable in known:
            try:
                Settings()
            except (ValidationError, ValueError) as error:
                for path, reason in _reasons(error):
                    if path[:1] == (known[variable],):
                        yield ConfigProblem("environment", None, variable, reason)
            continue
        # Without the prefix, which would make all of them alike.
        name = variable.removeprefix(PREFIX)
        near = get_close_matches(name.lower(), Settings.model_fields, n=1)
        # SOFTWALLTIME_TEST_... are for the project's own tests.
        if near and name not in _VARIABLES and not name.startswith("TEST_"):
            yield ConfigProblem("environment", None, variable, f"unknown variable; is {PREFIX}{near[0].upper()} meant?")


def check_hook(text: str, file: str) -> Iterator[ConfigProblem]:
    try:
        values = configuration.read(text, file)
    except UsageError as error:
        yield ConfigProblem(file, _line(str(error)), "", str(error).removeprefix(f"{file}: "))
        return
    lines, twice = positions.json_lines(text)
    for path, line in twice:
        yield ConfigProblem(file, line, written(path), "the key is there twice; the last one counts")
    for place, reason in problems_in(values):
        yield ConfigProblem(file, positions.line_of(lines, place), written(place), reason)


def _errors(values: dict[str, Any]) -> Iterator[tuple[Place, str]]:
    """Yield path and reason of each error in settings."""
    try:
        settings_from((), values, environment=False)
    except (ValidationError, ValueError) as error:
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
    """Return the line that a parser's message names."""
    match = re.search(r"line (\d+)", message)
    return None if match is None else int(match[1])
