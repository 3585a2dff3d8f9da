"""The floors of the house: imports run downward only, those inside functions and those for types alone included; rooms
and files stay small enough to be read.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HOUSE = ROOT / "src" / "verisphere"
FLOORS = (
    ("cli",),
    ("demo",),
    ("experiments",),
    ("search",),
    ("invert",),
    ("clean",),
    ("ship",),
    ("measure",),
    ("train",),
    ("distill",),
    ("models",),
    ("head",),
    ("backbones", "pairs", "protocols", "losses", "report"),
    ("images",),
    ("packs",),
    ("files",),
    ("decide", "score"),
    ("collectives", "device"),
    ("vocabulary", "compiling", "distributed"),
    ("provenance", "trained_on"),
    ("identity",),
    ("arrays", "seeds", "words"),
)
FLOOR = {part: floor for floor, parts in enumerate(FLOORS) for part in parts}
# A floor above would allow these; the design does not: a training loop is handed its validation as a function.
NEVER = {("train", "protocols")}
DOOR = ""  # verisphere/__init__.py and __main__.py: the names that users import, loaded on first use


def parts_imported(source: str, module: str) -> Iterator[tuple[str, int]]:
    """Part of the house, and line, of every import of it in the source of a module of this dotted name."""
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name != "verisphere" or alias.asname]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "verisphere":
            names = [f"verisphere.{node.attr}"]
        elif isinstance(node, ast.ImportFrom):
            above = module.split(".")[: -node.level] if node.level else []
            home = ".".join([*above, *([node.module] if node.module else [])])
            names = [f"{home}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "import_module":
            names = [word.value for word in node.args if isinstance(word, ast.Constant)]
        for name in names:
            first, _, rest = name.partition(".")
            if first == "verisphere" and rest != "__version__":  # a number that anyone may write beside results
                part = rest.split(".")[0]
                yield (part if part in FLOOR else DOOR), node.lineno


def fault(importer: str, imported: str) -> str | None:
    """Why this import is against the floors; None where it is not."""
    if importer in (imported, DOOR):
        return None
    if imported == DOOR:
        return "the front door is for users; import from the part itself"
    if FLOOR[imported] < FLOOR[importer]:
        return "upward"
    if FLOOR[imported] == FLOOR[importer]:
        return "between two parts of one floor"
    return "never" if (importer, imported) in NEVER else None


def modules() -> list[Path]:
    return sorted(HOUSE.rglob("*.py"))


def part_of(path: Path) -> str:
    first = path.relative_to(HOUSE).parts[0].removesuffix(".py")
    return DOOR if first in ("__init__", "__main__") else first


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import torch", []),
        ("import verisphere.decide.point", ["decide"]),
        ("from verisphere.decide import ordered", ["decide"]),
        ("from verisphere import losses", ["losses"]),
        ("from verisphere import __version__", []),
        ("from verisphere import operating_point", [DOOR]),
        ("import verisphere\nverisphere.__version__", []),
        ("import verisphere\nverisphere.operating_point(a, b)", [DOOR]),
        ("from .margin import add", ["losses"]),
        ("from ..score.cosine import unit", ["score"]),
        ("from .. import images", ["images"]),
        ("def late():\n    import verisphere.head", ["head"]),
        ("if TYPE_CHECKING:\n    from verisphere.train import loop", ["train"]),
        ("importlib.import_module('verisphere.train.session')", ["train"]),
    ],
)
def test_imports_of_every_spelling_are_seen(source: str, found: list[str]):
    assert [part for part, _ in parts_imported(source, "verisphere.losses.class_loss")] == found


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("losses", "head"),
        ("score", "files"),
        ("decide", "images"),
        ("train", "protocols"),
        ("report", "protocols"),
        ("models", "train"),
        ("vocabulary", "distributed"),
        ("train", DOOR),
    ],
)
def test_what_the_design_forbids_is_a_fault(importer: str, imported: str):
    assert fault(importer, imported)


def test_imports_run_downward():
    faults = [
        f"{path.relative_to(ROOT)}:{line}: {part_of(path)} -> {imported or 'verisphere'} ({why})"
        for path in modules()
        for imported, line in parts_imported(
            path.read_text(encoding="utf-8"), ".".join(["verisphere", *path.relative_to(HOUSE).with_suffix("").parts])
        )
        if (why := fault(part_of(path), imported))
    ]
    assert not faults, "\n".join(faults)


def test_every_part_has_a_floor():
    assert {part_of(path) for path in modules()} - {DOOR} <= set(FLOOR)


def lines_of(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def test_no_file_is_longer_than_420_lines():
    long = {str(path.relative_to(ROOT)): lines_of(path) for path in modules() if lines_of(path) > 420}
    assert not long


def test_no_room_holds_more_than_13_percent_of_the_lines():
    rooms: dict[str, int] = {}
    for path in modules():
        rooms[part_of(path)] = rooms.get(part_of(path), 0) + lines_of(path)
    limit = 0.13 * sum(rooms.values())
    assert not {room: lines for room, lines in rooms.items() if lines > limit}


def test_the_tests_mirror_the_rooms():
    rooms = {path.name for path in HOUSE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    tested = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and any(path.glob("**/test_*.py"))}
    assert rooms <= tested
    assert tested - rooms <= {"docs", "faults", "fuzz", "made_before", "mutations", "oracles", "pinned", "release",
                               "studies"}  # fmt: skip


def test_the_tree_in_the_readme_names_every_folder():
    blocks = re.findall(r"```.*?\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    (tree,) = [block for block in blocks if block.startswith("src/verisphere/")]
    folders = {path.name for path in HOUSE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    missing = {folder for folder in folders if not re.search(rf"\b{folder}/", tree)}
    assert not missing
