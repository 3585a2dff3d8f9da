"""`monitor`: whether a promise still holds in use."""

import argparse
from contextlib import nullcontext
from pathlib import Path

from verisphere.cli.evaluation_options import refuse_unread
from verisphere.cli.messages import progress
from verisphere.cli.parsing import Outcome, Verbs, add_names, new_verb, options_as
from verisphere.cli.results import add_json, add_output, show_result


def monitor(options: argparse.Namespace) -> Outcome:
    """Watch whether a promised FAR or FPIR still holds in use; exit code 3 where it does not."""
    from verisphere.files.gallery_calibration import read_thresholds
    from verisphere.files.lock import alone_at
    from verisphere.ship.monitor import Monitor

    if options.reference is None:
        refuse_unread(options, ("genuine",), "it is for the scores of any people that --reference watches")
    watch = options_as(Monitor, options, calibration=read_thresholds(options.calibration))
    with nullcontext() if options.state is None else alone_at(options.state):
        result = watch.follow(options.scores, options.state, progress())
    if not result.since:
        return result
    show_result(options, result)
    raise SystemExit(3)


def add_monitor(verbs: Verbs) -> None:
    """Add `monitor`."""
    verb = new_verb(
        verbs,
        "monitor",
        monitor,
        examples=(
            "verisphere monitor strangers.csv --calibration thresholds.json --state watch.npz",
            "verisphere monitor scores.csv --calibration thresholds.json --reference others.npz",
        ),
    )
    verb.add_argument(
        "scores",
        type=Path,
        metavar="SCORES",
        help="CSV in the order of time: score,person,other_person of comparisons of different people, or for a gallery "
        "score,person of strangers; perhaps with time, which an alarm names; - for standard input",
    )
    verb.add_argument("--calibration", type=Path, required=True, metavar="FILE", help="thresholds, from calibrate")
    verb.add_argument("--far", "--fpir", dest="rate", metavar="F", help="rate of the promise, if there are several")
    about = "the file calibrated on: watch whether scores of any people (score) are still like those in it"
    verb.add_argument("--reference", type=Path, metavar="FILE", help=about)
    verb.add_argument("--genuine", type=float, metavar="SHARE", help="most genuine pairs among these scores (0.5)")
    add_names(verb, "as the calibration took them, else one person")
    verb.add_argument("--domains", action="store_true", help="also watch each domain (domain) by itself")
    add_output(verb, "--state", metavar="FILE", help="continue from this file, and keep in it what was seen")
    add_json(verb)
