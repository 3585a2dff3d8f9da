"""`make fuzz`: mutated files to every reader; each is accepted, or refused in one line that names the file.

The corpus of earlier findings comes first, then the seeds as they are, then so many inputs over all readers. The input
of a finding is added to the corpus. The exit code is 1 where there is a finding.
"""

import argparse
import importlib
import os
import re
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

from fuzz.containers import Files
from fuzz.corpus import KeptInput, keep, kept_inputs
from fuzz.readers import READERS, installed
from fuzz.seeds import make_seeds
from fuzz.server import Input, judged, numbered
from fuzz.worker import ACCEPTED, REFUSED, Outcome, write_files

KEPT_OF_A_KIND = 2  # inputs with one kind of finding that are added to the corpus
KEPT_OF_A_VERDICT = 6  # inputs of one reader with one verdict, whatever their lines say


def main() -> int:
    """Run it and return the exit code."""
    asked = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    asked.add_argument("--seed", default="16", help="of the mutations (16)")
    asked.add_argument("--inputs", type=int, default=10_000, help="how many, over all readers (10000)")
    asked.add_argument("--reader", action="append", choices=list(READERS), help="these readers alone")
    asked.add_argument("--processes", type=int, default=2, help="that read (2)")
    asked.add_argument("--keep", action=argparse.BooleanOptionalAction, default=True, help="add findings to the corpus")
    options = asked.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as room:
        seeds = _seeds(Path(room) / "seeds")
        names = [name for name in options.reader or READERS if installed(name)]
        left_out = [name for name in options.reader or READERS if name not in names]
        inputs = _inputs(names, seeds, options.inputs, options.seed)
        print(f"seed {options.seed}: {len(inputs)} inputs to {len(names)} readers", flush=True)
        for name in left_out:
            print(f"{name}: left out, for its packages are not installed")
        tables = {name: _Tally() for name in names}
        findings: dict[tuple[str, ...], list[str]] = {}
        for done, (one, outcome) in enumerate(judged(inputs, seeds, Path(room), options.processes), start=1):
            if done % 1000 == 0:
                print(f"{done} of {len(inputs)} after {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
            if one.origin == "seed" and outcome.verdict == REFUSED:
                outcome = replace(outcome, verdict="a seed is refused")
            tables[one.reader].add(outcome)
            if outcome.finding:
                kind = (one.reader, outcome.verdict, re.sub(r"'[^']*'|[^a-z ]", "", outcome.said.lower())[:40])
                kept = findings.setdefault(kind, [])
                kept.append(f"{one.origin} {one.title}: {outcome.verdict}: {_shown(outcome.said)}")
                alike = sum(len(some) for other, some in findings.items() if other[:2] == kind[:2])
                if (
                    options.keep
                    and len(kept) <= KEPT_OF_A_KIND
                    and alike <= KEPT_OF_A_VERDICT
                    and one.origin == "mutation"
                ):
                    kept[-1] += f"\n    {_keep(one, seeds[one.seed], outcome) or 'not kept: too large'}"
    _tell(tables, findings, time.monotonic() - began)
    return 1 if findings else 0


class _Tally:
    """Counts of one reader."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.slowest, self.most = 0.0, 0

    def add(self, outcome: Outcome) -> None:
        """Count an outcome."""
        self.counts["findings" if outcome.finding else outcome.verdict] += 1
        self.slowest, self.most = max(self.slowest, outcome.seconds), max(self.most, outcome.bytes)

    def row(self, name: str) -> str:
        """Its line of the table."""
        counts = [self.counts.total(), self.counts[ACCEPTED], self.counts[REFUSED], self.counts["findings"]]
        return f"{name:20}" + "".join(f"{count:10}" for count in counts) + f"{self.slowest:10.2f}{self.most >> 20:10}"


def _seeds(folder: Path) -> dict[str, Files]:
    """The seeds, made in a process of their own: no thread and no loaded library of it is in those that read."""
    folder.mkdir()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        code = 1
        place = folder / ".work"
        error = os.dup(2)
        try:
            place.mkdir()
            os.chdir(place)
            with open(place / "log", "w") as log:
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)
                for name, files in make_seeds(place).items():
                    write_files(folder / name, files)
            code = 0
        except BaseException:
            os.dup2(error, 2)
            print((place / "log").read_text(errors="replace"), file=sys.stderr)
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    if os.waitpid(child, 0)[1] != 0:
        raise SystemExit("the seeds could not be made")
    shutil.rmtree(folder / ".work")
    return {
        place.name: {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}
        for place in folder.iterdir()
    }


def _inputs(names: list[str], seeds: dict[str, Files], count: int, run: str) -> list[Input]:
    """The corpus, the seeds as they are, and the mutations: all readers in turn."""
    inputs = [
        Input(kept.reader, READERS[kept.reader].seeds[0], partial(_kept, kept, seeds), kept.path.name, "corpus")
        for kept in kept_inputs()
        if kept.reader in names
    ]
    inputs += [Input(name, seed, dict, seed, "seed") for name in names for seed in READERS[name].seeds if seed in seeds]
    missing = [seed for name in names for seed in READERS[name].seeds if seed not in seeds]
    if missing:
        raise SystemExit(f"there is no seed {missing[0]!r}")
    return inputs + [numbered(names[place % len(names)], place // len(names), run) for place in range(count)]


def _keep(one: Input, seed: Files, outcome: Outcome) -> Path | None:
    try:
        return keep(one.reader, one.seed, seed, one.make(dict(seed)), f"{outcome.verdict}; {outcome.said}")
    except Exception:  # an input that could not be made: its own finding
        return None


def _kept(kept: KeptInput, seeds: dict[str, Files], _: Files) -> Files:
    return kept.files(seeds)


def _shown(text: str) -> str:
    return ascii(text)[1:-1][:300]


def _tell(tables: dict[str, _Tally], findings: dict[tuple[str, ...], list[str]], seconds: float) -> None:
    heads = ("inputs", "accepted", "refused", "findings", "slowest s", "most MB")
    print(f"{'reader':20}" + "".join(f"{head:>10}" for head in heads))
    for name, tally in tables.items():
        print(tally.row(name))
    total = sum(tally.counts.total() for tally in tables.values())
    print(f"{total} inputs in {seconds:.0f} s; {sum(map(len, findings.values()))} findings of {len(findings)} kinds")
    for kind, found in findings.items():
        print(f"\n{kind[0]}, {len(found)} times:")
        print("\n".join(f"  {line}" for line in found[:KEPT_OF_A_KIND]))


if __name__ == "__main__":
    for library in ("onnx", "onnxruntime", "lz4.frame", "matplotlib.pyplot"):  # before the processes part, not in each
        if importlib.util.find_spec(library.partition(".")[0]) is not None:
            importlib.import_module(library)
    sys.exit(main())
