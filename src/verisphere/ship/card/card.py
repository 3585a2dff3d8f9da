"""model_card.md: the model, its accuracy, and the guarantee of its threshold, from the files beside the card alone.

Every number names the file that it comes from. Missing information is stated as missing.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from verisphere.files.calibration import Calibration, read_calibration
from verisphere.files.gallery_calibration import read_gallery_calibration
from verisphere.measure.precision import read_precision_drop
from verisphere.models.model_json import CALIBRATION, GALLERY, HEAD, LEAK, ONNX, PRECISION, RECIPE
from verisphere.report.markdown import link, plain
from verisphere.report.tables import table
from verisphere.ship.card.data import Calibrations, data_section, read_settings, recipe_section
from verisphere.ship.card.figures import Figures, evaluations_section, read_figures
from verisphere.ship.card.leak import leak_section
from verisphere.ship.card.thresholds import domains_section, gallery_section, thresholds_section
from verisphere.ship.card.words import DIGITS, Section, Sources, class_in_words, readable

_WHAT = {
    "fp16": "weights and computation in 16-bit floating point; a processor without it computes in float32 from weights "
    "that were rounded",
    "int8": "8-bit weights with a scale for each channel, and 8-bit values at both ends of each convolution and before "
    "each fully connected layer",
}


def model_card(about: Mapping[str, Any], folder: Path) -> str:
    """The card of a model, as Markdown, from the content of its `model.json` and the files of its folder."""
    files: Mapping[str, Mapping[str, Any]] = about["files"]
    recipe = read_settings(folder / RECIPE) if RECIPE in files else None
    calibrated = read_calibration(folder / CALIBRATION) if CALIBRATION in files else None
    promised = read_gallery_calibration(folder / GALLERY) if GALLERY in files else None
    figures = {name: read_figures(folder / name) for name in files if name.startswith("evaluation-")}
    # references to the files of the folder, with the beginning of their digests
    source = {name: f"{link(name)}, SHA-256 {known['sha256'][:DIGITS]}" for name, known in files.items()}
    sections = [
        _head(about, (calibrated, promised)),
        data_section(about, recipe, (calibrated, promised), figures, source),
        recipe_section(about, recipe, source),
        precision_section(about, folder, source.get(PRECISION, "")),
        thresholds_section(about, calibrated, source),
        gallery_section(promised, source.get(GALLERY, "")),
        domains_section(calibrated, figures, source),
        evaluations_section(figures, source),
        _limits(about),
        _privacy(recipe, calibrated, figures, source),
        leak_section(folder, source.get(LEAK)),
        _use(about),
        _files(files),
    ]
    return "\n\n".join(block for section in sections for block in section) + "\n"


def _head(about: Mapping[str, Any], calibrations: Calibrations) -> Section:
    height, width = about["preprocessing"]["size"]
    yield f"# {plain(about['name'])}"
    calibrated, promised = calibrations
    for whose, found in (("", calibrated), ("for a gallery ", promised)):
        threshold = found.thresholds[0] if found else None
        if threshold and (warning := threshold.warning()):
            what = "Implausible scores" if threshold.implausible else "Probes of the training"
            what = "Calibrated on people of the training" if threshold.in_training else what
            said = f"{whose}{warning}"
            yield f"**{what}.** {plain(said[0].upper() + said[1:])}."
    weak = calibrated.thresholds[0].weak_checks if calibrated else ""
    if weak:
        yield f"**Checks that say little.** {plain(weak[0].upper() + weak[1:])}."
    yield (
        f"A face recognition model. It turns an aligned face ({height} x {width} pixels, template "
        f"{plain(about['template'])}) into {about['embedding_size']} numbers. Two faces are compared by the cosine of "
        "their embeddings, the score, and taken for one person iff score > threshold."
    )
    adopted = about.get("adopted")
    verb, flip = (
        "Adopted" if adopted is not None else "Exported",
        "added before the cosine" if about["flip"] else "not added",
    )
    if adopted is not None and adopted.get("flip") not in (None, about["flip"]):
        flip += f", but the model was adopted {'with' if adopted['flip'] else 'without'} it"
    yield (
        f"Network: {class_in_words(about['backbone'])}; the embedding of the mirror image is "
        f"{flip}. {verb} by verisphere "
        f"{plain(about['verisphere'])} with PyTorch {plain(about['torch'])}. (From [model.json](model.json).)"
    )


def precision_section(about: Mapping[str, Any], folder: Path, source: str) -> Iterator[str]:
    """The smaller precision and its cost, with the reference to its figures; empty for a network in float32."""
    reduced = about.get("reduced")
    if reduced is None:
        return
    drop = read_precision_drop(folder / PRECISION)
    yield "## Precision"
    yield (
        f"The network runs in {reduced['precision']}: {_WHAT[reduced['precision']]}. It was made of weights in float32 "
        f"with SHA-256 {plain(reduced['weights'][:DIGITS])}. Its scores differ from those in float32, so a threshold "
        "found in one precision does not hold for the other."
    )
    yield "\n".join(f"- {readable(line)}." for line in drop.lines())
    yield drop.table()
    notes = [f"{readable(line)}." for line in drop.notes()]
    yield " ".join([*notes, f"From {source}."])


def _limits(about: Mapping[str, Any]) -> Section:
    yield "## Limits"
    yield (
        f"- Faces have to be aligned to {plain(about['template'])}, by the detector that the calibration images went "
        "through: another one, or other crops, shift scores.\n"
        "- A score is no probability, and scores of two models cannot be compared.\n"
        "- Faces seen from the side, covered, very small or blurred, and children's, are known to be harder for such "
        "models; the figures above say how much only where they have a domain for it.\n"
        "- No decision that matters to a person should rest on this model alone."
    )


def _privacy(
    recipe: Mapping[str, Any] | None, calibrated: Calibration | None, figures: Mapping[str, Figures], source: Sources
) -> Section:
    yield "## Privacy"
    head = (
        f"The centers of the people trained on are inside ({source[HEAD]}). Each is a biometric template of one "
        "person: treat the file as data about them, and ship it only if they may be shipped."
        if HEAD in source
        else "The head is not inside: its centers are biometric templates of the people trained on, and using the "
        "model does not need them."
    )
    yield (
        f"{head} Embeddings are biometric data too: a face that resembles the person can be made from one, and people "
        "can be found again by it. Networks can remember training images in part. Whether faces may be collected, "
        "stored and compared, and with whose consent, is for the law of the place (in the European Union the GDPR, "
        "article 9, and the AI Act) and has to be settled before use."
    )
    paths = [RECIPE] if recipe is not None else []
    paths += [CALIBRATION] if calibrated is not None and calibrated.origin is not None else []
    paths += [name for name, figure in figures.items() if any(file.origin is not None for file in figure.sources)]
    if paths:
        yield (
            f"Paths, as they were typed on the machine that made these files, stand in {', '.join(map(plain, paths))}."
        )


def _use(about: Mapping[str, Any]) -> Section:
    height, width = about["preprocessing"]["size"]
    yield "## Use"
    yield (
        "```python\n"
        "import verisphere\n\n"
        'model = verisphere.load("FOLDER")\n'
        f"embeddings = model.embed(faces)  # uint8 RGB, (n, {height}, {width}, 3), aligned; gives (n, "
        f"{about['embedding_size']}) float32\n"
        "```"
    )
    yield (
        "```sh\n"
        "verisphere verify --model FOLDER one.jpg other.jpg\n"
        "verisphere identify --model FOLDER probe.jpg gallery/\n"
        "```"
    )
    if ONNX in about["files"]:
        yield (
            f"[{ONNX}]({ONNX}) does all of this in any ONNX runtime: input `images`, float32 (n, 3, {height}, "
            f"{width}), RGB in [0, 255], not normalised; output `embeddings`, float32 (n, {about['embedding_size']})."
            + (" The mirror image's embedding is added inside." if about["flip"] else "")
            + " Divide by the length before taking dot products. Its metadata says the same."
        )


def _files(files: Mapping[str, Mapping[str, Any]]) -> Section:
    yield "## Files"
    yield table(
        ["file", "bytes", "SHA-256"],
        [[plain(name), f"{digest['bytes']:,}", digest["sha256"]] for name, digest in files.items()],
    )
    yield "[model.json](model.json) holds the same digests, and this card's; `verisphere.load` checks them all."
