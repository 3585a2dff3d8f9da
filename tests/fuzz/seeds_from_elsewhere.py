"""Whole inputs of the kinds that others make: tables of vectors, graphs, checkpoints, and adopted folders."""

import importlib.util
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from fuzz.containers import Files, files_of


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
        parquet.write_table(pyarrow.table(columns | {"embedding": rows.tolist()}), folder / "vectors.parquet")
        seeds["parquet of vectors"] = {"vectors.parquet": (folder / "vectors.parquet").read_bytes()}
    return seeds


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
