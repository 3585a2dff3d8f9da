"""Words that the command line needs before it loads NumPy or PyTorch: choices, defaults, and text that can be shown."""

import difflib
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, get_args

Rule = Literal["at_most", "nearest", "interpolated"]
RULES: tuple[Rule, ...] = get_args(Rule)
#: Type of the products that screen pairs of rows: it sets speed and memory, and changes no figure.
Precision = Literal["int8", "bfloat16", "float32", "float64"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
#: How the rows of a template are pooled: as they are, or at length 1.
FeatureNorm = Literal["keep", "drop"]
FEATURE_NORMS: tuple[FeatureNorm, ...] = get_args(FeatureNorm)
#: How names that are equal but for case, blanks, Unicode form or invisible letters are taken.
Names = Literal["merge", "exact"]
NAMES: tuple[Names, ...] = get_args(Names)
#: What follows a number of people, by how their names were taken.
NAMES_TAKEN = {"merge": " by merged names", "exact": " by names exactly as written", None: ""}
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
#: The statistics by which a probe may be decided in a gallery; see `verisphere.decide.statistics`.
STATISTIC_NAMES = ("best", "gap", "next", "median", "z", "s", "adaptive-s")
#: The largest rate that is said as 1 in N; a larger one is said in per cent.
LARGEST_ONE_IN_N = 0.1
#: Bootstrap replicates where no number is given.
REPLICATES = 1000


def check_at_least(name: str, value: float | int, least: int = 1) -> None:
    """Refuse a number that is too small."""
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")


def check_positive(name: str, value: float | int) -> None:
    """Refuse a number that is not finite and above 0."""
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a positive number, got {value}")


def printable(text: str, keep: str = "") -> str:
    r"""Text that shows every letter as itself or, where that could not be seen or would steer what shows it, escaped.

    Names come from files and archives. Control characters can move a terminal's cursor, rename its window or hide what
    was said before; others turn the letters around them back to front (U+202E). Letters to `keep`, such as a line feed
    in a text of several lines, are left as they are.

    >>> print(printable("A\x1b]0;B\x07 \u202egpj.txt"), printable("Ann\u00e9"))
    A\x1b]0;B\x07 \u202egpj.txt Anné
    """
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or letter in keep else letter.encode("unicode_escape").decode("ascii")
        for letter in text
    )


def share(rate: float, bound: Literal["lower", "upper"] | None = None, per_cent: bool | None = None) -> str:
    """A rate as it is said to people: 1 in N up to a tenth, per cent above, with two digits that matter.

    >>> share(0.0249), share(0.0004), share(0.313), share(0.99954)
    ('1 in 40', '1 in 2,500', '31 %', '99.954 %')
    >>> share(1 / 119, "lower"), share(1 / 119, "upper"), share(0.313, "upper")  # on the safe side of the rate
    ('1 in 120', '1 in 110', '32 %')

    Args:
        bound: round downwards, as a lower bound needs, or upwards; None rounds to the nearest.
        per_cent: whether to write per cent, so that rates of one sentence are written alike; None decides by the rate.
    """
    if per_cent is None:
        per_cent = rate > LARGEST_ONE_IN_N
    if per_cent or rate == 0:
        away = min(rate, 1 - rate)
        digits = max(1 - math.floor(math.log10(100 * away)), 0) if away > 0 else 0
        round_off = round if bound is None else math.floor if bound == "lower" else math.ceil
        text = f"{_rounded(100 * rate * 10**digits, round_off) / 10**digits:.{digits}f}"
        return f"{text.rstrip('0').rstrip('.') if digits else text} %"
    step = 10 ** max(math.floor(math.log10(1 / rate)) - 1, 0)
    round_off = round if bound is None else math.ceil if bound == "lower" else math.floor
    return f"1 in {_rounded(1 / rate / step, round_off) * step:,}"


def in_per_cent(rates: Iterable[float]) -> bool:
    """Whether rates that stand beside each other are said in per cent: where one of them is above a tenth."""
    return any(rate > LARGEST_ONE_IN_N for rate in rates)


def share_bounds(lower: float, upper: float, per_cent: bool) -> str:
    """Bounds of a rate, in the format of `share`, each rounded away from the rate.

    >>> share_bounds(0.001, 0.002, False), share_bounds(0.0, 0.002, False), share_bounds(0.0838, 0.123, True)
    ('1 in 1,000 to 500', '0 to 1 in 500', '8.3 to 13 %')
    """
    first, second = share(lower, "lower", per_cent), share(upper, "upper", per_cent)
    if lower and second.startswith("1 in "):
        return f"{first} to {second.removeprefix('1 in ')}"
    return f"{first.removesuffix(' %')} to {second}"


def _rounded(number: float, round_off: Callable[[float], int]) -> int:
    """The number as a whole one; 40 less a rounding error is 40."""
    nearest = round(number)
    return nearest if math.isclose(number, nearest, rel_tol=1e-9) else round_off(number)


def of_things(share: str, things: str) -> str:
    """A share, as `share` writes it, of things.

    >>> of_things("1 in 40", "pairs of strangers"), of_things("25 %", "pairs of strangers")
    ('1 in 40 pairs of strangers', '25 % of pairs of strangers')
    """
    return f"{share} {'of ' if share.endswith('%') else ''}{things}"


def counted(count: int, what: str) -> str:
    """A number of things, one or several.

    >>> counted(1, "person"), counted(2_000, "person"), counted(2, "probe")
    ('1 person', '2,000 people', '2 probes')
    """
    return f"{count:,} {what if count == 1 else 'people' if what == 'person' else f'{what}s'}"


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


def check_titles(what: str, titles: Sequence[str]) -> None:
    """Refuse, by a ValueError, two of these files with one title."""
    if len(set(titles)) < len(titles):
        raise ValueError(f"two {what} are both called {max(titles, key=titles.count)!r}; rename one file")


def install_extra(extra: str) -> str:
    """How an extra is installed; the package is on no index, so pip finds it in a clone or in a wheel.

    >>> install_extra("heif")
    "install the extra heif: in a clone pip install '.[heif]', else pip install 'WHEEL[heif]', WHEEL the file .whl"
    """
    in_clone, from_wheel = (f"pip install '{where}[{extra}]'" for where in (".", "WHEEL"))
    return f"install the extra {extra}: in a clone {in_clone}, else {from_wheel}, WHEEL the file .whl"
