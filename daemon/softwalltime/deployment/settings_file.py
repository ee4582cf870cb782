"""The table ``[policy]`` of a settings file: change keys in place, so that comments and layout stay."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from softwalltime.errors import SourceError, UsageError
from softwalltime.settings import SYSTEM_FILE, settings_files

_HEADER = re.compile(r"^[ \t]*\[[ \t]*policy[ \t]*\][ \t]*(?:#[^\r\n]*)?(?=\r?$)", re.MULTILINE)
_NEXT = re.compile(r"^[ \t]*\[", re.MULTILINE)


def policy_file(config: Path | None) -> Path:
    """Return the settings file that has the policy, else the first one, else the system's."""
    files = settings_files(config)
    return next((file for file in files if _HEADER.search(read(file))), files[0] if files else SYSTEM_FILE)


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


def with_policy(text: str, values: Mapping[str, str], where: str) -> str:
    """Return the text of a settings file with these strings in the table ``[policy]``.

    :param where: what the message of an error begins with.
    :raises UsageError: if the file is not written in a way that can be changed line by line.
    """
    expected = _parsed(text, where)
    expected["policy"] = {**expected.get("policy", {}), **values}
    end = "\r\n" if "\r\n" in text else "\n"
    changed = text
    if not _HEADER.search(changed):
        changed += f"{'' if not changed or changed.endswith(chr(10)) else end}{end}[policy]{end}"
    for key, value in values.items():
        changed = _with_key(changed, key, value, end)
    try:
        actual = tomllib.loads(changed)
    except tomllib.TOMLDecodeError:
        # The text was valid before the change.
        actual = None
    if actual != expected:
        raise UsageError(f"{where}: not written line by line; set {', '.join(values)} in [policy] by hand")
    return changed


def _with_key(text: str, key: str, value: str, newline: str) -> str:
    start = next(_HEADER.finditer(text)).end()
    following = _NEXT.search(text, start)
    end = following.start() if following else len(text)
    table = text[start:end]
    line = re.compile(
        rf"""^([ \t]*{re.escape(key)}[ \t]*=[ \t]*)(?:"[^"\n]*"|'[^'\n]*'|[^\s#]+)(.*)\n?""", re.MULTILINE
    )
    found = line.search(table)
    if found is not None:
        ended = "\n" if found[0].endswith("\n") else ""
        table = f'{table[: found.start()]}{found[1]}"{value}"{found[2]}{ended}{table[found.end() :]}'
    else:
        table = f'{newline}{key} = "{value}"{table if table else newline}'
    return text[:start] + table + text[end:]


def _parsed(text: str, where: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{where}: not TOML: {error}") from error
