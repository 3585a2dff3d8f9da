"""`PYTHONPATH=docs python -m tutorials [PAGE ...]`: run the pages and renew what their blocks print, in place."""

import os
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from tutorials.run import SETTINGS, run
from verisphere.files.disk import write_whole

PAGES = sorted(Path(__file__).parent.glob("*.md"))


def main() -> None:
    os.environ.update(SETTINGS)
    wanted = sys.argv[1:] or [page.stem for page in PAGES]
    unknown = set(wanted) - {page.stem for page in PAGES}
    if unknown:
        sys.exit(f"there is no tutorial {min(unknown)}; there are {', '.join(page.stem for page in PAGES)}")
    for page in (page for page in PAGES if page.stem in wanted):
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            text = run(page, Path(folder), renew=True)
        write_whole(page, partial(_write, text))
        print(f"{page}: {time.monotonic() - started:.0f} s")


def _write(text: str, path: Path) -> None:
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
