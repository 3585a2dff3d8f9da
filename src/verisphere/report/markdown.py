"""Text from files inside a Markdown document: shown literally, never interpreted."""

import html
import re
from urllib.parse import quote

from verisphere.base.vocabulary import printable

# Characters with a meaning inside a line; an underscore within a word has none, and stays readable.
_INLINE = re.compile(r"[\\`*\[\]|~]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|(?<=[A-Za-z]):(?=//)|(?<=www)\.")


def plain(text: str) -> str:
    r"""Text on one line that Markdown shows literally; letters that are invisible or reverse others are escaped.

    >>> plain("my_set <b> [a](x)\n# |"), plain("http://a.b")
    ('my_set &lt;b&gt; \\[a\\](x) # \\|', 'http\\://a.b')
    """
    line = printable(" ".join(text.split()))
    return html.escape(_INLINE.sub(r"\\\g<0>", line), quote=False)


def link(name: str) -> str:
    """A link to the file of this name beside the document.

    >>> link("a (1).json")
    '[a (1).json](a%20%281%29.json)'
    """
    return f"[{plain(name)}]({quote(name, safe='', errors='surrogateescape')})"
