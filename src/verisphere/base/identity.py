r"""Who is who: when two names in data are one person's, and which texts stand for a missing name.

Two names are equal once *folded*: invisible letters are removed (format and control characters such as U+200B, U+00AD
and the byte-order mark, variation selectors, fillers), canonically equal letters become equal (NFC), case is ignored,
and white space, the no-break space included, is removed at the ends and counts as one blank inside; i with and
without a dot are one letter, since Turkish upper and lower case exchange them. Accents,
underscores, hyphens and the width of letters are kept. A name that writes a whole number is that number. Names that
differ as written and are equal once folded are refused, unless `--names` (`names` in Python and in recipes) decides.

>>> folded(" ANN\u00a0Lee\u200b") == folded("Ann Lee"), folded("Ann_Lee") == folded("Ann Lee")
(True, False)
>>> [folded(name) for name in (" 52.0", "+52", "5.2e1", "-1.00", "052", "52.5", "5.2e1x")]
['52', '52', '52', '-1', '052', '52.5', '5.2e1x']
"""

import re
import unicodedata
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import Decimal
from itertools import islice

import numpy as np
from jaxtyping import Bool

from verisphere.base.words import NAMES, Names

#: Identity of an image without a known person. Its label is `NO_CLASS`.
NOBODY = "-1"
#: Texts, once folded, that stand for a missing name; the numbers are those that NaN becomes in 32 or 64 bits.
MISSING = frozenset(("", "nan", "-nan", "nat", "none", "null", "n/a", "<na>",
                     "-2147483648", "-9223372036854775808", "9223372036854775808"))  # fmt: skip
#: Texts, once folded or plain (`_plain`), often written for people without a name.
_UNNAMED = frozenset(
    ("unknown", "unk", "unknown person", "not known", "anonymous", "anon", "other", "others", "no name", "noname",
     "unnamed", "unidentified", "undefined", "unlabeled", "unlabelled", "nobody", "na", "#n/a", "nil", "tbd", "misc",
     "stranger", "strangers", "distractor", "distractors", "background", "missing", "undef", "inf", "infinity",
     "desconocido", "desconocida", "desconhecido", "desconhecida", "inconnu", "inconnue", "unbekannt", "sconosciuto",
     "sconosciuta", "onbekend", "okänd", "ukjent", "ukendt", "tuntematon", "nieznany", "nieznana", "neznámý", "neznámá",
     "неизвестно", "неизвестный", "неизвестная", "bilinmeyen", "未知", "不明", "nd", "nn", "x", "xx", "xxx",
     "\\n", "-1", "-9", "-99", "-999", "-9999", ".", "..", "...", "?", "??", "???", "")
)  # fmt: skip
CROWD, CROWD_TIMES = 10, 5  # images of a name that may hold a crowd: at least so many, and so many times the median
#: Besides the categories that `_unseen` names: Default_Ignorable_Code_Point of Unicode, the blank of Braille, U+FFFC.
_UNSEEN = frozenset(map(chr, [0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180F, 0x2065, 0x2800,
                              0x3164, 0xFFA0, 0xFFFC, *range(0xFE00, 0xFE10), *range(0xFFF0, 0xFFF9),
                              *range(0xE0000, 0xE1000)]))  # fmt: skip
#: A number as data frames and programs write it; one that begins with a zero, such as 007, is a code.
_NUMBER = re.compile(r"[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)(e[-+]?[0-9]{1,3})?")
_NOT_PLAIN = re.compile(r"^ *([+.]|-[.0]|-?[0-9]+[.e])", re.MULTILINE | re.IGNORECASE)  # how other spellings begin
_PUNCTUATION, _END_NUMBER = re.compile(r"[^\w\s]+"), re.compile(r"(?<=[^\W\d]{2}) *[0-9]+$")
_DIGITS = re.compile(r"-?[0-9]+")
_DOTTED = re.compile("i\u0307+")  # what a capital I with a dot becomes in lower case
_FOLDED_AT_ONCE = 1 << 12
_TOO_LARGE = 10**19  # for a whole number of 64 bits
_asked: ContextVar[Names | None] = ContextVar("names", default=None)
_exact: ContextVar[bool] = ContextVar("exact", default=True)


@contextmanager
def names_taken(how: Names | None, exact: bool = True) -> Iterator[None]:
    """Within it, every reader takes names that are equal once folded as one person (`merge`) or as people (`exact`).

    Where such names are always one person's, as in a gallery that changes, no refusal advises `exact`.
    """
    before, advised = _asked.set(_checked(how) or _asked.get()), _exact.set(exact and _exact.get())
    try:
        yield
    finally:
        _asked.reset(before)
        _exact.reset(advised)


def decided(recorded: Names | None = None) -> Names | None:
    """What `names_taken` says, else what a set records; None where neither decides. Merged names stay merged."""
    return "merge" if _checked(recorded) == "merge" else _asked.get() or recorded


def _checked(how: Names | None) -> Names | None:
    if how is not None and how not in NAMES:
        raise ValueError(f"names is {how!r}; allowed are {' and '.join(NAMES)}, and None to refuse what they decide")
    return how


def rule_of_all(rules: Iterable[Names | None]) -> Names | None:
    """How names are taken in sets that are compared with each other: as `--names` says, else as the sets record.

    Where one set was made with `exact` and none with `merge`, that holds for all; `merge` must hold for each of them.
    """
    if asked := decided():
        return asked
    found = set(rules)
    return found.pop() if len(found) == 1 else "exact" if found <= {"exact", None} else None


def folded(name: str) -> str:
    """A name in the form in which names are compared; folding it again changes nothing."""
    if not name.isascii() or not name.isprintable():
        name = unicodedata.normalize("NFD", visible(name)).casefold().replace("\u0131", "i")
        name = unicodedata.normalize("NFC", _DOTTED.sub("i", name))
    return _plain_number(" ".join(name.casefold().split()))


def visible(name: str) -> str:
    """A name without the letters that nobody sees; white space stays."""
    return "".join(letter for letter in name if letter.isspace() or not _unseen(letter))


def _plain_number(form: str) -> str:
    """A whole number in its plain spelling; any other form as it is."""
    if not _NUMBER.fullmatch(form):
        return form
    value = Decimal(form)
    return str(int(value)) if abs(value) < _TOO_LARGE and value == int(value) else form


def _unseen(letter: str) -> bool:
    return letter in _UNSEEN or unicodedata.category(letter) in ("Cf", "Cc", "Cs")


def form_of(*rules: Names | None) -> Callable[[str], str]:
    """The form in which names of sets that took names so are compared: as written if `exact` decides for all."""
    return str if set(rules) == {"exact"} else folded


def as_read(name: str, how: Names | None) -> str:
    """A name as readers take it by itself: a whole number is in its plain spelling, unless `exact` decides.

    >>> as_read("52.0", None), as_read("52.0", "exact"), as_read("-1.0", "exact"), as_read("Ann", "merge")
    ('52', '52.0', '-1', 'Ann')
    """
    form = folded(name)
    return form if form == NOBODY or (how != "exact" and _DIGITS.fullmatch(form)) else name


def as_known(names: Iterable[str], known: Iterable[str], how: Names | None) -> dict[str, str]:
    """Each name as the known people spell it; only `merge` takes another spelling of one of them as this person.

    >>> as_known(["ann lee", "Bo"], ["Ann Lee", "Carl"], "merge")
    {'ann lee': 'Ann Lee', 'Bo': 'Bo'}
    """
    people = dict.fromkeys(known)
    spelled = dict(zip(_all_folded([*people]), people, strict=True)) if how == "merge" else {}
    read = {name: name if name in people else as_read(name, how) for name in names}
    return {name: one if one in people else spelled.get(folded(name), name) for name, one in read.items()}


def merge_hint(names: Sequence[str], known: Sequence[str], all_known: bool = True) -> str:
    """What takes the names as the known people, as all of them or as some, where spelling alone differs; else nothing.

    >>> merge_hint(["ann", "Ben"], ["Ann", "Ben"])[:31], merge_hint(["ann"], ["Ann", "Ben"])
    ('--names merge takes names that ', '')
    """
    merged = {*as_known(names, known, "merge").values()}
    if set(known).issuperset(names) or merged - {*known} or (all_known and len(merged) < len(known)):
        return ""
    return "--names merge takes names that are equal but for case, blanks or Unicode form as one person (names)"


def is_missing(name: str) -> bool:
    """Whether a text stands for a missing name.

    >>> is_missing(" NaN"), is_missing("\u200b"), is_missing("Nan Li")
    (True, True, False)
    """
    return folded(name) in MISSING


def refuse_missing(
    what: str, distinct: Iterable[str], column: Sequence[str], where: Callable[[int], str], instead: str = ""
) -> None:
    """Refuse a column in which a text is empty or stands for a missing value, which would be a value of its own.

    The column, of which `distinct` has each text once, is read only if some are missing. `instead` says what else to do
    than to state the value of every row; by default, to leave the column out.
    """
    texts = list(distinct)
    missing = {text for text, form in zip(texts, _all_folded(texts), strict=True) if form in MISSING}
    if missing:
        rows = [row for row, text in enumerate(column) if text in missing]
        raise ValueError(
            f"{len(rows):,} of {len(column):,} rows have an empty {what}, or the text of a missing value, the first is "
            f"{column[rows[0]][:200]!r} ({where(rows[0])}): name a {what} for every row, or "
            f"{instead or 'leave the column out'}"
        )


def spellings(
    distinct: Collection[str],
    column: Iterable[str],
    where: Callable[[int], str],
    how: Names | None,
    parts: Sequence[Iterable[str]] = (),
) -> dict[str, str]:
    """The new spelling of each name that is merged with another: that of most rows, the first in order among equals.

    Each whole number has its plain spelling, 52.0 is `52`, unless `exact` decides; -1.0 is nobody in any case.

    Args:
        column: name of each row; it is read only if names are missing or equal once folded.
        parts: the column in parts, of which the first that has a person decides the spelling: what is drawn from one
            file does not change beside another.
    """
    if _are_apart(distinct):
        return {}
    names = list(dict.fromkeys((*distinct, NOBODY)))
    forms = _all_folded(names)
    numbers = {
        name: form
        for name, form in zip(names, forms, strict=True)
        if name != form and (form == NOBODY or (how != "exact" and _DIGITS.fullmatch(form)))
    }
    alike: dict[str, list[str]] = defaultdict(list)
    for name, form in zip(names, forms, strict=True):
        alike[form].append(name)
    missing = {name for form in MISSING & alike.keys() for name in alike[form]}
    if missing:
        rows = [(row, name) for row, name in enumerate(column) if name in missing]
        total, (row, name) = sum(1 for _ in column), rows[0]
        raise ValueError(
            f"{len(rows):,} of {total:,} identities {'is' if len(rows) == 1 else 'are'} empty or the text of a missing "
            f"value, the first is {name[:200]!r} ({where(row)}); such rows would all be one person: exclude them, "
            f"write {NOBODY} for nobody who is known, or rename a person who is called so"
        )
    groups = [group for form, group in alike.items() if len(group) > 1 and form != NOBODY]
    if how == "exact":
        return numbers
    of_numbers = [group for group in groups if not numbers.keys().isdisjoint(group)]
    if how == "merge" or not _two_in_one_part(of_numbers, parts or (column,)):
        groups = [group for group in groups if numbers.keys().isdisjoint(group)]
    if not groups:
        return numbers
    if how is None:
        more = f", and so are the names of {len(groups) - 1:,} more" if len(groups) > 1 else ""
        raise ValueError(
            f"{' and '.join(_first_rows(groups[0][:2], column, where))} are one name but for case, blanks, Unicode "
            f"form, invisible letters or the spelling of a number{more}; --names merge takes such names as one person"
            f"{', --names exact as different people' if _exact.get() else ''} (in Python and in a recipe: names)"
        )
    images = [Counter(part) for part in parts or (column,)]
    best = [min(group, key=lambda name: (*(-part[name] for part in images), name)) for group in groups]
    merged = {name: new for group, new in zip(groups, best, strict=True) for name in group if name != new}
    return {**numbers, **merged}


def _are_apart(distinct: Iterable[str]) -> bool:
    """Whether surely no name is missing, equal to another once folded, or a number in another than its plain spelling.

    Of many millions of names a number each is held.
    """
    hashes, names = array("q", [hash(NOBODY)]), iter(distinct)
    while some := [*islice(names, _FOLDED_AT_ONCE)]:
        forms = _all_folded(some)
        if not MISSING.isdisjoint(forms):
            return False
        if some != forms and any(
            name != form and _DIGITS.fullmatch(form) for name, form in zip(some, forms, strict=True)
        ):
            return False
        hashes.extend(hash(form) for name, form in zip(some, forms, strict=True) if name != NOBODY)
    return len(np.unique(hashes)) == len(hashes)


def _two_in_one_part(groups: Sequence[Sequence[str]], parts: Sequence[Iterable[str]]) -> bool:
    """Whether a part has two of the names of a person."""
    return bool(groups) and any(len(part & set(group)) > 1 for part in map(set, parts) for group in groups)


def _all_folded(names: list[str]) -> list[str]:
    """Each name folded; plain ones all at once, which is ten times as fast."""
    text = "\n".join(names)
    if not (text.isascii() and text.replace("\n", "").isprintable() and text.count("\n") == len(names) - 1):
        return list(map(folded, names))
    forms = text.casefold().split("\n")
    forms = [" ".join(form.split()) for form in forms] if " " in text else forms
    return list(map(_plain_number, forms)) if _NOT_PLAIN.search(text) else forms


def _first_rows(names: Sequence[str], column: Iterable[str], where: Callable[[int], str]) -> list[str]:
    """Each name with the first of its rows; escaped where two look the same."""
    first: dict[str, int] = {}
    for row, name in enumerate(column):
        if name in names:
            first.setdefault(name, row)
    alike = len({unicodedata.normalize("NFC", repr(name)) for name in names}) < len(names)
    written = {name: ascii(name[:200]) if alike else repr(name[:200]) for name in names}
    return [f"{written[name]} ({where(first[name]) if name in first else 'nobody'})" for name in names]


def settled(sides: Sequence[tuple[str, np.ndarray, np.ndarray]], how: Names | None) -> list[np.ndarray]:
    """Columns of names in which each person has one spelling, in all columns together; see `spellings`.

    A side is what follows the number of a row in errors (` of a.npz`), the images, and the names.
    """
    columns = [names.tolist() for *_, names in sides]

    def where(row: int) -> str:
        for (source, images, _), names in zip(sides, columns, strict=True):
            if row < len(names):
                return f"{str(images[row])[:200]!r}, row {row}{source}"
            row -= len(names)
        raise IndexError(row)

    together = [name for names in columns for name in names]
    if not (new := spellings(dict.fromkeys(together), together, where, how, columns)):
        return [names for *_, names in sides]
    return [np.array([new.get(name, name) for name in names]) for names in columns]


def among(names: np.ndarray, people: np.ndarray, how: Names | None) -> Bool[np.ndarray, " names"]:
    """Which names are those of these people: once folded, or as written if `exact` decides."""
    if how == "exact":
        return np.isin(names, people)
    known = set(_all_folded(np.unique(people).tolist()))
    distinct, place = np.unique(names, return_inverse=True)
    return np.array([form in known for form in _all_folded(distinct.tolist())], bool)[place]


def crowds(images: Iterable[tuple[str, int]]) -> list[str]:
    """A note on each name such as `unknown` that holds 10 images or more, and 5 times the median of other people.

    >>> crowds([("Ann", 2), ("Ben", 3), ("unknown", 200)])[0][:73]
    "'unknown' holds 200 images, where the median person has 2.5: are they all"
    """
    unnamed, others = dict[str, int](), array("q")
    for name, count in images:
        if name != NOBODY and not {_plain(name), folded(name)}.isdisjoint(_UNNAMED | MISSING):
            unnamed[name] = count
        elif name != NOBODY and count:
            others.append(count)
    if not unnamed or not others:
        return []
    usual = float(np.median(others))
    return [
        f"{name!r} holds {count:,} images, where the median person has {usual:g}: are they all one person? if not, "
        f"every figure suffers; write {NOBODY} for nobody who is known, or exclude them"
        for name, count in unnamed.items()
        if count >= max(CROWD, CROWD_TIMES * usual)
    ]


def _plain(name: str) -> str:
    """A folded name without punctuation, a number at its end and words again; blanks for underscores and hyphens."""
    bare = _PUNCTUATION.sub("", folded(name).replace("_", " ").replace("-", " "))
    return _END_NUMBER.sub("", " ".join(dict.fromkeys(bare.split())))
