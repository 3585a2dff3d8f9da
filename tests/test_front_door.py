"""The front door: what a user of PyTorch or scikit-learn types first, typed here."""

import inspect
import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib import pyplot

import verisphere
from verisphere.base.trained_on import RowsInTraining

NAMES = [
    "Embeddings",
    "Head",
    "OperatingPoint",
    "__version__",
    "adopt",
    "backbones",
    "calibrate",
    "decide",
    "evaluate",
    "identify",
    "images",
    "load",
    "losses",
    "one_threshold",
    "operating_point",
    "pairs",
    "plot_det",
    "plot_roc",
    "plot_scores",
    "score",
    "train",
    "verify",
]
PUBLIC_ROOMS = ("losses", "pairs", "backbones", "images", "score", "decide", "head")


#: What is typed, and the line that answers it. Outside the tests no type checker comes first.
MISTAKES = {
    "ArcFace(margin=28.6)": "ValueError: margin is 28.6; it must be in [0, pi) radians: is it in degrees?",
    "CosFace(margin=-1.0)": "ValueError: margin is -1.0; it is subtracted from the cosine and must be a number >= 0 "
    "(0 is no margin)",
    "SphereFace(margin=0)": "ValueError: margin is 0; it multiplies the angle and must be a positive number (1 is no "
    "margin)",
    "ArcFace()(torch.ones(2, 8), torch.tensor([0, 1]))": "TypeError: ArcFace has no class centers, so it cannot be "
    "called: write head = verisphere.Head(ArcFace(...), classes, size) and call head(embeddings, labels); "
    "loss.forward(cosines, labels) takes cosines to every class",
    "verisphere.pairs.AngularTriplet()(torch.ones(2, 8), torch.tensor([0, 1]))": "TypeError: AngularTriplet takes one "
    "Step of verisphere.pairs: write term(Step(GlobalBatch.of(embeddings, labels), embeddings, labels))",
    "Head(ArcFace(), 10)": "TypeError: size is missing; write Head(loss, classes, size), the size being that of an "
    "embedding",
    "Head(ArcFace(), 10, embedding_size=512)": "TypeError: a head takes no embedding_size; write size=...",
    "Head(ArcFace(), '10', 512)": "TypeError: classes is '10'; a head takes a whole number: Head(loss, classes, size)",
    "Head(ArcFace(), 10, 512.0)": "TypeError: size is 512.0; a head takes a whole number: Head(loss, classes, size)",
    "Head(ArcFace(), True, 512)": "TypeError: classes is True; a head takes a whole number: Head(loss, classes, size)",
    "Head(ArcFace(), 0, 512)": "ValueError: classes is 0; a head needs at least 1",
    "Head(ArcFace(), 10, -512)": "ValueError: size is -512; a head needs at least 1",
    "Head(10, 512, ArcFace())": "TypeError: loss is 10; a head takes a loss: write ArcFace() or another of "
    "verisphere.losses",
    "Head(ArcFace, 10, 512)": "TypeError: loss is <class 'verisphere.losses.margin.ArcFace'>; a head takes a loss: "
    "write ArcFace(...)",
    "SubCenters(2.5)": "TypeError: count is 2.5; it must be a whole number",
    "Streamed(chunk='8')": "TypeError: chunk is '8'; it must be a whole number",
    "Auto(Streamed)": "TypeError: streamed is <class 'verisphere.head.streamed.Streamed'>; it must be an object: "
    "Streamed(...)",
    "verisphere.calibrate([[1.0], [1.0]], ['a', 'b'], guarantee='certain')": "ValueError: guarantee is 'certain'; "
    "allowed are expected, confident, approximate, capped, tail, convention, worst-group",
}

SOURCES = Path(verisphere.__file__).parent
#: Every module but those that are run.
MODULES = [
    ".".join(("verisphere", *path.relative_to(SOURCES).with_suffix("").parts))
    for path in sorted(SOURCES.rglob("*.py"))
    if path.stem not in ("__init__", "__main__")
]
#: Run where nothing is loaded and nothing checks types before verisphere does.
FRESH = """
import importlib, json, sys
bare = set(sys.modules)
import verisphere
new = set(sys.modules) - bare
result = {"dir": dir(verisphere), "count": len(new), "libraries": sorted(new & {"torch", "numpy", "matplotlib"})}
kinds = [verisphere.losses.ArcFace, verisphere.evaluate, verisphere.calibrate, verisphere.score]
import torch, verisphere.measure.evaluate, verisphere.ship.calibrate
kinds.append(verisphere.evaluate)
result["kinds"] = [type(kind).__name__ for kind in kinds]
from verisphere import Head
from verisphere.head import Auto, Streamed, SubCenters
from verisphere.losses import ArcFace, CosFace, SphereFace
result["said"] = {}
for typed in MISTAKES:
    try:
        result["said"][typed] = repr(eval(typed))
    except Exception as error:
        result["said"][typed] = f"{type(error).__name__}: {error}"
for name in MODULES:
    importlib.import_module(name)
print(json.dumps(result))
"""


@pytest.fixture(scope="module")
def fresh() -> dict:
    """What a process says that imports every module, prints nothing else, and is warned of nothing."""
    assert "verisphere.decide.point" in MODULES
    code = FRESH.replace("MISTAKES", repr(list(MISTAKES))).replace("MODULES", repr(MODULES))
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def faces(people: int = 30, images: int = 4, size: int = 16) -> tuple[np.ndarray, np.ndarray]:
    """Rows (float64) of people who differ, and the number of each row's person."""
    random = np.random.default_rng(0)
    person = np.arange(people * images) // images
    return random.normal(size=(people, size))[person] + 0.6 * random.normal(size=(len(person), size)), person


# ------------------------------------------------------------------------------------------------------- the names


def test_the_names_are_these_and_each_is_there():
    assert dir(verisphere) == NAMES
    assert verisphere.__all__ == NAMES
    for name in NAMES:
        assert getattr(verisphere, name) is not None


def test_a_fresh_import_loads_no_library_and_shows_the_same_names(fresh):
    assert fresh["dir"] == NAMES
    assert fresh["libraries"] == []
    assert fresh["count"] < 50  # numpy alone is 100 modules, torch 1,400


def test_rooms_load_on_first_use_and_hide_no_function(fresh):
    assert fresh["kinds"] == ["type", "function", "function", "module", "function"]


def test_type_checkers_see_every_name():
    """The block for type checkers imports the same names as are loaded on first use."""
    source = Path(verisphere.__file__).read_text(encoding="utf-8")
    block = source.split("if TYPE_CHECKING:")[1].split("__version__")[0]
    seen = [name.strip() for line in re.findall(r"import (.*)", block) for name in line.split(",")]
    assert sorted([*seen, "__version__"]) == sorted(NAMES)


# ------------------------------------------------------------------------------------------- evaluate, Embeddings

ROWS, PEOPLE = faces()


class Frame:
    """A column or table as pandas has it: no array, but one can be made of it."""

    def __init__(self, values: np.ndarray):
        self.values = values

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        return self.values


@pytest.mark.parametrize(
    "give",
    [
        lambda: (ROWS.tolist(), PEOPLE.tolist()),
        lambda: (ROWS.astype(np.float32), [f"person {number}" for number in PEOPLE]),
        lambda: (torch.tensor(ROWS, requires_grad=True), torch.tensor(PEOPLE)),
        lambda: ([torch.tensor(row) for row in ROWS], [str(number) for number in PEOPLE]),
        lambda: (Frame(ROWS), Frame(PEOPLE)),
        lambda: (ROWS, np.array([f"{number}" for number in PEOPLE], np.bytes_)),
        lambda: (ROWS, np.array([int(number) for number in PEOPLE], object)),
    ],
    ids=["lists", "float32, text", "tensors", "list of tensors", "like pandas", "bytes", "objects"],
)
def test_evaluate_takes_whatever_holds_numbers(give):
    assert verisphere.evaluate(*give(), far="1e-2") == verisphere.evaluate(ROWS, PEOPLE, far="1e-2")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_evaluate_takes_half_precision(dtype):
    half = torch.tensor(ROWS).to(dtype)
    point = verisphere.evaluate(half, PEOPLE, far="1e-2")
    assert point == verisphere.evaluate(half.float(), PEOPLE, far="1e-2")


def test_evaluate_gives_the_figures_of_all_pairs():
    # Against a matrix of all cosines, and the one definition of the threshold.
    units = torch.nn.functional.normalize(torch.tensor(ROWS).float().double(), dim=1)
    left, right = np.triu_indices(len(ROWS), 1)
    scores, same = (units @ units.T).numpy()[left, right], PEOPLE[left] == PEOPLE[right]
    expected = verisphere.operating_point(scores[same], scores[~same], far="1e-2")
    point = verisphere.evaluate(ROWS, PEOPLE, far="1e-2")
    assert (point.genuine_accepted, point.genuine_total) == (expected.genuine_accepted, 180)
    assert (point.impostor_accepted, point.impostor_total) == (expected.impostor_accepted, 6960)
    assert point.threshold == pytest.approx(expected.threshold, abs=1e-6)
    assert (point.tar_lower_95, point.far_upper_95) == (expected.tar_lower_95, expected.far_upper_95)


def test_evaluate_gives_a_list_for_several_fars():
    points = verisphere.evaluate(verisphere.Embeddings(ROWS, identities=PEOPLE), far=["1e-1", 0.01])
    assert [point.far_target for point in points] == ["1e-1", "0.01"]
    assert points[1].threshold == verisphere.evaluate(ROWS, PEOPLE, far="1e-2").threshold
    assert verisphere.evaluate(ROWS, PEOPLE).far_target == "1e-4"


def test_evaluate_warns_of_people_of_the_training_and_of_scores_that_cannot_be(caplog):
    verisphere.evaluate(ROWS, PEOPLE, far="1e-1")
    assert not caplog.messages
    known = RowsInTraining(PEOPLE < 3, np.zeros(len(ROWS), bool), True, "")
    rows = verisphere.Embeddings(ROWS, identities=[f"p{number}" for number in PEOPLE], in_training=known)
    verisphere.evaluate(rows, far="1e-1")
    verisphere.evaluate(ROWS, np.roll(PEOPLE, 1), far="1e-1")
    known_by_name, labels = caplog.messages
    count = len(np.unique(PEOPLE))
    assert known_by_name.startswith(f"embeddings: the model was trained on 3 of the {count} people (by name); these")
    assert labels.startswith("implausible: with all labels moved by one row")


def test_too_few_impostors_for_a_far_are_said_in_words():
    point = verisphere.evaluate(ROWS, PEOPLE, far="1e-4")  # 0.7 of 6960 impostors
    assert point.below_resolution
    assert point.impostor_accepted == 0
    assert re.fullmatch(
        r"TAR 0\.\d{4} \(\d+ of 180 genuine, 95 % bounds 0\.\d{4} to [01]\.\d{4}\) at FAR 1e-4 "
        r"\(0 of 6,960 impostors\), threshold 0\.\d+; too few impostors for this FAR, so none may pass",
        str(point),
    )
    assert "too few" not in str(verisphere.evaluate(ROWS, PEOPLE, far="1e-2"))


@pytest.mark.parametrize(
    ("embeddings", "identities", "said"),
    [
        (ROWS[0], PEOPLE, "embeddings has shape (16,); it takes one row an image: (rows, dim)"),
        ([[1.0, 2.0], [3.0]], [0, 1], "embeddings has rows of different lengths; all take as many numbers"),
        ([["a", "b"]], [0], "embeddings must be real numbers, not <U1"),
        (ROWS * 1j, PEOPLE, "embeddings must be real numbers, not complex128"),
        (ROWS, PEOPLE[:3], "identities has shape (3,) but there are 120 embeddings"),
        (ROWS, PEOPLE[:, None], "identities has shape (120, 1) but there are 120 embeddings"),
        (ROWS, PEOPLE * 1.0, "identities must be text or whole numbers, not float64"),
        (ROWS, PEOPLE > 3, "identities must be text or whole numbers, not bool"),
        (ROWS, [True, *PEOPLE[1:]], "identities must be text or whole numbers, but row 0 is 'True'"),
        (ROWS, [None, *PEOPLE[1:]], "identities must be text or whole numbers, but row 0 is 'None'"),
        (ROWS, [float("nan"), *map(str, PEOPLE[1:])], "identities must be text or whole numbers, but row 0 is 'nan'"),
        (
            ROWS,
            ["", *map(str, PEOPLE[1:])],
            "1 of 120 identities is empty or the text of a missing value, the first is '' ('0', row 0)",
        ),
        (ROWS, PEOPLE * 0, "identities: all 120 images are of one person, so there is no impostor pair"),
        (ROWS, np.arange(120), "identities: no two of 120 images are of one person, so there is no genuine pair"),
    ],
)
def test_evaluate_says_in_words_what_is_wrong(embeddings, identities, said):
    with pytest.raises(ValueError, match=f"^{re.escape(said)}"):
        verisphere.evaluate(embeddings, identities)


def test_evaluate_without_identities_or_with_both():
    with pytest.raises(TypeError, match=r"^identities are missing; give one for each row of embeddings$"):
        verisphere.evaluate(ROWS)
    with pytest.raises(TypeError, match=r"^identities came beside Embeddings, which have their own"):
        verisphere.evaluate(verisphere.Embeddings(ROWS, identities=PEOPLE), PEOPLE)
    with pytest.raises(TypeError, match=r"^embeddings is the path 'vectors.npy'; give the numbers in the file"):
        verisphere.calibrate("vectors.npy", PEOPLE)


@pytest.mark.parametrize(("far", "said"), [("2", "between 0 and 1"), ("low", "decimal number"), ([], "far is empty")])
def test_evaluate_refuses_a_far_before_any_work(far, said):
    with pytest.raises(ValueError, match=said):
        verisphere.evaluate(ROWS, PEOPLE, far=far)


def test_embeddings_number_their_rows():
    people = verisphere.Embeddings(torch.ones(2, 3, dtype=torch.float16), identities=torch.tensor([7, 8]))
    assert people.embeddings.dtype == np.float32
    assert (people.names.tolist(), people.identities.tolist()) == (["0", "1"], ["7", "8"])
    single = np.ones((2, 3), np.float32)
    assert verisphere.Embeddings(single, identities=["a", "b"]).embeddings is single  # not copied
    with pytest.raises(TypeError, match=re.escape("identities are missing; each row takes one: Embeddings(embeddings")):
        verisphere.Embeddings(single, ["a", "b"])


@pytest.mark.parametrize("call", [
    lambda rows, people: verisphere.evaluate(rows, people, far="1e-1"),
    lambda rows, people: verisphere.calibrate(rows, people, far="0.2"),
    lambda rows, people: verisphere.Embeddings(rows, identities=people),
])  # fmt: skip
def test_masked_values_and_a_nan_among_whole_numbers_are_nobody(call):
    hidden = np.arange(len(PEOPLE)) < 2
    for people in (np.array(PEOPLE), np.array([f"p{person}" for person in PEOPLE])):
        with pytest.raises(ValueError, match="identities: 2 masked values; exclude their rows"):
            call(ROWS, np.ma.array(people, mask=hidden))
    rows = np.ma.array(np.array(ROWS, float))
    call(rows, np.ma.array(PEOPLE))  # nothing is masked
    rows[0, 1] = np.ma.masked
    for masked in (rows, [*rows]):
        with pytest.raises(ValueError, match="embeddings: 1 masked values; exclude their rows"):
            call(masked, PEOPLE)
    for kind in (np.int64, np.int32):
        with np.errstate(invalid="ignore"):
            people = np.where(hidden, np.nan, np.array(PEOPLE, float)).astype(kind)
        with pytest.raises(
            ValueError, match=r"2 of .* identities are empty or the text of a missing value, the first is"
        ):
            call(ROWS, people)


def test_masked_scores_are_refused():
    with pytest.raises(ValueError, match="impostor scores: 1 masked values; exclude their rows"):
        verisphere.operating_point([0.9], np.ma.array([0.1, 0.2], mask=[True, False]), far="1e-1")


# ------------------------------------------------------------------------------------------------------- calibrate


def test_calibrate_gives_a_promised_threshold():
    draws = np.random.default_rng(0).normal(size=(120, 16))
    calibration = verisphere.calibrate(draws, np.arange(120) // 2, far="0.1")
    (promise,) = calibration.thresholds
    assert (promise.guarantee, promise.people, promise.comparisons, promise.confidence) == ("confident", 60, 30, 0.95)
    assert calibration.threshold == promise.threshold
    (point,) = calibration.checks[0].points
    assert (point.threshold, point.genuine_total, point.impostor_total) == (promise.threshold, 60, 7080)
    first, second = calibration.meaning().splitlines()
    assert first.startswith(f"accept iff score > {promise.threshold:.6g}: with 95 % confidence")
    assert "of 60 genuine comparisons of embeddings" in second
    again = verisphere.calibrate(torch.tensor(draws), [str(number // 2) for number in range(120)], far=0.1)
    assert again.threshold == calibration.threshold
    assert again.source == calibration.source


def test_calibrate_gives_what_the_command_gives(tmp_path: Path):
    from verisphere.files.embeddings import write_embeddings
    from verisphere.ship.calibrate import calibrate, read_calibration

    draws, people = np.random.default_rng(1).normal(size=(160, 8)), np.arange(160) // 2
    draws[1::2] += draws[::2]  # one direction in both images of a person
    fars = ["0.2", "0.3"]
    file = tmp_path / "draws.npz"
    write_embeddings(file, verisphere.Embeddings(draws, identities=people))
    for guarantee in ("expected", "approximate"):
        ours = verisphere.calibrate(draws, people, fars, guarantee, replicates=20, seed=3)
        theirs = calibrate(file, fars, guarantee, replicates=20, seed=3)
        assert [found.threshold for found in ours.thresholds] == [found.threshold for found in theirs.thresholds]
        assert ours.checks[0].points == theirs.checks[0].points
    ours.write_json(tmp_path / "thresholds.json")
    assert read_calibration(tmp_path / "thresholds.json") == ours
    with pytest.raises(ValueError, match=re.escape("there is one threshold for each FAR (0.2, 0.3): read thresholds")):
        ours.threshold  # noqa: B018  # the access is the test


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            {},
            "embeddings: guarantee 'confident' at FAR 1e-2 needs 598 people (299 comparisons that share no person)",
        ),
        ({"far": []}, "no FAR to calibrate at; name one, such as 1e-3"),
        ({"far": ["1e-1", 0.1]}, "FAR 1e-1 is asked for twice"),
        ({"identities": PEOPLE * 0}, "embeddings: it has no impostor comparison, so it can set no threshold"),
    ],
)
def test_calibrate_says_what_is_wrong(arguments, said):
    with pytest.raises(ValueError, match=f"^{re.escape(said)}"):
        verisphere.calibrate(ROWS, **{"identities": PEOPLE, **arguments})


# ----------------------------------------------------------------------------------------------------------- plots


@pytest.fixture(autouse=True)
def _no_window():
    matplotlib.use("agg")
    yield
    pyplot.close("all")


@pytest.mark.parametrize("plot", ["plot_roc", "plot_det", "plot_scores"])
def test_a_plot_returns_its_axes(plot, tmp_path: Path):
    draw = getattr(verisphere, plot)
    axes = draw(ROWS, PEOPLE)
    assert isinstance(axes, matplotlib.axes.Axes)
    assert axes.get_xlabel() == ("score (cosine)" if plot == "plot_scores" else "FAR (false accept rate)")
    assert axes.figure in map(pyplot.figure, pyplot.get_fignums())
    figure, given = pyplot.subplots()
    number = len(pyplot.get_fignums())
    assert draw(genuine=[0.9, 0.8, 0.3], impostor=[0.5, 0.4, 0.2, 0.1], ax=given) is given
    assert len(pyplot.get_fignums()) == number
    figure.savefig(tmp_path / "plot.png")  # warnings are errors


@pytest.mark.parametrize("plot", ["plot_roc", "plot_det", "plot_scores"])
def test_a_plot_takes_names_as_it_is_told(plot):
    draw, spelled = getattr(verisphere, plot), [f"{'p' if row % 2 else 'P'}{name}" for row, name in enumerate(PEOPLE)]
    with pytest.raises(ValueError, match=r"are one name but for case.* \(in Python and in a recipe: names\)"):
        draw(ROWS, spelled)
    drawn = {name: draw(ROWS, spelled, names=name) for name in ("merge", "exact")}
    plain = draw(ROWS, PEOPLE)
    if plot != "plot_scores":
        rates = {name: axes.get_lines()[0].get_ydata() for name, axes in [*drawn.items(), ("plain", plain)]}
        assert np.array_equal(rates["merge"], rates["plain"])
        assert not np.array_equal(rates["exact"], rates["plain"])
    with pytest.raises(TypeError, match="names came beside scores"):
        draw(genuine=[0.9], impostor=[0.5], names="merge")


@pytest.mark.parametrize("plot", ["plot_roc", "plot_det"])
def test_a_second_curve_goes_into_the_same_axes(plot):
    draw = getattr(verisphere, plot)
    axes = draw(ROWS, PEOPLE, name="clean")
    before = axes.get_xlim(), axes.get_ylim()
    noise = np.random.default_rng(1).normal(size=ROWS.shape)
    assert draw(ROWS + noise, PEOPLE, name="noisy", ax=axes) is axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["clean", "noisy"]
    first, second = axes.get_lines()
    assert first.get_color() != second.get_color()
    for (low, high), (low_after, high_after) in zip(before, (axes.get_xlim(), axes.get_ylim()), strict=True):
        assert low_after <= low  # nothing that was drawn is cut off
        assert high_after >= high


def test_a_plot_of_scores_marks_its_threshold():
    axes = verisphere.plot_scores(genuine=[0.9, 0.8, 0.3], impostor=[0.5, 0.4, 0.2, 0.1], far="0.25", logarithmic=True)
    (line,) = axes.get_lines()
    assert line.get_xdata()[0] == 0.4
    assert axes.get_yscale() == "log"


def test_a_roc_shows_the_rates_at_every_score():
    (line,) = verisphere.plot_roc(genuine=[0.9, 0.8, 0.3], impostor=[0.5, 0.4, 0.2, 0.1]).get_lines()
    # at 0.4, 0.3, 0.2, 0.1 and minus infinity; no impostor lies above the others
    assert line.get_xdata().tolist() == [0.25, 0.5, 0.5, 0.75, 1.0]
    assert line.get_ydata().tolist() == [2 / 3, 2 / 3, 1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "nothing to plot; give embeddings and identities, or genuine=scores and impostor=scores"),
        ({"embeddings": ROWS}, "identities are missing"),
        ({"genuine": [0.5]}, "impostor scores are missing; a plot takes both kinds"),
        ({"embeddings": ROWS, "genuine": [0.5]}, "embeddings came beside scores"),
        ({"identities": ["a"], "genuine": [0.5]}, "identities came beside scores"),
    ],
)
def test_a_plot_says_what_is_missing(arguments, said):
    with pytest.raises(TypeError, match=f"^{said}"):
        verisphere.plot_det(**arguments)


# ------------------------------------------------------------------------------------ mistakes, as a user types them


def test_a_mistake_gets_one_line_that_names_what_was_typed(fresh):
    assert fresh["said"] == MISTAKES


# -------------------------------------------------------------------------------------------- docstrings, reference


def public() -> dict[str, object]:
    """Every public class and function by its full name; modules, words of a Literal and numbers have no docstring."""
    names = {f"verisphere.{name}": getattr(verisphere, name) for name in verisphere.__all__}
    for room in PUBLIC_ROOMS:
        module = import_module(f"verisphere.{room}")
        names |= {f"verisphere.{room}.{name}": getattr(module, name) for name in module.__all__}
    return {name: value for name, value in names.items() if inspect.isclass(value) or inspect.isfunction(value)}


def test_every_public_docstring_has_an_example():
    assert not [name for name, value in public().items() if ">>>" not in (value.__doc__ or "")]
    assert len(public()) > 150


REFERENCE = (Path(__file__).parents[1] / "docs" / "reference" / "public.md").read_text(encoding="utf-8")


def test_the_reference_names_what_is_public():
    table = REFERENCE.split("## Names")[1].split("Also public")[0]
    named = re.findall(r"`(\w+)`", "".join(line.split("|")[1] for line in table.splitlines() if line.startswith("| `")))
    assert sorted(named) == NAMES
    rest = REFERENCE.split("Also public")[1]
    assert all(f"`{name}`" in rest for name in ("verisphere.head", "Auto", "Dense", "Streamed", "Sampled", "Sharded"))


def test_the_reference_states_the_version_of_every_format():
    from verisphere.files import calibration, images_json, leak_figures
    from verisphere.measure import report_folder
    from verisphere.models import checkpoint, model_json, onnx_file

    stated = dict(re.findall(r"^\| ([^|]+) \| ([\d, ]+) \|", REFERENCE, re.MULTILINE))
    assert stated == {
        "calibration (`verisphere calibrate --out`)": str(calibration.FORMAT),
        "model folder": str(model_json.FORMAT),
        "checkpoint, and a checkpoint split over ranks": f"{checkpoint.FORMAT}, {checkpoint.SPLIT_FORMAT}",
        "ONNX file of a model": onnx_file.FORMAT,
        "`leak.json` (`verisphere leak`)": ", ".join(map(str, leak_figures._READ)),
        "`images.json`": str(images_json.FORMAT),
        "report": str(report_folder.VERSION),
    }


def test_the_calls_of_the_reference_can_be_copied():
    (code,) = re.findall(r"```python\n(.*?)```", REFERENCE, re.DOTALL)
    draws = np.random.default_rng(0).normal(size=(1196, 8))
    draws[1::2] += draws[::2]  # one direction in both images of a person
    names = {"embeddings": draws, "others": draws[::-1], "identities": np.arange(1196) // 2}
    exec(code, names)
    assert names["calibration"].threshold > 0
    assert len(names["axes"].get_lines()) == 2


@pytest.mark.parametrize("identities", [[], np.zeros(0, int)])
def test_an_empty_set_is_refused_in_words(identities):
    for function in (verisphere.evaluate, verisphere.calibrate, verisphere.plot_roc):
        with pytest.raises(ValueError, match=r"^embeddings are empty; give at least two rows of one person"):
            function(np.zeros((0, 16)), identities)
