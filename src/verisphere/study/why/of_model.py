"""Why figures of a model on a set disagree: what is recorded and stored first, then scores, then images embedded."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int64

from verisphere.base.trained_on import is_name, name_digests
from verisphere.base.vocabulary import NOBODY, Comparisons, Embeddings, ImageSource, Origin
from verisphere.decide import exact_rate
from verisphere.decide.bounds import binomial_bounds
from verisphere.decide.guarantee import disjoint_pairs
from verisphere.files.calibration import read_calibration
from verisphere.files.embeddings import read_embeddings
from verisphere.files.image_names import find_rows
from verisphere.files.label_lists import read_labels
from verisphere.files.pair_lists.layouts import read_pairs
from verisphere.files.pair_lists.pair_list import PairList
from verisphere.images.detect.placement import SAMPLE, checking_detector, doubt_alignment, template_of_size
from verisphere.images.faces import Faces
from verisphere.images.packs.bin_pairs import SUFFIX as BIN
from verisphere.images.packs.bin_pairs import read_bin_pairs
from verisphere.images.photos import Photos
from verisphere.measure.data.verify import verify
from verisphere.measure.protocols.plausible import implausible_pairs, implausible_set, repeated_vectors
from verisphere.models.checkpoint import read_checkpoint
from verisphere.models.described_faces import open_faces
from verisphere.models.embed import EmbeddingModel, embed, open_model, origin_of
from verisphere.models.folder import is_model_folder, training_record
from verisphere.models.image_sources import recorded_sources
from verisphere.models.model_json import NAME, read_model_json
from verisphere.score import pair_scores, unit_rows
from verisphere.study.why.answer import FALSE_ALARM, Cause, Seen

_CPU = torch.device("cpu")
#: Images and pairs that are embedded where no file has their rows, in so many runs of neighbours, since labels that
#: were moved by one row show there.
_IMAGES, _PAIRS, _RUNS = 384, 400, 8
#: Share of labels that may contradict each other, as corrected labels of a noisy set do.
CONTRADICTIONS = 0.02
#: People up to which labels in another order than those that are tried leave scores above chance: `evaluate` is silent.
_MIXED = 40
#: Images up to which every one is decoded.
_DECODED = 20_000
#: What a setting in which two origins differ is called; the first one that differs is named.
_SETTINGS = {
    "precision": "precision",
    "colour": "colour order",
    "mean": "mean and scale",
    "scale": "mean and scale",
    "flip": "flip",
    "template": "alignment or crop",
    "detector": "alignment or crop",
    "weights": "another model",
}


@dataclass(frozen=True, eq=False)
class ModelCase:
    """A model and a set of images, and what else may be wrong about figures of both; each part is opened when asked.

    Attributes:
        model: model folder, run, checkpoint or ONNX file.
        images: set of images.
        embeddings: rows that were made of the set; None where there are none.
        pairs: list of pairs of the images.
        calibration: thresholds that the scores are held to.
        identities: list of labels, by which people are compared in place of the set's own.
        trust: also build classes from outside verisphere, which runs their code.
    """

    model: Path
    images: Path
    embeddings: Path | None = None
    pairs: Path | None = None
    calibration: Path | None = None
    identities: Path | None = None
    trust: bool = False

    @cached_property
    def opened(self) -> EmbeddingModel:
        """The model, on the CPU."""
        return open_model(self.model, _CPU, self.trust)

    @cached_property
    def faces(self) -> Faces:
        """The images."""
        return open_faces(self.images, None, self.opened.backbone.input_size, self.trust)

    @cached_property
    def rows(self) -> Embeddings | None:
        """The rows of the file, under the identities by which people are compared."""
        if self.embeddings is None:
            return None
        rows = read_embeddings(self.embeddings)
        if self.identities is None:
            return rows
        people = _listed_people(rows.names.tolist(), self.identities)
        return replace(rows, identities=people, spelled=frozenset(people.tolist()))

    @cached_property
    def place(self) -> Int64[np.ndarray, " rows"]:
        """The image of each row by its name, else by its position where no name is known; -1 for none."""
        assert self.rows is not None
        at = find_rows(self.rows.names.tolist(), list(self.faces.names)).rows
        place = np.array([at.get(name, -1) for name in self.rows.names.tolist()], np.int64)
        return np.arange(len(place)) if (place < 0).all() and len(place) == len(self.faces) else place

    @cached_property
    def people(self) -> np.ndarray:
        """The identity of each image, of the list of labels where there is one."""
        own = np.array(self.faces.identities)
        return own if self.identities is None else _listed_people(list(self.faces.names), self.identities)

    @cached_property
    def listed(self) -> PairList | None:
        """The list of pairs; that of a verification set by itself."""
        path = self.images if self.pairs is None and self.images.suffix.lower() == BIN else self.pairs
        return None if path is None else read_bin_pairs(path) if path.suffix.lower() == BIN else read_pairs(path)

    @cached_property
    def origin(self) -> Origin | None:
        """The origin of rows that the model makes of the set by itself."""
        model = self.opened
        return origin_of(model, bool(model.flip), torch.float32, str(self.images), self.faces.source)

    @cached_property
    def embedded(self) -> Embeddings:
        """The rows of the file, else those of some runs of neighbouring images, embedded now."""
        if self.rows is not None:
            return self.rows
        at = runs_of_neighbours(len(self.faces), _IMAGES)
        made = embed(self.opened, self.faces.select(at), str(self.images))
        return replace(made, identities=self.people[at], spelled=frozenset(self.people[at].tolist()))

    @cached_property
    def rows_of_pairs(self) -> tuple[Embeddings, PairList]:
        """The list with its rows; without a file of rows a part of the list, embedded now."""
        assert self.listed is not None
        if self.rows is not None:
            return self.rows, self.listed
        part = runs_of_neighbours(len(self.listed), _PAIRS)
        left, right = (tuple(side[at] for at in part) for side in (self.listed.left, self.listed.right))
        short = PairList(left, right, tuple(self.listed.genuine[at] for at in part), source=self.listed.source)
        at = sorted({*np.concatenate(short.positions(list(self.faces.names))).tolist()})
        return embed(self.opened, self.faces.select(at), str(self.images)), short

    @property
    def again(self) -> str:
        """The command that makes the rows."""
        return f"verisphere embed {self.model} {self.images} --out {self.embeddings or 'embeddings.npz'}"


def _listed_people(names: list[str], path: Path) -> np.ndarray:
    """The identity of each image in a list of labels; nobody where the list lacks it."""
    labels = read_labels(path)
    at = find_rows(names, list(labels.names)).rows
    return np.array([labels.identities[at[name]] if name in at else NOBODY for name in names])


def runs_of_neighbours(count: int, most: int) -> list[int]:
    """At most so many positions, in some runs that are spread evenly; all where there are no more."""
    if count <= most:
        return list(range(count))
    starts = np.linspace(0, count - most // _RUNS, _RUNS).astype(int)
    return sorted({at for start in starts.tolist() for at in range(start, start + most // _RUNS)})


def _differing(theirs: Origin | None, ours: Origin | None, but: Sequence[str] = ()) -> tuple[str, str] | None:
    """Name of the first setting by which two origins differ, and all differences in words."""
    if theirs is None or ours is None or not (differences := theirs.differences(ours, but)):
        return None
    named = next((name for word, name in _SETTINGS.items() if any(d.startswith(f"{word} ") for d in differences)), "")
    return named or "pixels", ", ".join(differences)


def origin(case: ModelCase) -> Cause | Seen:
    """Whether the rows say that this model made them, in this way."""
    if case.embeddings is None:
        return Seen("no --embeddings", "not asked")
    try:
        rows = case.rows
    except ValueError as error:
        return Cause("rows that cannot be", str(error), case.again)
    assert rows is not None
    size = case.opened.backbone.embedding_size
    if rows.embeddings.shape[1] != size:
        return Cause(
            "another model", f"{rows.embeddings.shape[1]} numbers a row, and the model gives {size}", case.again
        )
    if rows.origin is None or case.origin is None:
        return Seen("the rows do not say which model made them", "too few to tell")
    chosen = ("flip",) if case.opened.flip is None else ()
    if found := _differing(rows.origin, case.origin, chosen):
        return Cause(found[0], f"the rows were made otherwise than by the model: {found[1]}", case.again)
    return Seen("the rows say that they were made by this model in this way")


def calibration(case: ModelCase) -> Cause | Seen:
    """Whether the thresholds are for scores of this model, made in this way."""
    if case.calibration is None:
        return Seen("no --calibration", "not asked")
    calibration = read_calibration(case.calibration)
    mend = "verisphere calibrate ROWS.npz --far F --out THRESHOLDS.json, on rows of this model"
    for what, origin in (("the model", case.origin), ("the rows", case.rows.origin if case.rows else None)):
        if found := _differing(calibration.origin, origin):
            return Cause(
                "calibration of another model", f"its scores were made otherwise than {what}: {found[1]}", mend
            )
    if calibration.implausible:
        return Cause("calibration on wrong scores", calibration.implausible[0], mend)
    if calibration.origin is None or case.origin is None:
        return Seen("the calibration does not say whose scores it holds for", "too few to tell")
    return Seen("the thresholds are for scores of this model")


def numbers(case: ModelCase) -> Cause | Seen:
    """Whether the rows have numbers as a network gives them."""
    if case.rows is None:
        return Seen("no --embeddings", "not asked")
    rows = case.rows.embeddings
    person = np.unique(case.rows.identities, return_inverse=True)[1].astype(np.int64)
    if repeated := repeated_vectors(rows, person):
        return Cause("embeddings collapsed", repeated[0], case.again)
    part = np.ascontiguousarray(rows[:: -(-len(rows) // 512)])
    if not (part.view(np.uint32) & 0xFFFF).any():
        return Cause("precision", f"all numbers of {len(part)} rows are those of bfloat16", case.again)
    for largest in (np.abs(part).max(), np.abs(part).max(1, keepdims=True)):
        steps = part / (largest / 127)
        if np.abs(steps - steps.round()).max() < 1e-3:
            return Cause("precision", f"all numbers of {len(part)} rows are one of 255 steps, as of int8", case.again)
    return Seen(f"{len(rows):,} rows of {rows.shape[1]} numbers, lengths {np.linalg.norm(part, axis=1).min():.3g} to "
                f"{np.linalg.norm(part, axis=1).max():.3g}")  # fmt: skip


def people(case: ModelCase) -> Cause | Seen:
    """Whether rows, list of labels and set give each image the same person, however the people are called."""
    if case.rows is None and case.identities is None:
        return Seen("no --embeddings and no --identities", "not asked")
    own = np.array(case.faces.identities)
    place, given = (np.arange(len(own)), case.people) if case.rows is None else (case.place, case.rows.identities)
    known = place >= 0
    place, given = place[known], given[known]
    both = (own[place] != NOBODY) & (given != NOBODY)
    if both.sum() < 2:
        return Seen(f"{int(both.sum())} images have a person on both sides", "too few to tell")

    def contradictions(labels: np.ndarray) -> int:
        pairs, count = np.unique(np.stack([labels[place], given], 1)[both], axis=0, return_counts=True)
        most = [np.zeros(len(pairs)), np.zeros(len(pairs))]
        for side, largest in enumerate(most):
            np.maximum.at(largest, np.unique(pairs[:, side], return_inverse=True)[1], count)
        return int(both.sum() - min(largest.sum() for largest in most))

    allowed = max(CONTRADICTIONS * both.sum(), 1)
    wrong = contradictions(own)
    if wrong <= allowed:
        return Seen(f"{both.sum() - wrong:,} of {both.sum():,} images have the person of the set")
    evidence = f"{wrong:,} of {both.sum():,} images are under another person than in the set"
    for by in (-2, -1, 1, 2):
        if contradictions(np.roll(own, by)) <= allowed:
            evidence += f", and {contradictions(np.roll(own, by)):,} with the set moved by {by:+d}"
            return Cause("label shift", evidence, case.again)
    return Cause("label shift", f"{evidence}; they are not moved by one or two rows", case.again)


def files(case: ModelCase) -> Cause | Seen:
    """The faults that `data verify` finds, of sets that are not too large to be decoded here."""
    if not isinstance(case.faces, Photos) or len(case.faces) > _DECODED:
        return Seen(f"verisphere data verify looks at sets of files; {len(case.faces):,} images", "not asked")
    found = verify(case.faces.path, allow_single=True)
    if len(found.faults) > CONTRADICTIONS / 4 * len(case.faces):
        evidence = f"{len(found.faults):,} faults of {found.images or 0:,} images, first {found.faults[0]}"
        return Cause("damaged or repeated images", evidence, f"verisphere data verify {case.images}")
    return Seen(f"{len(found.faults)} faults of {found.images:,} images, by verisphere data verify")


def alignment(case: ModelCase) -> Cause | Seen:
    """Whether the images look aligned as the model takes them."""
    source, model = case.faces.source, case.opened
    mend = f"verisphere align PHOTOS ALIGNED --template {model.template or 'arcface_112x112'}"
    if None not in (source.template, model.template) and source.template != model.template:
        return Cause("alignment or crop", f"aligned to {source.template}, and the model takes {model.template}", mend)
    template = template_of_size(model.backbone.input_size)
    if source.drawn or template is None or source.template == template.name:
        return Seen(f"recorded: {source.alignment or 'a size without a template'}")
    if source.place in [before.place for before in _trained_on(case.model)]:
        return Seen("the model was trained on images of this place, aligned or not")
    at = np.unique(np.linspace(0, len(case.faces) - 1, SAMPLE).astype(int)).tolist()
    try:
        images = [image.permute(1, 2, 0).numpy() for image in case.faces.images(at)]
    except ValueError as error:
        return Cause("alignment or crop", str(error), mend)
    if doubt := doubt_alignment(images, template, checking_detector()):
        return Cause("alignment or crop", doubt.reason, mend)
    return Seen(f"{len(images)} images look aligned to {template.name}, or cannot be judged")


def _trained_on(model: Path) -> Sequence[ImageSource]:
    """The images that a model says it was trained on."""
    if model.is_dir() and is_model_folder(model):
        return training_record(model, read_model_json(model / NAME)).sources
    return recorded_sources(read_checkpoint(model)) if model.is_dir() else ()


def labels(case: ModelCase) -> Cause | Seen:
    """Whether labels in another order fit the scores."""
    return _implausible(case, unspecific=False)


def chance(case: ModelCase) -> Cause | Seen:
    """Whether genuine scores are as those of strangers."""
    return _implausible(case, unspecific=True)


def _implausible(case: ModelCase, unspecific: bool) -> Cause | Seen:
    """The reasons of `evaluate` why scores cannot be right; that they are at chance names no cause by itself."""
    images, reasons = np.zeros(0, int), list[str]()
    if (case.people != NOBODY).any():
        known = case.embedded.take(case.embedded.identities != NOBODY)
        images = np.unique(known.identities, return_counts=True)[1]
        reasons += implausible_set(known) if (images > 1).any() and len(images) > 1 else ()
    listed = case.listed
    of_list = not reasons and listed is not None and not listed.videos
    if listed is not None and of_list:
        rows, listed = case.rows_of_pairs
        left, right = listed.positions(rows.names.tolist())
        reasons = [*implausible_pairs(rows, Comparisons(left, right, np.array(listed.genuine)))]
    specific = [reason for reason in reasons if "no higher than impostor" not in reason]
    mend = f"verisphere evaluate all-pairs {case.embeddings or 'ROWS.npz'} after the labels were made anew"
    if of_list:
        mend = f"make the labels of {case.pairs or case.images} anew, in the order of its pairs"
    if specific and not unspecific:
        vector = "vector stands" in specific[0] or "scores are equal" in specific[0]
        name = "embeddings collapsed" if vector else "list order" if of_list else "label shift"
        return Cause(name, specific[0], mend)
    if reasons and unspecific:
        name = "list order" if not (images > 1).any() else "labels of other rows, or a model that knows nobody"
        return Cause(name, reasons[0], mend)
    if len(images[images > 1]) < (_MIXED if unspecific else 10) and listed is None:
        return Seen(f"{len(images[images > 1])} people have two images", "too few to tell")
    return Seen(f"genuine scores of {len(images[images > 1]):,} people are those of their labels")


def promise(case: ModelCase) -> Cause | Seen:
    """Whether the rates of the set are those that the calibration promises."""
    if case.calibration is None:
        return Seen("no --calibration", "not asked")
    rows = case.embedded.take(case.embedded.identities != NOBODY)
    person = np.unique(rows.identities, return_inverse=True)[1].astype(np.int64)
    pairs = torch.from_numpy(disjoint_pairs(person, 0))
    scores = pair_scores(unit_rows(rows.embeddings), pairs[:, 0], pairs[:, 1]).numpy()
    said = []
    for promised in read_calibration(case.calibration).thresholds:
        passed, target = int((scores > promised.threshold).sum()), float(exact_rate(promised.far_target))
        said.append(f"{passed} of {len(scores)} at FAR {promised.far_target}")
        if len(scores) and binomial_bounds(passed, len(scores), 1 - 2 * FALSE_ALARM)[0] > target:
            return Cause(
                "calibration of another model",
                f"{passed} of {len(scores)} comparisons of different people that share nobody pass at "
                f"{promised.threshold:.4f}, promised for FAR {promised.far_target}",
                "verisphere calibrate ROWS.npz --far F --out THRESHOLDS.json, on people like these",
            )
    return Seen(f"different people that pass: {', '.join(said)}")


def training(case: ModelCase) -> Cause | Seen:
    """Whether the model was trained on people of the set."""
    known = case.opened.trained_on
    if known is None or not len(known.people):
        return Seen("nothing is recorded of the people that the model was trained on", "too few to tell")
    names = [name for name in case.faces.people if is_name(name)]
    shared = int(np.isin(name_digests(names), known.people).sum())
    if shared:
        evidence = f"the model was trained on {shared:,} of the {len(case.faces.people):,} people, by name"
        return Cause(
            "people of the training", evidence, f"verisphere clean overlap TRAINING {case.images} --out OVERLAP"
        )
    return Seen(f"none of {len(names):,} names is of a person of the training")
