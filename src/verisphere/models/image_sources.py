"""The images on which a checkpoint was trained, as the checkpoint records them."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from verisphere.base.vocabulary import ImageSource
from verisphere.files.documents import read_yaml_file
from verisphere.files.images_json import described_source
from verisphere.files.json_values import from_json, shown
from verisphere.models.checkpoint import Checkpoint

_KEY = "sources"  # in the checkpoint's state


def record_sources(sources: Sequence[ImageSource]) -> dict[str, Any]:
    """The entry of a checkpoint's state that `recorded_sources` reads; the images of its own run stand at the end."""
    return {_KEY: [asdict(source) for source in sources]}


def recorded_sources(checkpoint: Checkpoint) -> tuple[ImageSource, ...]:
    """The images that a checkpoint's network was trained on, in that order; empty if nothing records them."""
    recipe = checkpoint.path.parent.parent / "recipe.yaml"
    if _KEY not in checkpoint.state and recipe.is_file():
        content = read_yaml_file(recipe)
        data = content.get("data") if isinstance(content, dict) else None
        return (described_source(data),) if isinstance(data, dict) else ()
    entries = checkpoint.state.get(_KEY, [])
    if not isinstance(entries, list):
        raise ValueError(f"{checkpoint.path / 'state.json'}: {_KEY} is {shown(entries)}, not a list")
    try:
        return tuple(from_json(ImageSource, source, f"{_KEY}[{place}]") for place, source in enumerate(entries))
    except ValueError as error:
        raise ValueError(f"{checkpoint.path / 'state.json'}: {error}") from None
