"""What the commands of the studies share: the folders of the data and of the results, and a fault as one line."""

import argparse
import os
from collections.abc import Callable
from pathlib import Path

from verisphere.cli.messages import fail, message_of, show
from verisphere.report.progress import log_to_terminal


def study_parser(name: str, description: str | None, out: str) -> argparse.ArgumentParser:
    """The parser of the study in the folder `name`, with `--out` (and its default) and `--data`."""
    made = argparse.ArgumentParser(f"python -m studies.{name}", description=description)
    made.add_argument("--out", type=Path, default=Path(out), metavar="FOLDER", help=f"folder of the results ({out})")
    made.add_argument(
        "--data", type=Path, default=Path(), metavar="FOLDER", help="folder that paths of data are relative to (here)"
    )
    return made


def run_study(study: Callable[[argparse.Namespace], str], options: argparse.Namespace) -> int:
    """Run a study in the folder of its data, print its result, and return the exit code."""
    log_to_terminal()
    options.out = options.out.absolute()
    here = Path.cwd()
    try:
        os.chdir(options.data)
        show(study(options))
    except (ValueError, OSError) as error:
        return fail(2, message_of(error))
    finally:
        os.chdir(here)
    return 0
