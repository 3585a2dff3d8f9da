"""The gate of a gallery: `gate fit`."""

import argparse
from pathlib import Path

from verisphere.cli.calibrating import add_accept_training_people
from verisphere.cli.messages import progress
from verisphere.cli.parsing import (
    SET,
    Outcome,
    Parser,
    Verbs,
    add_device,
    add_names,
    add_trust_code,
    new_verb,
    options_as,
)
from verisphere.cli.results import add_input, add_output


def gate_fit(options: argparse.Namespace) -> Outcome:
    """Choose what a gallery asks of photographs, on aligned faces of people who will not be enrolled."""
    from verisphere.ship.calibration_check import Accepted
    from verisphere.ship.gate_fit import fit

    accepted = Accepted(options.accept_implausible, options.accept_training_people)
    gate = options_as(fit, options, accepted=accepted, progress=progress())
    gate.write_json(options.out)
    return gate


def add_gate(verbs: Verbs) -> None:
    """Add `gate` and its verb."""
    text = "Refuse photographs that would spoil a gallery."
    examples = (
        "verisphere gate fit others.zip --model model --out gate.json",
        "verisphere gate fit others.zip --model model --good 1e-2 --measure detail --measure length --out gate.json",
    )
    gate = verbs.add_parser("gate", help=text, description=text, examples=examples)
    kinds = gate.add_subparsers(required=True, metavar="VERB", parser_class=Parser)
    verb = new_verb(kinds, "fit", gate_fit, examples=examples)
    add_names(verb)
    add_input(verb, "faces", SET, metavar=None)
    verb.add_argument("--model", type=Path, required=True, help="run, checkpoint or model folder that embeds")
    verb.add_argument("--landmarks", type=Path, metavar="FILE", help="points in the photographs, for size and pose")
    add_device(verb)
    add_trust_code(verb)
    add_output(verb, "--out", required=True, metavar="GATE.json", help="file for the gate")
    what = "choose the share of good photographs that may be refused by its effect on strangers at this FPIR (1e-2)"
    verb.add_argument("--fpir", metavar="F", help=what)
    verb.add_argument("--good", metavar="F", help="most good photographs that may be refused, by your own choice")
    what = "ask for this alone; repeat for several (detail, and size with --landmarks)"
    verb.add_argument("--measure", dest="measures", action="append", metavar="NAME", help=what)
    verb.add_argument("--accept-implausible", action="store_true", help="see verisphere calibrate")
    add_accept_training_people(verb)
