"""The folder of a result while it is made, the pieces that a work folder keeps, and sealed files."""

import contextlib
import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from verisphere.base.work import Arrays, PartEnded, results, working
from verisphere.files import work
from verisphere.files.work import SealedFile, WorkFolder, result_folder


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def rows(numbers: Iterable[int]) -> Iterator[Arrays]:
    for number in numbers:
        yield {"rows": np.arange(number, 10)}


def sums(folder: WorkFolder, step: str = "rows", about: object = 1, pieces: int = 3, compute=rows) -> list[int]:
    with working(folder):
        return [int(piece["rows"].sum()) for piece in results(step, lambda: [about], range(pieces), compute)]


def test_the_folder_appears_with_the_result_alone(tmp_path: Path):
    out = tmp_path / "new" / "out"
    with result_folder(out) as work:
        sums(WorkFolder(work), pieces=1)
        (out / "kept.txt").touch()
        step = f".work/01-rows-{digest_of(1, 1)}"
        files = [".work", ".work/.lock", step, f"{step}/00000000.npz", ".work/about.json", "kept.txt"]
        assert names(out) == files
    assert names(out) == ["kept.txt"]
    with pytest.raises(FileExistsError, match=r"out: a folder that is not empty"), result_folder(out):
        pass
    with pytest.raises(FileExistsError, match=r"kept.txt: a file"), result_folder(out / "kept.txt"):
        pass
    assert names(out) == ["kept.txt"]


def test_an_error_before_any_work_leaves_nothing(tmp_path: Path):
    def fail(out: Path) -> None:
        with result_folder(out) as work:
            (work / "about.json").write_text("{}")  # it says what the work would be, and none is done
            raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        fail(tmp_path / "new" / "out")
    assert names(tmp_path) == []
    (tmp_path / "there").mkdir()  # a folder of the user's stays
    with pytest.raises(ValueError, match="wrong"):
        fail(tmp_path / "there")
    assert names(tmp_path) == ["there"]


def two_rows(numbers: Iterable[int]) -> Iterator[Arrays]:
    yield from rows([*numbers][:2])
    raise KeyboardInterrupt


def test_an_unfinished_folder_is_opened_again(tmp_path: Path):
    def interrupted() -> None:
        with result_folder(tmp_path) as work:
            (tmp_path / ".part-1234-kept.txt").touch()
            sums(WorkFolder(work), compute=two_rows)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with result_folder(tmp_path) as work:
        assert sums(WorkFolder(work), compute=only(2)) == [45, 45, 44]
    assert names(tmp_path) == []


def only(*pieces: int) -> Callable[[Iterable[int]], Iterator[Arrays]]:
    """Computes these pieces, and is asked for no other."""

    def compute(numbers: Iterable[int]) -> Iterator[Arrays]:
        asked = list(numbers)
        assert asked == [*pieces]
        return rows(asked)

    return compute


def digest_of(*about: object) -> str:
    return hashlib.sha256("".join(f"{json.dumps(entry)}\n" for entry in about).encode()).hexdigest()[:16]


def test_work_of_something_else_is_removed_from_a_result(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    work = tmp_path / "new" / "work"
    with caplog.at_level("INFO"):
        sums(WorkFolder(work, anew=True), about=(1, 2))
        assert sums(WorkFolder(work, anew=True), about=(1, 2), compute=only()) == [45, 45, 44]
        assert "begins anew" not in caplog.text
        (work / ".lock").touch()
        sums(WorkFolder(work, anew=True), about=(1, 3), compute=only(0, 1, 2))
    assert "new: work of other inputs or options: it begins anew" in caplog.text
    assert len(names(work)) == 6
    (work / "about.json").write_text('{"verisphere": "0.1"}')
    sums(WorkFolder(work, anew=True), about=(1, 3), compute=only(0, 1, 2))


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (
            {"about": 2},
            r"work: the work of other inputs or options \(this\), which differ at step 01-rows; name another",
        ),
        ({"pieces": 4}, "which differ at step 01-rows"),
        ({"step": "lists"}, "which differ at step 01-lists"),
    ],
)
def test_the_folder_of_another_task_is_refused(other: dict[str, Any], reason: str, tmp_path: Path):
    sums(WorkFolder(tmp_path / "work", "this"))
    before = names(tmp_path)
    with pytest.raises(ValueError, match=reason):
        sums(WorkFolder(tmp_path / "work", "that"), **other)
    assert names(tmp_path) == before
    assert sums(WorkFolder(tmp_path / "work", "that"), compute=only()) == [45, 45, 44]


def test_the_folder_of_another_version_or_of_something_else_is_refused(tmp_path: Path):
    sums(WorkFolder(tmp_path / "work"))
    about = tmp_path / "work" / "about.json"
    about.write_text(about.read_text().replace(np.__version__, "1.0"))
    with pytest.raises(ValueError, match=r"work of another version: the work: numpy was '1\.0' and is"):
        sums(WorkFolder(tmp_path / "work"))
    about.unlink()
    with pytest.raises(ValueError, match="it holds something, and no work; name another folder"):
        sums(WorkFolder(tmp_path / "work"))


def test_a_piece_under_another_number_is_refused(tmp_path: Path):
    with WorkFolder(tmp_path) as folder:
        sums(folder)
    (step,) = tmp_path.glob("01-*")
    shutil.copy(step / "00000000.npz", step / "00000002.npz")
    with (
        WorkFolder(tmp_path) as folder,
        pytest.raises(ValueError, match=r"00000002.npz: another piece under this name"),
    ):
        sums(folder)


def test_a_damaged_description_is_blamed_on_the_work_folder(tmp_path: Path):
    (tmp_path / "about.json").write_text("{bad")
    with WorkFolder(tmp_path) as folder, pytest.raises(ValueError, match=r"about\.json: "):
        sums(folder)


def test_each_step_has_its_pieces_and_its_turn(tmp_path: Path):
    def ask(compute: Callable[[Iterable[int]], Iterator[Arrays]]) -> list[list[int]]:
        folder = WorkFolder(tmp_path)
        array = np.arange(70_000)
        return [sums(folder, "near", compute=compute), sums(folder, "near", array, 2, compute)]

    assert ask(rows) == [[45, 45, 44], [45, 45]]
    assert ask(only()) == [[45, 45, 44], [45, 45]]
    folder = WorkFolder(tmp_path)
    sums(folder, "near")
    with pytest.raises(ValueError, match="which differ at step 02-near"):
        sums(folder, "near", np.arange(70_000) + 1, 2)


def test_parts_compute_their_pieces_and_the_last_makes_the_result(tmp_path: Path):
    def part(number: int, compute: Callable[[Iterable[int]], Iterator[Arrays]]) -> list[int]:
        with WorkFolder(tmp_path / "work", part=(number, 3)) as folder:
            assert sums(folder, "small", pieces=2) == [45, 45]  # fewer pieces than parts: whoever comes computes it
            first = sums(folder, "rows", pieces=7, compute=compute)
            second = sums(folder, "more", pieces=4, compute=only(0, 1, 2, 3))  # alone
            return first + second

    with pytest.raises(
        PartEnded, match=r"part 2/3 is computed: 2 of 7 pieces are in .*work; .* or the command without --part, makes"
    ):
        part(1, only(1, 4))
    with pytest.raises(PartEnded, match="part 2/3 is computed: 2 of 7 pieces"):
        part(1, only())
    with pytest.raises(ValueError, match="2 of 2 pieces are missing; run any part, or the command without --merge"):
        sums(WorkFolder(tmp_path / "other", merge=True), "small", pieces=2)
    with pytest.raises(PartEnded, match="part 1/3 is computed: 5 of 7 pieces"):
        part(0, only(0, 3, 6))
    assert part(2, only(2, 5)) == [45, 45, 44, 42, 39, 35, 30, 45, 45, 44, 42]
    with WorkFolder(tmp_path / "work", part=(0, 3)) as maker:
        sums(maker, "small", pieces=2)
        assert sums(maker, "rows", pieces=7, compute=only())
        with pytest.raises(PartEnded, match="all pieces of this step are there, and another part makes the result"):
            part(1, only())
    with WorkFolder(tmp_path / "work", merge=True) as folder:
        assert sums(folder, "small", pieces=2, compute=only()) == [45, 45]
        for number in (2, 5):
            (piece,) = (tmp_path / "work").glob(f"02-*/0000000{number}.npz")
            piece.unlink()
        with pytest.raises(ValueError, match=r"02-rows-\w+: 2 of 7 pieces are missing; run part 3/3"):
            sums(folder, "rows", pieces=7)


def test_parts_without_a_common_disk_are_merged(tmp_path: Path):
    """Steps after that which parts share are computed by who merges them."""
    for number in (0, 1):
        with contextlib.suppress(PartEnded), WorkFolder(tmp_path / str(number), part=(number, 2)) as folder:
            sums(folder)
    shutil.copytree(tmp_path / "1", tmp_path / "0", dirs_exist_ok=True)
    with WorkFolder(tmp_path / "0", merge=True) as folder:
        assert [*sums(folder, compute=only()), *sums(folder, "more", pieces=4)] == [45, 45, 44, 45, 45, 44, 42]
    with WorkFolder(tmp_path / "1", merge=True) as folder, pytest.raises(ValueError, match=r"2 of 3 .*; run part 1/2$"):
        sums(folder)


def test_a_piece_that_another_process_has_kept_meanwhile_is_not_computed(tmp_path: Path):
    computed: list[int] = []

    def compute(numbers: Iterable[int]) -> Iterator[Arrays]:
        for number in numbers:
            computed.append(number)
            yield from rows([number])
            if number == 0:
                sums(WorkFolder(tmp_path), pieces=4)

    assert sums(WorkFolder(tmp_path), pieces=4, compute=compute) == [45, 45, 44, 42]
    assert computed == [0]


def with_an_object(path: Path) -> None:
    np.savez(path, rows=np.array([{}], dtype=object))


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:100]),
        lambda path: path.write_text("no file of arrays"),
        lambda path: np.savez(path, columns=np.arange(3)),
        with_an_object,
    ],
    ids=["empty", "cut", "text", "another array", "an object of Python"],
)
def test_a_damaged_file_is_named(tmp_path: Path, damage: Callable[[Path], object]):
    sums(WorkFolder(tmp_path))
    (piece,) = tmp_path.glob("*/00000002.npz")
    damage(piece)
    with pytest.raises(ValueError, match=r"00000002\.npz: ") as error:
        sums(WorkFolder(tmp_path))
    assert error.value.args[0].count("\n") == 0
    piece.unlink()
    assert sums(WorkFolder(tmp_path), compute=only(2)) == [45, 45, 44]


def test_what_is_kept_comes_back(tmp_path: Path):
    file = SealedFile(tmp_path / "of.scan")
    assert file.load() is None
    file.save({"done": np.array([True, False]), "windows": np.array(3)})
    file.save({"done": np.array([True, True]), "windows": np.array(4)})
    loaded = file.load()
    assert loaded is not None
    assert (loaded["done"].tolist(), int(loaded["windows"])) == ([True, True], 4)
    assert [path.name for path in tmp_path.iterdir()] == ["of.scan"]  # no other name, nothing half-written
    assert str(file) == str(tmp_path / "of.scan")


def test_another_kind_of_file_is_refused(tmp_path: Path):
    path = tmp_path / "notes.txt"
    path.write_text("hello")
    with pytest.raises(ValueError, match=r"notes.txt: not an .npz file of plain arrays"):
        SealedFile(path).load()


@pytest.mark.parametrize(
    "edit",
    [
        {"done": np.array([True, True])},
        {"done": np.array([1, 0], np.uint8)},
        {"windows": np.array([3])},
        {"windows": np.array(4)},
        {"more": np.array(0)},
        {"done": None},
        {"seal": np.zeros(32, np.uint8)},
        {"seal": np.array("no seal")},
        {"seal": None},
    ],
)
def test_an_edited_file_is_refused(tmp_path: Path, edit: dict[str, np.ndarray | None]):
    file = SealedFile(tmp_path / "of.npz")
    file.save({"done": np.array([True, False]), "windows": np.array(3)})
    with np.load(file.path) as archive:
        state = {**archive, **edit}
    np.savez(file.path, **{name: array for name, array in state.items() if array is not None})
    says = "not interrupted work, or written by" if edit.get("seal", 0) is None else "edited or damaged"
    with pytest.raises(ValueError, match=rf"of\.npz: .*{says}"):
        file.load()


def test_truths_are_zero_or_one(tmp_path: Path):
    """A byte of 2 is true to numpy, and counts as two in a sum."""
    file = SealedFile(tmp_path / "of.npz")
    file.save({"done": np.array([2, 0], np.uint8).view(bool)})
    with pytest.raises(ValueError, match=r"of\.npz: .*array 'done': it holds truths in bytes other than 0 and 1"):
        file.load()


@dataclass(frozen=True, eq=False)
class Rows:
    numbers: np.ndarray
    name: str = "rows"


@pytest.mark.parametrize(
    "other",
    [
        [Rows(np.array([1, 3]))],
        [Rows(np.array([1, 2], np.int32))],
        [Rows(np.array([1, 2]), "other")],
        [[Rows(np.array([1, 2]))]],
        [Rows(np.array([1, 2])), 3],
        [Fraction(1, 2)],
    ],
)
def test_a_digest_sees_every_value_in_lists_and_dataclasses(other: list[object]):
    same, again = ([Rows(np.array([1, 2]))] for _ in range(2))
    assert work.digest_of(same) == work.digest_of(again) != work.digest_of(other)
    assert work.digest_of([*other, [Fraction(1, 3)]]) != work.digest_of([*other, [Fraction(2, 3)]])
