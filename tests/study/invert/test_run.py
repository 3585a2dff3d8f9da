"""An inversion from files to a folder: open and closed set, stored embeddings, pairs, resumption, bad input."""

import copy
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from onnx import numpy_helper
from PIL import Image
from torch import Tensor

from foreign_graphs import SIDE, SIZE, graph, weights
from tiny_inversion import RECIPE, SmallNet
from verisphere.backbones.backbone import Backbone
from verisphere.backbones.onnx_network import OnnxNetwork
from verisphere.base.identity import names_taken
from verisphere.files.embeddings import read_embeddings, write_embeddings
from verisphere.models.described_faces import open_faces
from verisphere.models.embed import EmbeddingModel, embed_faces, open_model
from verisphere.study.invert.findings import InversionFindings
from verisphere.study.invert.inversion import Inversion
from verisphere.study.invert.run import InversionSettings, plan_of, prepare, run_inversion, same_network
from verisphere.train.recipe import read_recipe
from verisphere.train.session import train_run

CPU = torch.device("cpu")
SHORT = Inversion(steps=8, batch_size=3, rate=0.1, batch_norm=0.01, flip=True, shift=2)


def inverted(asked: InversionSettings, out: Path) -> InversionFindings:
    return run_inversion(asked, prepare(asked, CPU), out, CPU, save_every=3)


def test_an_open_set(tiny: Path, tmp_path: Path):
    asked = InversionSettings(
        tiny / "run", SHORT, trust=True, faces=tiny / "others.yaml", judge=tiny / "judge.yaml", count=4
    )
    findings = inverted(asked, tmp_path / "out")
    assert findings.target == "photographs"
    assert len(set(findings.people)) == 4
    assert [entry.model for entry in findings.likeness] == ["inverted", "judge"]
    own = findings.likeness[0]
    assert own.same_photo is not None
    assert own.same_person is not None
    assert own.others is not None
    assert (own.same_photo.count, own.same_person.count, own.others.count) == (4, 8, 4 * (3 * 3 + 5))
    written = json.loads((tmp_path / "out" / "inversion.json").read_text())
    assert written["people"] == list(findings.people)
    images = sorted((tmp_path / "out" / "images").iterdir())
    assert len(images) == 4
    with Image.open(images[0]) as file:
        assert file.size == (48, 48)
        assert "Not a photograph" in file.text["Description"]
    page = (tmp_path / "out" / "index.html").read_text()
    assert all(person in page for person in findings.people)
    assert "second model" in page
    assert not (tmp_path / "out" / ".work").exists()


def test_an_attack_that_failed_says_so(tiny: Path, tmp_path: Path):
    asked = InversionSettings(tiny / "run", replace(SHORT, steps=1), trust=True, faces=tiny / "others.yaml", count=2)
    findings = inverted(asked, tmp_path / "out")
    assert "the attack failed, and says nothing on what can be recovered: the mean cosine of the" in findings.text()
    assert "The attack failed, and says nothing" in (tmp_path / "out" / "index.html").read_text()
    assert findings.reached is not None
    own = findings.likeness[0].real_same_person
    assert own is not None
    assert findings.needed == own.mean
    assert (replace(findings, reached=own.mean).verdict or "").startswith("the attack worked: ")
    assert replace(findings, needed=None).verdict is None
    assert replace(findings, reached=None).verdict is None


def test_a_closed_set(tiny: Path, tmp_path: Path):
    settings = replace(SHORT, steps=60, flip=False, shift=0)
    asked = InversionSettings(tiny / "run", settings, trust=True, faces=tiny / "data.yaml", centers=True, count=3)
    findings = inverted(asked, tmp_path / "out")
    assert (findings.target, findings.judge) == ("centers", None)
    own = findings.likeness[0]
    assert own.same_photo is None
    assert own.same_person is not None
    assert own.others is not None
    assert own.same_person.mean > own.others.mean  # the model itself is led there
    without = InversionSettings(tiny / "run", SHORT, trust=True, centers=True, count=2)
    assert inverted(without, tmp_path / "alone").likeness == ()
    assert "without photographs" not in (tmp_path / "alone" / "index.html").read_text()


def test_photographs_of_another_template_are_refused_for_model_and_judge(tiny: Path, monkeypatch: pytest.MonkeyPatch):
    run, judge = tiny / "run", tiny / "judge.yaml"
    asked = InversionSettings(run, SHORT, trust=True, faces=tiny / "others.yaml", count=2, judge=judge)
    drawn = open_faces(tiny / "others.yaml", None, (48, 48), False)
    aligned = replace(drawn.source, drawn=None, alignment="mine by MTCNN")
    monkeypatch.setattr(type(drawn), "source", aligned)
    for path, who in ((run, "the model"), (judge, "the judge")):
        models = {one: open_model(one, CPU, True) for one in (run, judge)}
        models[path] = replace(models[path], template="own")
        with pytest.raises(ValueError, match=f"its faces are aligned to mine, but {who} takes own; align them to that"):
            prepare(asked, CPU, opened=models)


def test_stored_embeddings(tiny: Path, tmp_path: Path):
    embed_faces(tiny / "run", tiny / "others.yaml", tmp_path / "set.npz", device=CPU, trust=True)
    asked = InversionSettings(
        tiny / "run", SHORT, trust=True, faces=tiny / "others.yaml", embeddings=tmp_path / "set.npz", count=3
    )
    findings = inverted(asked, tmp_path / "out")
    assert findings.target == "embeddings"
    assert findings.likeness[0].same_photo is not None
    with pytest.raises(ValueError, match=r"512 numbers an embedding, and .*judge\.yaml gives 16"):
        prepare(replace(asked, model=tiny / "judge.yaml", embeddings=_wrong_size(tmp_path)), CPU)
    with pytest.raises(ValueError, match="has no photograph"):
        prepare(replace(asked, faces=_strangers(tmp_path)), CPU)


def _wrong_size(folder: Path) -> Path:
    from verisphere.base.vocabulary import Embeddings
    from verisphere.files.embeddings import write_embeddings

    path = folder / "wrong.npz"
    write_embeddings(path, Embeddings(torch.randn(3, 512), ["a", "b", "c"], ["a", "b", "c"]))
    return path


def test_listed_pairs_of_generated_images(tiny: Path, tmp_path: Path):
    names = open_names(tiny / "others.yaml")
    lines = []
    for fold in range(2):
        one, other = names[6 * fold : 6 * fold + 3], names[6 * fold + 3 : 6 * fold + 6]
        lines += [f"{one[0]},{one[1]},1,{fold}", f"{one[0]},{other[0]},0,{fold}"]
    (tmp_path / "pairs.csv").write_text("left,right,label,fold\n" + "\n".join(lines) + "\n")
    asked = InversionSettings(
        tiny / "run", SHORT, trust=True, faces=tiny / "others.yaml", pairs=tmp_path / "pairs.csv", count=6
    )
    findings = inverted(asked, tmp_path / "out")
    assert len(findings.images) == 6
    assert [one.sides for one in findings.pairs] == ["both generated", "generated and photograph", "both photographs"]
    assert {(one.pairs, one.folds) for one in findings.pairs} == {(4, 2)}
    with pytest.raises(ValueError, match=r"pairs.csv: 3 images make no genuine and impostor pair"):
        prepare(replace(asked, count=3), CPU)


def open_names(path: Path) -> list[str]:
    return list(open_faces(path).names)


class Killed(Exception):
    pass


def test_one_that_was_ended_goes_on_with_the_same_bits(tiny: Path, tmp_path: Path):
    asked = InversionSettings(tiny / "run", SHORT, trust=True, faces=tiny / "others.yaml", count=4)
    inverted(asked, tmp_path / "whole")

    def ends(items, title, total=None, done=0):
        for number, item in enumerate(items):
            if title == "batch 2 of 2" and number == 5:
                raise Killed
            yield item

    with pytest.raises(Killed):
        run_inversion(asked, prepare(asked, CPU), tmp_path / "out", CPU, save_every=3, progress=ends)
    assert (tmp_path / "out" / "grid.png").is_file()  # shown as it runs
    assert not (tmp_path / "out" / "inversion.json").exists()
    steps = []

    def counting(items, title, total=None, done=0):
        steps.append((title, done))
        return items

    run_inversion(asked, prepare(asked, CPU), tmp_path / "out", CPU, save_every=3, progress=counting)
    assert ("batch 2 of 2", 3) in steps
    assert not any(title == "batch 1 of 2" for title, _ in steps)
    for image in (tmp_path / "whole" / "images").iterdir():
        assert image.read_bytes() == (tmp_path / "out" / "images" / image.name).read_bytes()


def test_one_that_was_ended_begins_anew_with_other_pixels(tiny: Path, tmp_path: Path):
    asked = InversionSettings(tiny / "run", replace(SHORT, steps=2), trust=True, directions=True, count=4)
    starts = []

    def ends(items, title, total=None, done=0):
        starts.append((title, done))
        if title == "batch 2 of 2":
            raise Killed
        yield from items

    def begin(mean: float) -> list[tuple[str, int]]:
        prepared = prepare(asked, CPU)
        prepared.model.backbone.mean = mean
        starts.clear()
        with pytest.raises(Killed):
            run_inversion(asked, prepared, tmp_path / "out", CPU, save_every=1, progress=ends)
        return [*starts]

    assert begin(127.5) == [("batch 1 of 2", 0), ("batch 2 of 2", 0)]
    assert begin(127.5) == [("batch 2 of 2", 0)]
    assert begin(3.0) == [("batch 1 of 2", 0), ("batch 2 of 2", 0)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"faces": None}, "nobody to draw images to"),
        ({"fars": ("1e-1", "0.1")}, "FAR 1e-1 is asked for twice"),
        ({"fars": ("2",)}, "must lie between 0 and 1"),
        ({"centers": True, "embeddings": Path("x.npz")}, "give one"),
        ({"count": 0}, "--count 0"),
        ({"faces": None, "centers": True, "judge": Path("x")}, "--judge compares with photographs"),
        ({"centers": True, "pairs": Path("x")}, "--pairs names photographs"),
        ({"faces": None, "centers": True, "people": Path("x")}, "--people chooses among --faces"),
    ],
)
def test_what_does_not_go_together(tiny: Path, changes: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        InversionSettings(**{"model": tiny / "run", "settings": SHORT, "faces": tiny / "others.yaml", **changes})


def test_what_the_files_refuse(tiny: Path, tmp_path: Path):
    asked = InversionSettings(tiny / "run", SHORT, trust=True, faces=tiny / "others.yaml", count=4)
    with pytest.raises(ValueError, match="the judge is another model"):
        prepare(replace(asked, judge=tiny / "run"), CPU)
    with pytest.raises(ValueError, match="9 people, and 10 images"):
        prepare(replace(asked, count=10), CPU)
    with pytest.raises(FileNotFoundError, match="neither a checkpoint"):
        prepare(replace(asked, model=tiny), CPU)
    with pytest.raises(ValueError, match="nobody on whom"):
        prepare(replace(asked, centers=True, faces=_strangers(tmp_path)), CPU)


def _strangers(folder: Path) -> Path:
    path = folder / "strangers.yaml"
    faces = "{people: 3, images: 2, size: 48, seed: 1, first_person: 50}"
    path.write_text(f"class_path: verisphere.images.SyntheticFaces\ninit_args: {faces}\n")
    return path


def test_the_plan_grows_with_the_batch(tiny: Path):
    network = open_model(tiny / "run", CPU, True).backbone
    small, large = (plan_of(network, 12, replace(SHORT, batch_size=batch)) for batch in (3, 6))
    assert (small.batches, large.batches, small.steps) == (4, 2, 8)
    assert small.flops == large.flops > 0
    weights = sum(tensor.nbytes for tensor in network.state_dict().values())
    assert large.bytes - weights == pytest.approx(2 * (small.bytes - weights), rel=0.05)
    assert "12 images in 4 batches of 8 steps" in small.text()


class Changed(Backbone):
    """A network within another one: its images resampled, or its output changed by a function."""

    def __init__(self, inside: Backbone, size: int, output: Callable[[Tensor], Tensor], flip: bool = False) -> None:
        super().__init__(inside.embedding_size)
        self.inside, self.output, self.flip, self.input_size = inside, output, flip, (size, size)

    def embed(self, images: Tensor) -> Tensor:
        images = torch.nn.functional.interpolate(images, self.inside.input_size, mode="bilinear")
        embeddings = self.inside(images)
        return self.output(embeddings + self.inside(images.flip(3)) if self.flip else embeddings)


@pytest.mark.parametrize("change", ["rounded", "in 8 bits", "resampled", "padded", "turned", "negated", "flipped"])
def test_a_network_that_was_changed_is_no_judge_of_itself(change: str):
    torch.manual_seed(0)
    inside, other = SmallNet(48).eval(), SmallNet(48).eval()
    rotation = torch.linalg.qr(torch.randn(16, 16)).Q
    small = copy.deepcopy(inside).half().float()  # as in a smaller precision, with other weights
    if change == "in 8 bits":
        for weight in small.parameters():
            step = weight.detach().abs().max().clamp(min=1e-9) / 127
            weight.data = (weight.data / step).round() * step
    size = 66 if change == "resampled" else 48
    output = {
        "padded": lambda rows: torch.nn.functional.pad(rows, (0, 2)),
        "turned": lambda rows: rows @ rotation,
        "negated": lambda rows: -2 * rows,
    }.get(change, lambda rows: rows)
    judge = Changed(small, size, output, change == "flipped")
    stranger = Changed(other, size, output, change == "flipped")
    attacked = EmbeddingModel(inside, "a")
    for one, two in ((judge, inside), (inside, judge)):
        assert same_network(EmbeddingModel(one, "a"), EmbeddingModel(two, "b"))
    assert not same_network(EmbeddingModel(stranger, "b"), attacked)


def test_a_network_with_one_output_for_every_image_is_no_other_network(recwarn: pytest.WarningsRecorder):
    dead = Changed(SmallNet(48).eval(), 48, lambda rows: torch.ones_like(rows))
    assert not same_network(EmbeddingModel(dead, "a"), EmbeddingModel(SmallNet(48).eval(), "b"))
    assert not recwarn.list


def test_two_trainings_of_one_recipe_are_two_networks(tiny: Path, tmp_path: Path):
    (tmp_path / "recipe.yaml").write_text(RECIPE + "seed: 7\n")
    train_run(read_recipe(tmp_path / "recipe.yaml", []), tmp_path / "run", device="cpu", threads=1)
    assert not same_network(*(open_model(folder / "run", CPU, True) for folder in (tiny, tmp_path)))


def test_the_public_models_are_two_networks_and_each_is_itself(real_data: Path):
    networks = []
    for name, output in (("pretrained_mobilefacenet.onnx", "fc1"), ("second_mobilefacenet.onnx", "embedding")):
        networks.append(OnnxNetwork(128, mean=0.0, scale=1.0, embedding_output=output))
        networks[-1].read((real_data / name).read_bytes(), real_data / name)
    first, second = (EmbeddingModel(network, "a") for network in networks)
    assert not same_network(first, second)
    assert same_network(first, EmbeddingModel(Changed(networks[0], 144, torch.neg, flip=True), "b"))


@pytest.mark.parametrize("told", [{"colour": "BGR"}, {"mean": 0.0, "scale": 1.0}, {"colour": "BGR", "scale": 255.0}])
def test_a_network_that_was_adopted_with_other_pixels_is_no_judge_of_itself(tmp_path: Path, told: dict[str, Any]):
    first, second, other = (
        OnnxNetwork(SIZE, SIDE, SIDE, image_input="images", **pixels) for pixels in ({}, told, told)
    )
    content = graph().SerializeToString()
    for network in (first, second):
        network.read(content, tmp_path / "net.onnx")
    different = graph()
    different.graph.initializer[0].CopyFrom(numpy_helper.from_array(weights(1), "weights"))
    other.read(different.SerializeToString(), tmp_path / "other.onnx")
    for one, two in ((first, second), (second, first)):
        assert same_network(EmbeddingModel(one, "a"), EmbeddingModel(two, "b"))
    assert not same_network(EmbeddingModel(first, "a"), EmbeddingModel(other, "b"))


def _in_capitals(tiny: Path, folder: Path) -> Path:
    """The photographs of the training, whose people are written in capitals."""
    faces = open_faces(tiny / "data.yaml", None, (48, 48), False)
    for place, (name, pixels) in enumerate(zip(faces.identities, faces.images(range(len(faces))), strict=True)):
        (folder / name.upper()).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.permute(1, 2, 0).numpy()).save(folder / name.upper() / f"{place}.png")
    return folder


def test_people_of_a_run_who_are_spelled_otherwise_in_the_photographs(tiny: Path, tmp_path: Path):
    asked = InversionSettings(
        tiny / "run", SHORT, trust=True, faces=_in_capitals(tiny, tmp_path / "faces"), centers=True, count=6
    )
    with pytest.raises(ValueError, match=r"are one name but for case.*--names merge takes such names as one person"):
        prepare(asked, CPU)
    with names_taken("exact"), pytest.raises(ValueError, match="nobody on whom"):
        prepare(asked, CPU)
    with names_taken("merge"):
        merged = prepare(asked, CPU)
    written = prepare(replace(asked, faces=tiny / "data.yaml"), CPU)
    assert merged.people == tuple(name.upper() for name in written.people)
    assert merged.digest == written.digest  # of the same centers, in the same order


def test_two_classes_of_one_merged_name_are_refused(tiny: Path, tmp_path: Path):
    shutil.copytree(tiny / "run", tmp_path / "run")
    people = (tmp_path / "run" / "people.txt").read_text().split()
    (tmp_path / "run" / "people.txt").write_text("\n".join([people[0], people[0].upper(), *people[2:]]) + "\n")
    asked = InversionSettings(tmp_path / "run", SHORT, trust=True, faces=tiny / "data.yaml", centers=True, count=3)
    with names_taken("merge"), pytest.raises(ValueError, match=r"two people whose merged name is .*--names exact"):
        prepare(asked, CPU)


def test_people_of_stored_embeddings_are_found_under_another_spelling(tiny: Path, tmp_path: Path):
    embed_faces(tiny / "run", _in_capitals(tiny, tmp_path / "faces"), tmp_path / "set.npz", device=CPU, trust=True)
    stored = read_embeddings(tmp_path / "set.npz")
    lower = np.char.lower(stored.identities)
    write_embeddings(tmp_path / "lower.npz", replace(stored, identities=lower, spelled=frozenset(lower.tolist())))
    asked = InversionSettings(
        tiny / "run", SHORT, trust=True, faces=tmp_path / "faces", embeddings=tmp_path / "lower.npz", count=3
    )
    with pytest.raises(ValueError, match="are one name but for case"):
        prepare(asked, CPU)
    with names_taken("merge"):
        assert all(name.isupper() for name in prepare(asked, CPU).people)
