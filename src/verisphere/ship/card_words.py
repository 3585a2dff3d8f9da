"""The words of a model card for parts of its files: a data set, a class with its arguments, a count."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from verisphere.base.vocabulary import ImageSource
from verisphere.base.words import NAMES_TAKEN
from verisphere.decide import GuaranteedThreshold
from verisphere.files.calibration import Calibration, Source
from verisphere.report.markdown import plain

DIGITS = 12  # of a digest in a text for people
_LONGEST_LIST = 16  # written out; the operators of a network are many


def readable(text: str) -> str:
    """The text as Markdown, with `score > threshold` readable in the source of the document as well."""
    return plain(text).replace("&gt;", ">")


def images_in_words(source: Mapping[str, Any]) -> str:
    """An entry of the training sources of a model."""
    return plain(ImageSource(**source).described())


def calibrated_on_drawn(thresholds: Sequence[GuaranteedThreshold]) -> bool:
    """Whether a threshold was found on drawn faces."""
    return any(found.calibrated_on is not None and found.calibrated_on.drawn for found in thresholds)


def images_of_calibration(calibrated: Calibration) -> str:
    """The source of the images of a calibration."""
    if calibrated.origin is None:
        return "where its images come from is not recorded"
    return plain(calibrated.origin.source.described())


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
