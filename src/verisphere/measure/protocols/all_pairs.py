"""All pairs of a set compared: TAR at a FAR, and one threshold over its domains (OneFace, section 4.1)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64, Int64

from verisphere.base.vocabulary import (
    FARS,
    NOBODY,
    Embeddings,
    OperatingPoint,
    Precision,
    Progress,
    Rule,
    Union,
    quietly,
)
from verisphere.decide import (
    Far,
    OneThreshold,
    Ordered,
    PairScores,
    accepted_impostors,
    compare_domains,
    enough,
    operating_point,
    ordered,
    threshold_at,
)
from verisphere.score import AllPairs, Group, StreamedScores, unit_rows


@dataclass(frozen=True, eq=False)
class ScoredPairs:
    """Scores of pairs, descending, with the two rows of each pair."""

    scores: Float64[np.ndarray, " pairs"]
    rows: Int64[np.ndarray, "pairs 2"]


@dataclass(frozen=True)
class AllPairsResult:
    """The figures of all pairs of a set, for each target FAR: a point, and one threshold if the set has domains."""

    operating_points: tuple[OperatingPoint, ...]
    one_threshold: tuple[OneThreshold, ...] | None


class PairsOfSet:
    """All pairs of a set, which answer questions of order.

    Attributes:
        people: names of the people, ascending.
        person: number of the person on each row.
        domains: names of the domains, ascending; empty for a set without domains.
        domain: number of each row's domain; 0 for a set without domains.
    """

    def __init__(
        self,
        embeddings: Embeddings,
        progress: Progress = quietly,
        processes: int = 1,
        precision: Precision | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        """Number the people and domains; pairs are compared when a question is asked.

        The answers depend neither on `processes` nor on `precision`, the type of the products that screen; None chooses
        it by a sample.
        """
        if len(embeddings) < 2:
            raise ValueError(f"{len(embeddings)} embeddings make no pair")
        refuse_nobody(embeddings)
        self.people, person = np.unique(embeddings.identities, return_inverse=True)
        self.person: Int64[np.ndarray, " rows"] = person.astype(np.int64)
        self.domains: tuple[str, ...] = ()
        self.domain: Int64[np.ndarray, " rows"] = np.zeros(len(embeddings), np.int64)
        if embeddings.domains is not None:
            names, codes = np.unique(embeddings.domains, return_inverse=True)
            self.domains = tuple(str(name) for name in names)
            self.domain = codes.astype(np.int64)
        self._pairs = AllPairs(
            unit_rows(embeddings.embeddings).to(device),
            torch.from_numpy(self.person),
            torch.from_numpy(self.domain),
            progress,
            processes=processes,
            precision=precision,
        )

    def everything(self, genuine: bool) -> StreamedScores:
        """Scores of all genuine, or of all impostor pairs."""
        inside = range(max(len(self.domains), 1))
        return self._pairs.scores([*(Group(number, genuine) for number in inside), Group(None, genuine)])

    def union(self, union: Union) -> StreamedScores:
        """The impostors that set the common threshold."""
        if union == "all":
            return self.everything(genuine=False)
        return self._pairs.scores(Group(number, False) for number in range(len(self.domains)))

    def by_domain(self) -> dict[str, tuple[StreamedScores, StreamedScores]]:
        """The (genuine, impostor) scores of each domain."""
        return {
            name: (self._pairs.scores([Group(number, True)]), self._pairs.scores([Group(number, False)]))
            for number, name in enumerate(self.domains)
        }

    def settle(
        self,
        ranks: Iterable[tuple[StreamedScores, int]] = (),
        thresholds: Iterable[tuple[StreamedScores, float]] = (),
    ) -> None:
        """Answer these ranks and counts by as few passes as possible; see `AllPairs.settle`."""
        self._pairs.settle(ranks, thresholds)

    def prepare(self, pools: Sequence[StreamedScores], fars: Sequence[Far], thresholds: Sequence[float] = ()) -> None:
        """Find the thresholds of these pools, and the counts above given thresholds, by one pass for all of them."""
        self.settle(
            [(pool, rank) for pool in pools for far in fars for rank in impostor_ranks(pool.total, far)],
            [(self.everything(genuine=False), threshold) for threshold in thresholds],
        )

    def all_scores(self, genuine: bool) -> ScoredPairs:
        """Every genuine, or every impostor score, descending, and the two rows of each pair; holds all in memory."""
        return self.highest_scores(self.everything(genuine).total, genuine)

    def highest_scores(self, count: int, genuine: bool) -> ScoredPairs:
        """The `count` highest genuine, or impostor scores, descending, and the two rows of each pair."""
        scores, rows = self._pairs.highest(count, genuine)
        return ScoredPairs(scores.numpy(), rows.numpy())

    def highest(self, far: Far, times: int = 2) -> PairScores:
        """Genuine and highest impostor scores with their people, for a bootstrap over identities at this FAR."""
        return self.with_people(*self.highest_with_rows(far, times))

    def highest_with_rows(self, far: Far, times: int = 2) -> tuple[ScoredPairs, ScoredPairs]:
        """Every genuine pair, and as many of the highest impostor pairs as a bootstrap at this FAR needs."""
        impostors = enough(far, self.everything(genuine=False).total, times)
        return self.all_scores(genuine=True), self.highest_scores(impostors, genuine=False)

    def with_people(self, genuine: ScoredPairs, impostor: ScoredPairs) -> PairScores:
        """Scores with the people of each pair instead of its rows."""
        return PairScores(
            genuine=genuine.scores,
            genuine_person=self.person[genuine.rows[:, 0]],
            impostor=impostor.scores,
            impostor_people=self.person[impostor.rows],
            images=np.bincount(self.person),
        )


def all_pairs(
    embeddings: Embeddings | PairsOfSet,
    fars: Sequence[Far] = FARS,
    rule: Rule = "at_most",
    union: Union = "all",
    calibration: Embeddings | Ordered | None = None,
    skip_empty: bool = False,
    progress: Progress = quietly,
) -> AllPairsResult:
    """Every two embeddings compared once, genuine where their identities agree."""
    pairs = embeddings if isinstance(embeddings, PairsOfSet) else PairsOfSet(embeddings, progress)
    genuine = ordered(pairs.everything(genuine=True), "genuine")
    impostor = ordered(pairs.everything(genuine=False), "impostor")
    if isinstance(calibration, Embeddings):
        calibration = calibration_impostors(calibration, fars, progress)
    common = pairs.union(union) if calibration is None else calibration
    domains = pairs.by_domain()
    pools = [pairs.everything(genuine=False), *([pairs.union(union)] if domains else [])]
    pools += [within for _, within in domains.values()]
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


def refuse_nobody(embeddings: Embeddings) -> None:
    """Refuse rows of the identity `NOBODY`, which would count as one person."""
    if nobody := int((embeddings.identities == NOBODY).sum()):
        raise ValueError(f"{nobody} embeddings have the identity {NOBODY}: nobody is known on them; exclude them")


def require_pairs(embeddings: Embeddings, source: str) -> None:
    """Refuse a set without genuine or impostor pairs, by its identities alone."""
    images = np.unique(embeddings.identities, return_counts=True)[1]
    if len(images) == 1:
        raise ValueError(f"{source}: all {len(embeddings)} images are of one person, so there is no impostor pair")
    if images.max() == 1:
        raise ValueError(f"{source}: no two of {len(embeddings)} images are of one person, so there is no genuine pair")


def calibration_impostors(embeddings: Embeddings, fars: Sequence[Far], progress: Progress = quietly) -> Ordered:
    """All impostor pairs of a separate set, ready for these FARs."""
    pairs = PairsOfSet(embeddings, progress)
    impostor = pairs.everything(genuine=False)
    if impostor.total:
        pairs.prepare([impostor], fars)
    return ordered(impostor, "calibration impostor")


def impostor_ranks(total: int, far: Far) -> Iterator[int]:
    """The ranks of impostor scores that the threshold at a FAR needs, by any rule except `nearest` with ties."""
    allowed = accepted_impostors(far, total)
    yield from range(allowed + 1, min(allowed + 2, total) + 1)
