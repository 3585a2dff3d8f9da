"""Loss search: `search`."""

import argparse
from pathlib import Path

from verisphere.base.words import printable
from verisphere.cli.dry_run import add_dry_run, dry_run_options, is_dry_run
from verisphere.cli.messages import progress, show
from verisphere.cli.parsing import Outcome, Verbs, add_device, new_verb, refuse_misspelt


def search(options: argparse.Namespace) -> Outcome:
    """Choose numeric fields of a recipe while it trains, by a reward that is a figure of an evaluation."""
    from verisphere.base.distributed import world
    from verisphere.study.search.candidate import Computing
    from verisphere.study.search.definition import read_search
    from verisphere.study.search.dry_run import search_cost
    from verisphere.study.search.search import result_text, run_search
    from verisphere.train.recipe import Recipe

    refuse_misspelt(options, Recipe)
    if is_dry_run(options, ("out",)):
        if not world().first:
            return ""
        return search_cost(options.file, options.overrides, dry_run_options(options, world().size // options.groups))
    asked = read_search(options.file, options.overrides)
    result = run_search(asked, options.out, Computing(options.device, options.threads, progress(), options.groups))
    if not world().first:
        return ""
    show(result_text(asked, result))
    out = printable(str(options.out))
    return f"{out}: the run of the result, and search.json; next: verisphere embed {out} FACES --out EMBEDDINGS.npz"


def add_search(verbs: Verbs) -> None:
    """Add `search`."""
    verb = new_verb(
        verbs,
        "search",
        search,
        shared=True,
        any_field=True,
        examples=(
            "verisphere search searches/search_softmax --out runs/searched",
            "verisphere search searches/search_softmax --dry-run",
        ),
        less_memory="lower batch_size, raise accumulate, or set in_memory: false",
    )
    verb.add_argument(
        "file",
        type=Path,
        metavar="SEARCH",
        help="YAML: a recipe, the fields to search, method, schedule and reward; or a name that `verisphere recipes` "
        "lists; any field of the recipe can follow as --field value",
    )
    verb.add_argument("--out", type=Path, metavar="FOLDER", help="folder of the search; given again, it is continued")
    verb.add_argument(
        "--groups",
        type=int,
        default=1,
        metavar="N",
        help="groups of ranks that train candidates side by side; the ranks of a group train one together (1)",
    )
    add_dry_run(verb, "its rounds and candidates, and the steps, work and memory that they would take")
    add_device(verb)
