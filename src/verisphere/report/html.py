"""Elements of an HTML page. Text in an element is escaped, so that no name in a data set can become markup."""

import re
from collections.abc import Sequence
from html import escape
from itertools import chain

from verisphere.base.vocabulary import printable

_EMPTY = ("img", "input", "meta", "wbr")
_VERBATIM = ("title", "pre", "code")  # elements that must not, or should not, contain markup
_WHOLE = re.compile(r"(?<![\w.-])(?:\d+(?:\.\d+)?e-\d+(?![\w-])|1 in \d[\d,.]*\d\b|\d+(?:\.\d+)? %)")


class Markup(str):
    """Text that is HTML; every other string is escaped when it is put into an element."""

    __slots__ = ()


def tag(name: str, /, *children: str, **attributes: str | None) -> Markup:
    """An element.

    `class_` stands for class, `aria_label` for aria-label; attributes that are None are omitted.

    >>> tag("p", "1 < 2 ", tag("b", "yes"), class_="note")
    '<p class="note">1 &lt; 2 <b>yes</b></p>'
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_escaped(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _EMPTY:
        assert not children, name
        return Markup(f"<{name}{written}>")
    inside = "".join(map(_escaped, children)) if name in _VERBATIM else joined(*children)
    return Markup(f"<{name}{written}>{inside}</{name}>")


def joined(*parts: str) -> Markup:
    """The concatenation of parts; a rate such as 1e-3, 1 in 100 or 95 % stays on one line."""
    whole = r'<span class="nowrap">\g<0></span>'
    return Markup("".join(part if isinstance(part, Markup) else _WHOLE.sub(whole, _escaped(part)) for part in parts))


def unbroken(text: str) -> str:
    """Text whose rates stay on one line where no element can hold them together, as in what a script writes."""
    return _WHOLE.sub(lambda rate: rate[0].replace(" ", "\N{NO-BREAK SPACE}"), text)


def _escaped(part: str) -> str:
    return part if isinstance(part, Markup) else escape(printable(part, keep="\n\N{NO-BREAK SPACE}"))


def breakable(path: str) -> Markup:
    """The name of a file, with possible line breaks after slashes and underscores."""
    parts = re.findall(r"[^/_]*[/_]?", path)
    return joined(*chain.from_iterable((part, tag("wbr")) for part in parts if part))


def table(
    caption: str, header: Sequence[str], rows: Sequence[Sequence[str]], note: str = "", prose: bool = False
) -> Markup:
    """A table in a box with its own scroll bar; the first cell of a row is its heading, the others are figures.

    The caption is above the box, since inside it would scroll with the columns. `prose` says that cells are text.
    """
    head = tag("tr", *(tag("th", cell, scope="col") for cell in header))
    body = (tag("tr", tag("th", row[0], scope="row"), *(tag("td", cell) for cell in row[1:])) for row in rows)
    grid = tag("table", tag("thead", head), tag("tbody", *body), aria_label=caption, class_="words" if prose else None)
    return joined(
        tag("p", caption, class_="caption", aria_hidden="true"),
        tag("div", grid, class_="scroll", role="region", aria_label=f"Table: {caption}", tabindex="0"),
        tag("p", note, class_="note") if note else "",
    )


def fold(summary: str, *children: str) -> Markup:
    """Details that are shown when their summary is opened."""
    return tag("details", tag("summary", summary), *children)


def section(heading: str, anchor: str, *children: str) -> Markup:
    """A section with an anchor for the table of contents."""
    return tag("section", tag("h2", heading, id=anchor), *children, aria_labelledby=anchor)


def definitions(*entries: tuple[str, str]) -> Markup:
    """A list of terms with their definitions."""
    return tag("dl", *chain.from_iterable((tag("dt", term), tag("dd", text)) for term, text in entries))


def facts(*entries: tuple[str, str]) -> Markup:
    """A list of facts, each after its heading."""
    return tag("ul", *(tag("li", tag("strong", heading), f": {text}") for heading, text in entries))
