"""A whole HTML page around its sections: header, contents, style; without scripts or external resources."""

from collections.abc import Sequence
from importlib.resources import files

from verisphere.report.html import Markup, joined, section, tag

# The page can only show its own content, whatever a name in a data set contains.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
_STYLE = "page.css"


def whole_page(
    title: str, version: str, parts: Sequence[tuple[str, str, Markup]], made: str, further_style: str | None = None
) -> Markup:
    """A page with a table of contents.

    Args:
        title: title of the page.
        version: version of verisphere.
        parts: heading, anchor and content of each section.
        made: the sentence at the bottom.
        further_style: name of a style sheet of `verisphere.report` that is added to the common one.
    """
    links = (tag("li", tag("a", name, href=f"#{anchor}")) for name, anchor, _ in parts)
    body = tag(
        "body",
        tag("header", tag("h1", title), tag("nav", tag("ul", *links), aria_label="Contents")),
        tag("main", *(section(name, anchor, content) for name, anchor, content in parts)),
        tag("footer", tag("p", made, class_="note")),
    )
    sheets = (_STYLE,) if further_style is None else (_STYLE, further_style)
    style = "".join((files("verisphere.report") / name).read_text(encoding="utf-8") for name in sheets)
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="generator", content=f"verisphere {version}"),
        tag("title", title),
        tag("style", Markup(style)),
    )
    return joined(Markup("<!DOCTYPE html>\n"), tag("html", head, Markup("\n"), body, lang="en"), Markup("\n"))
