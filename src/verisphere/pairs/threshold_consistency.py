"""OneFace's threshold consistency penalty: domain thresholds as row weights (Liu et al. 2022, section 4.2).

Each step computes the threshold t_c at a stated FAR over all impostor pairs of the batch with a queue of earlier
features, and for each domain the threshold t_d over the pairs of its rows. A row's class-center loss is weighted by
t_d / t_c (eq. 7), so domains whose impostors score highest have the largest weights.
"""

import logging
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from jaxtyping import Float, Int64
from torch import Tensor

from verisphere.base.distributed import world
from verisphere.base.vocabulary import check_word
from verisphere.decide import Far, accepted_impostors, exact_rate, short_far, threshold_at
from verisphere.pairs.implicit_domains import CrossEntropy, ImplicitDomains, self_made_labels, self_made_loss
from verisphere.pairs.memory import FeatureQueue, Place, Storage, check_count
from verisphere.pairs.pair_term import GlobalBatch, PairOutput, PairTerm, Step, Training
from verisphere.score.batch_pairs import BatchPairs, Hints

log = logging.getLogger(__name__)

_LARGEST_LOG_RATIO = 50.0

Domains = Literal["implicit", "known"]
Compare = Literal["queue", "domain"]


@dataclass(frozen=True)
class DomainThresholds:
    """The thresholds at one FAR over all impostor pairs and over those of each domain.

    Attributes:
        negatives: number of impostor pairs of all domains.
        common: t_c; None if there are too few pairs for the FAR.
        own: t_d of each domain in the batch that has enough pairs.
    """

    negatives: int
    common: float | None = None
    own: Mapping[int, float] = field(default_factory=dict)

    @property
    def gamma(self) -> float | None:
        """sqrt(mean (t_d - t_c)^2), as in `verisphere.decide.one_threshold`; None if no domain has a threshold."""
        if self.common is None or not self.own:
            return None
        differences = (threshold - self.common for threshold in self.own.values())
        return math.hypot(*differences) / math.sqrt(len(self.own))

    def ratio(self, domain: int, power: float = 1.0) -> float:
        """(t_d / t_c) ** power, eq. 7; 1 if a threshold is missing or not positive, since eq. 7 then has no meaning."""
        threshold, common = self.own.get(domain), self.common
        if threshold is None or common is None or threshold <= 0 or common <= 0:
            return 1.0
        # A common threshold just above 0 would overflow the exponential; the ratio is cut off far below this limit.
        return math.exp(min(power * (math.log(threshold) - math.log(common)), _LARGEST_LOG_RATIO))


def domain_thresholds(pairs: BatchPairs, domains: Sequence[int], far: Far) -> DomainThresholds:
    """The thresholds of a batch's impostor pairs, grouped by domain, all from one pass over the stored rows.

    A set of n pairs with FAR * n < 1 has no threshold, since it has too few pairs for the FAR.
    """
    all_scores = pairs.scores()
    score_sets = [all_scores, *(pairs.scores([domain]) for domain in domains)]
    enough = [exact_rate(far) * scores.total >= 1 for scores in score_sets]
    pairs.settle(
        [
            (scores, accepted_impostors(far, scores.total) + 1, str(far))
            for scores, reachable in zip(score_sets, enough, strict=True)
            if reachable
        ]
    )
    common, *thresholds = (
        threshold_at(scores, far) if reachable else None for scores, reachable in zip(score_sets, enough, strict=True)
    )
    by_domain = {
        domain: threshold for domain, threshold in zip(domains, thresholds, strict=True) if threshold is not None
    }
    return DomainThresholds(all_scores.total, common, by_domain)


def thresholds_within(
    batch: GlobalBatch,
    domains: Int64[Tensor, " batch"],
    queue: FeatureQueue,
    present: Sequence[int],
    far: Far,
    hints: Mapping[int, Hints],
) -> dict[int, float]:
    """Each domain's threshold over the impostor pairs of its rows with stored rows of the same domain.

    This is the t_d of an evaluation (`verisphere.decide.one_threshold`); the training in the paper compares a domain's
    rows with the whole queue. Each domain that is `present` in the batch costs one pass over the queue.
    """
    thresholds = {}
    for domain in present:
        rows = (domains == domain).nonzero()[:, 0]
        stored = queue.stored(domain)
        pairs = BatchPairs(batch.units[rows], batch.labels[rows], stored, hints=hints[domain], world=world())
        threshold = domain_thresholds(pairs, [], far).common
        if threshold is not None:
            thresholds[domain] = threshold
    return thresholds


class ThresholdConsistency(PairTerm):
    """The threshold consistency penalty (TCP), with implicit domains or the known domains of the data.

    A step inserts the global batch into the queue, as the paper does, and then compares each row with the whole queue:
    pairs within the batch count from both sides. With `accumulate` each part of a batch is inserted and compared
    separately. Weights are constants. They are 1

    - for a domain with too few pairs for the FAR, and for all domains while all pairs together are too few;
    - if t_c or t_d is not positive, early in a training;
    - before `after`.

    A ratio outside [lowest, highest] is cut off. The gradient of the implicit domains' loss, eq. 6, also reaches the
    backbone (eq. 8 adds it to the total loss), unless `detach` is set.

    Logged, where F is the FAR and D the name of a known domain or the number of an implicit one: tcp_threshold_at_far_F
    (t_c), tcp_threshold_of_D (t_d), tcp_weight_of_D, tcp_share_of_D (of the batch), tcp_gamma (sqrt of the mean of
    (t_d - t_c)^2), tcp_capped (share of rows whose ratio was cut off), tcp_queue_fill, tcp_domain_loss (before lambda).
    For a domain without rows only its share is logged; a threshold that does not exist is not logged.

    >>> import torch
    >>> from verisphere.pairs import GlobalBatch, Step, Training
    >>> embeddings, labels = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]]), torch.tensor([0, 0, 1])
    >>> step = Step(GlobalBatch.of(embeddings, labels), embeddings, labels, domains=torch.tensor([0, 0, 1]))
    >>> term = ThresholdConsistency(far="0.5", domains="known", after=0.0, batches=2)
    >>> term.prepare(Training(classes=2, embedding_size=2, batch_size=3, domains=("day", "night")))
    >>> term(step).weights  # of the rows in the class-center loss: no threshold is positive yet
    tensor([1., 1., 1.])

    Args:
        far: the FAR of all thresholds, a decimal in (0, 1).
        batches: number of batches that the queue holds, K.
        domains: "implicit", or "known" for the domains of the data.
        domain_count: number of implicit domains, M.
        domain_loss_weight: weight of the implicit domains' loss, lambda.
        cross_entropy: "logits", or "as_printed" (see `implicit_domains`).
        lowest: smallest ratio, in (0, 1].
        highest: largest ratio, at least 1.
        compare: the stored rows that a domain's rows are compared with for t_d: the whole "queue", as in the paper, or
            the queue's rows of the same "domain", as in an evaluation.
        power: exponent of the ratio; 1 in the paper. Thresholds of one network differ by some per cent only, and so do
            the weights for an exponent of 1.
        after: position from which the weights take effect, in the recipe's `unit`; the queue fills and domains form
            from the start.
        detach: whether the loss of the implicit domains trains their network only.
        storage: see `verisphere.pairs.memory.Memory`.
        place: see `verisphere.pairs.memory.Memory`.

    Raises:
        ValueError: a value out of its range or unknown; from `prepare`, known domains for data with fewer than two.
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
            raise ValueError(f"lowest is {lowest} and highest {highest}; they must satisfy 0 < lowest <= 1 <= highest")
        self.far, self.domains, self.domain_count = far, domains, domain_count
        self.domain_loss_weight, self.cross_entropy, self.detach = domain_loss_weight, cross_entropy, detach
        self.lowest, self.highest, self.after = lowest, highest, after
        self.begins = after  # in epochs; `prepare` knows the recipe's unit
        self.compare, self.power = compare, power
        self.queue = FeatureQueue(batches, storage, place)
        self.division: ImplicitDomains | None = None
        self.names: tuple[str, ...] = ()
        self.hints = Hints()
        self._domain_hints: defaultdict[int, Hints] = defaultdict(Hints)
        self._warned = False

    def prepare(self, training: Training) -> None:
        """Allocate the queue, and draw the network of the implicit domains from PyTorch's random numbers.

        PyTorch's random state must be the same on all ranks, as it is after building a head.
        """
        training.check_begins("ThresholdConsistency", self.after)
        self.begins = training.epoch_of(self.after)
        self.queue.prepare(training.batch_size, training.embedding_size)
        if self.domains == "implicit":
            self.names = tuple(str(number) for number in range(self.domain_count))
            self.division = ImplicitDomains(training.embedding_size, self.domain_count)
            return
        self.names = training.domains or ()
        if len(self.names) < 2:
            known = "has no domains" if not self.names else f"has the single domain {self.names[0]!r}"
            raise ValueError(
                f"domains is 'known' but the data {known}; use data with at least 2 domains, or domains 'implicit'"
            )

    def forward(self, step: Step) -> PairOutput:
        """Compute the weights of this rank's rows, the loss of the implicit domains, and the figures."""
        batch = step.batch
        domains, loss = self._domains_and_loss(step)
        self.queue.insert(batch.units, batch.labels, domains)
        shares = (domains.bincount(minlength=len(self.names)) / max(len(domains), 1)).tolist()
        present = [domain for domain, share in enumerate(shares) if share]
        pairs = BatchPairs(batch.units, batch.labels, self.queue.stored(), domains, hints=self.hints, world=world())
        thresholds = domain_thresholds(pairs, present if self.compare == "queue" else [], self.far)
        if self.compare == "domain":
            by_domain = thresholds_within(batch, domains, self.queue, present, self.far, self._domain_hints)
            thresholds = replace(thresholds, own=by_domain)
        self._warn_once(thresholds, step.number)
        active = step.epoch >= self.begins
        ratios = {domain: thresholds.ratio(domain, self.power) if active else 1.0 for domain in present}
        weights = {domain: min(max(ratio, self.lowest), self.highest) for domain, ratio in ratios.items()}
        capped = sum(shares[domain] for domain in present if weights[domain] != ratios[domain])
        figures = {"tcp_queue_fill": self.queue.fill(), "tcp_capped": float(capped)}
        figures |= self._figures(thresholds, weights, shares)
        if loss is not None:
            figures["tcp_domain_loss"] = float(loss.detach())
            loss = self.domain_loss_weight * loss
        return PairOutput(loss, self._row_weights(weights, domains[batch.local_rows], batch), figures)

    def extra_repr(self) -> str:
        """What `print(term)` shows."""
        numbers = f"far={self.far}, domains={self.domains}, lowest={self.lowest:g}, highest={self.highest:g}"
        numbers += f", compare={self.compare}, power={self.power:g}"
        return f"{numbers}, domain_loss_weight={self.domain_loss_weight:g}, after={self.after:g}"

    def _domains_and_loss(self, step: Step) -> tuple[Int64[Tensor, " batch"], Float[Tensor, ""] | None]:
        """The domain of each row of the global batch, and the loss of implicit domains."""
        if self.division is None:
            if step.domains is None:
                raise ValueError("domains is 'known' but a step has no domains for its rows")
            return step.batch.gather(step.domains), None
        local = step.batch.local_units.detach() if self.detach else step.batch.local_units
        # The computation is replicated over all rows, so the network's gradient is the same on every rank.
        logits = self.division(step.batch.gather_with_gradient(local))
        domains = self_made_labels(logits)
        return domains, self_made_loss(logits, domains, self.cross_entropy)

    def _row_weights(
        self, weights: Mapping[int, float], domains: Int64[Tensor, " rows"], batch: GlobalBatch
    ) -> Float[Tensor, " rows"]:
        """The weight of each row, which is that of its domain."""
        table = batch.local_units.new_ones(len(self.names))
        table[list(weights)] = table.new_tensor(list(weights.values()))
        return table[domains]

    def _figures(
        self, thresholds: DomainThresholds, weights: Mapping[int, float], shares: Sequence[float]
    ) -> dict[str, float]:
        """The thresholds, weights and shares that exist, under their names in the log."""
        figures = {f"tcp_share_of_{name}": share for name, share in zip(self.names, shares, strict=True)}
        figures |= {f"tcp_weight_of_{self.names[domain]}": weight for domain, weight in weights.items()}
        figures |= {f"tcp_threshold_of_{self.names[domain]}": value for domain, value in thresholds.own.items()}
        if thresholds.common is not None:
            figures[f"tcp_threshold_at_far_{short_far(self.far)}"] = thresholds.common
        if thresholds.gamma is not None:
            figures["tcp_gamma"] = thresholds.gamma
        return figures

    def _warn_once(self, thresholds: DomainThresholds, number: int) -> None:
        """Report once that there are too few pairs for the FAR."""
        if thresholds.common is None and not self._warned and world().first:
            log.warning(
                "step %d: %d impostor pairs are too few for FAR %s; until there are more, all weights are 1",
                number + 1, thresholds.negatives, self.far,
            )  # fmt: skip
            self._warned = True
