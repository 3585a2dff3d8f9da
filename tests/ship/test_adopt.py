"""A model made elsewhere, from its ONNX file to a decision: adopted, embedded, calibrated, exported, verified."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from foreign_graphs import SIDE, expected, graph, written
from hostile_graphs import foreign_operator, memory_address, outside
from verisphere.cli import main
from verisphere.files.embeddings import read_embeddings
from verisphere.models.folder import load
from verisphere.models.model_json import model_json, read_model_json
from verisphere.ship.adopt import adopt_callable, adopt_onnx
from verisphere.ship.export import file_digest
from verisphere.ship.pixels import PRESETS, Told

IMAGES = np.random.default_rng(1).integers(0, 256, (4, SIDE, SIDE, 3), dtype=np.uint8)
OWN = {"template": "mine_8x8"}

pytestmark = pytest.mark.usefixtures("process_as_it_was")


def adopted(tmp_path: Path, model, told: Told, **more):
    return adopt_onnx(written(tmp_path / "net.onnx", model), tmp_path / "model", told, **more)


@pytest.mark.parametrize(
    ("model", "told", "mean", "scale"),
    [
        (graph(), Told(colour="RGB", mean=127.5, scale=128.0, **OWN), 127.5, 128.0),
        (graph("NHWC"), Told(colour="BGR", mean=0.0, scale=255.0, **OWN), 0.0, 255.0),
        (graph("NHWC", "uint8", 1), Told(colour="RGB", **OWN), 0.0, 1.0),
        (graph("NCHW", "float16", 1), Told(colour="BGR", mean=127.5, scale=127.5, **OWN), 127.5, 127.5),
        (graph(side=None), Told(size=(SIDE, SIDE), colour="RGB", mean=1.0, scale=2.0, **OWN), 1.0, 2.0),
    ],
    ids=["plain", "NHWC BGR", "uint8 one by one", "float16 one by one", "sides told"],
)
def test_a_model_folder_embeds_as_the_graph_does(tmp_path, model, told, mean, scale):
    result = adopted(tmp_path, model, told)
    made = load(tmp_path / "model")
    found = made.embed(IMAGES)
    wanted = expected(IMAGES, mean, scale, told.colour)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-3 * np.abs(wanted).max())
    assert made.sha256 == result.description.files["network.onnx"].sha256
    assert made.training.described() == "there is no record of what the model was trained on"
    pixels = json.loads((tmp_path / "model" / "model.json").read_text())["preprocessing"]
    assert pixels["colour"] == told.colour
    assert (pixels["mean"], pixels["scale"], pixels["size"]) == (mean, scale, [SIDE, SIDE])


def test_the_mirror_image_is_added(tmp_path):
    adopted(tmp_path, graph(), Told(colour="RGB", mean=127.5, scale=127.5, **OWN), flip=True)
    both = expected(IMAGES, 127.5, 127.5) + expected(IMAGES[:, :, ::-1], 127.5, 127.5)
    np.testing.assert_allclose(load(tmp_path / "model").embed(IMAGES), both, rtol=0, atol=1e-4)


def test_the_card_says_what_is_given_and_what_is_not_known(tmp_path):
    adopted(
        tmp_path,
        graph(),
        Told(colour="RGB", mean=0.0, scale=1.0, **OWN),
        source="a | page",
        licence="MIT",
        name="theirs",
    )
    card = (tmp_path / "model" / "model_card.md").read_text()
    assert card.startswith("# theirs\n")
    assert "Trained on: not known. The model was made elsewhere and adopted from net.onnx; source: a \\| page" in card
    assert "licence: MIT" in card
    assert "Made elsewhere: how it was trained is not known here." in card
    assert "Adopted by verisphere" in card


@pytest.mark.parametrize(
    ("told", "preset", "line"),
    [
        (
            Told(**OWN),
            None,
            "an ONNX file does not say what pixels it takes; give --colour, --mean and --scale, or --preset",
        ),
        (
            Told(colour="RGB", mean=0.0, **OWN),
            None,
            "or --preset with one of insightface, .*, facenet, sface; --probe PHOTOS measures it",
        ),
        (Told(mean=127.5), "insightface", "--mean alone, beside a preset that takes both from the graph"),
        (Told(), "facenet", "takes 8 x 8 pixels, but --preset says 160 x 160"),
        (Told(), "insihgtface", r"there is no preset 'insihgtface' \(did you mean insightface\?\)"),
        (
            Told(size=(9, 8), colour="RGB", mean=0.0, scale=1.0, **OWN),
            None,
            "takes 8 x 8 pixels, but --size says 9 x 8",
        ),
        (
            Told(layout="NHWC", colour="RGB", mean=0.0, scale=1.0, **OWN),
            None,
            "its input is NCHW, but --layout says NHWC",
        ),
        (Told(colour="RGB", mean=0.0, scale=1.0), None, "no known template has 8 x 8 pixels; name yours by --template"),
        (Told(colour="RGB", mean=0.0, scale=1.0, template="arcface_112x112"), None, "does not fit OnnxNetwork"),
        (
            Told(colour="RGB", mean=0.0, scale=1.0, output="x", **OWN),
            None,
            "it has no output 'x'; there is 'embedding'",
        ),
    ],
)
def test_what_is_told_must_fit_and_be_enough(tmp_path, told, preset, line):
    with pytest.raises(ValueError, match=line):
        adopted(tmp_path, graph(), told, preset=preset)
    assert [one.name for one in tmp_path.iterdir()] == ["net.onnx"]


@pytest.mark.parametrize(
    ("told", "line"),
    [
        ({"scale": 0.0}, "--scale is 0; a pixel, less the mean, is divided by it"),
        ({"scale": -1.0}, "--scale is -1; a pixel, less the mean, is divided by it: it is above 0"),
        ({"scale": float("nan")}, "--scale is nan; a finite number is due"),
        ({"mean": float("inf")}, "--mean is inf; a finite number is due"),
        ({"size": (0, 112)}, "--size is 0x112; a face has 1 to 1024 pixels a side"),
        ({"size": (99_999, 99_999)}, "--size is 99999x99999; a face has 1 to 1024 pixels a side"),
    ],
)
def test_numbers_that_say_nothing_are_refused_at_once(told, line):
    with pytest.raises(ValueError, match=line):
        Told(**told)


@pytest.mark.parametrize(("normalised", "mean", "scale"), [(True, 127.5, 127.5), (False, 0.0, 1.0)])
def test_insightfaces_rule_of_what_normalises_inside(tmp_path, normalised, mean, scale, monkeypatch):
    monkeypatch.setitem(PRESETS, "insightface", replace(PRESETS["insightface"], size=(SIDE, SIDE), template="mine_8x8"))
    found = adopted(tmp_path, graph(normalised=normalised), Told(), preset="insightface").description.preprocessing
    assert (found["mean"], found["scale"], found["colour"]) == (mean, scale, "RGB")


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (foreign_operator, "needs the operator 'MatMul' of 'my.own', which runs code"),
        (outside("net.data"), "its weights 'weights' lie in another file, which no digest covers"),
        (memory_address, "it has sparse weights"),
    ],
)
def test_a_folder_that_was_made_by_hand_is_checked_as_a_graph_is(tmp_path, change, line):
    """Its digests fit: whoever makes a folder makes them."""
    adopted(tmp_path, graph(), Told(colour="RGB", mean=0.0, scale=1.0, **OWN))
    folder, model = tmp_path / "model", graph()
    change(model)
    written(folder / "network.onnx", model)
    (folder / "net.data").write_bytes(bytes(10_000))
    about = read_model_json(folder / "model.json")
    files = about.files | {"network.onnx": file_digest(folder / "network.onnx")}
    (folder / "model.json").write_text(model_json(replace(about, files=files)))
    with pytest.raises(ValueError, match=line) as refused:
        load(folder)
    assert str(refused.value).startswith(f"{folder / 'network.onnx'}: ")


@pytest.mark.parametrize("edited", [{"batch": 1 << 34}, {"height": 1 << 30}])
def test_sizes_beyond_any_face_are_refused_before_memory_is_taken(tmp_path, edited):
    adopted(tmp_path, graph(), Told(colour="RGB", mean=0.0, scale=1.0, **OWN))
    path = tmp_path / "model" / "model.json"
    about = read_model_json(path)
    arguments = about.backbone["init_args"] | edited
    size = [arguments["height"], arguments["width"]]
    description = replace(
        about,
        backbone={**about.backbone, "init_args": arguments},
        preprocessing={**about.preprocessing, "size": size},
    )
    path.write_text(model_json(description))
    with pytest.raises(ValueError, match=r"model\.json: .*; at most 1024 a side and 1,024 images are taken"):
        load(tmp_path / "model")


# ---- to a decision


def call(*words: object) -> int:
    return main(["--default-allocator", *map(str, words)])


@pytest.fixture(scope="module")
def shipped(tmp_path_factory) -> Path:
    """A room with `model`, `calibration.json` and `shipped`; the graph tells the people of its images apart."""
    room = tmp_path_factory.mktemp("room")
    from PIL import Image

    generator = np.random.default_rng(0)
    for person in range(60):
        base = generator.integers(0, 256, (SIDE, SIDE, 3))
        (room / "faces" / f"p{person}").mkdir(parents=True)
        for number in range(2):
            pixels = (base + generator.normal(0, 20, base.shape)).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(room / "faces" / f"p{person}" / f"{number}.png")
    written(room / "net.onnx", graph())
    told = ("--colour", "RGB", "--mean", 127.5, "--scale", 127.5, "--template", "mine_8x8")
    assert call("adopt", room / "net.onnx", *told, "--out", room / "model") == 0
    assert call("embed", room / "model", room / "faces", "--out", room / "e.npz", "--workers", 0) == 0
    calibrated = ("--far", "0.1", "--guarantee", "expected", "--out", room / "calibration.json")
    assert call("calibrate", room / "e.npz", *calibrated) == 0
    exported = ("--calibration", room / "calibration.json", "--out", room / "shipped")
    assert call("export", room / "model", *exported) == 0
    return room


def test_embeddings_name_the_model(shipped):
    assert read_embeddings(shipped / "e.npz").origin.model == load(shipped / "model").sha256


def test_thresholds_are_those_of_the_calibration(shipped):
    calibrated = json.loads((shipped / "calibration.json").read_text())["thresholds"]
    model = load(shipped / "shipped")
    assert [one.threshold for one in model.thresholds] == [one["threshold"] for one in calibrated]
    assert (shipped / "shipped" / "network.onnx").read_bytes() == (shipped / "model" / "network.onnx").read_bytes()
    assert "there is no record of what the model was trained on" in model.promise("0.1")


def test_the_presets_of_the_command_line_are_those_of_the_library():
    from verisphere.cli.adopting import PRESETS as NAMES

    assert tuple(PRESETS) == NAMES


@pytest.mark.parametrize(
    ("name", "pixels"),
    [
        ("adaface", ((112, 112), "BGR", 127.5, 127.5, "arcface_112x112")),
        ("magface", ((112, 112), "BGR", 0.0, 255.0, "arcface_112x112")),
        ("mobilefacenet_pytorch", ((112, 96), "RGB", 127.5, 128.0, "sphereface_112x96")),
    ],
)
def test_a_source_of_checkpoints_says_what_its_onnx_files_take(name, pixels):
    known = PRESETS[name]
    assert (known.size, known.colour, known.mean, known.scale, known.template) == pixels


@pytest.mark.parametrize("size", ["112", "112x", "axb", "9999999999x1"])
def test_a_size_is_height_x_width(tmp_path, capsys, size):
    with pytest.raises(SystemExit, match="2"):
        call("adopt", "net.onnx", "--size", size, "--out", tmp_path / "model")
    assert "is no height x width, such as 112x112" in capsys.readouterr().err


# ---- functions

CODE = """
import numpy as np

def embed(images):
    assert images.dtype == np.uint8 and images.shape[3] == 3
    return images.reshape(len(images), -1)[:, :6].astype(float) - 100

def one(images):
    return np.zeros(6)

def fails(images):
    raise KeyError("x")

def endless(images):
    return np.full((len(images), 6), 1e300)

def ends(images):
    raise SystemExit(3)

def chance(images):
    return np.random.rand(len(images), 6)

def together(images):
    return embed(images) - embed(images).mean(0)

def blind(images):
    return np.ones((len(images), 6))

def nothing(images):
    return np.ones((len(images), 0))

word = "text"
"""


@pytest.fixture
def module(tmp_path, monkeypatch) -> Path:
    """A module `theirs` that can be imported."""
    import sys

    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "theirs.py").write_text(CODE)
    (tmp_path / "code" / "leaves.py").write_text("raise SystemExit(7)")
    monkeypatch.syspath_prepend(tmp_path / "code")
    monkeypatch.delitem(sys.modules, "theirs", raising=False)
    return tmp_path / "code" / "theirs.py"


def test_a_function_is_a_model(tmp_path, module):
    adopt_callable("theirs:embed", tmp_path / "model", Told(size=(SIDE, SIDE), **OWN), trust_code=True)
    wanted = IMAGES.reshape(len(IMAGES), -1)[:, :6].astype(np.float32) - 100
    assert np.array_equal(load(tmp_path / "model", trust_code=True).embed(IMAGES), wanted)
    with pytest.raises(ValueError, match=r"calls code from outside verisphere; .*allow it by --trust-code"):
        load(tmp_path / "model")


def test_code_that_changed_is_noticed(tmp_path, module):
    adopt_callable("theirs:embed", tmp_path / "model", Told(size=(SIDE, SIDE), **OWN), trust_code=True)
    module.write_text(CODE.replace("100", "101"))
    with pytest.raises(ValueError, match="not the code that was adopted as theirs:embed; it has changed since"):
        load(tmp_path / "model", trust_code=True)


@pytest.mark.parametrize(
    ("function", "told", "trusted", "line"),
    [
        (
            "theirs:embed",
            Told(**OWN),
            False,
            "is not part of verisphere; loading it runs its code: allow it by --trust-code",
        ),
        ("theirs:embed", Told(colour="RGB", **OWN), True, "--colour describe an ONNX file"),
        ("theirs:none", Told(**OWN), True, "function 'theirs:none' cannot be loaded"),
        ("no.such:embed", Told(**OWN), True, "cannot be loaded: No module named 'no'"),
        ("theirs embed:x", Told(**OWN), True, "is no module:function"),
        ("theirs:word", Told(**OWN), True, "is 'text', which cannot be called"),
        ("theirs:one", Told(**OWN), True, r"gives float64 numbers \(6,\), where \(1, dim\) are due"),
        ("theirs:fails", Told(**OWN), True, "failed on 1 images: KeyError: 'x'"),
        ("theirs:endless", Told(**OWN), True, "gives NaN or infinity"),
        ("theirs:ends", Told(**OWN), True, "failed on 1 images: SystemExit: 3"),
        ("theirs:chance", Told(**OWN), True, "gives other numbers for the same image in a second run"),
        ("theirs:together", Told(**OWN), True, "an image's embedding depends on the other images of its batch"),
        ("theirs:blind", Told(**OWN), True, "gives the same numbers for every image"),
        ("theirs:nothing", Told(**OWN), True, "gives vectors of 0 numbers; 1 to 65,536 are taken"),
        ("leaves:embed", Told(**OWN), True, "function 'leaves:embed' cannot be loaded: 7"),
        ("builtins:len", Told(**OWN), True, "its module has no source file"),
    ],
)
def test_what_is_no_function_of_images(tmp_path, module, function, told, trusted, line):
    with pytest.raises(ValueError, match=line):
        adopt_callable(function, tmp_path / "model", told, trust_code=trusted)
    assert not (tmp_path / "model").exists()


def test_a_function_from_the_command_line(tmp_path, module, capsys):
    size = ("--size", f"{SIDE}x{SIDE}", "--template", "mine_8x8")
    assert call("adopt", "theirs:embed", *size, "--out", tmp_path / "model") == 2
    assert "allow it by --trust-code" in capsys.readouterr().err
    assert call("adopt", "theirs:embed", *size, "--out", tmp_path / "model", "--trust-code", "--trainable") == 2
    assert "--trainable is for ONNX files; theirs:embed is a function" in capsys.readouterr().err
    assert call("adopt", "theirs:embed", *size, "--out", tmp_path / "model", "--trust-code") == 0
    assert "trained on: not known" in capsys.readouterr().out


def test_a_template_of_ones_own_is_exported_and_the_graph_inside_names_its_folder(tmp_path, capsys):
    adopted(tmp_path, graph(), Told(colour="RGB", mean=127.5, scale=128.0, **OWN))
    shipped = tmp_path / "shipped"
    assert main(["export", str(tmp_path / "model"), "--out", str(shipped), "--template", OWN["template"]]) == 0
    assert read_model_json(shipped / "model.json").template == OWN["template"]
    assert main(["embed", str(shipped / "network.onnx"), str(tmp_path), "--out", str(tmp_path / "e.npz")]) == 2
    assert f"it is part of the model folder {shipped}: name that folder" in capsys.readouterr().err
