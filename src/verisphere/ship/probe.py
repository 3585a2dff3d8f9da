"""The pixels that a network from elsewhere was trained on, found by measuring how far genuine scores stand out.

A network with the wrong order of colours still distinguishes people, only worse, and a TAR over a hundred people does
not show by how much. The score of a person's two images shows it, measured from the mean of the impostor scores in
their standard deviations: the difference between two ways to prepare pixels is computed person by person, so that the
difficulty of each person cancels.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float64, UInt8
from torch import Tensor

from verisphere.backbones.backbone import Colour
from verisphere.backbones.onnx_network import OnnxNetwork
from verisphere.base.device import choose_device
from verisphere.base.vocabulary import NOBODY, Progress, printable, quietly
from verisphere.decide.bounds import mean_bounds
from verisphere.files.results import Result
from verisphere.images.decoded_faces import InMemory
from verisphere.images.detect import TEMPLATES, Detector, FaceDetector, Template, align, choose_face
from verisphere.images.detect.alignment import resized
from verisphere.images.detect.placement import SAMPLE, checking_detector, doubt_alignment, template_of_size
from verisphere.images.faces import Faces
from verisphere.images.photos import Photos
from verisphere.images.synthetic.synthetic_faces import SyntheticFaces
from verisphere.report.tables import table
from verisphere.ship.pixels import Pixels, Told

#: Sides of the middle part of an aligned face that is given, enlarged to the whole: the template of a model may be
#: tighter.
CROPS = (1.0, 0.86)
#: Shares of a template's view that are cut from photographs, where there is more around a face than a crop has.
SHARES = (1.0, 0.86, 1.16)
_PHOTOGRAPHS_AT_ONCE = 16
_DRAWN_PEOPLE = 12
#: Template, whose name is empty where faces are taken as they are, and share of its view.
View = tuple[str, float]


@dataclass(frozen=True, eq=False)
class ProbeFaces:
    """Two images of each person, one after the other, seen in several ways, of which the first is the model's own."""

    images: dict[View, UInt8[Tensor, "images 3 height width"]]
    people: int
    origin: str


def probe_faces(
    faces: Faces,
    pairs: Sequence[tuple[int, int]],
    size: tuple[int, int],
    detector: FaceDetector | None = None,
    progress: Progress = quietly,
) -> ProbeFaces:
    """The unchanged faces if they look aligned; else crops of the photographs by every template.

    Each photograph is searched once, and all crops are cut by its landmarks. People without a face on one of their two
    photographs are excluded. Photographs need not look unaligned for a detector that is given; by default MTCNN is
    taken where the images look unaligned and it is installed.
    """
    rows = [index for pair in pairs for index in pair]
    if isinstance(faces, Photos) and (detector is not None or not _look_aligned(faces, rows, size)):
        return _cut(faces, rows, size, detector or Detector(choose_device(None)), progress)
    images = faces.images(rows)
    views = {("", crop): _middle(images, crop) for crop in CROPS}
    origin = "drawn faces" if faces.source.drawn else "images as they are, which no detector finds to be unaligned"
    return ProbeFaces(views, len(pairs), origin)


def drawn_faces(size: tuple[int, int]) -> InMemory:
    """Two easy drawn images of each of a few people, of this height and width: enough to show a normalisation."""
    drawn = SyntheticFaces(_DRAWN_PEOPLE, 2, domains=["studio"], difficulty="easy")
    side, longest = drawn.size, max(size)
    tall, wide = (round(side * length / longest) for length in size)
    top, left = (side - tall) // 2, (side - wide) // 2
    middle = drawn.images(range(len(drawn)))[..., top : top + tall, left : left + wide]
    pixels = torch.nn.functional.interpolate(middle.float(), size, mode="bilinear", align_corners=False)
    return InMemory(pixels.round().to(torch.uint8), drawn.names, drawn.identities, source=drawn.source)


def _look_aligned(faces: Photos, rows: Sequence[int], size: tuple[int, int]) -> bool:
    """Whether a sample looks like aligned crops, is said to be, or cannot be judged."""
    if faces.source.drawn or faces.source.alignment:
        return True
    sample = rows[:: -(-len(rows) // SAMPLE)]
    template = template_of_size(size)
    if template is None and all(photograph.shape[:2] == size for photograph in faces.photographs(sample)):
        return True  # of the size of the network, and aligned in a way that is not known here
    detector = checking_detector()
    if detector is None:
        return True
    try:
        images = faces.images(sample)
    except ValueError:  # of another shape than any crop
        return False
    template = template or resized(TEMPLATES["arcface_112x112"], size)
    seen = [image.permute(1, 2, 0).numpy() for image in images]
    return doubt_alignment(seen, template, detector, photographs=True) is None


def templates_for(size: tuple[int, int]) -> list[Template]:
    """The known templates, each for crops of this size; those that come to the same are there once."""
    different: dict[tuple[tuple[float, float], ...], Template] = {}
    for template in sorted(TEMPLATES.values(), key=lambda template: template.size != size):
        fitting = resized(template, size)
        different.setdefault(tuple((round(x, 1), round(y, 1)) for x, y in fitting.points), fitting)
    return list(different.values())


def _cut(
    faces: Photos, rows: Sequence[int], size: tuple[int, int], detector: FaceDetector, progress: Progress
) -> ProbeFaces:
    targets = {
        (template.name, share): resized(template, size, share) for template in templates_for(size) for share in SHARES
    }
    crops: dict[View, list[np.ndarray]] = {view: [] for view in targets}
    missing: set[int] = set()
    starts = range(0, len(rows), _PHOTOGRAPHS_AT_ONCE)  # an even number: people are not divided
    for start in progress(starts, "finding faces", len(starts)):
        photographs = faces.photographs(rows[start : start + _PHOTOGRAPHS_AT_ONCE])
        searched = zip(photographs, detector.detect(photographs), strict=True)
        for place, (photograph, detections) in enumerate(searched, start):
            try:
                landmarks = detections.landmarks[choose_face(detections, *photograph.shape[:2])]
                cut = {view: align(photograph, landmarks, target) for view, target in targets.items()}
            except ValueError:  # no face, or none that can be aligned
                missing.add(place // 2)
                cut = {view: np.zeros((*size, 3), np.uint8) for view in targets}
            for view, crop in cut.items():
                crops[view].append(crop)
    whole = [place for place in range(len(rows)) if place // 2 not in missing]
    images = {
        view: torch.from_numpy(np.stack(cut)).permute(0, 3, 1, 2)[whole] if whole else torch.empty(0)
        for view, cut in crops.items()
    }
    origin = f"faces on photographs, found by {detector.name}"
    if missing:
        origin += f"; excluded, no face found: {len(missing)} people"
    return ProbeFaces(images, len(whole) // 2, origin)


def _middle(images: Tensor, crop: float) -> Tensor:
    """The middle part of each face, enlarged to the size of the whole."""
    if crop == 1:
        return images
    height, width = images.shape[-2:]
    high, wide = round(height * crop), round(width * crop)
    top, left = (height - high) // 2, (width - wide) // 2
    part = images[..., top : top + high, left : left + wide].float()
    whole = torch.nn.functional.interpolate(part, (height, width), mode="bilinear", align_corners=False)
    return whole.round().clamp(0, 255).to(torch.uint8)


#: Ways to normalise that published models have.
NORMALISATIONS = ((127.5, 127.5), (127.5, 128.0), (0.0, 1.0), (0.0, 255.0))
IMAGES_OF_A_PERSON, MOST_PEOPLE, FEWEST_PEOPLE = 2, 200, 10
#: From so many people on, RGB and BGR part: measured with `pretrained_mobilefacenet.onnx` on LFW.
TELLING_PEOPLE = 60
_BATCH = 64


@dataclass(frozen=True)
class Measured:
    """A way of giving pixels, and how far people's own scores stand out by it.

    Attributes:
        genuine: mean over people of the score of their own two images, from the mean of the impostor scores, in
            standard deviations of these.
        gain: mean over people of the difference to the declared way; 0 for this one itself.
        lower_95, upper_95: bounds of the gain, by Student over people, which hold for all ways together (Bonferroni).
    """

    pixels: Pixels
    genuine: float
    gain: float
    lower_95: float
    upper_95: float


@dataclass(frozen=True)
class ProbeResult(Result):
    """Ways of giving pixels to a network, the best first, and the declared one, or the best where none was `told`.

    Images that are all grey show nothing of the order of the colours, and `drawn` ones show the normalisation alone.
    The origin says how the images came about.
    """

    declared: Pixels
    told: bool
    ways: tuple[Measured, ...]
    people: int
    origin: str
    grey: bool = False
    drawn: bool = False

    @property
    def best(self) -> Measured:
        """The way by which people's own scores stand out the most."""
        return self.ways[0]

    @property
    def better(self) -> tuple[Measured, ...]:
        """Ways that are better than the declared one by more than chance."""
        return tuple(way for way in self.ways if way.lower_95 > 0)

    def text(self) -> str:
        """The best ways and the declared one, and whether it is the one that serves the model best."""
        shown = [way for place, way in enumerate(self.ways) if place < 8 or way.pixels == self.declared]
        rows = [
            [
                f"{way.pixels}{' *' if way.pixels == self.declared else ''}",
                f"{way.genuine:.2f}",
                f"{way.gain:+.2f}",
                f"{way.lower_95:+.2f} to {way.upper_95:+.2f}",
            ]
            for way in shown
        ]
        lines = [
            f"probe: {self.people} people, two images each ({printable(self.origin)}); own scores from the mean "
            "impostor score, in its standard deviations",
            table(["pixels (mean, scale)", "own score", "gain", "95 % of all ways"], rows),
            f"* {'declared' if self.told else 'taken, since not everything was given'}; {self._verdict()}",
        ]
        if self.drawn:
            lines.append(
                "drawn faces show the normalisation alone: colours, template and mirror image were not measured"
            )
        elif self.grey:
            lines.append("all images are grey: whether the order of the colours is the right one was not measured")
        elif self.people < TELLING_PEOPLE:
            lines.append(f"few people: RGB and BGR part from about {TELLING_PEOPLE} people on")
        return "\n".join(lines)

    def _verdict(self) -> str:
        if self.better:
            return f"what serves this model best is another way: {self.better[0].pixels}"
        return "no other way is better by more than chance"


def probe(
    network: OnnxNetwork,
    faces: Faces,
    declared: Pixels | None = None,
    progress: Progress = quietly,
    *,
    detector: FaceDetector | None = None,
    told: Told | None = None,
    flip: bool = False,
    drawn: bool = False,
) -> ProbeResult:
    """Give the same faces to a network in every way that published models have.

    The network's graph is read; its own colours and normalisation are not used. The first two images of each person are
    taken, aligned and of the network's size, or photographs (`probe_faces`). Where no way is declared as a whole, those
    that contradict the known parts (`told`, a `flip` that is known to be added) are measured, but not used. Of `drawn`
    faces the normalisation alone is measured.
    """
    pairs = pairs_of_people(faces.identities)
    seen = probe_faces(faces, pairs, network.input_size, detector, progress)
    if seen.people < FEWEST_PEOPLE:
        raise ValueError(f"{seen.people} people are left ({seen.origin}); a probe needs {FEWEST_PEOPLE}")
    normalisations = NORMALISATIONS if network.numbers != "uint8" else ((0.0, 1.0),)
    told = told or Told()
    mean, scale = (told.mean, told.scale) if declared is None else (declared.mean, declared.scale)
    if mean is not None and scale is not None and (mean, scale) not in normalisations:
        normalisations = ((mean, scale), *normalisations)
    grey = all(_is_grey(images) for images in seen.images.values())
    colour_told = told.colour if declared is None else declared.colour
    if (grey or drawn) and colour_told is None:
        raise ValueError("all images are grey, by which RGB and BGR cannot be distinguished; give --colour")
    colours = tuple(colour for colour in _COLOURS if colour == colour_told) if grey or drawn else _COLOURS
    views = [*seen.images][: 1 if drawn else None]
    ways = [(colour, *normal, view) for colour in colours for normal in normalisations for view in views]
    scores: dict[Pixels, Float64[np.ndarray, " people"]] = {}
    for colour, mean, scale, (template, crop) in progress(ways, "probing", len(ways)):
        way = Pixels(colour, mean, scale, crop, False, template)
        plain, mirrored = _embedded(network, seen.images[template, crop], way)
        scores[way] = standing_out(plain)
        if not drawn:
            scores[replace(way, flip=True)] = standing_out(plain + mirrored)
    own_template, own_crop = next(iter(seen.images))
    if declared is None:  # a folder can say no part of a template
        candidates = [
            way
            for way in scores
            if (way.template, way.crop) == (own_template, own_crop) and told.allows(way) and (way.flip or not flip)
        ]
        if not candidates:
            raise ValueError("no way that is measured has the mean, or the scale, that is given; give both")
        base = max(candidates, key=lambda way: float(scores[way].mean()))
    else:
        base = replace(declared, template=own_template, crop=own_crop)
    confidence = 1 - 0.05 / max(len(scores) - 1, 1)
    measured = [_measured(way, scores[way], scores[base], confidence) for way in scores]
    measured.sort(key=lambda way: -way.genuine)
    return ProbeResult(base, declared is not None, tuple(measured), seen.people, seen.origin, grey, drawn)


_COLOURS: tuple[Colour, ...] = ("RGB", "BGR")


def _is_grey(images: Tensor) -> bool:
    return bool((images[:, :1] == images).all())


def pairs_of_people(identities: Sequence[str], most: int = MOST_PEOPLE) -> list[tuple[int, int]]:
    """The first two images of each person, of so many people at most, spread over the set."""
    by_person: dict[str, list[int]] = {}
    for index, person in enumerate(identities):
        if person != NOBODY:
            by_person.setdefault(person, []).append(index)
    pairs = [(places[0], places[1]) for places in by_person.values() if len(places) >= IMAGES_OF_A_PERSON]
    if len(pairs) < FEWEST_PEOPLE:
        raise ValueError(
            f"{len(pairs)} people have two images or more; a probe needs {FEWEST_PEOPLE}, and tells RGB from BGR from "
            f"about {TELLING_PEOPLE} on"
        )
    every = np.linspace(0, len(pairs) - 1, min(len(pairs), most)).round().astype(int)
    return [pairs[place] for place in every]


def _embedded(network: OnnxNetwork, images: Tensor, way: Pixels) -> tuple[np.ndarray, np.ndarray]:
    """Embeddings of the images and of their mirror images, in float64."""
    given = copy.copy(network)
    given.colour, given.mean, given.scale = way.colour, way.mean, way.scale
    both: list[list[np.ndarray]] = [[], []]
    for start in range(0, len(images), _BATCH):
        normalised = given.normalise(images[start : start + _BATCH])
        for rows, seen in zip(both, (normalised, normalised.flip(-1)), strict=True):
            rows.append(given(seen).double().numpy())
    return np.concatenate(both[0]), np.concatenate(both[1])


def standing_out(embeddings: Float64[np.ndarray, "images dim"]) -> Float64[np.ndarray, " people"]:
    """Score of each person's two images, rows side by side, in standard deviations above the impostor mean."""
    lengths = np.linalg.norm(embeddings, axis=1, keepdims=True)
    if not np.isfinite(lengths).all() or not (lengths > 0).all():
        return np.zeros(len(embeddings) // 2)
    first, second = (embeddings / lengths)[0::2], (embeddings / lengths)[1::2]
    scores = first @ second.T
    impostor = scores[~np.eye(len(scores), dtype=bool)]
    spread = float(impostor.std())
    if spread < 1e-9:
        return np.zeros(len(scores))
    return (np.diag(scores) - float(impostor.mean())) / spread


def _measured(
    way: Pixels, scores: Float64[np.ndarray, " people"], base: Float64[np.ndarray, " people"], confidence: float
) -> Measured:
    gains = scores - base
    lower, upper = mean_bounds(gains.tolist(), confidence)
    return Measured(way, float(scores.mean()), float(gains.mean()), lower, upper)
