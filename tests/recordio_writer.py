"""A writer of RecordIO that shares nothing with `verisphere.images.packs`.

The layout is that of dmlc-core (`include/dmlc/recordio.h`, `src/recordio.cc`) and of MXNet (`python/mxnet/recordio.py`:
`IRHeader`, `_IR_FORMAT = "IfQQ"`, `pack`); that of an identity header is InsightFace's (`src/data/face2rec2.py`).
"""

import struct
from pathlib import Path

MAGIC = b"\x0a\x23\xd7\xce"  # 0xced7230a
#: Bytes of images, with the magic number at places that are and that are not multiples of 4, and odd lengths.
IMAGES = [
    b"jpeg-1",
    MAGIC + b"front" + MAGIC,
    b"abcd" + MAGIC * 2 + b"end",
    b"ab" + MAGIC + b"c",
    b"x" * 33,
    MAGIC,
    b"seven",
]


def chunk(kind: int, data: bytes) -> bytes:
    return MAGIC + struct.pack("<I", (kind << 29) + len(data)) + data + b"\0" * ((4 - len(data) % 4) % 4)


def record(data: bytes) -> bytes:
    """The data are split at every aligned word equal to the magic number, which is then not stored."""
    pieces, piece = [], b""
    for place in range(0, len(data), 4):
        word = data[place : place + 4]
        if word == MAGIC:
            pieces.append(piece)
            piece = b""
        else:
            piece += word
    pieces.append(piece)
    kinds = [0] if len(pieces) == 1 else [1, *[2] * (len(pieces) - 2), 3]
    return b"".join(chunk(kind, piece) for kind, piece in zip(kinds, pieces, strict=True))


def image(key: int, labels: float | list[float], data: bytes) -> bytes:
    if isinstance(labels, list):
        return struct.pack("<IfQQ", len(labels), 0, key, 0) + struct.pack(f"<{len(labels)}f", *labels) + data
    return struct.pack("<IfQQ", 0, labels, key, 0) + data


def write(path: Path, records: list[tuple[int, bytes]]) -> dict[int, int]:
    """Writes the data of (key, data) in this order, and the index; gives the offset of each key."""
    offsets, content = {}, b""
    for key, data in records:
        offsets[key] = len(content)
        content += record(data)
    path.write_bytes(content)
    path.with_suffix(".idx").write_text("".join(f"{key}\t{offset}\n" for key, offset in offsets.items()))
    return offsets


def insightface(path: Path, people: list[tuple[float, list[bytes]]]) -> dict[int, int]:
    """Images from key 1, then record 0, then a record for each identity with the range of its keys."""
    records, ranges, key = [], [], 1
    for label, images in people:
        first = key
        for data in images:
            records.append((key, image(key, [label, 1.0], data)))
            key += 1
        ranges.append([float(first), float(key)])
    records.append((0, image(0, [float(key), float(key + len(ranges))], b"")))
    records += [(key + number, image(key + number, bounds, b"")) for number, bounds in enumerate(ranges)]
    return write(path, records)


def three_people(path: Path) -> dict[int, int]:
    """The images of `IMAGES`, of three people."""
    return insightface(path, [(0.0, IMAGES[:3]), (1.0, IMAGES[3:4]), (2.0, IMAGES[4:])])
