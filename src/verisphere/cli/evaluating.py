"""Measuring embeddings or scores: `evaluate`, and the table of its kinds."""

import zipfile

from verisphere.cli.evaluation import add_all_pairs, add_distractors, add_pairs, add_scores, add_suite, add_two_sets
from verisphere.cli.identification import add_identification, add_ijb
from verisphere.cli.parsing import Parser, Verbs

#: Every kind, in the order of `verisphere evaluate --help`; `make reference` adds those of new modules.
KINDS = (add_scores, add_pairs, add_all_pairs, add_identification, add_distractors, add_two_sets, add_suite, add_ijb)


def kind_of_file(path: str) -> str:
    """The command for a file that was given where a kind of evaluation belongs; empty for files of other kinds."""
    try:
        if path.endswith(".npz"):
            with zipfile.ZipFile(path) as archive:
                names = set(archive.namelist())
        else:
            with open(path, "rb") as file:
                names = {f"{column.strip()}.npy" for column in file.readline(4096).decode().split(",")}
    except (OSError, ValueError, zipfile.BadZipFile):
        return ""
    kind = "scores" if "score.npy" in names else "all-pairs"
    if not names & {"score.npy", "embeddings.npy", "e0.npy", "embedding.npy"}:
        return ""
    return f" (did you mean verisphere evaluate {kind} {path}?)"


def add_evaluate(verbs: Verbs) -> None:
    """Add `evaluate` and its kinds."""
    text = "Measure embeddings or scores."
    evaluation = verbs.add_parser(
        "evaluate",
        help=text,
        description=text,
        examples=(
            "verisphere evaluate all-pairs embeddings.npz --far 1e-3",
            "verisphere evaluate pairs embeddings.npz --pairs pairs.txt",
        ),
        hint=kind_of_file,
    )
    kinds = evaluation.add_subparsers(required=True, metavar="KIND", parser_class=Parser)
    for add in KINDS:
        add(kinds)
