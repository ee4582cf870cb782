"""A table of a page of ``softwalltime web``."""

from dataclasses import dataclass

from softwalltime.core.text_table import TextTable


@dataclass(frozen=True, slots=True)
class Section:
    """A table with its caption.

    ``kind``: cards (on a narrow screen each row is a card), heat, or plain.  ``query``: the parameter of the address
    that chooses one of its pages.
    """

    caption: str
    table: TextTable
    kind: str = "cards"
    query: str = ""
    page: int = 1
    pages: int = 1
