"""All pairs of a set compared: TAR at a FAR, and one threshold over its domains (OneFace, section 3)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from verisphere.decide import (
    Far,
    Interval,
    OneThreshold,
    Ordered,
    PairScores,
    accepted_impostors,
    ask_deeper,
    compare_domains,
    enough,
    exact_rate,
    operating_point,
    ordered,
    tar_differences_at,
    tar_interval,
    threshold_at,
)
from verisphere.distributed import ALONE, World
from verisphere.score import AllPairs, Group, StateStore, StreamedScores, unit_rows
from verisphere.vocabulary import FARS, Embeddings, OperatingPoint, Precision, Progress, Rule, Union, quietly


@dataclass(frozen=True)
class AllPairsResult:
    """What all pairs of a set say.

    Attributes:
        operating_points: one for each target FAR, over all pairs.
        one_threshold: one for each target FAR, where the set has domains.
    """

    operating_points: tuple[OperatingPoint, ...]
    one_threshold: tuple[OneThreshold, ...] | None


class PairsOfSet:
    """All pairs of a set, ready to be asked; the names of people and domains become numbers here."""

    def __init__(
        self,
        embeddings: Embeddings,
        progress: Progress = quietly,
        processes: int = 1,
        store: StateStore | None = None,
        precision: Precision | None = None,
        device: torch.device | str = "cpu",
        world: World = ALONE,
    ) -> None:
        """Take the set; its pairs are compared when something is asked.

        Args:
            embeddings: the set.
            progress: shown for each pass over the pairs.
            processes: how many work on a pass; the answers are the same.
            store: keeps a pairs, so that an interrupted one can be gone on with.
            precision: type of the products that screen, chosen by itself without; the answers are the same.
            device: where the pairs are compared.
            world: launched processes that share each pass, all asking the same; see `AllPairs`.

        Raises:
            ValueError: fewer than two embeddings.
        """
        if len(embeddings) < 2:
            raise ValueError(f"{len(embeddings)} embeddings make no pair")
        self.people, person = np.unique(embeddings.identities, return_inverse=True)
        self.person = torch.from_numpy(person.astype(np.int64))
        self.domains: tuple[str, ...] = ()
        domain = None
        if embeddings.domains is not None:
            names, codes = np.unique(embeddings.domains, return_inverse=True)
            self.domains = tuple(str(name) for name in names)
            domain = torch.from_numpy(codes.astype(np.int64))
        self.pairs = AllPairs(
            unit_rows(embeddings.embeddings).to(device),
            self.person,
            domain,
            progress,
            processes=processes,
            store=store,
            precision=precision,
            world=world,
        )

    def everything(self, genuine: bool) -> StreamedScores:
        """Scores of all genuine, or of all impostor pairs."""
        inside = range(max(len(self.domains), 1))
        return self.pairs.scores([*(Group(number, genuine) for number in inside), Group(None, genuine)])

    def union(self, union: Union) -> StreamedScores:
        """The impostors that set the common threshold."""
        if union == "all":
            return self.everything(genuine=False)
        return self.pairs.scores(Group(number, False) for number in range(len(self.domains)))

    def by_domain(self) -> dict[str, tuple[StreamedScores, StreamedScores]]:
        """The (genuine, impostor) scores of each domain."""
        return {
            name: (self.pairs.scores([Group(number, True)]), self.pairs.scores([Group(number, False)]))
            for number, name in enumerate(self.domains)
        }

    def prepare(self, pools: Sequence[StreamedScores], fars: Sequence[Far], thresholds: Sequence[float] = ()) -> None:
        """Find what these pools' thresholds, and counts above given ones, need by one pass, not by one pass each."""
        self.pairs.settle(
            [(pool, rank) for pool in pools for far in fars for rank in _ranks(pool.total, far)],
            [(self.everything(genuine=False), threshold) for threshold in thresholds],
        )

    def all_scores(self, genuine: bool) -> tuple[np.ndarray, np.ndarray]:
        """Every genuine, or every impostor score, descending, and the two rows of each pair; for sets that fit."""
        scores, rows = self.pairs.highest(self.everything(genuine).total, genuine)
        return scores.numpy(), rows.numpy()

    def highest(self, far: Far, times: int = 2) -> PairScores:
        """Genuine and highest impostor scores with their people, for a bootstrap over identities at this FAR."""
        genuine, pairs = self.pairs.highest(self.everything(genuine=True).total, genuine=True)
        wanted = enough(far, self.everything(genuine=False).total, times)
        impostor, rows = self.pairs.highest(wanted, genuine=False)
        return PairScores(
            genuine=genuine.numpy(),
            genuine_person=self.person[pairs[:, 0]].numpy(),
            impostor=impostor.numpy(),
            impostor_people=self.person[rows].numpy(),
            images=torch.bincount(self.person).numpy(),
        )


def interval_of_tar(pairs: PairsOfSet, far: Far, replicates: int = 1000, seed: int = 0) -> Interval:
    """TAR over all pairs at a target FAR, with the middle 95 % over redrawn people (see `decide`).

    Args:
        pairs: the set's pairs.
        far: target FAR; memory grows with it.
        replicates: of the bootstrap over people.
        seed: of its draws.
    """
    return ask_deeper(lambda times: tar_interval(pairs.highest(far, times), far, replicates, seed))


def tar_differences(
    ours: PairsOfSet,
    others: Sequence[PairsOfSet],
    fars: Sequence[Far],
    replicates: int = 1000,
    seed: int = 0,
    progress: Progress = quietly,
) -> list[tuple[Interval, ...]]:
    """TAR of one model less TAR of each other over all pairs of the same images, for each target FAR (see `decide`).

    Args:
        ours: one model's pairs.
        others: those of other models, of the same images in the same order.
        fars: target FARs; memory grows with the largest.
        replicates: of the bootstrap over people.
        seed: of its draws.
        progress: shown over passes and replicates.

    Raises:
        ValueError: the models do not hold the same images of the same people.
    """
    largest = max(fars, key=exact_rate)

    def ask(times: int) -> list[tuple[Interval, ...]]:
        first = ours.highest(largest, times)
        return [
            tar_differences_at(first, theirs.highest(largest, times), fars, replicates, seed, progress)
            for theirs in others
        ]

    return ask_deeper(ask)


def all_pairs(
    embeddings: Embeddings | PairsOfSet,
    fars: Sequence[Far] = FARS,
    rule: Rule = "at_most",
    union: Union = "all",
    calibration: Embeddings | Ordered | None = None,
    skip_empty: bool = False,
    progress: Progress = quietly,
) -> AllPairsResult:
    """Every two embeddings compared once, genuine where their identities agree.

    Args:
        embeddings: the set, or its pairs where they are counted already; where it has domains, they are compared at
            one threshold too.
        fars: target FARs.
        rule: see `threshold_at`.
        union: `within` leaves impostor pairs across domains out of the common threshold.
        calibration: a separate set whose impostor pairs alone set the common threshold.
        skip_empty: leave out domains without impostors or genuine pairs.
        progress: shown for each pass over the pairs.

    Raises:
        ValueError: no genuine or no impostor pair; a domain without one of them, unless skipped; a bad FAR.
    """
    pairs = embeddings if isinstance(embeddings, PairsOfSet) else PairsOfSet(embeddings, progress)
    genuine = ordered(pairs.everything(genuine=True), "genuine")
    impostor = ordered(pairs.everything(genuine=False), "impostor")
    if isinstance(calibration, Embeddings):
        calibration = calibration_impostors(calibration, fars, progress)
    common = pairs.union(union) if calibration is None else calibration
    domains = pairs.by_domain()
    pools = [pairs.everything(genuine=False), *([pairs.union(union)] if domains else [])]
    pools += [own for _, own in domains.values()]
    fixed = [] if calibration is None else [threshold_at(calibration, far, rule) for far in fars]
    pairs.prepare([pool for pool in pools if pool.total], fars, fixed)
    return AllPairsResult(
        operating_points=tuple(operating_point(genuine, impostor, far, rule) for far in fars),
        one_threshold=tuple(
            compare_domains(
                domains,
                ordered(common, "impostor"),
                far,
                rule,
                union if calibration is None else "calibration",
                skip_empty,
            )
            for far in fars
        )
        if domains
        else None,
    )


def calibration_impostors(embeddings: Embeddings, fars: Sequence[Far], progress: Progress = quietly) -> Ordered:
    """All impostor pairs of a separate set, ready for these FARs.

    Raises:
        ValueError: the set has no impostor pair.
    """
    pairs = PairsOfSet(embeddings, progress)
    impostor = pairs.everything(genuine=False)
    if impostor.total:
        pairs.prepare([impostor], fars)
    return ordered(impostor, "calibration impostor")


def _ranks(total: int, far: Far) -> Iterator[int]:
    allowed = accepted_impostors(far, total)
    yield from range(allowed + 1, min(allowed + 2, total) + 1)
