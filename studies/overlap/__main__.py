"""`python -m studies.overlap TRAIN TEST`: hide known overlaps, and measure what is found again."""

import argparse
import sys
from pathlib import Path

from studies.command import run_study, study_parser
from studies.overlap import __doc__ as question
from studies.overlap.estimate import estimate_overlap
from verisphere.base.identity import names_taken
from verisphere.cli.messages import progress
from verisphere.files.disk import write_whole
from verisphere.files.results import json_text
from verisphere.study.clean.same_person.overlap import open_people


def run(options: argparse.Namespace) -> str:
    """The estimate as text; `--out` receives it as JSON."""
    with names_taken("exact"):  # each spelling of a name is matched by itself
        train, test = (open_people(path, False) for path in (options.train, options.test))
        estimate = estimate_overlap(train, test, {}, options.embeddings, options.cosine, options.seed, progress())
    write_whole(options.out, lambda partial: partial.write_text(json_text(estimate.summary()), encoding="utf-8"))
    return estimate.text()


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = study_parser("overlap", question, "overlap_estimate.json")
    parser.add_argument("train", type=Path, help="training set, as `verisphere clean overlap` takes it")
    parser.add_argument("test", type=Path, help="test set")
    parser.add_argument("--embeddings", type=Path, nargs=2, metavar=("TRAIN", "TEST"), help="embeddings of both sets")
    parser.add_argument("--cosine", type=float, default=0.5, help="threshold of embeddings (0.5)")
    parser.add_argument("--seed", type=int, default=0, help="another seed hides others (0)")
    return run_study(run, parser.parse_args(arguments))


if __name__ == "__main__":
    sys.exit(main())
