"""Digests of a result in two parts: of its numbers, which a renaming leaves as they are, and of the whole."""

import base64
import hashlib
import io
import json
import re
import zipfile
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import PurePosixPath

import numpy as np
from PIL import Image

TEXTS = {".json", ".jsonl", ".yaml", ".csv", ".md", ".html", ".txt", ".svg", ""}
#: A number by itself: neither digits inside a word (float32, a hexadecimal digest) nor those of an identifier.
NUMBER = re.compile(r"(?<![\w.#-])[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w])")
DIGEST = re.compile(r"\b[0-9a-f]{12,64}\b")
EMBEDDED = re.compile(r"data:image/(?P<kind>svg|png|jpeg)(?:\+xml)?;base64,(?P<content>[A-Za-z0-9+/=]+)")
#: How fast and how long something was: different in every run. As JSON has them, and as a column of CSV.
TIMES = ("seconds", "images_per_second")
#: Fields of JSON that are no results: times, and the number of threads, which later versions record.
NO_RESULTS = (*TIMES, "threads")
#: What differs from run to run, or follows from renamed words, and what stands in its place. The reasons:
NORMALISED = (
    # The version moves with releases.
    (re.compile(rf"\b{re.escape(version('verisphere'))}\b"), "VERSION"),
    # Lengths of listed files: recipes and cards grow and shrink with the words in them. Each file has its own digest.
    (re.compile(r'"bytes": \d+'), '"bytes": LENGTH'),
    (re.compile(r"\| +[\d,]+ \| +[0-9a-f]{12} \|"), "| LENGTH | DIGEST |"),
    # How long trainings took, in the table of an experiment.
    (re.compile(r"\| +\d+ s \|"), "| TIME |"),
    # A report names the digest of each run's metrics.jsonl, which holds times.
    (re.compile(r"(?<=<code>)[0-9a-f]{64}(?=</code>)"), "DIGEST"),
    (re.compile(r'(?<=metrics\.jsonl", "sha256": ")[0-9a-f]{64}'), "DIGEST"),
)


def digest(name: str, content: bytes) -> dict[str, str]:
    """Digests of a file: `numbers`, `text` (of the whole), and of JSON `keys`, the sorted structure of its names.

    Args:
        name: of the file; its suffix says what is in it.
    """
    suffix = PurePosixPath(name).suffix
    if suffix in TEXTS:
        return _of_text(content.decode("utf-8"), suffix)
    if suffix in (".zip", ".npz", ".state"):
        return _of_archive(content)
    if suffix == ".safetensors":
        return _of_tensors(content)
    if suffix == ".onnx":
        return _of_onnx(content)
    if suffix in (".png", ".jpg", ".jpe"):
        return _of_image(content)
    return {"numbers": _hashed([content]), "text": _hashed([content])}


def _hashed(parts: Iterable[bytes | str]) -> str:
    found = hashlib.sha256()
    for part in parts:
        part = part.encode() if isinstance(part, str) else part
        found.update(len(part).to_bytes(8, "little") + part)
    return found.hexdigest()[:32]


def _of_text(text: str, suffix: str) -> dict[str, str]:
    if suffix in (".json", ".jsonl"):
        documents = [json.loads(line) for line in (text.splitlines() if suffix == ".jsonl" else [text])]
        text = "\n".join(json.dumps(_timeless(document)) for document in documents)
    if suffix == ".csv":
        text = "\n".join(line for line in text.splitlines() if not set(TIMES) & set(line.split(",")))
    pictures = [
        digest(f"picture.{one['kind'][:3]}", base64.b64decode(one["content"])) for one in EMBEDDED.finditer(text)
    ]
    text = EMBEDDED.sub("PICTURE", text)
    for pattern, instead in NORMALISED:
        text = pattern.sub(instead, text)
    found = {
        "numbers": _hashed([*NUMBER.findall(DIGEST.sub("DIGEST", text)), *(one["numbers"] for one in pictures)]),
        "text": _hashed([text, *(one["text"] for one in pictures)]),
    }
    if suffix == ".json":
        found["keys"] = _hashed(sorted(_keys(documents[0], "")))
    return found


def _timeless(value: object) -> object:
    if isinstance(value, dict):
        return {name: _timeless(inner) for name, inner in value.items() if name not in NO_RESULTS}
    return [_timeless(inner) for inner in value] if isinstance(value, list) else value


def _keys(value: object, place: str) -> Iterable[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _keys(inner, f"{place}/{name}")
    elif isinstance(value, list):
        for inner in value:
            yield from _keys(inner, f"{place}[]")
    yield f"{place}: {type(value).__name__}"


def _of_archive(content: bytes) -> dict[str, str]:
    """Of the members, without the times in their headers and the names of arrays, which are words."""
    numbers, text = [], []
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for name in archive.namelist():
            inner = _of_array(archive.read(name)) if name.endswith(".npy") else digest(name, archive.read(name))
            numbers.append(inner["numbers"])
            text += [name, inner["text"]]
    return {"numbers": _hashed(numbers), "text": _hashed(text)}


def _of_array(content: bytes) -> dict[str, str]:
    array = np.load(io.BytesIO(content))
    whole = [str(array.dtype), str(array.shape), array.tobytes()]
    # A file's own seal and digests: 32 bytes, over names as well.
    words = array.dtype.kind in "US" or (array.dtype == np.uint8 and array.shape == (32,))
    return {"numbers": _hashed([] if words else whole), "text": _hashed(whole)}


def _of_tensors(content: bytes) -> dict[str, str]:
    """The header's `__metadata__` is words; names, types, shapes and bytes of the tensors are what is loaded."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    header.pop("__metadata__", None)
    return {"numbers": _hashed([json.dumps(header, sort_keys=True), content[8 + length :]]), "text": _hashed([content])}


def _of_onnx(content: bytes) -> dict[str, str]:
    """The graph without what its metadata says (the version, digests of files) and without names of modules."""
    import onnx

    model = onnx.load_model_from_string(content)
    del model.metadata_props[:]
    model.doc_string = ""
    for node in model.graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
    return {"numbers": _hashed([model.SerializeToString(deterministic=True)]), "text": _hashed([content])}


def _of_image(content: bytes) -> dict[str, str]:
    with Image.open(io.BytesIO(content)) as image:
        return {"numbers": _hashed([image.mode, str(image.size), image.tobytes()]), "text": _hashed([content])}
