"""Elements of an HTML page: text is escaped when it enters one, so that no name in a data set can become markup."""

import re
from collections.abc import Sequence
from html import escape
from itertools import chain

from verisphere.vocabulary import printable

_EMPTY = ("img", "meta", "wbr")
_VERBATIM = ("title", "pre", "code")  # no markup may stand in them, or none is wanted
_POWER = re.compile(r"(?<![\w.-])\d+(?:\.\d+)?e-\d+(?![\w-])")


class Markup(str):
    """Text that is HTML already; every other string is escaped on its way into an element."""

    __slots__ = ()


def tag(name: str, /, *children: str, **attributes: str | None) -> Markup:
    """An element.

    >>> tag("p", "1 < 2 ", tag("b", "yes"), class_="note")
    '<p class="note">1 &lt; 2 <b>yes</b></p>'

    Args:
        name: of the element.
        children: what it holds.
        attributes: `class_` stands for class, `aria_label` for aria-label; those that are None are left out.
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
    """Parts one after another; a number such as 1e-3 stays on one line, where a browser would break at the dash."""
    whole = r'<span class="nowrap">\g<0></span>'
    return Markup("".join(part if isinstance(part, Markup) else _POWER.sub(whole, _escaped(part)) for part in parts))


def _escaped(part: str) -> str:
    return part if isinstance(part, Markup) else escape(printable(part, keep="\n\N{NO-BREAK SPACE}"))


def breakable(path: str) -> Markup:
    """A file's name that may go on in another line after a slash or an underscore."""
    parts = re.findall(r"[^/_]*[/_]?", path)
    return joined(*chain.from_iterable((part, tag("wbr")) for part in parts if part))


def table(
    caption: str, header: Sequence[str], rows: Sequence[Sequence[str]], note: str = "", words: bool = False
) -> Markup:
    """A table in a box that scrolls by itself; the first cell of a row heads it, the others are figures.

    Args:
        caption: above the box, not in it: it would scroll away with the columns.
        header: of the columns.
        rows: cells, as many as there are columns.
        note: below the table.
        words: the cells are text, not figures.
    """
    head = tag("tr", *(tag("th", cell, scope="col") for cell in header))
    body = (tag("tr", tag("th", row[0], scope="row"), *(tag("td", cell) for cell in row[1:])) for row in rows)
    grid = tag("table", tag("thead", head), tag("tbody", *body), aria_label=caption, class_="words" if words else None)
    return joined(
        tag("p", caption, class_="caption", aria_hidden="true"),
        tag("div", grid, class_="scroll", role="region", aria_label=f"Table: {caption}", tabindex="0"),
        tag("p", note, class_="note") if note else "",
    )


def section(heading: str, anchor: str, *children: str) -> Markup:
    """A section that the table of contents can lead to."""
    return tag("section", tag("h2", heading, id=anchor), *children, aria_labelledby=anchor)


def definitions(*entries: tuple[str, str]) -> Markup:
    """Terms with what they mean."""
    return tag("dl", *chain.from_iterable((tag("dt", term), tag("dd", text)) for term, text in entries))
