"""Make the pages of the site from the documents beside the code (a hook of MkDocs).

Links between documents become links between pages, links to other files of the checkout become links to the repository.
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
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT: Final = Path(__file__).resolve().parents[2]
_PATTERNS: Final = ("*.md", "deploy/*.md", "hooks/*.md", "sql/*.md", "daemon/**/*.md")
_NAMED: Final = {"README.md": "index.md", "deploy/SECURITY.md": "threat-model.md"}
"""The documents whose pages do not have their names."""
_PICTURES: Final = "deploy/pictures"
_LINK: Final = re.compile(r"\[([^\]]*)\]\(([^)\s#]+)?(#[^)\s]*)?\)")
_FENCE: Final = re.compile(r"(^[ ]*```.*?^[ ]*```|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
_TITLE: Final = re.compile(r"^# (.+)$", re.MULTILINE)
_COMMENT: Final = re.compile(r"COMMENT ON (VIEW|COLUMN)\s+softwalltime\.\w+(?:\.(\w+))?\s+IS\s+'((?:[^']|'')*)'")
_ROLE: Final = re.compile(r":(?:class|func|meth|mod|data|attr):<code>[~.]*([^<]+)</code>")


def _page(document: str) -> str:
    """Return the name of a document's page: that of the document, or of the folder of a README."""
    path = Path(document)
    name = path.parent.name if path.stem == "README" else path.stem.replace("_", "-").lower()
    return _NAMED.get(document, f"{name}.md")


PAGES: Final = {
    document: _page(document)
    for pattern in _PATTERNS
    for document in sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob(pattern))
}
"""The page of each document; one that is not in the navigation is found by links and the search."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the documents and pictures of the checkout, and the pages made from the code."""
    repository = str(config.repo_url).rstrip("/")
    for source, page in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=with_links_to_pages(text, source, repository)))
    for picture in sorted((ROOT / _PICTURES).iterdir()):
        files.append(File.generated(config, f"pictures/{picture.name}", content=picture.read_bytes()))
    for page, content in (("commands", commands_page), ("settings", settings_page), ("views", views_page)):
        files.append(File.generated(config, f"{page}.md", content=content()))
    return files


def on_page_content(html: str, **_: object) -> str:
    """Show what docstrings refer to as code, without the names of Sphinx's roles."""
    return _ROLE.sub(r"<code>\1</code>", html)


def with_links_to_pages(text: str, source: str, repository: str) -> str:
    """Return the document with the links of the site; what stands in code stays as it is.

    :raises PluginError: names the document and a target that is not there.
    """
    parts = _FENCE.split(text)
    parts[::2] = [_LINK.sub(lambda match: _link(match, source, repository), part) for part in parts[::2]]
    return "".join(parts)


def _link(match: re.Match[str], source: str, repository: str) -> str:
    text, target, anchor = match[1], match[2], match[3] or ""
    if target is None or re.match(r"[a-z]+:", target):
        return match[0]
    path = os.path.normpath(Path(source).parent / target)
    if page := PAGES.get(path):
        # The name of a file is the text of a link where one reads files; on the site it is the title of the page.
        return f"[{_title(path) if text.endswith('.md') else text}]({page}{anchor})"
    if path.startswith(f"{_PICTURES}/"):
        return f"[{text}](pictures/{path.rpartition('/')[2]})"
    if not (ROOT / path).exists():
        raise PluginError(f"{source} links to {target}, which is not there")
    return f"[{text}]({repository}/blob/main/{path}{anchor})"


def _title(document: str) -> str:
    found = _TITLE.search((ROOT / document).read_text(encoding="utf-8"))
    return found[1] if found else document


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

    lines = [
        "# Views",
        "",
        "The comments of the views, as `\\d+` in psql prints them. [Questions and answers](sql.md).",
        "",
    ]
    for view in views():
        comments = _COMMENT.findall(view.statements)
        lines += [f"## {view.name}", ""]
        lines += [f"{_cell(text)}\n" for kind, _, text in comments if kind == "VIEW"]
        rows = [f"| `{name}` | {_cell(text)} |" for kind, name, text in comments if kind == "COLUMN"]
        lines += ["| column | meaning |", "| --- | --- |", *rows, ""] if rows else []
    lines += ["## Columns of several views", "", "| column | meaning |", "| --- | --- |"]
    lines += [f"| `{name}` | {_cell(text)} |" for name, text in view_columns().items()]
    return "\n".join(lines)


def _cell(text: str) -> str:
    """Return a comment as a cell of a table: a bar is escaped, and SQL's doubled quote is one."""
    return text.replace("''", "'").replace("|", "\\|")
