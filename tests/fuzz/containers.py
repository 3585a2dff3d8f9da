"""Changes inside of files that hold others or begin with a header: zip, npy, npz, safetensors, PNG, ONNX, lz4."""

import hashlib
import io
import json
import pickle
import random
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.junk import NUMBERS, PICKLE, TEXT_JUNK, Hostile
from fuzz.mutations import change_bytes, change_json

_LARGEST = 16 << 20  # bytes that an archive may unpack to, for its entries to be changed

# --- zip --------------------------------------------------------------------------------------------------------------

#: Fields of a zip archive's directory: signature, then offset and size of each number after it.
_FIELDS = {
    b"PK\x01\x02": ((6, 2), (8, 2), (10, 2), (16, 4), (20, 4), (24, 4), (28, 2), (30, 2), (32, 2), (38, 4), (42, 4)),
    b"PK\x03\x04": ((6, 2), (8, 2), (14, 4), (18, 4), (22, 4), (26, 2), (28, 2)),
    b"PK\x05\x06": ((4, 2), (8, 2), (10, 2), (12, 4), (16, 4), (20, 2)),
}
_NAMES = (
    "../up.png", "/root.png", "a\\b.png", "C:/a.png", "", "a//b.png", "./a.png", "a/\x1b[31m.png", "a/\u202egnp.png",
    "a/b\0c.png", "a/" * 200 + "x.png", "x" * 4000 + ".png", "a/.hidden.png", "__MACOSX/a.png", "a/b.gif", "b.png",
    "names.npy", "origin.npy", "embeddings.npy",
)  # fmt: skip


def change_zip(content: bytes, chance: random.Random) -> bytes:
    """A number of the archive's directory or of an entry's header, or an entry's name or kind; or any bytes."""
    way = chance.random()
    if way < 0.3:
        return change_bytes(content, chance)
    if way < 0.7:
        return _changed_field(content, chance)
    entries = _entries(content)
    if not entries:
        return change_bytes(content, chance)
    return _archive(_changed_entries(entries, chance), chance)


def _changed_field(content: bytes, chance: random.Random) -> bytes:
    signature = chance.choice(list(_FIELDS))
    places = [at for at in range(len(content)) if content.startswith(signature, at)]
    if not places:
        return change_bytes(content, chance)
    if signature == b"PK\x01\x02" and chance.random() < 0.2:
        return _with_zip64_sizes(content, chance.choice(places), chance)
    offset, size = chance.choice(_FIELDS[signature])
    at = chance.choice(places) + offset
    return content[:at] + (chance.choice(NUMBERS) % 256**size).to_bytes(size, "little") + content[at + size :]


def _with_zip64_sizes(content: bytes, at: int, chance: random.Random) -> bytes:
    """The entry's sizes and offset in a field of 8 bytes each, as large as those go; the end record is moved along."""
    name, extra = struct.unpack_from("<HH", content, at + 28)
    numbers = struct.pack("<QQQ", *(chance.choice(NUMBERS) % 2**64 for _ in range(3)))
    field = struct.pack("<HH", 1, len(numbers)) + numbers
    entry = bytearray(content[at : at + 46])
    struct.pack_into("<II", entry, 20, 0xFFFFFFFF, 0xFFFFFFFF)
    struct.pack_into("<H", entry, 30, extra + len(field))
    struct.pack_into("<I", entry, 42, 0xFFFFFFFF)
    changed = bytearray(
        content[:at] + bytes(entry) + content[at + 46 : at + 46 + name] + field + content[at + 46 + name :]
    )
    end = changed.rfind(b"PK\x05\x06")
    if end >= 0:
        (length,) = struct.unpack_from("<I", changed, end + 12)
        struct.pack_into("<I", changed, end + 12, (length + len(field)) % 2**32)
    return bytes(changed)


def _entries(content: bytes) -> list[tuple[str, bytes]]:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            infos = archive.infolist()
            if (
                sum(info.file_size for info in infos) > _LARGEST
            ):  # made so by `with_zeros`; unpacked, it would be honest
                return []
            return [(info.filename, archive.read(info)) for info in infos]
    except Exception:  # an archive that an earlier change broke
        return []


def _changed_entries(entries: list[tuple[str, bytes]], chance: random.Random) -> list[tuple[str, bytes]]:
    entries = list(entries)
    at = chance.randrange(len(entries))
    name, content = entries[at]
    match chance.randrange(6):
        case 0:
            entries[at] = (chance.choice(_NAMES), content)
        case 1:
            entries[at] = (name, change_bytes(content, chance))
        case 2:
            del entries[at]
        case 3:
            entries.append((name, content))
        case 4:
            entries.append((chance.choice(_NAMES), chance.choice([b"", content, b"text"])))
        case _:
            entries[at] = (name, entries[chance.randrange(len(entries))][1])
    return entries


def _archive(entries: list[tuple[str, bytes]], chance: random.Random) -> bytes:
    buffer = io.BytesIO()
    method = chance.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
    odd = chance.random() < 0.1
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in entries:
            info = zipfile.ZipInfo(name or "x", (2020, 1, 1, 0, 0, 0))
            info.compress_type = method
            if odd:
                info.external_attr = 0o120777 << 16  # a symbolic link
            archive.writestr(info, content)
    return buffer.getvalue()


# --- npz --------------------------------------------------------------------------------------------------------------

_SHAPES = (
    "()", "(0,)", "(1,)", "(2, 2)", "(-1,)", "(True, 4)", "(3, 2.5)", "(2**31,)", "(4294967296,)",
    "(9223372036854775807,)", "(9223372036854775808,)", "(3000000000, 8)", "(1,) * 3", "(1, 1, 1, 1, 1)", "[3, 8]",
    "None", "'a'", "{}", "(" + "1, " * 40 + ")", "(" * 300, "(12, 8)", "(8, 12)",
)  # fmt: skip
_TYPES = (
    "'<f2'", "'<f4'", "'>f8'", "'<f16'", "'|b1'", "'<i8'", "'<c16'", "'|O'", "'<U0'", "'<U3'", "'<U1000000'", "'|S4'",
    "'|S0'", "'|V8'", "'<M8[ns]'", "'<m8'", "[('a', '<f4'), ('b', '|O')]", "[('a', '<f4')]", "'junk'", "''", "None",
    "3", "'<f4, <f4'", "('<f4', (2,))", "'<U4294967296'", "'<U2147483647'",
)  # fmt: skip
_HEADERS = (
    b"{", b"", b"{}", b"[]", b"None", b"{'descr': '<f4'}", b"\xff\xfe", b"{" * 200, b"(" * 200, b"1" * 5000,
    b"__import__('os').mkdir('CANARY')", b"{'descr': '<f4', 'fortran_order': 3, 'shape': (1,)}",
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}", b"\0" * 10, b"{'descr': \n\n", b"'" * 3,
    b"{**{}}", b"f(1)", b"1 +", b"{'descr': '<f4', 'fortran_order': True, 'shape': (8, 12)}",
)  # fmt: skip


def change_npz(content: bytes, chance: random.Random) -> bytes:
    """One array's header or values changed, an array removed, renamed or added; or the archive around them."""
    entries = _entries(content)
    way = chance.random()
    if way < 0.25 or not entries:
        return change_zip(content, chance)
    if way < 0.255:
        return with_zeros(entries)
    at = chance.randrange(len(entries))
    name, array = entries[at]
    if way < 0.55:
        entries[at] = (name, change_npy(array, chance))
    elif way < 0.9:
        entries[at] = (name, _other_values(array, chance))
    else:
        entries = _changed_entries(entries, chance)
    return _deflated(entries)


def _deflated(entries: list[tuple[str, bytes]]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in entries:
            archive.writestr(zipfile.ZipInfo(name or "x", (2020, 1, 1, 0, 0, 0)), content)
    return buffer.getvalue()


def with_zeros(entries: list[tuple[str, bytes]], count: int = 600_000_000) -> bytes:
    """Another array, of which nothing is asked and which a reader must not unpack: 600 MB in 3 MB of file."""
    buffer, piece = io.BytesIO(_deflated(entries)), bytes(1_000_000)
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        info = zipfile.ZipInfo("ignored.npy", (2020, 1, 1, 0, 0, 0))
        info.compress_type = zipfile.ZIP_DEFLATED
        with archive.open(info, "w") as file:
            file.write(_npy(f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({count},), }}"))
            for _ in range(count // len(piece)):
                file.write(piece)
    return buffer.getvalue()


def _npy(header: str, version: int = 1) -> bytes:
    text = header.encode() + b"\n"
    length = struct.pack("<H", len(text) % 65536) if version == 1 else struct.pack("<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text


def change_npy(content: bytes, chance: random.Random) -> bytes:
    """The header of an array: another shape, type or text, another length of it, another version."""
    if content[:6] != b"\x93NUMPY" or len(content) < 12:
        return change_bytes(content, chance)
    (length,) = struct.unpack_from("<H", content, 8)
    header, data = content[10 : 10 + length].decode("latin1").strip(), content[10 + length :]
    match chance.randrange(6):
        case 0:
            start, end = header.find("'shape':"), header.rfind(")")
            header = f"{header[:start]}'shape': {chance.choice(_SHAPES)}{header[end + 1 :]}"
        case 1:
            start, end = header.find("'descr':"), header.find(", 'fortran")
            header = f"{header[:start]}'descr': {chance.choice(_TYPES)}{header[end:]}"
        case 2:
            text = chance.choice(_HEADERS)
            return content[:8] + struct.pack("<H", len(text) % 65536) + text + data
        case 3:
            return content[:8] + struct.pack("<H", chance.choice(NUMBERS) % 65536) + content[10:]
        case 4:
            return content[:6] + bytes([chance.choice([0, 1, 2, 3, 4, 255]), chance.randrange(2)]) + content[8:]
        case _:
            return change_bytes(content, chance)
    return _npy(header) + data


def _other_values(content: bytes, chance: random.Random) -> bytes:
    try:
        array = np.load(io.BytesIO(content), allow_pickle=False)
    except Exception:  # an array that an earlier change broke
        return change_bytes(content, chance)
    match chance.randrange(9):
        case 0:
            array = array[: chance.randrange(len(array) + 1)] if array.ndim else array
        case 1:
            array = array[()] if array.ndim == 0 else array.reshape(-1)[:1].reshape(())
        case 2:
            array = np.concatenate([array.reshape(-1)] * 2)
        case 3:
            array = array[None]
        case 4:
            array = np.array([Hostile(), None], object) if chance.random() < 0.7 else np.array([None] * 3, object)
            buffer = io.BytesIO()
            np.save(buffer, array, allow_pickle=True)
            return buffer.getvalue() if chance.random() < 0.7 else PICKLE
        case 5:
            kinds = ("f2", "f8", "i8", "u1", "b1", "c8", "U5", "S5", "M8[s]", "V3")
            try:
                array = array.astype(chance.choice(kinds))
            except (ValueError, TypeError):
                array = np.zeros(array.shape, chance.choice(kinds))
        case _:
            array = _with_a_value(array, chance)
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _with_a_value(array: np.ndarray, chance: random.Random) -> np.ndarray:
    """One entry, or all, of another value."""
    array = array.copy()
    where = chance.randrange(array.size) if array.size and chance.random() < 0.7 else slice(None)
    if array.dtype.kind == "U":
        text = chance.choice(TEXT_JUNK)
        array = array.astype(f"<U{max(len(text), array.dtype.itemsize // 4, 1)}")
        array.reshape(-1)[where] = text
    elif array.dtype.kind == "f":
        array.reshape(-1)[where] = chance.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-30, 3e38, 1e-45, -1.0])
    elif array.dtype.kind in "iu":
        array.reshape(-1)[where] = np.array(chance.choice([0, -1, 1, 2, 127, 2**31, 2**62])).astype(array.dtype)
    elif array.dtype.kind == "b":
        array.reshape(-1)[where] = chance.random() < 0.5
    return array


# --- safetensors ------------------------------------------------------------------------------------------------------


def change_safetensors(content: bytes, chance: random.Random) -> bytes:
    """The length of the header, a field of it, or any bytes, the tensors' among them."""
    way = chance.random()
    if way < 0.3 or len(content) < 8:
        return change_bytes(content, chance)
    if way < 0.45:
        return struct.pack("<Q", chance.choice(NUMBERS) % 2**64) + content[8:]
    length = int.from_bytes(content[:8], "little")
    header = change_json(content[8 : 8 + length], chance)
    return struct.pack("<Q", len(header)) + header + content[8 + length :]


# --- images -----------------------------------------------------------------------------------------------------------


def change_image(content: bytes, chance: random.Random) -> bytes:
    """Any bytes; of a PNG also its size and kind, under a checksum that fits."""
    if not content.startswith(b"\x89PNG") or chance.random() < 0.6:
        return change_bytes(content, chance)
    width, height, depth, colour, *rest = struct.unpack_from(">IIBBBBB", content, 16)
    match chance.randrange(4):
        case 0:
            width = chance.choice(NUMBERS) % 2**32
        case 1:
            height = chance.choice(NUMBERS) % 2**32
        case 2:
            depth = chance.choice([0, 1, 2, 4, 8, 16, 255])
        case _:
            colour = chance.choice([0, 2, 3, 4, 6, 255])
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, depth, colour, *rest)
    return content[:12] + header + struct.pack(">I", zlib.crc32(header)) + content[33:]


# --- parquet ----------------------------------------------------------------------------------------------------------


def change_parquet(content: bytes, chance: random.Random) -> bytes:
    """Any bytes; or the table written anew with a column of another type or name, or with lists that take much."""
    way = chance.random()
    if way < 0.7:
        return change_bytes(content, chance)
    import pyarrow
    import pyarrow.parquet as parquet

    table, written = parquet.read_table(io.BytesIO(content)), io.BytesIO()
    at = chance.randrange(table.num_columns)
    name, column = table.column_names[at], table.column(at)
    if way < 0.73 and "embedding" in table.column_names:
        at, name = table.column_names.index("embedding"), "embedding"
        ones = pyarrow.array(np.ones(4_000_000 * table.num_rows, np.float32))
        sizes = pyarrow.array(np.arange(table.num_rows + 1, dtype=np.int32) * 4_000_000)
        column = pyarrow.ListArray.from_arrays(sizes, ones)
    elif way < 0.8:
        column = pyarrow.array([chance.choice(["x" * 100_000, None, "p", "-1", "nan"]) for _ in range(table.num_rows)])
    elif way < 0.9:
        column = pyarrow.array([chance.choice([None, [], [1.0], [1.0] * 4]) for _ in range(table.num_rows)])
    else:
        name = chance.choice([*table.column_names, "embedding", "x0", "", "image", "a.b"])
    table = table.set_column(at, pyarrow.field(name, column.type), column)
    parquet.write_table(table, written, compression=chance.choice(["none", "zstd", "snappy"]))
    return written.getvalue()


# --- ONNX -------------------------------------------------------------------------------------------------------------


def change_onnx(content: bytes, chance: random.Random) -> bytes:
    """Metadata, weights, nodes, the graph's input or output; or any bytes."""
    import onnx

    if chance.random() < 0.15:
        return change_bytes(content, chance)
    model = onnx.ModelProto()
    try:
        model.ParseFromString(content)
        _CHANGES_OF_ONNX[chance.randrange(len(_CHANGES_OF_ONNX))](model, chance)
        return model.SerializeToString(deterministic=True)
    except Exception:  # a file that an earlier change broke, or a number that its field cannot hold
        return change_bytes(content, chance)


_SIZES = (
    "0x0", "1x1", "-1x112", "112x-112", "112", "112x112x3", "axb", "999999x999999", "4096x4096", "100000x100000",
    "224x224", "\u0661\u0661\u0662x112", " 112x112", "1e2x112", "1_12x112", "9" * 400 + "x1", "111x112", "",
)  # fmt: skip


def _metadata(model: Any, chance: random.Random) -> None:
    entry = chance.choice(model.metadata_props)
    if entry.key == "input_size" or chance.random() < 0.2:
        for each in model.metadata_props:
            if each.key == "input_size":
                each.value = chance.choice(_SIZES)
    elif chance.random() < 0.3:
        model.metadata_props.remove(entry)
    else:
        entry.value = chance.choice(
            [text for text in TEXT_JUNK if "\0" not in text] + ["4", "16", "65536", "4000000000"]
        )


def _weights(model: Any, chance: random.Random) -> None:
    tensor = chance.choice(model.graph.initializer)
    match chance.randrange(4):
        case 0:
            tensor.dims[:] = [chance.choice(NUMBERS) % 2**63 for _ in tensor.dims]
        case 1:
            tensor.data_type = chance.choice(range(25))
        case 2:
            tensor.raw_data = change_bytes(tensor.raw_data, chance)
        case _:
            tensor.name = chance.choice(TEXT_JUNK)


def _node(model: Any, chance: random.Random) -> None:
    node = chance.choice(model.graph.node)
    match chance.randrange(6):
        case 0:
            node.op_type = chance.choice(["Relu", "Tile", "ConstantOfShape", "NoSuchOp", "Loop", "Expand", "", "Shape"])
        case 1:
            node.domain = chance.choice(["com.microsoft", "no.such", "\x1b[31m"])
        case 2:
            node.input[:] = [chance.choice(["images", "nowhere", ""]) for _ in node.input]
        case 3:
            model.graph.node.remove(node)
        case 4:
            model.graph.node.append(node)
        case _:
            for attribute in node.attribute:
                attribute.i = chance.choice(NUMBERS) % 2**63
                attribute.ints[:] = [chance.choice(NUMBERS) % 2**63 for _ in attribute.ints]


def _tiled(model: Any, chance: random.Random) -> None:
    """The images many times over before anything is done with them: up to 160 GB from a file of a kilobyte."""
    from onnx import helper, numpy_helper

    times = chance.choice([2, 1000, 200_000, 2**40])
    repeats = np.array([1, 1, 1, times], np.int64)
    model.graph.initializer.append(numpy_helper.from_array(repeats, "times"))
    axes = numpy_helper.from_array(np.array([3], np.int64), "axes")
    model.graph.initializer.append(axes)
    tile = helper.make_node("Tile", ["images", "times"], ["tiled"])
    mean = helper.make_node("ReduceMean", ["tiled", "axes"], ["again"], keepdims=1)
    for node in model.graph.node:
        node.input[:] = ["again" if name == "images" else name for name in node.input]
    for node in (mean, tile):
        model.graph.node.insert(0, node)


def _ends(model: Any, chance: random.Random) -> None:
    end = chance.choice([*model.graph.input, *model.graph.output])
    if chance.random() < 0.3:
        end.name = chance.choice(["images", "embeddings", "", "x"])
        return
    for side in end.type.tensor_type.shape.dim:
        if chance.random() < 0.5:
            side.dim_value = chance.choice([0, 1, 3, 111, 112, 2**31, 2**62])
    if chance.random() < 0.3:
        end.type.tensor_type.elem_type = chance.choice(range(17))


def _versions(model: Any, chance: random.Random) -> None:
    model.ir_version = chance.choice([0, 1, 3, 99, 2**62])
    for opset in model.opset_import:
        opset.version = chance.choice([0, 1, 7, 99, 2**62])


_CHANGES_OF_ONNX = (_metadata, _weights, _node, _tiled, _ends, _versions)


def with_second_file(content: bytes) -> tuple[bytes, bytes]:
    """The ONNX file with its first weights in a second file, `weights.bin`, and that file."""
    import onnx

    model = onnx.ModelProto()
    model.ParseFromString(content)
    tensor = max(model.graph.initializer, key=lambda one: len(one.raw_data))
    data = bytes(tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", "weights.bin"), ("offset", "0"), ("length", str(len(data)))):
        tensor.external_data.add(key=key, value=value)
    return model.SerializeToString(deterministic=True), data


# --- lz4 around a pickle ----------------------------------------------------------------------------------------------


def change_lz4(content: bytes, chance: random.Random) -> bytes:
    """The frame, or the pickle inside it."""
    import lz4.frame

    way = chance.random()
    if way < 0.3:
        return change_bytes(content, chance)
    try:
        inside = lz4.frame.decompress(content)
    except RuntimeError:
        return change_bytes(content, chance)
    if way < 0.4:
        inside = PICKLE
    elif way < 0.5:
        inside = pickle.dumps([Hostile(), np.zeros(3, np.float32)])
    elif way < 0.55:
        return lz4.frame.compress(bytes(30_000_000))
    else:
        inside = change_bytes(inside, chance)
    return lz4.frame.compress(inside)


# --- seals ------------------------------------------------------------------------------------------------------------

Files = dict[str, bytes]


def files_of(folder: Path) -> Files:
    """Every file of a folder that is not hidden, by its path below it."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }


def reseal_model(files: Files) -> Files:
    """A model folder whose digests fit again, as whoever edits it on purpose would leave it."""
    folder, described = _document(files, "model.json")
    if described is None:
        return files
    listed = described.get("files")
    for name, one in listed.items() if isinstance(listed, dict) else ():
        content = files.get(f"{folder}{name}")
        if content is not None and isinstance(one, dict):
            one |= {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    described.pop("sha256", None)
    text = json.dumps(described, indent=2)
    sealed = json.dumps(described | {"sha256": hashlib.sha256(text.encode()).hexdigest()}, indent=2) + "\n"
    return files | {f"{folder}model.json": sealed.encode()}


def reseal_shards(files: Files) -> Files:
    """A folder of shards whose digests fit again."""
    folder, manifest = _document(files, "manifest.json")
    for shard in manifest.get("shards", ()) if manifest is not None else ():
        for suffix, digest in ((".npy", "sha256"), (".npz", "columns_sha256")):
            content = files.get(f"{folder}{shard['name']}{suffix}")
            if content is not None:
                shard[digest] = hashlib.sha256(content).hexdigest()
    return files if manifest is None else files | {f"{folder}manifest.json": json.dumps(manifest).encode()}


def reseal_checkpoint(files: Files) -> Files:
    """A checkpoint whose digests fit again."""
    folder, state = _document(files, "state.json")
    digests = None if state is None else state.get("sha256")
    if state is None or not isinstance(digests, dict):
        return files
    for name in digests:
        content = files.get(f"{folder}{name}.safetensors")
        if content is not None:
            digests[name] = hashlib.sha256(content).hexdigest()
    return files | {f"{folder}state.json": json.dumps(state, indent=2).encode()}


def _document(files: Files, name: str) -> tuple[str, dict[str, Any] | None]:
    (path,) = [one for one in files if one.endswith(name)] or [""]
    try:
        found = json.loads(files.get(path, b""))
    except (ValueError, RecursionError):
        return "", None
    return path.removesuffix(name), found if isinstance(found, dict) else None


def reseal_onnx(files: Files) -> Files:
    """An ONNX file whose seal, the last entry of its metadata, fits again."""
    import onnx

    (path,) = [one for one in files if one.endswith(".onnx")]
    model = onnx.ModelProto()
    try:
        model.ParseFromString(files[path])
        entries = [(entry.key, entry.value) for entry in model.metadata_props if entry.key != "verisphere_sha256"]
        del model.metadata_props[:]
        for key, value in entries:
            model.metadata_props.add(key=key, value=value)
    except Exception:  # no longer a protocol buffer, or an entry that is no longer text
        return files
    content = model.SerializeToString(deterministic=True)
    seal = onnx.ModelProto()
    seal.metadata_props.add(key="verisphere_sha256", value=hashlib.sha256(content).hexdigest())
    return files | {path: content + seal.SerializeToString()}
