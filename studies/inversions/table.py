"""A table of inversions as one plan: several models, targets and numbers, each cell a folder, whole or to be continued.

judge: second                          # what all cells share: arguments of the verb, or numbers of an inversion
faces: lfw_112.zip
steps: 600
axes:                                  # a cell for each way to take one entry of every axis
  model: {ArcFace: {model: runs/arcface}, Softmax: {model: runs/softmax}}
  target: {centers: {centers: true}, photographs: {people: others.txt}}
  term: {with: {}, without: {batch_norm: 0}}
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import product
from pathlib import Path
from typing import Any

import torch

from verisphere.base.vocabulary import Progress, quietly
from verisphere.base.words import unknown_name
from verisphere.files.definitions import read_based
from verisphere.files.disk import write_whole
from verisphere.files.documents import read_json_file
from verisphere.files.errors import errors_naming
from verisphere.files.json_values import from_json, shown
from verisphere.files.lock import alone_in
from verisphere.files.tables import csv_for_people
from verisphere.report.tables import number, table
from verisphere.study.invert.findings import InversionFindings
from verisphere.study.invert.inversion import Inversion
from verisphere.study.invert.run import INVERSION_JSON, InversionSettings, Plan, prepare, run_inversion

log = logging.getLogger(__name__)

CELLS, RESULTS = "cells", "results.csv"
_PATHS = ("model", "faces", "people", "embeddings", "judge", "pairs")
_OF_VERB = {field.name for field in fields(InversionSettings)} - {"settings", "trust"}
_NUMBERS = set(Inversion.__dataclass_fields__)
_COLUMNS = (
    "own, inverted", "others, inverted", "photo, judge", "own, judge", "others, judge", "others 95 %, judge",
    "photographs' own, judge", "recognised", "accepted", "images", "kernel distance", "of photographs",
)  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """One inversion of a table.

    Attributes:
        name: the entries that it is made of, one of each axis.
        asked: what is inverted toward whom.
    """

    name: str
    asked: InversionSettings


def read_table(path: Path, only: Sequence[str] = (), trust: bool = False) -> list[Cell]:
    """The cells of a table, in the order of its axes.

    Args:
        path: YAML file; its paths are relative to the working folder.
        only: names of entries; a cell is taken if it has one of them of each axis that any of them is of. Empty takes
            every cell.
        trust: also build classes from outside verisphere, which runs their code.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a key, an entry or a value is wrong; names it.
    """
    content = read_based(path).content
    with errors_naming(path):
        if not isinstance(content, Mapping) or "axes" not in content:
            raise ValueError("a table of inversions has the key `axes`, and this file has none")
        content = dict(content)
        axes = content.pop("axes")
        if (
            not isinstance(axes, Mapping)
            or not axes
            or not all(isinstance(axis, Mapping) and axis for axis in axes.values())
        ):
            raise ValueError(f"axes is {shown(axes)}; expected names of axes, each with its entries")
        entries = [_chosen(axis, only) for axis in axes.values()]
        known = {str(name) for axis in axes.values() for name in axis}
        for name in only:
            if name not in known:
                raise ValueError(f"--only: {unknown_name('entry', name, sorted(known))}")
        cells = []
        for chosen in product(*entries):
            name = ", ".join(entry for entry, _ in chosen)
            merged = dict(content)
            for entry, given in chosen:
                if given is not None and not isinstance(given, Mapping):
                    raise ValueError(f"axes: {entry} is {shown(given)}; expected arguments and numbers of an inversion")
                merged |= given or {}
            with errors_naming(name):
                cells.append(Cell(name, _asked(merged, trust)))
    return cells


def _chosen(axis: Mapping[Any, Any], only: Sequence[str]) -> list[tuple[str, Any]]:
    entries = [(str(name), given) for name, given in axis.items()]
    return [entry for entry in entries if entry[0] in only] or entries


def _asked(given: Mapping[str, Any], trust: bool) -> InversionSettings:
    for key in given:
        if key not in _OF_VERB | _NUMBERS:
            raise ValueError(unknown_name("field", str(key), sorted(_OF_VERB | _NUMBERS)))
    if "model" not in given:
        raise ValueError("model is missing: a run, a checkpoint or a model folder")
    settings = from_json(Inversion, {name: value for name, value in given.items() if name in _NUMBERS})
    arguments = {name: value for name, value in given.items() if name in _OF_VERB}
    for name in _PATHS:
        if arguments.get(name) is not None:
            if not isinstance(arguments[name], str):
                raise ValueError(f"{name} is {shown(arguments[name])}; expected a path")
            arguments[name] = Path(arguments[name])
    if "fars" in arguments:
        arguments["fars"] = tuple(map(str, arguments["fars"]))
    return InversionSettings(settings=settings, trust=trust, **arguments)


def plan_text(cells: Iterable[Cell], device: torch.device, progress: Progress = quietly) -> str:
    """Memory and work of each cell and of all, before the first."""
    plans = {cell.name: _prepared_plan(cell, device, progress) for cell in cells}
    rows = [
        [name, f"{plan.images:,}", f"{plan.steps:,}", _gib(plan.bytes), f"{plan.flops / 1e12:,.1f}"]
        for name, plan in plans.items()
    ]
    most, work = max(plan.bytes for plan in plans.values()), sum(plan.flops for plan in plans.values())
    rows.append([f"all {len(plans)}, one after another", "", "", _gib(most), f"{work / 1e12:,.1f}"])
    return table(["cell", "images", "steps", "GiB beside the libraries", "TFLOP"], rows)


def _prepared_plan(cell: Cell, device: torch.device, progress: Progress) -> Plan:
    with errors_naming(cell.name):
        return prepare(cell.asked, device, progress).plan


def _gib(count: int) -> str:
    return f"{count / 2**30:.2f}"


def run_table(
    cells: Sequence[Cell], out: Path, device: torch.device, *, save_every: int = 100, progress: Progress = quietly
) -> str:
    """Run the cells that are not whole yet, and write `results.csv`; one that was ended continues where it was.

    Args:
        cells: the result of `read_table`.
        out: folder of the table; each cell has a folder in `cells`.
        device: device of the networks and images.
        save_every: steps after which the state of an inversion is kept.
        progress: reports the progress.

    Returns:
        the table as text.

    Raises:
        ValueError: a cell of this name was made with other numbers or another target.
    """
    found: dict[str, InversionFindings] = {}
    with alone_in(out):
        for place, cell in enumerate(cells, start=1):
            folder = out / CELLS / "".join(letter if letter.isalnum() else "-" for letter in cell.name)
            if (folder / INVERSION_JSON).is_file():
                found[cell.name] = _whole(cell, folder)
            else:
                log.info("cell %d of %d: %s", place, len(cells), cell.name)
                folder.parent.mkdir(exist_ok=True)
                with errors_naming(cell.name):
                    prepared = prepare(cell.asked, device, progress)
                    found[cell.name] = run_inversion(
                        cell.asked, prepared, folder, device, save_every=save_every, progress=progress
                    )
            write_whole(out / RESULTS, lambda partial: partial.write_text(_csv(found)))
    return table(["cell", *_COLUMNS], [[name, *_row(findings)] for name, findings in found.items()])


def _whole(cell: Cell, folder: Path) -> InversionFindings:
    findings = from_json(InversionFindings, read_json_file(folder / INVERSION_JSON), str(folder / INVERSION_JSON))
    now = {name: getattr(cell.asked.settings, name) for name in sorted(_NUMBERS)}
    for name, value in now.items():
        before = findings.settings.get(name)
        if before != value:
            raise ValueError(
                f"{folder}: made with {name} {shown(before)}, and the table asks for {shown(value)}; choose another "
                "--out, or remove the folder"
            )
    if findings.model != cell.asked.model.name or len(findings.images) != cell.asked.count:
        raise ValueError(f"{folder}: {len(findings.images)} images of {findings.model}; the table asks for others")
    return findings


def _row(findings: InversionFindings) -> list[str]:
    """The figures of a cell; a dash where it has none."""
    by = {entry.model: entry for entry in findings.likeness}
    itself, judge = by.get("inverted"), by.get("judge")

    def mean(cosines: Any) -> str:
        return "-" if cosines is None else number(cosines.mean, 3)

    quantile = None if judge is None or judge.others is None else judge.others.quantile_95
    recognised = None if judge is None else judge.recognised
    point = judge.points[0] if judge is not None and judge.points else None
    kernel = next((one for one in findings.distances if one.name == "kernel"), None)
    return [
        "-" if itself is None else mean(itself.own),
        "-" if itself is None else mean(itself.others),
        "-" if judge is None else mean(judge.same_photo),
        "-" if judge is None else mean(judge.same_person),
        "-" if judge is None else mean(judge.others),
        "-" if quantile is None else number(quantile, 3),
        "-" if judge is None else mean(judge.real_same_person),
        "-" if recognised is None else "yes" if recognised else "no",
        "-" if point is None else str(point.genuine_accepted),
        str(len(findings.images)),
        "-" if kernel is None else number(kernel.generated, 2),
        "-" if kernel is None else number(kernel.real, 2),
    ]


def _csv(found: Mapping[str, InversionFindings]) -> str:
    return csv_for_people(["cell", *_COLUMNS], ([name, *_row(findings)] for name, findings in found.items()))
