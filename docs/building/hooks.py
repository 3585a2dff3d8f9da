"""Hooks of mkdocs: links out of docs/ become paths; what would break or be lost on the site is a warning.

A warning fails `make docs-check`: a link to a file or heading that does not exist, from the pages beside docs/ too, and
a list inside a list that the site would not indent.
"""

import logging
import posixpath
import re
from pathlib import Path
from typing import Any

log = logging.getLogger("mkdocs.hooks.links")

ROOT = Path(__file__).parents[2]
#: Pages beside docs/ whose links are checked too.
FRONT = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")

_CODE = re.compile(r"^(```+).*?^\1|`[^`\n]+`", re.DOTALL | re.MULTILINE)
_NESTED = re.compile(r"^ {1,3}(?:[-*]|\d+\.) .*", re.MULTILINE)
#: A link, no picture, with its text and its target.
_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)\)")
_IN_TABLE = re.compile(r"<(t[dh])\b.*?</\1>", re.DOTALL)
_CODE_TAG = re.compile(r"(<code>)([^<]*)(</code>)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The page with the links that lead out of docs/ as paths."""
    for nested in _NESTED.findall(_CODE.sub("", markdown)):
        log.warning("%s: indent the list inside a list by four spaces: %s", page.file.src_uri, nested.strip()[:60])
    return leaving_links_as_paths(markdown, page.file.src_uri)


def on_page_content(html: str, **_: Any) -> str:
    """The page, in whose tables a name in code may break after a stop, a slash or an underscore, so that they fit."""
    return _IN_TABLE.sub(lambda cell: _CODE_TAG.sub(_breakable, cell[0]), html)


def on_post_build(config: Any, **_: Any) -> None:
    """Check the links of the pages beside docs/."""
    for name in FRONT:
        for fault in faults_of((ROOT / name).read_text(encoding="utf-8"), Path(config["site_dir"])):
            log.warning("%s: %s", name, fault)


def _breakable(code: re.Match[str]) -> str:
    return code[1] + re.sub(r"(?<=\w)([./_,])(?=\w)", r"\1<wbr>", code[2]) + code[3]


def leaving_links_as_paths(markdown: str, name: str) -> str:
    """Replace each link that leads out of docs/ to a file of the repository by its text and the path.

    Args:
        markdown: the page.
        name: its path in docs/.
    """

    def replaced(link: re.Match[str]) -> str:
        text, target = link[1], link[2].partition("#")[0]
        path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(name), target))
        if ":" in target or not target or path.startswith("docs/"):
            return link[0]
        if not (ROOT / path).exists():
            log.warning("%s: the link %s leads to %s, which does not exist", name, link[2], path)
        return f"`{path}`" if text.strip("`") in (path, posixpath.basename(path)) else f"{text} (`{path}`)"

    return _LINK.sub(replaced, markdown)


def faults_of(markdown: str, site: Path) -> list[str]:
    """What is wrong with the relative links of a page at the root of the repository: one line for each.

    Args:
        markdown: the page.
        site: the built site, whose pages have the anchors.
    """
    faults = []
    for _, target in _LINK.findall(_CODE.sub("", markdown)):
        path, _, anchor = target.partition("#")
        if ":" in target or not path:
            continue
        if not (ROOT / path).exists():
            faults.append(f"the link {target} leads to no file")
        elif anchor and path.startswith("docs/"):
            built = site / Path(path).relative_to("docs").with_suffix(".html")
            if f'id="{anchor}"' not in built.read_text(encoding="utf-8"):
                faults.append(f"the link {target} leads to no heading of {path}")
    return faults
