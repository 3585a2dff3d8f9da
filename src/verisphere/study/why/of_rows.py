"""Whether rows are those that the model gives of their images, and if not, by which mistake they come about."""

import numpy as np
from jaxtyping import Float, Float64

from verisphere.backbones.onnx_network import OnnxNetwork
from verisphere.base.trained_on import image_digests
from verisphere.ship.probe import NORMALISATIONS
from verisphere.study.why.answer import Cause, Seen
from verisphere.study.why.case import ModelCase
from verisphere.study.why.pixels import OTHER_VIEWS, Way, cosines, embedded, grey, other_pixels

#: Rows that are made anew, and those of them that are made in other ways too.
_ROWS, _ROWS_OF_WAYS, _FEWEST = 128, 8, 8
#: 1 - cosine up to which two rows are the same. Measured: 1e-12 between runtimes, 2e-6 in float16, 1e-4 in bfloat16.
SAME = 1e-5
#: 1 - cosine of rows of two versions of one image; measured: 2e-4 to 0.05 for JPEG of quality 100 to 50.
NEAR = 0.2
#: 1 - cosine of rows in another precision; measured: 1e-4 in bfloat16, 5e-3 to 8e-3 in int8.
ROUNDED = 0.03
#: Share of the difference that a mistake leaves where it explains the rows: by other pixels, where views and rounding
#: are only near to those that were taken; by the mirror image; and by arithmetic on the model's rows.
LEFT = {"pixels": 0.5, "flip": 0.1, "norm": 0.05}
#: Share of the error of rows that all have in common, from which on it is not that of other bytes. Measured: 0.01 by
#: JPEG, 0.05 to 0.13 by bfloat16 and int8.
_COMMON = 0.045
#: The largest of a thousand errors of rounding to steps is 1.7 times the usual one, and of errors by chance 3.3 times.
_STEPS = 2.3

Rows = Float64[np.ndarray, "rows dim"]


def rows(case: ModelCase) -> Cause | Seen:
    """Whether a sample of the rows is what the model gives of the images, and by what they differ."""
    if case.rows is None:
        return Seen("no --embeddings", "not asked")
    known = np.flatnonzero(case.place >= 0)
    if len(known) < _FEWEST:
        return Seen(f"{len(known)} rows have an image of their name in the set", "too few to tell")
    at = known[np.unique(np.linspace(0, len(known) - 1, min(len(known), _ROWS)).astype(int))]
    images, network = case.faces.images(case.place[at].tolist()), case.opened.backbone
    theirs = case.rows.embeddings[at].astype(np.float64)
    plain, mirrored = embedded(network, images)
    origin, flip = case.rows.origin, case.opened.flip
    added = flip if origin is None or flip is not None else origin.flip
    ours = plain + mirrored if added and not case.opened.fixed else plain
    away = 1 - cosines(ours, theirs)
    differ = np.flatnonzero(away > max(SAME, case.shortened**2 / 2))
    if not len(differ):
        return _of_lengths(ours, theirs)
    if moved := _in_another_order(ours, case.rows.embeddings, at):
        return moved
    evidence = f"{len(differ)} of {len(at)} rows are not what the model gives of their images (cosine "
    evidence += f"{1 - np.median(away[differ]):.4f} in the median)"
    some = differ[:_ROWS_OF_WAYS]

    def left(made: Rows, places: np.ndarray = some) -> float:
        return float(np.median(1 - cosines(made, theirs[places])))

    found = [
        ("flip", how, left(made[some]))
        for how, made in (("the mirror image added", plain + mirrored), ("the mirror image added at length 1",
                          unit(plain) + unit(mirrored)), ("without the mirror image", plain),
                          ("of nothing but the mirror image", mirrored))
    ]  # fmt: skip
    if len(differ) >= 2 * _FEWEST:
        by_lines, one = left(_by_lines(ours[differ], theirs[differ]), differ), unit(theirs[differ]).mean(0)
        if by_lines <= LEFT["norm"] * left(np.broadcast_to(one, ours[differ].shape), differ):  # not one row for all
            found.append(("norm", "each number moved or scaled by itself, and each row to another length", by_lines))
    if not any(residue <= LEFT[name] * np.median(away[differ]) for name, _, residue in found):
        ways = [*other_pixels(network, images, normals=getattr(network, "numbers", "") != "uint8"),
                *OTHER_VIEWS, Way("colour order", "in grey", grey)]  # fmt: skip
        ways += [] if isinstance(network, OnnxNetwork) else [Way("precision", "in bfloat16", bfloat16=True)]
        ways += [Way("mean and scale", f"(pixel - {mean:g}) / {scale:g}, and then as the network normalises",
                     normal=(mean + scale * network.mean, scale * network.scale)) for mean, scale in NORMALISATIONS
                 if (network.mean, network.scale) != (0, 1)]  # fmt: skip
        for way in ways:
            one, other = embedded(network, images[some], way)
            for how, made in (("", one), (", the mirror image added", one + other)):
                found.append((way.cause, way.text + how, left(made)))
    name, how, residue = min(found, key=lambda mistake: mistake[2] / LEFT.get(mistake[0], LEFT["pixels"]))
    if residue <= LEFT.get(name, LEFT["pixels"]) * np.median(away[differ]) and residue <= NEAR:
        return Cause(name, f"{evidence}, and {1 - residue:.6f} of the images so: {how}")
    digests = None if case.rows.in_training is None else case.rows.in_training.digests
    changed = 0 if digests is None else int((image_digests(images.numpy()) != digests[at]).sum())
    if changed:
        return Cause("images of other bytes", f"{evidence}; {changed} of {len(at)} images have other pixels than those "
                     "whose digests the file keeps")  # fmt: skip
    gram = np.abs(unit(ours) @ unit(ours).T - unit(theirs) @ unit(theirs).T)[np.ix_(differ, differ)]
    if len(differ) >= 2 * _FEWEST and gram.max() <= LEFT["norm"] * np.median(away[differ]):
        return Cause("norm", f"{evidence}, but their cosines with each other are: their numbers were exchanged, "
                     "negated or turned, all rows alike")  # fmt: skip
    if np.median(away[differ]) > NEAR:
        across = (unit(ours) @ unit(theirs).T)[np.ix_(differ, differ)]
        others = across[~np.eye(len(differ), dtype=bool)]
        if len(differ) >= 2 * _FEWEST and np.median(np.diag(across)) > np.quantile(others, 0.99):
            return Cause("images of other bytes", f"{evidence}, which lie nearer to it than 99 % of other images' rows "
                         "do: the same network made them, of other versions of the images")  # fmt: skip
        return Cause("another model", f"{evidence}; no other colours, numbers or crops give them")
    return _of_errors(ours[differ], theirs[differ], evidence, digests is not None)


def unit(made: Float[np.ndarray, "rows dim"]) -> Float[np.ndarray, "rows dim"]:
    """The rows at length 1."""
    return made / np.maximum(np.linalg.norm(made, axis=1, keepdims=True), 1e-30)


def _of_lengths(ours: Rows, theirs: Rows) -> Cause | Seen:
    """Whether rows of equal directions are also of equal lengths."""
    lengths, others = (np.linalg.norm(made, axis=1) for made in (ours, theirs))
    if np.abs(others / lengths - 1).max() <= 0.01:
        return Seen(f"{len(ours)} rows are what the model gives of their images")
    return Cause("norm", f"{len(ours)} rows point where the model's do, but have lengths {others.min():.4g} to "
                 f"{others.max():.4g}, and the model gives {lengths.min():.4g} to {lengths.max():.4g}: cosines stay, "
                 "means of templates, sums with mirror images and Euclidean distances do not")  # fmt: skip


def _in_another_order(ours: Rows, every: np.ndarray, at: np.ndarray) -> Cause | None:
    """Whether images have their row at another place of the file."""
    scores = unit(ours) @ unit(every.astype(np.float64)).T
    best, own = scores.argmax(1), scores[np.arange(len(at)), at]
    moved = (scores.max(1) - own > 0.1) & (scores.max(1) > 0.9)
    if moved.mean() <= 0.05:
        return None
    by, count = np.unique((best - at)[moved], return_counts=True)
    evidence = f"{int(moved.sum())} of {len(at)} images have their row elsewhere in the file (cosine "
    evidence += f"{scores.max(1)[moved].mean():.4f} there, {own[moved].mean():.4f} in their own)"
    most = f", {count.max()} of them {by[count.argmax()]:+d} rows further" if count.max() > moved.sum() / 2 else ""
    return Cause("label shift", evidence + most)


def _by_lines(ours: Rows, theirs: Rows) -> Rows:
    """What a factor for each row and a line for each number make of the model's rows, nearest to theirs.

    Alternating least squares: the lines of the numbers at given factors, then the factors.
    """
    units, usual = unit(theirs), np.linalg.norm(theirs, axis=1)
    centred, lengths, fitted = ours - ours.mean(0), usual, ours
    for lengths in (usual, np.linalg.norm(ours, axis=1)):
        for _ in range(30):
            target = units * lengths[:, None]
            slope = (centred * (target - target.mean(0))).sum(0) / np.maximum((centred**2).sum(0), 1e-30)
            fitted = target.mean(0) + centred * slope
            if lengths is usual:
                break
            lengths = np.maximum((fitted * units).sum(1), 1e-30)
            lengths = lengths * len(lengths) / lengths.sum()
        if np.median(1 - cosines(fitted, theirs)) < 1e-6:
            break
    return fitted


def _of_errors(ours: Rows, theirs: Rows, evidence: str, same_pixels: bool) -> Cause:
    """Whether small errors are those of another precision, or of other bytes of the images."""
    scaled = theirs * ((ours * theirs).sum(1) / (theirs**2).sum(1))[:, None]
    for of, errors in (("steps", scaled - ours), ("a few bits", (scaled - ours) / np.maximum(np.abs(ours), 1e-30))):
        largest = float(np.quantile(np.abs(errors) / np.sqrt((errors**2).mean(1, keepdims=True)), 0.999))
        if largest < _STEPS:
            told = f"the errors are those of rounding to {of}: the largest is {largest:.2f} times the usual one"
            return Cause("precision", f"{evidence}; {told}")
    away = float(np.median(1 - cosines(ours, theirs)))
    spread = unit(theirs) - unit(ours)
    common = (len(ours) * (spread.mean(0) ** 2).sum() / (spread**2).sum(1).mean() - 1) / max(len(ours) - 1, 1)
    evidence += f"; {max(common, 0):.1%} of the error is one for all images"
    if same_pixels or (common > _COMMON and away <= ROUNDED):
        pixels = ", whose pixels are those of the file's digests" if same_pixels else ""
        return Cause("precision", f"{evidence}{pixels}, as bfloat16 or int8 make it")
    return Cause("images of other bytes", f"{evidence}, as other versions of the images make it")
