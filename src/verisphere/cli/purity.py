"""`purity`: the threshold of clusters at which the next library is pure, with a promise."""

import argparse

from verisphere.cli.calibrating import add_accept_training_people
from verisphere.cli.messages import progress
from verisphere.cli.parsing import Outcome, Verbs, add_names, new_verb, options_as
from verisphere.cli.results import add_input, add_output


def purity(options: argparse.Namespace) -> Outcome:
    """Find the threshold of clusters at which few faces lie among another person's, with a promise."""
    from verisphere.ship.calibration_check import Accepted
    from verisphere.ship.clusters.purity import calibrate_purity

    accepted = Accepted(options.accept_implausible, options.accept_training_people)
    found = options_as(calibrate_purity, options, path=options.known, accepted=accepted, progress=progress())
    found.write_json(options.out)
    return found


def add_purity(verbs: Verbs) -> None:
    """Add `purity`."""
    verb = new_verb(
        verbs,
        "purity",
        purity,
        examples=(
            "verisphere purity known.npz --faces 500 --out purity.json",
            "verisphere purity known.npz --faces 200 --impurity 2e-2 --guarantee confident --out purity.json",
        ),
    )
    add_names(verb)
    add_input(verb, "known", "embeddings of known people, who are drawn like those of the library", metavar=None)
    add_output(verb, "--out", required=True, metavar="PURITY.json", help="file for the threshold and the promise")
    what = "faces of the library that will be clustered; 19 times as many or more are needed, 59 times for confident"
    verb.add_argument("--faces", type=int, required=True, metavar="M", help=what)
    what = "highest share of faces in a cluster of mostly another person (1e-2)"
    verb.add_argument("--impurity", metavar="P", help=what)
    what = "expected: 95 %% of calibrations with their next library keep P; confident: 95 %% of libraries do, with "
    verb.add_argument("--guarantee", choices=("expected", "confident"), help=f"{what}95 %% confidence (expected)")
    what = "how much nearer to its own cluster than to another a face must be, or it is unsure (0)"
    verb.add_argument("--margin", type=float, metavar="D", help=what)
    verb.add_argument("--seed", type=int, help="of the division into libraries (0)")
    verb.add_argument("--accept-implausible", action="store_true", help="accept signs that labels belong to other rows")
    add_accept_training_people(verb)
