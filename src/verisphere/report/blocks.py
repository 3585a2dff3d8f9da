"""A page as sections of blocks: text, tables and pictures as markup, and plots, which are files beside the page too.

The page is one HTML file without external resources, and without scripts but the one that it may name. Plots that
follow one another stand in one row; their colours are variables of the style sheet, so that they follow light and dark.
"""

import base64
import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import groupby
from pathlib import Path

from matplotlib.figure import Figure

from verisphere import __version__
from verisphere.files.disk import write_whole
from verisphere.report.html import Markup, joined, section, tag
from verisphere.report.plots import INK, LINES, PALE, save_plot

PLOTS = "plots"  # folder beside a page
# The page can only show its own content, whatever a name in a data set contains.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
_STYLE = "page.css"
_COLOURS = {
    INK: "ink", "#000000": "ink", "#ffffff": "paper", LINES: "grid", PALE: "pale", "#2274a5": "blue", "#e4572e": "red",
    "#3a7d44": "green", "#7b2d8b": "violet", "#8a5a00": "brown",
}  # fmt: skip
_NOT_SHOWN = re.compile(r'<!--.*?-->|<metadata>.*?</metadata>|<style.*?</style>| xmlns(:xlink)?="[^"]*"', re.DOTALL)


@dataclass(frozen=True, eq=False)
class Plot:
    """A plot of a page; its files have this name without a suffix, and `alt` is for those who do not see it."""

    name: str
    draw: Callable[[], Figure]
    alt: str
    caption: str

    def markup(self, svg: bytes) -> Markup:
        """The plot on the page."""
        text = _NOT_SHOWN.sub("", "".join(svg.decode().partition("<svg")[1:]))
        text = re.sub(r' width="[^"]*" height="[^"]*"', "", text, count=1)
        text = re.sub(r'\bid="|href="#|url\(#', rf"\g<0>{self.name}-", text)
        text = re.sub("(?<=: )#[0-9a-f]{6}", lambda found: _variable(found[0]), text)
        picture = tag("div", Markup(text), role="img", aria_label=self.alt)
        return tag("figure", picture, tag("figcaption", self.caption), class_="plot")


def _variable(colour: str) -> str:
    return f"var(--{_COLOURS[colour]})" if colour in _COLOURS else colour


@dataclass(frozen=True, eq=False)
class Section:
    """A section of a page, with its anchor for the table of contents."""

    heading: str
    anchor: str
    blocks: Sequence[Markup | Plot]


@dataclass(frozen=True, eq=False)
class Page:
    """A page with a table of contents.

    Attributes:
        made: the sentence at the bottom, after the version of verisphere.
        style: name of a style sheet of `verisphere.report` that is added to the common one.
        script: name of a script of `verisphere.report`, which the policy of the page then allows, and no other.
    """

    title: str
    sections: Sequence[Section]
    made: str
    style: str | None = None
    version: str = __version__
    script: str | None = None

    @property
    def plots(self) -> list[Plot]:
        """The plots of all sections."""
        return [block for part in self.sections for block in part.blocks if isinstance(block, Plot)]

    def html(self, svg_of: Callable[[Plot], bytes]) -> Markup:
        """The page, with each plot as this function draws it."""
        script = _text(self.script) if self.script else ""
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        policy = f"{_POLICY}; script-src 'sha256-{digest}'" if script else _POLICY
        parts = [(part.heading, part.anchor, joined(*_laid_out(part.blocks, svg_of))) for part in self.sections]
        links = (tag("li", tag("a", heading, href=f"#{anchor}")) for heading, anchor, _ in parts)
        body = tag(
            "body",
            tag("header", tag("h1", self.title), tag("nav", tag("ul", *links), aria_label="Contents")),
            tag("main", *(section(*part) for part in parts)),
            tag("footer", tag("p", f"Made by verisphere {self.version}. {self.made}", class_="note")),
            Markup(f"<script>{script}</script>" if script else ""),
        )
        sheets = (_STYLE,) if self.style is None else (_STYLE, self.style)
        style = "".join(map(_text, sheets))
        head = tag(
            "head",
            tag("meta", charset="utf-8"),
            tag("meta", http_equiv="Content-Security-Policy", content=policy),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("meta", name="generator", content=f"verisphere {self.version}"),
            tag("title", self.title),
            tag("style", Markup(style)),
        )
        return joined(Markup("<!DOCTYPE html>\n"), tag("html", head, Markup("\n"), body, lang="en"), Markup("\n"))

    def write(self, file: Path) -> None:
        """Write the page, and each plot as PNG and SVG into the folder `plots` beside it."""

        def svg_of(plot: Plot) -> bytes:
            folder, figure = file.parent / PLOTS, plot.draw()
            folder.mkdir(exist_ok=True)
            save_plot(figure, folder / f"{plot.name}.png")
            return save_plot(figure, folder / f"{plot.name}.svg").read_bytes()

        text = self.html(svg_of)
        write_whole(file, lambda partial: partial.write_text(text, encoding="utf-8"))


def _text(name: str) -> str:
    return (files("verisphere.report") / name).read_text(encoding="utf-8")


def _laid_out(blocks: Sequence[Markup | Plot], svg_of: Callable[[Plot], bytes]) -> Iterator[Markup]:
    for are_plots, row in groupby(blocks, lambda block: isinstance(block, Plot)):
        parts = [block.markup(svg_of(block)) if isinstance(block, Plot) else block for block in row]
        yield from [tag("div", *parts, class_="plots")] if are_plots else parts
