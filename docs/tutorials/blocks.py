"""The fenced blocks of a page, and what each is for.

A block with a title (```python title="my_loss.py") is a file. Any other ```python or ```bash block runs, and an
```output block right behind it holds what it prints. All other blocks are for reading only.
"""

import re
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r'^```(\w*)(?: title="([^"\n]+)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)
RUNS = ("python", "bash")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Attributes:
        language: word behind the fence, empty where there is none.
        title: name of the file that the block is, empty where it is none.
        text: lines between the fences.
        start: position of the block in the page, in characters.
        stop: position behind it.
        line: number of its first fence in the page, from 1.
    """

    language: str
    title: str
    text: str
    start: int
    stop: int
    line: int

    @property
    def runs(self) -> bool:
        """Whether the block is a program rather than a file, an output, or something to read."""
        return self.language in RUNS and not self.title


def blocks(page: Path) -> list[Block]:
    """The blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(found[1], found[2] or "", found[3], found.start(), found.end(), text.count("\n", 0, found.start()) + 1)
        for found in FENCE.finditer(text)
    ]


def commands(text: str) -> list[str]:
    """The arguments of every `verisphere` command in a block, without the remark beside it."""
    lines = text.replace("\\\n", " ").splitlines()
    starts = (re.match(r"(?:.* -m |\$ )?verisphere (.*)", line) for line in lines)
    return [start[1].partition(" #")[0] for start in starts if start]
