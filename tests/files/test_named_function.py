"""Functions by `module:function`: only with trust, and one line where there is none."""

import hashlib
import json
import posixpath
import sys
from pathlib import Path

import pytest

from verisphere.files.named_function import find_function, named_function


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


def digests(*functions: str) -> list[str]:
    """The digest of each function, as a new process finds it."""
    for name in [name for name in sys.modules if name.partition(".")[0] in ("faces", "shown", "alone", "net")]:
        del sys.modules[name]
    return [find_function(name, trust=True)[2] for name in functions]


def test_the_code_of_a_function_is_its_package_and_the_file_that_defines_it(tmp_path: Path, monkeypatch):
    """Each file changes the digest of every function that lives in its package, or that it defines."""
    monkeypatch.syspath_prepend(tmp_path)
    package = tmp_path / "faces"
    (package / "inner").mkdir(parents=True)
    files = {
        package / "__init__.py": "from .inner.net import net\nfrom .inner.net import Net\nobject_ = Net()\n",
        package / "inner" / "__init__.py": "",
        package / "inner" / "net.py": "def net(x): return x\nclass Net:\n    def __call__(self, x): return x\n",
        package / "helper.py": "",
        tmp_path / "shown.py": "from functools import partial\nfrom faces import net, object_\npart = partial(net)\n",
        tmp_path / "alone.py": "def net(x): return x\n",
        tmp_path / "unread.py": "",
    }
    for path, text in files.items():
        path.write_text(text)
    (package / "broken.py").symlink_to("nowhere")  # as an editor leaves it
    linked = tmp_path / "elsewhere" / "part.py"
    linked.parent.mkdir()
    linked.write_text("")
    (package / "linked").symlink_to(linked.parent)
    (package / "inner" / "again").symlink_to(package)  # folders that lead back are entered once
    files[linked] = ""
    of_package, of_shown = (
        ["faces:net", "faces:object_", "faces.inner.net:net"],
        ["shown:net", "shown:part", "shown:object_"],
    )
    names = [*of_package, *of_shown, "alone:net"]
    before = digests(*names)
    assert before[-1] == hashlib.sha256((tmp_path / "alone.py").read_bytes()).hexdigest()
    changing = {
        package / "__init__.py": of_package,
        package / "helper.py": of_package,
        linked: of_package,
        package / "inner" / "net.py": [*of_package, *of_shown],
        tmp_path / "shown.py": of_shown,
        tmp_path / "alone.py": ["alone:net"],
        tmp_path / "unread.py": [],
    }
    for path, changed in changing.items():
        path.write_text(files[path] + "\n")
        after = digests(*names)
        assert [name for name, old, new in zip(names, before, after, strict=True) if old != new] == changed, path
        path.write_text(files[path])
    assert digests(*names) == before
    other = tmp_path / "elsewhere" / "other.py"
    other.write_text("# other code\n")
    (package / "switched.py").symlink_to(linked)
    before = digests("faces:net")
    (package / "switched.py").unlink()
    (package / "switched.py").symlink_to(other)
    assert digests("faces:net") != before


def test_a_link_that_is_switched_inside_a_package_changes_the_digest(tmp_path: Path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    package = tmp_path / "faces"
    for version in ("one", "two"):
        (package / version).mkdir(parents=True)
        (package / version / "net.py").write_text(f"def net(x): return {version!r}\n")
    (package / "__init__.py").write_text("from .used.net import net\n")
    found = set()
    for version in ("one", "two"):
        (package / "used").unlink(missing_ok=True)
        (package / "used").symlink_to(package / version)
        found |= set(digests("faces:net"))
    assert len(found) == 2


def test_files_of_one_name_all_count(tmp_path: Path, monkeypatch):
    """A module beside the file of the same name that defines its function, and a package that lies in two folders."""
    for folder in ("first", "second"):
        monkeypatch.syspath_prepend(tmp_path / folder)
        (tmp_path / folder / "faces").mkdir(parents=True)
        (tmp_path / folder / "faces" / "helper.py").write_text(f"# {folder}\n")
    (tmp_path / "first" / "faces" / "net.py").write_text("def net(x): return x\n")
    (tmp_path / "first" / "net.py").write_text("from functools import partial\nfrom faces.net import net as of\n")
    alone = tmp_path / "first" / "net.py"
    alone.write_text(alone.read_text() + "net = partial(of)\n")
    names = ["net:net", "faces.net:net"]
    before = digests(*names)
    alone.write_text(alone.read_text() + "# changed\n")
    first = digests(*names)
    assert [old != new for old, new in zip(before, first, strict=True)] == [True, False]
    for folder in ("first", "second"):
        helper = tmp_path / folder / "faces" / "helper.py"
        helper.write_text("# changed\n")
        assert digests("faces.net:net")[0] != first[1], folder
        helper.write_text(f"# {folder}\n")


def test_a_folder_that_python_searches_twice_counts_once(tmp_path: Path, monkeypatch):
    """As where `python -m` runs in a folder of PYTHONPATH, for a package without `__init__.py`."""
    (tmp_path / "faces").mkdir()
    (tmp_path / "faces" / "net.py").write_text("def net(x): return x\n")
    monkeypatch.syspath_prepend(tmp_path)
    once = digests("faces.net:net")
    (tmp_path / "linked").symlink_to(tmp_path)
    for again in (tmp_path, tmp_path / "linked"):
        monkeypatch.syspath_prepend(again)
        assert digests("faces.net:net") == once


def test_a_function_without_source_is_refused():
    with pytest.raises(ValueError, match="time:time: its module has no source file"):
        find_function("time:time", trust=True)
    digest = hashlib.sha256(Path(posixpath.__file__).read_bytes()).hexdigest()
    assert find_function("posixpath:join", trust=True)[2] == digest
