"""`verisphere why`: the checks of a model on a set, and those of a run, in their order."""

from pathlib import Path

from verisphere.base.vocabulary import Progress, quietly
from verisphere.study.why import of_model, of_pairs, of_pixels, of_run
from verisphere.study.why.answer import Answer, Checks, answered
from verisphere.study.why.of_model import ModelCase
from verisphere.study.why.of_run import RunCase

#: The cheapest first, and what names a cause before what says only that there is one. What makes figures too good comes
#: last: it hides nothing that the others find.
OF_MODEL: Checks[ModelCase] = {
    "origin of the rows": of_model.origin,
    "calibration": of_model.calibration,
    "numbers of the rows": of_model.numbers,
    "people of the rows": of_model.people,
    "list of pairs": of_pairs.labels_and_folds,
    "files": of_model.files,
    "rows of the images": of_pixels.of_rows,
    "alignment": of_model.alignment,
    "labels": of_model.labels,
    "flags of the pairs": of_pairs.flags,
    "pixels": of_pixels.of_network,
    "chance": of_model.chance,
    "promise": of_model.promise,
    "people of the training": of_model.training,
}
OF_RUN: Checks[RunCase] = {
    "learning rate": of_run.rate,
    "start of the loss": of_run.start,
    "data": of_run.data,
    "validation": of_run.validation,
    "centers": of_run.centers,
}


def why(
    model: Path,
    images: Path | None = None,
    *,
    embeddings: Path | None = None,
    pairs: Path | None = None,
    calibration: Path | None = None,
    identities: Path | None = None,
    trust_code: bool = False,
    progress: Progress = quietly,
) -> Answer:
    """The first cause of figures that disagree, of a model on a set of images; or, without images, why a run failed.

    Args:
        model: model folder, run, checkpoint or ONNX file; without images the folder of a run.
        images: set of images.
        embeddings: rows that were made of the images.
        pairs: list of pairs of the images.
        calibration: thresholds to which scores are held.
        identities: list of labels, by which people are compared in place of the set's own.
        trust_code: also build classes from outside verisphere, which runs their code.
        progress: reports the progress over the checks.

    Raises:
        ValueError: something cannot be read, or is given without the images that it is about.
    """
    if images is not None:
        case = ModelCase(model, images, embeddings, pairs, calibration, identities, trust_code)
        return answered(f"{model} on {images}", case, OF_MODEL, progress)
    given = {"embeddings": embeddings, "pairs": pairs, "calibration": calibration, "identities": identities}
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"--{name} is about a set of images; name the set after the model")
    if not (model / "recipe.yaml").is_file() or not (model / "people.txt").is_file():
        raise ValueError(
            f"{model}: not the folder of a run (recipe.yaml, people.txt); after a model name a set of images"
        )
    return answered(str(model), RunCase(model, trust_code), OF_RUN, progress)
