"""Parts of a recipe, files and counts in the words of a card."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from verisphere.base.words import NAMES_TAKEN
from verisphere.files.calibration import Source
from verisphere.report.markdown import plain

DIGITS = 12  # of a digest in a text for people
_LONGEST_LIST = 16  # written out; the operators of a network are many
Section: TypeAlias = Iterator[str]
Sources: TypeAlias = Mapping[str, str]


def readable(text: str) -> str:
    """The text as Markdown, with `score > threshold` readable in the source of the document as well."""
    return plain(text).replace("&gt;", ">")


def file_in_words(source: Source) -> str:
    """The file of a calibration in a few words."""
    people = "" if source.people is None else f" of {source.people:,} people{NAMES_TAKEN[source.names_rule]}"
    unit = "comparisons" if source.people is None else "images"
    return f"{plain(source.file)} ({source.rows:,} {unit}{people}, SHA-256 {plain(source.sha256[:DIGITS])})"


def class_in_words(description: Mapping[str, Any]) -> str:
    """A class with its arguments, from a recipe."""
    arguments = settings_in_words(description.get("init_args") or {})
    return plain(f"{str(description['class_path']).rpartition('.')[2]}({arguments})")


def settings_in_words(values: Mapping[str, Any]) -> str:
    """Names and values; an absolute path is cut to its last part, since a card is read by more people than a recipe."""
    return ", ".join(f"{name}={_value_in_words(value)}" for name, value in values.items())


def _value_in_words(value: Any) -> Any:
    if isinstance(value, list) and len(value) > _LONGEST_LIST:
        return f"({len(value):,} entries)"
    return Path(value).name if isinstance(value, str) and Path(value).is_absolute() else value


def count_in_words(count: int | None, what: str) -> str:
    """A number of things, or that it is unknown."""
    return f"an unknown number of {what}" if count is None else f"{count:,} {what}"
