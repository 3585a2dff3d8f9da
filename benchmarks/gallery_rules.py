"""The rules at one promise: TPIR of each, of two models and of both together, beside the best score of the better one.

Each split takes strangers, people of a cohort, an enrolled photograph and a probe of each person of a gallery, and,
apart from all of them, another gallery with strangers of its own, on which a rule is chosen. An interval redraws people
(200 times), the same in all splits, so that a person who is in several of them counts once; a redrawn set of strangers
has a threshold of its own.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from gallery_faces import COHORT, RULES, Faces, search
from gallery_pools import Pool, Row

from verisphere.decide import gallery_threshold, independent_rank
from verisphere.models.gallery import Gallery

STRANGERS, RATE, REDRAWN = 1_000, "1e-2", 200
ENROLLED, CHOOSING = 1_000, 600  # people of the gallery, and of the one on which a rule is chosen


@dataclass(frozen=True, eq=False)
class Side:
    """A gallery with its probes and strangers."""

    people: np.ndarray
    strangers: np.ndarray
    rest: np.ndarray


@dataclass(frozen=True, eq=False)
class Decided:
    """By a rule: statistics of strangers, of the rest of them, and of probes, minus infinity for another person."""

    strangers: np.ndarray
    rest: np.ndarray
    probes: np.ndarray

    @property
    def threshold(self) -> float:
        """The threshold with the promise."""
        return gallery_threshold(self.strangers, RATE, people=1).threshold  # of any number of people

    @property
    def tpir(self) -> float:
        """The share of probes that are found."""
        return float((self.probes > self.threshold).mean())


@dataclass
class Results:
    """What a rule gave in each split."""

    tpir: list[float] = field(default_factory=list)
    fpir: list[float] = field(default_factory=list)
    redrawn: list[np.ndarray] = field(default_factory=list)


def together(models: list[Faces]) -> Faces:
    """Both models as one: the cosine of two rows is the mean of both cosines."""
    first = models[0]
    rows = np.concatenate([model.units for model in models], 1)
    return Faces("both", rows, first.names, np.repeat(first.people, first.count))


def by_rules(faces: Faces, side: Side, cohort: np.ndarray) -> dict[str, Decided]:
    """Every rule of the package on one side of a split."""
    gallery, outside = faces.gallery(side.people), faces.cohort(cohort)
    found = {}
    for rule in RULES:
        of_strangers = search(gallery, faces.rows(np.concatenate([side.strangers, side.rest])), rule, outside)
        probes = search(gallery, faces.rows(side.people, 1), rule, outside)
        found[rule] = _decided(gallery, faces, side, of_strangers.statistic, probes.person, probes.statistic)
    return found


def by_agreement(models: list[Faces], side: Side) -> dict[str, Decided]:
    """Of a probe the person with the highest smaller score of both models; and the mean, where both name one person."""
    gallery = models[0].gallery(side.people)
    order = np.sort(side.people)
    asked = [np.concatenate([side.strangers, side.rest]), side.people]
    found: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    for people, photograph in zip(asked, (0, 1), strict=True):
        first, second = (model.rows(people, photograph) @ model.rows(order).T for model in models)
        smaller, mean = np.minimum(first, second), (first + second) / 2
        found.setdefault("smaller of both", []).append((smaller.argmax(1), smaller.max(1)))
        agree = first.argmax(1) == second.argmax(1)
        found.setdefault("mean where both agree", []).append((mean.argmax(1), np.where(agree, mean.max(1), -2.0)))
    return {
        name: _decided(gallery, models[0], side, strangers[1], *probes) for name, (strangers, probes) in found.items()
    }


def _decided(
    gallery: Gallery, faces: Faces, side: Side, strangers: np.ndarray, person: np.ndarray, statistic: np.ndarray
) -> Decided:
    right = gallery.people[person] == faces.people[side.people]
    count = len(side.strangers)
    return Decided(strangers[:count], strangers[count:], np.where(right, statistic, -np.inf))


def sides(faces: Faces, random: np.random.Generator) -> tuple[Side, Side, np.ndarray]:
    """The side on which rules are compared, that on which one is chosen, and the cohort of both."""
    mated = random.permutation(faces.mated)
    enrolled, choosing = mated[:ENROLLED], mated[ENROLLED : ENROLLED + CHOOSING]
    others = random.permutation(np.setdiff1d(np.arange(len(faces.people)), mated[: ENROLLED + CHOOSING]))
    cohort, strangers, apart, rest = np.split(others, np.cumsum([COHORT, STRANGERS, STRANGERS]))
    return Side(enrolled, strangers, rest), Side(choosing, apart, rest[:0]), cohort


def redrawn_tpir(side: Side, decided: Decided, weights: np.ndarray) -> np.ndarray:
    """TPIR of redrawn people: enrolled ones, and strangers with a threshold of their own.

    Args:
        side: the people.
        decided: a rule on them.
        weights: how often each person is drawn (redrawings, people).
    """
    order = np.argsort(-decided.strangers, kind="stable")
    rank = independent_rank(len(order), RATE, "confident")
    drawn = weights[:, side.strangers[order]]
    before = np.cumsum(drawn, 1) < rank * drawn.sum(1, keepdims=True) / len(order)
    threshold = decided.strangers[order][np.minimum(before.sum(1), len(order) - 1)]
    probes = weights[:, side.people]
    return (probes * (decided.probes > threshold[:, None])).sum(1) / probes.sum(1)


def compared(models: list[Faces], splits: int) -> Iterator[Row]:
    """TPIR of each rule, less that of the better model's best score, and of a rule that was chosen apart."""
    random = np.random.default_rng(13)
    people = len(models[0].people)
    weights = random.multinomial(people, np.full(people, 1 / people), REDRAWN)
    populations = [*models, together(models)] if len(models) > 1 else models
    results: dict[tuple[str, str], Results] = {}
    chosen: list[str] = []
    for _ in range(splits):
        side, apart, cohort = sides(models[0], random)
        here: dict[tuple[str, str], Decided] = {}
        there: dict[tuple[str, str], Decided] = {}
        for faces in populations:
            here |= {(faces.name, rule): decided for rule, decided in by_rules(faces, side, cohort).items()}
            there |= {(faces.name, rule): decided for rule, decided in by_rules(faces, apart, cohort).items()}
        if len(models) > 1:
            here |= {("both", rule): decided for rule, decided in by_agreement(models, side).items()}
            there |= {("both", rule): decided for rule, decided in by_agreement(models, apart).items()}
        best = max(there, key=lambda key: there[key].tpir)
        chosen.append(", ".join(best))
        for key, decided in {**here, ("any", "chosen on people apart"): here[best]}.items():
            result = results.setdefault(key, Results())
            result.tpir.append(decided.tpir)
            result.fpir.append(Pool(decided.rest).rate(decided.threshold) / float(RATE))
            result.redrawn.append(redrawn_tpir(side, decided, weights))
    means = {faces.name: float(np.mean(results[faces.name, "best"].tpir)) for faces in models}
    better = max(means, key=lambda name: means[name])
    base = {name: results[name, "best"] for name in (*means, *(["both"] if len(models) > 1 else []))} | {
        "any": results[better, "best"]
    }
    for (population, rule), result in results.items():
        about = ("rules", population, rule, ENROLLED, RATE, STRANGERS)
        yield Row(*about, "TPIR", *_interval(result.tpir, np.array(result.redrawn)), splits)
        for name, other in (("best of the same model", base[population]), ("best of the better model", base["any"])):
            if other is not result:
                less = np.array(result.redrawn) - np.array(other.redrawn)
                gain = np.array(result.tpir) - np.array(other.tpir)
                yield Row(*about, f"less {name}", *_interval(gain, less), splits)
        yield Row(*about, "FPIR of the rest / f", float(np.mean(result.fpir)), runs=splits)
    for name in dict.fromkeys(chosen):
        about = ("rules", "any", "chosen on people apart", ENROLLED, RATE, STRANGERS)
        yield Row(*about, f"times that {name} was chosen", chosen.count(name), runs=splits)


def _interval(values: list[float] | np.ndarray, redrawn: np.ndarray) -> tuple[float, float, float]:
    lower, upper = np.quantile(redrawn.mean(0), (0.025, 0.975))
    return float(np.mean(values)), float(lower), float(upper)
