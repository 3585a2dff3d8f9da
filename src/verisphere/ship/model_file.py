"""An ONNX file in place of a model folder: known by the catalogue, or probed and then without a verdict."""

import hashlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from verisphere.base.device import choose_device
from verisphere.base.vocabulary import ImageSource, Progress, printable, quietly
from verisphere.decide import Far, lower_median
from verisphere.decide.sample_size import people_needed
from verisphere.files.onnx_graph import read_graph
from verisphere.files.results import Result
from verisphere.images.detect import FaceDetector, detector_named
from verisphere.images.detect.unaligned import warn_if_files_unaligned
from verisphere.models.folder import Model, is_model_folder, load
from verisphere.ship.adopt import adopt_onnx
from verisphere.ship.catalogue import CatalogueEntry, PairThreshold, catalogue
from verisphere.ship.face_search import FindFaces, aligned_faces, detected_faces, recorded_alignments
from verisphere.ship.notes import notes_on_faces, notes_on_skipped
from verisphere.ship.people import Person, embedded_person, scores_between
from verisphere.ship.pixels import Told
from verisphere.ship.probe import ProbeResult

_FAR = "1e-2"  # of the calibration that is proposed


@dataclass(frozen=True, eq=False)
class ModelFile(Model):
    """A model that was opened from its file, with its entry of the catalogue; it has no `thresholds` and no promise.

    Attributes:
        probe: where there is no entry, what a probe on drawn faces found.
    """

    entry: CatalogueEntry | None = None
    takes: str = ""
    probe: ProbeResult | None = None

    def borrowed(self, far: Far | None = None) -> PairThreshold:
        """The threshold of the catalogue at a FAR, which was measured on somebody else's people."""
        if self.entry is None:
            raise ValueError(
                f"{self.folder}: no entry of the catalogue (SHA-256 {self.sha256[:12]}...), so no threshold is known; "
                f"for a threshold of yours: {'; '.join(_commands(self))}"
            )
        return self.entry.threshold(far)


def model_at(
    path: Path, device: torch.device | str | None = None, trust_code: bool = False, progress: Progress = quietly
) -> Model:
    """The model at a path: in a folder, or of an ONNX file, which is checked and first run as `adopt` does it.

    A file of a model folder is refused as any file is: its folder may ship a threshold.
    """
    if path.suffix.lower() != ".onnx" or not path.is_file() or is_model_folder(path.parent):
        return load(path, device, trust_code)
    entry = catalogue().get(hashlib.sha256(read_graph(path)[0]).hexdigest())
    with TemporaryDirectory() as folder:
        out = Path(folder) / "model"
        try:
            if entry is None:
                adopted = adopt_onnx(path, out, Told(colour="RGB"), probe_drawn=True, progress=progress)
            else:
                adopted = adopt_onnx(path, out, entry.takes, flip=entry.flip)
        except ValueError as error:
            told = "; `verisphere adopt` has these options, and --model takes its folder" if "--" in str(error) else ""
            raise ValueError(f"{error}{told}") from None
        model = load(out, device)
    return ModelFile(**{**vars(model), "folder": path}, entry=entry, takes=adopted.takes(), probe=adopted.probed)


def model_and_finder(
    model: str | Path | Model,
    photographs: Sequence[Path],
    aligned: bool = False,
    detector: str | FaceDetector | None = None,
    min_face: int | None = None,
    trust_code: bool = False,
    device: str | None = None,
    *,
    others: bool,
    files: bool = False,
    progress: Progress = quietly,
) -> tuple[Model, FindFaces]:
    """A model, of `files` also one in its ONNX file, and the function that finds its faces, on request others too."""
    finding = [name for name, value in {"detector": detector, "min_face": min_face}.items() if value is not None]
    if finding and (aligned or not photographs):
        no_face = "aligned looks for no face" if aligned else "no photograph is given"
        raise ValueError(f"{finding[0]} is not used: {no_face}; omit it")
    if min_face is not None and not isinstance(detector, str | None):
        raise ValueError("min_face is not used: a detector that is no name has its own smallest face; omit it")
    place = choose_device(device)
    if isinstance(model, Model):
        opened = model
    else:
        opened = model_at(Path(model), place, trust_code, progress) if files else load(model, place, trust_code)
    if aligned or not photographs:
        for path in photographs if files else ():
            warn_if_files_unaligned(path, opened.backbone.input_size, drawn=bool(opened.training.drawn))
        for path in photographs:
            for alignment in recorded_alignments([path]):
                ImageSource("", None, alignment).check_template(opened.template, path)
        return opened, aligned_faces(opened.backbone.input_size, recorded_alignments(photographs))
    if detector is None or isinstance(detector, str):
        detector = detector_named(detector or "mtcnn", place, 20 if min_face is None else min_face, trust_code)
    return opened, detected_faces(opened.template, detector, others=others)


def pair_threshold(model: Model, far: Far | None = None) -> PairThreshold:
    """The threshold for two photographs that a model ships, or that the catalogue has for its file."""
    return model.borrowed(far) if isinstance(model, ModelFile) else model.threshold(far)


@dataclass(frozen=True)
class ScoreOnly(Result):
    """The score of two photographs by a model for which no threshold is known: no verdict, and how to get one.

    Attributes:
        score: the score; of several the lower median.
        people: number of people whose photographs a verdict takes.
    """

    score: float
    comparisons: int
    notes: tuple[str, ...]
    model: str
    sha256: str
    takes: str
    probe: ProbeResult
    people: int
    commands: tuple[str, ...]
    left: Person
    right: Person

    def text(self, *, explain: bool = False) -> str:
        """The score, what the probe found, and the commands."""
        score = f"score {self.score:.4f}" if self.comparisons == 1 else f"median score {self.score:.4f}"
        lines = [
            *self.notes,
            f"No verdict: {score}, and no threshold is known for {printable(self.model)} (SHA-256 "
            f"{self.sha256[:12]}... is no entry of the catalogue).",
            self.takes,
            self.probe.text(),
            f"For a verdict, with photographs of {self.people:,} people or more like yours, a folder each, whom the "
            "model was not trained on:",
            *(f"  {command}" for command in self.commands),
        ]
        return "\n".join([*lines, *notes_on_skipped(self.left), *notes_on_skipped(self.right)])


def score_only(
    left: Path, right: Path, model: ModelFile, find: FindFaces, far: Far | None = None, progress: Progress = quietly
) -> ScoreOnly:
    """The score of two photographs, or sets of them, by a file that is no entry; the FAR is that of a verdict later."""
    first, second = (embedded_person(path, model, find, progress) for path in (left, right))
    scores = scores_between(first.rows, second.rows).flatten()
    assert model.probe is not None
    return ScoreOnly(
        score=lower_median(scores),
        comparisons=len(scores),
        notes=tuple(notes_on_faces(first.person, second.person)),
        model=str(model.folder),
        sha256=model.sha256,
        takes=model.takes,
        probe=model.probe,
        people=people_needed(far or _FAR, "confident"),
        commands=_commands(model, left, right, far=far or _FAR),
        left=first.person,
        right=second.person,
    )


def _commands(model: ModelFile, *photographs: Path, far: Far = _FAR) -> tuple[str, ...]:
    compared = [str(path) for path in photographs] or ["A.jpg", "B.jpg"]
    words: Sequence[Sequence[str]] = (
        ("align", "PHOTOS", "faces", "--template", model.template),
        ("adopt", str(model.folder), "--probe", "faces", "--out", "adopted"),
        ("embed", "adopted", "faces", "--out", "faces.npz"),
        ("calibrate", "faces.npz", "--far", str(far), "--out", "calibration.json"),
        ("export", "adopted", "--calibration", "calibration.json", "--out", "shipped"),
        ("verify", *compared, "--model", "shipped"),
    )
    return tuple(f"verisphere {shlex.join(map(printable, command))}" for command in words)
