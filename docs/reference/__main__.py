"""`PYTHONPATH=docs python -m reference`: write docs/reference, and all else that is made from the sources.

The tables of what the rooms hold are written first: what follows shows what these import.
"""

from functools import partial
from pathlib import Path

from reference.tables import tables
from verisphere.files.disk import write_whole


def main() -> None:
    _write_all(tables())
    from reference.pages import written

    _write_all(written())


def _write_all(texts: dict[Path, str]) -> None:
    for path, text in texts.items():
        write_whole(path, partial(_write, text))
        print(path)


def _write(text: str, path) -> None:  # type: ignore[no-untyped-def]
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
