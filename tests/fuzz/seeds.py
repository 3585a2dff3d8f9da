"""Whole inputs, made by the project's own writers where it has one; mutations start from them."""

import io
import itertools
import json
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from fuzz.containers import Files, files_of, reseal_model, reseal_onnx
from fuzz.seeds_from_elsewhere import models_of_others, packs, vectors
from fuzz.seeds_of_clusters import clusters
from fuzz.seeds_of_protocols import features, pair_lists, templates
from shard_writer import written
from verisphere.base.trained_on import TrainedOn, name_digests
from verisphere.base.vocabulary import Embeddings, ImageSource, Origin, Redrawing
from verisphere.base.work import working
from verisphere.cli import main
from verisphere.decide import Review, gallery_threshold, operating_point
from verisphere.files.calibration import Source
from verisphere.files.embeddings import write_embeddings
from verisphere.files.gallery_calibration import GalleryCalibration, PromisedGallery
from verisphere.files.leak_figures import LeakFigures, LeakRow
from verisphere.files.results import json_text
from verisphere.files.verdicts import Verdict
from verisphere.files.work import WorkFolder
from verisphere.measure.precision import PrecisionDrop, RangeImages, precision_drop
from verisphere.models.onnx_file import InputFormat
from verisphere.models.trained_on import as_tensors
from verisphere.score import AllPairs, Group, unit_rows

RECIPE = """\
data:
  class_path: verisphere.images.SyntheticFaces
  init_args: {people: 4, images: 2, seed: 3, difficulty: easy}
backbone:
  class_path: verisphere.backbones.MobileFaceNet
  init_args: {embedding_size: 8, width: 0.05, activation: relu}
loss:
  class_path: verisphere.losses.ArcFace
  init_args: {margin: 0.3, scale: 32.0}
augment: {crop: 0.1, brightness: 0.2, erase: 0.5}
optimizer: {name: sgd, rate: 0.05, momentum: 0.9, weight_decay: 0.0005}
schedule: {shape: polynomial, warmup: 0.5}
epochs: 1
batch_size: 4
seed: 3
workers: 0
"""
TERMS = """\
pair_terms:
- class_path: verisphere.pairs.AnchorFace
  init_args: {far: 1e-2}
validation:
  class_path: verisphere.images.Photos
  init_args: {path: input/photos, min_images: 2}
validation_far: [1e-1, 0.2]
clip: 5.0
subcenters: 2
engine: streamed
"""
DATA_SET = """\
data:
  class_path: verisphere.images.ByLight
  init_args:
    faces: {class_path: verisphere.images.SyntheticFaces, init_args: {people: 3, images: 2, difficulty: easy}}
"""
PLAN = """\
recipe: recipe.yaml
set: {batch_size: 4}
warm: {epochs: 1}
arms:
  base: {}
  fast: {optimizer.rate: 0.5, loss.init_args.margin: 0.1}
grid: {optimizer.momentum: [0.0, 0.9]}
seeds: [0, 3]
baseline: base
evaluate:
  unseen: {faces: {class_path: verisphere.images.SyntheticFaces, init_args: {people: 3, images: 2}}, far: ["0.2"]}
"""
SEARCH = """\
recipe: recipe.yaml
set: {batch_size: 4}
space:
  optimizer.rate: {class_path: verisphere.study.search.Logarithmic, init_args: {low: 0.01, high: 0.1}}
  loss.init_args.margin: {class_path: verisphere.study.search.Linear, init_args: {low: 0.0, high: 0.4, start: 0.1}}
method: {class_path: verisphere.study.search.Reinforce, init_args: {deviation: 0.2}}
schedule: {class_path: verisphere.study.search.EachEpoch, init_args: {candidates: 2}}
reward:
  faces: {class_path: verisphere.images.SyntheticFaces, init_args: {people: 3, images: 2}}
  far: ["0.2"]
  replicates: 4
"""
ASKED = """\
recipe: recipe.yaml
arms:
  base: {}
  fast: {optimizer.rate: 0.5}
seeds: [0]
"""
COUNT, SIZE = 12, 8  # images and embedding size of the small sets


def make_seeds(folder: Path) -> dict[str, Files]:
    """Every seed by its name, as contents of files by their paths below an input's own folder.

    Raises:
        RuntimeError: a command that makes one has failed.
    """
    seeds = _tables() | _images() | _recipes() | _arrays(folder) | _models(folder) | _onnx()
    elsewhere = vectors(folder) | packs(folder, picture) | models_of_others(folder, command)
    return seeds | _experiments(folder) | _weights() | elsewhere | clusters(folder / "clusters")


# --- tables -----------------------------------------------------------------------------------------------------------


def _tables() -> dict[str, Files]:
    people = [f"Person_{number}" for number in range(4)]
    fold = "".join(f"{name}\t1\t2\n" for name in people[:3])
    fold += "".join(f"{one}\t1\t{other}\t2\n" for one, other in itertools.pairwise(people))
    pairs = "left,right,label,fold\n" + "".join(
        f"{people[number]}/1.png,{people[number % 2]}/2.png,{int(number < 2)},{number % 2}\n" for number in range(4)
    )
    scores = "score,label,domain\n" + "".join(
        f"{0.1 * number},{number % 2},{'ab'[number // 3]}\n" for number in range(6)
    )
    names = [f"{person}/{image}.png" for person in people[:2] for image in (1, 2)]
    files = dict.fromkeys(names, b"")
    points = [[38.3, 51.7], [73.5, 51.5], [56.0, 71.7], [41.5, 92.4], [70.7, 92.2]]
    marks = {name: {"landmarks": points, "box": [20, 20, 70, 90], "score": 0.9} for name in names}
    marks |= {"several.png": [marks[names[0]], {"landmarks": points}], "none.png": []}  # type: ignore[dict-item]
    columns = [
        f"{point}_{axis}" for point in ("left_eye", "right_eye", "nose", "left_mouth", "right_mouth") for axis in "xy"
    ]
    header = ["name", *columns, "box_left", "box_top", "box_width", "box_height", "score"]
    flat = ",".join(str(number) for point in points for number in point)
    return {
        "scores.csv": {"scores.csv": scores.encode()},
        "lfw pairs": {"pairs.txt": f"2\t3\n{fold}{fold}".encode()},
        "lfw pairs without folds": {"pairs.txt": f"3\n{fold}".encode()},
        "pairs.csv": {"pairs.csv": pairs.encode()},
        **pair_lists(),
        "people": {"people.txt": "".join(f"{name}\n" for name in people).encode()},
        "people with counts": {"people.txt": "".join(["4\n", *(f"{name}\t2\n" for name in people)]).encode()},
        "people in sections": {"people.txt": b"2\n2\nPerson_0\t2\nPerson_1\t1\n1\nPerson_2\t3\n"},
        "list of labels": {
            "labels.csv": b"name,identity,domain,true_identity\n"
            + "".join(f"{name},{name[:8]},day,Ann\n" for name in names).encode()
        },
        "ids by spaces": {"ids.txt": b"0000045 Bruce_Lee\n0000513 William_H._Macy\n"},
        "ids by tabs": {"ids.txt": b'm.0107_f\t"Zhang Ziyi"@en\nm.0107_f\t"\xe7\xab\xa0"@zh\n'},
        "ids by commas": {"ids.txt": b'Class_ID, Name\nn000001, "14th_Dalai_Lama",424,0, m,\nn000002, "A", 1, 1\n'},
        "pairs to merge": {"merge.csv": b"identity,other,cosine\nAnn,Anne,0.9\nBen,Benjamin,0.8\n"},
        "list of images": {"list.txt": "".join(f"{name}\t{name[:8]}\n" for name in names).encode(), **files},
        "list without identities": {"list.csv": "".join(f"{name}\n" for name in names).encode(), **files},
        "landmarks.json": {"marks.json": json.dumps(marks, indent=1).encode()},
        "landmarks.csv": {
            "marks.csv": "\n".join([",".join(header), *(f"{name},{flat},20,20,70,90,0.9" for name in names),
                                    "none.png" + "," * (len(header) - 1), ""]).encode()
        },
        "metrics": {
            "metrics.jsonl": b"".join(
                json.dumps({"step": step, "epoch": step / 4, "loss": 9.0 / step, "tar@1e-2": None}).encode() + b"\n"
                for step in range(1, 6)
            )
        },
    }  # fmt: skip


# --- images -----------------------------------------------------------------------------------------------------------


def picture(kind: str, seed: int = 0, side: int = 24) -> bytes:
    """A small smooth picture in a format."""
    generator = np.random.default_rng(seed)
    pixels = Image.fromarray(generator.integers(0, 256, (4, 4, 3), np.uint8)).resize(
        (side, side), Image.Resampling.BICUBIC
    )
    buffer = io.BytesIO()
    options = {"JPEG": {"exif": b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"}}.get(
        kind, {}
    )
    pixels.save(buffer, kind, **options)
    return buffer.getvalue()


def _images() -> dict[str, Files]:
    kinds = {"png": "PNG", "jpg": "JPEG", "bmp": "BMP", "webp": "WEBP", "tif": "TIFF", "ppm": "PPM"}
    files = {f"photos/Person_{place % 3}/{suffix}.{suffix}": picture(kind, place)
             for place, (suffix, kind) in enumerate(kinds.items())}  # fmt: skip
    import zipfile

    archives = {}
    for name, method in (("stored", zipfile.ZIP_STORED), ("deflated", zipfile.ZIP_DEFLATED)):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", method) as archive:
            for place in range(4):
                archive.writestr(
                    zipfile.ZipInfo(f"P{place // 2}/{place}.png", (2020, 1, 1, 0, 0, 0)), picture("PNG", place)
                )
        archives[f"{name} archive"] = {"photos.zip": buffer.getvalue()}
    return {"photos": files, **archives}


# --- recipes and experiments ------------------------------------------------------------------------------------------


def _recipes() -> dict[str, Files]:
    photos = {f"photos/P{place // 2}/{place}.png": picture("PNG", place) for place in range(4)}
    return {
        "recipe": {"recipe.yaml": RECIPE.encode()},
        "data set": {"faces.yaml": DATA_SET.encode()},
        "recipe with terms": {"recipe.yaml": (RECIPE + TERMS).encode(), **photos},
        "recipe over a base": {"recipe.yaml": b"base: shared.yaml\nepochs: 1\n", "shared.yaml": RECIPE.encode()},
        "search": {"search.yaml": SEARCH.encode(), "recipe.yaml": RECIPE.encode()},
        "folder of a search": {
            "search.json": _search_json(),
            "reward.json": b'{"reward": 0.5, "replicates": [0.25, null]}',
        },
        "inversion": {"inversion.yaml": b"steps: 3\nrate: 0.1\ndecay: cosine\nflip: true\n"},
        "leak": {"leak.json": _leak_json()},
        "experiment": {"plan.yaml": PLAN.encode(), "recipe.yaml": RECIPE.encode()},
    }


def _leak_json() -> bytes:
    """A test of leaks with one attacker."""
    point = operating_point([0.9, 0.1], [0.5, 0.4, 0.2, 0.1], "0.25")
    rows = (
        LeakRow("photographs", 0.5, 0.0, ()),
        LeakRow("head", 0.25, 0.125, (point,), 0.75, 0.5),
        LeakRow("folder", 0.25, 0.125, (point,), 0.25, 0.5, (point,)),
    )
    return json_text(LeakFigures(3, "a", "0" * 64, "b", None, rows, {"steps": 3}, "0")).encode()


def _search_json() -> bytes:
    """Two rounds of a search, of which the second has a candidate that diverged."""
    draws = {"draw": [0.5, 0.1], "values": {"optimizer.rate": 0.03, "loss.init_args.margin": 0.04}}
    rounds = [
        {
            "until_epoch": 0.5 * number,
            "best": 2,
            "another_wins": 0.25,
            "method": {"mean_0": 0.5, "mean_1": 0.25},
            "candidates": [draws | {"parent": parent, "reward": reward, "spread": reward} for reward in (worse, 0.5)],
        }
        for number, parent, worse in ((1, None, 0.25), (2, 2, None))
    ]
    asked = {"recipe": {"epochs": 1}, "space": {}, "method": {}, "schedule": {}, "reward": {}}
    return json.dumps({"format": 1, "asked": asked, "rounds": rounds, "learned": None}).encode()


# --- arrays -----------------------------------------------------------------------------------------------------------


def small_set(count: int = COUNT, size: int = SIZE, domains: bool = True) -> Embeddings:
    """Embeddings of two images a person."""
    generator = np.random.default_rng(0)
    identities = np.array([f"person {row // 2}" for row in range(count)])
    return Embeddings(
        generator.normal(size=(count, size)).astype(np.float32),
        names=np.array([f"{identities[row]}/{row}.png" for row in range(count)]),
        identities=identities,
        domains=np.array(["day" if row < count // 2 else "night" for row in range(count)]) if domains else None,
        origin=Origin("0" * 64, False, "float32", "photos"),
    )


def _arrays(folder: Path) -> dict[str, Files]:
    write_embeddings(folder / "set.npz", small_set())
    plain, scores = io.BytesIO(), io.BytesIO()
    some = small_set(domains=False)
    np.savez_compressed(
        plain, embeddings=some.embeddings.astype(np.float64), names=some.names, identities=np.arange(COUNT) // 2
    )
    np.savez(scores, score=np.linspace(-1, 1, 20), label=np.arange(20) % 2, domain=np.array(["a", "b"] * 10))
    for store in ("float32", "int8"):
        written(folder / store / "set", small_set(), store, COUNT // 2)
    return {
        "shards": files_of(folder / "float32"),
        "shards in int8": files_of(folder / "int8"),
        "embeddings": {"set.npz": (folder / "set.npz").read_bytes()},
        "plain embeddings": {"set.npz": plain.getvalue()},
        "scores.npz": {"scores.npz": scores.getvalue()},
        "saved scan": {"sweep.npz": _kept_piece(folder / "work")},
        "templates and pairs": templates(plain.getvalue(), some.names.tolist()),
        **features(folder / "set.bin", some),
    }


def _kept_piece(folder: Path) -> bytes:
    """A piece of a pass over all pairs, as a work folder keeps it."""
    generator = np.random.default_rng(0)
    units = unit_rows(generator.normal(size=(96, 8)).astype(np.float32))
    with working(WorkFolder(folder)):
        AllPairs(units, torch.arange(96) // 3, block=16).scores([Group(0, False), Group(None, False)]).ranked(5)
    return next(folder.glob("*/00000003.npz")).read_bytes()


# --- runs and models --------------------------------------------------------------------------------------------------


def command(*arguments: object) -> None:
    """A command of the tool's own, which must work."""
    code = main(["--default-allocator", *map(str, arguments)])
    if code != 0:
        raise RuntimeError(f"verisphere {' '.join(map(str, arguments))} ended with exit code {code}")


def _models(folder: Path) -> dict[str, Files]:
    recipe, run, model = folder / "recipe.yaml", folder / "run", folder / "model"
    recipe.write_text(RECIPE)
    photos = folder / "photos"
    for place in range(COUNT):
        path = photos / f"person {place // 2}" / f"{place}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture("PNG", place, 112))
    figures, calibration = folder / "figures.json", folder / "calibration.json"
    command("train", recipe, "--out", run)
    command("embed", run, photos, "--out", run / "others.npz", "--workers", 0)
    command("evaluate", "all-pairs", run / "others.npz", "--far", "1e-1", "--far", "0.2", "--json", figures)
    command(
        "calibrate", run / "others.npz", "--far", "0.3", "--far", "0.5", "--out", calibration, "--guarantee", "expected"
    )
    command("export", run, "--calibration", calibration, "--evaluation", figures, "--out", model)
    checkpoint = files_of(run / "checkpoints")
    exported = {
        f"model/{name}": content for name, content in files_of(model).items() if not name.endswith((".onnx", ".md"))
    }
    described = json.loads(exported["model/model.json"])
    described["files"] = {name: one for name, one in described["files"].items() if f"model/{name}" in exported}
    exported["model/model.json"] = json.dumps(described).encode()
    return {
        "checkpoint": {f"checkpoints/{name}": content for name, content in checkpoint.items()},
        "sharded checkpoint": _sharded(folder / "sharded"),
        "model folder": reseal_model(exported),
        "calibration": {"calibration.json": calibration.read_bytes()},
        "calibration of a gallery": {"gallery.json": _gallery()},
        "verdicts": {
            "review.csv": b"pair,photograph,other_photograph,digests,verdict\n1,a,b,1-2,same\n2,c,d,3-4,cannot say\n"
        },
        "evaluation": {"figures.json": figures.read_bytes()},
        "resolved recipe": {"recipe.yaml": (run / "recipe.yaml").read_bytes()},
        "precision": {"precision.json": _precision()},
        "record of a training": {"trained_on.safetensors": _trained_on()},
    }


def _trained_on() -> bytes:
    """The record of three people and four images."""
    from safetensors.torch import save

    people = ["Ann", "Bo", "Cy"]
    written = name_digests(people, written=True)
    record = TrainedOn(name_digests(people), np.arange(4, dtype=np.int64), "one set has no images", written)
    return save(as_tensors(record))


def _gallery() -> bytes:
    """A calibration of a gallery."""
    threshold = gallery_threshold([0.1, 0.3, 0.2], "0.5", "expected", people=2, review=Review(1))
    gallery = PromisedGallery.of("gallery.npz", 2, np.array([5, -3, 7]))
    source = Source("strangers.npz", "0" * 64, "embeddings", 3, 3)
    verdicts = (Verdict("a", "b", "cannot say", f"{1:016x}-{2:016x}"),)
    return GalleryCalibration(source, gallery, None, (threshold,), verdicts=verdicts).json().encode()


def _precision() -> bytes:
    """What a model lost in int8, as an export writes it."""
    before, after = (
        Embeddings(np.random.default_rng(seed).normal(size=(8, 4)), identities=list("aabbccdd")) for seed in (0, 1)
    )
    points = precision_drop(before, after, ["0.1", "1e-3"], Redrawing(9))
    source, ranges = ImageSource("faces.zip", False, "arcface_112x112 by MTCNN"), RangeImages(3, 2, 0)
    drop = PrecisionDrop("int8", source, 8, 4, ranges, 4000, 1000, 0.99, 0.9, points)
    return json_text({"format": 1, **vars(drop)}).encode()


def _sharded(folder: Path) -> Files:
    """A checkpoint as two processes write it."""
    from safetensors.torch import save_file

    from verisphere.base.distributed import World
    from verisphere.files.disk import digest
    from verisphere.models.checkpoint import ByClass, Shard, write_shard

    path = folder / "checkpoints" / "step-00000003"
    path.mkdir(parents=True)
    centers = torch.arange(28.0).reshape(7, 4)
    digests, held = {}, {}
    for rank, rows in enumerate((range(4), range(4, 7))):
        name = Shard.of(World(rank, 2), rows).name
        parts = {"head": {"centers": centers[rows.start : rows.stop].clone()}, "optimizer": {}}
        split = ByClass(rows, lambda part, name: name == "centers")
        digests[name] = write_shard(path / f"{name}.safetensors", parts, split)
        held[name] = [rows.start, rows.stop]
    for part, tensors in {
        "backbone": {"weight": torch.ones(2, 3)},
        "head": {"bias": torch.tensor(2.0)},
        "optimizer": {},
    }.items():
        save_file(tensors, path / f"{part}.safetensors")
        digests[part] = digest(path / f"{part}.safetensors")
    (path / "state.json").write_text(json.dumps({"format": 2, "step": 3, "sha256": digests, "shards": held}))
    return files_of(folder)


def _onnx() -> dict[str, Files]:
    """A network of two nodes in the format that `export` writes; exporting a real one takes seconds, and 70 kB."""
    try:
        from onnx import TensorProto, helper, numpy_helper
    except ImportError:
        return {}
    weights = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("ReduceMean", ["images", "axes"], ["mean"], keepdims=0),
         helper.make_node("MatMul", ["mean", "weight"], ["embeddings"])],
        "network",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["batch", 3, 112, 112])],
        [helper.make_tensor_value_info("embeddings", TensorProto.FLOAT, ["batch", 4])],
        [numpy_helper.from_array(weights, "weight"), numpy_helper.from_array(np.array([2, 3], np.int64), "axes")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    about = InputFormat((112, 112), "arcface", False, 4, "0" * 64, "0.1.0")
    for key, value in about.metadata().items():
        model.metadata_props.add(key=key, value=value)
    files = reseal_onnx({"model.onnx": model.SerializeToString(deterministic=True)})
    return {"onnx": {**files, "photos/P0/1.png": picture("PNG", 1, 112)}}


# --- experiments -----------------------------------------------------------------------------------------------------


def _experiments(folder: Path) -> dict[str, Files]:
    """What an experiment leaves, with one arm finished and measured and another one stopped."""
    from verisphere.study.experiments.arms import read_experiment
    from verisphere.study.experiments.folder import open_experiment
    from verisphere.study.experiments.recipes import resolve

    (folder / "plan.yaml").write_text(ASKED)
    out = folder / "experiment"
    runs = open_experiment(out, resolve(read_experiment(folder / "plan.yaml"), out / "warm"))
    for arm, done in (("base", True), ("fast", False)):
        (run,) = runs[arm]
        run.begin()
        run.end(12.5, done)
        (run.folder / "metrics.jsonl").write_text(
            json.dumps({"step": 1, "epoch": 1.0, "loss": 2.0, "rate": 0.1}) + "\n"
        )
    files = {f"experiment/{name}": content for name, content in files_of(out).items()}
    return {"folder of an experiment": files | {"plan.yaml": ASKED.encode(), "recipe.yaml": RECIPE.encode()}}


def _weights() -> dict[str, Files]:
    """The smallest weights of the wheel `mtcnn`, where that is installed."""
    import importlib.util

    spec = importlib.util.find_spec("mtcnn")
    if spec is None or not spec.submodule_search_locations or importlib.util.find_spec("lz4") is None:
        return {}
    path = Path(spec.submodule_search_locations[0]) / "assets" / "weights" / "pnet.lz4"
    return {"detector weights": {"pnet.lz4": path.read_bytes()}} if path.is_file() else {}
