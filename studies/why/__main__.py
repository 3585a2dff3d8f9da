"""`python -m studies.why`: plant the faults, ask, and count what is named first; then the healthy cases."""

import argparse
import logging
import re
import sys
import time
from pathlib import Path

from studies.command import run_study, study_parser
from studies.why import __doc__ as question
from studies.why.cases import Room, healthy, planted
from verisphere.files.disk import write_text
from verisphere.files.tables import csv_text

log = logging.getLogger("verisphere.why")


def run(options: argparse.Namespace) -> str:
    """A row for each case, kept in `results.csv`, and how many are right."""
    room, rows = Room(Path(), options.out), []
    for kind, cases in (("planted", planted), ("healthy", healthy)):
        for case in cases(room) if options.kind in (None, kind) else ():
            if options.only and not re.search(options.only, case.name):
                continue
            began = time.process_time()
            answer = case.ask()
            cause = answer.cause
            right = cause is None if not case.named else cause is not None and case.named in cause.name
            seconds = f"{time.process_time() - began:.1f}"
            evidence = "; ".join(f"{tried.check}: {tried.figures}" for tried in answer.tried)
            found = ("", evidence) if cause is None else (cause.name, cause.evidence)
            rows.append([kind, case.name, *found, "yes" if right else "no", seconds])
            log.info("%s %s: %s %s, %s s of a core", kind, case.name, "right" if right else "WRONG", found, seconds)
            header = ("kind", "case", "named", "evidence", "right", "core_seconds")
            write_text(options.out / "results.csv", csv_text(header, rows))
    told = []
    for kind in ("planted", "healthy"):
        of_kind = [row for row in rows if row[0] == kind]
        told.append(f"{kind}: {sum(row[4] == 'yes' for row in of_kind)} of {len(of_kind)} right")
    return "; ".join(told) + f"; at most {max(float(row[5]) for row in rows):.0f} s of a core a case"


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = study_parser("why", question, "why")
    parser.add_argument("--kind", choices=("planted", "healthy"), help="only these cases")
    parser.add_argument("--only", metavar="PATTERN", help="only the cases whose name has this regular expression")
    return run_study(run, parser.parse_args(arguments))


if __name__ == "__main__":
    sys.exit(main())
