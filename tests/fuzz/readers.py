"""Every reader of files from elsewhere: which seeds it starts from, how they are changed, and how they are read."""

import contextlib
import importlib.util
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch

from fuzz.containers import (
    Files,
    change_image,
    change_lz4,
    change_npy,
    change_npz,
    change_onnx,
    change_parquet,
    change_safetensors,
    change_zip,
    reseal_checkpoint,
    reseal_model,
    reseal_onnx,
    reseal_shards,
    with_second_file,
)
from fuzz.mutations import Mutation, change_bytes, change_json, change_json_lines, change_table, change_yaml
from fuzz.seeds import small_set
from fuzz.seeds_from_elsewhere import NEEDED, PACKS
from fuzz.seeds_of_clusters import FACES, ROWS
from verisphere.backbones import OnnxNetwork
from verisphere.files.calibration import read_calibration
from verisphere.files.clusters import read_clusters, read_links
from verisphere.files.clusters import read_people as read_people_of_clusters
from verisphere.files.embeddings import read_embeddings
from verisphere.files.errors import errors_naming
from verisphere.files.feature_lists import read_noise, read_pictures
from verisphere.files.gallery_calibration import read_gallery_calibration
from verisphere.files.growing import Place, growing_rows
from verisphere.files.ijb import IjbFiles
from verisphere.files.ijb.images import read_detector_scores
from verisphere.files.ijb.images import read_images as read_ijb_images
from verisphere.files.ijb.pairs import read_template_pairs
from verisphere.files.ijb.people import read_covariate
from verisphere.files.ijb.people import read_people as read_templates_of_people
from verisphere.files.image_lists import read_images
from verisphere.files.label_lists import read_labels
from verisphere.files.landmarks import read_landmarks
from verisphere.files.leak_figures import read_leak
from verisphere.files.metrics import METRICS, read_metrics
from verisphere.files.onnx_graph import read_graph
from verisphere.files.pair_lists.layouts import read_pairs
from verisphere.files.people_lists import read_ids, read_people
from verisphere.files.purity import read_purity
from verisphere.files.scores import read_scores
from verisphere.files.streamed_rows import evaluated, open_templates
from verisphere.files.verdicts import read_verdicts
from verisphere.files.work import SealedFile
from verisphere.images.decode import decode
from verisphere.images.detect.weights import decompress, unpickle
from verisphere.images.detect.yunet import _ends as yunet_ends
from verisphere.images.packs.formats import format_of, open_pack
from verisphere.images.packs.manifest import read_manifest
from verisphere.images.photos import Photos
from verisphere.measure.data.verify import manifest_faults
from verisphere.measure.ijb import IjbOptions, evaluate_ijb
from verisphere.measure.precision import read_precision_drop
from verisphere.models.checkpoint import SHARED, read_checkpoint
from verisphere.models.described_faces import open_faces
from verisphere.models.embed import embed, open_model
from verisphere.models.foreign_onnx import GraphEnds, read_foreign_onnx
from verisphere.models.foreign_weights import read_foreign_weights
from verisphere.models.onnx_to_network import read_network
from verisphere.models.trained_on import read_trained_on
from verisphere.score.exact.windows import Window
from verisphere.ship.card.data import read_settings
from verisphere.ship.card.figures import read_figures
from verisphere.study.clean.same_person.duplicates import read_pairs as read_pairs_to_merge
from verisphere.study.experiments.arms import read_experiment
from verisphere.study.experiments.folder import open_experiment
from verisphere.study.experiments.recipes import resolve
from verisphere.study.invert.inversion import read_settings as read_inversion
from verisphere.study.invert.leak import leak_text
from verisphere.study.search.candidate import read_reward
from verisphere.study.search.definition import read_search
from verisphere.study.search.folder import read_search_json
from verisphere.train.recipe import read_recipe

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Reader:
    """One reader, or several that read the same kind of file.

    Attributes:
        seeds: names of whole inputs.
        read: reads an input, which lies in this folder, to its end.
        changed: beginnings of the paths of the files that are changed; the others only have to be there.
        trusted: the file is its reader's own and may name classes from elsewhere, as a recipe does.
        fields: beginnings of a line that name a field in the file's place, where the user has typed the file.
        reseal: makes the digests of a changed input fit again; done to every second one.
    """

    seeds: tuple[str, ...]
    read: Callable[[Path], object]
    changed: tuple[str, ...] = ("",)
    trusted: bool = False
    fields: tuple[str, ...] = ()
    reseal: Callable[[Files], Files] | None = None


def mutations(path: str, trusted: bool) -> Mutation:
    """How a file of this name is changed."""
    by_suffix: dict[str, Mutation] = {
        ".json": partial(change_json, trusted=trusted),
        ".jsonl": change_json_lines,
        ".yaml": partial(change_yaml, trusted=trusted),
        ".npz": change_npz,
        ".zip": change_zip,
        ".safetensors": change_safetensors,
        ".onnx": change_onnx,
        ".lz4": change_lz4,
        ".npy": change_npy,
        ".ckpt": change_zip,
        ".parquet": change_parquet,
        ".csv": change_table,
        ".txt": change_table,
        ".lst": change_table,
        ".idx": change_table,
    }
    for suffix in (".png", ".jpg", ".bmp", ".webp", ".tif", ".ppm"):
        by_suffix[suffix] = change_image
    return by_suffix.get(Path(path).suffix, change_bytes)


def mutated(reader: Reader, files: Files, chance: random.Random) -> Files:
    """The seed with one to three changes, resealed or not."""
    paths = sorted(path for path in files if path.startswith(reader.changed))
    files = dict(files)
    for _ in range(chance.choice([1, 1, 1, 1, 2, 3])):
        path = chance.choice(paths)
        try:
            files[path] = mutations(path, reader.trusted)(files[path], chance)
        except Exception:  # an earlier change left what cannot be changed by its structure
            files[path] = change_bytes(files[path], chance)
    if len(paths) > 1 and chance.random() < 0.05:
        del files[chance.choice(paths)]
    if reader.reseal is not None and chance.random() < 0.5:
        with contextlib.suppress(Exception):  # what a change left may be no document that could be sealed
            files = reader.reseal(files)
    if "model.onnx" in files and chance.random() < 0.05:
        files = _with_second_file(files)
    return files


def _with_second_file(files: Files) -> Files:
    try:
        content, data = with_second_file(files["model.onnx"])
    except Exception:  # a file that an earlier change broke
        return files
    return reseal_onnx(files | {"model.onnx": content}) | {"weights.bin": data}


# --- how each is read -------------------------------------------------------------------------------------------------


def _pairs(folder: Path) -> None:
    (path,) = [*folder.glob("pairs.*"), *folder.glob("Protocol/Split/FP")]
    pairs = read_pairs(path)
    with contextlib.suppress(ValueError):
        pairs.positions([name.rpartition("/")[2] for name in pairs.left])


def _landmarks(folder: Path) -> None:
    (path,) = folder.glob("marks.*")
    for listed in read_landmarks(path).values():
        listed.check_inside(112, 112)


def _images(folder: Path) -> None:
    (path,) = folder.glob("list.*")
    read_images(path)


def _photos(folder: Path) -> None:
    path = folder / "photos"
    photos = Photos(path if path.is_dir() else folder / "photos.zip", size=(24, 24))
    for position in range(len(photos)):
        photos.images([position])


def _recipe(folder: Path) -> None:
    read_recipe(folder / "recipe.yaml", [])


def _experiment(folder: Path) -> None:
    out = folder / "experiment"
    resolved = resolve(read_experiment(folder / "plan.yaml"), out / "warm")
    if not out.exists():
        return
    for runs in open_experiment(out, resolved).values():
        for run in runs:
            assert run.seconds >= 0 or run.seconds < 0
            read_metrics(run.folder / METRICS)


def _searched(folder: Path) -> None:
    _, rounds = read_search_json(folder / "search.json")
    for entry in rounds:
        assert entry.round.ranking
    read_reward(folder)


def _kept_piece(folder: Path) -> None:
    state = SealedFile(folder / "sweep.npz").load()
    assert state is not None
    Window.from_state({name.partition(".")[2]: value for name, value in state.items() if name.startswith("0.")})


def _checkpoint(folder: Path) -> None:
    checkpoint = read_checkpoint(folder)
    for part in ("backbone", *SHARED):
        if part in checkpoint.sha256:
            checkpoint.tensors(part)
    if "backbone" in checkpoint.state:
        open_model(folder, CPU)


def _onnx(folder: Path) -> None:
    opened = open_model(folder / "model.onnx", CPU)
    embed(opened, Photos(folder / "photos", size=opened.backbone.input_size), "photos")
    if (folder / "weights.bin").exists() and b"weights.bin" in (folder / "model.onnx").read_bytes():
        raise AssertionError("weights from a second file, which no seal covers, were taken")


def _weights(folder: Path) -> None:
    path = folder / "pnet.lz4"
    unpickle(decompress(path.read_bytes(), str(path)), str(path))


def _foreign_graph(folder: Path) -> tuple[bytes, GraphEnds]:
    return read_foreign_onnx(folder / "net.onnx")


def _network_of_graph(folder: Path) -> None:
    content, ends = _foreign_graph(folder)
    height, width = ends.size or (8, 8)
    arguments = {"layout": ends.layout or "NCHW", "numbers": ends.numbers, "batch": ends.batch}
    names = {"image_input": ends.image_input, "embedding_output": ends.embedding_output}
    pixels = OnnxNetwork(ends.embedding_size or 6, height, width, 0.0, 1.0, "BGR", **arguments, **names)  # type: ignore[arg-type]
    with errors_naming(folder / "net.onnx"):
        read_network(content, pixels).network()


def _detector_graph(folder: Path) -> None:
    path = folder / "yunet.onnx"
    _, model = read_graph(path)
    with errors_naming(path):
        yunet_ends(model.graph)


def _vectors(folder: Path) -> None:
    tables = [path for path in folder.glob("vectors.*") if path.suffix != ".txt"]
    read_embeddings(tables[0] if tables else folder / "vectors.npy")


def _ijb(folder: Path) -> None:
    galleries = tuple(folder / f"gallery_{name}.csv" for name in ("G1", "G2"))
    files = IjbFiles(
        folder / "meta.txt",
        folder / "pairs.txt",
        folder / "scores.txt",
        galleries,
        folder / "probes.csv",
        folder / "covariates.csv",
    )
    options = IjbOptions(fars=("0.5",), fpirs=("0.5",), group_by="GENDER", skip_empty=True)
    evaluate_ijb(folder / "set.npz", files, options)


def _ijb_lists(folder: Path) -> None:
    """Each list alone, however the others were changed."""
    read_template_pairs(folder / "pairs.txt", np.arange(1, 9), folder / "meta.txt")
    names = read_ijb_images(folder / "meta.txt").names
    read_detector_scores(folder / "scores.txt", names)
    for path in (*folder.glob("gallery_*.csv"), folder / "probes.csv"):
        read_templates_of_people(path)
    read_covariate(folder / "covariates.csv", "GENDER")


def _manifest(folder: Path) -> None:
    path = folder / "pack"
    path = path if path.exists() else folder / "pack.rec"
    for manifest in (read_manifest(path), read_manifest(path, 5)):
        assert manifest is None or manifest.json()
    for fault in manifest_faults(path, format_of(path), None):
        assert "\n" not in str(fault)
    _pack(folder)


def _streamed(folder: Path) -> None:
    listed = folder / "list.json"
    pictures = listed if listed.exists() else None
    for path in (*folder.glob("set.*"), *folder.glob("features")):
        opened = open_templates(path, pictures=pictures)
        for names, rows in opened.portions():
            assert len(names) == len(rows)


def _pictures(folder: Path) -> None:
    for path in folder.glob("list.*"):
        read_pictures(path)
    for path in folder.glob("noise.*"):
        read_noise(path)


def _pack(folder: Path) -> None:
    suffixes = (suffix for suffix in (*PACKS.values(), ".bin") if list(folder.glob(f"pack{suffix}")))
    path = folder / ("pack" if (folder / "pack").is_dir() else f"pack{next(suffixes, '.rec')}")
    for fault in format_of(path).faults(path):
        assert "\n" not in str(fault)
    pack = open_pack(path)
    for position in range(len(pack)):
        assert pack.names[position]
        assert pack.identities[position]
        for name, data in pack.files.read([position]):
            decode(data, name)


def _promise_of_purity(folder: Path) -> None:
    promise = read_purity(folder / "purity.json")
    assert promise.text()
    assert "promised" in promise.promise_for(small_set(), evaluated(folder / "purity.json", small_set()))
    promise.risk(promise.threshold - 0.01)


READERS = {
    "embeddings": Reader(("embeddings", "plain embeddings"), lambda folder: read_embeddings(folder / "set.npz")),
    "shards": Reader(
        ("shards", "shards in int8"), lambda folder: read_embeddings(folder / "set"), reseal=reseal_shards
    ),
    "scores csv": Reader(("scores.csv",), lambda folder: read_scores(folder / "scores.csv")),
    "growing table": Reader(("scores.csv",), lambda folder: list(growing_rows(folder / "scores.csv", Place()))),
    "scores npz": Reader(("scores.npz",), lambda folder: read_scores(folder / "scores.npz")),
    "pair lists": Reader(
        (
            "lfw pairs",
            "lfw pairs without folds",
            "lfw pairs without header",
            "pairs.csv",
            "sllfw pairs",
            "calfw pairs",
            "label last",
            "label first",
            "ytf pairs",
            "rfw pairs",
            "cfp pairs",
        ),
        _pairs,
    ),
    "lists of people": Reader(
        ("people", "people with counts", "people in sections"), lambda folder: read_people(folder / "people.txt")
    ),
    "lists of labels": Reader(("list of labels",), lambda folder: read_labels(folder / "labels.csv")),
    "lists of ids": Reader(
        ("ids by spaces", "ids by tabs", "ids by commas"), lambda folder: read_ids(folder / "ids.txt")
    ),
    "pairs to merge": Reader(("pairs to merge",), lambda folder: read_pairs_to_merge(folder / "merge.csv")),
    "lists of images": Reader(("list of images", "list without identities"), _images, ("list",)),
    "templates and pairs": Reader(("templates and pairs",), _ijb),
    "lists of templates": Reader(
        ("templates and pairs",), _ijb_lists, ("meta", "pairs", "scores", "gallery", "probes", "covariates")
    ),
    "streamed rows": Reader(("embeddings", "plain embeddings", "matrix of features", "folder of features"), _streamed),
    "lists of pictures": Reader(("json of pictures", "lines of pictures"), _pictures),
    "landmarks": Reader(("landmarks.json", "landmarks.csv"), _landmarks),
    "image files": Reader(("photos",), _photos),
    "image archives": Reader(("stored archive", "deflated archive"), _photos),
    "recipes": Reader(("recipe", "recipe with terms", "recipe over a base"), _recipe, ("recipe",), trusted=True),
    "data sets": Reader(("data set",), lambda folder: open_faces(folder / "faces.yaml")),
    "experiments": Reader(("experiment",), _experiment, ("plan",), True, ("evaluate: ", "arm ", "warm: ")),
    "searches": Reader(("search",), lambda folder: read_search(folder / "search.yaml"), ("search",), True),
    "folders of searches": Reader(("folder of a search",), _searched),
    "numbers of an inversion": Reader(("inversion",), lambda folder: read_inversion(folder / "inversion.yaml", {})),
    "tests of leaks": Reader(("leak",), lambda folder: leak_text(read_leak(folder / "leak.json"))),
    "folders of experiments": Reader(("folder of an experiment",), _experiment, ("experiment",)),
    "all-pairs scans": Reader(("saved scan",), _kept_piece),
    "checkpoints": Reader(("checkpoint", "sharded checkpoint"), _checkpoint, reseal=reseal_checkpoint),
    "model folders": Reader(("model folder",), lambda folder: open_model(folder / "model", CPU), reseal=reseal_model),
    "onnx files": Reader(("onnx",), _onnx, ("model",), reseal=reseal_onnx),
    "calibrations": Reader(("calibration",), lambda folder: read_calibration(folder / "calibration.json")),
    "calibrations of galleries": Reader(
        ("calibration of a gallery",), lambda folder: read_gallery_calibration(folder / "gallery.json")
    ),
    "clusters": Reader(("clusters",), lambda folder: read_clusters(folder).text(), ("clusters",)),
    "people of clusters": Reader(("clusters",), lambda folder: read_people_of_clusters(folder, FACES), ("people",)),
    "links of faces": Reader(("links",), lambda folder: read_links(folder / "links.csv", "other", ROWS)),
    "photographs of faces": Reader(
        ("photographs of faces",), lambda folder: read_links(folder / "photographs.csv", "photograph", ROWS)
    ),
    "promises of purity": Reader(("promise of purity",), _promise_of_purity),
    "verdicts": Reader(("verdicts",), lambda folder: read_verdicts(folder / "review.csv")),
    "evaluations": Reader(("evaluation",), lambda folder: read_figures(folder / "figures.json")),
    "drops of precision": Reader(("precision",), lambda folder: read_precision_drop(folder / "precision.json").text()),
    "records of trainings": Reader(
        ("record of a training",), lambda folder: read_trained_on(folder / "trained_on.safetensors")
    ),
    "resolved recipes": Reader(("resolved recipe",), lambda folder: read_settings(folder / "recipe.yaml")),
    "metrics": Reader(("metrics",), lambda folder: read_metrics(folder / METRICS)),
    "detector weights": Reader(("detector weights",), _weights),
    "tables of vectors": Reader(("array of vectors", "csv of vectors"), _vectors),
    "parquet": Reader(("parquet of vectors", "parquet of columns"), _vectors),
    "manifests": Reader(
        ("pack with a manifest", "folder with a manifest"), _manifest, ("pack.rec.manifest", "pack/manifest")
    ),
    **{f"packs of {name}": Reader((f"pack of {name}",), _pack) for name in PACKS},
    "verification sets": Reader(("verification set",), _pack),
    "foreign graphs": Reader(("foreign graph", "foreign graph with weights beside it"), _foreign_graph, ("net",)),
    "networks of graphs": Reader(("foreign convolutions", "foreign graph"), _network_of_graph),
    "foreign checkpoints": Reader(
        ("foreign checkpoint", "foreign checkpoint of old"),
        lambda folder: read_foreign_weights(folder / "net.ckpt", "mobilefacenet_pytorch"),
    ),
    "adopted folders": Reader(
        ("adopted graph", "adopted network"), lambda folder: open_model(folder / "model", CPU), reseal=reseal_model
    ),
    "detector graphs": Reader(("detector graph",), _detector_graph),
}

_ONNX = ("onnx", "onnxruntime")
_NEEDS = {
    **dict.fromkeys(
        ("onnx files", "foreign graphs", "networks of graphs", "adopted folders", "detector graphs"), _ONNX
    ),
    **{"detector weights": ("mtcnn", "lz4"), "parquet": ("pyarrow",)},
    **{f"packs of {name}": (package,) for name, package in NEEDED.items()},
}


def installed(name: str) -> bool:
    """Whether the packages are there that a reader needs."""
    return all(importlib.util.find_spec(package) is not None for package in _NEEDS.get(name, ()))
