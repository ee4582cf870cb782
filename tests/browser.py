"""Pages in Debian's chromium: whether they overflow, and what axe finds against WCAG 2.2 AA."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

if TYPE_CHECKING:
    from playwright.sync_api import Browser as Chromium

LOOKS: tuple[tuple[int, Literal["light", "dark"]], ...] = ((400, "light"), (1280, "dark"))
"""Widths in pixels and color schemes."""
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}


class Browser:
    """A running chromium."""

    def __init__(self, chromium: "Chromium") -> None:
        self._chromium = chromium

    def faults(self, html: str) -> list[str]:
        """What is wrong with a page: faults that axe finds, and overflow."""
        found = []
        for width, scheme in LOOKS:
            page = self._chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            page.set_content(html)
            nodes = [
                f"{fault['id']}: {node['html'][:200]}"
                for fault in Axe().run(page, options=RULES).response["violations"] for node in fault["nodes"]
            ]  # fmt: skip
            taken = page.evaluate("document.documentElement.scrollWidth")
            wide = [f"{taken} px wide"] if taken > width else []
            found += [f"{page.title()}, {width} px, {scheme}: {text}" for text in (*nodes, *wide)]
            page.close()
        return found


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser; the test is skipped where there is none."""
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("there is no chromium")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield Browser(chromium)
        chromium.close()
