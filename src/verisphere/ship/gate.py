"""The gate of a gallery, from measures of other people's faces, and its verdicts on faces."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32, Float64, Int64

from verisphere.base.device import choose_device
from verisphere.base.provenance import check_same_origin
from verisphere.base.seeds import numpy_generator
from verisphere.base.vocabulary import NOBODY, Embeddings, Progress, quietly
from verisphere.base.words import unknown_name
from verisphere.decide import (
    Far,
    TooFewComparisonsError,
    exact_rate,
    gallery_threshold,
    one_probe_each,
    strangers_needed,
)
from verisphere.decide.gallery import too_few_strangers
from verisphere.decide.point import far_text
from verisphere.files.embeddings import known_people, note_crowds
from verisphere.files.gate import MEASURES, Effect, Gate, Limit, Measured, Side, read_gate
from verisphere.files.landmarks import points_of_images, read_landmarks
from verisphere.images.detect.pose import place_of
from verisphere.images.quality import detail_of, light_of, measure
from verisphere.images.worse import Worse
from verisphere.measure.protocols.plausible import implausible_set
from verisphere.models.described_faces import open_faces
from verisphere.models.embed import embed, open_model
from verisphere.models.folder import Model
from verisphere.score import pair_scores, top_k, unit_rows
from verisphere.ship.calibration_check import NOTHING, Accepted, refuse_implausible, refuse_training_people
from verisphere.ship.face_search import FaceOfPhotograph, FindFaces
from verisphere.ship.notes import origins_of

log = logging.getLogger(__name__)

#: What is asked for where it was measured and nothing else is named; docs/enrolment.md says why.
ASKED = ("detail", "size")
#: The share of good photographs that is refused at most where it is neither named nor chosen.
GOOD = "2e-2"
_OF_LIMITS = 0.25  # part of the good photographs refused by limits; the alarm, which needs more, has the rest
_NO_POINTS = np.full((5, 2), np.nan, np.float32)


def fit_gate(
    measured: Measured, embeddings: Embeddings, *, good: Far = GOOD, measures: Sequence[str] = (), images: str = ""
) -> Gate:
    """The gate that refuses at most a share of the good photographs of other people than those to be enrolled.

    All images are taken as good. A quarter of the share `good` is for the limits, equally for each measure (`ASKED`,
    unless others are named), and the rest for the alarm on a second photograph, without images of nobody who is known.
    """
    share = float(exact_rate(good))
    asked: list[Any] = [name for name in measures or ASKED if measures or name in measured]
    if unknown := [name for name in asked if name not in measured]:
        raise ValueError(unknown_name("measure", unknown[0], list(measured)))
    ends = [(name, side) for name in asked for side in MEASURES[name][1]]
    of_each = share * _OF_LIMITS / len(ends)
    limits = tuple(Limit(name, side, _limit(measured[name], side, of_each)) for name, side in ends)
    known = known_people(embeddings, images or "the set")
    person = np.unique(known.identities, return_inverse=True)[1]
    enrolled = one_probe_each(person, seed=0)
    rest = np.delete(np.arange(len(person)), enrolled)
    if not len(rest):
        raise ValueError(f"nobody of {images or 'the set'} has two photographs, which the alarm is fitted on")
    new, units = rest[one_probe_each(person[rest], seed=0)], unit_rows(known.embeddings)
    at, ours, number = map(torch.from_numpy, (new, enrolled[person[new]], person))
    others = top_k(units[at], units[enrolled], 1, "float32", (number[at], number[enrolled]))[0][:, 0]
    nearer = (others - pair_scores(units, at, ours)).numpy()
    margin = max(_limit(nearer, "most", share * (1 - _OF_LIMITS)), 0.0)
    about = images, int(person.max()) + 1, len(embeddings), embeddings.origin, limits, margin
    return Gate(*about, in_training=embeddings.shared_with_training, names_rule=embeddings.names_rule)


def lengths_of(embeddings: Float32[np.ndarray, "images dim"]) -> Float64[np.ndarray, " images"]:
    """The measure `length`: of the embeddings as the model gives them."""
    return np.linalg.norm(embeddings.astype(np.float64), axis=1)


def _limit(numbers: np.ndarray, side: Side, share: float) -> float:
    """The number that at most this share of the images are beyond."""
    order = np.sort(numbers[~np.isnan(numbers)])
    if not len(order):
        raise ValueError("no image was measured; do the landmarks name these images?")
    beyond = int(share * len(order))
    return float(order[beyond] if side == "least" else order[-1 - beyond])


def gate_of(
    path: Path, model: Model, find: FindFaces
) -> Callable[[Sequence[FaceOfPhotograph], np.ndarray], list[tuple[str, ...]]]:
    """Why the gate of a file, which must have been fitted for this model, refuses faces with these embeddings."""
    gate = read_gate(path)
    for line in gate.warnings():
        log.warning("%s: %s", path, line)
    for origin in origins_of(model, find):
        check_same_origin(f"{model.folder} embeds", origin, path, gate.origin, "fit a gate for this model")

    def reasons(faces: Sequence[FaceOfPhotograph], rows: np.ndarray) -> list[tuple[str, ...]]:
        points = np.stack([_NO_POINTS if face.crop is None else face.crop.landmarks for face in faces])
        crops = np.stack([face.pixels for face in faces if face.pixels is not None])
        images = torch.from_numpy(crops).permute(0, 3, 1, 2)
        measured = {"detail": detail_of(images), **light_of(images), **place_of(points), "length": lengths_of(rows)}
        return gate.reasons(measured)

    return reasons


#: Shares of good photographs that are tried.
SHARES = ("2.5e-3", "5e-3", "1e-2", "2e-2", "4e-2")
_SPLITS, _POISONED = 5, 10  # every tenth photograph that is enrolled is a worse copy


def fit(
    faces: Path,
    model: Path,
    landmarks: Path | None = None,
    good: Far | None = None,
    fpir: Far | None = None,
    measures: Sequence[str] = (),
    device: str | None = None,
    trust_code: bool = False,
    accepted: Accepted = NOTHING,
    progress: Progress = quietly,
) -> Gate:
    """The gate of a gallery, from aligned faces of other people than its own; see `fit_gate`.

    The share of good photographs that it may refuse is `good`, or is chosen by its effect at an FPIR (1e-2): on worse
    copies of strangers, and on people who are to be found; see `effects_of`. With too few people for that it is 2e-2.
    Too few people for an FPIR that is named are an error.
    """
    if good is not None and fpir is not None:
        raise ValueError("an FPIR chooses the share of good photographs that may be refused; omit --good or --fpir")
    opened = open_model(model, choose_device(device), trust_code)
    images = open_faces(faces, None, opened.backbone.input_size, trust_code)
    listed = {} if landmarks is None else place_of(points_of_images(images.names, read_landmarks(landmarks)))
    measured = measure(images, progress) | listed
    embeddings = embed(opened, images, str(faces), progress=progress)
    note_crowds(faces, embeddings.identities)
    if not accepted.training_people:
        refuse_training_people(embeddings, faces)
    reasons = refuse_implausible(faces, implausible_set(known_people(embeddings, faces)), accepted.implausible)
    measured["length"] = lengths_of(embeddings.embeddings)
    effects, target = tuple[Effect, ...](), fpir or "1e-2"
    lacking = "" if good is not None else _lacking(embeddings, target)
    if lacking and fpir is not None:
        raise TooFewComparisonsError(f"{faces}: {lacking}")
    if good is None and not lacking:
        worse = Worse(images)
        copies = embed(opened, worse, str(faces), progress=progress)
        numbers = measured | measure(worse, progress) | {"length": lengths_of(copies.embeddings)}
        effects = effects_of(measured, embeddings, numbers, copies, target, measures)
        good = chosen(effects, target)
    good, by = good or GOOD, far_text(target) if effects else ""
    gate = fit_gate(measured, embeddings, good=good, measures=measures, images=faces.name)
    if lacking:
        log.warning("%s: too few people to choose by FPIR; at most %s of good photographs are refused", faces, good)
    return replace(gate, implausible=tuple(reasons), good=far_text(good), fpir=by, effects=effects)


def effects_of(
    measured: Measured,
    embeddings: Embeddings,
    worse_measured: Measured,
    worse: Embeddings,
    fpir: Far = "1e-2",
    measures: Sequence[str] = (),
) -> tuple[Effect, ...]:
    """The effect of gates that refuse each of `SHARES`, from a set with a worse copy of each image in the same order.

    In each split the gate is fitted on a third of the people, others with two photographs are enrolled by one and
    looked for by the other, and the rest are strangers: half of them give the threshold at the FPIR, and the worse
    copies of the other half are looked for. Nobody is in two of these parts.
    """
    here = np.flatnonzero(embeddings.identities != NOBODY)
    good, copies = (unit_rows(rows.embeddings[here]) for rows in (embeddings, worse))
    person, names = np.unique(embeddings.identities[here], return_inverse=True)[1], list(measured)
    sides = [{name: numbers[name][here] for name in names} for numbers in (measured, worse_measured)]
    rates: dict[str, list[tuple[float, float, float]]] = {share: [] for share in SHARES}
    for seed in range(_SPLITS):
        fitted, enrolled, *strangers = _parts(person, seed)
        first = _one_of_each(person, enrolled, seed)
        others = person.copy()
        others[first] = -1
        probes = good[_one_of_each(others, enrolled, seed)]
        best = (good[_one_of_each(person, strangers[0], seed)] @ good[first].T).amax(1).double().numpy()
        threshold = gallery_threshold(best, fpir, "expected", people=len(first)).threshold
        bad = np.arange(len(first)) % _POISONED == 0
        gallery = torch.where(torch.from_numpy(bad)[:, None], copies[first], good[first])
        found = copies[np.isin(person, strangers[1])] @ gallery.T
        scores = probes @ gallery.T
        rows = np.flatnonzero(np.isin(person, fitted))
        part, faces = {name: numbers[rows] for name, numbers in sides[0].items()}, embeddings.take(here[rows])
        for share in SHARES:
            limits = fit_gate(part, faces, good=share, measures=measures).limits
            refused = [np.any([limit.breaks(side) for limit in limits], axis=0) for side in sides]
            away = torch.from_numpy(np.where(bad, refused[1][first], refused[0][first]))
            mate, who = scores.masked_fill(away, -1).max(1)
            right = (mate > threshold) & (who == torch.arange(len(who)))
            wrong = found.masked_fill(away, -1).amax(1) > threshold
            rates[share].append((refused[1].mean(), float(wrong.double().mean()), float(right.double().mean())))
    means = {share: np.mean(each, axis=0).tolist() for share, each in rates.items()}
    return tuple(
        Effect(share, worse_refused, found_worse, max(each[1] for each in rates[share]), found)
        for share, (worse_refused, found_worse, found) in means.items()
    )


def chosen(effects: Sequence[Effect], fpir: Far) -> str:
    """The share by which most people are found while worse strangers keep to an FPIR in every split, or the highest."""
    kept = [effect for effect in effects if effect.fpir_highest <= float(exact_rate(fpir))]
    return max(kept or effects[-1:], key=lambda effect: effect.tpir).good


def _lacking(embeddings: Embeddings, fpir: Far) -> str:
    """What an effect at an FPIR would need that a set has too little of; empty for nothing."""
    known = embeddings.identities[embeddings.identities != NOBODY]
    _, enrolled, half, _ = _parts(np.unique(known, return_inverse=True)[1], 0)
    if not len(enrolled):
        return "a part of its people is enrolled by one photograph and found by another, and fewer than 2 have two"
    strangers = len(half)
    enough = strangers >= strangers_needed(fpir, "expected")
    return "" if enough else f"of its people, a part is strangers: {too_few_strangers(strangers, fpir, 'expected')}"


def _parts(person: Int64[np.ndarray, " images"], seed: int) -> list[Int64[np.ndarray, " some"]]:
    """Numbers of the people on whom a gate is fitted, who are enrolled, and of two halves of strangers."""
    draw, count = numpy_generator(seed), np.bincount(person)
    several, single = (draw.permutation(np.flatnonzero(which)) for which in (count > 1, count == 1))
    fitted, enrolled, strangers = np.array_split(several, 3)
    of_fit, *others = np.array_split(single, 3)
    halves = [np.concatenate(pair) for pair in zip(np.array_split(strangers, 2), others, strict=True)]
    return [np.concatenate([fitted, of_fit]), enrolled, *halves]


def _one_of_each(person: Int64[np.ndarray, " images"], people: np.ndarray, seed: int) -> Int64[np.ndarray, " people"]:
    rows = np.flatnonzero(np.isin(person, people))
    return rows[one_probe_each(np.unique(person[rows], return_inverse=True)[1], seed)]
