"""`python -m studies.inversions [FILE]`: run a table of inversions, or continue it."""

import argparse
import sys
from pathlib import Path

from studies.command import run_study, study_parser
from studies.inversions import __doc__ as question
from studies.inversions.table import plan_text, read_table, run_table
from verisphere.base.device import choose_device
from verisphere.cli.messages import progress


def run(options: argparse.Namespace) -> str:
    """The table, or with `--dry-run` what it takes."""
    cells = read_table(options.file, options.only, options.trust_code)
    device = choose_device(options.device)
    if options.dry_run:
        return plan_text(cells, device, progress())
    return run_table(cells, options.out, device, save_every=options.save_every, progress=progress())


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = study_parser("inversions", question, "runs/inverted")
    file = Path(__file__).with_name("lfw_table.yaml")
    parser.add_argument("file", type=Path, nargs="?", default=file, help=f"YAML of the table ({file.name})")
    parser.add_argument("--only", action="append", default=[], metavar="ENTRY", help="cells with this entry; repeat")
    parser.add_argument("--save-every", type=int, default=50, metavar="STEPS", help="steps between two states (50)")
    parser.add_argument("--dry-run", action="store_true", help="report memory and work of each cell, and make nothing")
    parser.add_argument("--trust-code", action="store_true", help="also build classes from outside verisphere")
    parser.add_argument("--device", help="device of the networks (a GPU if there is one)")
    options = parser.parse_args(arguments)
    options.file = options.file.absolute()
    return run_study(run, options)


if __name__ == "__main__":
    sys.exit(main())
