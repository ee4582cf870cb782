"""Make the pages of the site from the documents beside the code (a hook of MkDocs).

Links between documents become links between pages, links to other files of the checkout become links to the repository.
A link to nothing is an error, as mkdocs.yml makes a link to a heading that is not there.
"""

import os
import re
from pathlib import Path
from typing import Final

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
    """Add the documents and pictures of the checkout."""
    repository = str(config.repo_url).rstrip("/")
    for source, page in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=with_links_to_pages(text, source, repository)))
    for picture in sorted((ROOT / _PICTURES).iterdir()):
        files.append(File.generated(config, f"pictures/{picture.name}", content=picture.read_bytes()))
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
