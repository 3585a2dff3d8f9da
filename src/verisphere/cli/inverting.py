"""Inversion: `invert`, and the test `leak` that is made of it."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from verisphere.base.words import printable
from verisphere.cli.evaluation_options import add_far
from verisphere.cli.messages import progress, show
from verisphere.cli.parsing import (
    SET,
    Verbs,
    add_device,
    add_names,
    add_trust_code,
    new_verb,
    options_as,
    refuse_misspelt,
)
from verisphere.cli.results import add_input, add_output

T = TypeVar("T")
_SMALL = "inversions/small"
_JUDGE = "a second, independently trained model, which compares; an ONNX file made elsewhere after `verisphere adopt`"


def invert(options: argparse.Namespace) -> str:
    """Make faces that a model takes for given people, to see what the model and its centers reveal of them."""
    from verisphere.base.device import choose_device
    from verisphere.study.invert.run import InversionSettings, prepare, run_inversion

    asked = _asked(InversionSettings, options)
    if options.out is None and not options.dry_run:
        raise ValueError("--out is missing: the folder to make (or --dry-run, which makes none)")
    device = choose_device(options.device)
    prepared = prepare(asked, device, progress())
    if options.dry_run:
        return prepared.plan.text()
    show(prepared.plan.text())
    findings = run_inversion(asked, prepared, options.out, device, save_every=options.save_every, progress=progress())
    out = printable(str(options.out))
    return f"{findings.text()}\n{out}: index.html, grid.png, images (marked as generated), inversion.json"


def _asked(kind: Callable[..., T], options: argparse.Namespace) -> T:
    """The settings of an inversion or of a test, with the numbers of the recipe and of the command line."""
    from verisphere.study.invert.inversion import Inversion, read_settings

    refuse_misspelt(options, Inversion)
    settings = read_settings(Path(options.recipe), options.overrides)
    fars = tuple(options.far or ("1e-1", "1e-2"))
    return options_as(kind, options, settings=settings, fars=fars, trust=options.trust_code)


def add_invert(verbs: Verbs) -> None:
    """Add `invert`."""
    verb = new_verb(
        verbs,
        "invert",
        invert,
        examples=(
            "verisphere invert runs/first --centers --faces faces.zip --judge other --out inverted",
            "verisphere invert model --embeddings faces.npz --judge other --out inverted",
        ),
        any_field=True,
        less_memory="lower --batch_size",
    )
    add_names(verb)
    add_input(verb, "model", "run, checkpoint, or model folder whose network can be differentiated", metavar="MODEL")
    add_output(verb, "--out", folder=True, metavar="FOLDER", help="folder to make; given again, it is continued")
    verb.add_argument(
        "--centers", action="store_true", help="toward class centers (closed set); --faces then only compares"
    )
    add_input(verb, "--faces", f"toward embeddings of these photographs (open set): {SET}", metavar="SET")
    add_input(verb, "--embeddings", "toward the rows of an embeddings file that MODEL made")
    verb.add_argument(
        "--directions",
        action="store_true",
        help="toward directions drawn at random, as with the network alone; --faces then only compares",
    )
    add_far(verb, ("1e-1", "1e-2"), "target FAR of the comparison")
    add_input(verb, "--people", "only the people of this list, of --faces", metavar="LIST")
    add_input(verb, "--judge", _JUDGE, metavar="MODEL")
    add_input(verb, "--pairs", "generate the images of these pairs, and report their accuracy", metavar="LIST")
    _add_numbers(verb)
    verb.add_argument(
        "--save-every", type=int, default=50, metavar="STEPS", help="steps between two states that are kept (50)"
    )
    verb.add_argument(
        "--dry-run", action="store_true", help="report the memory and the work that it takes, and make nothing"
    )
    add_trust_code(verb)
    add_device(verb)


def _add_numbers(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--count", type=int, default=16, metavar="N", help="images to make (16)")
    verb.add_argument(
        "--recipe",
        default=_SMALL,
        metavar="YAML",
        help=f"the numbers of an inversion in a file, or a packaged one: {_SMALL}, inversions/paper ({_SMALL}); each "
        "can follow, such as --steps 600 --batch_size 8 --flip true",
    )


def leak(options: argparse.Namespace) -> str:
    """Test what a model reveals: faces recovered from it, its head or embeddings, matched by a second model."""
    from verisphere.base.device import choose_device
    from verisphere.models.model_json import LEAK
    from verisphere.study.invert.leak import LeakAsked, leak_text, run_leak

    figures = run_leak(_asked(LeakAsked, options), options.out, choose_device(options.device), progress())
    file = printable(str(options.out / LEAK))
    return f"{leak_text(figures)}\n{file}: for the model card, verisphere export RUN --leak {file} ..."


def add_leak(verbs: Verbs) -> None:
    """Add `leak`."""
    verb = new_verb(
        verbs,
        "leak",
        leak,
        examples=(
            "verisphere leak model --judge other --faces others.zip --out leak",
            "verisphere leak model --judge other --faces others.zip --head runs/first --trained faces.zip --out leak",
        ),
        any_field=True,
        less_memory="lower --batch_size",
    )
    add_names(verb)
    add_input(verb, "model", "model folder or run whose network can be differentiated", metavar="FOLDER")
    what = "folder of the test; given again, it is continued"
    add_output(verb, "--out", folder=True, required=True, metavar="OUT", help=what)
    verb.add_argument("--judge", type=Path, required=True, metavar="MODEL", help=_JUDGE)
    verb.add_argument(
        "--faces", type=Path, required=True, metavar="SET", help=f"photographs, two or more of a person: {SET}"
    )
    add_input(verb, "--people", "only the people of this list, of --faces", metavar="LIST")
    add_input(verb, "--head", "also attack the class centers of this run; with --trained", metavar="RUN")
    add_input(verb, "--trained", f"photographs of the people whom the run was trained on: {SET}", metavar="SET")
    add_far(verb, ("1e-1", "1e-2"), "target FAR")
    _add_numbers(verb)
    add_trust_code(verb)
    add_device(verb)
