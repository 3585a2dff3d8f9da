"""Whole inputs of the kinds that others make: tables of vectors, graphs, checkpoints, and adopted folders."""

import importlib.util
import io
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from fuzz.containers import Files, files_of
from verisphere.images.packs.formats import FORMATS
from verisphere.images.packs.pack import Row

#: Formats of packs whose images lie in files of their own making, and the suffix under which each is written.
PACKS = {known.name: known.suffix for known in FORMATS if known.write is not None and not known.by_path}
#: Packages that some of them need.
NEEDED = {"parquet": "pyarrow", "lmdb": "lmdb"}


def vectors(folder: Path) -> dict[str, Files]:
    """The same vectors as an array with a list beside it, as CSV and, where pyarrow is installed, as parquet."""
    rows = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    array = io.BytesIO()
    np.save(array, rows)
    names = [(f"{row}.png", f"p{row // 2}", "ab"[row // 4]) for row in range(6)]
    table = "name,identity,domain,x0,x1,x2,x3\n" + "".join(
        ",".join([*name, *map(str, row)]) + "\n" for name, row in zip(names, rows.tolist(), strict=True)
    )
    listed = "".join(f"{name}\t{identity}\n" for name, identity, _ in names)
    seeds: dict[str, Files] = {
        "array of vectors": {"vectors.npy": array.getvalue(), "vectors.txt": listed.encode()},
        "csv of vectors": {"vectors.csv": table.encode()},
    }
    if importlib.util.find_spec("pyarrow") is not None:
        import pyarrow
        import pyarrow.parquet as parquet

        columns = {"name": [name for name, _, _ in names], "identity": [one for _, one, _ in names]}
        in_columns = {f"x{place}": rows[:, place] for place in range(4)} | {"domain": [domain for *_, domain in names]}
        for title, numbers, options in (
            ("parquet of vectors", {"embedding": rows.tolist()}, {}),
            ("parquet of columns", in_columns, {"row_group_size": 2, "compression": "none", "use_dictionary": False}),
        ):
            parquet.write_table(pyarrow.table(columns | numbers), folder / "vectors.parquet", **options)
            seeds[title] = {"vectors.parquet": (folder / "vectors.parquet").read_bytes()}
    return seeds


def packs(folder: Path, picture: Callable[[str, int], bytes]) -> dict[str, Files]:
    """A small set as a pack of each format that is one file or a few, and as a verification set."""
    people = ("p0", "p0", "p1", "p1", "-1")
    seeds: dict[str, Files] = {}
    for known in FORMATS:
        needed = NEEDED.get(known.name)
        if known.name not in PACKS or (needed and importlib.util.find_spec(needed) is None):
            continue
        room = folder / "packs" / known.name
        room.mkdir(parents=True)
        rows = (Row(f"{one}/{n}.png", one, picture("PNG", n), "ab"[n % 2]) for n, one in enumerate(people))
        assert known.write is not None
        known.write(room / f"pack{PACKS[known.name]}", rows)
        seeds[f"pack of {known.name}"] = {
            name: content for name, content in files_of(room).items() if not name.endswith(("lock.mdb", "-lock"))
        }
    seeds["pack with a manifest"] = _converted(folder / "converted", "pack.rec", seeds["pack of tar"])
    seeds["folder with a manifest"] = _converted(folder / "converted to a folder", "pack", seeds["pack of tar"])
    pairs = ([picture("JPEG", n) for n in range(4)], [True, False])
    return seeds | {"verification set": {"pack.bin": pickle.dumps(pairs, protocol=2)}}


def _converted(room: Path, name: str, files: Files) -> Files:
    """A pack as `data convert` writes it, with its manifest."""
    from verisphere.measure.data.convert import convert

    room.mkdir()
    source = room / "source.tar"
    source.write_bytes(files["pack.tar"])
    convert(source, room / name)
    source.unlink()
    return files_of(room)


def models_of_others(folder: Path, command: Callable[..., None]) -> dict[str, Files]:
    """Models of others: checkpoints, graphs, and what `adopt` makes of a graph."""
    from foreign_networks import Weights, embed, faces

    shapes = Weights()
    embed("mobilefacenet_pytorch", shapes, faces("mobilefacenet_pytorch", 1))
    # one number for all, so that the file is small
    tensors = {name: torch.ones(1).expand(tensor.shape) if tensor.ndim else tensor for name, tensor in shapes.items()}
    seeds: dict[str, Files] = {}
    for name, new in (("foreign checkpoint", True), ("foreign checkpoint of old", False)):
        path = folder / "net.ckpt"
        torch.save({"net_state_dict": tensors}, path, _use_new_zipfile_serialization=new)
        seeds[name] = {"net.ckpt": path.read_bytes()}
    if importlib.util.find_spec("onnx") is None:
        return seeds
    import onnx

    from blue_squares import write_blue_squares
    from foreign_graphs import convolutions, graph, written

    beside = folder / "beside"
    beside.mkdir()
    onnx.save_model(graph(), beside / "net.onnx", save_as_external_data=True, location="net.data", size_threshold=0)
    graphs = {"graph": graph(), "network": convolutions()}
    told = ("--colour", "RGB", "--mean", 0, "--scale", 1, "--template", "mine_8x8")
    for kind, model in graphs.items():
        path, out = written(folder / "net.onnx", model), folder / f"adopted-{kind}"
        command("adopt", path, *told, "--out", out, *(("--trainable",) if kind == "network" else ()))
        seeds[f"adopted {kind}"] = {f"model/{name}": content for name, content in files_of(out).items()}
    return seeds | {
        "foreign graph": {"net.onnx": graph().SerializeToString()},
        "foreign graph with weights beside it": files_of(beside),
        "foreign convolutions": {"net.onnx": convolutions().SerializeToString()},
        "detector graph": {"yunet.onnx": write_blue_squares(folder / "yunet.onnx").read_bytes()},
    }
