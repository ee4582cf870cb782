"""Texts as PostgreSQL takes them: it knows neither NUL nor half a surrogate pair, and a log may hold both."""

import re

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_COPY_SPECIAL = re.compile("[\0\b-\r\\\\\ud800-\udfff]")


def storable_text(text: str) -> str:
    r"""What ``text`` is stored as: itself, but for NUL and lone surrogates, which are written out.

    Give the SQL functions a user or a project in this form.

    >>> storable_text("caf\udce9\0")
    'caf\\udce9\\x00'
    """
    if not _UNSTORABLE.search(text):
        return text
    return text.replace("\0", r"\x00").encode("utf-8", "backslashreplace").decode()


NULL = "None"
"""What COPY is told to read as null: what Python itself writes, so that no value has to be looked at."""


class CopyTexts(dict[str, str]):
    """Texts in COPY's text format, remembered, because most fields of a batch hold the same few texts.

    A text equal to ``null``, which COPY is told to read as null, is written so that it stays a text.
    """

    def __init__(self, null: str) -> None:
        super().__init__()
        self[null] = f"\\{null}"

    def __missing__(self, text: str) -> str:
        escaped = text
        if _COPY_SPECIAL.search(text):
            escaped = storable_text(text).replace("\\", r"\\")
            escaped = escaped.replace("\t", r"\t").replace("\n", r"\n").replace("\r", r"\r")
        self[text] = escaped
        return escaped
