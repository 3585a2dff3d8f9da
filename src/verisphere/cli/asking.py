"""`why`: the first cause of figures that disagree, or of a training that failed."""

import argparse
from pathlib import Path

from verisphere.cli.messages import progress
from verisphere.cli.parsing import SET, Outcome, Verbs, add_names, add_trust_code, new_verb, options_as
from verisphere.cli.results import add_input, add_json, show_result


def why(options: argparse.Namespace) -> Outcome:
    """Name the first cause why figures of a model disagree or a training failed, with its evidence and what mends it;
    exit code 2 where there is one.
    """
    from verisphere.study.why.why import why as asked

    answer = options_as(asked, options, progress=progress())
    if answer.cause is None:
        return answer
    show_result(options, answer)
    raise SystemExit(2)


def add_why(verbs: Verbs) -> None:
    """Add `why`."""
    verb = new_verb(
        verbs,
        "why",
        why,
        examples=(
            "verisphere why model faces.zip --embeddings faces.npz --pairs pairs.txt",
            "verisphere why runs/first --json why.json",
        ),
    )
    add_names(verb)
    verb.add_argument("model", type=Path, metavar="MODEL", help="model folder, ONNX file or run; alone: a run")
    verb.add_argument("images", type=Path, nargs="?", metavar="SET", help=f"of the figures: {SET}")
    add_input(verb, "--embeddings", "the rows that the figures are of, compared with what the model gives")
    add_input(verb, "--pairs", "the list of pairs that the figures are of, in any layout of evaluate pairs")
    add_input(verb, "--calibration", "the thresholds that scores are held to, from calibrate")
    add_input(verb, "--identities", "list of labels (name,identity), in place of the set's own people")
    add_json(verb, "also write cause, evidence and what was tried as JSON")
    add_trust_code(verb)
