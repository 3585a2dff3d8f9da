"""An estimate of what a search for overlap misses: known overlaps are hidden, and the share found again is measured.

By name: half of the people are hidden under names that are changed in the ways in which names differ between sets. By
embedding: the images of half of the people with several images are split, one half stands for the training set and the
other for the test set; everybody else stands for a person who is only in the training set. If such a person is found
nevertheless, it is a false removal, unless the set has that person twice.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64

from verisphere.base.vocabulary import NOBODY, Progress, printable, quietly
from verisphere.decide.bounds import binomial_bounds
from verisphere.files.streamed_rows import open_rows
from verisphere.images.label_noise import image_keys
from verisphere.images.packs.columns import coded
from verisphere.report.tables import number, table
from verisphere.score.pairs import pair_scores, unit_rows
from verisphere.score.top_k import top_k
from verisphere.study.clean.same_person.names import SUFFIXES, Grade, graded, matches, unaccented, words_of
from verisphere.study.clean.same_person.overlap import People, names_of

#: Cosines that the estimate compares, beside the requested one.
COSINES = (0.3, 0.4, 0.5, 0.6, 0.7)
_ACCENTS = str.maketrans("aeiouAEIOU", "áéíóúÁÉÍÓÚ")
FEWEST_IMAGES = 2  # fewest images of a person whose images are split


@dataclass(frozen=True)
class Share:
    """The number of people who were found, with exact two-sided 95 % bounds of the rate.

    Attributes:
        found: number of people who were found.
        people: number of people who could be found.
    """

    found: int
    people: int

    @property
    def rate(self) -> float:
        """The share; NaN for nobody."""
        return self.found / self.people if self.people else float("nan")

    @property
    def bounds(self) -> tuple[float, float]:
        """Bounds of the rate (Clopper and Pearson); 0 and 1 for nobody."""
        return binomial_bounds(self.found, self.people) if self.people else (0.0, 1.0)

    def text(self) -> str:
        """The rate with its bounds."""
        low, high = self.bounds
        return f"{number(self.rate, 3)} ({number(low, 3)} to {number(high, 3)})" if self.people else "-"

    def summary(self) -> dict[str, Any]:
        """The counts, the rate and its bounds."""
        return asdict(self) | {"rate": self.rate if self.people else None, "bounds_95": list(self.bounds)}


@dataclass(frozen=True)
class NameRecall:
    """The number of people who are found under names that were changed in one way.

    Attributes:
        change: how the names were changed, in words.
        by_grade: people found by matches of a grade or a closer one, an entry for each grade.
    """

    change: str
    by_grade: tuple[Share, ...]


@dataclass(frozen=True)
class AtCosine:
    """The matches at one threshold.

    Attributes:
        cosine: the threshold.
        recall: share of the hidden overlaps that is found.
        false: share of the people who are only in the training set and are found.
    """

    cosine: float
    recall: Share
    false: Share


@dataclass(frozen=True)
class Estimate:
    """An estimate of the matches that a search for overlap misses.

    Attributes:
        source: set whose people were hidden.
        names: recall by name, for each way in which names differ.
        false_names: for each grade, the people with another name who were matched nevertheless.
        cosine: requested threshold; None without embeddings.
        at_cosines: recall and false removals by embedding.
        found_again: people who are only in the training set and are found at `cosine`, with their matches, the highest
            cosine first.
    """

    source: str
    names: tuple[NameRecall, ...]
    false_names: tuple[Share, ...]
    cosine: float | None = None
    at_cosines: tuple[AtCosine, ...] = ()
    found_again: tuple[tuple[str, str, float], ...] = ()

    def summary(self) -> dict[str, Any]:
        """The entry of `overlap.json`."""

        def by_grade(shares: Sequence[Share]) -> dict[str, Any]:
            return {grade.word: share.summary() for grade, share in zip(Grade, shares, strict=True)}

        return {
            "source": self.source,
            "by_name": {recall.change: by_grade(recall.by_grade) for recall in self.names},
            "false_by_name": by_grade(self.false_names),
            "cosine": self.cosine,
            "by_embedding": [
                {"cosine": at.cosine, "recall": at.recall.summary(), "false": at.false.summary()}
                for at in self.at_cosines
            ],
            "found_again": [
                {"identity": identity, "other": other, "cosine": cosine} for identity, other, cosine in self.found_again
            ],
        }

    def text(self) -> str:
        """The estimate as text."""
        lines = [f"estimate from hidden people of {self.source}: share found, with exact 95% bounds"]
        if self.names:
            header = ["names that differ by", "people", *(grade.word for grade in Grade)]
            rows = [
                [recall.change, f"{recall.by_grade[0].people:,}", *(share.text() for share in recall.by_grade)]
                for recall in self.names
            ]
            people = f"{self.false_names[0].people:,}"
            rows.append(["false: another person", people, *(f"{share.found:,}" for share in self.false_names)])
            lines += ["found by names of this grade or a closer one:", table(header, rows)]
        if self.at_cosines:
            rows = [
                [
                    f"{at.cosine:g}",
                    f"{at.recall.people:,}",
                    at.recall.text(),
                    f"{at.false.found:,} of {at.false.people:,}",
                ]
                for at in self.at_cosines
            ]
            lines.append(table(["cosine", "hidden", "found by embedding", "false removals"], rows))
        if self.found_again:
            lines.append(
                f"false removals at {self.cosine:g}, of which some may be one person under two names: "
                + ", ".join(
                    f"{printable(person)} / {printable(other)} ({number(value, 3)})"
                    for person, other, value in self.found_again[:10]
                )
                + (" ..." if len(self.found_again) > 10 else "")
            )
        return "\n".join(lines)


def estimate_overlap(
    train: People,
    test: People,
    ids: Mapping[str, Sequence[str]],
    embeddings: Sequence[Path] | None,
    cosine: float,
    seed: int = 0,
    progress: Progress = quietly,
) -> Estimate:
    """Estimate what `find_overlap` would miss, on hidden people of the test set or of the training set.

    Args:
        train: the training set; its people are used if the test set has too few.
        test: the test set.
        ids: names of ids.
        embeddings: embeddings of the two sets; None estimates only the search by name.
        cosine: threshold of embeddings.
        seed: seed by which the hidden people are chosen.
        progress: reports the progress.

    Raises:
        ValueError: neither set has two people with names, or, with embeddings, nobody has two images.
    """
    source, names = "", list[str]()
    for side in (test, train):
        source, names = str(side.path), [next(iter(names_of(person, ids)), "") for person in side.identities]
        if len(names := [name for name in names if name]) > 1:
            break
    recalls, false = estimate_names(names, seed) if len(names) > 1 else ((), (Share(0, 0),) * len(Grade))
    if embeddings is None:
        if len(names) < 2:
            raise ValueError("--estimate: neither set has two people with a name, and there are no embeddings")
        return Estimate(source, recalls, false)
    path = next((path for path in (embeddings[1], embeddings[0]) if _several(path)), None)
    if path is None:
        raise ValueError(f"--estimate: {embeddings[1]} and {embeddings[0]} have nobody with two images to hide")
    at, again = estimate_embeddings(path, cosine, seed, progress)
    return Estimate(source, recalls, false, cosine, at, again)


def _several(path: Path) -> int:
    """Number of people with enough images to be split."""
    identities = open_rows(path, ("names", "identities")).identities
    assert identities is not None
    people, counts = np.unique(identities, return_counts=True)
    return int(((counts >= FEWEST_IMAGES) & (people != NOBODY)).sum())


# --- names ---


def _accents(name: str, key: int) -> str | None:
    """The name without its accents, or, if it has none, with an accent on its first vowel."""
    bare = "".join(unaccented(letter).upper() if letter.isupper() else unaccented(letter) for letter in name)
    if bare != name:
        return bare
    place = next((place for place, letter in enumerate(name) if letter.translate(_ACCENTS) != letter), None)
    return None if place is None else name[:place] + name[place].translate(_ACCENTS) + name[place + 1 :]


def _order(name: str, key: int) -> str | None:
    pieces = _pieces(name)
    return " ".join([pieces[-1], *pieces[:-1]]) if len(pieces) > 1 else None


def _middle_initial(name: str, key: int) -> str | None:
    pieces = _pieces(name)
    return " ".join([pieces[0], f"{chr(ord('A') + key % 26)}.", *pieces[1:]]) if len(pieces) == 2 else None


def _no_middle(name: str, key: int) -> str | None:
    pieces = _pieces(name)
    if len(pieces) < 3:
        return None
    return f"{pieces[0]} {pieces[-2 if pieces[-1].rstrip('.').lower() in SUFFIXES else -1]}"


def _first_initial(name: str, key: int) -> str | None:
    pieces = _pieces(name)
    return " ".join([f"{pieces[0][0]}.", *pieces[1:]]) if len(pieces) > 1 and len(pieces[0]) > 1 else None


def _typo(name: str, key: int) -> str | None:
    """The name without one letter of its longest word, which the rule for names should not find."""
    longest = max(_pieces(name), key=len, default="")
    if len(longest) < 4:
        return None
    place = name.index(longest) + 1 + key % (len(longest) - 2)
    return name[:place] + name[place + 1 :]


def _pieces(name: str) -> list[str]:
    return name.replace("_", " ").split()


CHANGES: tuple[tuple[str, Callable[[str, int], str | None]], ...] = (
    ("case and separators", lambda name, key: name.replace("_", " ").upper()),
    ("accents", _accents),
    ("order of words", _order),
    ("a middle initial more", _middle_initial),
    ("middle names less", _no_middle),
    ("an initial for the first name", _first_initial),
    ("a letter lost (hard)", _typo),
)


def estimate_names(people: Sequence[str], seed: int = 0) -> tuple[tuple[NameRecall, ...], tuple[Share, ...]]:
    """Recall by name for each way in which names differ, and false matches of people with other names.

    Half of the people are hidden; the other half stand for people who are only in the training set, and are matched
    with the names of the hidden ones.

    Args:
        people: names of different people.
        seed: seed by which the hidden people are chosen.
    """
    keys = image_keys(people, seed)
    hidden = _half(keys[:, 0])
    named = [place for place in np.flatnonzero(hidden).tolist() if len(words_of(people[place])) > 0]
    recalls = []
    for words, change in CHANGES:
        counts, total = np.zeros(len(Grade), np.int64), 0
        for place in named:
            changed = change(people[place], int(keys[place, 1] >> np.uint64(8)))
            if changed is None:
                continue
            total += 1
            grade = graded(changed, people[place])
            if grade is not None:
                counts[grade:] += 1
        recalls.append(NameRecall(words, tuple(Share(int(count), total) for count in counts)))
    alone = [people[place] for place in np.flatnonzero(~hidden).tolist()]
    closest: dict[str, Grade] = {}
    for match in matches(alone, [people[place] for place in named]):
        closest[match.name] = min(match.grade, closest.get(match.name, match.grade))
    false = tuple(Share(sum(match <= grade for match in closest.values()), len(alone)) for grade in Grade)
    return tuple(recalls), false


def _half(keys: Any) -> Bool[np.ndarray, " rows"]:
    """The half of the rows with the lowest keys; the larger one if their number is odd."""
    chosen = np.zeros(len(keys), bool)
    chosen[np.argsort(keys, kind="stable")[: -(-len(keys) // 2)]] = True
    return chosen


# --- embeddings ---


def estimate_embeddings(
    path: Path, cosine: float, seed: int = 0, progress: Progress = quietly
) -> tuple[tuple[AtCosine, ...], tuple[tuple[str, str, float], ...]]:
    """Recall and false removals by embedding, at several cosines and the requested one.

    Of the people with two images or more, half are hidden: the larger half of the images of each stands for the
    training set, the other for the test set. All others stand for people who are only in the training set. As in
    `find_overlap`, a person is found if the center of the training images reaches the cosine with a center of the test
    set or with a single image.

    Args:
        path: embeddings of people who are all different.
        cosine: the threshold.
        seed: seed by which the hidden people are chosen.
        progress: reports the progress.

    Raises:
        ValueError: nobody has two images.
    """
    rows = open_rows(path, ("names", "identities"))
    assert rows.identities is not None
    column = coded(rows.identities.tolist())
    embeddings = np.concatenate([part for _, part in progress(rows.portions(), "reading embeddings", rows.steps)])
    units = unit_rows(embeddings).numpy()
    several = [c for c, n in enumerate(column.counts().tolist()) if n >= FEWEST_IMAGES and column.values[c] != NOBODY]
    if not several:
        raise ValueError(f"{path}: nobody has {FEWEST_IMAGES} images, so no known overlap can be hidden")
    several.sort(key=lambda code: column.values[code])
    hidden_codes = {
        several[place] for place in np.flatnonzero(_half(image_keys([column.values[c] for c in several], seed)[:, 0]))
    }
    keys = image_keys(rows.names.tolist(), seed)[:, 0]
    in_train = np.zeros(len(rows), bool)
    for code, places in _rows_of(column.codes, len(column.values)):
        if column.values[code] != NOBODY:
            in_train[places] = _half(keys[places]) if code in hidden_codes else True
    in_test = ~in_train & np.isin(column.codes, list(hidden_codes))
    codes, train = _centers(units, column.codes, in_train)
    test_codes, test = _centers(units, column.codes, in_test)
    images = np.flatnonzero(in_test)
    gallery = torch.cat([test, torch.from_numpy(units[images])])
    people = np.concatenate([test_codes, column.codes[images]])
    hidden = np.isin(codes, list(hidden_codes))
    own_cosines = _own_cosines(train, codes, gallery, people, hidden)
    best, nearest = top_k(train[torch.from_numpy(~hidden)], gallery, 1, progress=progress)
    strangers, near = best[:, 0].clamp(max=1.0).numpy(), people[nearest[:, 0].numpy()]
    at = tuple(
        AtCosine(
            level,
            Share(int((own_cosines >= level).sum()), len(own_cosines)),
            Share(int((strangers >= level).sum()), len(strangers)),
        )
        for level in sorted({*COSINES, cosine})
    )
    order = [place for place in np.argsort(-strangers, kind="stable").tolist() if strangers[place] >= cosine]
    alone = codes[~hidden]
    again = tuple((column.values[alone[place]], column.values[near[place]], float(strangers[place])) for place in order)
    return at, again


def _rows_of(codes: Int64[np.ndarray, " rows"], values: int) -> list[tuple[int, Int64[np.ndarray, " of_value"]]]:
    """The rows of each value that occurs."""
    order = np.argsort(codes, kind="stable")
    parts = np.split(order, np.searchsorted(codes[order], np.arange(1, values)))
    return [(code, part) for code, part in enumerate(parts) if len(part)]


def _centers(units: np.ndarray, codes: Int64[np.ndarray, " rows"], chosen: Bool[np.ndarray, " rows"]) -> Any:
    """The value and the center of every value that chosen rows have."""
    present, place = np.unique(codes[chosen], return_inverse=True)
    sums = np.zeros((len(present), units.shape[1]))
    np.add.at(sums, place, units[chosen].astype(np.float64))
    return present, unit_rows((sums / np.bincount(place)[:, None]).astype(np.float32))


def _own_cosines(
    train: torch.Tensor,
    codes: Int64[np.ndarray, " people"],
    gallery: torch.Tensor,
    people: Int64[np.ndarray, " gallery"],
    hidden: Bool[np.ndarray, " people"],
) -> Float64[np.ndarray, " hidden"]:
    """The highest cosine of each hidden person's training center with the center and the images of its test half."""
    row_of = {int(code): row for row, code in enumerate(codes.tolist())}
    left = torch.tensor([row_of[int(code)] for code in people.tolist()])
    scores = pair_scores(train, left, torch.arange(len(gallery)), gallery).clamp(max=1.0).numpy()
    highest = np.full(len(codes), -np.inf)
    np.maximum.at(highest, left.numpy(), scores)
    return highest[hidden]
