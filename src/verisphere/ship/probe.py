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
from jaxtyping import Float64
from torch import Tensor

from verisphere.backbones.backbone import Colour
from verisphere.backbones.onnx_network import OnnxNetwork
from verisphere.base.vocabulary import NOBODY, Progress, printable, quietly
from verisphere.decide.bounds import mean_bounds
from verisphere.files.results import Result
from verisphere.images.detect import FaceDetector
from verisphere.images.faces import Faces
from verisphere.report.tables import table
from verisphere.ship.pixels import Pixels, Told
from verisphere.ship.probe_faces import probe_faces

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
        pixels: the way.
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
    """Score of each person's two images, which are rows side by side, in standard deviations above the impostor mean.

    Embeddings that cannot be compared, because they are equal or not finite, give 0.
    """
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
