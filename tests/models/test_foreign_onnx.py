"""ONNX files made elsewhere: what is read of them, and broken or hostile ones, each of which ends with one line."""

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from foreign_graphs import SIDE, SIZE, graph, weights, written
from hostile_graphs import ESCAPES, UNFIT, UNREAD, Attack, changed, second_output
from verisphere.files import limited_run
from verisphere.models.first_run import first_run
from verisphere.models.foreign_onnx import GraphEnds, read_foreign_onnx

# ---- what is read


@pytest.mark.parametrize(
    ("model", "ends"),
    [
        (graph(), GraphEnds("images", "float32", "NCHW", (SIDE, SIDE), None, "embedding", SIZE, False)),
        (graph("NHWC", "uint8"), GraphEnds("images", "uint8", "NHWC", (SIDE, SIDE), None, "embedding", SIZE, False)),
        (
            graph("NCHW", "float16", 1),
            GraphEnds("images", "float16", "NCHW", (SIDE, SIDE), 1, "embedding", SIZE, False),
        ),
        (graph(side=None), GraphEnds("images", "float32", "NCHW", None, None, "embedding", SIZE, False)),
        (graph(normalised=False), GraphEnds("images", "float32", "NCHW", (SIDE, SIDE), None, "embedding", SIZE, True)),
        (
            graph("NHWC", "float16", normalised=False, names=("/a", "/b")),
            GraphEnds("images", "float16", "NHWC", (SIDE, SIDE), None, "embedding", SIZE, True),
        ),
        (graph(listed=True), GraphEnds("images", "float32", "NCHW", (SIDE, SIDE), None, "embedding", SIZE, False)),
    ],
    ids=[
        "plain",
        "NHWC uint8",
        "batch 1 float16",
        "sides open",
        "normalises inside",
        "normalises after a cast",
        "weights among the inputs",
    ],
)
def test_the_ends_of_a_graph(tmp_path: Path, model: onnx.ModelProto, ends: GraphEnds):
    path = written(tmp_path / "net.onnx", model)
    assert read_foreign_onnx(path) == (path.read_bytes(), ends)


def test_weights_beside_the_graph_are_taken_in(tmp_path: Path):
    model = graph()
    onnx.save_model(model, tmp_path / "net.onnx", save_as_external_data=True, location="net.data", size_threshold=0)
    assert (tmp_path / "net.data").is_file()
    content, _ = read_foreign_onnx(tmp_path / "net.onnx")
    (tmp_path / "net.data").unlink()
    whole = onnx.ModelProto.FromString(content)
    assert np.array_equal(numpy_helper.to_array(whole.graph.initializer[0]), weights())


# ---- broken and hostile ones


def refused(folder: Path, attack: Attack, line: str, read: Callable[[Path], object]) -> None:
    attack(folder)
    with pytest.raises((ValueError, OSError), match=re.escape(line)) as caught:
        read(folder / "net.onnx")
    assert str(caught.value).startswith(f"{folder}/net.")
    assert "\n" not in str(caught.value).replace(ESCAPES, "")


@pytest.mark.parametrize("name", UNREAD)
def test_a_graph_is_refused_before_it_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(subprocess, "run", None)  # no process is started
    refused(tmp_path, *UNREAD[name], read_foreign_onnx)


def test_a_named_output(tmp_path: Path):
    changed(second_output)(tmp_path)
    path = tmp_path / "net.onnx"
    assert read_foreign_onnx(path, "other")[1].embedding_output == "other"
    with pytest.raises(ValueError, match=r"it has no output 'third'; there is 'embedding', 'other'"):
        read_foreign_onnx(path, "third")


# ---- the first run


def run(path: Path, **more):
    content, ends = read_foreign_onnx(path)
    shape = (3, SIDE, SIDE) if ends.layout == "NCHW" else (SIDE, SIDE, 3)
    asked = {"input": ends.image_input, "output": ends.embedding_output, "shape": shape, "numbers": ends.numbers,
             "mean": 0.0, "scale": 1.0}  # fmt: skip
    return first_run(content, path, asked, ends.batch, **more)


@pytest.mark.parametrize(
    ("model", "batch"),
    [(graph(), None), (graph("NHWC", "uint8", 1), 1), (graph("NCHW", "float16", 4), 4)],
    ids=["any", "one", "four"],
)
def test_a_graph_is_run_once(tmp_path: Path, model: onnx.ModelProto, batch: int | None):
    found = run(written(tmp_path / "net.onnx", model))
    assert (found.embedding_size, found.batch) == (SIZE, batch)
    assert found.seconds > 0


#: Of the graphs that have to run for it, these in every test run: one each of refused, endless, huge, useless.
QUICK = ("a cycle", "too slow", "filled", "noise", "the same for every image", "of the other images", "infinite")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in UNFIT]
)
def test_a_graph_is_refused_by_running_it(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limited_run, "CPU_SECONDS", 1)
    monkeypatch.setattr(limited_run, "MEMORY", 3 << 30)
    refused(tmp_path, *UNFIT[name], run)


def test_a_first_run_has_little_memory_if_so_asked(tmp_path: Path):
    with pytest.raises(ValueError, match=r"does not run( within 0 GB)?"):
        run(written(tmp_path / "net.onnx", graph()), memory=64 << 20)


def test_a_first_run_leaves_nothing(tmp_path: Path):
    path = written(tmp_path / "net.onnx", graph())
    run(path)
    assert [one.name for one in tmp_path.iterdir()] == ["net.onnx"]
    shutil.rmtree(tmp_path)


@pytest.mark.parametrize(("named", "normalised"), [(True, False), (False, False), (True, True)])
def test_what_normalises_by_itself_is_seen_with_and_without_names(tmp_path: Path, named: bool, normalised: bool):
    model = graph(normalised=normalised)
    for node in model.graph.node if not named else ():
        node.ClearField("name")
    assert read_foreign_onnx(written(tmp_path / "net.onnx", model))[1].normalises is not normalised
