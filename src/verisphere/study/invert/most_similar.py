"""Whom an image of a random direction stands for: the person whom the model finds most similar; strangers likewise.

A person who is chosen as the most similar one is somewhat similar under any other model too, also to a photograph of
somebody else. Strangers' photographs, for which a person is chosen in the same way, show what the choice gives alone.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from verisphere.images.faces import Faces
from verisphere.models.embed import EmbeddingModel
from verisphere.study.invert.findings import Comparison
from verisphere.study.invert.photographs import Photographs, photographs_of, unit_embeddings


@dataclass(frozen=True)
class Strangers:
    """Photographs, each with a photograph of the most similar other person and a second one of that person.

    `given` is the photograph of the most similar other person, and `compared` another one of that person. `same_person`
    is the mean cosine of two photographs of one candidate under the inverted model, None if nobody has two.
    """

    faces: Faces
    photographs: tuple[int, ...]
    given: tuple[int, ...]
    compared: tuple[int, ...]
    same_person: float | None

    def comparisons(self, model: EmbeddingModel) -> list[Comparison]:
        """The comparisons of each stranger with the person chosen, under a model."""
        if not self.photographs:
            return []
        sides = (self.photographs, self.compared)
        ours, theirs = (unit_embeddings(model, self.faces.images(side)) for side in sides)
        names = ([self.faces.names[place] for place in side] for side in (self.photographs, self.given, self.compared))
        return [Comparison(*of_one) for of_one in zip(*names, (ours * theirs).sum(1).tolist(), strict=True)]


class MostSimilar:
    """Chooses among candidates by the cosine under the inverted model; `others` holds strangers as well."""

    def __init__(self, model: EmbeddingModel, candidates: Photographs) -> None:
        self._model, self._candidates = model, candidates
        self._places = sorted({place for of_person in candidates.own for place in of_person} | {*candidates.given})
        self._photos = unit_embeddings(model, candidates.faces.images(self._places))

    def photographs(self, pixels: UInt8[Tensor, "count 3 height width"]) -> Photographs:
        """The photographs of the people who are most similar to some images."""
        return self._chosen(unit_embeddings(self._model, pixels) @ self._photos.T)

    def strangers(self) -> Strangers:
        """A photograph of everybody, beside the candidate who is most similar to it and somebody else."""
        faces, candidates = self._candidates.faces, self._candidates
        probes = [*candidates.others, *candidates.given]
        cosines = unit_embeddings(self._model, faces.images(probes)) @ self._photos.T
        number = {person: place for place, person in enumerate(faces.people)}
        person = torch.tensor([number[faces.identities[place]] for place in [*probes, *self._places]])
        cosines[person[: len(probes), None] == person[None, len(probes) :]] = -torch.inf
        chosen = self._chosen(cosines)
        rows = [row for row, of_person in enumerate(chosen.own) if of_person and cosines[row].isfinite().any()]
        return Strangers(
            faces,
            tuple(probes[row] for row in rows),
            tuple(chosen.given[row] for row in rows),
            tuple(chosen.own[row][-1] for row in rows),
            self._same_person(),
        )

    def _same_person(self) -> float | None:
        row = {place: row for row, place in enumerate(self._places)}
        sides = zip(self._candidates.given, self._candidates.own, strict=True)
        pairs = [(row[photo], row[other]) for photo, own in sides for other in own if other != photo]
        if not pairs:
            return None
        given, others = (self._photos[list(side)] for side in zip(*pairs, strict=True))
        return float((given * others).sum(1).mean())

    def _chosen(self, cosines: Float[Tensor, "count photographs"]) -> Photographs:
        faces = self._candidates.faces
        given = [self._places[row] for row in cosines.argmax(1).tolist()]
        return photographs_of(faces, [faces.identities[place] for place in given], len(given), 0, given)
