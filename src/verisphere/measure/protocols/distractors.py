"""Probes among distractors: MegaFace and Trillion-Pairs, exactly and in bounded memory.

Each photo of a probe person is once the mate: alone in the gallery with all distractors, it is searched by every other
photo of the person (Kemelmacher-Shlizerman et al. 2016, arXiv:1512.00596, section 4). Its rank is 1 + the number of
distractors that score as high as the mate or higher: ties lose. The photos of a person never compete with each other.

Verification compares the same photos one to one: genuine are the pairs of two photos of one probe person, each once;
impostors are all pairs of a probe photo and a distractor, each once. Pairs of two probe people are not compared.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from jaxtyping import Float32, Float64, Int64

from verisphere.base.vocabulary import Embeddings, OperatingPoint, Precision, Rule
from verisphere.base.work import About, Arrays, divided, results
from verisphere.decide.identification import (
    Cmc,
    IdentificationPoint,
    ProbeScores,
    RankRate,
    cmc,
    identification_point,
    rank_rate,
)
from verisphere.decide.order import HighestScores
from verisphere.decide.point import Far, accepted_impostors, far_text, operating_point
from verisphere.measure.protocols.all_pairs import refuse_nobody
from verisphere.score.exact.scan import runs
from verisphere.score.pairs import pair_scores, unit_rows
from verisphere.score.reaching import Reaching

MOST_HELD = 1 << 25  # impostor scores that are held for a threshold: 0.5 GB, and as much while they are sorted


@dataclass(frozen=True, eq=False)
class DistractorScores:
    """The scores of probes among distractors that identification and verification need.

    Attributes:
        searches: a search for each ordered pair of two photos of one person, the probe and the mate; `stranger` has the
            best distractor of each probe photo, as of a search without a mate.
    """

    searches: ProbeScores
    genuine: Float64[np.ndarray, " pairs"]
    impostor: HighestScores


@dataclass(frozen=True)
class DistractorResult:
    """The figures of probes among distractors.

    Attributes:
        alone: number of photos whose person has no other photo: they have no mate, and occur only in impostor pairs.
        searches: number of (probe, mate) pairs, both orders counted.
    """

    people: int
    probes: int
    alone: int
    distractors: int
    searches: int
    ranks: tuple[RankRate, ...]
    cmc: Cmc
    identification_points: tuple[IdentificationPoint, ...]
    operating_points: tuple[OperatingPoint, ...]


def score_distractors(
    probes: Embeddings,
    portions: Iterable[Float32[np.ndarray, "_ dim"]],
    distractors: int,
    fars: Sequence[Far] = (),
    precision: Precision = "float32",
    steps: int = 1,
    about: About = list,
) -> DistractorScores:
    """Score probes among distractors, of which only a portion is held at a time; runs of portions are pieces of work.

    `steps` is the number of portions, where pieces are divided or kept, and `about` what determines the distractors and
    their portions. Impostor scores are held as far as the thresholds at `fars` need.
    """
    refuse_nobody(probes)
    if distractors < 1:
        raise ValueError("there are no distractors to search among")
    require_mates(probes)
    probe, mate = _searches(np.unique(probes.identities, return_inverse=True)[1])
    units = unit_rows(probes.embeddings)
    score = pair_scores(units, torch.from_numpy(probe), torch.from_numpy(mate)).numpy() + 0.0  # -0.0 is 0.0
    order = np.lexsort((score, probe))
    probe, mate, score = probe[order], mate[order], score[order]
    first = np.searchsorted(probe, np.arange(len(probes) + 1))
    held = _held(fars, len(probes) * distractors)
    pieces = runs(steps, len(probes) * distractors) if divided() else [range(sys.maxsize)]
    coming = iter(portions)

    def compute(chosen: Iterable[range]) -> Iterator[Arrays]:
        read = 0
        for piece in chosen:
            reaching = Reaching(units, score, first, held, precision)
            for rows in islice(coming, piece.start - read, piece.stop - read):
                if rows.shape[1] != units.shape[1]:
                    raise ValueError(
                        f"probes have {units.shape[1]} numbers a row but the distractors have {rows.shape[1]}"
                    )
                reaching.take(unit_rows(rows))
            read = piece.stop
            yield reaching.state()

    def known() -> list[object]:
        return [probes.embeddings, probe, mate, held, steps, *about()]

    reaching = Reaching(units, score, first, held, precision)
    for state in results("distractors", known, pieces, compute):
        reaching.add(state)
    if reaching.rows != distractors:
        raise ValueError(f"{distractors:,} distractors were announced, but {reaching.rows:,} came")
    searches = ProbeScores(
        mate=score,
        rival=reaching.best[probe],
        rank=1 + reaching.counts(),
        stranger=reaching.best,
        people=distractors + 1,
    )
    return DistractorScores(
        searches, score[probe < mate], HighestScores(*reaching.highest(), total=len(probes) * distractors)
    )


def distractor_figures(
    probes: Embeddings,
    scores: DistractorScores,
    ranks: Sequence[int] = (1,),
    fars: Sequence[Far] = ("1e-6",),
    fpirs: Sequence[Far] = (),
    rule: Rule = "at_most",
) -> DistractorResult:
    """The figures of probes with their scores, which were made for these probes in this order and for these FARs."""
    photos = np.unique(probes.identities, return_counts=True)[1]
    searches = scores.searches
    return DistractorResult(
        people=len(photos),
        probes=len(probes),
        alone=int((photos == 1).sum()),
        distractors=searches.people - 1,
        searches=len(searches.mate),
        ranks=tuple(rank_rate(searches, rank) for rank in ranks),
        cmc=cmc(searches),
        identification_points=tuple(identification_point(searches, fpir, 1, rule) for fpir in fpirs),
        operating_points=tuple(operating_point(scores.genuine, scores.impostor, far, rule) for far in fars),
    )


def require_mates(probes: Embeddings, source: str = "") -> None:
    """Refuse probes of which no two show one person; the error begins with `source`."""
    if len(np.unique(probes.identities)) == len(probes):
        raise ValueError(
            f"{source}no two of {len(probes)} probes show one person, so no probe has a mate; each needs another photo"
        )


def _searches(
    person: Int64[np.ndarray, " photos"],
) -> tuple[Int64[np.ndarray, " searches"], Int64[np.ndarray, " searches"]]:
    """Every ordered pair of two photos of one person: the row of the probe, and that of the mate."""
    order = np.argsort(person, kind="stable")
    photos = np.bincount(person)
    first = np.repeat(photos.cumsum() - photos, photos)  # position of the first photo of each photo's person
    others = np.repeat(photos, photos)
    probe = np.repeat(np.arange(len(person)), others)
    turn = np.arange(len(probe)) - np.repeat(others.cumsum() - others, others)
    mate = np.repeat(first, others) + turn
    apart = probe != mate
    return order[probe[apart]], order[mate[apart]]


def held_scores(far: Far, impostors: int) -> int:
    """Number of highest distinct impostor scores that the threshold at a FAR needs, by any rule; see `MOST_HELD`."""
    return min(accepted_impostors(far, impostors) + 2, impostors)


def _held(fars: Sequence[Far], impostors: int) -> int:
    """The number of highest distinct impostor scores that are held for these FARs."""
    needed = {far_text(far): held_scores(far, impostors) for far in fars}
    for far, count in needed.items():
        if count > MOST_HELD:
            raise ValueError(
                f"FAR {far} would hold {count:,} of {impostors:,} impostor scores, more than {MOST_HELD:,}"
            )
    return max(needed.values(), default=0)
