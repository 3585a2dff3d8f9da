"""A part of another set by person, so that one set serves for training, for a reward and for the result."""

import torch

from verisphere.images.faces import Faces, Selection
from verisphere.images.select import require_people


class PartOfPeople(Selection):
    """The people of another set whose position in a random order lies between two shares, with all their images.

    Parts of one set by one seed, such as 0 to 0.5, 0.5 to 0.75 and 0.75 to 1, share no person and exclude none. The
    order depends on the seed and the names of the people alone, so sets of the same people with other images are
    divided in the same way. Images without a known person (identity -1) are in no part.

    >>> from verisphere.images import InMemory
    >>> pixels = torch.zeros(4, 3, 112, 112, dtype=torch.uint8)
    >>> faces = InMemory(pixels, ("a/1", "a/2", "b/1", "c/1"), ("a", "a", "b", "c"))
    >>> PartOfPeople(faces, 0.0, 0.67).people, PartOfPeople(faces, 0.67, 1.0).people
    (('a', 'c'), ('b',))

    Args:
        faces: the other set.
        first: share of the people that come before this part.
        last: share of the people up to the end of this part.
        seed: seed of the order.

    Raises:
        ValueError: shares outside [0, 1] or not in order, or a part without people.
    """

    def __init__(self, faces: Faces, first: float = 0.0, last: float = 1.0, seed: int = 0) -> None:
        if not 0 <= first < last <= 1:
            raise ValueError(f"first is {first} and last {last}; allowed are two shares in [0, 1] in this order")
        require_people(faces)
        count = len(faces.people)
        order = torch.randperm(count, generator=torch.Generator().manual_seed(seed)).tolist()
        people = {faces.people[label] for label in order[round(first * count) : round(last * count)]}
        if not people:
            raise ValueError(f"of {count} people none lies between the shares {first} and {last}")
        super().__init__(faces, [index for index, person in enumerate(faces.identities) if person in people])
