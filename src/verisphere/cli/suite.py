"""All published sets of a folder in one run: `evaluate suite`."""

import argparse
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from verisphere.base.words import printable
from verisphere.cli.dry_run import add_cost, cost_of_images
from verisphere.cli.evaluation_options import add_far, add_feature_norm, add_rule
from verisphere.cli.images import add_embedding_options, embedding_options
from verisphere.cli.messages import progress
from verisphere.cli.parsing import Outcome, Verbs, add_names, new_verb, options_as
from verisphere.cli.results import add_json, show_result
from verisphere.cli.working import add_work

if TYPE_CHECKING:
    from verisphere.measure.suite.result import SuiteResult

log = logging.getLogger(__name__)


def evaluate_suite(options: argparse.Namespace) -> Outcome:
    """Every published set in a folder, each image embedded once, in one table with the mean over sets."""
    from verisphere.base.distributed import world

    if options.json is not None:
        _refuse_to_replace_what_is_read(options.json, options.folder, options.embeddings)
    result = _run(options)
    if not result.failed or not world().first:
        return result
    show_result(options, result)
    failed = [f"{name} ({result.sets[name].error})" for name in result.failed]
    raise ValueError(
        f"{options.folder}: {len(failed)} of {len(result.sets)} sets could not be evaluated: "
        f"{printable(', '.join(failed))}"
    )


def _up_to_first_pieces(options: argparse.Namespace) -> None:
    """Run in a dry run; sets that are not counted, since they cannot be evaluated at all, are named."""
    from verisphere.measure.cost import NotComputed
    from verisphere.measure.suite.result import COMBINED

    for name, found in _run(options).sets.items():
        if found.error is not None and NotComputed.text not in found.error and name != COMBINED:
            log.warning("%s is not counted: %s", printable(name), printable(found.error))


def _run(options: argparse.Namespace) -> "SuiteResult":
    from verisphere.measure.suite.run import run_suite
    from verisphere.measure.suite.task import SuiteOptions

    asked = options_as(SuiteOptions, options, fars=tuple(options.far or ()), progress=progress())
    return options_as(run_suite, options, model=options.model, options=asked, **embedding_options(options))


def _refuse_to_replace_what_is_read(out: Path, *folders: Path | None) -> None:
    """Refuse to replace a list, an image or embeddings; a JSON directly in a folder counts as an earlier result."""
    from verisphere.files.disk import real_path

    place = real_path(out)
    for folder in [real_path(path) for path in folders if path is not None]:
        earlier = place.parent == folder and place.suffix == ".json"
        if place.exists() and place.is_relative_to(folder) and not earlier:
            raise FileExistsError(f"{out}: a file of {folder.name}, which is read here; write to another name")


def add_suite(kinds: Verbs) -> None:
    """Add `evaluate suite`."""
    verb = new_verb(
        kinds,
        "suite",
        evaluate_suite,
        less_memory="lower --batch-size or --workers",
        examples=(
            "verisphere evaluate suite sets --model model --json suite.json",
            "verisphere evaluate suite sets --model model --embeddings embeddings --far 1e-3",
        ),
    )
    add_names(verb)
    verb.add_argument(
        "folder", type=Path, help="a sub-folder for each set as it is published, and .bin files (docs/protocols.md)"
    )
    verb.add_argument(
        "--model",
        type=Path,
        help="the model that embeds the images, as `embed` takes it; without it, --embeddings must have the files",
    )
    verb.add_argument(
        "--embeddings",
        type=Path,
        metavar="DIR",
        help="keep the embeddings files here, and use those of earlier runs by the same model (a temporary folder)",
    )
    add_far(verb, ("the published ones of each set",), "target FAR of every set")
    add_rule(verb)
    add_feature_norm(verb)
    add_json(verb)
    add_embedding_options(verb)
    add_work(verb)
    add_cost(verb, cost_of_images("folder", _up_to_first_pieces))
