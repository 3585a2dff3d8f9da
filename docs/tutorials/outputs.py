"""Whether what a block prints is what its page shows.

The rule, one for all pages: the words are the same, and a number differs by at most 0.1 or a fifth of the one that is
shown, whichever is more. So whole numbers below 5 are the same, and a rate is right to 0.1: a training rounds
differently on another processor. A line `...` stands for any lines, and `...` within a line for any text. The widths of
columns do not count.
"""

import re

ELISION = "..."
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")


def agreed(shown: list[str], printed: list[str]) -> list[str] | None:
    """The printed lines with the page's elisions, or None where the two disagree.

    >>> agreed(["TAR 0.76 of 600 genuine", "..."], ["TAR 0.81 of 600 genuine", "more", "and more"])
    ['TAR 0.81 of 600 genuine', '...']
    >>> agreed(["TAR 0.76 in ... seconds"], ["TAR 0.81 in 12 seconds"])
    ['TAR 0.81 in ... seconds']
    >>> agreed(["TAR 0.76"], ["TAR 0.51"]), agreed(["TAR 0.76"], ["FAR 0.76"]), agreed(["TAR 0.76"], [])
    (None, None, None)
    """
    if not shown:
        return [] if not printed else None
    if shown[0].strip() == ELISION:
        for count in range(len(printed) + 1):
            rest = agreed(shown[1:], printed[count:])
            if rest is not None:
                return [shown[0], *rest]
        return None
    line = _agreed_line(shown[0], printed[0]) if printed else None
    rest = agreed(shown[1:], printed[1:]) if line is not None else None
    return None if line is None or rest is None else [line, *rest]


def _agreed_line(shown: str, printed: str) -> str | None:
    """The printed line with the elisions of the shown one, or None."""
    pieces = shown.split(ELISION)
    found = re.fullmatch(".*?".join(f"({_pattern(piece)})" for piece in pieces), printed)
    if found is None:
        return None
    for piece, text in zip(pieces, found.groups(), strict=True):
        if not all(map(_near, NUMBER.findall(piece), NUMBER.findall(text))):
            return None
    return printed if len(pieces) == 1 else ELISION.join(found.groups())


def _pattern(piece: str) -> str:
    """An expression for a piece of a line: any numbers where it has some, any run of spaces or dashes for a run."""
    parts = re.split(f"({NUMBER.pattern}| +|-{{2,}})", piece)
    return "".join(map(_part, parts))


def _part(part: str) -> str:
    if NUMBER.fullmatch(part):
        return NUMBER.pattern
    if part.startswith(" "):
        return " +"
    return "-{2,}" if part.startswith("--") else re.escape(part)


def _near(shown: str, printed: str) -> bool:
    first, second = (float(number.replace(",", "")) for number in (shown, printed))
    return abs(first - second) <= max(0.1, 0.2 * abs(first))
