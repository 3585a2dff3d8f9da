"""`python -m studies.q_margin EXPERIMENT`: the TAR of its arms over pairs, and over people."""

import argparse
import sys
from pathlib import Path

import numpy as np

from studies.command import run_study, study_parser
from studies.q_margin import __doc__ as question
from studies.q_margin.people import tars
from verisphere.files.disk import write_text
from verisphere.files.tables import csv_for_people
from verisphere.report.tables import table

FARS = ("1e-2", "1e-3", "1e-4")
COLUMNS = ("arm", "seed", "far_target", "tar", "tar_over_people")


def run(options: argparse.Namespace) -> str:
    """A table of means and standard deviations over seeds; `--out` receives the figures of each run."""
    rows, lines = [], []
    for arm in sorted((options.experiment / "runs").iterdir()):
        name, found = arm.name.split("~")[0].replace("_", " "), []
        for folder in sorted(arm.iterdir()):
            for path in folder.glob("*.npz"):
                found.append(tars(path, FARS))
                rows += [(name, folder.name, far, *pair) for far, pair in zip(FARS, found[-1], strict=True)]
        figures = np.array(found).reshape(-1, 2 * len(FARS))
        spread = figures.std(0, ddof=1) if len(figures) > 1 else np.zeros(2 * len(FARS))
        lines.append([name, *(f"{mean:.4f} ({std:.4f})" for mean, std in zip(figures.mean(0), spread, strict=True))])
    write_text(options.out, csv_for_people(COLUMNS, rows))
    return table(["arm", *(f"{way} at {far}" for far in FARS for way in ("pairs", "people"))], lines)


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = study_parser("q_margin", question, "people.csv")
    parser.add_argument("experiment", type=Path, help="folder of an experiment that measured one set")
    return run_study(run, parser.parse_args(arguments))


if __name__ == "__main__":
    sys.exit(main())
