"""`cluster`: the faces of a library grouped into people; `purity`: the threshold at which its clusters are pure."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from verisphere.base.words import printable
from verisphere.cli.calibrating import add_accept_training_people, add_accept_unrecorded
from verisphere.cli.dry_run import add_cost, cost_of_images, cost_of_rows
from verisphere.cli.messages import progress
from verisphere.cli.parsing import SET, Outcome, Verbs, add_names, add_trust_code, new_verb, options_as
from verisphere.cli.results import add_input, add_output
from verisphere.cli.working import add_work

if TYPE_CHECKING:
    from verisphere.ship.clusters.clusters import ClusterOptions


def cluster(options: argparse.Namespace) -> Outcome:
    """Group the faces of an embeddings file into people; what a person has confirmed stays."""
    from verisphere.files.clusters import CLUSTERS, PEOPLE
    from verisphere.models.described_faces import open_faces
    from verisphere.ship.clusters.clusters import cluster_folder
    from verisphere.ship.clusters.page import PAGE

    images = None if options.faces is None else open_faces(options.faces, trust=options.trust_code)
    made = cluster_folder(options.embeddings, options.out, _cluster_options(options), progress(), images)
    name, page = printable(str(options.out)), "" if images is None else f", {PAGE}"
    return (
        f"{made.text()}\n{name}: {PEOPLE}, {CLUSTERS}{page}; next: in {PEOPLE} write a name into person and yes into "
        f"confirmed, and give the same command --before {name} and another --out"
    )


def _cluster_options(options: argparse.Namespace) -> "ClusterOptions":
    from verisphere.ship.clusters.clusters import ClusterOptions

    return options_as(ClusterOptions, options)


def add_cluster(verbs: Verbs) -> None:
    """Add `cluster`."""
    verb = new_verb(
        verbs,
        "cluster",
        cluster,
        examples=(
            "verisphere cluster library.npz --threshold 0.45 --out people",
            "verisphere cluster library.npz --purity purity.json --photographs on.csv --before people --out later",
        ),
        less_memory="raise --threshold",
    )
    add_names(verb)
    add_input(verb, "embeddings", "embeddings file of all faces, the old and the new ones", metavar="EMBEDDINGS")
    add_output(verb, "--out", folder=True, required=True, metavar="FOLDER", help="folder to make, or to continue")
    what = "average score from which faces are grouped; higher ones give purer and smaller clusters"
    which = verb.add_mutually_exclusive_group(required=True)
    which.add_argument("--threshold", type=float, metavar="T", help=what)
    what = "threshold and margin with a promise, from purity"
    which.add_argument("--purity", type=Path, metavar="FILE", help=what)
    what = "a face is unsure if it scores higher with another cluster than with its own less M (0)"
    verb.add_argument("--margin", type=float, metavar="M", help=what)
    add_input(verb, "--photographs", "CSV with name and photograph: two faces on one photograph are two people")
    add_input(verb, "--together", "CSV with name and other: two faces that show one person")
    add_input(verb, "--apart", "CSV with name and other: two faces that show two people")
    what = "an earlier --out, whose people.csv may have been edited: confirmed faces stay where they are"
    add_input(verb, "--before", what, metavar="FOLDER")
    verb.add_argument("--known", action="store_true", help="also compare with the identities of EMBEDDINGS")
    add_input(verb, "--faces", f"also make a page with pictures of this: {SET}", metavar="SET")
    add_trust_code(verb)
    add_work(verb)
    add_cost(verb, cost_of_rows("cluster", check=_cluster_options))


def purity(options: argparse.Namespace) -> Outcome:
    """Find the threshold of clusters at which few faces lie among another person's, with a promise."""
    from verisphere.base.distributed import world
    from verisphere.ship.calibration_check import Accepted
    from verisphere.ship.clusters.purity import calibrate_purity

    accepted = Accepted(options.accept_implausible, options.accept_training_people, options.accept_unrecorded_pixels)
    found = options_as(calibrate_purity, options, path=options.known, accepted=accepted, progress=progress())
    if not world().first:
        return ""
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
    add_accept_unrecorded(verb, "take files")
    add_work(verb)
    add_cost(verb, cost_of_images("known", purity, held=False, uncounted="the steps after the first"))
