"""Refusals of people and images that the model was trained on, since they promise nothing about new people."""

from collections.abc import Sequence
from pathlib import Path

from verisphere.base.vocabulary import Embeddings
from verisphere.files.calibration import Source, read_calibration
from verisphere.files.json_values import shown

_OVERRIDE = "or say --accept-training-people (accept_training_people=True)"


def refuse_training_people(embeddings: Embeddings, name: str | Path) -> None:
    """Refuse a set with people or images that its model was trained on, as far as the set states it."""
    known, shared = embeddings.in_training, embeddings.shared_with_training
    if known is None or not shared:
        return
    row = (known.people if shared.people else known.images).argmax()
    first = shown(str((embeddings.identities if shared.people else embeddings.names)[row]), 200)
    raise ValueError(
        f"{name}: {shared.found()}, such as {first}; what is found on them promises nothing about new people: embed "
        f"people who are not in the training, {_OVERRIDE}"
    )


def check_training_people(file: Path) -> None:
    """Refuse a file of thresholds that were found or checked on people or images that the model was trained on."""
    calibration = read_calibration(file)
    refuse_trained_sources(file, (calibration.source, *(check.source for check in calibration.checks)))


def refuse_trained_sources(file: Path, sources: Sequence[Source]) -> None:
    """Refuse a file of thresholds from sets with people or images that the model was trained on."""
    for source in sources:
        if source.in_training:
            raise ValueError(
                f"{file}: {source.in_training.found()} of {source.file}, so it promises nothing about new people; "
                f"calibrate on people who are not in the training, {_OVERRIDE}"
            )
