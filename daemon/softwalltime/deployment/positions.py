"""Lines of keys in TOML and JSON files: neither tomllib, tomlkit nor json tells on which line a value is."""

import tomllib
from collections.abc import Iterator
from json.decoder import JSONDecoder
from typing import Any

from softwalltime.validation import Place


def line_of(lines: dict[Place, int], path: Place) -> int | None:
    """Return the line of a value, else of the first one within it, else of the nearest one around it."""
    if path in lines or not path:
        return lines.get(path)
    within = (line for other, line in lines.items() if other[: len(path)] == path)
    return next(within, None) or line_of(lines, path[:-1])


def toml_lines(text: str) -> dict[Place, int]:
    """Return the line, from 1, of each table and key of a valid TOML document."""
    lines = text.splitlines(keepends=True)
    found: dict[Place, int] = {}
    arrays: dict[Place, int] = {}
    table: Place = ()
    number = 0
    while number < len(lines):
        statement = lines[number].strip()
        begin = number
        number += 1
        if not statement or statement.startswith("#"):
            continue
        if statement.startswith("["):
            table = _header(statement, arrays)
            found.setdefault(table, begin + 1)
            continue
        while (values := _parsed("".join(lines[begin:number]))) is None and number < len(lines):
            number += 1
        for path, line in _keys(values or {}, lines[begin:number]):
            found[table + path] = begin + 1 + line
    return found


def json_lines(text: str) -> tuple[dict[Place, int], list[tuple[Place, int]]]:
    """Return the line, from 1, of each key of a valid JSON document, and the keys that their object has twice."""
    found: dict[Place, int] = {}
    twice: list[tuple[Place, int]] = []
    decoder = JSONDecoder()

    def space(at: int) -> int:
        while at < len(text) and text[at] in " \t\r\n,:":
            at += 1
        return at

    def value(at: int, path: Place) -> int:
        at = space(at)
        if text[at] not in "{[":
            return decoder.raw_decode(text, at)[1]
        end, index = "}" if text[at] == "{" else "]", 0
        at = space(at + 1)
        while text[at] != end:
            key: str | int = index
            if end == "}":
                line = text.count("\n", 0, at) + 1
                key, at = decoder.raw_decode(text, at)
                if (*path, key) in found:
                    twice.append(((*path, key), line))
                found[*path, key] = line
            at = space(value(at, (*path, key)))
            index += 1
        return at + 1

    value(0, ())
    return found, twice


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _header(statement: str, arrays: dict[Place, int]) -> Place:
    """Return the path of a table, with the index of the newest element of each array of tables in it."""
    values: Any = _parsed(statement) or {}
    path: Place = ()
    is_array = False
    while values:
        is_array = isinstance(values, list)
        if is_array:
            values = values[0]
            continue
        ((key, values),) = values.items()
        path = (*path, key)
        if path in arrays and values not in ({}, [{}]):
            path = (*path, arrays[path])
    if is_array or statement.startswith("[["):
        arrays[path] = arrays.get(path, -1) + 1
        path = (*path, arrays[path])
    return path


def _keys(values: Any, lines: list[str], path: Place = ()) -> Iterator[tuple[Place, int]]:
    """Yield the keys of a statement with their lines within it; elements of an array may have lines of their own."""
    items = values.items() if isinstance(values, dict) else enumerate(values)
    for key, value in items:
        yield (*path, key), 0
        if isinstance(value, dict):
            yield from _keys(value, lines, (*path, key))
        elif isinstance(value, list):
            for index, element in enumerate(value):
                line = _begin(lines, index) if not path else 0
                yield (*path, key, index), line
                if isinstance(element, dict):
                    yield from (((*path, key, index, *below), line) for below, _ in _keys(element, lines))


def _begin(lines: list[str], index: int) -> int:
    """Return the line on which this element of an array in the statement begins."""
    for end in range(len(lines)):
        text = "".join(lines[: end + 1])
        # The line of the last element may close the array.
        values = _parsed(f"{text}\n]") or _parsed(text)
        if values is not None and len(next(iter(values.values()))) > index:
            return end
    return 0
