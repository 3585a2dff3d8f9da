"""The tables that `make reference` writes: what a module has is found without importing it, and nothing else."""

from pathlib import Path

import pytest

from reference import tables
from reference.tables import Table


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A room with a base class, a class that derives from it, and the table of both."""
    monkeypatch.setattr(tables, "ROOT", tmp_path)
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets" / "base.py").write_text("class Base: ...\ndef extract(): ...\n")
    (tmp_path / "nets" / "plain.py").write_text("class Plain(Base): ...\n")
    (tmp_path / "nets" / "__init__.py").write_text(
        '"""Networks."""\n\nfrom verisphere.nets.base import Base, extract\nfrom verisphere.nets.plain import Plain\n\n'
        '__all__ = [\n    "Base",\n    "Plain",\n    "extract",\n]\n'
    )
    return tmp_path / "nets"


def written(room: Path, table: Table | None = None) -> str:
    return tables._written(table or Table("nets/__init__.py", "__all__", "class Base", sorted=True))


def test_a_class_joins_that_derives_from_the_base_through_another_module(room: Path):
    (room / "deep.py").write_text(
        "import none_such\nclass Deep(Plain): ...\nclass _Part(Base): ...\nclass Other: ...\n"
    )
    lines = written(room).splitlines()
    assert "from verisphere.nets.deep import Deep" in lines
    assert lines[lines.index("__all__ = [") :] == ["__all__ = [", *(f'    "{name}",' for name in
           ("Base", "Deep", "Plain", "extract")), "]"]  # fmt: skip


def test_a_module_may_say_which_of_its_classes_are_for_users(room: Path):
    (room / "deep.py").write_text('__all__ = ["Deep"]\nclass Deep(Base): ...\nclass Helper(Base): ...\n')
    assert "from verisphere.nets.deep import Deep\n" in written(room)


def test_what_is_gone_leaves_the_table(room: Path):
    (room / "plain.py").unlink()
    (room / "base.py").write_text("class Base: ...\n")
    assert written(room) == '"""Networks."""\n\nfrom verisphere.nets.base import Base\n\n__all__ = [\n    "Base",\n]\n'


def test_values_keep_their_order_and_a_new_one_comes_last(room: Path):
    (room / "known.py").write_text(
        "from pathlib import Path\n\n"
        "from verisphere.nets.one import ONE\n"
        "from verisphere.nets.two import TWO, is_two\n\n"
        "#: Every form.\n"
        "FORMS: tuple[Form, ...] = (TWO, ONE)\n\n\n"
        "def any_two():\n    return is_two()\n"
    )
    (room / "one.py").write_text('ONE = Form("one", None)\nNUMBER = int("1")\n')
    (room / "two.py").write_text('def is_two(): ...\nTWO = Form("two", None)\n')
    (room / "a_third.py").write_text('THIRD: Form = Form("third", None)\n')
    text = written(room, Table("nets/known.py", "FORMS", "value Form"))
    assert "\nFORMS: tuple[Form, ...] = (TWO, ONE, THIRD)\n\n\ndef any_two" in text
    assert text.split("\n\n")[1].splitlines() == [
        "from verisphere.nets.a_third import THIRD",
        "from verisphere.nets.one import ONE",
        "from verisphere.nets.two import TWO, is_two",
    ]


def test_a_function_joins_that_lies_beside_the_one_that_it_declares(room: Path):
    (room / "kinds.py").write_text("from verisphere.nets.first import add_first\n\nKINDS = (add_first,)\n")
    (room / "first.py").write_text("def run_first(): ...\ndef add_first(): ...\n")
    (room / "second.py").write_text("def run_second(): ...\ndef add_second(): ...\ndef add_option(): ...\n")
    (room / "third.py").write_text("def run_third(): ...\n")
    assert written(room, Table("nets/kinds.py", "KINDS", "function run")) == (
        "from verisphere.nets.first import add_first\nfrom verisphere.nets.second import add_second\n\n"
        "KINDS = (add_first, add_second)\n"
    )
