"""Add the documents beside the code to the site (a hook of MkDocs); their links to other files lead to the repository.

A link to nothing is an error, as mkdocs.yml makes a link to a heading that is not there.
"""

import os
import re
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Final

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parents[2]
_PATTERNS: Final = ("*.md", "deploy/*.md", "deploy/pictures/*", "hooks/*.md", "sql/*.md", "daemon/**/*.md")
_LINK: Final = re.compile(r"(?<=\]\()[^)\s#:]+")
_FENCE: Final = re.compile(r"(^[ ]*```.*?^[ ]*```|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
_COMMENT: Final = re.compile(r"COMMENT ON (VIEW|COLUMN)\s+softwalltime\.\w+(?:\.(\w+))?\s+IS\s+'((?:[^']|'')*)'")
_ROLE: Final = re.compile(r":(?:class|func|meth|mod|data|attr):<code>[~.]*([^<]+)</code>")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the documents and pictures of the checkout, and the pages made from the code."""
    for path in sorted(path for pattern in _PATTERNS for path in ROOT.glob(pattern)):
        files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    for page, content in (("commands", commands_page), ("settings", settings_page), ("views", views_page)):
        files.append(File.generated(config, f"{page}.md", content=content()))
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


def commands_page() -> str:
    """Return a page with the help of every command."""
    from softwalltime.cli import cli
    from softwalltime.cli.man import contexts

    lines = ["# Commands", "", "What `--help` prints, for every command.", ""]
    root = click.Context(cli, info_name="softwalltime", max_content_width=82, terminal_width=82)
    for context in contexts(root):
        if not isinstance(context.command, click.Group):
            lines += [f"## {context.command_path}", "", "```text", context.get_help(), "```", ""]
    return "\n".join(lines)


def settings_page() -> str:
    """Return a page with the keys of the settings file."""
    from softwalltime.cli.man import settings

    lines = ["# Settings", "", "The keys of `/etc/softwalltime/softwalltime.toml`, as in `man softwalltime.toml`.", ""]
    for title, keys in groupby(settings(), itemgetter(0)):
        lines += [f"## {title or 'Above all tables'}", "", "| key | default | meaning |", "| --- | --- | --- |"]
        lines += [f"| `{name}` | {default} | {_cell(description)} |" for _, name, default, description in keys]
        lines.append("")
    return "\n".join(lines)


def views_page() -> str:
    """Return a page with the monitoring views and the comments of their columns."""
    from softwalltime.store.definitions import view_columns, views

    lines = ["# Views", "", "The comments of the views, as `\\d+` in psql prints them.", ""]
    for view, statements in views().items():
        comments = _COMMENT.findall(statements)
        lines += [f"## {view}", ""]
        lines += [f"{_cell(text)}\n" for kind, _, text in comments if kind == "VIEW"]
        rows = [f"| `{name}` | {_cell(text)} |" for kind, name, text in comments if kind == "COLUMN"]
        lines += ["| column | meaning |", "| --- | --- |", *rows, ""] if rows else []
    lines += ["## Columns of several views", "", "| column | meaning |", "| --- | --- |"]
    lines += [f"| `{name}` | {_cell(text)} |" for name, text in view_columns().items()]
    return "\n".join(lines)


def _cell(text: str) -> str:
    """Return a comment as a cell of a table: a bar is escaped, and SQL's doubled quote is one."""
    return text.replace("''", "'").replace("|", "\\|")
