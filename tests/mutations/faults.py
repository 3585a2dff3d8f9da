"""Faults put into the sources by hand, each a patch beside this file, to measure what the tests would find.

A patch has a line that says what the fault is, a line with the test files that are to find it, and one hunk without
line numbers: its lines are looked for in the file, where they must stand exactly once.
"""

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]


@dataclass(frozen=True)
class Fault:
    """A small change that makes the sources wrong.

    Attributes:
        name: name of the patch.
        why: what is wrong then.
        found_by: test files that fail then, relative to the root of the project.
        file: the file that is changed, likewise.
        old, new: whole lines, before and after.
    """

    name: str
    why: str
    found_by: tuple[str, ...]
    file: str
    old: str
    new: str

    def apply(self, root: Path) -> None:
        """Put the fault into the sources below a folder.

        Raises:
            ValueError: the lines do not stand in the file exactly once.
        """
        path = root / self.file
        text = path.read_text(encoding="utf-8")
        if (times := f"\n{text}".count(f"\n{self.old}")) != 1:
            raise ValueError(f"{self.name}.patch: its lines stand {times} times in {self.file}, not once; renew it")
        path.write_text(f"\n{text}".replace(f"\n{self.old}", f"\n{self.new}")[1:], encoding="utf-8")


def read_fault(path: Path) -> Fault:
    """The fault of a patch.

    Raises:
        ValueError: it has another form.
    """
    head, _, hunk = path.read_text(encoding="utf-8").partition("\n@@\n")
    try:
        why, found_by, empty, old_file, new_file = head.splitlines()
        assert why.startswith("Fault: ")
        assert found_by.startswith("Found by: tests/")
        assert not empty
        file = old_file.removeprefix("--- a/")
        assert new_file == f"+++ b/{file}"
    except (AssertionError, ValueError):
        raise ValueError(
            f"{path.name}: a patch starts with 'Fault: ...', 'Found by: tests/...', an empty line, '--- a/FILE', "
            "'+++ b/FILE' and '@@'"
        ) from None
    lines = hunk.splitlines(keepends=True)
    return Fault(
        name=path.stem,
        why=why.removeprefix("Fault: "),
        found_by=tuple(found_by.removeprefix("Found by: ").split(", ")),
        file=file,
        old="".join(line[1:] for line in lines if line[0] in " -"),
        new="".join(line[1:] for line in lines if line[0] in " +"),
    )


FAULTS = [read_fault(path) for path in sorted(FOLDER.glob("*.patch"))]
