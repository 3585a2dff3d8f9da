"""The cases: each plants one fault, or none, and says what may be named."""

import pickle
import shutil
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from io import BytesIO
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from verisphere.base.vocabulary import Embeddings
from verisphere.files.embeddings import write_embeddings
from verisphere.files.label_lists import LabelList, write_labels
from verisphere.models.checkpoint import read_checkpoint, save_checkpoint
from verisphere.models.described_faces import open_faces
from verisphere.models.embed import embed, open_model
from verisphere.ship.adopt import adopt_onnx
from verisphere.ship.calibrate import calibrate
from verisphere.ship.pixels import Told
from verisphere.study.why.answer import Answer
from verisphere.study.why.pixels import AS_THEY_ARE, Way, embedded, exchanged, view
from verisphere.study.why.why import why
from verisphere.train.recipe import read_recipe
from verisphere.train.session import train_run

MODELS = {"first": "pretrained_mobilefacenet.onnx", "second": "second_mobilefacenet.onnx"}
_CPU = torch.device("cpu")
RECIPE = """\
data: {class_path: Photos, init_args: {path: TRAINING, size: [64, 64]}}
backbone: {class_path: MobileFaceNet, init_args: {width: 0.125, embedding_size: 64, face_height: 64, face_width: 64}}
loss: {class_path: ArcFace, init_args: {margin: 0.2, scale: 16}}
optimizer: {rate: 0.05}
schedule: {power: 1.0}
batch_size: 16
steps: 240
epochs: null
unit: steps
save_every: 1000
log_every: 10
workers: 0
in_memory: true
"""


@dataclass(frozen=True)
class Case:
    """A case.

    Attributes:
        name: the fault, or what is healthy.
        named: a word of the cause that is to be named; empty for a healthy case.
        ask: makes the case and asks.
    """

    name: str
    named: str
    ask: Callable[[], Answer]


class Room:
    """A folder with what several cases share: models, sets, rows and runs, made when they are first asked for."""

    def __init__(self, data: Path, folder: Path) -> None:
        self.data, self.folder = data.absolute(), folder
        folder.mkdir(parents=True, exist_ok=True)

    def model(self, name: str, **told: Any) -> Path:
        """A model of the shared data, adopted as it is or otherwise."""
        out = self.folder / "-".join([name, *map(str, told.values())])
        if not out.exists():
            as_told = replace(Told(colour="RGB", mean=0.0, scale=1.0), **told)
            adopt_onnx(self.data / MODELS[name], out, as_told)
        return out

    @cached_property
    def people(self) -> dict[str, list[str]]:
        """The images of each person of LFW with two images or more."""
        people: dict[str, list[str]] = {}
        with zipfile.ZipFile(self.data / "lfw_112.zip") as archive:
            for name in sorted(archive.namelist()):
                if name.endswith(".jpg"):
                    people.setdefault(name.split("/")[-2], []).append(name)
        return {person: names for person, names in people.items() if len(names) > 1}

    @cached_property
    def trained(self) -> list[str]:
        """The people of the trainings, who are in no other set but those that are to share them."""
        return [person for person, names in self.people.items() if len(names) >= 4][1::6][:80]

    def set_of(
        self, first: int = 0, people: int = 60, images: int = 3, change: Callable[[Image.Image], Any] | None = None,
        name: str = "lfw", suffix: str = "png", trained: bool = False, **saved: Any,
    ) -> Path:  # fmt: skip
        """A zip of some people; their bytes as they are, or changed and encoded anew."""
        out = self.folder / f"{name}-{first}-{people}-{images}.zip"
        if out.exists():
            return out
        of = [person in self.trained for person in self.people]
        chosen = [names for names, known in zip(self.people.values(), of, strict=True) if known == trained]
        chosen = chosen[first :: 1 if trained else 7][:people]
        with zipfile.ZipFile(self.data / "lfw_112.zip") as archive, zipfile.ZipFile(out, "w") as made:
            for path in (path for names in chosen for path in names[:images]):
                data, kept = archive.read(path), path
                if change is not None:
                    buffer = BytesIO()
                    change(Image.open(BytesIO(data)).convert("RGB")).save(
                        buffer, suffix.replace("jpg", "jpeg"), **saved
                    )
                    data, kept = buffer.getvalue(), path.replace(".jpg", f".{suffix}")
                made.writestr(kept, data)
        return out

    def rows(self, model: Path, images: Path) -> Embeddings:
        """The rows of a set, as `embed` makes them."""
        opened = open_model(model, _CPU)
        return embed(opened, open_faces(images, None, opened.backbone.input_size), str(images))

    def made(self, model: Path, images: Path, way: Way, flip: bool = False) -> np.ndarray:
        """Rows that are made otherwise."""
        opened = open_model(model, _CPU)
        faces = open_faces(images, None, opened.backbone.input_size)
        rows = embedded(opened.backbone, faces.images(range(len(faces))), way)
        return (rows[0] + rows[1] if flip else rows[0]).astype(np.float32)

    def file(self, name: str, rows: Embeddings) -> Path:
        """An embeddings file."""
        out = self.folder / f"{name}.npz"
        write_embeddings(out, rows)
        return out

    def text(self, name: str, content: str) -> Path:
        """A file of text."""
        out = self.folder / name
        out.write_text(content, encoding="utf-8")
        return out

    def run(self, name: str, *overrides: str) -> Path:
        """A training of a small network."""
        out = self.folder / "runs" / name
        if not out.exists():
            training = self.set_of(0, 80, 8, name="training", trained=True)
            recipe = self.text("recipe.yaml", RECIPE.replace("TRAINING", str(training)))
            train_run(read_recipe(recipe, list(overrides)), out, measure=lambda rows, fars: {})
        return out


def _listed(rows: Embeddings) -> list[tuple[str, str, int]]:
    """All genuine pairs, and as many of an image and one of a neighbour, in turns of ten."""
    names, people = rows.names.tolist(), rows.identities.tolist()
    of = {person: [name for name, other in zip(names, people, strict=True) if other == person] for person in people}
    same = [(*pair, 1) for images in of.values() for pair in combinations(images, 2)]
    order = list(of)
    owner = dict(zip(names, people, strict=True))
    other = [(one, of[order[order.index(owner[two]) - 1 - at % 3]][0], 0) for at, (one, two, _) in enumerate(same)]
    return [pair for at in range(0, len(same), 10) for pair in (*same[at : at + 10], *other[at : at + 10])]


def _csv(pairs: list[tuple[str, str, int]], folds: Callable[[int], int] | None = None) -> str:
    lines = [f"{one},{two},{label}" + ("" if folds is None else f",{folds(row)}") for row, (one, two, label) in
             enumerate(pairs)]  # fmt: skip
    return "\n".join(["left,right,label" + ("" if folds is None else ",fold"), *lines]) + "\n"


def _bin(room: Room, name: str, images: Path, pairs: list[tuple[str, str, int]], order: np.ndarray) -> Path:
    """A verification set of the pairs, its labels in another order."""
    with zipfile.ZipFile(images) as archive:
        whole = {path.split("/", path.count("/") - 1)[-1]: archive.read(path) for path in archive.namelist()}
    out = room.folder / f"{name}.bin"
    labels = [bool(label) for *_, label in pairs]
    content = [whole[path] for one, two, _ in pairs for path in (one, two)]
    out.write_bytes(pickle.dumps((content, [labels[at] for at in order.tolist()])))
    return out


def _turned(room: Room, run: Path) -> Path:
    """A copy of a run whose first eight centers point away from their images."""
    out = room.folder / "runs" / "turned"
    if not out.exists():
        shutil.copytree(run, out)
        checkpoint = read_checkpoint(run)
        parts = {name: checkpoint.tensors(name) for name in checkpoint.sha256}
        parts["head"]["centers"][:8] *= -1
        save_checkpoint(out, checkpoint.step + 1, parts, checkpoint.state)
    return out


def _part(image: Image.Image, share: float) -> Image.Image:
    edge = round(112 * (1 - share) / 2)
    return image.crop((edge, edge, 112 - edge, 112 - edge)).resize((112, 112), Image.Resampling.BICUBIC)


def planted(room: Room) -> Iterator[Case]:
    """Faults, one each."""
    lfw, model, other = room.set_of(), room.model("first"), room.model("second")
    rows, theirs = room.rows(model, lfw), room.rows(other, lfw)
    bare, draw = replace(rows, origin=None, in_training=None), np.random.default_rng(0)

    def with_rows(name: str, named: str, made: np.ndarray, whose: Path = model) -> Case:
        return Case(name, named, lambda: why(whose, lfw, embeddings=room.file(name, replace(bare, embeddings=made))))

    yield with_rows("rows of BGR", "colour", room.made(model, lfw, Way(change=exchanged)))
    yield with_rows(
        "rows of pixels / 255, second model", "scale", room.made(other, lfw, Way(normal=(0.0, 255.0))), other
    )
    both = room.made(other, lfw, Way(change=exchanged, normal=(127.5, 128.0)))
    yield with_rows("rows of BGR and (pixel - 127.5) / 128", "colour order and mean", both, other)
    yield with_rows("rows with the mirror image", "flip", room.made(model, lfw, AS_THEY_ARE, flip=True))
    both = room.made(other, lfw, AS_THEY_ARE, flip=True) - theirs.embeddings
    yield with_rows("rows of the mirror images alone, second model", "flip", both, other)
    yield with_rows("rows of the middle 80 %", "crop", room.made(model, lfw, Way(change=view((0.8, 0, 0, 0, 0.8, 0)))))
    lengths = np.linalg.norm(rows.embeddings, axis=1, keepdims=True)
    yield with_rows("rows of length 1", "norm", rows.embeddings / lengths)
    spread = rows.embeddings.std(0)
    yield with_rows("rows standardised number by number", "norm", (rows.embeddings - rows.embeddings.mean(0)) / spread)
    yield with_rows("rows moved by one", "shift", np.roll(rows.embeddings, 1, 0))
    yield with_rows("rows in a random order", "shift", draw.permutation(rows.embeddings))
    rounded = torch.from_numpy(rows.embeddings).bfloat16().float().numpy()
    yield with_rows("rows in bfloat16", "precision", rounded)
    yield with_rows("rows of the other model", "another model", theirs.embeddings)
    collapsed = rows.embeddings.copy()
    collapsed[::3] = collapsed[0]
    yield with_rows("one vector in a third of the rows", "collapsed", collapsed)
    moved = replace(rows, identities=np.roll(rows.identities, 1))
    yield Case("identities of the file moved", "shift", lambda: why(model, lfw, embeddings=room.file("moved", moved)))
    labels = room.folder / "moved.csv"
    write_labels(labels, LabelList(rows.names.tolist(), np.roll(rows.identities, -1).tolist()))
    yield Case("list of labels moved", "shift", lambda: why(model, lfw, identities=labels))
    jpeg = room.set_of(change=lambda image: image, name="jpeg", suffix="jpg", quality=60)
    yield Case("images encoded again", "other bytes", lambda: why(model, jpeg, embeddings=room.file("before", rows)))
    fine = room.set_of(change=lambda image: image, name="fine", suffix="jpg", quality=95)
    yield Case(
        "the same at quality 95, no digests",
        "other bytes",
        lambda: why(model, fine, embeddings=room.file("bare", bare)),
    )
    strangers = room.file("strangers", room.rows(other, room.set_of(3, 100, 2)))
    thresholds = room.folder / "other.json"
    calibrate(strangers, ["1e-1"]).write_json(thresholds)
    yield Case("calibration of the other model", "calibration", lambda: why(model, lfw, calibration=thresholds))
    pairs = _listed(rows)
    blocks = room.text("blocks.csv", _csv(sorted(pairs, key=lambda pair: -pair[2]), lambda row: row * 10 // len(pairs)))
    yield Case("folds of one kind", "fold", lambda: why(model, lfw, pairs=blocks))
    late = [(*pair[:2], pairs[row - 1][2]) for row, pair in enumerate(pairs)]
    yield Case(
        "labels of the list moved", "list order", lambda: why(model, lfw, pairs=room.text("late.csv", _csv(late)))
    )
    order = _bin(room, "order", lfw, pairs, draw.permutation(len(pairs)))
    yield Case(".bin with its flags in another order", "list order", lambda: why(model, order))
    yield Case("adopted as BGR", "colour", lambda: why(room.model("first", colour="BGR"), lfw))
    yield Case(
        "second, adopted with (127.5, 127.5)", "scale", lambda: why(room.model("second", mean=127.5, scale=127.5), lfw)
    )
    tight = room.set_of(change=lambda image: _part(image, 0.8), name="tight")
    yield Case("images cut too tight", "crop", lambda: why(model, tight))
    yield Case("photographs that are not aligned", "alignment", lambda: why(model, room.data / "lfw_raw_sample.zip"))
    yield Case("rate too high", "too high", lambda: why(room.run("high", "--optimizer.rate", "20")))
    yield Case("rate too low", "too low", lambda: why(room.run("low", "--optimizer.rate", "1e-5")))
    hard = ("--loss.init_args.margin", "1.0", "--loss.init_args.scale", "64")
    yield Case("ArcFace does not start", "stuck", lambda: why(room.run("stuck", *hard)))
    inside = room.set_of(0, 20, 8, name="inside", trained=True)
    described = f"{{class_path: Photos, init_args: {{path: {inside}, size: [64, 64]}}}}"
    known = ("--validation", described, "--loss", "{class_path: NormFace}")
    yield Case("validation people in the training", "validation", lambda: why(room.run("validated", *known)))
    run = room.run("trained", "--loss", "{class_path: NormFace}", "--steps", "600")
    yield Case("eight centers turned away", "centers", lambda: why(_turned(room, run)))
    again = room.set_of(0, 40, 3, name="again", trained=True)
    yield Case("a set of people of the training", "training", lambda: why(run, again))


def healthy(room: Room) -> Iterator[Case]:
    """Cases without a fault, among them weak, untrained and small ones."""
    lfw, model, other = room.set_of(), room.model("first"), room.model("second")
    rows, theirs = room.rows(model, lfw), room.rows(other, lfw)

    def case(name: str, *asked: Any, **more: Any) -> Case:
        return Case(name, "", lambda: why(*asked, **more))

    own = room.file("own", rows)
    yield case("first model, its rows", model, lfw, embeddings=own)
    yield case("second model, its rows", other, lfw, embeddings=room.file("theirs", theirs))
    unknown = replace(rows, origin=None, in_training=None)
    yield case("rows of unknown origin", model, lfw, embeddings=room.file("unknown", unknown))
    named = replace(rows, identities=np.char.add("person ", rows.identities))
    yield case("people called otherwise", model, lfw, embeddings=room.file("named", named))
    png = room.set_of(change=lambda image: image, name="lossless")
    kept = replace(rows, names=np.char.replace(rows.names, ".jpg", ".png"))
    yield case("the same pixels in PNG", model, png, embeddings=room.file("png", kept))
    order = np.random.default_rng(1).permutation(len(rows))
    yield case(
        "rows of another order, with their names", model, lfw, embeddings=room.file("shuffled", rows.take(order))
    )
    half = replace(rows, embeddings=rows.embeddings.astype(np.float16).astype(np.float32))
    yield case("rows in float16", model, lfw, embeddings=room.file("half", half))
    yield case("no rows", other, room.set_of(2, 70, 2))
    yield case("twelve people", model, room.set_of(4, 12, 2))
    yield case("four people", model, room.set_of(5, 4, 2))
    grey = room.set_of(change=lambda image: image.convert("L"), name="grey")
    yield case("grey images", model, grey)
    thresholds = room.folder / "own.json"
    calibrate(room.file("others", room.rows(model, room.set_of(3, 100, 2))), ["1e-1"]).write_json(thresholds)
    yield case("calibration of the model", model, lfw, embeddings=own, calibration=thresholds)
    pairs = _listed(rows)
    folds = room.text("folds.csv", _csv(pairs, lambda row: row // 20))
    yield case("list of pairs with folds", model, lfw, embeddings=own, pairs=folds)
    yield case(".bin", other, _bin(room, "right", lfw, pairs, np.arange(len(pairs))))
    untrained = room.text(
        "untrained.yaml", "backbone: {class_path: verisphere.backbones.MobileFaceNet, init_args: {width: 0.25}}\n"
    )
    yield case("untrained network", untrained, lfw)
    short = room.run("short", "--steps", "40")
    yield case("weak network, other people", short, lfw)
    yield case("run of 40 steps", short)
    softmax = room.run("softmax", "--loss", "{class_path: NormFace}")
    yield case("run of NormFace", softmax)
    yield case("its network, other people", softmax, room.set_of(6, 60, 2))
    yield case("run of AdamW", room.run("adamw", "--optimizer.name", "adamw", "--optimizer.rate", "1e-3"))
