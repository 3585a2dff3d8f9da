"""Whether rows are those of the images, and whether a network is given faces as it was trained: images are embedded."""

import numpy as np
import torch
from jaxtyping import Float64

from verisphere.backbones.backbone import Backbone
from verisphere.backbones.onnx_network import OnnxNetwork
from verisphere.base.trained_on import image_digests
from verisphere.models.folder import is_model_folder
from verisphere.models.model_json import NAME, read_model_json
from verisphere.ship.probe import FEWEST_PEOPLE, TELLING_PEOPLE, pairs_of_people
from verisphere.study.why.answer import Cause, Seen
from verisphere.study.why.of_model import ModelCase
from verisphere.study.why.pixels import AS_THEY_ARE, WORKS, Way, better_way, cosines, embedded, is_grey, other_ways

#: Rows that are made anew, and those of them that are made in other ways too.
_ROWS, _ROWS_OF_WAYS, _FEWEST = 128, 16, 8
#: 1 - cosine up to which two rows are the same. Measured: 1e-12 between runtimes, 2e-6 in float16, 1e-4 in bfloat16.
SAME = 1e-5
#: 1 - cosine of rows of two versions of one image; measured: 2e-4 to 0.05 for JPEG of quality 100 to 50.
NEAR = 0.2
#: 1 - cosine of rows in another precision; measured: 1e-4 in bfloat16, 5e-3 to 8e-3 in int8.
ROUNDED = 0.03
#: A way explains rows where it leaves at most this share of the difference.
_LEFT = 0.5
#: Share of the error of rows that all have in common, from which on it is not that of other bytes. Measured: 0.01 by
#: JPEG, 0.05 to 0.13 by bfloat16 and int8.
_COMMON = 0.045


def of_rows(case: ModelCase) -> Cause | Seen:
    """Whether a sample of the rows is what the model gives of the images, and by what they differ."""
    rows = case.rows
    if rows is None:
        return Seen("no --embeddings", "not asked")
    known = np.flatnonzero(case.place >= 0)
    if len(known) < _FEWEST:
        return Seen(f"{len(known)} rows have an image of their name in the set", "too few to tell")
    at = known[np.unique(np.linspace(0, len(known) - 1, min(len(known), _ROWS)).astype(int))]
    images, network = case.faces.images(case.place[at].tolist()), case.opened.backbone
    theirs = rows.embeddings[at].astype(np.float64)
    plain, mirrored = embedded(network, images, AS_THEY_ARE)
    made = {False: plain, True: plain if case.opened.fixed else plain + mirrored}
    flip = case.opened.flip if rows.origin is None or case.opened.flip is not None else rows.origin.flip
    away = 1 - cosines(made[bool(flip)], theirs)
    same = away <= SAME
    if same.all():
        return _lengths(case, made[bool(flip)], theirs)
    if found := _in_another_order(case, made[bool(flip)], rows.embeddings, at):
        return found
    if len(at) >= 2 * _FEWEST and (left := _number_by_number(made[bool(flip)], theirs)) <= _LEFT / 10:
        evidence = f"each number of a row was moved or scaled by itself, which leaves {left:.2%} of the difference of "
        evidence += f"{len(at)} rows, whose cosine is {1 - np.median(away):.4f} in the median"
        return Cause("norm", evidence, case.again)
    evidence = f"{int((~same).sum())} of {len(at)} rows are not what the model gives of their images (cosine "
    evidence += f"{1 - np.median(away[~same]):.4f} in the median)"
    other = np.flatnonzero(~same)[:_ROWS_OF_WAYS]
    for how, seen in (("with", plain + mirrored), ("without", plain), ("of nothing but", mirrored)):
        left = float(np.median(1 - cosines(seen, theirs)[other]))
        if left <= _LEFT / 5 * np.median(away[other]):
            return Cause("flip", f"{evidence}, and {1 - left:.6f} {how} the mirror image's embedding", case.again)
    way, left, mirror = _explaining(network, images[other], theirs[other])
    if left <= _LEFT * float(np.median(away[other])) and left <= NEAR:
        how = f"{way.text}{', the mirror image added' if mirror else ''}"
        return Cause(way.cause, f"{evidence}, and {1 - left:.4f} of the images so: {how}", case.again)
    return _other_images(case, images, at, made[bool(flip)], theirs, evidence)


def _lengths(case: ModelCase, made: np.ndarray, theirs: np.ndarray) -> Cause | Seen:
    """Whether rows of equal directions are also of equal lengths."""
    ratio = np.linalg.norm(theirs, axis=1) / np.linalg.norm(made, axis=1)
    if np.abs(ratio - 1).max() <= 0.01:
        return Seen(f"{len(made)} rows are what the model gives of their images")
    ours, others = (np.linalg.norm(rows, axis=1) for rows in (made, theirs))
    evidence = f"{len(made)} rows point where the model's do, but have lengths {others.min():.4g} to "
    evidence += f"{others.max():.4g}, and the model gives {ours.min():.4g} to {ours.max():.4g}: cosines stay, means of "
    return Cause("norm", f"{evidence}templates, sums with mirror images and Euclidean distances do not", case.again)


def _in_another_order(case: ModelCase, made: np.ndarray, every: np.ndarray, at: np.ndarray) -> Cause | None:
    """Whether images have their row at another place of the file."""
    units = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (made, every.astype(np.float64))]
    scores = units[0] @ units[1].T
    best = scores.argmax(1)
    gained = scores.max(1) - scores[np.arange(len(at)), at]
    moved = (gained > 0.1) & (scores.max(1) > 0.9)
    if moved.mean() <= 0.05:
        return None
    by, count = np.unique((best - at)[moved], return_counts=True)
    evidence = f"{int(moved.sum())} of {len(at)} images have their row elsewhere in the file (cosine "
    evidence += f"{scores.max(1)[moved].mean():.4f} there, {(scores.max(1) - gained)[moved].mean():.4f} in their own)"
    if count.max() > moved.sum() / 2:
        evidence += f", {count.max()} of them {by[count.argmax()]:+d} rows further"
    return Cause("label shift", evidence, case.again)


def _number_by_number(made: np.ndarray, theirs: np.ndarray) -> float:
    """The share of the squared difference, by one factor for all, that a line for each number of a row leaves."""
    by_one = theirs - made * (made * theirs).sum() / (made**2).sum()
    one, other = (rows - rows.mean(0) for rows in (made, theirs))
    by_each = other - one * (one * other).sum(0) / np.maximum((one**2).sum(0), 1e-30)
    return float((by_each**2).sum() / max((by_one**2).sum(), 1e-30))


def _explaining(
    network: Backbone, images: torch.Tensor, theirs: Float64[np.ndarray, "rows dim"]
) -> tuple[Way, float, bool]:
    """The way whose rows are nearest, how far they are in the median, and whether the mirror image is added."""
    ways = [*other_ways(network, is_grey(images), normalised=True), Way("colour order", "in grey", grey=True)]
    if not isinstance(network, OnnxNetwork):
        ways.append(Way("precision", "in bfloat16", bfloat16=True))
    found = []
    for way in ways:
        plain, mirrored = embedded(network, images, way)
        for flip, rows in ((False, plain), (True, plain + mirrored)):
            found.append((float(np.median(1 - cosines(rows, theirs))), flip, way))
    left, flip, way = min(found, key=lambda one: one[0])
    return way, left, flip


def _other_images(
    case: ModelCase, images: torch.Tensor, at: np.ndarray, made: np.ndarray, theirs: np.ndarray, evidence: str
) -> Cause:
    """What is left where no way explains the rows: other bytes of the images, another precision, another model."""
    away = float(np.median(1 - cosines(made, theirs)))
    digests = None if case.rows is None or case.rows.in_training is None else case.rows.in_training.digests
    if digests is not None and (differ := int((image_digests(images.numpy()) != digests[at]).sum())):
        return Cause("images of other bytes", f"{evidence}; {differ} of {len(at)} images have other pixels than those "
                     "whose digests the file keeps", case.again)  # fmt: skip
    if away > NEAR:
        return Cause("another model", f"{evidence}; no other colours, numbers or crops give them", case.again)
    hundredths = theirs * 100
    if np.abs(hundredths - hundredths.round()).max() < 1e-3:
        return Cause("precision", f"{evidence}; no number has more than two decimals", case.again)
    units = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (made, theirs)]
    errors = units[1] - units[0]
    common = (len(at) * (errors.mean(0) ** 2).sum() / (errors**2).sum(1).mean() - 1) / max(len(at) - 1, 1)
    evidence += f"; {max(common, 0):.1%} of the error is one for all images"
    if digests is not None or (common > _COMMON and away <= ROUNDED):
        pixels = ", whose pixels are those of the file's digests" if digests is not None else ""
        return Cause("precision", f"{evidence}{pixels}, as bfloat16 or int8 make it", case.again)
    return Cause("images of other bytes", f"{evidence}, as other versions of the images make it", case.again)


def of_network(case: ModelCase) -> Cause | Seen:
    """Whether people's own scores stand out more where the faces are given otherwise, as `adopt --probe` measures."""
    opened = case.opened
    if opened.sha256 is None:
        return Seen("the network has start weights, to which all pixels are alike", "not asked")
    try:
        pairs = pairs_of_people(case.people.tolist(), TELLING_PEOPLE)
    except ValueError as error:
        listed = case.listed
        if listed is None or listed.videos or sum(listed.genuine) < FEWEST_PEOPLE:
            return Seen(str(error), "too few to tell")
        left, right = listed.positions(list(case.faces.names))
        genuine = np.flatnonzero(listed.genuine)[np.linspace(0, sum(listed.genuine) - 1, TELLING_PEOPLE).astype(int)]
        pairs = sorted({(int(left[pair]), int(right[pair])) for pair in genuine})
    images = case.faces.images([index for pair in pairs for index in pair])
    adopted = is_model_folder(case.model) and read_model_json(case.model / NAME).adopted is not None
    grey = is_grey(images)
    normalised = adopted and getattr(opened.backbone, "numbers", "float32") != "uint8"
    ways = [*other_ways(opened.backbone, grey, normalised)]
    better, own = better_way(opened.backbone, images, ways, bool(opened.flip) and not opened.fixed)
    if better is not None:
        evidence = (
            f"{len(pairs)} people's own scores lie {better.own:.2f} standard deviations above those of strangers "
        )
        evidence += f"with {better.way.text}, and {better.declared:.2f} as the model is given them (at least "
        return Cause(
            better.way.cause, f"{evidence}{better.lower:.2f} more, beyond chance)", _mend(case, better.way, adopted)
        )
    few = len(pairs) < TELLING_PEOPLE / 2 or own < WORKS
    colours = "; the images are grey and show nothing of colours" if grey else ""
    seen = f"own scores of {len(pairs)} people lie {own:.2f} standard deviations above those of strangers; none of "
    return Seen(f"{seen}{len(ways)} other ways is better beyond chance{colours}", "too few to tell" if few else "well")


def _mend(case: ModelCase, way: Way, adopted: bool) -> str:
    """The command after which the network is given faces in this way."""
    if way.view is not None:
        return f"verisphere align PHOTOS ALIGNED --template {case.opened.template or 'arcface_112x112'}"
    network = case.opened.backbone
    if not adopted:
        return f"exchange red and blue of the images of {case.images}, or train on images like these"
    colour = {"RGB": "BGR", "BGR": "RGB"}[network.colour] if way.swapped else network.colour
    mean, scale = way.normal or (network.mean, network.scale)
    return f"verisphere adopt MODEL.onnx --colour {colour} --mean {mean:g} --scale {scale:g} --out ANEW"
