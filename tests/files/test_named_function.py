"""Functions by `module:function`: only with trust, and one line where there is none."""

import json
import sys

import pytest

from verisphere.files.named_function import named_function


def test_a_function_of_a_module():
    assert named_function("json:loads", "detector", trust=True) is json.loads
    assert named_function("os.path:basename", "detector", trust=True)("a/b") == "b"


def test_nothing_is_imported_without_trust(tmp_path, monkeypatch):
    (tmp_path / "runs_code.py").write_text("raise RuntimeError('it ran')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=r"detector 'runs_code:find' is not part of verisphere.*--trust-code"):
        named_function("runs_code:find", "detector", trust=False)
    assert "runs_code" not in sys.modules
    with pytest.raises(ValueError, match=r"detector 'runs_code:find' cannot be loaded: it ran$"):
        named_function("runs_code:find", "detector", trust=True)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("json", "'json' is no module:function, such as people.faces:find"),
        ("json:a.b", "is no module:function"),
        ("../json:loads", "is no module:function"),
        ("no_such_module:find", "cannot be loaded: No module named 'no_such_module'; is its folder on PYTHONPATH"),
        ("json:find", "cannot be loaded: module 'json' has no attribute 'find'$"),
        ("json:__name__", "is 'json', which cannot be called"),
    ],
)
def test_what_names_no_function(path: str, line: str):
    with pytest.raises(ValueError, match=line):
        named_function(path, "detector", trust=True)
