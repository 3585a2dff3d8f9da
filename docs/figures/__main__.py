"""`PYTHONPATH=docs python -m figures OUT [--only NAME]`: draw the pictures of docs/losses.md as PNG and SVG."""

import argparse
import sys
from pathlib import Path

from figures.losses import draw_figures
from verisphere.report.progress import shown


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m figures", description=__doc__)
    parser.add_argument("out", type=Path, metavar="OUT", help="folder for the pictures")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="one picture; repeat for several")
    options = parser.parse_args()
    try:
        print(draw_figures(options.out, options.only, shown).text())
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
