"""`verisphere why`: the checks of a model on a set, and those of a run, in their order."""

from dataclasses import replace
from pathlib import Path

from verisphere.base.vocabulary import Progress, quietly
from verisphere.study.why import of_model, of_pairs, of_pixels, of_rows, of_run
from verisphere.study.why.answer import Answer, Checks, answered
from verisphere.study.why.case import ModelCase
from verisphere.study.why.of_run import RunCase

_EMBED = "verisphere embed {case.model} {case.images} --out {case.rows_file}"
_CALIBRATE = "verisphere calibrate ROWS.npz --far F --out THRESHOLDS.json, on rows of this model and people like these"
_LIST = (
    "write the list anew as CSV with the columns left,right,label,fold, the label of each pair beside its two images"
)
_LABELS = (
    "verisphere evaluate all-pairs {case.rows_file} after the labels were made anew; verisphere clean finds single ones"
)
#: The cheapest first, and what names a cause before what says only that there is one. What makes figures too good comes
#: last: it hides nothing that the others find.
OF_MODEL: Checks[ModelCase] = (
    ("origin of the rows", of_model.origin, _EMBED),
    ("calibration", of_model.calibration, _CALIBRATE),
    ("numbers of the rows", of_model.numbers, _EMBED),
    ("people of the rows", of_model.people, _EMBED),
    ("list of pairs", of_pairs.labels_and_folds, _LIST),
    ("files", of_model.files, "verisphere data verify {case.images}"),
    ("rows of the images", of_rows.rows, _EMBED),
    ("pixels", of_pixels.pixels, "verisphere align PHOTOS ALIGNED --template {case.template}"),
    ("labels", of_model.labels, _LABELS),
    ("flags of the pairs", of_pairs.flags, _LIST),
    ("promise", of_model.promise, _CALIBRATE),
    ("people of the training", of_model.training, "verisphere clean overlap TRAINING {case.images} --out OVERLAP"),
)
OF_RUN: Checks[RunCase] = (
    ("learning rate", of_run.rate, "verisphere train RECIPE --optimizer.rate LOWER --out ANEW, say a tenth"),
    ("start of the loss", of_run.start, "verisphere train RECIPE --schedule.margin_warmup STEPS --out ANEW, with "
          "a smaller margin or another rate; then look at labels by data verify"),
    ("data", of_run.data, "restore the data of the recipe, or train anew"),
    ("validation", of_run.validation, "verisphere clean overlap TRAINING VALIDATION --out OVERLAP, and train on "
          "its kept.txt"),
    ("labels", of_run.labels, "make the labels of the training anew, in the order of its images"),
    ("centers", of_run.centers, "verisphere clean run {case.run}"),
)  # fmt: skip


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
        identities: list of labels, by which people are compared in place of the set's own.
        trust_code: also build classes from outside verisphere, which runs their code.
    """
    if images is not None:
        case = ModelCase(model, images, embeddings, pairs, calibration, identities, trust_code)
        return replace(answered(f"{model} on {images}", case, OF_MODEL, progress), names_rule=case.names_rule)
    given = {"embeddings": embeddings, "pairs": pairs, "calibration": calibration, "identities": identities}
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"--{name} is about a set of images; name the set after the model")
    if not (model / "recipe.yaml").is_file() or not (model / "people.txt").is_file():
        raise ValueError(
            f"{model}: not the folder of a run (recipe.yaml, people.txt); after a model name a set of images"
        )
    run = RunCase(model, trust_code)
    return replace(answered(str(model), run, OF_RUN, progress), names_rule=run.names_rule)
