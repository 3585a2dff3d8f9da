"""A margin for each domain, as in RL-RBN (Wang and Deng 2020, CVPR, arXiv:1911.10692).

The paper gives each race a separate margin, so that a race whose faces are harder to distinguish can have a larger one,
and finds the margins by reinforcement learning; `verisphere.study.search.QLearning` searches for them here. Only the
abstract of the paper was available. We assume that the margin of a row is that of its class and that it enters as in
CosFace or ArcFace; everything else in this file is ours as well.
"""

from collections.abc import Mapping, Sequence
from math import isfinite, pi
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from verisphere.base.vocabulary import check_word
from verisphere.losses.class_loss import ClassLoss, Rows
from verisphere.losses.margin import combined_margin

Kind = Literal["cosine", "angle"]


def margin_of_domain(
    cosine: Float[Tensor, "batch"], domain: Float[Tensor, "batch"], margins: Sequence[float], kind: Kind
) -> Float[Tensor, "batch"]:
    """The own cosine of each row with the margin of the row's domain, before scaling.

    It is `combined_margin` of each row, to the last bit: cosine - margin, or cos(theta + margin).

    >>> margin_of_domain(torch.tensor([0.5, 0.5]), torch.tensor([0.0, 1.0]), [0.25, 0.0], "cosine")
    tensor([0.2500, 0.5000])

    Args:
        domain: number of each row's domain, a place in `margins`.
        margins: margin of each domain: subtracted from the cosine, >= 0, or radians in [0, pi).
    """
    margined = cosine
    for number, margin in enumerate(margins):
        m2, m3 = (margin, 0.0) if kind == "angle" else (0.0, margin)
        margined = torch.where(domain == number, combined_margin(cosine, m2=m2, m3=m3), margined)
    return margined


class DomainMargins(ClassLoss):
    """CosFace or ArcFace with a margin for each domain; every class lies in one domain.

    With equal margins it is `CosFace` or `ArcFace` to the last bit. The loss must know the domain of each class before
    it computes anything: a training prepares it from its data, and a custom training loop calls `prepare_domains`. Each
    margin is a separate number of a recipe, such as `loss.init_args.margins.night`, which a search can change.

    >>> loss = DomainMargins({"day": 0.1, "night": 0.3}, scale=4.0)
    >>> loss.prepare_domains(["day", "night"])
    >>> loss.forward(torch.tensor([[0.5, 0.3], [0.3, 0.5]]), torch.tensor([0, 1]))  # 0.5130 and 0.9130
    tensor(0.7130)

    Args:
        margins: the margin of each domain, by the domain's name.
        kind: "cosine" subtracts the margin from the own cosine, as CosFace does: a number >= 0; "angle" adds it to the
            angle, as ArcFace does: radians, in [0, pi).
        scale: factor from cosine to logit.

    `set_strength` scales the margins.

    Raises:
        ValueError: no margin, a margin or the scale is outside its range, or an unknown kind.
    """

    #: Settings and not state: number of each class's domain, which follows from the data.
    domain_of_class: Tensor

    def __init__(self, margins: Mapping[str, float], kind: Kind = "cosine", scale: float = 64.0) -> None:
        super().__init__(scale)
        check_word("kind", kind, Kind)
        if not margins:
            raise ValueError("margins is empty; each domain of the data needs a margin, by its name")
        for domain, margin in margins.items():
            if kind == "angle" and not 0 <= margin < pi:
                raise ValueError(
                    f"margins: that of {domain} is {margin}; of kind 'angle' it must be in [0, pi) radians: is it in "
                    "degrees?"
                )
            if not (isfinite(margin) and margin >= 0):
                raise ValueError(
                    f"margins: that of {domain} is {margin}; of kind 'cosine' it must be a number >= 0 (0 is no margin)"
                )
        self.margins, self.kind = dict(margins), kind
        self.register_buffer("domain_of_class", torch.empty(0, dtype=torch.int64), persistent=False)

    @property
    def class_domains(self) -> tuple[str, ...]:
        """The domains that have a margin."""
        return tuple(self.margins)

    def prepare(self, classes: int) -> None:
        """Set the number of classes.

        Raises:
            ValueError: the loss was prepared for the domains of another number of classes.
        """
        super().prepare(classes)
        if len(self.domain_of_class) not in (0, classes):
            raise ValueError(
                f"the loss was given domains of {len(self.domain_of_class)} classes, but there are {classes}"
            )

    def prepare_domains(self, domains: Sequence[str] | None) -> None:
        """Set the domain of each class.

        A margin of a domain that no class lies in is not used.

        Raises:
            ValueError: no domains, a domain without a margin, or another number of classes than the loss belongs to.
        """
        having = ", ".join(self.margins)
        if domains is None:
            raise ValueError(f"there are no domains, and the loss has a margin for each of {having}")
        if isinstance(domains, str) or (self.classes and len(domains) != self.classes):
            raise ValueError(f"domains is {domains!r:.60}; it must hold one name for each of the classes")
        unknown = next((domain for domain in domains if domain not in self.margins), None)
        if unknown is not None:
            raise ValueError(f"the loss has no margin for the domain {unknown!r}; it has margins for {having}")
        number = {domain: place for place, domain in enumerate(self.margins)}
        numbers = [number[domain] for domain in domains]
        self.domain_of_class = torch.tensor(numbers, dtype=torch.int64, device=self.domain_of_class.device)

    def context(self, rows: Rows) -> tuple[Float[Tensor, "..."], ...]:
        """The number of each row's domain; any number for a row labelled -1.

        Raises:
            ValueError: the loss was not prepared.
        """
        if not len(self.domain_of_class):
            raise ValueError(
                "DomainMargins does not know the domain of each class; call loss.prepare_domains(domains) before the "
                "training, with one name for each class"
            )
        return (self.domain_of_class[rows.labels.clamp(min=0)].to(rows.own.dtype),)

    def own(self, cosine: Float[Tensor, "batch"], *context: Float[Tensor, "batch"]) -> Float[Tensor, "batch"]:
        """scale * (cosine - margin), or scale * cos(theta + margin)."""
        (domain,) = context
        margins = [self.strength * margin for margin in self.margins.values()]
        return self.scale * margin_of_domain(cosine, domain, margins, self.kind)

    def bound(self) -> float | None:
        """The other logits are scale * cosine."""
        return self.scale
