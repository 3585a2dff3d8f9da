"""The scores file: CSV or .npz with a score, a label and optionally a domain for each comparison."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from verisphere.base.identity import is_missing, refuse_missing
from verisphere.base.vocabulary import Scores
from verisphere.files.disk import check_file
from verisphere.files.embeddings import text_column
from verisphere.files.errors import errors_naming
from verisphere.files.json_values import shortened, shown
from verisphere.files.npz import names_in_npz, read_npz
from verisphere.files.text import LONGEST_NAME, as_number, text_lines

_ACROSS = "leave it empty for a pair across domains"


def read_scores(path: str | Path) -> Scores:
    """Reads a scores file: .npz by its suffix, else CSV.

    In CSV, a header names `score`, `label` (exactly 0 or 1; 1 is genuine) and optionally `domain` (empty: a pair across
    domains), in any order; other columns are ignored.
    """
    check_file(path)
    return _read_arrays(path) if Path(path).suffix == ".npz" else _read_csv(path)


def _read_csv(path: str | Path) -> Scores:
    with text_lines(path) as lines:
        return _table(path, lines)


def _table(path: str | Path, text: Iterator[str]) -> Scores:
    lines = csv.reader(text)
    columns: _Columns | None = None
    scores: list[float] = []
    labels: list[bool] = []
    domains: list[str] = []
    try:
        for cells in lines:
            if len(cells) < 2 and not "".join(cells).strip():
                continue  # a blank line
            try:
                if columns is None:
                    columns = _header(cells)
                    continue
                score, genuine, domain = _comparison(cells, columns)
            except ValueError as error:
                raise ValueError(f"{path}: line {lines.line_num}: {error}") from None
            scores.append(score)
            labels.append(genuine)
            if columns.domain is not None:
                domains.append(domain)
    except csv.Error as error:
        raise ValueError(f"{path}: line {lines.line_num}: {error}") from None
    if not scores:
        raise ValueError(f"{path}: no comparison in it; expected a header naming score,label and a line for each")
    return Scores(np.array(scores), np.array(labels), np.array(domains) if domains else None)


@dataclass(frozen=True)
class _Columns:
    """The number of columns of a table, and the positions of the columns of the format."""

    count: int
    score: int
    label: int
    domain: int | None


def _header(cells: Sequence[str]) -> _Columns:
    header = [cell.strip() for cell in cells]
    wrong = [name for name in ("score", "label") if header.count(name) != 1]
    wrong += ["domain"] if header.count("domain") > 1 else []
    if wrong:
        raise ValueError(f"the header must name {' and '.join(wrong)} once, it reads {shown(','.join(header), 200)}")
    domain = header.index("domain") if "domain" in header else None
    return _Columns(len(header), header.index("score"), header.index("label"), domain)


def _comparison(cells: Sequence[str], columns: _Columns) -> tuple[float, bool, str]:
    if len(cells) != columns.count:
        raise ValueError(f"{len(cells)} values under a header of {columns.count}")
    score = as_number(cells[columns.score], "score")
    label = cells[columns.label].strip()
    if label not in ("0", "1"):
        raise ValueError(f"label must be 0 (impostor) or 1 (genuine), got {shown(label)}")
    domain = "" if columns.domain is None else cells[columns.domain].strip()
    if len(domain) > LONGEST_NAME:
        raise ValueError(f"domain {shown(domain)} has {len(domain)} characters; allowed are {LONGEST_NAME}")
    if domain and is_missing(domain):
        raise ValueError(f"domain {shown(domain)} is the text of a missing value; {_ACROSS}")
    return score, label == "1", domain


def _read_arrays(path: str | Path) -> Scores:
    arrays = read_npz(path, ("score", "label", "domain"))
    missing = [name for name in ("score", "label") if name not in arrays]
    if missing:
        there = shortened(", ".join(names_in_npz(path)), 200) or "nothing"
        raise ValueError(f"{path}: no array {' and no array '.join(missing)}; it has {there}")
    score, label = arrays["score"], arrays["label"]
    if score.ndim != 1 or label.shape != score.shape or score.dtype.kind not in "fiu" or label.dtype.kind not in "fiub":
        raise ValueError(
            f"{path}: score and label must be numbers of one length, got {score.dtype} {score.shape} and "
            f"{label.dtype} {label.shape}"
        )
    if not len(score):
        raise ValueError(f"{path}: no comparison in it")
    wrong = ~np.isin(label, [0, 1])
    if wrong.any():
        at = int(wrong.argmax())
        raise ValueError(f"{path}: label must be 0 (impostor) or 1 (genuine), got {label[at]} at position {at}")
    domains = arrays.get("domain")
    if domains is not None:
        if domains.shape != score.shape:
            raise ValueError(f"{path}: domain has shape {domains.shape} but there are {len(score)} scores")
        domains = text_column(path, "domain", domains)
    with errors_naming(path):
        texts = [] if domains is None else domains.tolist()
        refuse_missing("domain", set(texts) - {""}, texts, lambda row: f"position {row}", _ACROSS)
        return Scores(score.astype(np.float64), label.astype(bool), domains)
