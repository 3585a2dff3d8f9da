"""The slogan from Python: a training, a model made elsewhere, two photographs, a photograph and a gallery."""

from pathlib import Path
from typing import Any

from verisphere.backbones.backbone import Colour, Layout
from verisphere.base.device import choose_device
from verisphere.base.identity import names_taken
from verisphere.base.vocabulary import Progress, quietly
from verisphere.base.words import Names
from verisphere.decide import Far
from verisphere.files.metrics import METRICS, read_metrics
from verisphere.images.detect import FaceDetector, detector_named
from verisphere.measure.validation import validation_figures
from verisphere.models.folder import Model
from verisphere.models.foreign_names import SOURCES
from verisphere.models.foreign_weights import SUFFIXES as CHECKPOINTS
from verisphere.report.outcome import TrainingOutcome, training_outcome
from verisphere.ship.adopt import AdoptResult, adopt_callable, adopt_onnx, adopt_weights
from verisphere.ship.deciding import Choice
from verisphere.ship.identify import Identification
from verisphere.ship.identify import identify as identify_by
from verisphere.ship.model_file import ScoreOnly, model_and_finder
from verisphere.ship.opened_gallery import is_embeddings
from verisphere.ship.pixels import Told
from verisphere.ship.verify import Verification
from verisphere.ship.verify import verify as verify_by
from verisphere.train.recipe import read_training
from verisphere.train.session import train_run


def train(
    recipe: str | Path,
    out: str | Path,
    *,
    resume: bool = False,
    device: str | None = None,
    threads: int | None = None,
    tensorboard: bool = False,
    progress: Progress = quietly,
    **fields: Any,
) -> TrainingOutcome:
    """Train as a recipe says, into the folder of a run, as `verisphere train` does.

    >>> train("photos", "runs/first", epoch=2)
    Traceback (most recent call last):
        ...
    ValueError: photos: there is no field 'epoch' (did you mean epochs?); ...

    Args:
        recipe: a YAML file, or a name that `verisphere recipes` lists.
        out: folder of the run.
        resume: continue from the newest checkpoint of the run.
        device: device to train on; by default a GPU if there is one.
        threads: number of CPU threads.
        tensorboard: also write TensorBoard events (extra `track`).
        progress: reports the progress over the steps.
        fields: values over those of the recipe; a dotted name reaches inside, as `**{"data.path": "faces"}`.

    Returns:
        The course of loss and validation; `verisphere embed` and `verisphere export` take the folder.

    Raises:
        ValueError: the recipe has no such field, a value does not fit, or its `distill` names no teachers.
        FileNotFoundError: there is no such recipe.
        verisphere.train.TrainingStopped: the training was stopped; a checkpoint was saved.
    """
    about: dict[str, Any] = {"resume": resume, "device": device, "threads": threads, "tensorboard": tensorboard}
    read = read_training(recipe, (), tuple(fields.items()))
    train_run(read, Path(out), measure=validation_figures, **about, progress=progress)
    return training_outcome(read_metrics(Path(out) / METRICS))


def adopt(
    model: str | Path,
    out: str | Path,
    *,
    preset: str | None = None,
    size: tuple[int, int] | None = None,
    colour: Colour | None = None,
    mean: float | None = None,
    scale: float | None = None,
    layout: Layout | None = None,
    template: str | None = None,
    output: str | None = None,
    flip: bool = False,
    trainable: bool = False,
    probe: str | Path | None = None,
    detector: str | FaceDetector | None = None,
    name: str | None = None,
    source: str | None = None,
    licence: str | None = None,
    trust_code: bool = False,
    names: Names | None = None,
    progress: Progress = quietly,
) -> AdoptResult:
    """Make a model folder of a model made elsewhere, as `verisphere adopt` does; `verisphere.load` opens it.

    >>> adopt("backbone.pth", "model")
    Traceback (most recent call last):
        ...
    ValueError: backbone.pth: a checkpoint does not say whose network it fills; give --preset with one of ...

    Args:
        model: an ONNX file, a checkpoint of PyTorch, or `module:function`.
        out: folder to make.
        preset: name of a project, whose models take such pixels, or whose network a checkpoint fills.
        size, colour, mean, scale, layout, template, output: what an ONNX file or a function takes (`Told`).
        flip: whether the embedding of the mirror image is added.
        trainable: read the graph into a network that can be trained.
        probe: a set of people with two images or more, to measure what an ONNX file takes.
        detector: what finds the faces on the photographs of the probe.
        name, source, licence: what the card of the model says.
        trust_code: load functions and classes of data sets from outside verisphere, which runs their code.
        names: see `verisphere.evaluate`; for the people of the probe.
        progress: reports the progress of the probe.

    Raises:
        ValueError: the model cannot be read, what it takes is not known, or an argument does not apply to its kind.
    """
    told, path, into = Told(size, colour, mean, scale, layout, template, output), Path(model), Path(out)
    shared: dict[str, Any] = {"flip": flip, "name": name, "licence": licence}
    of_onnx: dict[str, Any] = {"probe": probe, "detector": detector, "trainable": trainable}
    if ":" in str(model) and not path.exists():
        for option, value in {"preset": preset, **of_onnx}.items():
            if value:
                raise ValueError(f"--{option} is for ONNX files; {model} is a function")
        return adopt_callable(str(model), into, told, **shared, source=source, trust_code=trust_code)
    if path.suffix.lower() in CHECKPOINTS:
        for option, value in {**vars(told), **of_onnx}.items():
            if option != "template" and value is not None and value is not False:
                raise ValueError(
                    f"{model}: --{option} describes an ONNX file; what a checkpoint takes is said by --preset alone"
                )
        if preset is None:
            raise ValueError(
                f"{model}: a checkpoint does not say whose network it fills; give --preset with one of "
                f"{', '.join(SOURCES)}"
            )
        if preset not in SOURCES:
            raise ValueError(
                f"{model}: --preset {preset} is for ONNX files; the checkpoints that can be read are those of "
                f"{', '.join(SOURCES)}"
            )
        return adopt_weights(path, into, preset, **shared, template=template, published=source)
    if detector is not None and probe is None:
        raise ValueError("--detector finds the faces on the photographs of --probe, and no --probe is given")
    if isinstance(detector, str):
        detector = detector_named(detector, choose_device(None), trust_code=trust_code)
    of_onnx |= {"probe_with": None if probe is None else Path(probe), "detector": detector, "trust_code": trust_code}
    del of_onnx["probe"]
    with names_taken(names):
        return adopt_onnx(path, into, told, **shared, **of_onnx, preset=preset, source=source, progress=progress)


def verify(
    left: str | Path,
    right: str | Path,
    model: str | Path | Model,
    *,
    far: Far | None = None,
    probability: float | None = None,
    aligned: bool = False,
    detector: str | FaceDetector | None = None,
    min_face: int | None = None,
    accept_drawn_model: bool = False,
    trust_code: bool = False,
    device: str | None = None,
    progress: Progress = quietly,
) -> Verification | ScoreOnly:
    """Whether two photographs, or two folders of them, show the same person, as `verisphere verify` decides it.

    >>> verify("a.jpg", "b.jpg", "no-such-model")
    Traceback (most recent call last):
        ...
    FileNotFoundError: no-such-model: there is no such model folder

    Args:
        left, right: photograph, or folder or zip archive of one person's.
        model: model folder, a model that is loaded, or an ONNX file: of one in the catalogue a threshold decides that
            was measured on somebody else's people, and of any other one there is a score and no verdict.
        far: FAR of the threshold, where there are several (1e-3 of the catalogue).
        probability: prior of one person, to state the probability after the comparison.
        aligned: the photographs are aligned crops.
        detector: what finds the faces: a name as `--detector` takes it, or a `FaceDetector` (mtcnn).
        min_face: side of the smallest face that is looked for, in pixels (20).
        accept_drawn_model: accept a model that was trained or calibrated on drawn faces.
        trust_code: load classes and functions from outside verisphere, which runs their code.
        device: device of the model; by default a GPU if there is one.
        progress: reports the progress over the photographs.

    Returns:
        The decision with its promise, or the score alone.

    Raises:
        ValueError: no face is found, or the model has no threshold, or none at this FAR.
        FileNotFoundError: there is no such photograph or model.
    """
    sides = Path(left), Path(right)
    opened, find = model_and_finder(
        model, sides, aligned, detector, min_face, trust_code, device, others=True, files=True, progress=progress
    )
    told: dict[str, Any] = {"accept_drawn": accept_drawn_model, "progress": progress}
    return verify_by(*sides, opened, find, far=far, probability=probability, **told)


def identify(
    probe: str | Path,
    gallery: str | Path,
    model: str | Path | Model,
    *,
    far: Far | None = None,
    fpir: Far | None = None,
    calibration: str | Path | None = None,
    cohort: str | Path | None = None,
    top: int = 5,
    names: Names | None = None,
    accept_pair_threshold: bool = False,
    aligned: bool = False,
    detector: str | FaceDetector | None = None,
    min_face: int | None = None,
    accept_drawn_model: bool = False,
    trust_code: bool = False,
    device: str | None = None,
    progress: Progress = quietly,
) -> Identification:
    """Who of a gallery a photograph shows, or nobody, as `verisphere identify` decides it.

    >>> identify("a.jpg", "people", "no-such-model")
    Traceback (most recent call last):
        ...
    FileNotFoundError: no-such-model: there is no such model folder

    Args:
        probe: photograph, or folder or zip archive of one person's.
        gallery: folder or zip archive with a folder a person, an embeddings file, or a living gallery.
        fpir: FPIR of the threshold of the gallery, where there are several.
        calibration: calibration of this gallery; by default that of the model folder.
        cohort: embeddings of the cohort that the calibration names.
        top: how many matches to list.
        names: see `verisphere.evaluate`.
        accept_pair_threshold: accept a threshold for two photographs by which a stranger is found with a chance of
            more than a tenth.
        model, far, aligned, detector, min_face, accept_drawn_model, trust_code, device, progress: see `verify`; an
            ONNX file must be in the catalogue.

    Raises:
        ValueError: the gallery is not the one that the threshold was promised for, or no threshold is known.
    """
    searched, enrolled = Path(probe), Path(gallery)
    photographs = [path for path in (searched, enrolled) if not is_embeddings(path)]
    opened, find = model_and_finder(
        model, photographs, aligned, detector, min_face, trust_code, device, others=True, files=True, progress=progress
    )
    named = [None if path is None else Path(path) for path in (calibration, cohort)]
    choice = Choice(far, fpir, named[0], named[1], accept_drawn_model, accept_pair_threshold)
    with names_taken(names):
        return identify_by(searched, enrolled, opened, find, choice, top=top, progress=progress)
