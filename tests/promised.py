"""The tests that docs/reliability.md names: what it promises and what `make faults` runs are one and the same."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"


def named_tests(text: str | None = None) -> set[str]:
    """Each as `file::test`; of the page, or of some text of it."""
    text = PAGE.read_text(encoding="utf-8") if text is None else text
    return set(re.findall(r"`(tests/[\w/]+\.py::\w+)`", text))
