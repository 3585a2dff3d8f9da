"""A gallery: the statistics of probes against a slow reference, and the people whom they name."""

import numpy as np
import pytest
import torch

from verisphere.base.vocabulary import Embeddings
from verisphere.base.words import STATISTIC_NAMES
from verisphere.decide import STATISTICS, lower_median
from verisphere.decide.statistics import CANDIDATES, NEAREST, NEXT
from verisphere.models.gallery import Cohort, Gallery, row_digest
from verisphere.score import pair_scores, unit_rows

RANDOM = np.random.default_rng(0)
PEOPLE, DIM = 30, 8


def rows(count: int) -> np.ndarray:
    return RANDOM.normal(size=(count, DIM)).astype(np.float32)


ENROLLED = Embeddings(rows(70), identities=[f"p{number % PEOPLE:02}" for number in range(70)])  # two or three each
PROBES = rows(40)
COHORT = Embeddings(rows(150), identities=[f"c{number}" for number in range(150)])


def scores(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    both = unit_rows(np.concatenate([left, right]))
    first, second = np.divmod(np.arange(len(left) * len(right)), len(right))
    found = pair_scores(both, torch.from_numpy(first), torch.from_numpy(second + len(left)))
    return found.numpy().reshape(len(left), len(right))


def normal(score: float, others: np.ndarray, nearest: int) -> float:
    chosen = np.sort(others)[::-1][:nearest]
    return (score - chosen.mean()) / chosen.std()


def of_candidates(
    statistic: str, order: list[int], best: list[int], line: np.ndarray, cohorts: tuple[np.ndarray, np.ndarray]
) -> list[float]:
    """The number of each candidate; `cohorts` holds the scores of the gallery and of the probe with the cohort."""
    top, (of_gallery, of_probe) = [line[best[person]] for person in order], cohorts
    if statistic == "gap":
        return [top[0] - top[1]]
    if statistic == "next":
        return [top[0] - 0.5 * np.mean(top[1 : 1 + NEXT])]
    if statistic == "median":
        return [lower_median(line[ENROLLED.identities == f"p{person:02}"]) for person in order]
    if statistic == "best":
        return top
    nearest = NEAREST if statistic == "adaptive-s" else len(COHORT)
    own = [normal(line[best[person]], of_gallery[best[person]], nearest) for person in order]
    if statistic == "z":
        return own
    return [(value + normal(score, of_probe, nearest)) / 2 for value, score in zip(own, top, strict=True)]


def reference(statistic: str) -> tuple[np.ndarray, np.ndarray]:
    """The statistic and the person of each probe, from all scores, one probe at a time."""
    of_gallery, of_probes = scores(ENROLLED.embeddings, COHORT.embeddings), scores(PROBES, COHORT.embeddings)
    values, people = [], []
    for line, of_probe in zip(scores(PROBES, ENROLLED.embeddings), of_probes, strict=True):
        photographs = [np.flatnonzero(ENROLLED.identities == f"p{person:02}") for person in range(PEOPLE)]
        best = [int(own[line[own].argmax()]) for own in photographs]
        order = [int(person) for person in np.argsort(-line[best], kind="stable")[:CANDIDATES]]
        found = of_candidates(statistic, order, best, line, (of_gallery, of_probe))
        values.append(max(found))
        people.append(order[int(np.argmax(found))])
    return np.array(values), np.array(people)


@pytest.mark.parametrize("statistic", STATISTIC_NAMES)
def test_each_statistic_is_that_of_all_scores(statistic):
    cohort = Cohort.of(COHORT) if STATISTICS[statistic].cohort is not None else None
    found = Gallery(ENROLLED).search(PROBES, statistic, cohort)
    values, people = reference(statistic)
    np.testing.assert_allclose(found.statistic, values, rtol=1e-12)
    assert found.person.tolist() == people.tolist()
    if statistic == "best":
        assert found.statistic.tolist() == values.tolist()  # to the bit, since products only screen
        own = ENROLLED.identities[found.photograph]
        assert own.tolist() == [f"p{person:02}" for person in people]


def test_the_names_of_the_statistics_are_those_of_the_command_line():
    assert tuple(STATISTICS) == STATISTIC_NAMES


def test_probes_are_searched_in_blocks_to_the_same_numbers(monkeypatch):
    whole = Gallery(ENROLLED).search(PROBES)
    monkeypatch.setattr("verisphere.models.gallery._PROBES_AT_ONCE", 7)
    monkeypatch.setattr("verisphere.models.gallery._PAIRS_AT_ONCE", 100)
    parts = Gallery(ENROLLED).search(PROBES)
    assert all(np.array_equal(vars(whole)[name], vars(parts)[name]) for name in vars(whole))
    cohort = Cohort.of(COHORT)
    np.testing.assert_allclose(
        cohort.spread(unit_rows(PROBES), 5), Cohort(cohort.rows).spread(unit_rows(PROBES), 5), rtol=0
    )


def test_no_probe_and_one_person():
    assert Gallery(ENROLLED).search(PROBES[:0]).statistic.shape == (0,)
    alone = Gallery(Embeddings(rows(2), identities=["Ann", "Ann"]))
    assert alone.search(PROBES).person.tolist() == [0] * len(PROBES)
    for statistic in ("gap", "next"):
        with pytest.raises(ValueError, match="needs a gallery of 2 people; this one has 1"):
            alone.search(PROBES, statistic)
    two = Gallery(Embeddings(rows(2), identities=["Ann", "Ben"]))
    assert np.isfinite(two.search(PROBES, "next").statistic).all()


def test_a_search_that_cannot_be():
    gallery = Gallery(ENROLLED)
    with pytest.raises(ValueError, match="probes have 9 numbers a row but the gallery has 8"):
        gallery.search(np.ones((1, 9), np.float32))
    with pytest.raises(ValueError, match="rule is 'worst'; allowed are best"):
        gallery.search(PROBES, "worst")
    with pytest.raises(ValueError, match="'z' needs a cohort"):
        gallery.search(PROBES, "z")
    with pytest.raises(ValueError, match="'best' takes no cohort"):
        gallery.search(PROBES, "best", Cohort.of(COHORT))
    with pytest.raises(ValueError, match="a cohort needs 2 people, this one has 1"):
        gallery.search(PROBES, "z", Cohort.of(COHORT.take(np.arange(1))))
    with pytest.raises(ValueError, match="at least one person"):
        Gallery(ENROLLED.take(np.arange(0)))


def test_a_digest_changes_with_the_person_and_with_every_number():
    gallery = Gallery(ENROLLED)
    assert len(set(gallery.digests.tolist())) == len(ENROLLED)
    other = ENROLLED.embeddings.copy()
    other[3, 0] = np.nextafter(other[3, 0], 9)
    changed = Gallery(Embeddings(other, identities=ENROLLED.identities)).digests != gallery.digests
    assert np.flatnonzero(changed).tolist() == [3]
    assert row_digest("Ann", b"x") != row_digest("Anna", b"x")
    assert row_digest("An", b"n") != row_digest("Ann", b"")
