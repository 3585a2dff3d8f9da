"""A test of whether two names may belong to one person: accents, order of words, initials, middle names.

The match of two names is a proposal, on which a person must decide. The script of happynear/FaceDatasets proposed 64
pairs of people for CASIA-WebFace and LFW, of which its author kept 17 (github.com/happynear/FaceDatasets,
CASIA/match_names.py, lfw_log.txt), and a reader found two of these to be different people of the same name (issue 11
there). The rule here is that script's, with grades, and with two differences: if first and last word are compared, at
least one of the two must be a whole word, so that `J. S.` is not `John Smith`; and `Jr` or `III` at the end is no last
word.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from verisphere.base.identity import folded, visible

#: Letters that Unicode does not decompose into a letter of ASCII and an accent.
_LETTERS = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i", "ħ": "h", "ß": "ss"}
)
_APOSTROPHES = re.compile("['\u2019\u2018`\u00b4\u02bc\"\u201c\u201d]")
_SEPARATORS = re.compile(r"[\W_]+")
_LETTERS_TOGETHER = re.compile(r"^[A-Z]{2,3}$")  # such as BD in BD_Wong
SUFFIXES = frozenset({"jr", "sr", "ii", "iii", "iv"})
_HYPHENS = re.compile("[-\u2010\u2011\u2012\u2013]")


class Grade(IntEnum):
    """The closeness of two names; a smaller grade is closer.

    INITIAL: equally many words, which agree in order if an initial stands for any word. FIRST_AND_LAST: the first and
    the last words agree, in either order, and an initial may stand for one of the two; words between them, and Jr, Sr,
    II, III and IV at the end, are ignored.
    """

    EQUAL = 0
    SAME_WORDS = 1
    INITIAL = 2
    FIRST_AND_LAST = 3

    @property
    def word(self) -> str:
        """The grade as results spell it."""
        return ("equal", "same words", "initial", "first and last")[self]


@dataclass(frozen=True)
class NameMatch:
    """Two names that may belong to one person, and how close they are."""

    name: str
    other: str
    grade: Grade


def unaccented(text: str) -> str:
    """A text in lower case without accents.

    >>> unaccented("Beyoncé Łukasz Ørsted")
    'beyonce lukasz orsted'
    """
    parts = unicodedata.normalize("NFKD", text)
    bare = "".join(letter for letter in parts if not unicodedata.combining(letter))
    return unicodedata.normalize("NFC", bare).casefold().translate(_LETTERS)


def words_of(name: str) -> tuple[str, ...]:
    """The words of a name, in lower case without accents; hyphens, underscores and full stops end a word. A word of two
    or three capital letters in a name that also has small letters is read as initials.

    >>> words_of("Choi_Sung-hong"), words_of("BD_Wong"), words_of("Conan O'Brien")
    (('choi', 'sung', 'hong'), ('b', 'd', 'wong'), ('conan', 'obrien'))
    """
    name = unicodedata.normalize("NFC", visible(name))
    pieces = [piece for piece in _SEPARATORS.split(_APOSTROPHES.sub("", name)) if piece]
    if any(letter.islower() for letter in name):
        pieces = [part for piece in pieces for part in (piece if _LETTERS_TOGETHER.match(piece) else (piece,))]
    return tuple(unaccented(piece) for piece in pieces)


def graded(name: str, other: str) -> Grade | None:
    """The closeness of two names; None if they do not agree.

    >>> graded("Ziyi_Zhang", "Zhang Ziyi"), graded("William_H._Macy", "William_Macy"), graded("Madonna", "Prince")
    (<Grade.SAME_WORDS: 1>, <Grade.FIRST_AND_LAST: 3>, None)
    """
    ours, theirs = words_of(name), words_of(other)
    if not ours or not theirs:
        return None
    if folded(name) == folded(other) or "".join(ours) == "".join(theirs):
        return Grade.EQUAL
    if _orderless(name) & _orderless(other):
        return Grade.SAME_WORDS
    if len(ours) == 1 or len(theirs) == 1:
        return None  # one word against several, or two words that differ
    if len(ours) == len(theirs) and _agree(ours, theirs):
        return Grade.INITIAL
    first, last = _ends(theirs)
    if _agree(_ends(ours), (first, last)) or _agree(_ends(ours), (last, first)):
        return Grade.FIRST_AND_LAST
    return None


def _ends(words: Sequence[str]) -> tuple[str, str]:
    has_suffix = len(words) > 2 and words[-1] in SUFFIXES
    return words[0], words[-2 if has_suffix else -1]


def _agree(ours: Sequence[str], theirs: Sequence[str]) -> bool:
    """Whether words agree one by one, if an initial may stand for a word and at most two words are one letter."""
    pairs = list(zip(ours, theirs, strict=True))
    whole = any(word == other and len(word) > 1 for word, other in pairs)
    return whole and all(
        word == other or (min(len(word), len(other)) == 1 and word[0] == other[0]) for word, other in pairs
    )


def _orderless(name: str) -> frozenset[tuple[str, ...]]:
    """The words of a name in alphabetical order, once with hyphens as spaces and once without them."""
    return frozenset({tuple(sorted(words_of(name))), tuple(sorted(words_of(_HYPHENS.sub("", name))))})


def _keys(name: str) -> Iterator[tuple[object, ...]]:
    """Keys of a name; names that agree in any grade have a key in common."""
    words = words_of(name)
    if not words:
        return
    yield "folded", folded(name)
    yield "letters", "".join(words)
    for ordered in _orderless(name):
        yield "words", ordered
    if len(words) > 1:
        first, last = _ends(words)
        # one of the two is whole and the same, of the other the first letter
        for whole, other in ((first, last), (last, first)):
            yield "ends", whole, other[0]
        # an INITIAL match may have its only whole word in the middle
        for place, word in enumerate(words[1:-1], start=1):
            yield "middle", len(words), place, word


def matches(names: Iterable[str], others: Iterable[str], weakest: Grade = Grade.FIRST_AND_LAST) -> Iterator[NameMatch]:
    """All pairs of names that agree; time and memory are those of the names and the pairs, not of their product.

    Pairs of a weaker grade than `weakest` are omitted.

    >>> [match.other for match in matches(["Ann Lee", "Bo Li"], ["Lee_Ann", "BO_LI", "Cy Li"])]
    ['Lee_Ann', 'BO_LI']
    """
    by_key: Mapping[tuple[object, ...], list[str]] = defaultdict(list)
    for other in dict.fromkeys(others):
        for key in set(_keys(other)):
            by_key[key].append(other)
    for name in dict.fromkeys(names):
        near = dict.fromkeys(other for key in _keys(name) for other in by_key.get(key, ()))
        for other in near:
            grade = graded(name, other)
            if grade is not None and grade <= weakest:
                yield NameMatch(name, other, grade)
