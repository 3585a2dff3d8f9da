"""The head of a run: the sub-centers of its classes, and the people of the classes."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Float32, Int64
from torch import Tensor

from verisphere.base.identity import as_known, merge_hint
from verisphere.base.vocabulary import NO_CLASS
from verisphere.base.words import Names
from verisphere.files.packaged_recipes import packaged_recipes
from verisphere.models.checkpoint import Checkpoint, read_checkpoint
from verisphere.models.folder import is_model_folder
from verisphere.score.cosine import unit


@dataclass(frozen=True, eq=False)
class RunHead:
    """The sub-centers of a run, as directions of length 1; a label is a position in the people."""

    checkpoint: Checkpoint
    people: tuple[str, ...]
    centers: Float[Tensor, "classes subcenters dim"]

    def classes(
        self, people: Sequence[str], labels: Int64[np.ndarray, " rows"], data: str, how: Names | None
    ) -> Int64[np.ndarray, " rows"]:
        """The classes of labels, which are positions among the people of data; refused if these are others.

        Under `merge` a person is known in another spelling.
        """
        spelled, number = as_known(people, self.people, how), {name: place for place, name in enumerate(self.people)}
        if sorted(spelled.values()) == sorted(self.people):
            return np.array([*(number[spelled[name]] for name in people), NO_CLASS], np.int64)[labels]
        ours, theirs = set(self.people), set(people)
        only = [(min(theirs - ours), "only in the data")] if theirs - ours else []
        only += [(min(ours - theirs), "only in the run")] if ours - theirs else []
        named = " and ".join(f"{name[:100]!a} is {where}" for name, where in only)
        hint = merge_hint(people, self.people) or "the data must be those that the run was trained on"
        raise ValueError(
            f"{data}: {len(people):,} people, and {self.checkpoint.path} was trained on {len(self.people):,}: {named}; "
            f"{hint}"
        )

    def cosines(
        self, rows: Float32[np.ndarray, "rows dim"], labels: Int64[np.ndarray, " rows"]
    ) -> Float32[np.ndarray, "rows subcenters"]:
        """Cosines of embeddings, each computed by itself, to the sub-centers of their class; NaN for no class."""
        cosines = np.full((len(rows), self.centers.shape[1]), np.nan, np.float32)
        known = np.flatnonzero(labels >= 0)
        centers = self.centers[torch.from_numpy(labels[known])]
        embeddings = unit(torch.from_numpy(np.ascontiguousarray(rows[known])))
        cosines[known] = (embeddings[:, None, :] * centers).sum(-1).numpy()
        return cosines


def open_head(run: Path, otherwise: str = "") -> RunHead:
    """The sub-centers of the newest checkpoint of a run, or of one checkpoint inside a run.

    For a loss that compares raw products, such as plain softmax, the directions of the centers are used and the biases
    of classes are not, so an angle to a center depends on the embedding alone. Messages say what can be done otherwise.
    """
    without = f"; {otherwise}" if otherwise else ""
    if is_model_folder(run):
        raise ValueError(f"{run}: an exported model, which has no head with its people; name its run{without}")
    if run.suffix in (".onnx", ".yaml", ".yml") or (str(run) in packaged_recipes() and not run.exists()):
        raise ValueError(f"{run}: has no head; name the folder of a run{without}")
    try:
        checkpoint = read_checkpoint(run)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{error}{without}") from None
    if "head" not in checkpoint.sha256:
        raise ValueError(f"{checkpoint.path}: has no head{without}")
    centers = checkpoint.tensors("head").get("centers")
    if centers is None or centers.ndim != 3 or not bool(centers.isfinite().all()):
        raise ValueError(f"{checkpoint.path}: its head has no finite centers (classes, subcenters, dim){without}")
    people = checkpoint.people
    if people is None:
        raise ValueError(
            f"{checkpoint.path}: its run has no people.txt to say whose centers these are; name a run{without}"
        )
    if len(people) != len(centers):
        raise ValueError(
            f"{checkpoint.path.parent.parent / 'people.txt'}: {len(people):,} people, and the head has "
            f"{len(centers):,} classes; was it changed?"
        )
    size = checkpoint.state["backbone"].get("init_args", {}).get("embedding_size")  # behind it: the bias of a class
    return RunHead(checkpoint, people, unit(centers[..., :size].float()))
