"""`python -m studies.protocols`: compare every figure of every protocol with that of an independent script."""

import argparse
import sys
from pathlib import Path

from studies.command import run_study, study_parser
from studies.protocols import __doc__ as question
from studies.protocols.protocols import run_protocols
from verisphere.cli.messages import fail, progress


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code: 1 where a figure differs."""
    parser = study_parser("protocols", question, "demo")
    parser.add_argument(
        "--model", type=Path, help="model that embeds the images (an untrained network of the demo's recipe)"
    )
    parser.add_argument("--device", help="device of the comparison (a GPU if there is one)")
    different = 0

    def run(options: argparse.Namespace) -> str:
        nonlocal different
        result = run_protocols(options.out, options.model, device=options.device, progress=progress())
        different = len(result.different)
        return result.text()

    code = run_study(run, parser.parse_args(arguments))
    return fail(1, f"{different} figures differ from those of the independent script") if different else code


if __name__ == "__main__":
    sys.exit(main())
