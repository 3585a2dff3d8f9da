"""OneFace's threshold consistency penalty: rows weigh as their domain's threshold does (Liu et al. 2022, section 4.2).

Each step finds, over all impostor pairs of the batch with a queue of earlier features, the threshold at a stated FAR,
t_c; and over the pairs of each domain's rows that domain's own, t_d. A row's class-center loss is weighed by t_d / t_c
(eq. 7), so the network works hardest where impostors score highest.
"""

import logging
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from jaxtyping import Float, Int64
from torch import Tensor

from verisphere.decide import Far, accepted_impostors, exact_rate, short_far, threshold_at
from verisphere.distributed import world
from verisphere.pairs.counts import check_count
from verisphere.pairs.implicit_domains import (
    CrossEntropy,
    ImplicitDomains,
    self_made_labels,
    self_made_loss,
)
from verisphere.pairs.memory import FeatureQueue, Place, Storage
from verisphere.pairs.pair_term import GlobalBatch, PairOutput, PairTerm, Step, Training
from verisphere.score.batch_pairs import BatchPairs, Hints
from verisphere.vocabulary import check_word

log = logging.getLogger(__name__)

_LARGEST = 50.0  # of a ratio's logarithm

Domains = Literal["implicit", "known"]
Compare = Literal["queue", "domain"]


@dataclass(frozen=True)
class DomainThresholds:
    """Thresholds at one FAR, of all impostor pairs and of each domain's.

    Attributes:
        negatives: impostor pairs, of all domains.
        common: t_c; None where the pairs are too few for the FAR.
        own: t_d of each domain of the batch whose pairs are enough.
    """

    negatives: int
    common: float | None = None
    own: Mapping[int, float] = field(default_factory=dict)

    @property
    def gamma(self) -> float | None:
        """sqrt(mean (t_d - t_c)^2), as `verisphere.decide.one_threshold` has it; None without a t_d."""
        if self.common is None or not self.own:
            return None
        return math.hypot(*(own - self.common for own in self.own.values())) / math.sqrt(len(self.own))

    def ratio(self, domain: int, power: float = 1.0) -> float:
        """(t_d / t_c) ** power, eq. 7; 1 where a threshold is missing or not positive, which says nothing."""
        own, common = self.own.get(domain), self.common
        if own is None or common is None or own <= 0 or common <= 0:
            return 1.0
        # a threshold just above 0 makes any ratio; beyond what any cap lets through its size does not matter
        return math.exp(min(power * (math.log(own) - math.log(common)), _LARGEST))


def domain_thresholds(pairs: BatchPairs, domains: Sequence[int], far: Far) -> DomainThresholds:
    """The thresholds of a batch's impostor pairs, all from one pass over the stored rows.

    A set of n pairs with FAR * n < 1 has none: it does not reach the FAR.

    Args:
        pairs: the batch's rows, grouped by domain, and the stored ones.
        domains: those of which the batch has rows.
        far: in (0, 1).
    """
    everything = pairs.scores()
    asked = [everything, *(pairs.scores([domain]) for domain in domains)]
    enough = [exact_rate(far) * scores.total >= 1 for scores in asked]
    pairs.settle(
        [
            (scores, accepted_impostors(far, scores.total) + 1, str(far))
            for scores, some in zip(asked, enough, strict=True)
            if some
        ]
    )
    common, *own = (threshold_at(scores, far) if some else None for scores, some in zip(asked, enough, strict=True))
    found = {domain: one for domain, one in zip(domains, own, strict=True) if one is not None}
    return DomainThresholds(everything.total, common, found)


def thresholds_within(
    batch: GlobalBatch,
    domains: Int64[Tensor, " batch"],
    queue: FeatureQueue,
    present: Sequence[int],
    far: Far,
    hints: Mapping[int, Hints],
) -> dict[int, float]:
    """Each domain's threshold over the impostor pairs of its rows with stored rows of the same domain.

    That is the t_d of evaluation (`verisphere.decide.one_threshold`), where the paper's training has a domain's rows
    against the whole queue. It takes a walk through the queue for each domain.

    Args:
        batch: the rows of all processes.
        domains: of them.
        queue: which knows its rows' domains.
        present: domains of which the batch has rows.
        far: in (0, 1).
        hints: of each domain.
    """
    found = {}
    for domain in present:
        rows = (domains == domain).nonzero()[:, 0]
        stored = queue.stored(domain)
        pairs = BatchPairs(batch.units[rows], batch.labels[rows], stored, hints=hints[domain], world=world())
        own = domain_thresholds(pairs, [], far).common
        if own is not None:
            found[domain] = own
    return found


class ThresholdConsistency(PairTerm):
    """The threshold consistency penalty (TCP), with domains that it makes itself or that the data knows.

    A step enters the global batch into the queue, as the paper does, and then compares each row with the whole queue:
    pairs within the batch count from both sides. Of a batch worked through in parts (`accumulate`) each part is entered
    and compared by itself. Weights are constants. They are 1

    - for a domain with too few pairs for the FAR, and for all while all have too few;
    - where t_c or t_d is not positive, early in a training;
    - before `after`.

    Beyond [lowest, highest] a ratio is cut off. Of the loss of the implicit domains, eq. 6, the gradient reaches the
    backbone too (eq. 8 adds it to the whole), unless `detach` is set.

    Logged, F being the FAR and D a domain's name or, of implicit ones, its number: tcp_threshold_at_far_F (t_c),
    tcp_threshold_of_D (t_d), tcp_weight_of_D, tcp_share_of_D (of the batch), tcp_gamma (sqrt of the mean of
    (t_d - t_c)^2), tcp_capped (share of rows whose ratio was cut off), tcp_queue_fill, tcp_domain_loss (before lambda).
    A domain without rows logs its share alone; what has no threshold logs none.

    Args:
        far: the FAR of all thresholds, a decimal in (0, 1).
        batches: K, how many batches the queue holds.
        domains: "implicit", or "known" for those of the data.
        domain_count: M, of implicit ones.
        domain_loss_weight: lambda, of implicit ones.
        cross_entropy: "logits", or "as_printed" (see `implicit_domains`).
        lowest: least ratio, in (0, 1].
        highest: largest ratio, at least 1.
        compare: what a domain's rows are compared with for t_d: the whole "queue", as the paper has it, or the queue's
            rows of the same "domain", as evaluation has it.
        power: of the ratio; the paper's is 1. Thresholds of one network lie within some per cent of each other, and
            so do weights without a power.
        after: epochs before the weights act; the queue fills and domains form all along.
        detach: the loss of the implicit domains trains their network alone.
        storage: see `verisphere.pairs.memory.Memory`.
        place: see `verisphere.pairs.memory.Memory`.

    Raises:
        ValueError: a value out of its range or unknown; from `prepare`, known domains of data with fewer than two.
    """

    def __init__(
        self,
        far: Far = "1e-4",
        batches: int = 1000,
        domains: Domains = "implicit",
        domain_count: int = 8,
        domain_loss_weight: float = 0.05,
        cross_entropy: CrossEntropy = "logits",
        lowest: float = 0.5,
        highest: float = 2.0,
        compare: Compare = "queue",
        power: float = 1.0,
        after: float = 0.0,
        detach: bool = False,
        storage: Storage = "float32",
        place: Place = "device",
    ) -> None:
        super().__init__()
        if not 0 < exact_rate(far) < 1:
            raise ValueError(f"far is {far}; it must lie between 0 and 1, such as 1e-4")
        check_word("domains", domains, Domains)
        check_count("domain_count", domain_count, least=2, most=10**4)
        check_word("cross_entropy", cross_entropy, CrossEntropy)
        check_word("compare", compare, Compare)
        for name, value in (("domain_loss_weight", domain_loss_weight), ("after", after), ("power", power)):
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} is {value}; it must be a finite number >= 0")
        if not 0 < lowest <= 1 <= highest:
            raise ValueError(f"lowest is {lowest} and highest {highest}; a cap is 0 < lowest <= 1 <= highest")
        self.far, self.domains, self.domain_count = far, domains, domain_count
        self.domain_loss_weight, self.cross_entropy, self.detach = domain_loss_weight, cross_entropy, detach
        self.lowest, self.highest, self.after = lowest, highest, after
        self.compare, self.power = compare, power
        self.queue = FeatureQueue(batches, storage, place)
        self.division: ImplicitDomains | None = None
        self.names: tuple[str, ...] = ()
        self.hints = Hints()
        self._own_hints: defaultdict[int, Hints] = defaultdict(Hints)
        self._warned = False

    def prepare(self, training: Training) -> None:
        """Make room for the queue, and the network of the implicit domains from PyTorch's random numbers.

        Of several processes all must have come to the same random numbers, as they have after building a head.
        """
        training.check_begins("ThresholdConsistency", self.after)
        self.queue.prepare(training.batch_size, training.embedding_size)
        if self.domains == "implicit":
            self.names = tuple(str(number) for number in range(self.domain_count))
            self.division = ImplicitDomains(training.embedding_size, self.domain_count)
            return
        self.names = training.domains or ()
        if len(self.names) < 2:
            found = "knows no domains" if not self.names else f"is all of domain {self.names[0]!r}"
            raise ValueError(
                f"domains is 'known' but the data {found}; take data with 2 domains or more, or domains 'implicit'"
            )

    def forward(self, step: Step) -> PairOutput:
        """Weights of this process's rows, the loss of the implicit domains, and figures."""
        batch = step.batch
        domains, loss = self._domains_and_loss(step)
        self.queue.insert(batch.units, batch.labels, domains)
        shares = (domains.bincount(minlength=len(self.names)) / max(len(domains), 1)).tolist()
        present = [domain for domain, share in enumerate(shares) if share]
        pairs = BatchPairs(batch.units, batch.labels, self.queue.stored(), domains, hints=self.hints, world=world())
        found = domain_thresholds(pairs, present if self.compare == "queue" else [], self.far)
        if self.compare == "domain":
            own = thresholds_within(batch, domains, self.queue, present, self.far, self._own_hints)
            found = replace(found, own=own)
        self._warn_once(found, step.number)
        ratios = {domain: found.ratio(domain, self.power) if step.epoch >= self.after else 1.0 for domain in present}
        weights = {domain: min(max(ratio, self.lowest), self.highest) for domain, ratio in ratios.items()}
        capped = sum(shares[domain] for domain in present if weights[domain] != ratios[domain])
        figures = {"tcp_queue_fill": self.queue.fill(), "tcp_capped": float(capped)}
        figures |= self._figures(found, weights, shares)
        if loss is not None:
            figures["tcp_domain_loss"] = float(loss.detach())
            loss = self.domain_loss_weight * loss
        return PairOutput(loss, self._row_weights(weights, domains[batch.local_rows], batch), figures)

    def held(self) -> dict[str, range]:
        """See `PairTerm.held`."""
        return {f"queue.{name}": rows for name, rows in self.queue.held().items()}

    def extra_repr(self) -> str:
        """What `print(term)` shows."""
        numbers = f"far={self.far}, domains={self.domains}, lowest={self.lowest:g}, highest={self.highest:g}"
        numbers += f", compare={self.compare}, power={self.power:g}"
        return f"{numbers}, domain_loss_weight={self.domain_loss_weight:g}, after={self.after:g}"

    def _domains_and_loss(self, step: Step) -> tuple[Int64[Tensor, " batch"], Float[Tensor, ""] | None]:
        """The domain of each row of all processes, and the loss of domains that are made here."""
        if self.division is None:
            if step.domains is None:
                raise ValueError("domains is 'known' but a step came without the domains of its rows")
            return step.batch.gather(step.domains), None
        own = step.batch.local_units.detach() if self.detach else step.batch.local_units
        # every process computes it for all rows alike, so the network's gradient is the same on each
        logits = self.division(step.batch.gather_with_gradient(own))
        domains = self_made_labels(logits)
        return domains, self_made_loss(logits, domains, self.cross_entropy)

    def _row_weights(
        self, weights: Mapping[int, float], domains: Int64[Tensor, " rows"], batch: GlobalBatch
    ) -> Float[Tensor, " rows"]:
        """Each row's weight, by its domain."""
        table = batch.local_units.new_ones(len(self.names))
        table[list(weights)] = table.new_tensor(list(weights.values()))
        return table[domains]

    def _figures(
        self, found: DomainThresholds, weights: Mapping[int, float], shares: Sequence[float]
    ) -> dict[str, float]:
        """For the log, what there is of thresholds, weights and shares."""
        figures = {f"tcp_share_of_{name}": share for name, share in zip(self.names, shares, strict=True)}
        figures |= {f"tcp_weight_of_{self.names[domain]}": weight for domain, weight in weights.items()}
        figures |= {f"tcp_threshold_of_{self.names[domain]}": own for domain, own in found.own.items()}
        if found.common is not None:
            figures[f"tcp_threshold_at_far_{short_far(self.far)}"] = found.common
        if found.gamma is not None:
            figures["tcp_gamma"] = found.gamma
        return figures

    def _warn_once(self, found: DomainThresholds, number: int) -> None:
        """Say once that there are too few pairs for the FAR."""
        if found.common is None and not self._warned and world().first:
            log.warning(
                "step %d: %d impostor pairs are too few for FAR %s; until there are more, all weights are 1",
                number + 1, found.negatives, self.far,
            )  # fmt: skip
            self._warned = True
