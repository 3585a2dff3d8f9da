"""`bridge`: from the embeddings of an old model to those of a new one, without the photographs of a gallery."""

import argparse

from verisphere.cli.calibrating import add_accept_training_people, add_accept_unrecorded
from verisphere.cli.parsing import Outcome, Verbs, add_names, new_verb
from verisphere.cli.results import add_input, add_output


def bridge(options: argparse.Namespace) -> Outcome:
    """Fit a map from an old model's embeddings to a new one's, with a promise, on photographs that both embedded."""
    from verisphere.ship.bridge import make_bridge
    from verisphere.ship.calibration_check import Accepted

    accepted = Accepted(options.accept_implausible, options.accept_training_people, options.accept_unrecorded_pixels)
    made = make_bridge(options.old, options.new, options.far, options.guarantee, options.seed, accepted)
    made.write_json(options.out)
    return made


def add_bridge(verbs: Verbs) -> None:
    """Add `bridge`."""
    call = "verisphere bridge old.npz new.npz --far 1e-2"
    examples = (f"{call} --out bridge.json", f"{call} --guarantee expected --out bridge.json")
    verb = new_verb(verbs, "bridge", bridge, examples=examples)
    add_names(verb)
    add_input(verb, "old", "embeddings by the old model, of people who need not be enrolled", metavar=None)
    add_input(verb, "new", "embeddings of the same photographs by the new model, under the same names", metavar=None)
    add_output(verb, "--out", required=True, metavar="BRIDGE.json", help="file for the bridge")
    verb.add_argument("--far", required=True, metavar="F", help="target FAR of new photographs against carried rows")
    what = "confident: FAR is at most F with 95 %% confidence; expected: on average over bridges (confident)"
    verb.add_argument("--guarantee", choices=("confident", "expected"), default="confident", help=what)
    verb.add_argument("--seed", type=int, default=0, help="of the split of people into those of map and promise (0)")
    verb.add_argument("--accept-implausible", action="store_true", help="accept signs that labels belong to other rows")
    add_accept_training_people(verb)
    add_accept_unrecorded(verb, "take files")
