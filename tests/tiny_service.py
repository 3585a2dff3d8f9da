"""A small model, its gallery of drawn numbers, and a service of both, for tests of what is served."""

import io
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from verisphere.backbones.backbone import Backbone
from verisphere.base.vocabulary import Embeddings, ImageSource
from verisphere.decide import GenuineRate, SortedScores, binomial_bounds, independent_threshold
from verisphere.decide.both_errors import AskedFrr
from verisphere.models.folder import Model
from verisphere.ship.calibrated_files import EmbeddingsSet
from verisphere.ship.face_search import aligned_faces
from verisphere.ship.living.gallery import LivingGallery, create_gallery
from verisphere.ship.living.records import NewPhotographs
from verisphere.ship.serve.app import make_app
from verisphere.ship.serve.desk import Desk
from verisphere.ship.serve.guard import Keys

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # that this client would rather ask by httpx2
    from starlette.testclient import TestClient

PEOPLE, SIDE = 8, 12
NAMES = [f"Person {number}" for number in range(PEOPLE)]


class Sums(Backbone):
    """An embedding of the sums of pixels over colours, about their middle."""

    input_size = (SIDE, SIDE)
    mean, scale = 127.5, 128.0

    def __init__(self) -> None:
        super().__init__(SIDE * SIDE)

    def embed(self, images):
        return images.sum(1).flatten(1)


def noise(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, SIDE, SIDE, 3), np.uint8)


#: The first photographs of the enrolled people, and faces of strangers.
FACES, OTHERS = noise(PEOPLE, 0), noise(400, 1)
FIND = aligned_faces((SIDE, SIDE))
_BARE = Model(Path("model"), "tiny", Sums().eval(), "0" * 64, False, "arcface_112x112", ())


def again(faces: np.ndarray, seed: int, share: float = 0.5) -> np.ndarray:
    """Further photographs of the same people."""
    return ((1 - share) * faces + share * noise(len(faces), seed)).astype(np.uint8)


def _pair_scores(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    units = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in map(_BARE.embed, (left, right))]
    return (units[0] * units[1]).sum(1)


#: All photographs of the enrolled people.
KEPT = np.concatenate([FACES, again(FACES, 2)])

_GENUINE = SortedScores(_pair_scores(OTHERS, again(OTHERS, 4, 0.8)))
_PAIR = independent_threshold(
    _pair_scores(OTHERS, noise(400, 3)), "1e-2", guarantee="expected", frr=AskedFrr("0.1", "one", _GENUINE)
)
_PASSED = int((_pair_scores(OTHERS, again(OTHERS, 4, 0.8)) > _PAIR.threshold).sum())
_RATE = GenuineRate("pairs.npz", _PASSED, 400, _PASSED / 400, *binomial_bounds(_PASSED, 400))
MODEL = replace(_BARE, thresholds=(replace(_PAIR, genuine=_RATE),))


def photo(face: np.ndarray, kind: str = "PNG") -> bytes:
    """A face as the bytes of an image file."""
    file = io.BytesIO()
    Image.fromarray(face).save(file, kind)
    return file.getvalue()


def strangers(count: int = 320) -> EmbeddingsSet:
    rows = MODEL.embed(OTHERS[:count])
    names = [f"stranger {number}" for number in range(count)]
    made = MODEL.origin(ImageSource("strangers", None))
    return EmbeddingsSet(Embeddings(rows, [f"{name}.png" for name in names], names, origin=made), "s.npz", "0" * 64)


def gallery_at(folder: Path) -> LivingGallery:
    """A gallery of the enrolled people, with two photographs each, whose crops are kept."""
    gallery = create_gallery(folder, strangers(), "1e-2")
    made = MODEL.origin(ImageSource("photographs", None))
    new = NewPhotographs.of(Embeddings(MODEL.embed(KEPT), identities=NAMES * 2, origin=made))
    gallery.enrol(replace(new, images=[photo(face) for face in KEPT]))
    return gallery


def client(desk: Desk, keys: Keys | None = None) -> TestClient:
    """What asks a service, on the machine on which it runs."""
    return TestClient(make_app(desk, keys), base_url="http://localhost")
