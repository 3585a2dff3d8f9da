"""The similarity of generated images and photographs, under the inverted model and under a second one."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, UInt8
from torch import Tensor

from verisphere.base.vocabulary import OperatingPoint
from verisphere.decide import Far, operating_point
from verisphere.models.embed import EmbeddingModel
from verisphere.study.invert.findings import Comparison, Cosines, Distance, Likeness
from verisphere.study.invert.photographs import Photographs, unit_embeddings


def frechet_distance(ours: Float[np.ndarray, "images dim"], theirs: Float[np.ndarray, "others dim"]) -> float:
    """Frechet distance of two normal distributions with the means and covariances of two sets (Heusel et al. 2017).

    It is |mean difference|^2 + trace(A + B - 2 (A B)^(1/2)), with the covariances A and B divided by the number of
    images minus one. The trace of the root is the sum of the roots of the eigenvalues of A^(1/2) B A^(1/2).

    >>> one, other = np.array([[0.0], [2.0]]), np.array([[3.0], [5.0]])
    >>> round(frechet_distance(one, other), 6)  # equal variances, means apart by 3
    9.0
    """
    dim = ours.shape[1]
    fewest = min(len(ours), len(theirs))
    if fewest <= dim:
        raise ValueError(f"{fewest} images and {dim} dimensions; a Frechet distance takes more images than dimensions")
    ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
    a, b = (np.atleast_2d(np.cov(rows, rowvar=False)) for rows in (ours, theirs))
    values, vectors = np.linalg.eigh(a)
    root = (vectors * np.sqrt(values.clip(0))) @ vectors.T
    shared = np.sqrt(np.linalg.eigvalsh(root @ b @ root).clip(0)).sum()
    between = ((ours.mean(0) - theirs.mean(0)) ** 2).sum()
    return float(max(between + np.trace(a) + np.trace(b) - 2.0 * shared, 0.0))


def kernel_distance(ours: Float[np.ndarray, "images dim"], theirs: Float[np.ndarray, "others dim"]) -> float:
    """Squared maximum mean discrepancy with the kernel (x . y + 1)^3 between unit rows, without bias.

    Binkowski et al. 2018 (arXiv:1801.01401) divide x . y by the number of dimensions, since the features that they use
    grow with it; unit rows do not. Without bias its mean is 0 for two sets of one distribution, so it can be negative.

    >>> rows = np.eye(3)
    >>> kernel_distance(rows, rows)  # within the sets 1; between them a third is 8, the rest 1
    -4.666666666666667
    """
    if min(len(ours), len(theirs)) < 2:
        raise ValueError("a kernel distance takes two images or more in each set")
    ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
    return _within(ours) + _within(theirs) - 2.0 * float(_kernel(ours, theirs).mean())


def _kernel(ours: Float[np.ndarray, "images dim"], theirs: Float[np.ndarray, "others dim"]) -> np.ndarray:
    return (ours @ theirs.T + 1.0) ** 3


def _within(rows: Float[np.ndarray, "images dim"]) -> float:
    """Mean of the kernel over the pairs of two different rows."""
    kernel = _kernel(rows, rows)
    return float((kernel.sum() - np.trace(kernel)) / (len(rows) * (len(rows) - 1)))


INVERTED, JUDGE = "inverted", "judge"


@dataclass(frozen=True, eq=False)
class Compared:
    """Generated images and photographs as unit embeddings of one model."""

    name: str
    photographs: Photographs
    generated: Float[np.ndarray, "count dim"]
    given: Float[np.ndarray, "count dim"]
    others: Float[np.ndarray, "others dim"]
    own: Float[np.ndarray, "own dim"]  # the other photographs of all people, one after another
    owner: np.ndarray  # the position of the image whose person each of `own` shows

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
        self, fars: Sequence[Far] = (), names: Sequence[str] = (), of_strangers: Sequence[Comparison] | None = None
    ) -> Likeness:
        """A summary of the cosines, and the share of images accepted at each FAR.

        Where people are chosen as the most similar, as those `of_strangers` are, images given to one count as one.
        """
        comparisons = self._comparisons(names) if fars else []
        compared = [row for row, own in enumerate(self.photographs.own) if own and fars]
        people = [self.photographs.people[row] for row in compared]
        once = people if of_strangers is None else dict.fromkeys(people)
        counted = range(len(people)) if once is people else [people.index(person) for person in once]
        strangers, rows = self.strangers, [compared[place] for place in counted]
        person = dict(zip(self.photographs.faces.names, self.photographs.faces.identities, strict=True))
        chosen = {person[one.given]: one.cosine for one in reversed(of_strangers or ())}
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
            self._points(fars, [comparisons[place].cosine for place in counted]),
            self._points(fars, [one.real for one in comparisons if one.real is not None]),
            tuple(comparisons),
            self._points(fars, list(chosen.values())),
            tuple(of_strangers or ()),
            self._points(fars, self._as_others(rows)),
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

    def _as_others(self, rows: Sequence[int]) -> Float[np.ndarray, " comparisons"]:
        """The cosines of images with the photograph that each other person's first image is compared with."""
        person = np.array(self.photographs.people, object)[[*rows]]
        first = np.unique(person.astype(str), return_index=True)[1]
        compared = [self.own[self.owner == rows[place]][-1] for place in first]
        cosines = self.generated[[*rows]] @ np.array(compared).reshape(-1, self.generated.shape[1]).T
        return cosines[person[:, None] != person[first]]

    def _points(
        self, fars: Sequence[Far], cosines: Sequence[float] | Float[np.ndarray, " comparisons"]
    ) -> tuple[OperatingPoint, ...]:
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
