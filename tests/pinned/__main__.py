"""`make pinned`: the house's commands on small inputs give what they gave before.

`--out FILE` writes digests of every file and of standard output, a line each; `--against FILE` compares with those.
The exit code is 0 where all numbers are the same, 1 where some differ or a file is missing, and 3 where the digests
come from another kind of machine, on which floating-point results differ.
"""

import argparse
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from pinned.commands import FIGURES, Command, commands, write_inputs
from pinned.digests import digest

DATA = Path(os.environ.get("VERISPHERE_DATA", Path(__file__).parents[3] / "shared" / "data")).resolve()
#: What decides the last bit of a result, and the pixels of a plot.
PACKAGES = ("torch", "numpy", "matplotlib", "pillow", "onnx", "safetensors")
OTHER_MACHINE = 3
#: Files that were renamed: as digests made before call them, and as they are called now. A folder ends in "/".
RENAMED: dict[str, str] = {}
#: Files whose numbers were changed on purpose after before.json was written, with the reason.
MEANT: dict[str, str] = {}
#: The same by how their names end.
MEANT_ENDINGS: dict[str, str] = {}
#: Files that say how long something took, or what it was asked: no results.
SKIPPED = ("log.txt",)

Digests = dict[str, dict[str, str]]


def main() -> int:
    """Run it and return the exit code."""
    asked = argparse.ArgumentParser(prog="make pinned", description=__doc__)
    asked.add_argument("--out", type=Path, help="write the digests")
    asked.add_argument("--against", type=Path, help="compare with these digests")
    asked.add_argument("--strict", action="store_true", help="words that differ count as well")
    asked.add_argument("--only", action="append", default=[], metavar="WORD", help="commands with this in their names")
    asked.add_argument("--folder", type=Path, help="keep all results in this new folder")
    options = asked.parse_args()
    before = None if options.against is None else json.loads(options.against.read_text())
    if before is not None and before["machine"] != machine():
        print(f"not compared: the digests were made on {before['machine']}, and this is {machine()}")
        return OTHER_MACHINE
    with tempfile.TemporaryDirectory(prefix="pinned-") as room:
        folder = Path(room if options.folder is None else options.folder).resolve() / "results"
        folder.mkdir(parents=True)
        found = run(folder, options.only)
    if options.out is not None:
        options.out.write_text(as_text(found))
    if before is None:
        return 0
    return compare(before["digests"], found, options.strict, partial=bool(options.only))


def machine() -> dict[str, object]:
    """The kind of machine, as far as results depend on it."""
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {**versions, "cpu": torch.backends.cpu.get_cpu_capability(), "threads": torch.get_num_threads()}


def as_text(found: Digests) -> str:
    """JSON with a line a file, sorted."""
    lines = [f"{json.dumps(name)}: {json.dumps(found[name])}" for name in sorted(found)]
    return f'{{"machine": {json.dumps(machine())},\n"digests": {{\n' + ",\n".join(lines) + "\n}}\n"


def run(folder: Path, only: list[str]) -> Digests:
    """Every command in turn, and the digests of what each wrote and said."""
    write_inputs(folder, DATA)
    found: Digests = {}
    seen = _files(folder)
    for command in commands():
        if only and not any(word in command.name for word in only):
            continue
        if command.data and not (DATA / command.data).exists():
            print(f"{command.name}: left out, for {command.data} is not at hand", file=sys.stderr)
            continue
        if command.prepare is not None:
            command.prepare(folder)
            seen = _files(folder)
        _call(command, folder)
        now = _files(folder)
        for path in sorted(path for path in now if now[path] != seen.get(path)):
            name = path.relative_to(folder).as_posix()
            if path.name not in SKIPPED:
                # The trainings of an experiment name the first one, from which they start, by its absolute path.
                found[f"{command.name}: {name}"] = digest(name, path.read_bytes().replace(f"{folder}/".encode(), b""))
        seen = now
    return found


def _files(folder: Path) -> dict[Path, tuple[int, int]]:
    """Files with their sizes and times; not those that begin with a dot, nor the real data."""
    return {
        path: (path.stat().st_size, path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".") and "real" not in path.relative_to(folder).parts
    }


def _call(command: Command, folder: Path) -> None:
    """Run a command, which must work; keep what it says on standard output."""
    words = command.words
    if command.name == "figures":
        words = (*FIGURES, *words[words.index("figures") + 1 :])
    began = time.monotonic()
    done = subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, env=_environment())
    if done.returncode != 0:
        sys.stderr.buffer.write(done.stderr)
        raise SystemExit(f"{command.name}: exit code {done.returncode}: python {' '.join(words)}")
    print(f"{command.name}: {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)
    said = folder / "said" / f"{command.name}.txt"
    said.parent.mkdir(exist_ok=True)
    said.write_bytes(done.stdout)


def _environment() -> dict[str, str]:
    """One thread, and the source that this process would import; no terminal's width."""
    source = os.pathsep.join(str(Path(part).resolve()) for part in sys.path if part and Path(part).is_dir())
    return {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1", "COLUMNS": "120", "MPLBACKEND": "agg"}


def compare(before: Digests, now: Digests, strict: bool, partial: bool = False) -> int:
    """Say of each file that is not the same what differs, and count; the exit code."""
    before = {_present(name): one for name, one in before.items()}
    if partial:
        before = {name: one for name, one in before.items() if name.partition(": ")[0] in _ran(now)}
    verdicts: dict[str, list[str]] = {}
    for name in sorted(before.keys() | now.keys()):
        verdict = _verdict(before.get(name), now.get(name))
        verdicts.setdefault(MEANT_TO if verdict == NUMBERS and _reason(name) else verdict, []).append(name)
    for verdict, names in verdicts.items():
        if verdict != SAME:
            print(
                *(f"{verdict}: {name}" + (f" ({_reason(name)})" if verdict == MEANT_TO else "") for name in names),
                sep="\n",
            )
    print(", ".join(f"{len(names)} {verdict}" for verdict, names in sorted(verdicts.items())))
    wrong = verdicts.keys() - {SAME} if strict else verdicts.keys() & {NUMBERS, MISSING}
    return 1 if wrong else 0


def _reason(name: str) -> str | None:
    """Why the numbers of a file differ on purpose; None if they must not."""
    by_ending = (reason for ending, reason in MEANT_ENDINGS.items() if name.endswith(ending))
    return MEANT.get(name) or next(by_ending, None)


SAME, WORDS_DIFFER, NUMBERS = "same", "words differ, numbers are the same", "NUMBERS DIFFER"
MISSING, NEW, MEANT_TO = "MISSING", "new", "numbers differ, as they are meant to"


def _verdict(before: dict[str, str] | None, now: dict[str, str] | None) -> str:
    if before is None or now is None:
        return NEW if before is None else MISSING
    if before["numbers"] != now["numbers"]:
        return NUMBERS
    return SAME if before == now else WORDS_DIFFER


def _present(name: str) -> str:
    command, _, path = name.partition(": ")
    for old, new in RENAMED.items():
        if path == old or (old.endswith("/") and path.startswith(old)):
            path = new + path.removeprefix(old)
    return f"{command}: {path}"


def _ran(now: Digests) -> set[str]:
    return {name.partition(": ")[0] for name in now}


if __name__ == "__main__":
    sys.exit(main())
