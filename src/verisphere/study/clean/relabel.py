"""Embeddings with the labels of a list, to measure the cost of wrong labels; nothing is embedded anew."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from verisphere.base.identity import names_taken
from verisphere.base.vocabulary import Embeddings, printable
from verisphere.files.disk import check_writable, refuse_overwriting
from verisphere.files.embeddings import read_embeddings, write_embeddings
from verisphere.files.errors import errors_naming
from verisphere.files.json_values import shown
from verisphere.files.text import numbered_lines, refuse_repeats
from verisphere.images.relabelled import relabelled


def relabelled_embeddings(
    embeddings: Embeddings, labels: str | Path | None = None, without: str | Path | None = None
) -> Embeddings:
    """The rows that a list of labels names, with its identities, without the rows that another list excludes."""
    if labels is not None:
        with names_taken(embeddings.names_rule):
            positions, listed = relabelled(embeddings.names.tolist(), labels)
        embeddings = replace(embeddings.take(positions), identities=np.array(listed.identities))
        if listed.domains is not None:
            embeddings = replace(embeddings, domains=np.array(listed.domains))
    if without is None:
        return embeddings
    excluded = numbered_lines(without)
    refuse_repeats(without, excluded)
    names = [name for _, name in excluded]
    rows = np.isin(embeddings.names, names)
    with errors_naming(without):
        if rows.sum() < len(names):
            present = set(embeddings.names[rows].tolist())
            number, absent = next(line for line in excluded if line[1] not in present)
            raise ValueError(
                f"line {number}: {shown(absent, 200)} is not among the rows; names there look like "
                f"{shown(str(embeddings.names[0]), 200)}"
            )
        if rows.all():
            raise ValueError("it excludes every row")
    return embeddings.take(~rows)


def relabel_file(path: Path, out: Path, labels: Path | None = None, without: Path | None = None) -> str:
    """Write an embeddings file (.npz) with other labels; returns one line that describes it."""
    if labels is None and without is None:
        raise ValueError("nothing to change; give --labels LIST, --without LIST, or both")
    refuse_overwriting(out, [path, labels, without])
    if out.suffix != ".npz":
        raise ValueError(f"--out {out}: an embeddings file ends in .npz")
    check_writable(out)
    before = read_embeddings(path)
    after = relabelled_embeddings(before, labels, without)
    write_embeddings(out, after)
    people = [len(np.unique(rows.identities)) for rows in (before, after)]
    return (
        f"{printable(str(out))}: {len(after):,} of {len(before):,} embeddings, {people[1]:,} identities (before: "
        f"{people[0]:,})"
    )
