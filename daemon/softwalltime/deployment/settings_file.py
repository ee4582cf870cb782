"""Tables of a settings file: change keys in place, so that comments and layout stay.

tomlkit would be 0.5 MB more in every installation, and writes a new key below the comment of the next table.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from softwalltime.core.errors import SourceError, UsageError
from softwalltime.core.settings import SYSTEM_FILE, settings_files
from softwalltime.predict.policy.plan_file import toml_value

_HEADER = r"^[ \t]*\[[ \t]*{}[ \t]*\][ \t]*(?:#[^\r\n]*)?(?=\r?$)"
_NEXT = re.compile(r"^[ \t]*\[", re.MULTILINE)


def policy_file(config: Path | None) -> Path:
    """Return the settings file that has the policy, else the first one, else the system's."""
    files = settings_files(config)
    return next((file for file in files if _header("policy", read(file))), files[0] if files else SYSTEM_FILE)


def read(file: Path) -> str:
    """Return the text of a settings file, with its line ends.

    :raises SourceError: if it cannot be read.
    """
    try:
        with file.open(encoding="utf-8", newline="") as stream:
            return stream.read()
    except FileNotFoundError as error:
        raise SourceError(f"settings file {file}: {error.strerror}; create it, or give --config FILE") from error
    except OSError as error:
        hint = "; run this as root" if isinstance(error, PermissionError) else ""
        raise SourceError(f"settings file {file}: {error.strerror}{hint}") from error
    except UnicodeDecodeError as error:
        raise SourceError(f"settings file {file}: not UTF-8 at byte {error.start}") from error


def with_values(text: str, tables: Mapping[str, Mapping[str, object]], where: str) -> tuple[str, list[str]]:
    """Return the text of a settings file with these values, and each change: ``[live] mode = "on" (was "off")``.

    :param tables: values to set by table and key: texts, numbers, true or false.
    :param where: what the message of an error begins with.
    :raises UsageError: if the file is not written in a way that can be changed line by line.
    """
    try:
        expected: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{where}: not TOML: {error}") from error
    newline = "\r\n" if "\r\n" in text else "\n"
    changed, changes = text, []
    for table, values in tables.items():
        now = expected.get(table, {})
        wanted = {key: value for key, value in values.items() if key not in now or now[key] != value}
        if not wanted:
            continue
        expected[table] = {**now, **wanted}
        if not _header(table, changed):
            changed += f"{'' if not changed or changed.endswith(chr(10)) else newline}{newline}[{table}]{newline}"
        for key, value in wanted.items():
            was = f" (was {toml_value(now[key])})" if key in now else ""
            changes.append(f"[{table}] {key} = {toml_value(value)}{was}")
        for key, value in reversed(wanted.items()):
            changed = _with_key(changed, table, key, toml_value(value), newline)
    try:
        actual = tomllib.loads(changed)
    except tomllib.TOMLDecodeError:
        # The unchanged text is valid, so the error is in the new values.
        actual = None
    if actual != expected:
        lines = (
            f"{key} = {toml_value(value)} in [{table}]" for table in tables for key, value in tables[table].items()
        )
        raise UsageError(f"{where}: not written line by line; set by hand: {', '.join(lines)}")
    return changed, changes


def _header(table: str, text: str) -> re.Match[str] | None:
    return re.search(_HEADER.format(re.escape(table)), text, re.MULTILINE)


def _with_key(text: str, table: str, key: str, value: str, newline: str) -> str:
    header = _header(table, text)
    start = header.end() if header else len(text)
    following = _NEXT.search(text, start)
    end = following.start() if following else len(text)
    lines, known = re.subn(
        rf"""^([ \t]*{re.escape(key)}[ \t]*=[ \t]*)(?:"[^"\n]*"|'[^'\n]*'|[^\s#]+)""",
        lambda match: match[1] + value,
        text[start:end],
        count=1,
        flags=re.MULTILINE,
    )
    if not known:
        lines = f"{newline}{key} = {value}{lines or newline}"
    return text[:start] + lines + text[end:]
