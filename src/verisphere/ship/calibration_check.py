"""A calibrated or checked file: whether its comparisons can be used, and their rates."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from verisphere.base.provenance import check_recorded
from verisphere.base.vocabulary import Embeddings, OperatingPoint, Redrawing
from verisphere.decide import GuaranteedThreshold, Interval, lacking_text, point_at
from verisphere.decide.both_errors import Unsure, just_below
from verisphere.decide.probability import ScoreProbability
from verisphere.files.calibration import Check, Source
from verisphere.files.errors import errors_naming
from verisphere.files.json_values import shown
from verisphere.measure.protocols.redrawn import ALL, fars_over_people, tars_over_people
from verisphere.ship.calibrated_files import CalibratedFile, EmbeddingsSet

log = logging.getLogger(__name__)

_OVERRIDE = "or say --accept-training-people (accept_training_people=True)"


@dataclass(frozen=True)
class Accepted:
    """What a calibration accepts; see `verisphere.ship.calibrate.calibrate`."""

    implausible: bool = False
    training_people: bool = False
    unrecorded_pixels: bool = False


NOTHING = Accepted()


def refuse_empty(file: CalibratedFile, calibrating: bool, skip_empty: bool) -> dict[str, tuple[str, ...]]:
    """The kinds of comparison that each domain, and the whole set, lacks; checked before any work."""
    empty = {name: kinds for name, kinds in file.lacking().items() if kinds}
    whole = empty.get(ALL, ())
    if calibrating and "impostor" in whole:
        alone = "" if file.people is None else "; all its rows are of one person"
        raise ValueError(f"{file.name}: it has no impostor comparison, so it can set no threshold{alone}")
    if calibrating and whole:
        return empty  # genuine comparisons are for its check alone
    if empty and not skip_empty:
        parts = [f"it has no {' and no '.join(whole)} comparison"] if whole else []
        domains = {name: kinds for name, kinds in empty.items() if name != ALL}
        parts += [lacking_text(domains)] if domains else []
        raise ValueError(
            f"{file.name}: {', '.join(parts)}, so no rate can be checked; skip such ones by --skip-empty "
            "(skip_empty=True)"
        )
    return empty


def refuse_implausible(name: str | Path, reasons: Sequence[str], accepted: bool) -> list[str]:
    """The reasons why the scores of a file cannot be right, with its name; refused unless accepted."""
    if reasons and not accepted:
        raise ValueError(
            f"{name}: implausible: {'; '.join(reasons)}; if the file is right, say --accept-implausible "
            "(accept_implausible=True)"
        )
    return [f"{Path(name).name}: {reason}" for reason in reasons]


def check_of(
    file: CalibratedFile,
    empty: dict[str, tuple[str, ...]],
    thresholds: Sequence[GuaranteedThreshold],
    own: CalibratedFile,
    redrawing: Redrawing,
    probability: ScoreProbability | None,
) -> Check:
    """The rates of the thresholds on a file, without the domains that lack comparisons."""
    points: dict[str, tuple[OperatingPoint, ...]] = {}
    unsure: tuple[Unsure, ...] = ()
    cllr = None
    lower = [(found.frr.threshold, found.threshold) for found in thresholds if found.frr]
    if ALL not in empty:
        with errors_naming(file.name):
            pools = file.pools([*(found.threshold for found in thresholds), *(just_below(low) for low, _ in lower)])
            unsure = tuple(Unsure.at(*pools[ALL], low, high) for low, high in lower)
            points = {
                name: tuple(
                    point_at(genuine, impostor, found.threshold, found.far_target, found.guarantee)
                    for found in thresholds
                )
                for name, (genuine, impostor) in pools.items()
                if name not in empty
            }
        if probability and file is not own:
            weighed = file.weighed(redrawing.seed)
            cllr = weighed.cllr(probability.ratios(weighed.scores)), weighed.min_cllr()
    fars: list[dict[str, Interval]] = []
    if isinstance(file, EmbeddingsSet) and points:
        cuts = [found.threshold for found in thresholds]
        tars = tars_over_people(file.pairs, file.embeddings.embeddings, cuts, redrawing, file.progress)
        for name in tars.keys() & points.keys():
            both = zip(points[name], tars[name], strict=True)
            points[name] = tuple(replace(at, tar_lower_95=of.lower_95, tar_upper_95=of.upper_95) for at, of in both)
        at_each = ({name: found[place] for name, found in points.items()} for place in range(len(thresholds)))
        fars = [fars_over_people(file.pairs, at, redrawing, file.progress) for at in at_each]
    return Check(
        source=file.source,
        points=points.pop(ALL, ()),
        domains=points,
        skipped=tuple(name for name in empty if name != ALL),
        lacking=empty.get(ALL, ()),
        shared_people=None if file.people is None or own.people is None else len(file.people & own.people),
        far_over_people=tuple(fars) if any(fars) else (),
        origin=None if file is own else file.origin,
        unsure=unsure,
        cllr=cllr,
        tar_over_people=file.people is not None and ALL not in empty,
    )


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


def known_of(file: EmbeddingsSet, accepted: Accepted) -> dict[str, Any]:
    """What a promise says of the people of a file, unless their pixels, training or scores are refused."""
    check_recorded(file.name, file.origin, accepted.unrecorded_pixels)
    if not accepted.training_people:
        refuse_training_people(file.embeddings, file.name)
    reasons = refuse_implausible(file.name, file.implausible(), accepted.implausible)
    return {
        "calibrated_on": None if file.origin is None else file.origin.source,
        "in_training": file.source.in_training or None,
        "implausible": f"scores cannot be right: {reasons[0]}" if reasons else "",
    }


def note_templates(source: Source) -> None:
    """The log states that a threshold is for templates, where the rows calibrated on are."""
    if source.pooled:
        log.warning(
            "%s: its rows are %s, so a threshold is for such templates; verify and identify compare photographs one by "
            "one, and export refuses it",
            source.file, source.made_of,
        )  # fmt: skip


def refuse_templates(file: str | Path, sources: Sequence[Source]) -> None:
    """Refuse to ship a file of thresholds from templates with a model, which compares photographs one by one."""
    for source in sources:
        if source.pooled:
            raise ValueError(
                f"{file}: the rows of {source.file} are {source.made_of}, and a model compares photographs one by one; "
                "calibrate on the same rows without the arrays templates and media"
            )


def refuse_trained_sources(file: Path, sources: Sequence[Source]) -> None:
    """Refuse a file of thresholds from sets with people or images that the model was trained on."""
    for source in sources:
        if source.in_training:
            raise ValueError(
                f"{file}: {source.in_training.found()} of {source.file}, so it promises nothing about new people; "
                f"calibrate on people who are not in the training, {_OVERRIDE}"
            )
