"""Run every benchmark of this folder, each in a process of its own; rows go to results.csv.

`python benchmarks/run.py [NAME ...] [--threads N]`; without names, all of them.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
NAMES = (
    "synthetic",
    "decide",
    "augment",
    "train_step",
    "head",
    "scaling",
    "all_pairs",
    "template_pairs",
    "distractors",
    "ijb",
    "pair_terms",
    "cleaning",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*NAMES, []], help=", ".join(NAMES))
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    environment = {**os.environ, "OMP_NUM_THREADS": str(options.threads)}
    for name in options.names or NAMES:
        subprocess.run([sys.executable, FOLDER / f"{name}.py"], check=True, env=environment)


if __name__ == "__main__":
    sys.exit(main())
