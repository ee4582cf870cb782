"""Add the documents beside the code to the site (a hook of MkDocs); their links to other files lead to the repository.

A link to nothing is an error, as mkdocs.yml makes a link to a heading that is not there.
"""

import os
import re
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parents[2]
_PATTERNS: Final = ("*.md", "deploy/*.md", "deploy/pictures/*", "hooks/*.md", "sql/*.md", "daemon/**/*.md")
_LINK: Final = re.compile(r"(?<=\]\()[^)\s#:]+")
_FENCE: Final = re.compile(r"(^[ ]*```.*?^[ ]*```|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
_ROLE: Final = re.compile(r":(?:class|func|meth|mod|data|attr):<code>[~.]*([^<]+)</code>")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the documents and pictures of the checkout."""
    for path in sorted(path for pattern in _PATTERNS for path in ROOT.glob(pattern)):
        files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links to files that are not on the site lead to the repository; what stands in code stays as it is."""

    def address(match: re.Match[str]) -> str:
        path = os.path.normpath(Path(page.file.src_uri).parent / match[0])
        on_site = files.get_file_from_path(path) is not None or not (ROOT / path).exists()
        return match[0] if on_site else f"{str(config.repo_url).rstrip('/')}/blob/main/{path}"

    parts = _FENCE.split(markdown)
    parts[::2] = [_LINK.sub(address, part) for part in parts[::2]]
    return "".join(parts)


def on_page_content(html: str, **_: object) -> str:
    """Show what docstrings refer to as code, without the names of Sphinx's roles."""
    return _ROLE.sub(r"<code>\1</code>", html)
