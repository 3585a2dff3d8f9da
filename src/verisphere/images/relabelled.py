"""Another set's images with the labels of a list: cleaned, merged, restricted, or noisy."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Int64

from verisphere.base.identity import names_taken
from verisphere.files.embeddings import note_crowds
from verisphere.files.errors import errors_naming
from verisphere.files.json_values import shown
from verisphere.files.label_lists import LabelList, read_labels
from verisphere.images.faces import Faces, Selection


class Relabelled(Selection):
    """The images of another set that a list names, with the identities, and the domains if it has any, of the list.

    Lists come from `verisphere clean` (`kept.txt`), `clean noise`, `clean duplicates` and `clean overlap`; see
    `verisphere.files.label_lists`. The images are in the order of the list. `Photos` accepts such a list directly, as
    `labels`.

    >>> import tempfile, torch
    >>> from verisphere.images import InMemory
    >>> pixels = torch.zeros(3, 3, 112, 112, dtype=torch.uint8)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     kept = Path(folder) / "kept.txt"
    ...     _ = kept.write_text("name,identity\\nb/1,a\\na/1,a\\n")
    ...     faces = Relabelled(InMemory(pixels, ("a/1", "a/2", "b/1"), ("a", "a", "b")), kept)
    >>> faces.names, faces.people
    (('b/1', 'a/1'), ('a',))

    Args:
        faces: the other set.
        path: the list.

    Raises:
        FileNotFoundError: there is no such list.
        ValueError: the list is malformed, or names an image that the set does not have.
    """

    def __init__(self, faces: Faces, path: str | Path) -> None:
        with names_taken(faces.names_rule):
            indices, labels = relabelled(faces.names, path)
        note_crowds(path, labels.identities)
        super().__init__(faces, indices)
        self.names, self.identities, self.true_identities = labels.names, labels.identities, labels.true_identities
        if labels.domains is not None:
            self.domains = labels.domains


def relabelled(names: Sequence[str], path: str | Path) -> tuple[Int64[np.ndarray, " listed"], LabelList]:
    """Positions, in a set with these names, of the images that a list of labels names; and the list."""
    path = Path(path).expanduser()
    labels = read_labels(path)
    place = {name: position for position, name in enumerate(names)}
    positions = np.array([place.get(name, -1) for name in labels.names], np.int64)
    absent = np.flatnonzero(positions < 0)
    with errors_naming(path):
        if len(absent):
            raise ValueError(
                f"{len(absent):,} of {len(labels.names):,} images are not in the set, the first is "
                f"{shown(labels.names[int(absent[0])], 200)}; names there look like "
                f"{shown(names[0] if len(names) else '', 200)}"
            )
    return positions, labels
