"""Texts that PostgreSQL accepts: it refuses NUL and lone surrogates, and a log may contain both."""

import re

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_COPY_SPECIAL = re.compile("[\0\b-\r\\\\\ud800-\udfff]")


def storable_text(text: str) -> str:
    r"""Return ``text`` as it is stored: NUL and lone surrogates are escaped.

    Give the SQL functions a user or a project in this form.

    >>> storable_text("caf\udce9\0")
    'caf\\udce9\\x00'
    """
    if not _UNSTORABLE.search(text):
        return text
    return text.replace("\0", r"\x00").encode("utf-8", "backslashreplace").decode()


LONGEST_NAME = 300
"""Characters of a server, job id, user or project: an index entry holds 2704 bytes, and up to two of them."""
NULL = "None"
"""The text that COPY reads as null: what Python writes for ``None``, so that no value needs a check."""


class CopyTexts(dict[str, str]):
    """Cache of texts in COPY's text format, because most fields of a batch hold the same few texts.

    A text equal to ``null`` is escaped, so that COPY does not read it as null.
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
