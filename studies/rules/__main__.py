"""`python -m studies.rules [FILE]`: run a study of rules of cleaning, or continue it."""

import argparse
import sys
from pathlib import Path

from studies.command import run_study, study_parser
from studies.rules import __doc__ as question
from studies.rules.study import read_rules, run_rules
from verisphere.cli.messages import progress


def run(options: argparse.Namespace) -> str:
    """The tables of the study."""
    study = read_rules(options.file, options.seeds)
    return run_rules(study, options.out, replicates=options.replicates, progress=progress()).text()


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = study_parser("rules", question, "runs/cleaning_rules")
    file = Path(__file__).with_name("cleaning_rules.yaml")
    parser.add_argument("file", type=Path, nargs="?", default=file, help=f"YAML of the study ({file.name})")
    parser.add_argument("--seeds", type=int, nargs="+", help="seeds of the noise (those of the file)")
    parser.add_argument("--replicates", type=int, default=1000, help="of the bootstrap over people (1000)")
    options = parser.parse_args(arguments)
    options.file = options.file.absolute()
    return run_study(run, options)


if __name__ == "__main__":
    sys.exit(main())
