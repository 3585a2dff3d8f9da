"""Text from files inside a Markdown document: shown, never obeyed."""

import html
import re
from urllib.parse import quote

from verisphere.vocabulary import printable

# What can begin or end something inside a line; an underscore within a word cannot, and stays readable.
_INLINE = re.compile(r"[\\`*\[\]|~]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|(?<=[A-Za-z]):(?=//)|(?<=www)\.")


def plain(text: str) -> str:
    r"""Text on one line that Markdown shows as it is; a letter that cannot be seen, or turns others round, escaped.

    >>> plain("my_set <b> [a](x)\n# |"), plain("http://a.b")
    ('my_set &lt;b&gt; \\[a\\](x) # \\|', 'http\\://a.b')
    """
    seen = printable(" ".join(text.split()))
    return html.escape(_INLINE.sub(r"\\\g<0>", seen), quote=False)


def link(name: str) -> str:
    """A link to the file of this name beside the document.

    >>> link("a (1).json")
    '[a (1).json](a%20%281%29.json)'
    """
    return f"[{plain(name)}]({quote(name, safe='', errors='surrogateescape')})"
