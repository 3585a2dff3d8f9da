"""Changes to bytes, text, tables, JSON and YAML: each takes a file's content and gives another, by a seeded chance."""

import json
import random
from collections import deque
from collections.abc import Callable
from typing import Any

import yaml

from fuzz.junk import ALIASES, BYTES_JUNK, NUMBERS, TEXT_JUNK, json_junk, yaml_junk

Mutation = Callable[[bytes, random.Random], bytes]

# --- bytes ------------------------------------------------------------------------------------------------------------


def position(length: int, chance: random.Random) -> int:
    """A place in a file; every other time near one of its ends, where headers and directories lie."""
    if length == 0:
        return 0
    side = chance.random()
    if side < 0.25:
        return min(int(chance.expovariate(1 / 40)), length - 1)
    if side < 0.5:
        return max(length - 1 - int(chance.expovariate(1 / 40)), 0)
    return chance.randrange(length)


def change_bytes(content: bytes, chance: random.Random) -> bytes:
    """Bytes flipped, overwritten, inserted, removed, repeated, or a number of 1 to 8 bytes replaced."""
    at = position(len(content), chance)
    match chance.randrange(8):
        case 0:
            flipped = bytes([content[at] ^ (1 << chance.randrange(8))]) if content else b""
            return content[:at] + flipped + content[at + 1 :]
        case 1:
            size = chance.choice([1, 2, 4, 8, 64])
            return content[:at] + chance.randbytes(size) + content[at + size :]
        case 2:
            return content[:at] + chance.choice(BYTES_JUNK) + content[at:]
        case 3:
            return content[:at] + content[at + chance.choice([1, 2, 7, 100, 1000]) :]
        case 4:
            return content[:at]
        case 5:
            piece = content[at : at + chance.choice([1, 4, 50, 1000])]
            return content[:at] + piece * chance.choice([2, 3, 20]) + content[at + len(piece) :]
        case 6:
            junk = chance.choice(BYTES_JUNK)
            return content[:at] + junk + content[at + len(junk) :]
        case _:
            size = chance.choice([1, 2, 4, 8])
            number = (chance.choice(NUMBERS) % 256**size).to_bytes(size, chance.choice(["little", "big"]))
            return content[:at] + number + content[at + size :]


# --- text and tables --------------------------------------------------------------------------------------------------


def change_table(content: bytes, chance: random.Random) -> bytes:
    """A line or a cell replaced, repeated, removed, exchanged or moved; other line ends or none; other encodings."""
    if chance.random() < 0.01:  # three million bytes without a line end, in one encoding or none
        return (content.replace(b"\n", b" ").ljust(1, b" ") * (1 + 3_000_000 // (len(content) + 1)))[:3_000_000] + (
            chance.choice([b"", b"\xff", b"\n"])
        )
    lines = content.decode(errors="surrogateescape").split("\n")
    at = chance.randrange(len(lines))
    match chance.randrange(10):
        case 0:
            del lines[at]
        case 1:
            lines.insert(at, chance.choice(lines))
        case 2:
            lines.insert(at, chance.choice(TEXT_JUNK))
        case 3:
            chance.shuffle(lines)
        case 4:
            return content.replace(b"\n", chance.choice([b"\r\n", b"\r", b"\n\n", b"", b"\0\n"]))
        case 5:
            text = "\n".join(lines).encode("utf-8", "ignore").decode("utf-8", "ignore")
            return text.encode(chance.choice(["utf-16", "utf-32", "utf-8-sig", "utf-7"]))
        case 6:
            return change_bytes(content, chance)
        case _:
            lines[at] = _changed_line(lines[at], chance)
    return "\n".join(lines).encode("utf-8", "surrogateescape")


def _changed_line(line: str, chance: random.Random) -> str:
    separator = next((one for one in ("\t", ",", " ") if one in line), ",")
    cells = line.split(separator)
    at = chance.randrange(len(cells))
    match chance.randrange(6):
        case 0:
            del cells[at]
        case 1:
            cells.insert(at, chance.choice(TEXT_JUNK))
        case 2:
            chance.shuffle(cells)
        case 3:
            separator = chance.choice(["\t", ",", " ", ";", "  "])
        case _:
            cells[at] = chance.choice(TEXT_JUNK)
    return separator.join(cells)


# --- JSON and YAML ----------------------------------------------------------------------------------------------------

_PLACE = "@@junk@@"
_SPOTS = 1000


def change_tree(tree: Any, chance: random.Random) -> Any:
    """A tree of which one value was replaced by `_PLACE`, removed, wrapped, exchanged for another, or renamed."""
    spots = list(_spots(tree))
    if not spots:
        return _PLACE
    holder, key = chance.choice(spots)
    match chance.randrange(10):
        case 0:
            del holder[key]
        case 1:
            holder[key] = [holder[key]]
        case 2:
            other, name = chance.choice(spots)
            holder[key], other[name] = other[name], holder[key]
        case 3 if isinstance(holder, dict):
            holder[_PLACE] = holder.pop(key)
        case 4 if isinstance(holder, dict):
            holder[_PLACE + str(key)] = _PLACE  # the key a second time, with another value
        case 4:
            holder.insert(key, holder[key])
        case _:
            holder[key] = _PLACE
    return tree


def _spots(tree: Any) -> list[tuple[Any, Any]]:
    """Where values stand, each by what holds it and its key there; of a large tree, or one that holds itself, some."""
    found: list[tuple[Any, Any]] = []
    waiting = deque([tree])
    while waiting and len(found) < _SPOTS:
        holder = waiting.popleft()
        inside = holder.items() if isinstance(holder, dict) else enumerate(holder) if isinstance(holder, list) else ()
        for key, value in inside:
            found.append((holder, key))
            waiting.append(value)
    return found


def _filled(text: str, junk: str) -> str:
    """The text with the junk in its place; a key behind the place becomes that key once more."""
    return text.replace(f'"{_PLACE}"', junk).replace(_PLACE, "")


def change_json(content: bytes, chance: random.Random, trusted: bool = False) -> bytes:
    """One value of a JSON document changed, or its bytes."""
    try:
        tree = json.loads(content)
    except (ValueError, RecursionError):
        return change_bytes(content, chance)
    if chance.random() < 0.15:
        return change_bytes(content, chance)
    try:
        text = json.dumps(change_tree(tree, chance), indent=chance.choice([None, 2]))
    except (ValueError, RecursionError):  # two values that were exchanged hold each other, or many hold one another
        return change_bytes(content, chance)
    return _filled(text, json_junk(chance, trusted)).encode("utf-8", "surrogatepass")


def change_json_lines(content: bytes, chance: random.Random) -> bytes:
    """One line of a file with a JSON object a line changed, or its lines as a table's."""
    lines = content.split(b"\n")
    at = chance.randrange(len(lines))
    if not lines[at].strip() or chance.random() < 0.3:
        return change_table(content, chance)
    lines[at] = change_json(lines[at], chance).replace(b"\n", b" ")
    return b"\n".join(lines)


def change_yaml(content: bytes, chance: random.Random, trusted: bool = True) -> bytes:
    """One value of a YAML document changed, something put before it, or its lines as a table's."""
    way = chance.random()
    if way < 0.15 or ALIASES.encode() in content:  # a tree with them would be followed here too
        return change_table(content, chance)
    if way < 0.2:
        return ALIASES.encode() + content
    if way < 0.23:
        return content + b"\nextra: " + b"[" * 2000 + b"\n"
    if way < 0.28:
        lines = content.splitlines(keepends=True) or [b""]
        return content + b"\n" + chance.choice(lines)  # as a rule a repeated key
    try:
        tree = yaml.safe_load(content)
    except (yaml.YAMLError, ValueError, RecursionError):
        return change_bytes(content, chance)
    try:
        text = yaml.safe_dump(change_tree(tree, chance), default_flow_style=chance.choice([True, None]), width=10**9)
    except RecursionError:
        return change_bytes(content, chance)
    text = text.replace(f"'{_PLACE}'", f'"{_PLACE}"')
    return _filled(text, yaml_junk(chance, trusted)).encode("utf-8", "surrogatepass")
