"""The files that a model card is written from, as far as it shows them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from verisphere.data.json_values import from_json
from verisphere.decide import GuaranteedThreshold, OneThreshold
from verisphere.report.results import EvaluatedFile
from verisphere.vocabulary import OperatingPoint


@dataclass(frozen=True)
class Accuracy:
    """The part of a k-fold accuracy that a card shows."""

    mean: float
    std: float
    folds: int
    pairs: int


@dataclass(frozen=True)
class Figures:
    """What `verisphere evaluate --json` found."""

    operating_points: tuple[OperatingPoint, ...]
    sources: tuple[EvaluatedFile, ...]
    accuracy: Accuracy | None
    one_threshold: tuple[OneThreshold, ...] | None


@dataclass(frozen=True)
class CheckedFile:
    """A file that a calibration used."""

    file: str
    sha256: str
    rows: int
    people: int | None


@dataclass(frozen=True)
class Check:
    """What the thresholds did on a file, on the whole and in each domain."""

    source: CheckedFile
    points: tuple[OperatingPoint, ...]
    domains: dict[str, tuple[OperatingPoint, ...]]
    skipped: tuple[str, ...]
    shared_people: int | None


@dataclass(frozen=True)
class Calibrated:
    """The part of a calibration file that a card shows."""

    source: CheckedFile
    origin: dict[str, Any] | None
    thresholds: tuple[GuaranteedThreshold, ...]
    checks: tuple[Check, ...]


def read_figures(path: Path) -> Figures:
    """The figures in a file that `verisphere evaluate --json` wrote.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is another file.
    """
    try:
        fields = json.loads(path.read_bytes())
        return from_json(Figures, {"accuracy": None, "one_threshold": None, "sources": []} | fields)
    except (ValueError, TypeError, RecursionError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{path}: not figures that `verisphere evaluate --json` writes: {reason}") from None


def read_calibrated(path: Path) -> Calibrated:
    """What `verisphere calibrate` found.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is another file.
    """
    try:
        return from_json(Calibrated, json.loads(path.read_bytes()))
    except (ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{path}: not thresholds that `verisphere calibrate` writes: {reason}") from None


def read_settings(path: Path) -> dict[str, Any]:
    """A resolved recipe as plain data; nothing it names is imported.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: not YAML, or without data, backbone and loss.
    """
    try:
        recipe = yaml.safe_load(path.read_bytes())
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path}: not YAML: {str(error).splitlines()[0]}") from None
    for name in ("data", "backbone", "loss"):
        part = recipe.get(name) if isinstance(recipe, dict) else None
        if not (isinstance(part, dict) and isinstance(part.get("class_path"), str)):
            raise ValueError(f"{path}: not a resolved recipe: it names no class_path under {name}")
        if not isinstance(part.get("init_args") or {}, dict):
            raise ValueError(f"{path}: not a resolved recipe: init_args of {name} are no mapping")
    return recipe
