"""The commands whose results are pinned, and their small inputs. What was renamed is changed in the two tables below.

Nothing of verisphere is imported here: only the command line is used, so that moved modules change nothing.
"""

import json
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

#: The present spelling of verbs and options that the restructuring renames.
WORDS = {
    "experiment": "experiment",
    "identification": "identification",
}
#: The present class paths of what the recipes below name.
CLASSES = {
    "SyntheticFaces": "verisphere.images.SyntheticFaces",
    "Photos": "verisphere.images.Photos",
    "ByLight": "verisphere.images.ByLight",
    "MobileFaceNet": "verisphere.backbones.MobileFaceNet",
    "IResNet": "verisphere.backbones.IResNet",
    "SEResNet": "verisphere.backbones.SEResNet",
    "GroupFace": "verisphere.backbones.GroupFace",
    **{name: f"verisphere.losses.{name}" for name in (
        "ArcFace", "CosFace", "AdaFace", "AMLFS", "ASoftmax", "CIFP", "Circle", "COCO", "CurricularFace", "Inter",
        "Intra", "MagFace", "MVSoftmax", "SearchSoftmax", "Softmax", "SphereFace", "SphereFace2", "SphereFaceR",
        "VSoftmax", "WeightedSum")},
    **{name: f"verisphere.pairs.{name}" for name in (
        "AnchorFace", "AngularTriplet", "GroupLabels", "ThresholdConsistency")},
}  # fmt: skip
#: How the pictures of docs/losses.md are drawn: words after `python`.
FIGURES = ("-m", "figures")
PROGRAM = ("-m", "verisphere", "--default-allocator")
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", *PROGRAM)


def _class(name: str, **arguments: object) -> dict[str, object]:
    return {"class_path": CLASSES[name], "init_args": arguments}


DRAWN = _class("SyntheticFaces", people=6, images=4, seed=3, difficulty="easy")
SMALL = _class("MobileFaceNet", embedding_size=8, width=0.05, activation="relu")
BASE = {
    "data": DRAWN,
    "backbone": SMALL,
    "loss": _class("ArcFace", margin=0.3, scale=32.0),
    "optimizer": {"rate": 0.05},
    "schedule": {"warmup": 0.5, "margin_warmup": 1},
    "epochs": 2,
    "batch_size": 8,
    "log_every": 1,
    "seed": 3,
    "workers": 0,
}
GROUPED = {**BASE, "images_per_identity": 2, "data": DRAWN}
RECIPES: dict[str, dict[str, object]] = {
    "base": BASE,
    "anchor": {
        **GROUPED,
        "loss": _class("CosFace"),
        "subcenters": 2,
        "pull_together": 0.1,
        "pair_terms": [
            _class("AnchorFace", far="1e-1"),
            _class("AngularTriplet"),
        ],
        "augment": {"crop": 0.2, "low_resolution": 0.3, "brightness": 0.2, "grey": 0.2, "erase": 0.3},
    },
    "consistent": {
        **GROUPED,
        "data": _class("ByLight", faces=DRAWN),
        "engine": "streamed",
        "pair_terms": [_class("ThresholdConsistency", far="1e-1", batches=2, domains="known")],
        "precision": "bfloat16",
    },
    "sampled": {**BASE, "engine": "sampled", "sample_rate": 0.5, "loss": _class("SphereFace2")},
    "validated": {
        **BASE,
        "loss": _class("MagFace"),
        "validation": _class("Photos", path="others.zip"),
        "validation_far": ["1e-1", "1e-2"],
        "validate_every": 1,
        "accumulate": 2,
        "clip": 1.0,
    },
    "started": {**BASE, "start": "dense", "epochs": 1},
    "groups": {
        **BASE,
        "backbone": _class("GroupFace", backbone=SMALL, groups=4, embedding_size=8, hidden=8),
        "pair_terms": [_class("GroupLabels")],
        "epochs": 1,
    },
    "large": {**BASE, "backbone": _class("IResNet", depth=50), "engine": "sampled", "batch_size": 64},
    "untrained": {"backbone": _class("SEResNet", depth=18, embedding_size=16), "seed": 5},
}
#: Losses of which one epoch is trained, each by the engine that its place in the list draws.
LOSSES = {
    "adaface": _class("AdaFace"),
    "am_lfs": _class("AMLFS"),
    "a_softmax": _class("ASoftmax"),
    "cifp": _class("CIFP", far="1e-1", nearest=2),
    "circle": _class("Circle"),
    "coco": _class("COCO"),
    "curricular": _class("CurricularFace"),
    "auxiliary": {
        "class_path": CLASSES["WeightedSum"],
        "init_args": {
            "losses": [_class("ArcFace"), _class("Intra"), _class("Inter")],
            "weights": [1.0, 0.5, 0.5],
        },
    },
    "mv_softmax": _class("MVSoftmax"),
    "search_softmax": _class("SearchSoftmax"),
    "softmax": _class("Softmax"),
    "sphereface_r": _class("SphereFaceR"),
    "v_softmax": _class("VSoftmax"),
}
ENGINES = ("dense", "streamed", "auto")
PLAN = {
    "recipe": "base.yaml",
    "set": {"epochs": 1},
    "warm": {"epochs": 1},
    "arms": {"base": {}, "fast": {"optimizer.rate": 0.5, "loss.init_args.margin": 0.1}},
    "seeds": [0, 3],
    "baseline": "base",
    "evaluate": {
        "unseen": {
            "faces": _class("SyntheticFaces", people=12, images=6, first_person=50, domains=["studio", "night"]),
            "far": ["1e-1"],
            "one_far": "1e-1",
        }
    },
}


@dataclass(frozen=True)
class Command:
    """One command.

    Attributes:
        name: of the command, which stays when verbs are renamed.
        words: after `python`; run in the folder of the inputs, where all paths are relative, so that none is absolute.
        data: a file of the real data that it needs, which is absent elsewhere.
        prepare: what is done to the folder before.
    """

    name: str
    words: tuple[str, ...]
    data: str = ""
    prepare: Callable[[Path], None] | None = None


def commands() -> list[Command]:
    """All of them, in the order in which they need each other's results."""
    return [*_images(), *_trainings(), *_figures(), *_shipping(), *_real()]


def _do(name: str, line: str, *, data: str = "", prepare: Callable[[Path], None] | None = None) -> Command:
    return Command(name, (*PROGRAM, *(word.format(**WORDS) for word in line.split())), data, prepare)


def _images() -> list[Command]:
    return [
        _do("render", "data render faces.zip --people 12 --images 4 --seed 5 --difficulty easy --sheet sheet.png"),
        _do("render others", "data render others.zip --people 24 --images 3 --first-person 100 --difficulty easy"),
        _do(
            "render night",
            "data render night.zip --people 4 --images 3 --domain night --difficulty hard --label-noise .2",
        ),
        _do("figures", "figures figures --only target_logits --only decision_margins --only hard_and_easy"),
    ]


def _trainings() -> list[Command]:
    trained = [
        _do("train dense", "train base.yaml --out dense --engine dense"),
        _do("train streamed", "train base.yaml --out streamed --engine streamed --head_precision bfloat16"),
        _do("train anchor", "train anchor.yaml --out anchor"),
        _do("train consistent", "train consistent.yaml --out consistent"),
        _do("train sampled", "train sampled.yaml --out sampled"),
        _do("train validated", "train validated.yaml --out validated"),
        _do("train started", "train started.yaml --out started"),
        _do("train resumed", "train base.yaml --out resumed --engine dense --resume", prepare=_halve),
        _do("train groups", "train groups.yaml --out groups"),
        Command("train sharded", (*TORCHRUN, "train", "anchor.yaml", "--out", "sharded", "--engine", "streamed")),
        _do("dry run", "train large.yaml --dry-run --classes 1000000 --processes 8 --memory 80 --json dry.json"),
        _do("dry run anchor", "train anchor.yaml --dry-run --processes 2 --memory 4 --json dry_anchor.json"),
    ]
    for number, name in enumerate(LOSSES):
        engine = ENGINES[number % len(ENGINES)]
        trained.append(_do(f"train {name}", f"train {name}.yaml --out losses/{name} --engine {engine} --epochs 1"))
    return [*trained, _do("experiment", "{experiment} plan.yaml --out experiment --replicates 40 --threads 1")]


def _figures() -> list[Command]:
    """Commands over made-up scores and embeddings."""
    return [
        _do("scores", "evaluate scores scores.csv --far 1e-1 --far 1e-2 --json scores.json --curve c.csv --plot c.svg"),
        _do("scores rule", "evaluate scores scores.csv --rule interpolated --union within --far 1e-1 --alpha 0.3"),
        _do("pairs", "evaluate pairs second.npz --pairs pairs.csv --far 1e-1 --intervals --replicates 40 --json "
            "pairs.json"),
        _do("pairs against", "evaluate pairs second.npz --pairs pairs.csv --far 1e-1 --against fourth.npz "
            "--replicates 40"),
        _do("pairs points", "evaluate pairs second.npz --pairs pairs.csv --far 1e-1 --points-only --json points.json"),
        _do("all pairs", "evaluate all-pairs rows.npz --far 1e-1 --far 1e-3 --intervals --replicates 40 --json "
            "all.json "
            "--curve all.csv --plot all.svg"),
        _do("all pairs again", "evaluate all-pairs rows.npz --far 1e-1 --far 1e-3 --json again.json"),
        _do("all pairs against", "evaluate all-pairs second.npz --far 1e-1 --against fourth.npz --replicates 40 "
            "--seed 2"),
        _do("all pairs screens", "evaluate all-pairs second.npz --far 1e-2 --screen bfloat16 --processes 2"),
        _do("one threshold", "evaluate all-pairs rows.npz --far 1e-1 --intervals --replicates 40 --json one.json"),
        _do("one threshold files", "evaluate all-pairs second.npz third.npz --far 1e-1 --union within "
            "--rule nearest"),
        _do("one threshold set elsewhere", "evaluate all-pairs rows.npz --far 1e-1 --calibration third.npz"),
        _do("identification", "evaluate {identification} second.npz --enrol 2 --strangers 0.25 --galleries 2 --seed 4 "
            "--top 3 --candidates candidates.csv --json identification.json --plot identification.svg"),
        _do("identification in a gallery", "evaluate {identification} second.npz --gallery gallery.npz --fpir 1e-1 "
            "--rank 2 --open-rank 2 --screen bfloat16 --rule nearest"),
        _do("calibrate", "calibrate third.npz --far 0.1 --far 0.2 --out confident.json --check second.npz"),
        _do("calibrate expected", "calibrate third.npz --far 0.1 --out expected.json --guarantee expected --seed 2"),
        _do("calibrate approximate", "calibrate third.npz --far 0.1 --out approximate.json --guarantee approximate "
            "--replicates 40"),
        _do("calibrate scores", "calibrate scores.csv --far 0.2 --out independent.json --independent"),
    ]  # fmt: skip


def _shipping() -> list[Command]:
    """From a run to a shipped model, on drawn faces."""
    return [
        _do("embed", "embed dense others.zip --out others.npz --flip --workers 0"),
        _do("embed validated", "embed validated others.zip --out validated.npz --workers 0 --bfloat16"),
        _do("embed groups", "embed groups faces.zip --out groups.npz --workers 0"),
        _do("embed untrained", "embed untrained.yaml night.zip --out untrained.npz --workers 0"),
        _do("evaluate others", "evaluate all-pairs others.npz --far 1e-1 --json others.json"),
        _do("calibrate others", "calibrate others.npz --far 0.2 --far 0.3 --out thresholds.json --guarantee expected"),
        _do("export", "export dense --out model --calibration thresholds.json --evaluation others.json --name tiny "
            "--with-head"),
        _do("export groups", "export groups --out groups_model --flip"),
        _do("embed model", "embed model faces.zip --out by_model.npz --workers 0"),
        _do("embed onnx", "embed model/model.onnx faces.zip --out by_onnx.npz --workers 0"),
        _do("verify", "verify A B --model model --far 0.2 --aligned --accept-drawn-model", prepare=_unpack),
        _do("verify json", "verify A A/1.png --model model --far 0.3 --aligned --accept-drawn-model --json"),
        _do("identify", "identify A/1.png people --model model --far 0.2 --aligned --accept-drawn-model --top 3 "
            "--accept-pair-threshold"),
        _do("identify json", "identify B by_model.npz --model model --far 0.2 --aligned --accept-drawn-model --json "
            "--accept-pair-threshold"),
        _do("report", "report dense validated others.npz --out report --far 1e-1 --far 1e-2 --one-far 1e-1 "
            "--title Pinned "
            "--calibration thresholds.json"),
        _do("report embeddings", "report rows.npz --out rows_report --far 1e-1 --one-far 1e-1"),
    ]  # fmt: skip


def _real() -> list[Command]:
    """On real faces, and on the embeddings of a real model."""
    rows, pairs = "real/lfw_embeddings.npz", "real/lfw_protocol/pairs.txt"
    return [
        _do("ORL", "embed dense real/orl.zip --out orl.npz --workers 0", data="orl.zip"),
        _do("ORL all pairs", "evaluate all-pairs orl.npz --far 1e-1 --far 1e-2 --json orl.json --plot orl.svg",
            data="orl.zip"),
        _do("ORL identification", "evaluate {identification} orl.npz --json orl_search.json", data="orl.zip"),
        _do("ORL report", "report orl.npz --out orl_report --far 1e-1", data="orl.zip"),
        _do("ORL align", "align orl orl_aligned", data="orl.zip", prepare=_unpack_orl),
        _do("align", "align raw aligned.zip", data="lfw_raw_sample.zip", prepare=_unpack_raw),
        _do("align by landmarks", "align raw marked --landmarks raw/landmarks.json --format jpg "
            "--template sphereface_112x96", data="lfw_raw_sample.zip"),
        _do("LFW pairs", f"evaluate pairs {rows} --pairs {pairs} --far 1e-2 --far 1e-3 --json lfw.json --plot lfw.svg",
            data="lfw_embeddings.npz"),
        _do("LFW all pairs", f"evaluate all-pairs {rows} --far 1e-3 --far 1e-5 --json lfw_all.json --curve lfw_all.csv",
            data="lfw_embeddings.npz"),
        _do("LFW identification", f"evaluate {{identification}} {rows} --strangers 0.5 --json lfw_search.json",
            data="lfw_embeddings.npz"),
        _do("LFW calibrate", f"calibrate {rows} --far 1e-2 --out lfw_thresholds.json", data="lfw_embeddings.npz"),
    ]  # fmt: skip


# --- inputs -----------------------------------------------------------------------------------------------------------


def write_inputs(folder: Path, real: Path) -> None:
    """Recipes, scores, pairs and embeddings of made-up people; and a link to the real data where it is present."""
    for name, recipe in RECIPES.items():
        _write(folder / f"{name}.yaml", recipe)
    for name, loss in LOSSES.items():
        _write(folder / f"{name}.yaml", {**BASE, "loss": loss})
    _write(folder / "plan.yaml", PLAN)
    generator = np.random.default_rng(0)
    label = np.arange(400) % 2
    score = np.round(generator.normal(size=400) + 2.0 * label, 2)  # rounded: some are equal
    lines = [f"{one},{mate},{'ab'[row % 5 // 3]}" for row, (one, mate) in enumerate(zip(score, label, strict=True))]
    (folder / "scores.csv").write_text("\n".join(["score,label,domain", *lines, ""]))
    _rows(folder / "rows.npz", 1, people=40, images=6, domains=True)
    _rows(folder / "second.npz", 2, people=40, images=6)
    _rows(folder / "third.npz", 3, people=160, images=3)
    _rows(folder / "fourth.npz", 4, people=40, images=6)
    _rows(folder / "gallery.npz", 5, people=30, images=1)
    genuine = [(f"{person}/0", f"{person}/{1 + person % 5}", 1, person % 4) for person in range(40)]
    impostors = [(f"{person}/2", f"{(person + 7) % 40}/3", 0, person % 4) for person in range(40)]
    lines = [",".join(map(str, pair)) for pair in genuine + impostors]
    (folder / "pairs.csv").write_text("\n".join(["left,right,label,fold", *lines, ""]))
    if real.is_dir():
        (folder / "real").symlink_to(real)


def _write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=1))  # JSON is YAML


def _rows(path: Path, seed: int, people: int, images: int, domains: bool = False) -> None:
    """Embeddings near each person's direction; those of one number resemble each other in every file."""
    person = np.repeat(np.arange(people), images)
    centers = np.random.default_rng(0).normal(size=(people, 16))
    rows = centers[person] + 0.9 * np.random.default_rng(seed).normal(size=(len(person), 16))
    arrays = {
        "embeddings": rows.astype(np.float32),
        "names": np.array([f"{owner}/{row % images}" for row, owner in enumerate(person)]),
        "identities": np.array([f"p{owner}" for owner in person]),
    }
    if domains:
        arrays["domains"] = np.array(["bright", "dark"])[np.arange(len(person)) % 2]
    np.savez(path, **arrays)


def _halve(folder: Path) -> None:
    """The dense run as it stood after its first epoch."""
    shutil.copytree(folder / "dense", folder / "resumed")
    newest = max((folder / "resumed" / "checkpoints").iterdir())
    shutil.rmtree(newest)


def _unpack(folder: Path) -> None:
    """Two people's drawn faces, and a gallery of four people."""
    with zipfile.ZipFile(folder / "faces.zip") as archive:
        images: dict[str, list[str]] = {}
        for name in sorted(archive.namelist()):
            if name.count("/") == 1:
                images.setdefault(name.partition("/")[0], []).append(name)
        for person, target in zip(sorted(images), ("A", "B", "people/C", "people/D"), strict=False):
            for number, name in enumerate(images[person]):
                _put(folder / target / f"{number}.png", archive.read(name))
                if target == "A" and number > 1:
                    _put(folder / "people" / "A" / f"{number}.png", archive.read(name))


def _unpack_orl(folder: Path) -> None:
    _extract(folder / "real" / "orl.zip", folder / "orl", 20)


def _unpack_raw(folder: Path) -> None:
    _extract(folder / "real" / "lfw_raw_sample.zip", folder / "raw", 30)


def _extract(archive: Path, folder: Path, count: int) -> None:
    """The first images of an archive, and the list that lies beside them."""
    with zipfile.ZipFile(archive) as opened:
        names = sorted(opened.namelist())
        for name in [name for name in names if not name.endswith(".json")][:count]:
            _put(folder / name, opened.read(name))
        for name in (name for name in names if name.endswith(".json")):
            _put(folder / name, opened.read(name))


def _put(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
