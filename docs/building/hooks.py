"""Hooks of mkdocs: links out of docs/, which a site cannot follow, become the path of the file."""

import posixpath
import re
from typing import Any

#: A link whose target climbs out of its folder, with its text and its target.
_CLIMBING = re.compile(r"\[([^\]\n]+)\]\((\.\./[^)#\s]+)(#[^)\s]*)?\)")
#: Where the site's first page has its picture of the repository's.
_README = "README.md"


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The page with the links that lead out of docs/ as paths."""
    folder = posixpath.dirname(page.file.src_uri)

    def path(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join("docs", folder, match[2]))
        return match[0] if target.startswith("docs/") else f"`{target}`"

    return _CLIMBING.sub(path, markdown)
