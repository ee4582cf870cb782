"""Lines of keys in TOML and JSON files: neither tomllib, tomlkit nor json tells on which line a value is."""

import re
from json.decoder import JSONDecoder

from softwalltime.validation import Place

_HEADER = re.compile(r"""\s*(\[\[?)([\w.\- \t"']+)\]""")
_KEY = re.compile(r"""\s*([\w.\-"']+)\s*=""")


def line_of(lines: dict[Place, int], path: Place) -> int | None:
    """Return the line of a value, else of the first one within it, else of the nearest one around it."""
    if path in lines or not path:
        return lines.get(path)
    within = (line for other, line in lines.items() if other[: len(path)] == path)
    return next(within, None) or line_of(lines, path[:-1])


def toml_lines(text: str) -> dict[Place, int]:
    """Return the line, from 1, of each table and key of a valid TOML document that begins a line."""
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
