"""What holds for every method: it is a function of its seed and of what it was asked and told."""

from collections.abc import Callable

import numpy as np
import pytest

from verisphere.study.search import Method, Optuna, RandomDraws, Reinforce

pytest.importorskip("optuna")
pytest.importorskip("cmaes")

METHODS: dict[str, Callable[[], Method]] = {
    "random": RandomDraws,
    "reinforce": Reinforce,
    "tpe": lambda: Optuna("tpe"),
    "cma": lambda: Optuna("cma"),
    "tpe from the start": lambda: Optuna("tpe", random_first=0),
    "cma from the start": lambda: Optuna("cma", random_first=0),
}
every_method = pytest.mark.parametrize("make", METHODS.values(), ids=METHODS)


def asked(make: Callable[[], Method], seed: int, counts: list[int], fields: int = 3) -> np.ndarray:
    """All draws of a search for 0.3 in every field, whose rewards are told after each ask."""
    method = make()
    method.begin(np.full(fields, 0.5), seed)
    draws = []
    for count in counts:
        draws.append(method.ask(count))
        assert draws[-1].shape == (count, fields)
        method.tell(draws[-1], -((draws[-1] - 0.3) ** 2).sum(1))
    return np.concatenate(draws)


@every_method
@pytest.mark.parametrize("counts", [[4] * 6, [1] * 12, [3, 1, 8, 2]])
def test_the_same_questions_have_the_same_answers(make, counts):
    assert (asked(make, 0, counts) == asked(make, 0, counts)).all()


@every_method
def test_other_seeds_have_other_draws(make):
    first, second = asked(make, 0, [4] * 4), asked(make, 1, [4] * 4)
    assert (first[1:] != second[1:]).all()  # a sampler may begin at the middle whatever its seed


@every_method
def test_global_generators_are_neither_read_nor_moved(make):
    np.random.seed(5)  # noqa: NPY002  # as a library does that draws from it
    first = asked(make, 0, [4] * 4)
    np.random.seed(6)  # noqa: NPY002  # as above
    assert (asked(make, 0, [4] * 4) == first).all()
    assert np.random.rand() == np.random.RandomState(6).rand()  # noqa: NPY002  # the global generator itself is meant


@pytest.mark.parametrize("make", [METHODS["random"], METHODS["tpe"], METHODS["cma"]])
def test_draws_lie_between_0_and_1(make):
    draws = asked(make, 0, [4] * 8)
    assert draws.min() >= 0
    assert draws.max() <= 1


def test_random_draws_do_not_depend_on_how_many_are_asked_for_at_once():
    assert (asked(RandomDraws, 0, [4, 4]) == asked(RandomDraws, 0, [1, 7])).all()


@pytest.mark.parametrize("sampler", ["tpe", "cma"])
def test_samplers_take_equal_rewards(sampler):
    method = Optuna(sampler, random_first=2)
    method.begin(np.full(2, 0.5), 0)
    for _ in range(5):
        method.tell(method.ask(3), np.full(3, 0.25))
    assert np.isfinite(method.ask(3)).all()


def test_rewards_belong_to_the_trials_that_were_asked_for_first():
    method = Optuna("tpe", random_first=1)
    method.begin(np.full(1, 0.5), 0)
    first, second = method.ask(2), method.ask(1)
    method.tell(first, np.array([1.0, 2.0]))
    method.tell(second, np.array([3.0]))
    trials = method._study.trials
    assert [trial.value for trial in trials] == [1.0, 2.0, 3.0]
    assert [trial.params["x0"] for trial in trials] == [*first[:, 0], *second[:, 0]]


def test_cma_es_refuses_a_single_field():
    with pytest.raises(ValueError, match=r"^sampler is cma, which searches two fields or more; the space has one"):
        Optuna("cma").begin(np.full(1, 0.5), 0)


def test_bad_arguments_of_a_sampler():
    with pytest.raises(ValueError, match=r"^random_first must not be negative, got -1$"):
        Optuna("tpe", random_first=-1)


@pytest.mark.parametrize(("sampler", "missing"), [("tpe", "optuna"), ("cma", "optuna"), ("cma", "cmaes")])
def test_a_missing_package_is_named_before_anything_is_trained(sampler, missing, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, missing, None)
    with pytest.raises(ValueError, match=rf"^{missing} is not installed; .*pip install '\.\[tune\]'"):
        Optuna(sampler)
