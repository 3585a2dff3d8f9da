"""Embeddings that cannot be: labels of other rows, or one vector for many people (see `decide.plausible`).

A seeded sample of people is scored, so that the cost does not grow with the number of pairs.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float32, Float64, Int64
from scipy.special import stdtrit

from verisphere.base.identity import CROWD, CROWD_TIMES
from verisphere.base.mapped import few_rows_at
from verisphere.base.seeds import numpy_generator
from verisphere.base.vocabulary import NOBODY, Comparisons, Embeddings
from verisphere.base.words import counted
from verisphere.decide.plausible import (
    CHANCE,
    FEWEST,
    MOST,
    MOST_NEIGHBOURS,
    MOVED,
    SAMPLED,
    WORKING,
    SampledScores,
    implausible,
    implausible_list,
    moved_by,
    reordered,
)
from verisphere.measure.protocols.listed_pairs import domains_of_pairs
from verisphere.score import pair_scores, unit_rows
from verisphere.score.linkage import linked

SHARE_OF_ROWS = 0.005  # of a set, in which one vector may stand, as photographs that were posted again do
SHARE_UNDER_OTHERS = 0.01  # of the rows of a set, whose vector may stand under another person too
PEOPLE_OF_A_VECTOR = 2  # under which one vector may stand: look-alikes and twins do not have equal ones
_EQUAL = 2e-7  # difference of two numbers of unit rows that a rounding to float32 may make
_NUMBERS_AT_ONCE = 1 << 22


def repeated_vectors(
    embeddings: Float32[np.ndarray, "rows dim"],
    person: Int64[np.ndarray, " rows"] | None,
    template: Int64[np.ndarray, " rows"] | None = None,
) -> tuple[str, ...]:
    """The reason why rows of equal direction cannot be right; rows are compared after one projection has sorted them.

    Equal rows of one template, such as frames of a still picture, count once. Where it is not known who is shown
    (`person` is None), as of distractors, a vector is only wrong that stands in many rows.

    >>> rows = np.array([[1, 2], [2, 4], [3, 6], [3, 1]], np.float32)
    >>> repeated_vectors(rows, np.array([0, 1, 2, 2]))
    ('one vector stands in 3 of 4 rows, under 3 people',)
    """
    count = len(embeddings)
    direction = numpy_generator(0).standard_normal(embeddings.shape[1])
    key = np.empty(count)
    step = max(_NUMBERS_AT_ONCE // embeddings.shape[1], 1)
    for start in range(0, count, step):
        rows = embeddings[start : start + step].astype(np.float64)
        key[start : start + step] = rows @ direction / np.linalg.norm(rows, axis=1)
    order = np.argsort(key, kind="stable")
    same = np.diff(key[order]) <= _EQUAL * np.abs(direction).sum()
    candidates = np.flatnonzero(same)
    for start in range(0, len(candidates), step):
        part = candidates[start : start + step]
        same[part] = _equal(few_rows_at(embeddings, order[part]), few_rows_at(embeddings, order[part + 1]))
    vector = np.concatenate([[0], np.cumsum(~same)])
    once = vector if template is None else np.unique(np.stack([vector, template[order]]), axis=1)[0]
    rows_of = np.bincount(once)
    whose = np.zeros(count, np.int64) if person is None else person
    people_of = np.bincount(np.unique(np.stack([vector, whose[order]]), axis=1)[0])
    wrong = (people_of > PEOPLE_OF_A_VECTOR) | ((rows_of >= FEWEST) & (rows_of > SHARE_OF_ROWS * count))
    if not wrong.any():
        shared = int(rows_of[people_of > 1].sum())
        if shared < max(FEWEST, SHARE_UNDER_OTHERS * count):
            return ()
        return (f"{shared:,} of {count:,} rows have a vector that stands under another person too",)
    worst = int(np.argmax(np.where(wrong, rows_of, 0)))
    people = "" if person is None else f", under {counted(int(people_of[worst]), 'person')}"
    more = f" ({wrong.sum():,} vectors are so)" if wrong.sum() > 1 else ""
    return (f"one vector stands in {rows_of[worst]:,} of {count:,} rows{people}{more}",)


def _equal(left: np.ndarray, right: np.ndarray) -> Bool[np.ndarray, " pairs"]:
    units = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (np.float64(left), np.float64(right))]
    return np.abs(units[0] - units[1]).max(1) <= _EQUAL


MOST_PEOPLE = 2_000  # sampled
MOST_CROWDS = 100  # people with the most images who are tested for a crowd
MOST_IMAGES = 100  # of a name, whose pairs are all scored where a sample of them shows a crowd
MOST_PAIRS = 60  # of domains that are compared, or as many as there are domains
_NUMBERS = re.compile(r"([0-9]{1,1000})")  # Python reads no number of more than 4,300 digits


def implausible_set(embeddings: Embeddings) -> tuple[str, ...]:
    """The reasons why a set cannot be that of a working model with these identities; none for a set that can.

    If there are none for the whole set, its domains are tested too, since a healthy domain hides one that is not, and
    pairs of domains; then the labels in other orders, and the rows that were pooled into its templates, since a mean
    hides a wrong row.
    """
    person = _numbered(embeddings.identities)
    found, auc = _of_rows(embeddings.embeddings, person, domain=embeddings.domains)
    return (
        (*repeated_vectors(embeddings.embeddings, person), *found)
        or crowds_of_strangers(embeddings)
        or _of_domains(embeddings, person, auc)
        or _of_rows(embeddings.embeddings, person, None, embeddings.domains, np.unique(embeddings.identities))[0]
        or implausible_before_pooling(embeddings)
    )


def crowds_of_strangers(embeddings: Embeddings) -> tuple[str, ...]:
    """A reason for each name with many images whose genuine pairs score like impostor pairs, whatever the name is.

    Other people's pairs have to score far higher: for a weak model, one person of many photographs is near chance too.
    So is a person with hard images for a good one: hence the bound of the AUC over images, at 99 % for all names at
    once. Its error is that of a mean over pairs of images (Hoeffding 1948), twice the error of a mean over images.
    """
    names, person, images = np.unique(embeddings.identities, return_inverse=True, return_counts=True)
    least = max(CROWD, CROWD_TIMES * float(np.median(images)))
    largest = np.argsort(-images, kind="stable")[:MOST_CROWDS]
    large = largest[(images[largest] >= least) & (names[largest] != NOBODY)]
    others = np.flatnonzero((images > 1) & (images < least) & (names != NOBODY))
    if not len(large) or len(others) < FEWEST:
        return ()
    domain = np.zeros(len(person)) if embeddings.domains is None else embeddings.domains
    usual, found = (_sampled(embeddings.embeddings, person, domain, people) for people in (others, large))
    reasons = []
    for name in large[found.auc_of_people <= MOST] if usual.auc >= WORKING else ():
        rows = numpy_generator(0).permutation(np.flatnonzero(person == name))[:MOST_IMAGES]
        left, right = np.nonzero(~np.eye(len(rows), dtype=bool))
        score = _scores(embeddings.embeddings, rows[left], rows[right]).reshape(len(rows), -1)
        own = SampledScores(score, _sampled(embeddings.embeddings, person, domain, np.array([name])).impostor)
        error = 2 * own.auc_of_people.std(ddof=1) / np.sqrt(len(rows))
        if own.auc + error * stdtrit(len(rows) - 1, 1 - 0.01 / len(large)) <= MOST:
            reasons.append(
                f"genuine pairs of the {images[name]:,} images of {str(names[name])!r} score no higher than impostor "
                f"pairs (AUC {own.auc:.3f}, that of other people {usual.auc:.3f}), as if they showed many people: "
                f"write {NOBODY} for nobody who is known, or exclude them"
            )
    return tuple(reasons)


def _sampled(
    rows: Float32[np.ndarray, "rows dim"],
    person: Int64[np.ndarray, " rows"],
    domain: np.ndarray,
    people: Int64[np.ndarray, " people"] | None = None,
) -> SampledScores:
    """Genuine pairs, of all people or of these; impostor pairs have a row of theirs, and the domains of such pairs."""
    left, right = _genuine(person, people)
    first, second = left.ravel(), _of_same(domain, right.ravel())
    genuine = _scores(rows, first, right.ravel()).reshape(left.shape)
    return SampledScores(genuine, _scores(rows, first, second)[person[first] != person[second]])


def _of_domains(embeddings: Embeddings, person: Int64[np.ndarray, " rows"], whole: float) -> tuple[str, ...]:
    """The reasons of each domain by itself, and of pairs of domains with people in common.

    Each has to be below the whole, or below the best domain that works: pairs across domains, one of which is wrong,
    make the whole look weak. A model that is weak inside a domain may distinguish nobody across domains, so that one is
    in no pair. Where few people have two images in a domain, it is not known whether the model works there: the other
    one has to show it, or two domains that agree.
    """
    domains, vectors = _domains(embeddings), embeddings.embeddings
    inside = {name: _of_rows(vectors[rows], person[rows], whole) for name, rows in domains}
    best = max((auc for _, auc in inside.values()), default=whole)
    if best >= WORKING:
        weak = [(name, rows) for name, rows in domains if inside[name][1] <= MOST]
        inside |= {name: _of_rows(vectors[rows], person[rows], best) for name, rows in weak}
    reasons = [f"domain {name}: {reason}" for name, (found, _) in inside.items() for reason in found]
    auc = {name: auc for name, (found, auc) in inside.items() if not found and (auc >= WORKING or auc == CHANCE)}
    works = [(name, rows) for name, rows in domains if name in auc]
    apart = ((works[at], works[at + by]) for by in range(1, len(works)) for at in range(len(works) - by))
    pairs = (
        ((name, rows), (other, others))
        for (name, rows), (other, others) in apart
        if (max(auc[name], auc[other]) >= WORKING or auc[name] == auc[other])
        and len(np.intersect1d(person[rows], person[others])) >= FEWEST
    )
    between = {}
    for (name, rows), (other, others) in islice(pairs, max(MOST_PAIRS, len(domains))):
        sides = (vectors[rows], vectors[others]), (person[rows], person[others])
        between[name, other] = _between(*sides, (name, other))
    best = max((across for _, across in between.values()), default=CHANCE)
    for (name, other), (found, _) in between.items():
        if max(auc[name], auc[other], best) >= WORKING:
            reasons += [f"between domain {name} and {other}: {reason}" for reason in found]
    return tuple(reasons)


def implausible_before_pooling(embeddings: Embeddings, by_template: bool = False) -> tuple[str, ...]:
    """The reasons why the rows that were pooled into templates cannot be those of a working model, if they are kept.

    The rows of a template without a known person are one person; by template, those of each are, whatever identities
    say.
    """
    rows = embeddings.pooled_from
    if rows is None or rows.templates is None:
        return ()
    order = np.argsort(embeddings.names)
    template = order[np.searchsorted(embeddings.names, rows.templates, sorter=order).clip(max=len(order) - 1)]
    used = embeddings.names[template] == rows.templates  # not of templates that were excluded since
    vectors, template = rows.embeddings[used], template[used]
    identity = np.full(len(template), NOBODY) if by_template else embeddings.identities[template]
    alone = np.char.add(f"{NOBODY} of template ", embeddings.names[template])
    person = _numbered(np.where(identity == NOBODY, alone, identity))
    of_rows, auc = _of_rows(vectors, person)
    found = repeated_vectors(vectors, _numbered(identity), template) + of_rows
    found = found or _of_domains(rows.take(used), person, auc)
    return tuple(f"before the rows of a template are pooled, {reason}" for reason in found)


def _numbered(identities: np.ndarray) -> Int64[np.ndarray, " rows"]:
    return np.unique(identities, return_inverse=True)[1].astype(np.int64)


def _domains(embeddings: Embeddings) -> list[tuple[str, Bool[np.ndarray, " rows"]]]:
    """Each domain of a set with the rows that it has; none for a set of one domain."""
    if embeddings.domains is None:
        return []
    names = np.unique(embeddings.domains).tolist()
    return [(name, embeddings.domains == name) for name in names] if len(names) > 1 else []


def _of_rows(
    rows: Float32[np.ndarray, "rows dim"],
    person: Int64[np.ndarray, " rows"],
    whole: float | None = None,
    domain: np.ndarray | None = None,
    names: np.ndarray | None = None,
) -> tuple[tuple[str, ...], float]:
    """The reasons, and the AUC; `whole` is that of the whole set, if these rows are a domain.

    Impostor pairs have the domains of genuine pairs, since most models score pairs inside a domain higher. If the names
    of the people are given, the labels are also tried in other orders.
    """
    if len(rows) < 2:
        return (), CHANCE
    one, other = numpy_generator(0).integers(len(person), size=(2, SAMPLED))
    score = _scores(rows, one, other)

    def sample(labels: Int64[np.ndarray, " rows"]) -> SampledScores:
        if domain is not None:
            return _sampled(rows, labels, domain)
        left, right = _genuine(labels)
        genuine = _scores(rows, left.ravel(), right.ravel()).reshape(left.shape)
        return SampledScores(genuine, score[labels[one] != labels[other]])

    right, moved = sample(person), {where: sample(np.roll(person, -by)) for by, where in MOVED.items()}
    reasons = implausible(right, moved, True, whole)
    if names is not None and not reasons:
        reasons = reordered(right, ((how, sample(labels)) for how, labels in _orders(rows, person, names)))
    return reasons, right.auc if right.judged else CHANCE


def _orders(
    rows: np.ndarray, person: Int64[np.ndarray, " rows"], names: np.ndarray
) -> Iterator[tuple[str, Int64[np.ndarray, " rows"]]]:
    """The same labels in orders that the rows may have, if labels were sorted by themselves, or some of them were lost.

    Labels that are in no order were not sorted: sorting them would also mend a few wrong ones. How far they were moved
    shows where images of a person lie side by side: neighbours that are alike then begin and end with their labels.
    """
    parts = [
        [int(part) if place % 2 else part for place, part in enumerate(_NUMBERS.split(name))] for name in names.tolist()
    ]
    by_number = np.array(sorted(range(len(names)), key=parts.__getitem__), np.int64)
    orders = {
        "sorted as text": np.sort(person),
        "sorted by the numbers in them": by_number[np.sort(np.argsort(by_number)[person])],
    }
    if any(np.array_equal(person, labels[::step]) for labels in orders.values() for step in (1, -1)):
        yield from orders.items()
    yield "reversed", person[::-1]
    quarters = [(len(person) * quarter // 4, 1) for quarter in range(4)]  # then far apart: people of many images
    for first, apart in dict.fromkeys([*quarters, (0, -(-len(person) // MOST_NEIGHBOURS))]):
        at = np.arange(first, len(person), apart)[:MOST_NEIGHBOURS]
        far = apart * moved_by(person[at] == np.roll(person[at], -1), _scores(rows, at, np.roll(at, -1)))
        for by in dict.fromkeys((1, -1, far)):
            if by and (first or abs(by) > 1):  # all labels by one row are asked without these conditions
                how = f"moved by {'about ' * (apart > 1)}{'one row' if abs(by) == 1 else f'{abs(by)} rows'}"
                how += f" from row {first:,} on" if first else ""
                yield how, np.concatenate([person[:first], np.roll(person[first:], by)])


def implausible_sides(left: Embeddings, right: Embeddings, names: tuple[str, str]) -> tuple[str, ...]:
    """The reasons why two sets that are compared with each other cannot be those of a working model.

    If there are none for the whole sets, each domain of one is tested against all of the other, then each by itself,
    since labels of both that are wrong in one way still agree.
    """
    people, person = np.unique(np.concatenate([left.identities, right.identities]), return_inverse=True)
    sides, persons = (left.embeddings, right.embeddings), (person[: len(left)], person[len(left) :])
    reasons = tuple(
        f"{name}: {reason}"
        for name, rows, person in zip(names, sides, persons, strict=True)
        for reason in repeated_vectors(rows, person)
    )
    found, auc = _between(sides, persons, names)
    return (
        (*reasons, *found)
        or tuple(
            f"domain {domain} of {names[side]}: {reason}"
            for side, embeddings in enumerate((left, right))
            for domain, rows in _domains(embeddings)
            for reason in _between(_with(sides, side, rows), _with(persons, side, rows), names, auc)[0]
        )
        or _between(sides, persons, names, people=people)[0]
        or tuple(
            f"{name}: {reason}"
            for name, side in zip(names, (left, right), strict=True)
            for reason in implausible_set(side)
        )
    )


def _with(pair: tuple[np.ndarray, np.ndarray], side: int, rows: Bool[np.ndarray, " rows"]) -> tuple[Any, Any]:
    """Both sides, one of them with these rows alone."""
    return (pair[0][rows], pair[1]) if side == 0 else (pair[0], pair[1][rows])


def _between(
    sides: tuple[np.ndarray, np.ndarray],
    persons: tuple[np.ndarray, np.ndarray],
    names: tuple[str, str],
    whole: float | None = None,
    people: np.ndarray | None = None,
) -> tuple[tuple[str, ...], float]:
    """The reasons, and the AUC; `whole` is that of the whole set, if these rows are a domain; see `_of_rows`."""
    one, other = (numpy_generator(seed).integers(len(person), size=SAMPLED) for seed, person in enumerate(persons))
    score = _scores(sides[0], one, other, sides[1])

    def sample(first: np.ndarray, second: np.ndarray) -> SampledScores:
        return SampledScores(_genuine_between(sides, (first, second)), score[first[one] != second[other]])

    left, right = persons
    as_they_are = sample(left, right)
    moved = {f"{where} of {names[0]}": sample(np.roll(left, -by), right) for by, where in MOVED.items()}
    moved |= {f"{where} of {names[1]}": sample(left, np.roll(right, -by)) for by, where in MOVED.items()}
    reasons = implausible(as_they_are, moved, True, whole)
    if people is not None and not reasons:
        others = [(f"{how} of {names[0]}", (labels, right)) for how, labels in _orders(sides[0], left, people)]
        others += [(f"{how} of {names[1]}", (left, labels)) for how, labels in _orders(sides[1], right, people)]
        reasons = reordered(as_they_are, ((how, sample(*labels)) for how, labels in others))
    return reasons, as_they_are.auc if as_they_are.judged else CHANCE


def implausible_pairs(embeddings: Embeddings, comparisons: Comparisons) -> tuple[str, ...]:
    """The reasons why a list of pairs, or the rows it names, cannot be those of a working model.

    Rows that were moved by one show in the list, and more in their own pairs if its labels are of the identities.
    """
    names, person = np.unique(embeddings.identities, return_inverse=True)
    person, known = person.astype(np.int64), (names != NOBODY)[person]
    sides = comparisons.left.astype(np.int64), comparisons.right.astype(np.int64)

    def score(at: Int64[np.ndarray, " some"], by: int = 0) -> np.ndarray:
        return _scores(embeddings.embeddings, *((side[at] - by) % len(embeddings) for side in sides))

    def others(by: int) -> np.ndarray:
        """The comparisons that are of other people if all rows are moved."""
        same = known & (person == np.roll(person, by))
        return ~(same[sides[0]] & same[sides[1]])

    domains = domains_of_pairs(embeddings, comparisons)
    moved = {f"{where} in the embeddings": (others(by), partial(score, by=by)) for by, where in MOVED.items()}
    reasons = repeated_vectors(embeddings.embeddings, person)
    reasons += implausible_list(comparisons.genuine, score, domains, elsewhere=moved)
    stated = known[comparisons.left] & known[comparisons.right]
    same = person[comparisons.left] == person[comparisons.right]
    if not reasons and stated.any() and not (same != comparisons.genuine)[stated].any():
        reasons = implausible_set(embeddings.take(known))
    reasons = reasons or implausible_before_pooling(embeddings, by_template=True)
    if reasons or embeddings.pooled_from is None:
        return reasons
    people = linked(np.stack(sides, 1)[comparisons.genuine], len(embeddings))  # as the list has them
    return implausible_before_pooling(replace(embeddings, identities=people.astype(str)))


def _of_same(domain: np.ndarray, rows: Int64[np.ndarray, " some"]) -> Int64[np.ndarray, " some"]:
    """A random row of the domain of each row."""
    group = np.unique(domain, return_inverse=True)[1]
    images, order = np.bincount(group), np.argsort(group, kind="stable")
    drawn = numpy_generator(1).random(len(rows)) * images[group[rows]]
    return order[(np.cumsum(images) - images)[group[rows]] + drawn.astype(np.int64)]


def _genuine(
    person: Int64[np.ndarray, " rows"], people: Int64[np.ndarray, " people"] | None = None
) -> tuple[Int64[np.ndarray, "people draws"], Int64[np.ndarray, "people draws"]]:
    """As many genuine pairs of each of these people, else of sampled people, the same wherever labels are moved."""
    random = numpy_generator(0)
    images = np.bincount(person)
    rows, starts = np.argsort(person, kind="stable"), np.cumsum(images) - images
    if people is None or len(people) > MOST_PEOPLE:
        people = random.permutation(np.flatnonzero(images > 1) if people is None else people)[:MOST_PEOPLE]
    people = people[:, None]
    size = len(people), SAMPLED // max(len(people), 1)
    first = (random.random(size) * images[people]).astype(np.int64)
    second = (first + 1 + (random.random(size) * (images[people] - 1)).astype(np.int64)) % images[people]
    return rows[starts[people] + first], rows[starts[people] + second]


def _genuine_between(
    sides: tuple[np.ndarray, np.ndarray], persons: tuple[np.ndarray, np.ndarray]
) -> Float64[np.ndarray, "people draws"]:
    """Scores of as many genuine pairs of each sampled person, a row of one side and a row of the other."""
    random = numpy_generator(0)
    count = 1 + max(int(person.max()) for person in persons)
    images = np.stack([np.bincount(person, minlength=count) for person in persons])
    people = random.permutation(np.flatnonzero(images.all(0)))[:MOST_PEOPLE, None]
    size = len(people), SAMPLED // max(len(people), 1)

    def drawn(person: np.ndarray, counts: np.ndarray) -> np.ndarray:
        place = (random.random(size) * counts[people]).astype(np.int64)
        return np.argsort(person, kind="stable")[((np.cumsum(counts) - counts)[people] + place).ravel()]

    left, right = (drawn(person, counts) for person, counts in zip(persons, images, strict=True))
    return _scores(sides[0], left, right, sides[1]).reshape(size)


def _scores(
    embeddings: np.ndarray, left: np.ndarray, right: np.ndarray, others: np.ndarray | None = None
) -> np.ndarray:
    """Score of each pair of rows, the second of `others` if they are given; only these rows are normalised."""
    (first, one), (second, other) = (np.unique(rows, return_inverse=True) for rows in (left, right))
    sides = (embeddings, first), (embeddings if others is None else others, second)
    units = [unit_rows(few_rows_at(rows, places)) for rows, places in sides]
    return pair_scores(units[0], torch.from_numpy(one), torch.from_numpy(other), units[1]).numpy()
