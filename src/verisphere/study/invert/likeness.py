"""The similarity of generated images and photographs, under the inverted model and under a second one."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, UInt8
from torch import Tensor

from verisphere.base.vocabulary import OperatingPoint
from verisphere.decide import Far, operating_point
from verisphere.models.embed import EmbeddingModel
from verisphere.study.invert.distances import frechet_distance, kernel_distance
from verisphere.study.invert.findings import Comparison, Cosines, Distance, Likeness
from verisphere.study.invert.photographs import Photographs, unit_embeddings

INVERTED, JUDGE = "inverted", "judge"


@dataclass(frozen=True, eq=False)
class Compared:
    """Generated images and photographs as unit embeddings of one model.

    The name is `inverted` or `judge`. Given ones and others are those of `Photographs`; `own` has the other photographs
    of all people one after another, and `owner` the position of the image whose person each of them shows.
    """

    name: str
    photographs: Photographs
    generated: Float[np.ndarray, "count dim"]
    given: Float[np.ndarray, "count dim"]
    others: Float[np.ndarray, "others dim"]
    own: Float[np.ndarray, "own dim"]
    owner: np.ndarray

    @classmethod
    def by(
        cls,
        name: str,
        model: EmbeddingModel,
        generated: UInt8[Tensor, "count 3 height width"],
        photographs: Photographs,
    ) -> "Compared":
        """Embed all images and photographs."""
        places = [place for of_image in photographs.own for place in of_image]
        owner = np.array([row for row, of_image in enumerate(photographs.own) for _ in of_image], np.int64)
        rows = [*photographs.given, *places, *photographs.others]
        embedded = unit_embeddings(model, photographs.faces.images(rows)).numpy()
        given, own, others = np.split(embedded, [len(photographs.given), len(photographs.given) + len(places)])
        return cls(name, photographs, unit_embeddings(model, generated).numpy(), given, others, own, owner)

    @property
    def strangers(self) -> Bool[np.ndarray, "count others"]:
        """Whether each of `given`, `own` and `others`, side by side, shows another person than each image."""
        return np.array(self.photographs.people, object)[:, None] != self._people[None, :]

    @property
    def _people(self) -> np.ndarray:
        """The person on each of `given`, `own` and `others`, side by side."""
        people = np.array(self.photographs.people, object)
        others = np.array([self.photographs.faces.identities[place] for place in self.photographs.others], object)
        return np.concatenate([people, people[self.owner], others])

    @property
    def cosines(self) -> Float[np.ndarray, "count photographs"]:
        """Cosines of each image with `given`, `own` and `others`, side by side."""
        return self.generated @ np.concatenate([self.given, self.own, self.others]).T

    @property
    def to_own(self) -> list[Float[np.ndarray, " photographs"]]:
        """For each image the cosines with the other photographs of its person or, without any, with its own."""
        return [
            self.own[self.owner == row] @ image if (self.owner == row).any() else self.given[row : row + 1] @ image
            for row, image in enumerate(self.generated)
        ]

    def likeness(
        self, fars: Sequence[Far] = (), names: Sequence[str] = (), of_strangers: Sequence[Comparison] = ()
    ) -> Likeness:
        """A summary of the cosines, and the share of images accepted at each FAR.

        Of strangers' photographs there are the comparisons under this model. Where there are any, people were chosen as
        the most similar, and all images of noise are given to one: so the first image of each person counts alone.
        """
        comparisons = self._comparisons(names) if fars else []
        counted = [one.cosine for one in comparisons]
        if of_strangers:
            people = [person for person, own in zip(self.photographs.people, self.photographs.own, strict=True) if own]
            counted = [counted[people.index(person)] for person in dict.fromkeys(people)]
        strangers = self.strangers
        real = np.concatenate([self.given, self.own, self.others])
        with_others = self.cosines[strangers]
        same = np.concatenate([self.own[self.owner == row] @ image for row, image in enumerate(self.generated)])
        real_same = np.concatenate([self.own[self.owner == row] @ photo for row, photo in enumerate(self.given)])
        given = np.einsum("ij,ij->i", self.generated, self.given) if self.photographs.open_set else np.empty(0)
        if not self.photographs.open_set:  # `given` is among `own` there
            real_same = real_same[real_same < 1 - 1e-12]
        return Likeness(
            self.name,
            Cosines.of(given),
            Cosines.of(same),
            Cosines.of(with_others),
            Cosines.of(real_same),
            Cosines.of((self.given @ real.T)[strangers]),
            self._points(fars, counted),
            self._points(fars, [one.real for one in comparisons if one.real is not None]),
            tuple(comparisons),
            self._points(fars, [one.cosine for one in of_strangers]),
            tuple(of_strangers),
        )

    def _comparisons(self, names: Sequence[str]) -> list[Comparison]:
        """Each image beside one other photograph of its person, the last; nothing of an image without such a one."""
        photographs = self.photographs
        name_of = photographs.faces.names
        found = []
        for row, of_person in enumerate(photographs.own):
            if of_person:
                other = self.own[self.owner == row][-1]
                ours, theirs = (float((side[row] * other).sum()) for side in (self.generated, self.given))
                # in a closed set a person's only photograph is compared with itself
                real = theirs if theirs < 1 - 1e-12 else None
                given = name_of[photographs.given[row]]
                found.append(Comparison(names[row], given, name_of[of_person[-1]], ours, real))
        return found

    def _points(self, fars: Sequence[Far], cosines: Sequence[float]) -> tuple[OperatingPoint, ...]:
        """The operating points of cosines; the impostors are pairs of photographs of two people, each pair once."""
        photographs = self.photographs
        places = [*photographs.given, *(place for own in photographs.own for place in own), *photographs.others]
        once = np.unique(places, return_index=True)[1]  # several images may stand for one person
        real, person = np.concatenate([self.given, self.own, self.others])[once], self._people[once]
        impostor = (real @ real.T)[np.triu(person[:, None] != person[None, :], 1)]
        if not len(impostor) or not len(cosines):
            return ()
        return tuple(operating_point(np.array(cosines), impostor, far) for far in fars)

    def distances(self) -> tuple[Distance, ...]:
        """The kernel distance, and the Frechet distance if there are more images than dimensions."""
        count = min(len(self.generated), len(self.others))
        ours, real, others = self.generated[:count], self.given[:count], self.others[:count]
        found = []
        if count >= 2:
            found.append(
                Distance("kernel", self.name, count, kernel_distance(ours, others), kernel_distance(real, others))
            )
        if count > ours.shape[1]:
            found.append(
                Distance("frechet", self.name, count, frechet_distance(ours, others), frechet_distance(real, others))
            )
        return tuple(found)
