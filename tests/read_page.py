"""Reads an HTML page as a browser would, and refuses one whose elements do not nest."""

import base64
import hashlib
import re
from html.parser import HTMLParser
from itertools import pairwise

VOID = {"meta", "img", "input", "wbr"}


class Page(HTMLParser):
    """Reads a page and refuses one whose elements do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert self.open == [], f"not closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names), (tag, names)
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        if self.open and data.strip():
            self.words.append((self.open[-1], data))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def text(self) -> str:
        """What a reader sees; only `wbr` divides words without a space."""
        return "".join(words for tag, words in self.words if tag not in ("style", "script"))


def read_alone(text: str) -> Page:
    """Reads a page that stands by itself: machines can read it, nothing is fetched, and no script runs but its one."""
    page = Page(text)
    assert page.all("html") == [{"lang": "en"}]
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(set(ids)) == len(ids)
    anchors = [attributes["id"] for name, attributes in page.elements if name == "h2"]
    assert [link["href"] for link in page.all("a")] == [f"#{anchor}" for anchor in anchors]
    assert all(image["alt"] for image in page.all("img"))
    assert all(cell.get("scope") in ("col", "row") for cell in page.all("th"))
    assert all(grid.get("aria-label") for grid in page.all("table"))
    headings = [int(name[1]) for name, _ in page.elements if re.fullmatch(r"h\d", name)]
    assert headings[0] == 1
    assert headings.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(headings))
    for name, attributes in page.elements:
        assert name not in ("link", "iframe", "object", "embed", "base", "form", "video", "audio")
        assert not any(attribute.startswith("on") for attribute in attributes)
        for attribute in ("src", "href", "srcset", "data", "poster", "action"):
            value = attributes.get(attribute)
            assert value is None or value.startswith(("#", "data:image/"))
    assert not any(words in text for words in ("@import", "://"))
    assert not re.search(r"url\((?!#)", text)
    (policy,) = (meta["content"] for meta in page.all("meta") if meta.get("http-equiv") == "Content-Security-Policy")
    scripts = re.findall("<script>(.*?)</script>", text, re.DOTALL)
    assert len(scripts) == len(page.all("script"))
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    assert re.findall("'sha256-(.*?)'", policy or "") == digests
    return page
