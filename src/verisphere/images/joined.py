"""Several sets as one, such as IBUG-500K, which ArcFace (arXiv:1801.07698) joined from two."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from verisphere.base.identity import rule_of_all
from verisphere.base.trained_on import is_name
from verisphere.base.vocabulary import NOBODY, ImageSource, check_word
from verisphere.files.images_json import joint_source
from verisphere.images.faces import Faces
from verisphere.images.packs.columns import Coded, Texts, coded, spelled_alike

SamePeople = Literal["first", "merge", "apart"]


class Joined(Faces):
    """The images of several sets, one set after the other, each named `PREFIX/` and its name in its own set.

    >>> from verisphere.images import InMemory
    >>> pixels = torch.zeros(2, 3, 112, 112, dtype=torch.uint8)
    >>> one, two = (InMemory(pixels, ("1", "2"), people) for people in (("a", "b"), ("b", "c")))
    >>> [list(Joined([one, two], ["one", "two"], same).identities) for same in ("first", "merge", "apart")]
    [['a', 'b', 'c'], ['a', 'b', 'b', 'c'], ['one/a', 'one/b', 'two/b', 'two/c']]

    Args:
        faces: the sets, two or more, whose images have one size.
        prefixes: a name for each set, with a letter if people are `apart` and some of their names have a digit.
        same: what equal identities of two sets mean. "first": one person, whose images in later sets are excluded, as
            IBUG-500K has it; "merge": one person with the images of all sets; "apart": different people, as where
            the sets number their people. By sets that took names by different rules (`verisphere.base.identity`),
            another spelling of an identity is refused, as by embeddings files; so it is of a true identity.

    Raises:
        ValueError: fewer than two sets; prefixes that are not one for each set and different; a prefix without a letter
            before a name with a digit; a name in two spellings that no rule decides; or only some sets with domains.
            From `images`: sizes that differ.
    """

    def __init__(self, faces: Sequence[Faces], prefixes: Sequence[str], same: SamePeople = "first") -> None:
        check_word("same", same, SamePeople)
        if (
            len(faces) < 2
            or len(prefixes) != len(faces)
            or len({*prefixes}) < len(faces)
            or "" in prefixes
            or "/" in "".join(prefixes)
        ):
            raise ValueError(
                f"prefixes are {list(prefixes)} for {len(faces)} sets; two sets or more take a name each, all "
                "different and without /"
            )
        if len({one.domains is None for one in faces}) > 1:
            raise ValueError("some of the sets have domains and others do not; all must, or none")
        self.faces, self.prefixes = tuple(faces), tuple(prefixes)
        self.names_rule = rule_of_all([one.names_rule for one in faces])
        part = np.repeat(np.arange(len(faces)), [len(one) for one in faces])
        names = Texts.of(f"{prefix}/{name}" for prefix, one in zip(prefixes, faces, strict=True) for name in one.names)
        columns = [self._people([one.settled() if same == "apart" else one.identities for one in faces], same)]
        if any(one.true_identities is not None for one in faces):
            truth = [one.identities if one.true_identities is None else one.true_identities for one in faces]
            columns.append(self._people(truth, same))
        if same != "apart":
            columns = list(map(coded, spelled_alike(columns, names, self.names_rule)))
        people = columns[0]
        kept = np.ones(len(part), bool)
        if same == "first":
            earliest = np.full(len(people.values), len(faces))
            np.minimum.at(earliest, people.codes, part)
            nobody = np.array([value == NOBODY for value in people.values], bool)
            kept = (earliest[people.codes] == part) | nobody[people.codes]
        rows = np.flatnonzero(kept)
        self._part, self._row = part[rows], np.concatenate([np.arange(len(one)) for one in faces])[rows]
        self.names, self.identities = names.take(rows), people.take(rows)
        if len(columns) > 1:
            self.true_identities = columns[1].take(rows)
        if faces[0].domains is not None:
            self.domains = coded(name for one in faces for name in one.domains or ()).take(rows)

    def _people(self, identities: Sequence[Sequence[str]], same: SamePeople) -> Coded:
        """The identities of all sets, one column after the other."""
        named = list(zip(self.prefixes, identities, strict=True))
        if same != "apart":
            return coded(name for _, names in named for name in names)
        hidden = [(prefix, name) for prefix, names in named for name in coded(names).present()
                  if is_name(name) and not is_name(f"{prefix}/{name}")]  # fmt: skip
        if hidden:
            raise ValueError(
                f"the prefix {hidden[0][0]!r} has no letter, so {'/'.join(hidden[0])!r} would be no name but a "
                f"session of person {hidden[0][0]}, and compared with no training: give a prefix with a letter"
            )
        return coded(NOBODY if name == NOBODY else f"{prefix}/{name}" for prefix, names in named for name in names)

    @property
    def source(self) -> ImageSource:
        """The joint source of the sets."""
        sources = [one.source for one in self.faces]
        return joint_source(" and ".join(one.place for one in sources), sources)

    def images(self, indices: Sequence[int]) -> UInt8[Tensor, "batch 3 height width"]:
        """The images at these positions."""
        places = np.asarray(indices, np.int64)
        batches, order = [], []
        for part, one in enumerate(self.faces):
            if len(here := np.flatnonzero(self._part[places] == part)):
                batches.append(one.images(self._row[places[here]].tolist()))
                order.append(here)
        if not batches:
            return self.faces[0].images([])
        if len(sizes := {tuple(images.shape[2:]) for images in batches}) > 1:
            raise ValueError(f"images of the sets are of sizes {sorted(sizes)}; give all sets one size")
        together = torch.cat(batches)[torch.from_numpy(np.argsort(np.concatenate(order)))]
        return together.contiguous(memory_format=torch.channels_last)
