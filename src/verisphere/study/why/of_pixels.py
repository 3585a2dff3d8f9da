"""Whether a network is given faces as it was trained: which change of the pixels makes it better, beyond chance."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float64, Int64

from verisphere.backbones.backbone import Backbone
from verisphere.base.vocabulary import NOBODY, ImageSource
from verisphere.decide.bounds import mean_bounds
from verisphere.images.detect.alignment import Template, align
from verisphere.images.detect.placement import (
    SAMPLE,
    checking_detector,
    doubt_alignment,
    doubt_shape,
    sure_landmarks,
    template_of_size,
)
from verisphere.models.checkpoint import read_checkpoint
from verisphere.models.folder import is_model_folder, training_record
from verisphere.models.image_sources import recorded_sources
from verisphere.models.model_json import NAME, read_model_json
from verisphere.ship.probe import FEWEST_PEOPLE, TELLING_PEOPLE
from verisphere.study.why.answer import FALSE_ALARM, Cause, Seen
from verisphere.study.why.case import ModelCase
from verisphere.study.why.pixels import AS_THEY_ARE, OTHER_VIEWS, Pixels, Way, embedded, exchanged, other_pixels

#: Own scores of a working model lie at least so many standard deviations above those of strangers; measured: 5 to 7,
#: and 0.3 to 1 for a network without training. Those of a weak network, which may like another crop more than the one
#: that it was trained on, lie below the second.
WORKS, WEAK = 2.0, 4.0
#: Own scores that lie no higher show that labels have nothing to do with the images: those of pixels lie 0.4 to 2.5
#: standard deviations above those of strangers.
UNRELATED = 0.3
#: Share of the better way's own score by which it must be better: by other pixels; by another view, which cuts away
#: what is around a face (measured: 5 % for ORL, well aligned; 6 to 60 % for wrong crops), or also makes rows longer, as
#: clearer faces do (not so for ORL); and for a weak network, or where an image's own score is that of its mirror image.
GAINS = {"pixels": 0.03, "view": 0.08, "longer": 0.04, "weak": 0.15}
#: Images that are given in so many ways, which are the best for two images of each of the first people.
_IMAGES, _TRIED, _FIRST = 120, 3, 12


def standing_out(rows: Float64[np.ndarray, "rows dim"], person: Int64[np.ndarray, " rows"]) -> np.ndarray:
    """Each person's mean score of two images, in standard deviations above that of strangers; 0 where none compares."""
    lengths, names = np.linalg.norm(rows, axis=1, keepdims=True), np.unique(person)
    if not np.isfinite(lengths).all() or not (lengths > 0).all():
        return np.zeros(len(names))
    scores, same = (rows / lengths) @ (rows / lengths).T, np.equal.outer(person, person)
    strangers = scores[~same]
    np.fill_diagonal(same, False)
    own = np.array([scores[person == name][same[person == name]].mean() for name in names])
    return (own - strangers.mean()) / strangers.std() if strangers.std() > 1e-9 else np.zeros(len(names))


def better_way(
    network: Backbone, images: Pixels, person: np.ndarray, ways: Sequence[Way], flip: bool, doubted: bool = False
) -> tuple[tuple[Way, float, float] | None, float]:
    """The way by which own scores stand out most beyond chance, its score and least gain; and the score as they are.

    Where landmarks have `doubted` that the faces are in their places, a view has to be better beyond chance and no
    more.
    """
    alone = len(np.unique(person)) == len(person)
    ways = ways if len(np.unique(person)) >= FEWEST_PEOPLE else ()

    def own(way: Way, of: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Own scores of the people, and logarithms of the lengths of the rows."""
        made = embedded(network, images[of], way, flip or alone)
        rows, who = (np.concatenate(made), np.tile(person[of], 2)) if alone else (np.sum(made, 0), person[of])
        return standing_out(rows, who), np.log(np.linalg.norm(rows, axis=1) + 1e-30)

    every = np.arange(len(person))
    few = np.array([at for at in every if (person[:at] == person[at]).sum() < 2])
    few = few[np.isin(person[few], np.unique(person)[:_FIRST])]
    least, first = own(AS_THEY_ARE, few)[0].mean(), {way: own(way, few)[0].mean() for way in ways}
    likely = sorted((way for way in ways if first[way] > least), key=lambda way: -first[way])[:_TRIED]
    (declared, lengths), found = own(AS_THEY_ARE, every), list[tuple[Way, float, float]]()
    for way in likely:
        scores, others = own(way, every)
        gains, mean = scores - declared, float(scores.mean())
        lower, _ = mean_bounds(gains.tolist(), 1 - 2 * FALSE_ALARM / len(ways))
        of = "weak" if alone or mean < WEAK else "view" if way.cause == "alignment or crop" else "pixels"
        if of == "view" and mean_bounds((others - lengths).tolist(), 1 - FALSE_ALARM)[0] > 0:
            of = "longer"
        margin = 0.0 if doubted and of in ("view", "longer") else GAINS[of]
        if mean >= WORKS and lower > 0 and gains.mean() >= margin * mean:
            found.append((way, mean, lower))
    return max(found, key=lambda better: better[1], default=None), float(declared.mean())


def pixels(case: ModelCase) -> Cause | Seen:
    """Whether people's own scores stand out more where the faces are given otherwise, or landmarks are not in place."""
    model, source, network = case.opened, case.faces.source, case.opened.backbone
    if model.sha256 is None:
        return Seen("the network has start weights, to which all pixels are alike", "not asked")
    if None not in (source.template, model.template) and source.template != model.template:
        return Cause("alignment or crop", f"aligned to {source.template}, and the model takes {model.template}")
    at, person = _of_people(case)
    images = case.faces.images(at.tolist())
    template, doubt, aligned = template_of_size(network.input_size), "", None
    trained = _trained_on(case)
    if template is not None and not (source.drawn or source.template or source.place in [of.place for of in trained]):
        doubt, aligned = _placed(images, template)
    adopted = is_model_folder(case.model) and read_model_json(case.model / NAME).adopted is not None
    normals = adopted and getattr(network, "numbers", "float32") != "uint8"
    ways = [*other_pixels(network, images, normals), *OTHER_VIEWS, *([aligned] if aligned else [])]
    flip, alone = bool(model.flip) and not model.fixed, len(np.unique(person)) == len(person)
    elsewhere = not trained or any(of.template for of in trained)
    better, own = better_way(network, images, person, ways, flip, bool(doubt))
    people, few = len(np.unique(person)), alone or len(np.unique(person)) < FEWEST_PEOPLE
    who = "images' scores with their mirror images" if alone else "people's own scores"
    evidence = f"{people} {who} lie {own:.2f} standard deviations above those of strangers"
    if better is not None:
        way, other, least = better
        evidence += f" as the model is given them, and {other:.2f} with {way.text} (at least {least:.2f} more, beyond "
        return Cause(way.cause, f"{evidence}chance){'; ' if doubt else ''}{doubt}", _mend(case, way, adopted))
    if doubt and (few or own < WORKS) and elsewhere:
        return Cause("alignment or crop", doubt)
    seen = f"{evidence}; none of {len(ways)} other ways is better beyond chance{'; ' if doubt else ''}{doubt}"
    grey = "; the images are grey and show nothing of colours" if (images[:, :1] == images).all() else ""
    return Seen(seen + grey, "too few to tell" if people < TELLING_PEOPLE / 2 or alone or own < WORKS else "well")


def _of_people(case: ModelCase) -> tuple[np.ndarray, np.ndarray]:
    """Images of people with two or more, or of genuine pairs; else images of which each stands for a person."""
    known = np.flatnonzero(case.people != NOBODY)
    _, place, count = np.unique(case.people[known], return_inverse=True, return_counts=True)
    chosen = np.flatnonzero(count > 1)
    chosen = chosen[np.unique(np.linspace(0, len(chosen) - 1, min(len(chosen), _IMAGES // 2)).astype(int))]
    if len(chosen) >= FEWEST_PEOPLE:
        most = _IMAGES // len(chosen)
        groups = [known[place == name][: max(most, 2)] for name in chosen]
        return np.concatenate(groups), np.repeat(np.arange(len(groups)), list(map(len, groups)))
    listed = case.listed
    if listed is not None and sum(listed.genuine) >= FEWEST_PEOPLE:
        left, right = listed.positions(list(case.faces.names))
        genuine = np.flatnonzero(listed.genuine)[np.linspace(0, sum(listed.genuine) - 1, TELLING_PEOPLE).astype(int)]
        pairs = np.array(sorted({(int(left[pair]), int(right[pair])) for pair in genuine}))
        return pairs.ravel(), np.repeat(np.arange(len(pairs)), 2)
    _, first = np.unique(case.people[known], return_index=True)
    one = np.sort(np.concatenate([known[first], np.flatnonzero(case.people == NOBODY)]))
    at = one[np.unique(np.linspace(0, len(one) - 1, SAMPLE).astype(int))]
    return at, np.arange(len(at))


def _placed(images: Pixels, template: Template) -> tuple[str, Way | None]:
    """Why landmarks say that the faces are not in their places, and the way that puts each there if one is found."""
    detector = checking_detector()

    def seen(images: Pixels) -> list[np.ndarray]:
        return [image.permute(1, 2, 0).numpy() for image in images]

    def aligned(images: Pixels) -> Pixels:
        assert detector is not None
        found = sure_landmarks(seen(images), template, detector)
        faces = [align(face, found[at], template) if at in found else face for at, face in enumerate(seen(images))]
        return torch.from_numpy(np.stack(faces)).permute(0, 3, 1, 2)

    sample = seen(images[:: -(-len(images) // SAMPLE)])
    doubt = doubt_alignment(sample, template, detector)
    if doubt is None and detector is not None:
        doubt = doubt_shape([*sure_landmarks(sample, template, detector).values()], template)
    way = Way("alignment or crop", "each face aligned by its landmarks", aligned)
    return ("" if doubt is None else doubt.reason), None if doubt is None or detector is None else way


def _trained_on(case: ModelCase) -> Sequence[ImageSource]:
    """The images that a model says it was trained on."""
    if is_model_folder(case.model):
        return training_record(case.model, read_model_json(case.model / NAME)).sources
    return recorded_sources(read_checkpoint(case.model)) if case.model.is_dir() else ()


def _mend(case: ModelCase, way: Way, adopted: bool) -> str:
    """The command after which the network is given faces in this way; empty for one that aligns them."""
    network, swapped = case.opened.backbone, way.change is exchanged
    if way.cause == "alignment or crop" or not adopted or (way.normal is None and not swapped):
        return "" if way.cause == "alignment or crop" else f"give the images of {case.images} so: {way.text}"
    colour = {"RGB": "BGR", "BGR": "RGB"}[network.colour] if swapped else network.colour
    mean, scale = way.normal or (network.mean, network.scale)
    return f"verisphere adopt MODEL.onnx --colour {colour} --mean {mean} --scale {scale} --out ANEW"
