"""The distance of domains in the spread of their people and in the distance between people, after RL-RBN.

RL-RBN (Wang and Deng 2020, CVPR, arXiv:1911.10692) defines the bias of a race as the distance of its intra-class and
inter-class distances from those of an anchor, Caucasians. Only the abstract of the paper was available; the figures
below are ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64, Int64

from verisphere.base.vocabulary import REDRAWING, Embeddings, Redrawing
from verisphere.decide.bootstrap import over_redrawn
from verisphere.decide.intervals import Redrawn
from verisphere.score.cosine import unit

#: Number of cosines between people that are held at once.
_TOGETHER = 1 << 22


@dataclass(frozen=True, eq=False)
class DomainPeople:
    """The people of one domain, by ascending numbers in the whole set, and their images in that domain only.

    There is the mean cosine between a person's embeddings and their mean, NaN with a single image, and the highest one
    between that mean and another person's.
    """

    people: Int64[np.ndarray, " people"]
    intra: Float64[np.ndarray, " people"]
    inter: Float64[np.ndarray, " people"]

    def means(
        self, weights: Int64[np.ndarray, "replicates everyone"]
    ) -> tuple[Float64[np.ndarray, " replicates"], Float64[np.ndarray, " replicates"]]:
        """Mean of `intra` over the people with two images or more, and of `inter` over all; NaN without such people."""
        drawn, several = weights[:, self.people], ~np.isnan(self.intra)
        return _weighted_mean(self.intra[several], drawn[:, several]), _weighted_mean(self.inter, drawn)


def domain_people(embeddings: Embeddings) -> tuple[dict[str, DomainPeople], int]:
    """The people of each domain, by its name, and the number of people in the set."""
    if embeddings.domains is None:
        raise ValueError("the embeddings have no domains")
    rows = unit(torch.from_numpy(embeddings.embeddings).double())
    names, person = np.unique(embeddings.identities, return_inverse=True)
    found = {}
    for domain in np.unique(embeddings.domains).tolist():
        inside = np.flatnonzero(embeddings.domains == domain)
        people, place = np.unique(person[inside], return_inverse=True)
        of_domain = _of_domain(rows[torch.from_numpy(inside)], people, place)
        if len(people) < 2 or np.isnan(of_domain.intra).all():
            raise ValueError(f"domain {domain} needs two people, and two images of one of them")
        found[domain] = of_domain
    return found, len(names)


def bias_of_domains(embeddings: Embeddings, anchor: str, redrawing: Redrawing = REDRAWING) -> Redrawn:
    """The sum over the other domains of the distance of each from the anchor domain; 0 is no bias.

    The bias of a domain is |intra - intra of the anchor| + |inter - inter of the anchor|, in cosines. Its intra is the
    mean, over its people with two images or more, of the mean cosine between a person's unit embeddings and their unit
    mean; its inter is the mean, over its people, of the highest cosine between a person's mean and another person's
    mean in the domain.

    A replicate counts each person as often as the person was drawn. The two numbers of a person stay those of the whole
    set: the nearest other person counts even if that person was not drawn. A replicate is NaN if a domain has nobody
    who counts. Every row must have a known person.
    """
    domains, everyone = domain_people(embeddings)
    check_anchor(anchor, tuple(domains))
    value = _bias(domains, anchor, np.ones((1, everyone), np.int64))[0]

    def about() -> list[object]:
        return [anchor, *(part for name, one in domains.items() for part in (name, one.people, one.intra, one.inter))]

    replicates = over_redrawn(everyone, redrawing, lambda weights: _bias(domains, anchor, weights.draws), about)
    return Redrawn(float(value), replicates, spread=True)


def check_anchor(anchor: str, domains: Sequence[str]) -> None:
    """Refuse an anchor that is not a domain of the set, or that is its only domain."""
    if anchor not in domains:
        raise ValueError(f"anchor is {anchor!r}; the domains are {', '.join(domains)}")
    if len(domains) < 2:
        raise ValueError(f"{anchor} is the only domain; a bias needs another one beside the anchor")


def _of_domain(
    rows: torch.Tensor, people: Int64[np.ndarray, " people"], place: Int64[np.ndarray, " rows"]
) -> DomainPeople:
    """The people of a domain from its unit embeddings (rows, dim)."""
    at, counts = torch.from_numpy(place), np.bincount(place)
    sums = torch.zeros(len(people), rows.shape[1], dtype=rows.dtype).index_add_(0, at, rows)
    means = unit(sums)  # (people, dim)
    to_mean = (rows * means[at]).sum(1).numpy()
    intra = np.where(counts > 1, np.bincount(place, to_mean) / counts, np.nan)
    inter = np.full(len(people), -np.inf)
    step = max(_TOGETHER // len(people), 1)
    for first in range(0, len(people), step):
        cosines = means[first : first + step] @ means.T
        cosines[torch.arange(len(cosines)), torch.arange(first, first + len(cosines))] = -torch.inf
        inter[first : first + step] = cosines.max(1).values.numpy()
    return DomainPeople(people, intra, inter)


def _bias(
    domains: dict[str, DomainPeople], anchor: str, weights: Int64[np.ndarray, "replicates everyone"]
) -> Float64[np.ndarray, " replicates"]:
    """The sum over all domains except the anchor, in each replicate."""
    intra, inter = domains[anchor].means(weights)
    total = np.zeros(len(weights))
    for name, of_domain in domains.items():
        if name != anchor:
            own_intra, own_inter = of_domain.means(weights)
            total += np.abs(own_intra - intra) + np.abs(own_inter - inter)
    return total


def _weighted_mean(
    values: Float64[np.ndarray, " people"], weights: Int64[np.ndarray, "replicates people"]
) -> Float64[np.ndarray, " replicates"]:
    counts = weights.sum(1)
    return np.divide(weights @ values, counts, out=np.full(len(weights), np.nan), where=counts > 0)
