"""The floors of the house: imports run downward only, those inside functions and those for types alone included; rooms
and files stay small enough to be read.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HOUSE = ROOT / "src" / "verisphere"
#: From the top: rooms, and within a room that has floors of its own its parts, dotted; its other files lie between.
FLOORS = (
    ("cli",),
    ("study.demo",),
    ("study.why",),
    ("study.experiments",),
    ("study.search",),
    ("study.invert",),
    ("study.clean",),
    ("ship",),
    ("measure",),
    ("train",),
    ("train.distill",),
    ("models",),
    ("head",),
    ("backbones", "pairs", "measure.protocols", "losses", "report"),
    ("images",),
    ("images.packs",),
    ("files",),
    ("decide", "score"),
    ("base.work",),
    ("base.collectives", "base.device"),
    ("base.vocabulary", "base.compiling", "base.distributed"),
    ("base.provenance", "base.trained_on"),
    ("base.identity",),
    ("base.arrays", "base.mapped", "base.seeds", "base.words"),
)
FLOOR = {part: floor for floor, parts in enumerate(FLOORS) for part in parts}
#: The same without parts: at most ten floors, and what lies inside a room is below all that stands above the room.
ROOMS = (
    ("cli",),
    ("study",),
    ("ship",),
    ("measure",),
    ("train",),
    ("models",),
    ("head",),
    ("backbones", "pairs", "losses", "report"),
    ("images",),
    ("files", "decide", "score", "base"),
)
ROOM_FLOOR = {room: floor for floor, rooms in enumerate(ROOMS) for room in rooms}
# A floor above would allow these; the design does not: a training loop is handed its validation as a function.
NEVER = {("train", "measure.protocols")}
DOOR = ""  # verisphere/__init__.py and __main__.py: the names that users import, loaded on first use


def names_imported(source: str, module: str) -> Iterator[tuple[str, int]]:
    """Dotted name below verisphere, and line, of every import of it in the source of a module of this dotted name."""
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
                yield rest, node.lineno


def parts_imported(source: str, module: str) -> Iterator[tuple[str, int]]:
    """The same with the part of the house instead of the name."""
    for name, line in names_imported(source, module):
        yield part_named(name.split(".")), line


def part_named(words: Sequence[str]) -> str:
    """The part of the house that a dotted name below verisphere belongs to."""
    inner = ".".join(words[:2])
    return inner if inner in FLOOR else words[0] if words[0] in {**FLOOR, **ROOM_FLOOR} else DOOR


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


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(HOUSE).with_suffix("").parts)


def part_of(path: Path) -> str:
    words = path.relative_to(HOUSE).with_suffix("").parts
    return DOOR if words[0] in ("__init__", "__main__") else part_named(words)


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
        ("train", "measure.protocols"),
        ("report", "measure.protocols"),
        ("models", "train"),
        ("base.vocabulary", "base.distributed"),
        ("train", DOOR),
    ],
)
def test_what_the_design_forbids_is_a_fault(importer: str, imported: str):
    assert fault(importer, imported)


def test_imports_run_downward():
    faults = [
        f"{path.relative_to(ROOT)}:{line}: {part_of(path)} -> {imported or 'verisphere'} ({why})"
        for path in modules()
        for imported, line in parts_imported(path.read_text(encoding="utf-8"), f"verisphere.{dotted(path)}")
        if (why := fault(part_of(path), imported))
    ]
    assert not faults, "\n".join(faults)


def test_no_files_import_each_other_in_a_circle():
    files = {dotted(path).removesuffix(".__init__"): path for path in modules() if part_of(path) != DOOR}
    above: dict[str, set[str]] = {}
    for name, path in files.items():
        for imported, _ in names_imported(path.read_text(encoding="utf-8"), f"verisphere.{dotted(path)}"):
            words = imported.split(".")
            found = [".".join(words[:length]) for length in range(len(words), 0, -1)]
            above.setdefault(name, set()).update([one for one in found if one in files][:1])
    TopologicalSorter(above).prepare()  # it raises CycleError, which names the files, where there is a circle


def test_every_part_has_a_floor():
    parts = {part_of(path) for path in modules()} - {DOOR, "study", "base"}  # these two hold parts and nothing else
    assert parts <= set(FLOOR)
    assert {part.partition(".")[0] for part in FLOOR} == set(ROOM_FLOOR)
    assert len(ROOMS) <= 10
    assert len(list(HOUSE.glob("[!_]*/__init__.py"))) <= 16


def lines_of(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def test_a_file_has_one_subject_and_at_most_750_lines():
    long = {str(path.relative_to(ROOT)): lines_of(path) for path in modules() if lines_of(path) > 750}
    assert not long


def test_no_part_holds_more_than_13_percent_of_the_lines():
    rooms: dict[str, int] = {}
    for path in modules():
        rooms[part_of(path)] = rooms.get(part_of(path), 0) + lines_of(path)
    limit = 0.13 * sum(rooms.values())
    assert not {room: lines for room, lines in rooms.items() if lines > limit}


def test_the_tests_mirror_the_rooms():
    rooms = {path.name for path in HOUSE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    tested = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and any(path.glob("**/test_*.py"))}
    assert rooms <= tested
    inside = {part.replace(".", "/") for part in FLOOR if (HOUSE / part.replace(".", "/")).is_dir()}
    assert not {part for part in inside if not any((ROOT / "tests" / part).glob("**/test_*.py"))}
    assert tested - rooms <= {"docs", "faults", "fuzz", "made_before", "mutations", "oracles", "pinned", "release",
                               "studies"}  # fmt: skip


def test_the_tree_on_the_page_of_the_house_names_every_folder():
    blocks = re.findall(r"```.*?\n(.*?)```", (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"), re.DOTALL)
    (tree,) = [block for block in blocks if block.startswith("src/verisphere/")]
    folders = {path.name for path in HOUSE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    missing = {folder for folder in folders if not re.search(rf"\b{folder}/", tree)}
    assert not missing
