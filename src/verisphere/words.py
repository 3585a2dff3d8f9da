"""Words that the command line needs before it loads NumPy or PyTorch: choices, defaults, and text that can be shown."""

import difflib
from collections.abc import Iterable, Sequence
from typing import Literal, get_args

Rule = Literal["at_most", "nearest", "interpolated"]
RULES: tuple[Rule, ...] = get_args(Rule)
#: Type of the products that screen pairs of rows: it sets speed and memory, and changes no figure.
Precision = Literal["int8", "bfloat16", "float32", "float64"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
#: How the rows of a template are pooled: as they are, or at length 1.
FeatureNorm = Literal["keep", "drop"]
FEATURE_NORMS: tuple[FeatureNorm, ...] = get_args(FeatureNorm)
#: Precision of an exported network that is smaller than float32.
SmallerPrecision = Literal["fp16", "int8"]
SMALLER_PRECISIONS: tuple[SmallerPrecision, ...] = get_args(SmallerPrecision)
#: Target FARs that are reported where none are asked for.
FARS = ("1e-1", "1e-2", "1e-3", "1e-4", "1e-5", "1e-6")
#: Target FARs and FPIRs of the protocols that have their own.
MEGAFACE_FARS = ("1e-6",)
TRILLION_FARS, TRILLION_FPIRS = ("1e-9",), ("1e-3",)
IJB_FPIRS = ("1e-1", "1e-2")
#: Target FPIRs and closed-set ranks that are reported where none are asked for.
FPIRS = ("1e-1", "1e-2", "1e-3")
RANKS = (1, 5, 10)
#: Target FARs at which the drop of TAR by a smaller precision is measured where none are asked for.
DROP_FARS = ("1e-2", "1e-3", "1e-4")
#: Bootstrap replicates where no number is given.
REPLICATES = 1000


def printable(text: str, keep: str = "") -> str:
    r"""Text that shows every letter as itself or, where that could not be seen or would steer what shows it, escaped.

    Names come from files and archives. Control characters can move a terminal's cursor, rename its window or hide what
    was said before; others turn the letters around them back to front (U+202E).

    >>> print(printable("A\x1b]0;B\x07 \u202egpj.txt"), printable("Ann\u00e9"))
    A\x1b]0;B\x07 \u202egpj.txt Anné

    Args:
        text: text from any source.
        keep: letters that are left as they are, such as a line feed in a text of several lines.
    """
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or letter in keep else letter.encode("unicode_escape").decode("ascii")
        for letter in text
    )


def unknown_name(kind: str, name: object, allowed: Sequence[str]) -> str:
    """An error about a name that is none of the allowed ones; with the nearest of them, if any is near.

    >>> unknown_name("field", "epoch", ["epochs", "seed"])
    "there is no field 'epoch' (did you mean epochs?); allowed are epochs, seed"
    """
    return f"there is no {kind} {name!r}{did_you_mean(str(name), allowed)}; allowed are {', '.join(allowed)}"


def did_you_mean(word: str, allowed: Iterable[str]) -> str:
    """What follows an unknown word in an error: the nearest allowed one, or nothing if none is near.

    >>> did_you_mean("--fra", ["--far", "--json"]), did_you_mean("trian", ["train"]), did_you_mean("x", ["train"])
    (' (did you mean --far?)', ' (did you mean train?)', '')
    """
    near = difflib.get_close_matches(word[:100], list(allowed), n=1)
    return f" (did you mean {near[0]}?)" if near else ""
