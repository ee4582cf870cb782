"""Tables that the benchmarks print."""

from collections.abc import Sequence

from softwalltime.core.text_table import TextColumn, TextTable


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, last_left: bool = False) -> str:
    """Return a Markdown table, the first column left-aligned and the others right-aligned.

    :param last_left: the last column holds sentences and is left-aligned too.
    """
    left = {0, len(header) - 1} if last_left else {0}
    columns = (TextColumn(name, left=index in left) for index, name in enumerate(header))
    return TextTable.of(columns, rows).markdown()
