"""Face images from folders, archives, lists or a renderer; and the files that results are kept in."""

from verisphere.data.augment import Augment, augment, normalise
from verisphere.data.by_light import ByLight
from verisphere.data.embeddings_file import read_embeddings, write_embeddings
from verisphere.data.faces import Faces
from verisphere.data.loader import Batch, batches, epoch_order, grouped_order
from verisphere.data.memory import InMemory, in_memory
from verisphere.data.photos import Photos
from verisphere.data.scores_file import read_scores
from verisphere.data.select import require_people, split_people, with_images, with_people
from verisphere.data.synthetic import SyntheticFaces

__all__ = [
    "Augment",
    "Batch",
    "ByLight",
    "Faces",
    "InMemory",
    "Photos",
    "SyntheticFaces",
    "augment",
    "batches",
    "epoch_order",
    "grouped_order",
    "in_memory",
    "normalise",
    "read_embeddings",
    "read_scores",
    "require_people",
    "split_people",
    "with_images",
    "with_people",
    "write_embeddings",
]
