"""`PYTHONPATH=docs python -m reference`: write docs/reference, and the fields that `verisphere train --help` lists."""

from functools import partial

from reference.pages import written
from verisphere.files.disk import write_whole


def main() -> None:
    for path, text in written().items():
        write_whole(path, partial(_write, text))
        print(path)


def _write(text: str, path) -> None:  # type: ignore[no-untyped-def]
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
