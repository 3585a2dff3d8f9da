"""The values that all parts share: frozen objects that check themselves once, so that later code can trust them."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, TypeVar, get_args, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from verisphere.base.arrays import rows_of_numbers, text_column
from verisphere.base.identity import NOBODY, decided, folded, refuse_missing, settled
from verisphere.base.provenance import ImageSource, Origin, Preprocessing, TrainingRecord  # noqa: F401  # custom data sets import them from here
from verisphere.base.seeds import check_seed
from verisphere.base.trained_on import RowsInTraining, SharedWithTraining
from verisphere.base.words import (  # noqa: F401  # other files import them from here
    FARS,
    PRECISIONS,
    REPLICATES,
    RULES,
    Names,
    Precision,
    Rule,
    check_at_least,
    printable,
)

T = TypeVar("T")

Union = Literal["all", "within"]

#: Label of a row whose person has no class: whether two such rows show one person is unknown.
NO_CLASS = -1
_MOST_COMPARISONS = 2**63  # more are a mistake in a file
_ROWS_CHECKED = 1 << 14  # at once


@runtime_checkable
class Progress(Protocol):
    """Wraps an iterable and shows its progress; library code receives one and never prints by itself."""

    def __call__(self, items: Iterable[T], description: str, total: int | None = None, done: int = 0) -> Iterable[T]:
        """The same items, in the same order, shown under this description.

        The total includes the items that an earlier process has `done`; it is None if it is not known.
        """
        ...


def quietly(items: Iterable[T], description: str, total: int | None = None, done: int = 0) -> Iterable[T]:
    """The silent `Progress`: yields the items and shows nothing."""
    return items


@dataclass(frozen=True, eq=False, init=False)
class Embeddings:
    """Embeddings, one for each row, with names and identities; made from arrays, tensors or lists.

    >>> people = Embeddings([[3.0, 4.0], [4.0, 3.0], [0.0, 1.0]], identities=["Ann", "Ann", "Ben"])
    >>> len(people), people.embeddings.dtype, people.names.tolist()
    (3, dtype('float32'), ['0', '1', '2'])

    Args:
        embeddings: numbers of any real type and any device; they are rounded to float32.
        names: text or whole numbers; None numbers the rows.
        identities: text or whole numbers.
        domains, media, templates: text or whole numbers, or None.
        origin, in_training, pooled_from, spelled: see below.
        names_rule: `merge` or `exact` decides about identities that are equal once folded (`verisphere.base.identity`).

    Attributes:
        embeddings: a row for each image, the unnormalised output of the model; finite and not of length zero.
        names: unique name of each row.
        identities: the data set's name of the person; compared as strings, and never empty.
        domains: group of each row (capture condition, source, ...), where the set has groups.
        origin: model and settings that made the embeddings, if known.
        media: name of the still image or video of each row, where rows belong together.
        templates: name of the template that each row is part of, where rows belong together; see `templates_of`.
        in_training: which rows the model was trained on, if `verisphere embed` compared them.
        names_rule: how identities that are equal once folded were taken; None if nothing had to decide.
        pooled_from: the rows that were pooled into these templates (of a large set a sample), each with the name of its
            template; None for rows that were not pooled. A part of the templates keeps all of them.
        spelled: identities whose spelling was settled, by itself those of this set; a set that has no others, such as a
            part of this one (`take`, `dataclasses.replace`), keeps them as they are.

    Raises:
        TypeError: there are no identities.
        ValueError: a column has another shape or another type, a row is not finite or of length zero, an identity,
            domain, medium or template is empty or the text of a missing value, two identities are equal once folded and
            nothing decides, or a name appears twice.
    """

    embeddings: Float32[np.ndarray, "rows dim"]
    names: np.ndarray
    identities: np.ndarray
    domains: np.ndarray | None = None
    origin: Origin | None = None
    media: np.ndarray | None = None
    templates: np.ndarray | None = None
    in_training: RowsInTraining | None = None
    names_rule: Names | None = None
    pooled_from: "Embeddings | None" = None
    spelled: frozenset[str] = frozenset()

    def __init__(
        self,
        embeddings: Any,
        names: Any = None,
        identities: Any = None,
        domains: Any = None,
        origin: Any = None,
        media: Any = None,
        templates: Any = None,
        in_training: RowsInTraining | None = None,
        names_rule: Names | None = None,
        pooled_from: "Embeddings | None" = None,
        spelled: frozenset[str] = frozenset(),
    ) -> None:
        if identities is None:
            raise TypeError("identities are missing; each row takes one: Embeddings(embeddings, identities=people)")
        numbers = rows_of_numbers(embeddings)
        rows = len(numbers)
        columns: dict[str, np.ndarray | None] = {
            "names": np.arange(rows).astype(str) if names is None else text_column("names", names, rows),
            "identities": text_column("identities", identities, rows),
        }
        for field, column in (("domains", domains), ("media", media), ("templates", templates)):
            columns[field] = None if column is None else text_column(field, column, rows)
        how = decided(names_rule)
        about = {"origin": origin, "in_training": in_training, "names_rule": how, "pooled_from": pooled_from}
        for field, value in {"embeddings": numbers, **columns, **about}.items():
            object.__setattr__(self, field, value)
        self._check()
        known = set(self.identities.tolist())
        once = {folded(name): name for name in known} if how == "merge" else {}
        merged = how != "merge" or (len(once) == len(known) and once.get(NOBODY, NOBODY) == NOBODY)
        if not (merged and spelled.issuperset(known)):
            object.__setattr__(self, "identities", settled([("", self.names, self.identities)], how)[0])
            spelled = frozenset(self.identities.tolist())
        object.__setattr__(self, "spelled", spelled)
        if in_training is not None:
            object.__setattr__(self, "in_training", in_training.of(self.identities, how))

    def _check(self) -> None:
        rows = len(self)
        bad, empty = _not_finite_and_empty(self.embeddings)
        if len(bad):
            raise ValueError(f"{len(bad)} of {rows} embeddings hold NaN or infinity, the first is {self._first(bad)}")
        if len(empty):
            raise ValueError(f"{len(empty)} of {rows} embeddings have length zero, the first is {self._first(empty)}")
        unique, first = np.unique(self.names, return_index=True)
        if len(unique) != rows:
            again = np.setdiff1d(np.arange(rows), first)[0]
            raise ValueError(f"names must be unique, but {str(self.names[again])[:200]!r} appears again at row {again}")
        for field, what in (("domains", "domain"), ("media", "medium"), ("templates", "template")):
            if (column := getattr(self, field)) is not None:
                texts = column.tolist()
                refuse_missing(what, set(texts), texts, lambda row: f"{str(self.names[row])[:200]!r}, row {row}")

    @property
    def shared_with_training(self) -> SharedWithTraining | None:
        """The number of people and images that the model was trained on; None if nothing was compared."""
        return None if self.in_training is None else self.in_training.shared(self.identities)

    def take(self, rows: np.ndarray) -> "Embeddings":
        """The rows at these positions, in the given order, or the rows that are True in a mask."""
        from verisphere.base.mapped import rows_at  # imports torch, without which the command line starts quickly

        return replace(
            self,
            embeddings=rows_at(self.embeddings, rows),
            names=self.names[rows],
            identities=self.identities[rows],
            domains=None if self.domains is None else self.domains[rows],
            media=None if self.media is None else self.media[rows],
            templates=None if self.templates is None else self.templates[rows],
            in_training=None if self.in_training is None else self.in_training.take(rows),
        )

    def _first(self, rows: np.ndarray) -> str:
        return f"{str(self.names[rows[0]])[:200]!r} (row {rows[0]})"

    def __len__(self) -> int:
        return len(self.embeddings)


def _not_finite_and_empty(rows: Float32[np.ndarray, "rows dim"]) -> tuple[np.ndarray, np.ndarray]:
    """Rows with NaN or infinity, and rows of length zero; a portion of them at a time."""
    parts = [rows[start : start + _ROWS_CHECKED] for start in range(0, max(len(rows), 1), _ROWS_CHECKED)]
    wrong = ~np.concatenate([np.isfinite(part).all(axis=1) for part in parts])
    return np.flatnonzero(wrong), np.flatnonzero(~np.concatenate([part.any(axis=1) for part in parts]))


@dataclass(frozen=True, eq=False)
class Comparisons:
    """Listed pairs of rows and whether each shows one person.

    Attributes:
        lines: line of each pair in the list, for errors, or its place in words if the list consists of several files;
            None for pairs from elsewhere.
        domains: domain of each pair, where the list states it; None leaves it to the domains of the two images.
    """

    left: Int64[np.ndarray, " pairs"]
    right: Int64[np.ndarray, " pairs"]
    genuine: Bool[np.ndarray, " pairs"]
    folds: Int64[np.ndarray, " pairs"] | None = None
    lines: Sequence[int] | Sequence[str] | None = None
    domains: np.ndarray | None = None

    def __post_init__(self) -> None:
        for field in ("right", "genuine", "folds", "lines", "domains"):
            column = getattr(self, field)
            if column is not None and len(column) != len(self.left):
                raise ValueError(f"{len(self.left)} pairs but {len(column)} entries of {field}")

    def __len__(self) -> int:
        return len(self.left)


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of comparisons, genuine or impostor, with the domain of each if there are domains.

    Attributes:
        score: higher is more alike; NaN is refused, infinities are ordered.
        domains: domain of each comparison; the empty string marks a pair across domains.
    """

    score: Float64[np.ndarray, " pairs"]
    genuine: Bool[np.ndarray, " pairs"]
    domains: np.ndarray | None = None

    def __post_init__(self) -> None:
        for field in ("genuine", "domains"):
            column = getattr(self, field)
            if column is not None and column.shape != self.score.shape:
                raise ValueError(f"{field} has shape {column.shape} but score has {self.score.shape}")
        bad = np.isnan(self.score)
        if bad.any():
            raise ValueError(f"{bad.sum()} of {len(self.score)} scores are NaN, the first at position {bad.argmax()}")


@dataclass(frozen=True)
class Redrawing:
    """The redrawing of people by a bootstrap; equal values give equal draws for equal numbers of people."""

    replicates: int = REPLICATES
    seed: int = 0

    def __post_init__(self) -> None:
        check_at_least("replicates", self.replicates)
        check_seed(self.seed)


#: The default redrawing.
REDRAWING = Redrawing()


@dataclass(frozen=True)
class OperatingPoint:
    """Rates and counts at one threshold: accept iff score > threshold.

    Rates are stored with their counts and with two-sided exact binomial 95 % bounds, which assume independent
    comparisons; bounds that take shared people into account come from a bootstrap over identities.

    >>> import verisphere
    >>> print(verisphere.operating_point(genuine=[0.9, 0.8, 0.3], impostor=[0.5, 0.4, 0.2, 0.1], far="0.25"))
    TAR 0.6667 (2 of 3 genuine, 95 % bounds 0.0943 to 0.9916) at FAR 0.25 (1 of 4 impostors), threshold 0.4

    Attributes:
        far_target: the requested FAR, as it was given.
        rule: rule by which the threshold was chosen from the impostor scores.
        threshold: the threshold, which may be minus infinity (everything is accepted).
        tar: share of genuine comparisons accepted (TMR in ISO/IEC 19795-1).
        far: share of impostor comparisons accepted (FMR in ISO/IEC 19795-1).
        below_resolution: the target times the impostor count is below one, so no accepted impostor is allowed.
    """

    far_target: str
    rule: str
    threshold: float
    tar: float
    far: float
    genuine_accepted: int
    genuine_total: int
    impostor_accepted: int
    impostor_total: int
    below_resolution: bool
    far_lower_95: float
    far_upper_95: float
    tar_lower_95: float
    tar_upper_95: float

    def __post_init__(self) -> None:
        check_rates(self)
        if math.isnan(self.threshold):
            raise ValueError("a threshold is NaN, which decides nothing")

    def __str__(self) -> str:
        """The point in words, with a note if the impostors are too few for the FAR."""
        few = "; too few impostors for this FAR, so none may pass" if self.below_resolution else ""
        return (
            f"TAR {self.tar:.4f} ({self.genuine_accepted:,} of {self.genuine_total:,} genuine, 95 % bounds "
            f"{self.tar_lower_95:.4f} to {self.tar_upper_95:.4f}) at FAR {self.far_target} "
            f"({self.impostor_accepted:,} of {self.impostor_total:,} impostors), threshold {self.threshold:.6g}{few}"
        )


def check_word(name: str, word: object, allowed: Any) -> None:
    """Refuse a word that is not among those allowed, by a `Literal` or as they are; the error names the argument."""
    words = get_args(allowed) or tuple(allowed)
    if word not in words:
        raise ValueError(f"{name} is {word!r}; allowed are {', '.join(words)}")


def check_whole(name: str, number: object) -> None:
    """Refuse a value that is no whole number, such as True or 2.0."""
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise TypeError(f"{name} is {number!r}; it must be a whole number")


def check_set(name: str, rows: object) -> Embeddings:
    """The set, unless the value is no `Embeddings`, such as an array or a path, or has no rows."""
    if not isinstance(rows, Embeddings):
        raise TypeError(f"{name} must be Embeddings(rows, identities=people), got {type(rows).__name__}")
    if not len(rows):
        raise ValueError(f"{name} is empty; it must have at least one row")
    return rows


def check_rates(point: Any) -> None:
    """Refuse rates of an `OperatingPoint`, or its like, that do not follow from its counts or lie outside bounds."""
    check_rate(point.tar, point.genuine_accepted, point.genuine_total)
    check_rate(point.far, point.impostor_accepted, point.impostor_total)
    check_bounds(point.far, point.far_lower_95, point.far_upper_95)
    check_bounds(point.tar, point.tar_lower_95, point.tar_upper_95)


def check_rate(rate: float, accepted: int, total: int) -> None:
    """Refuse a rate that does not follow from its counts."""
    if not (0 <= accepted <= total and 1 <= total < _MOST_COMPARISONS):
        raise ValueError(f"{accepted} of {total} comparisons cannot be: 0 <= accepted <= total with total >= 1")
    if rate != accepted / total:
        raise ValueError(f"a rate of {rate} is not what {accepted} of {total} comparisons make")


def check_bounds(rate: float, lower: float, upper: float) -> None:
    """Refuse bounds that do not enclose their rate."""
    if not 0 <= lower <= rate <= upper <= 1:
        raise ValueError(f"bounds {lower} .. {upper} do not hold the rate {rate} between them")
