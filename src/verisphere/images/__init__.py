"""Face images from folders, archives, lists or a renderer; their augmentation, batches and selection by person."""

from verisphere.images.augment import Augment, augment, normalise
from verisphere.images.by_light import ByLight
from verisphere.images.decoded_faces import InMemory, in_memory
from verisphere.images.faces import Faces
from verisphere.images.joined import Joined
from verisphere.images.label_noise import LabelNoise
from verisphere.images.loader import Batch, batches, epoch_order, grouped_order
from verisphere.images.photos import Photos
from verisphere.images.relabelled import Relabelled
from verisphere.images.select import PartOfPeople, require_people, split_people, with_images, with_people
from verisphere.images.synthetic.synthetic_faces import SyntheticFaces

__all__ = [
    "Augment",
    "Batch",
    "ByLight",
    "Faces",
    "InMemory",
    "Joined",
    "LabelNoise",
    "PartOfPeople",
    "Photos",
    "Relabelled",
    "SyntheticFaces",
    "augment",
    "batches",
    "epoch_order",
    "grouped_order",
    "in_memory",
    "normalise",
    "require_people",
    "split_people",
    "with_images",
    "with_people",
]
