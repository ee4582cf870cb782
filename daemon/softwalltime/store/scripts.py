"""The files of sql/: their statements by name."""

import re
from collections.abc import Iterator

from softwalltime import resources

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def named(folder: str) -> Iterator[tuple[str, str]]:
    """What a folder of sql/ holds, in the order of the files and within them: names, and the statements of each.

    ``-- name:`` introduces each of them; what stands before the first one in a file is about the file.
    """
    for file in sorted((resources.sql() / folder).glob("*.sql")):
        _, *parts = _NAME.split(file.read_text(encoding="utf-8"))
        yield from zip(parts[::2], parts[1::2], strict=True)
