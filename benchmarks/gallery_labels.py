"""Strangers who are enrolled under another name, in made-up worlds and on LFW: reviewed or not, rightly or not.

The same for comparisons of two photographs, some of which show one person under two names.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from gallery_faces import Faces, found_as, search
from gallery_pools import Pool, Row, mean_with_error
from gallery_worlds import World
from promises import moderate

from verisphere.decide import Review, TooFewComparisonsError, gallery_threshold, independent_threshold

PLANTED = (0.0, 0.005, 0.01, 0.02)
SLACK = 20  # pairs that are reviewed beyond those planted


@dataclass(frozen=True)
class Sample:
    """Strangers of one calibration, of whom some are enrolled under another name.

    Attributes:
        statistics: the statistics of all strangers, those of the planted ones first.
        planted: number of planted.
        found: statistics of probes of enrolled people, for TPIR; minus infinity where another person is named.
        pool: who the true strangers are.
        people: number of people in the gallery; None for comparisons of two photographs.
    """

    statistics: np.ndarray
    planted: int
    found: np.ndarray
    pool: Pool
    people: int | None


def reviewed(sample: Sample, rate: str, case: str, errors: int) -> tuple[float, float] | None:
    """FPIR among true strangers and TPIR of a threshold; None where there are too few strangers.

    Args:
        sample: the strangers.
        rate: target FPIR.
        case: `unreviewed`; `right`: those planted among the highest pairs are removed; `unfound`: but for the lowest of
            them, which only add to the number; `wrong`: and the highest true strangers too; with `, allowed for`: the
            guarantee allows for these errors, and for those planted who are not among the highest.
        errors: number of those.
    """
    order = np.argsort(-sample.statistics, kind="stable")[: sample.planted + SLACK]
    same = order[order < sample.planted]
    kind, allowed = case.removesuffix(", allowed for"), case.endswith(", allowed for")
    wrong = 0
    if kind == "unfound":
        same = same[:-errors]
    unfound = sample.planted - len(same)
    if kind == "wrong":
        strangers = np.argsort(-sample.statistics[sample.planted :], kind="stable")[:errors] + sample.planted
        wrong = len(strangers)
        same = np.concatenate([same, strangers])
    if kind == "unreviewed":
        left, review = sample.statistics, Review()
    else:
        left = np.delete(sample.statistics, same)
        review = Review(len(order) + wrong, len(same), unfound * allowed, wrong * allowed)
    try:
        if sample.people is None:
            threshold = independent_threshold(left, rate, "confident", review=review).threshold
        else:
            threshold = gallery_threshold(left, rate, people=sample.people, review=review).threshold
    except TooFewComparisonsError:
        return None
    return sample.pool.rate(threshold), float((sample.found > threshold).mean())


CASES = ("unreviewed", "right", "unfound", "unfound, allowed for", "wrong", "wrong, allowed for")
ERRORS = 2


def of_labels(part: str, population: str, rate: str, samples: Iterable[tuple[float, list[Sample]]]) -> Iterator[Row]:
    """Coverage, and TPIR, by the share planted and the review; and the share of the lost TPIR that is regained."""
    clean = None
    for share, drawn in samples:
        lost = None
        for case in CASES if share else (*CASES[:2], *CASES[4:]):
            results = [reviewed(sample, rate, case, ERRORS) for sample in drawn]
            known = np.array([result for result in results if result is not None])
            about = (part, population, f"{100 * share:g} % planted, {case}", drawn[0].people, rate)
            strangers, runs = len(drawn[0].statistics), len(results)
            if not len(known):
                yield Row(*about, strangers, "refused", 1.0, runs=runs)
                continue
            yield Row(*about, strangers, "held", float((known[:, 0] <= float(rate)).mean()), runs=len(known))
            tpir = float(known[:, 1].mean())
            yield Row(*about, strangers, "TPIR", *mean_with_error(known[:, 1]), len(known))
            clean = tpir if clean is None else clean
            lost = clean - tpir if case == "unreviewed" else lost
            if share and case == "right" and lost:
                yield Row(*about, strangers, "regained of the TPIR lost", 1 - (clean - tpir) / lost, runs=len(known))


def in_worlds(sizes: Sequence[int], rates: Sequence[str], galleries: int, pool: int, runs: int) -> Iterator[Row]:
    """Strangers who are enrolled under another name, in a world where people differ; about three times the fewest."""
    world = World("differing", moderate)
    for rate, strangers in zip(rates, (1_000, 9_000), strict=False):
        for people in sizes:
            random = np.random.default_rng([4, people])
            pools = [Pool(world.strangers(random, world.gallery(random, people), pool)) for _ in range(galleries)]
            by_share = _planted_in(pools, people, strangers, runs // galleries, random)
            yield from of_labels("wrong labels, worlds", world.name, rate, by_share)


def _planted_in(
    pools: Sequence[Pool], people: int, strangers: int, runs: int, random: np.random.Generator
) -> Iterator[tuple[float, list[Sample]]]:
    """Samples by the share planted, some of each pool; a share at a time, for they are large."""
    levels = [float(np.quantile(known.statistics, 0.99)) + 1.5 for known in pools]
    genuine = [level + random.standard_normal(20_000) for level in levels]  # 1.5 deviations above FPIR 1e-2
    for share in PLANTED:
        planted, drawn = round(share * strangers), []
        for known, scores in zip(pools, genuine, strict=True):
            for _ in range(runs):
                statistics = known.draw(random, strangers)
                statistics[:planted] = random.choice(scores, planted)
                drawn.append(Sample(statistics, planted, scores[:5_000], known, people))
        yield share, drawn


def on_faces(faces: Faces, sizes: Sequence[int], galleries: int, runs: int) -> Iterator[Row]:
    """The same with further photographs of enrolled people, in place of some of the strangers."""
    strangers = 1_000
    for size in sizes:
        random = np.random.default_rng([11, size])
        samples: dict[float, list[Sample]] = {share: [] for share in PLANTED}
        for _ in range(galleries):
            split = faces.split(random, size, photographs=2)
            gallery = faces.gallery(split.enrolled)
            known = Pool(search(gallery, faces.rows(split.others), "best", None).statistic)
            probes = found_as(faces, gallery, split.enrolled, "best")
            third = split.enrolled[faces.count[split.enrolled] > 2]
            twice = search(gallery, faces.rows(third, 2), "best", None).statistic
            for share, drawn in samples.items():
                for _ in range(runs // galleries):
                    planted = min(round(share * strangers), len(twice))
                    statistics = known.draw(random, strangers)
                    statistics[:planted] = random.permutation(twice)[:planted]
                    drawn.append(Sample(statistics, planted, probes, known, size))
        yield from of_labels("wrong labels, LFW", faces.name, "1e-2", samples.items())


def of_pairs(faces: Faces, runs: int) -> Iterator[Row]:
    """The same for comparisons of two photographs that share no person, some of which show one person twice."""
    comparisons, rate = 1_000, "1e-2"
    random = np.random.default_rng(12)
    first = faces.rows(np.arange(len(faces.people)))
    known = Pool((first @ first.T)[np.triu_indices(len(first), 1)])  # everybody with everybody else
    genuine = (faces.rows(faces.mated) * faces.rows(faces.mated, 1)).sum(1)
    samples: dict[float, list[Sample]] = {}
    for share in PLANTED:
        planted = round(share * comparisons)
        for _ in range(runs):
            scores = known.draw(random, comparisons)
            scores[:planted] = random.permutation(genuine)[:planted]
            samples.setdefault(share, []).append(Sample(scores, planted, genuine, known, None))
    yield from of_labels("wrong labels, two photographs", faces.name, rate, samples.items())
