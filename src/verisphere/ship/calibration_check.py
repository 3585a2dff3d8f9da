"""A calibrated or checked file: whether it has comparisons, whether they can be right, and their rates."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable

from verisphere.base.vocabulary import OperatingPoint, Origin, Redrawing
from verisphere.decide import GuaranteedThreshold, Interval, Ordered, lacking_text, point_at
from verisphere.files.calibration import Check, Source
from verisphere.files.errors import errors_naming
from verisphere.measure.protocols.redrawn import ALL

Pools: TypeAlias = dict[str, tuple[Ordered, Ordered]]  # (genuine, impostor) scores of each domain, and of ALL


@runtime_checkable
class CheckedFile(Protocol):
    """The interface of a file on which thresholds are checked."""

    name: str | Path  # in errors
    source: Source
    origin: Origin | None
    people: frozenset[str] | None

    def lacking(self) -> dict[str, tuple[str, ...]]:
        """The kinds of comparison, genuine or impostor, that are missing from each domain and from the whole."""
        ...

    def implausible(self) -> tuple[str, ...]:
        """The reasons why the scores cannot be those of a working model with right labels."""
        ...

    def pools(self, thresholds: Sequence[float]) -> Pools:
        """Scores of each domain and of the whole, prepared for these thresholds."""
        ...

    def fars_over_people(self, points: Mapping[str, OperatingPoint], redrawing: Redrawing) -> dict[str, Interval]:
        """The FAR over redrawn people of the points at one threshold that are above the target by binomial bounds."""
        ...


def refuse_empty(file: CheckedFile, calibrating: bool, skip_empty: bool) -> dict[str, tuple[str, ...]]:
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


def implausible_reasons(file: CheckedFile, accepted: bool) -> list[str]:
    """The reasons why a file's scores cannot be right, with its name."""
    return refuse_implausible(file.name, file.implausible(), accepted)


def refuse_implausible(name: str | Path, reasons: Sequence[str], accepted: bool) -> list[str]:
    """The reasons why the scores of a file cannot be right, with its name; refused unless accepted."""
    if reasons and not accepted:
        raise ValueError(
            f"{name}: implausible: {'; '.join(reasons)}; if the file is right, say --accept-implausible "
            "(accept_implausible=True)"
        )
    return [f"{Path(name).name}: {reason}" for reason in reasons]


def check_of(
    file: CheckedFile,
    empty: dict[str, tuple[str, ...]],
    thresholds: Sequence[GuaranteedThreshold],
    own: CheckedFile,
    redrawing: Redrawing,
) -> Check:
    """The rates of the thresholds on a file, without the domains that lack comparisons."""
    points: dict[str, tuple[OperatingPoint, ...]] = {}
    if ALL not in empty:
        with errors_naming(file.name):
            points = {
                name: tuple(
                    point_at(genuine, impostor, found.threshold, found.far_target, found.guarantee)
                    for found in thresholds
                )
                for name, (genuine, impostor) in file.pools([found.threshold for found in thresholds]).items()
                if name not in empty
            }
    at_thresholds = [{name: found[place] for name, found in points.items()} for place in range(len(thresholds))]
    over_people = tuple(file.fars_over_people(at, redrawing) for at in at_thresholds)
    return Check(
        source=file.source,
        points=points.pop(ALL, ()),
        domains=points,
        skipped=tuple(name for name in empty if name != ALL),
        lacking=empty.get(ALL, ()),
        shared_people=None if file.people is None or own.people is None else len(file.people & own.people),
        far_over_people=over_people if any(over_people) else (),
        origin=None if file is own else file.origin,
    )
