"""Escape texts for PostgreSQL, which refuses NUL and lone surrogates; a log may contain both."""

import re
from collections.abc import Mapping
from typing import Any

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_COPY_SPECIAL = re.compile("[\0\b-\r\\\\\ud800-\udfff]")


def storable_text(text: str) -> str:
    r"""Return ``text`` as it is stored: NUL and lone surrogates are escaped.

    Pass users and projects to the SQL functions in this form.

    >>> storable_text("caf\udce9\0")
    'caf\\udce9\\x00'
    """
    if not _UNSTORABLE.search(text):
        return text
    return text.replace("\0", r"\x00").encode("utf-8", "backslashreplace").decode()


def storable_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row, by column, with its texts as they are stored."""
    return {name: storable_text(value) if isinstance(value, str) else value for name, value in row.items()}


MAX_NAME_CHARS = 300
"""Maximum characters of a server, job id, user or project: an index entry holds 2704 bytes and up to two names."""
NULL = "None"
"""COPY's null string: Python's text of ``None``, so that values need no check."""


class CopyTexts(dict[str, str]):
    """Cache of texts in COPY's text format: a batch has few different texts.

    A text equal to ``NULL`` is escaped, so that COPY does not read it as null.
    """

    def __init__(self) -> None:
        super().__init__({NULL: f"\\{NULL}"})

    def __missing__(self, text: str) -> str:
        escaped = text
        if _COPY_SPECIAL.search(text):
            escaped = storable_text(text).replace("\\", r"\\")
            escaped = escaped.replace("\t", r"\t").replace("\n", r"\n").replace("\r", r"\r")
        self[text] = escaped
        return escaped
