"""A loss, a backbone, a format of packs and a kind of `evaluate` are whole: what a contribution has forgotten is named.

`docs/architecture.md` lists the files that each takes. tests/docs/test_reference.py asks besides that the tables of
`make reference` are those of the modules; tests/docs/test_losses.py and tests/test_loss_examples.py what the entry of a
loss holds.
"""

import ast
import re
from pathlib import Path
from types import ModuleType

import pytest

from every_verb import EVERY, below
from loss_examples import TABLE
from verisphere import backbones, losses
from verisphere.backbones import Backbone
from verisphere.images.packs import formats
from verisphere.images.packs.pack import Format

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src"
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
PROTOCOLS = (ROOT / "docs" / "protocols.md").read_text(encoding="utf-8")


def exported(room: ModuleType, base: type) -> list[str]:
    """The classes that a room exports and that derive from this one."""
    kinds = {name: getattr(room, name) for name in room.__all__}
    return [name for name, kind in kinds.items() if isinstance(kind, type) and issubclass(kind, base) and kind != base]


LOSSES, BACKBONES = exported(losses, losses.ClassLoss), exported(backbones, Backbone)
FORMATS = {name: known for name, known in vars(formats).items() if isinstance(known, Format)}
KINDS = list(below(EVERY["evaluate"]))
#: What the tests of a format name that lie in tests/files.
IN_FILES = {"LIST": r"\bread_images\b"}


def has_test(pattern: str, *folders: str) -> bool:
    """Whether a test below one of these folders has a text of this pattern."""
    paths = [path for folder in folders for path in (ROOT / "tests" / folder).rglob("test_*.py")]
    return any(re.search(pattern, path.read_text(encoding="utf-8")) for path in paths)


def in_changelog(pattern: str) -> bool:
    return bool(re.search(pattern, CHANGELOG))


def check_all_done(steps: dict[str, bool]) -> None:
    """Fail with the steps that were not done."""
    if forgotten := [step for step, done in steps.items() if not done]:
        pytest.fail("; ".join(forgotten), pytrace=False)


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_is_whole(name: str):
    tests = [ROOT / "tests" / "losses" / f"{test}.py" for test in TABLE.get(name, {}).get("tests", ())]
    is_tested = any(path.is_file() and re.search(rf"\b{name}\b", path.read_text("utf-8")) for path in tests)
    check_all_done(
        {
            f"recipes/losses.yaml has no entry {name}: write it, as its head says": name in TABLE,
            f"no file of tests/losses that its entry names under `tests` names {name}: write one": is_tested,
            f"CHANGELOG.md does not name {name}: add a line": in_changelog(rf"\b{name}\b"),
        }
    )


@pytest.mark.parametrize("name", BACKBONES)
def test_a_backbone_is_whole(name: str):
    check_all_done(
        {
            f"no test in tests/backbones names {name}: write one": has_test(rf"\b{name}\b", "backbones"),
            f"CHANGELOG.md does not name {name}: add a line": in_changelog(rf"\b{name}\b"),
        }
    )


@pytest.mark.parametrize("variable", FORMATS)
def test_a_format_is_whole(variable: str):
    name, place = FORMATS[variable].name, "files" if variable in IN_FILES else "images/packs"
    is_tested = has_test(IN_FILES.get(variable, rf"\b{variable}\b"), place)
    check_all_done(
        {
            f"no test in tests/{place} names {variable}: write one, by the checks in tests/tiny_packs.py": is_tested,
            f"CHANGELOG.md does not name the format {name}: add a line": in_changelog(rf"(?i)\b{name}\b"),
        }
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_of_evaluate_is_whole(kind: str):
    table = PROTOCOLS.partition("## Which set, which command")[2].partition("\n## ")[0]
    has_row = bool(re.search(rf"(?m)\| [^|]*`(evaluate )?{kind}\b[^|]*\|$", table))
    steps = {
        f'no test in tests/cli or tests/measure runs "evaluate", "{kind}": write one': has_test(
            f'"{kind}"', "cli", "measure"
        ),
        f"docs/protocols.md: no row of the first table ends with `evaluate {kind}`: add it": has_row,
        f"docs/protocols.md: no section shows `verisphere evaluate {kind} ...`: write it": (
            f"verisphere evaluate {kind} " in PROTOCOLS
        ),
        f"CHANGELOG.md does not name `evaluate {kind}`: add a line": in_changelog(rf"(`|evaluate ){kind}\b"),
    }
    check_all_done(steps)


def imported(path: Path) -> set[str]:
    """The modules that a module imports, also inside functions, or starts by their dotted name."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("verisphere."):
            names.add(node.value)
    return names


def test_every_module_is_imported():
    """A module that none imports belongs to a part that is not whole, such as a protocol without a verb."""
    modules = {".".join(path.relative_to(SOURCES).with_suffix("").parts): path for path in SOURCES.rglob("*.py")}
    reached = {name for path in modules.values() for name in imported(path)}
    alone = [name for name in modules if not name.endswith(("__init__", "__main__")) and name not in reached]
    assert not alone, (
        f"no module imports {', '.join(alone)}. `make reference` puts a class, a format or a kind of `evaluate` into "
        "the table of its room; a kind is a module of cli/ with the functions evaluate_NAME and add_NAME"
    )
