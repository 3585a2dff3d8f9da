"""The places of the images inside a pickled list of pairs, found without unpickling it.

The opcodes are those of CPython's `pickletools`. Their meaning is followed only as far as such a file needs it; nothing
is ever imported, called or built. An image is represented by the place of its bytes in the file.
"""

import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NoReturn

from verisphere.files.disk import regular

PLAIN, LATIN_1, ESCAPED, RAW_UNICODE = range(4)
"""How bytes stand in the file: as they are; as text of the code points 0 to 255 in UTF-8 (`bytes` of Python 3 in the
protocols 1 and 2); as a quoted string with escapes (`str` of Python 2 in protocol 0); as text with \\u escapes (`bytes`
of Python 3 in protocol 0)."""

_MOST_OPCODES = 1 << 21  # each makes at most one object; an image takes 2, or about 25 if it is an array
_PIECE = 1 << 16  # bytes of a long line that are read at a time
_LONGEST_TEXT = 64  # bytes of a text that is read: names, codecs, types
_LAST_PROTOCOL = 5
_MARK = object()

_KNOWN = {
    ("_codecs", "encode"): "encode",
    ("numpy", "ndarray"): "ndarray",
    ("numpy", "dtype"): "dtype",
    **{(module, "_reconstruct"): "reconstruct" for module in ("numpy.core.multiarray", "numpy._core.multiarray")},
    **{(module, "_frombuffer"): "frombuffer" for module in ("numpy.core.numeric", "numpy._core.numeric")},
    **{(module, "scalar"): "scalar" for module in ("numpy.core.multiarray", "numpy._core.multiarray")},
}


@dataclass(frozen=True, slots=True)
class Bytes:
    """Bytes or text in a pickle.

    Attributes:
        offset: byte of the file at which the content begins.
        size: number of bytes of the content in the file.
        form: encoding of the content in the file: `PLAIN`, `LATIN_1`, `ESCAPED` or `RAW_UNICODE`.
        text: whether the content is text, which an encoding must turn into bytes.
    """

    offset: int
    size: int
    form: int = PLAIN
    text: bool = False


@dataclass(frozen=True, slots=True)
class _Name:
    """One of the functions and types in `_KNOWN`."""

    what: str


@dataclass(eq=False, slots=True)
class _Type:
    """The type of an array: u1 for bytes, b1 for booleans."""

    code: str


@dataclass(eq=False, slots=True)
class _Array:
    """An array of numpy; a later opcode states its type and bytes."""

    code: str = ""
    data: Bytes | None = None
    items: int = 0


def find_pairs(path: Path) -> tuple[list[Bytes], list[bool]]:
    """The images of pairs, left and right in turn, and whether each pair is genuine."""
    with open(path, "rb", opener=regular) as file:
        machine = _Machine(path, file, os.fstat(file.fileno()).st_size)
        return machine.pairs(machine.run())


class _Machine:
    """The stack and the memo of a pickle, with places in the file instead of bytes."""

    def __init__(self, path: Path, file: BinaryIO, size: int) -> None:
        self.path, self.file, self.size = path, file, size
        self.stack: list[object] = []
        self.memo: dict[int, object] = {}
        self.opcodes = 0
        self.at, self.opcode = 0, "?"

    def run(self) -> object:
        """Follows the pickle, which must end where the file ends, and returns its object."""
        while True:
            self.at = self.file.tell()
            code = self.take(1)
            self.opcode, act = _OPCODES.get(code[0], (f"0x{code[0]:02x}", None))
            if act is None:
                self.refuse("is not among those that a list of pairs is made of")
            if self.opcode == "STOP":
                break
            act(self)
            self.opcodes += 1
            if self.opcodes > _MOST_OPCODES:
                self.refuse(f"follows {_MOST_OPCODES:,} others, more than any list of pairs has")
        if len(self.stack) != 1:
            self.refuse(f"leaves {len(self.stack)} objects; allowed is 1")
        if self.file.tell() != self.size:
            self.refuse(f"ends the pairs, but {self.size - self.file.tell()} bytes follow")
        return self.stack[0]

    def pairs(self, content: object) -> tuple[list[Bytes], list[bool]]:
        """The images and the booleans of the object, which must hold nothing else."""
        expected = "not a tuple of a list of encoded images and a list of booleans"
        if not (isinstance(content, tuple | list) and len(content) == 2):
            raise ValueError(f"{self.path}: {expected}")
        images, genuine = content
        if isinstance(genuine, _Array):
            genuine = self._booleans(genuine)
        if not (isinstance(images, tuple | list) and isinstance(genuine, tuple | list)):
            raise ValueError(f"{self.path}: {expected}")
        if len(images) != 2 * len(genuine) or not genuine:
            raise ValueError(f"{self.path}: {len(images)} images and {len(genuine)} booleans; a pair has two and one")
        places = []
        for number, image in enumerate(images):
            if isinstance(image, _Array) and image.code == "u1" and image.data is not None:
                image = image.data
            if not isinstance(image, Bytes) or image.text:
                raise ValueError(f"{self.path}: image {number} is neither bytes nor an array of them")
            places.append(image)
        for number, word in enumerate(genuine):
            if not (isinstance(word, bool) or (isinstance(word, int) and word in (0, 1))):
                raise ValueError(f"{self.path}: the word on pair {number} is neither True nor False")
        return places, [bool(word) for word in genuine]

    def refuse(self, reason: str) -> NoReturn:
        """Raises an error that names the current opcode."""
        raise ValueError(
            f"{self.path}: opcode {self.opcode} at byte {self.at} {reason}; nothing of the file was executed"
        )

    # --- reading ---

    def take(self, count: int) -> bytes:
        """The bytes that follow."""
        data = self.file.read(count)
        if len(data) != count:
            self.refuse("is cut short by the end of the file")
        return data

    def number(self, form: str) -> int:
        """A number that follows the opcode."""
        return int(struct.unpack(form, self.take(struct.calcsize(form)))[0])

    def line(self) -> bytes:
        """The short line that follows the opcode."""
        line = self.file.readline(_LONGEST_TEXT + 1)
        if not line.endswith(b"\n"):
            self.refuse("has no line end where it should")
        return line[:-1]

    def whole_line(self) -> int:
        """The number in the line that follows the opcode."""
        line = self.line().removesuffix(b"L")
        if not line.removeprefix(b"-").isdigit():
            self.refuse("has no whole number on its line")
        return int(line)

    def skip(self, form: str, text: bool = False) -> None:
        """Pushes the bytes whose length follows the opcode, without reading them."""
        size = self.number(form)
        place = self.file.tell()
        if size < 0 or size > self.size - place:
            self.refuse(f"states {size} bytes, but the file has {self.size - place} more")
        self.file.seek(size, os.SEEK_CUR)
        self.stack.append(Bytes(place, size, LATIN_1 if text else PLAIN, text))

    def skip_line(self, form: int, text: bool) -> None:
        """Pushes the line that follows the opcode."""
        place = self.file.tell()
        while not (piece := self.file.readline(_PIECE)).endswith(b"\n"):
            if not piece:
                self.refuse("has no line end where it should")
        self.stack.append(Bytes(place, self.file.tell() - 1 - place, form, text))

    def text(self, item: object) -> str:
        """A short text, which is read."""
        if not isinstance(item, Bytes) or item.size > _LONGEST_TEXT:
            self.refuse("has no short text where one is needed")
        place = self.file.tell()
        self.file.seek(item.offset)
        data = self.take(item.size)
        self.file.seek(place)
        return data.decode("latin-1").strip("'\"" if item.form == ESCAPED else "")

    # --- the stack ---

    def pop(self) -> object:
        """Removes and returns the top of the stack."""
        if not self.stack or self.stack[-1] is _MARK:
            self.refuse("finds nothing on the stack")
        return self.stack.pop()

    def pop_to_mark(self) -> list[object]:
        """Removes and returns everything above the last mark."""
        place = next((place for place in range(len(self.stack) - 1, -1, -1) if self.stack[place] is _MARK), None)
        if place is None:
            self.refuse("finds no mark on the stack")
        items = self.stack[place + 1 :]
        del self.stack[place:]
        return items

    def extend(self, items: list[object]) -> None:
        """Appends to the list on top of the stack."""
        if not self.stack or not isinstance(self.stack[-1], list):
            self.refuse("finds no list to append to")
        self.stack[-1].extend(items)

    def tuple_of(self, count: int) -> None:
        """Makes a tuple of the top of the stack."""
        items = [self.pop() for _ in range(count)]
        self.stack.append(tuple(reversed(items)))

    def put(self, key: int) -> None:
        """Puts the top of the stack into the memo."""
        if not self.stack or self.stack[-1] is _MARK:
            self.refuse("finds nothing on the stack")
        self.memo[key] = self.stack[-1]

    def get(self, key: int) -> None:
        """Pushes an object from the memo."""
        if key not in self.memo:
            self.refuse(f"asks for object {key}, which was not noted")
        self.stack.append(self.memo[key])

    # --- the few known functions ---

    def name(self, module: str, name: str) -> None:
        """Pushes a known function or type."""
        if (module, name) not in _KNOWN:
            self.refuse(f"names {ascii(module)[1:-1]}.{ascii(name)[1:-1]}, which is not allowed")
        self.stack.append(_Name(_KNOWN[module, name]))

    def name_from_stack(self) -> None:
        """Pushes the function or type whose module and name are on the stack."""
        name, module = self.text(self.pop()), self.text(self.pop())
        self.name(module, name)

    def reduce(self) -> None:
        """Replaces a known function and its arguments by the known parts of its result."""
        arguments, function = self.pop(), self.pop()
        if not isinstance(function, _Name) or not isinstance(arguments, tuple):
            self.refuse("calls something other than a known function")
        match function.what, arguments:
            case "encode", (Bytes(text=True) as text, codec) if self.text(codec) in ("latin1", "latin-1"):
                self.stack.append(Bytes(text.offset, text.size, text.form))
            case "dtype", (code, *_):
                self.stack.append(_Type(self._code(code)))
            case "reconstruct", (_Name("ndarray"), (int(), *_), _):
                self.stack.append(_Array())
            case "frombuffer", (Bytes() as data, _Type() as kind, (int() as items,), _):
                array = _Array()
                self._fill(array, kind, items, data)
                self.stack.append(array)
            case "scalar", (_Type("b1"), Bytes() as data):
                self.stack.append(self._booleans(_Array("b1", data, 1))[0])
            case _:
                self.refuse(f"calls {function.what} with other arguments than an image's")

    def build(self) -> None:
        """Gives an array or a type its state."""
        state, target = self.pop(), self.pop()
        match target, state:
            case _Type(), (int(), *_):
                pass  # of one byte an item, so its order of bytes means nothing
            case _Array(data=None), (int(), (int() as items,), _Type() as kind, _, Bytes() as data):
                self._fill(target, kind, items, data)
            case _:
                self.refuse("gives a state to something other than an array of one dimension")
        self.stack.append(target)

    def _code(self, item: object) -> str:
        code = self.text(item).lstrip("|")
        if code not in ("u1", "b1"):
            self.refuse(f"makes an array of type {code!a}; allowed are u1 and b1, images encoded as JPEG or PNG")
        return code

    def _fill(self, array: _Array, kind: _Type, items: int, data: Bytes) -> None:
        if data.text or (data.form == PLAIN and data.size != items):
            self.refuse(f"makes an array of {items} items out of {data.size} bytes")
        array.code, array.data, array.items = kind.code, data, items

    def _booleans(self, array: _Array) -> list[bool]:
        if array.code != "b1" or array.data is None or array.data.size != array.items:
            raise ValueError(f"{self.path}: the words on the pairs are neither a list nor an array of booleans")
        place = self.file.tell()
        self.file.seek(array.data.offset)
        data = self.file.read(array.data.size)
        self.file.seek(place)
        return [byte != 0 for byte in data]  # 0 and 1 look the same in every form but the quoted one, refused by length


# --- the opcodes ---

_Act = Callable[[_Machine], object]


def _push(value: object) -> _Act:
    return lambda machine: machine.stack.append(value)


def _skip(form: str, text: bool = False) -> _Act:
    return lambda machine: machine.skip(form, text)


def _push_number(form: str) -> _Act:
    return lambda machine: machine.stack.append(machine.number(form))


def _put(form: str) -> _Act:
    return lambda machine: machine.put(machine.number(form))


def _get(form: str) -> _Act:
    return lambda machine: machine.get(machine.number(form))


def _tuple(count: int) -> _Act:
    return lambda machine: machine.tuple_of(count)


def _protocol(machine: _Machine) -> None:
    version = machine.number("<B")
    if version > _LAST_PROTOCOL:
        machine.refuse(f"states the protocol {version}; allowed are 0 to {_LAST_PROTOCOL}")


def _int_line(machine: _Machine) -> None:
    line = machine.line()
    value = {b"00": False, b"01": True}.get(line)
    if value is None and not line.removeprefix(b"-").isdigit():
        machine.refuse("has no whole number on its line")
    machine.stack.append(int(line) if value is None else value)


def _long_bytes(machine: _Machine) -> None:
    machine.stack.append(int.from_bytes(machine.take(min(machine.number("<B"), 8)), "little", signed=True))


def _append(machine: _Machine) -> None:
    item = machine.pop()
    machine.extend([item])


_OPCODES: dict[int, tuple[str, _Act]] = {
    ord(code): (name, act)
    for code, name, act in (
        ("\x80", "PROTO", _protocol),
        ("\x95", "FRAME", lambda machine: machine.number("<Q")),
        (".", "STOP", lambda machine: None),
        ("(", "MARK", _push(_MARK)),
        ("N", "NONE", _push(None)),
        ("\x88", "NEWTRUE", _push(True)),
        ("\x89", "NEWFALSE", _push(False)),
        ("I", "INT", _int_line),
        ("L", "LONG", lambda machine: machine.stack.append(machine.whole_line())),
        ("J", "BININT", _push_number("<i")),
        ("K", "BININT1", _push_number("<B")),
        ("M", "BININT2", _push_number("<H")),
        ("\x8a", "LONG1", _long_bytes),
        ("S", "STRING", lambda machine: machine.skip_line(ESCAPED, False)),
        ("T", "BINSTRING", _skip("<i")),
        ("U", "SHORT_BINSTRING", _skip("<B")),
        ("C", "SHORT_BINBYTES", _skip("<B")),
        ("B", "BINBYTES", _skip("<I")),
        ("\x8e", "BINBYTES8", _skip("<Q")),
        ("\x96", "BYTEARRAY8", _skip("<Q")),
        ("V", "UNICODE", lambda machine: machine.skip_line(RAW_UNICODE, True)),
        ("\x8c", "SHORT_BINUNICODE", _skip("<B", True)),
        ("X", "BINUNICODE", _skip("<I", True)),
        ("\x8d", "BINUNICODE8", _skip("<Q", True)),
        ("]", "EMPTY_LIST", lambda machine: machine.stack.append([])),
        ("l", "LIST", lambda machine: machine.stack.append(machine.pop_to_mark())),
        ("a", "APPEND", _append),
        ("e", "APPENDS", lambda machine: machine.extend(machine.pop_to_mark())),
        (")", "EMPTY_TUPLE", _push(())),
        ("t", "TUPLE", lambda machine: machine.stack.append(tuple(machine.pop_to_mark()))),
        ("\x85", "TUPLE1", _tuple(1)),
        ("\x86", "TUPLE2", _tuple(2)),
        ("\x87", "TUPLE3", _tuple(3)),
        ("p", "PUT", lambda machine: machine.put(machine.whole_line())),
        ("q", "BINPUT", _put("<B")),
        ("r", "LONG_BINPUT", _put("<I")),
        ("\x94", "MEMOIZE", lambda machine: machine.put(len(machine.memo))),
        ("g", "GET", lambda machine: machine.get(machine.whole_line())),
        ("h", "BINGET", _get("<B")),
        ("j", "LONG_BINGET", _get("<I")),
        ("c", "GLOBAL", lambda machine: machine.name(*(machine.line().decode("latin-1") for _ in range(2)))),
        ("\x93", "STACK_GLOBAL", lambda machine: machine.name_from_stack()),
        ("R", "REDUCE", lambda machine: machine.reduce()),
        ("b", "BUILD", lambda machine: machine.build()),
    )
}
