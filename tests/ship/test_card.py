"""The model card: what it says comes from files that it names, and what is missing is said to be missing."""

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from verisphere.base.vocabulary import Embeddings, Origin, Preprocessing
from verisphere.files.calibration import read_calibration
from verisphere.files.embeddings import write_embeddings
from verisphere.measure.evaluate import Options, evaluate_all_pairs
from verisphere.report.markdown import plain
from verisphere.ship.calibrate import calibrate
from verisphere.ship.card.card import model_card
from verisphere.ship.card.data import read_settings
from verisphere.ship.card.figures import read_figures

RECIPE = """\
data: {class_path: verisphere.images.Photos, init_args: {path: /home/somebody/faces.zip, min_images: 2}}
backbone: {class_path: verisphere.backbones.MobileFaceNet, init_args: {width: 0.5}}
loss: {class_path: verisphere.losses.ArcFace, init_args: {margin: 0.3, scale: 32.0}}
optimizer: {name: sgd, rate: 0.1}
epochs: 36.0
batch_size: 64
"""
MODEL = "ab" * 32


def embeddings(people: int, seed: int = 0, origin: Origin | None = None) -> Embeddings:
    """Two images a person, near each other; half of the people in each of two domains."""
    random = np.random.default_rng(seed)
    centers = random.normal(size=(people, 16)).repeat(2, 0)
    person = np.arange(people).repeat(2)
    return Embeddings(
        (centers + 1.2 * random.normal(size=centers.shape)).astype(np.float32),
        names=np.array([f"{seed}/{row}" for row in range(2 * people)]),
        identities=np.array([f"{seed}/{number}" for number in person]),
        domains=np.where(person % 2 == 0, "in|side", "<out>side"),
        origin=origin,
    )


def write_inputs(folder: Path, origin: Origin | None) -> None:
    """Files such as an export copies, made by the workflows that make them."""
    if origin is not None:
        origin = replace(origin, preprocessing=Preprocessing((112, 112), "RGB", "NCHW", 127.5, 127.5))
    write_embeddings(folder / "people.npz", embeddings(200, origin=origin))
    write_embeddings(folder / "others.npz", embeddings(60, 1, origin=origin))
    found = calibrate(folder / "people.npz", ["0.1", "5e-2"], "confident", checks=[folder / "others.npz"])
    found.write_json(folder / "calibration.json")
    options = Options(["1e-1", "1e-4", "1e-9"])
    evaluate_all_pairs(folder / "others.npz", options).write_json(folder / "evaluation-others.json")
    (folder / "recipe.yaml").write_text(RECIPE)


SOURCE = {"place": "lfw.zip", "drawn": False, "alignment": "arcface_112x112 by MTCNN"}


def about(folder: Path, names: list[str], **changes: Any) -> dict[str, Any]:
    """The content of model.json for these files."""
    digests = {name: {"sha256": hashlib.sha256((folder / name).read_bytes()).hexdigest(), "bytes": 1} for name in names}
    return {
        "name": "tiny",
        "verisphere": "0.1.0",
        "torch": "2.13.0",
        "backbone": {"class_path": "verisphere.backbones.MobileFaceNet", "init_args": {"width": 0.5}},
        "embedding_size": 16,
        "template": "arcface_112x112",
        "preprocessing": {"size": [112, 112], "colour": "RGB", "mean": 127.5, "scale": 127.5, "layout": "NCHW"},
        "flip": True,
        "thresholds": [],
        "training": {"step": 3744, "images": 6671, "people": 1184, "seed": 0, "sources": [SOURCE]},
        "files": digests,
    } | changes


ALL = ["recipe.yaml", "calibration.json", "evaluation-others.json", "head.safetensors", "model.onnx"]


@pytest.fixture(scope="module")
def full(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("card")
    write_inputs(folder, Origin(MODEL, True, "float32", "somewhere"))
    for name in ("head.safetensors", "model.onnx"):
        (folder / name).write_text(name)
    return folder


@pytest.fixture(scope="module")
def card(full) -> str:
    return model_card(about(full, ALL), full)


def section(card: str, title: str) -> str:
    return re.split(r"^## ", card.partition(f"## {title}\n")[2], flags=re.MULTILINE)[0]


def test_it_says_what_the_model_was_trained_on_and_how(card):
    assert card.startswith("# tiny\n")
    assert "6,671 images of 1,184 people" in section(card, "Data")
    recipe = section(card, "Recipe")
    for said in ("ArcFace(margin=0.3, scale=32.0)", "MobileFaceNet(width=0.5)", "epochs 36.0, batch_size 64", "3,744"):
        assert said in recipe
    assert "optimizer: name=sgd, rate=0.1" in recipe


def test_paths_of_the_machine_stay_out_of_it(card, full):
    assert "faces.zip" in card
    assert "/home/" not in card
    assert str(full) not in card


def test_every_threshold_comes_with_its_meaning_and_its_file(card, full):
    calibration = json.loads((full / "calibration.json").read_text())
    text = section(card, "Threshold")
    for threshold in calibration["thresholds"]:
        assert threshold["meaning"] in text
        assert f"{threshold['threshold']:.6f}" in text
    assert "SHA-256 " + hashlib.sha256((full / "calibration.json").read_bytes()).hexdigest()[:12] in text
    assert "the export checked that it is this one" in text
    for uncovered in ("attacks", "gallery", "any one domain", "unlike those of the calibration set"):
        assert uncovered in text


def test_domains_are_shown_at_the_shipped_threshold(card, full):
    calibration = json.loads((full / "calibration.json").read_text())
    text = section(card, "Domains at one threshold")
    for check in calibration["checks"]:
        for domain, points in check["domains"].items():
            shown = domain.replace("|", "\\|").replace("<", "&lt;").replace(">", "&gt;")  # not obeyed as Markdown
            for point in points:
                assert f"At the threshold {point['threshold']:.6f} (FAR {point['far_target']})" in text
                figures = f"{point['tar']:.4f}", f"{point['far']:.3g}", f"{point['impostor_total']:,}"
                assert any(
                    line.startswith(f"| {shown} ") and all(f" {figure} |" in line for figure in figures)
                    for line in text.splitlines()
                )
    assert text.count("This is the set that the threshold was chosen on.") == 2
    assert "One threshold " in text  # the evaluation's own, said to be another
    assert text.count("it is not the one shipped") == 3


@pytest.mark.parametrize(
    ("asked", "said", "unsaid"),
    [
        ({"guarantee": "worst-group", "factor": 2.0}, "- other domains than those named above", "- any one domain"),
        ({"frr": "0.3"}, "- several thresholds at once: each promise holds by itself.", "- the other error"),
    ],
)
def test_what_is_promised_is_not_said_to_be_uncovered(full, tmp_path, asked, said, unsaid):
    calibrate(full / "people.npz", ["0.1"], **asked).write_json(tmp_path / "calibration.json")
    text = section(model_card(about(tmp_path, ["calibration.json"]), tmp_path), "Threshold")
    assert said in text
    assert unsaid not in text


def test_operating_points_are_the_evaluation_s(card, full):
    evaluation = json.loads((full / "evaluation-others.json").read_text())
    text = section(card, "Operating points")
    for point in evaluation["operating_points"]:
        assert point["below_resolution"] or f"{point['tar']:.4f}" in text
        assert f"{point['genuine_accepted']:,} / {point['genuine_total']:,}" in text
    assert "evaluation-others.json" in text
    assert "\n\n* below resolution" in text
    sources = evaluation["sources"]
    assert all(f"{one['file']} (SHA-256 {one['sha256'][:12]})" in text for one in sources)
    named = any(one["origin"] for one in sources)
    assert ("as the export checked" if named else "nothing names the model that made the scores") in text


def test_accuracy_of_listed_pairs_is_shown(full, tmp_path):
    point = json.loads((full / "evaluation-others.json").read_text())["operating_points"][0]
    accuracy = {"mean": 0.908, "std": 0.0249, "standard_error": 0.008, "folds": 10, "pairs": 1000, "cuts": [0.25]}
    (tmp_path / "evaluation-lfw.json").write_text(json.dumps({"operating_points": [point], "accuracy": accuracy}))
    text = model_card(about(tmp_path, ["evaluation-lfw.json"]), tmp_path)
    assert "Accuracy 0.90800, standard deviation 0.02490 over 10 folds of 1,000 pairs" in text


def test_figures_that_cannot_be_right_are_said_to_be_so(card, full, tmp_path):
    assert "Implausible" not in card
    for path in full.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    figures = tmp_path / "evaluation-others.json"
    figures.write_text(json.dumps(json.loads(figures.read_text()) | {"implausible": ["all *scores* are equal"]}))
    said = section(model_card(about(tmp_path, ALL), tmp_path), "Data")
    assert (
        "**Implausible figures.** Those of evaluation-others.json cannot be right, so they say nothing: "
        "all \\*scores\\* are equal."
    ) in said


def test_a_head_inside_is_said_to_be_one(card, full):
    assert "The centers of the people trained on are inside ([head.safetensors]" in section(card, "Privacy")
    without = model_card(about(full, [name for name in ALL if name != "head.safetensors"]), full)
    assert "The head is not inside" in section(without, "Privacy")


def test_it_says_how_to_use_it(card, full):
    text = section(card, "Use")
    assert "model.embed(faces)  # uint8 RGB, (n, 112, 112, 3)" in text
    assert "float32 (n, 3, 112, 112), RGB in [0, 255], not normalised" in text
    assert "mirror image's embedding is added inside" in text
    assert "added inside" not in section(model_card(about(full, ALL, flip=False), full), "Use")


def test_what_is_missing_is_said_to_be_missing(tmp_path):
    training = {"step": 5, "images": None, "people": None, "seed": None, "sources": []}
    text = model_card(about(tmp_path, [], training=training), tmp_path)
    assert "an unknown number of images of an unknown number of people" in text
    assert "came without its recipe" in section(text, "Recipe")
    assert "this folder ships no threshold for two photographs, and `verisphere verify` will refuse it" in section(
        text, "Threshold"
    )
    assert "No figures by domain" in section(text, "Domains at one threshold")
    assert "No evaluation was given" in section(text, "Operating points")


def test_a_calibration_of_an_unknown_model_is_said_to_be_one(tmp_path):
    write_inputs(tmp_path, None)
    text = model_card(about(tmp_path, ["calibration.json"]), tmp_path)
    assert "Nothing ties this threshold to this model" in text


def test_a_smaller_precision_of_the_calibration_is_named(tmp_path):
    write_inputs(tmp_path, Origin(MODEL, False, "int8", "x"))
    text = model_card(about(tmp_path, ["calibration.json"]), tmp_path)
    assert "Its embeddings were computed in int8, as the model computes them." in text


def test_a_name_is_text_and_not_markup(tmp_path):
    assert model_card(about(tmp_path, [], name="a <b>\nc"), tmp_path).startswith("# a &lt;b&gt; c\n")


def test_every_file_is_listed_with_its_digest(card, full):
    for name, digest in about(full, ALL)["files"].items():
        assert re.search(rf"\| {re.escape(name)} +\|.* {digest['sha256']} \|", section(card, "Files"))


@pytest.mark.parametrize("content", ["", "[]", "3", "{", "{}", '{"operating_points": [{}]}', '{"operating_points": 1}'])
def test_other_files_than_figures_get_one_line(tmp_path, content):
    path = tmp_path / "figures.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"figures\.json: not figures that `verisphere evaluate --json`") as caught:
        read_figures(path)
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match=r"figures\.json: not a calibration as `verisphere calibrate` writes it"):
        read_calibration(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a: [", "not YAML"),
        (b"\xff", "not UTF-8"),
        (b"!!python/object/apply:os.system ['true']", "no tag is read"),
        (b"", "names no class_path under data"),
        (b"data: 3", "names no class_path under data"),
        (RECIPE.replace("loss", "lost").encode(), "names no class_path under loss"),
        (RECIPE.replace("{width: 0.5}", "[1]").encode(), "init_args of backbone are no mapping"),
    ],
)
def test_other_files_than_a_recipe_get_one_line(tmp_path, content, message):
    path = tmp_path / "recipe.yaml"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        read_settings(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


EVIL = "a\n# [b](http://evil/x) ![c](d) <script>e</script> `f` | _g_ **h** www.i.j\u202e"
SHOWN = r"a # \[b\](http\://evil/x) !\[c\](d) &lt;script&gt;e&lt;/script&gt; \`f\` \| \_g\_ \*\*h\*\* www\.i.j\\u202e"


def test_text_of_files_is_shown_and_never_obeyed(full, tmp_path):
    assert plain(EVIL) == SHOWN
    evaluation = json.loads((full / "evaluation-others.json").read_text())
    evaluation["sources"] = [{"file": EVIL, "sha256": EVIL, "origin": None}]
    one = evaluation["one_threshold"][0]
    one["domains"] = {EVIL: next(iter(one["domains"].values()))}
    one["skipped"] = [EVIL]
    calibration = json.loads((full / "calibration.json").read_text())
    calibration["source"]["file"] = EVIL
    calibration["checks"][0]["source"]["file"] = EVIL
    calibration["origin"]["precision"] = EVIL
    file = "evaluation-](x) <b>.json"
    (tmp_path / file).write_text(json.dumps(evaluation))
    (tmp_path / "calibration.json").write_text(json.dumps(calibration))
    (tmp_path / "recipe.yaml").write_text(json.dumps({"loss": {"class_path": EVIL, "init_args": {EVIL: EVIL}}} | {
        name: {"class_path": "x.Y"} for name in ("data", "backbone")}))  # fmt: skip
    names = ["calibration.json", "recipe.yaml", file]
    changes = {"name": EVIL, "template": EVIL, "torch": EVIL}
    text = model_card(about(tmp_path, names, **changes), tmp_path)
    assert text.startswith(f"# {SHOWN}\n")
    assert text.count(SHOWN) > 12
    assert "<" not in text.replace("iff score > ", "")
    assert len(re.findall("^# ", text, re.MULTILINE)) == 1
    assert not re.findall(r"(?<!\\)!\[", text)
    links = set(re.findall(r"(?<!\\)\](?=\()\(([^)]*)\)", text))
    assert links == {"model.json", "calibration.json", "recipe.yaml", "evaluation-%5D%28x%29%20%3Cb%3E.json"}


def test_it_says_which_files_name_paths(card, tmp_path):
    assert "stand in recipe.yaml, calibration.json, evaluation-others.json." in section(card, "Privacy")
    write_inputs(tmp_path, None)
    unnamed = model_card(about(tmp_path, ["calibration.json", "evaluation-others.json"]), tmp_path)
    assert "Paths" not in section(unnamed, "Privacy")


def points(evaluation: dict[str, Any]) -> dict[str, Any]:
    return evaluation["operating_points"][0]


def domain(evaluation: dict[str, Any]) -> dict[str, Any]:
    return next(iter(evaluation["one_threshold"][0]["domains"].values()))


@pytest.mark.parametrize(
    ("part", "change", "message"),
    [
        (points, {"tar": 0.9999}, "a rate of 0.9999 is not what"),
        (points, {"far": 1e-6}, "a rate of 1e-06 is not what"),
        (points, {"genuine_accepted": 10**6}, "1000000 of 60 comparisons cannot be"),
        (points, {"genuine_total": 0, "genuine_accepted": 0, "tar": 0.0}, "0 of 0 comparisons cannot be"),
        (points, {"impostor_total": 10**30}, "comparisons cannot be"),
        (points, {"far_target": "1e-12 of all"}, "a FAR must be a decimal number"),
        (points, {"far_target": "1e-3"}, "rule at_most at FAR 1e-3 accepts no"),
        (points, {"rule": "<b>"}, "rule is .<b>.; allowed are at_most"),
        (points, {"below_resolution": True}, "below_resolution contradicts"),
        (points, {"far_upper_95": 0.0}, "do not hold the rate"),
        (domain, {"tar": 0.9999}, "a rate of 0.9999 is not what"),
        (domain, {"tar_own": 0.9999}, "a rate of 0.9999 is not what"),
        (domain, {"far_lower_95": 0.99}, "do not hold the rate"),
        (lambda found: found["one_threshold"][0], {"far_target": "little"}, "a FAR must be a decimal number"),
        (lambda found: found["one_threshold"][0], {"union": "<b>"}, "union is .<b>.; allowed are all"),
        (lambda found: found, {"accuracy": {"mean": 1.5, "std": 0.1, "folds": 10, "pairs": 100}}, "an accuracy of 1.5"),
    ],
)
def test_figures_that_contradict_themselves_get_one_line(full, tmp_path, part, change, message):
    evaluation = json.loads((full / "evaluation-others.json").read_text())
    part(evaluation).update(change)
    path = tmp_path / "figures.json"
    path.write_text(json.dumps(evaluation))
    with pytest.raises(ValueError, match=message) as caught:
        read_figures(path)
    assert str(caught.value).startswith(f"{path}: not figures that `verisphere evaluate --json` writes: ")
    assert "\n" not in str(caught.value)


def test_figures_of_an_identification_are_said_to_be_of_another_kind(tmp_path):
    path = tmp_path / "figures.json"
    path.write_text('{"rule": "at_most", "sources": [], "galleries": {}}')
    with pytest.raises(
        ValueError, match=r"figures\.json: figures of an identification, and a card shows those of pairs"
    ):
        read_figures(path)


@pytest.mark.parametrize(
    ("calibrated", "trained", "says"),
    [
        (True, True, "**Set on drawn faces.** What is promised below is about such drawings"),
        (True, False, "**Set on drawn faces.** What is promised below is about such drawings"),
        (False, True, "**Trained on drawn faces.** It may tell few photographs apart"),
    ],
)
def test_drawings_behind_a_model_are_said_before_its_promises(tmp_path, calibrated, trained, says):
    write_inputs(tmp_path, Origin(MODEL, True, "float32", "faces.zip", drawn=calibrated))
    training = {"step": 5, "images": 9, "people": 3, "seed": 0, "sources": [{"place": "f", "drawn": trained}]}
    text = section(model_card(about(tmp_path, ["calibration.json"], training=training), tmp_path), "Threshold")
    assert says in text
    assert ("; the model was trained on drawn faces" in text) == trained
