"""The gate of a gallery: `gate fit` and `gate check`."""

import argparse
from pathlib import Path

from verisphere.cli.calibrating import add_accept_training_people
from verisphere.cli.messages import progress
from verisphere.cli.parsing import SET, Outcome, Parser, Verbs, add_device, add_names, new_verb, options_as
from verisphere.cli.results import add_input, add_output


def gate_fit(options: argparse.Namespace) -> Outcome:
    """Choose what a gallery asks of photographs, on aligned faces of people who will not be enrolled."""
    from verisphere.ship.calibration_check import Accepted
    from verisphere.ship.gate import fit

    accepted = Accepted(options.accept_implausible, options.accept_training_people)
    gate = options_as(fit, options, accepted=accepted, progress=progress())
    gate.write_json(options.out)
    return gate


def gate_check(options: argparse.Namespace) -> Outcome:
    """Say which aligned faces may be enrolled, and why others are refused."""
    from verisphere.ship.gate import check

    return options_as(check, options, progress=progress())


def add_gate(verbs: Verbs) -> None:
    """Add `gate` and its verbs."""
    text = "Refuse photographs that would spoil a gallery."
    fits = (
        "verisphere gate fit others.zip --model model --out gate.json",
        "verisphere gate fit others.zip --model model --good 1e-2 --measure detail --measure length --out gate.json",
    )
    checks = (
        "verisphere gate check faces.zip --gate gate.json --model model",
        "verisphere gate check aligned --gate gate.json --model model --landmarks aligned/align.csv",
    )
    gate = verbs.add_parser("gate", help=text, description=text, examples=(fits[0], checks[0]))
    kinds = gate.add_subparsers(required=True, metavar="VERB", parser_class=Parser)
    fit, check = new_verb(kinds, "fit", gate_fit, examples=fits), new_verb(kinds, "check", gate_check, examples=checks)
    for verb in (fit, check):
        add_names(verb)
        add_input(verb, "faces", SET, metavar=None)
        verb.add_argument("--model", type=Path, required=True, help="run, checkpoint or model folder that embeds")
        verb.add_argument("--landmarks", type=Path, metavar="FILE", help="points in the photographs, for size and pose")
        add_device(verb)
    add_output(fit, "--out", required=True, metavar="GATE.json", help="file for the gate")
    fit.add_argument("--good", metavar="F", help="most good photographs that may be refused (2e-2)")
    what = "ask for this alone; repeat for several (detail, and size with --landmarks)"
    fit.add_argument("--measure", dest="measures", action="append", metavar="NAME", help=what)
    fit.add_argument("--accept-implausible", action="store_true", help="see verisphere calibrate")
    add_accept_training_people(fit)
    check.add_argument("--gate", type=Path, required=True, metavar="FILE", help="gate, from gate fit")
