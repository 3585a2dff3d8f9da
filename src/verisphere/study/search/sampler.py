"""Draws by Optuna (Akiba et al. 2019, arXiv:1907.10902): TPE and CMA-ES; the extra `tune` installs it."""

from importlib import import_module
from typing import Any, Literal

import numpy as np
from jaxtyping import Float64

from verisphere.base.seeds import Stream, mixed_seed
from verisphere.base.vocabulary import check_word
from verisphere.base.words import install_extra
from verisphere.study.search.method import Draws, Method, Rewards

Sampler = Literal["tpe", "cma"]


class Optuna(Method):
    """Draws in [0, 1] by a sampler of Optuna, which learns from all rewards so far.

    Args:
        sampler: "tpe" (tree-structured Parzen estimator) or "cma" (CMA-ES, which takes two fields or more).
        random_first: trials that are drawn evenly before the sampler's own.
    """

    def __init__(self, sampler: Sampler = "tpe", random_first: int = 5) -> None:
        check_word("sampler", sampler, Sampler)
        if random_first < 0:
            raise ValueError(f"random_first must not be negative, got {random_first}")
        self.sampler, self.random_first = sampler, random_first
        _optuna(sampler)

    def begin(self, start: Float64[np.ndarray, " fields"], seed: int) -> None:
        """Begin a study in memory; the start is not used."""
        super().begin(start, seed)
        if self.sampler == "cma" and len(start) < 2:
            raise ValueError("sampler is cma, which searches two fields or more; the space has one: take tpe")
        optuna = _optuna(self.sampler)
        number = mixed_seed(Stream.SEARCH, seed)
        sampler = (
            optuna.samplers.TPESampler(n_startup_trials=self.random_first, seed=number, constant_liar=True)
            if self.sampler == "tpe"
            else optuna.samplers.CmaEsSampler(n_startup_trials=self.random_first, seed=number)
        )
        self._study = optuna.create_study(direction="maximize", sampler=sampler)
        self._ranges = {f"x{place}": optuna.distributions.FloatDistribution(0.0, 1.0) for place in range(len(start))}
        self._waiting: list[Any] = []

    def ask(self, count: int) -> Draws:
        """The parameters of new trials."""
        trials = [self._study.ask(self._ranges) for _ in range(count)]
        self._waiting += trials
        return np.array([[trial.params[name] for name in self._ranges] for trial in trials], np.float64)

    def tell(self, draws: Draws, rewards: Rewards) -> None:
        """Report the rewards of the trials with these draws."""
        for draw, reward in zip(draws, rewards, strict=True):
            trial = next(one for one in self._waiting if [one.params[name] for name in self._ranges] == list(draw))
            self._waiting.remove(trial)
            self._study.tell(trial, float(reward))


def _optuna(sampler: Sampler) -> Any:
    """The package, without its messages."""
    try:
        import optuna

        if sampler == "cma":
            import_module("cmaes")  # Optuna imports it at the first trial, hours later
    except ImportError as error:
        raise ValueError(f"{error.name} is not installed; {install_extra('tune')}") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
