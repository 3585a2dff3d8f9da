"""A set on which trainings are measured, read from plain data: images, target FARs, pairs."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from verisphere.base.vocabulary import NOBODY, Embeddings
from verisphere.decide import exact_rate, lacking_text
from verisphere.files.definitions import build, complete
from verisphere.files.embeddings import known_people
from verisphere.files.errors import errors_naming
from verisphere.images.faces import Faces
from verisphere.images.select import positions_with_images, require_people
from verisphere.measure.pairs_of_set import check_pairs


@dataclass(frozen=True, eq=False)
class MeasuredSet:
    """A set on which every finished training is measured.

    Attributes:
        faces: images of the set.
        far: target FARs over all pairs.
        one_far: target FAR of one threshold over the domains of the set; null measures none.
        flip: add the embedding of the mirror image.
        pairs: lists of pairs of the set's images, in any layout that `evaluate pairs` reads, for an accuracy over their
            folds; several are measured one by one and also as one list.
        drawn_pairs: number of pairs to draw from a set without lists for such an accuracy, half of them genuine; 0
            draws none.
    """

    faces: Faces
    far: tuple[str | float, ...] = ("1e-2", "1e-3")
    one_far: str | float | None = None
    flip: bool = False
    pairs: tuple[str, ...] = ()
    drawn_pairs: int = 0

    def __post_init__(self) -> None:
        if not self.far:
            raise ValueError("far is empty; expected one target FAR or more")
        for far in (*self.far, *(() if self.one_far is None else (self.one_far,))):
            exact_rate(far)
        require_people(self.faces)
        positions_with_images(self.faces.settled(), at_least=2)
        if self.one_far is not None:
            check_domains(self.faces, "one_far asks for one threshold over domains", "one threshold")
        if self.pairs and self.drawn_pairs:
            raise ValueError("pairs and drawn_pairs are both given; pairs are drawn where there is no list")
        if self.pairs or self.drawn_pairs:
            # with placeholders, so that a list that does not fit is reported before the trainings
            alike = np.ones((len(self.faces), 1), np.float32)
            columns = np.array(self.faces.names), np.array(self.faces.identities)
            rows = Embeddings(alike, *columns, names_rule=self.faces.names_rule)
            check_pairs(known_people(rows, "faces"), self.pairs, self.drawn_pairs, "faces")


def open_set(where: str, given: Mapping[str, Any]) -> MeasuredSet:
    """Open a set from values of the attributes of `MeasuredSet`; `where` is its name in messages."""
    with errors_naming(where):
        return build(MeasuredSet, complete_set(given))


def complete_set(given: Mapping[str, Any]) -> dict[str, Any]:
    """A set's description with all arguments, as in a resolved recipe."""
    completed: dict[str, Any] = complete(MeasuredSet, given)
    return completed


def check_domains(faces: Faces, asked: str, figure: str) -> None:
    """Refuse domains without genuine or impostor pairs; the message names the option `asked` and the figure."""
    if faces.domains is None:
        raise ValueError(f"{asked}, and the images have none")
    counts: dict[str, list[int]] = {}
    for (domain, person), number in Counter(zip(faces.domains, faces.identities, strict=True)).items():
        if person != NOBODY:
            counts.setdefault(domain, []).append(number)
    lacking = {
        domain: [
            kind for kind, any_pair in (("genuine", max(images) > 1), ("impostor", len(images) > 1)) if not any_pair
        ]
        for domain, images in counts.items()
    }
    lacking = {domain: kinds for domain, kinds in lacking.items() if kinds}
    if lacking:
        raise ValueError(
            f"{lacking_text(lacking)}; {figure} needs two people in each domain, and two images of one of them"
        )
