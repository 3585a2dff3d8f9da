"""How pure clusters are, by hand and by its definition; and libraries that share no person."""

import itertools

import numpy as np
import pytest

from verisphere.decide.purity import UNSURE, figures_of, libraries_of


def test_every_figure_by_hand():
    """Cluster 0 holds two faces of 7 and one of 9, cluster 1 one of 9; a fifth face, of 9 too, is unsure."""
    figures = figures_of(np.array([0, 0, 0, 1, UNSURE]), np.array([7, 7, 9, 9, 9]))
    assert (figures.faces, figures.people, figures.clusters, figures.mixed) == (5, 2, 3, 1)
    assert figures.unsure == 0.2
    assert figures.impurity == 0.2  # one face of 9 among two of 7
    assert figures.precision == pytest.approx((2 / 3 + 2 / 3 + 1 / 3 + 1 + 1) / 5)
    assert figures.recall == pytest.approx((1 + 1 + 1 / 3 + 1 / 3 + 1 / 3) / 5)
    assert figures.f == pytest.approx(2 * (11 / 15) * 0.6 / (11 / 15 + 0.6))
    assert figures.pair_precision == pytest.approx(1 / 3)
    assert figures.pair_recall == pytest.approx(1 / 4)


@pytest.mark.parametrize("seed", range(20))
def test_the_figures_are_those_of_the_definition(seed: int):
    random = np.random.default_rng(seed)
    faces = int(random.integers(1, 40))
    cluster, person = random.integers(UNSURE, 6, faces), random.integers(0, 8, faces)
    groups = [
        [row] if cluster[row] == UNSURE else [other for other in range(faces) if cluster[other] == cluster[row]]
        for row in range(faces)
    ]
    of_person = [[other for other in range(faces) if person[other] == person[row]] for row in range(faces)]
    shared = [len(set(group) & set(mates)) for group, mates in zip(groups, of_person, strict=True)]
    distinct = {tuple(group) for group in groups}
    most = [max(sum(person[row] == name for row in group) for name in range(8)) for group in distinct]
    pairs = list(itertools.combinations(range(faces), 2))
    inside = [other in groups[row] for row, other in pairs]
    same = [bool(person[row] == person[other]) for row, other in pairs]
    both = sum(one and other for one, other in zip(inside, same, strict=True))

    figures = figures_of(cluster, person)
    assert figures.precision == pytest.approx(np.mean([n / len(of) for n, of in zip(shared, groups, strict=True)]))
    assert figures.recall == pytest.approx(np.mean([n / len(of) for n, of in zip(shared, of_person, strict=True)]))
    assert figures.clusters == len(distinct)
    assert figures.mixed == sum(len({int(person[row]) for row in group}) > 1 for group in distinct)
    assert figures.impurity == pytest.approx((faces - sum(most)) / faces)
    assert figures.unsure == pytest.approx(np.mean(cluster == UNSURE))
    assert figures.pair_precision == pytest.approx(both / sum(inside) if sum(inside) else 1)
    assert figures.pair_recall == pytest.approx(both / sum(same) if sum(same) else 1)


def test_faces_that_are_alone_are_pure_and_one_cluster_finds_everybody():
    person = np.array([0, 0, 1, 1, 2])
    alone, one = figures_of(np.arange(5), person), figures_of(np.zeros(5, int), person)
    assert (alone.precision, alone.impurity, alone.mixed, alone.pair_precision) == (1, 0, 0, 1)
    assert alone.recall == pytest.approx(0.6)
    assert (one.recall, one.mixed, one.pair_recall) == (1, 1, 1)
    assert one.impurity == pytest.approx(0.6)
    assert figures_of(np.full(5, UNSURE), person).precision == 1


@pytest.mark.parametrize(("clusters", "people"), [(0, 0), (2, 3)])
def test_clusters_and_people_of_other_numbers_of_faces_are_refused(clusters: int, people: int):
    with pytest.raises(ValueError, match=f"clusters of {clusters} faces and people of {people}"):
        figures_of(np.zeros(clusters, int), np.zeros(people, int))


@pytest.mark.parametrize("faces", [1, 7, 30])
def test_libraries_are_of_one_size_and_share_no_person(faces: int):
    random = np.random.default_rng(1)
    person = np.repeat(random.permutation(50), random.integers(1, 12, 50))
    libraries = libraries_of(person, faces, random)
    assert len(libraries) >= 2
    assert {len(rows) for rows in libraries} == {faces}
    seen = [set(person[rows].tolist()) for rows in libraries]
    assert sum(map(len, seen)) == len(set().union(*seen))
    assert all(len(set(rows.tolist())) == faces for rows in libraries)
    assert all((np.diff(rows) > 0).all() for rows in libraries if faces > 1)


def test_all_faces_but_those_of_the_last_person_of_a_library_are_used():
    person = np.repeat(np.arange(20), 5)
    libraries = libraries_of(person, 13, np.random.default_rng(0))
    assert len(libraries) == 6  # each spends three people of five faces; two of the twenty are too few
    assert all(sorted(np.bincount(np.unique(person[rows], return_inverse=True)[1])) == [3, 5, 5] for rows in libraries)


def test_a_seed_draws_the_same_libraries_and_another_one_others():
    person = np.repeat(np.arange(30), 3)
    draws = [libraries_of(person, 20, np.random.default_rng(seed)) for seed in (0, 0, 1)]
    assert [rows.tolist() for rows in draws[0]] == [rows.tolist() for rows in draws[1]]
    assert [rows.tolist() for rows in draws[0]] != [rows.tolist() for rows in draws[2]]


def test_fewer_faces_than_a_library_give_none():
    assert libraries_of(np.zeros(4, int), 5, np.random.default_rng(0)) == []
