"""The results of a suite: one table, one JSON."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import fmean, pstdev, stdev
from typing import Any

from verisphere.base.provenance import check_same_origin
from verisphere.base.vocabulary import Origin, printable
from verisphere.files.results import EvaluatedFile, Result, first_lines
from verisphere.report.tables import listed, number, table

Figures = dict[str, float]


@dataclass(frozen=True)
class OverSets:
    """A figure over several sets, which have equal weight, by a name such as `TAR at FAR 1e-3`.

    The standard deviation is divided by the number of sets, that of a sample by the number - 1; None with one set.
    """

    figure: str
    mean: float
    std_population: float
    std_sample: float | None
    sets: tuple[str, ...]


def figures_of(fields: Mapping[str, Any]) -> Figures:
    """The figures in the fields of a result, by names that all kinds of evaluation share."""
    figures: Figures = {}
    if (accuracy := fields.get("accuracy")) is not None:
        figures |= {"accuracy": accuracy.mean, "standard deviation": accuracy.std}
    for domain, accuracy in (fields.get("domain_accuracy") or {}).items():
        figures[f"{domain}: accuracy"] = accuracy.mean
    for point in fields.get("operating_points") or ():
        if not point.below_resolution:
            figures[f"TAR at FAR {point.far_target}"] = point.tar
            figures[f"FAR at FAR {point.far_target}"] = point.far
            figures[f"threshold at FAR {point.far_target}"] = point.threshold
    for common in fields.get("one_threshold") or ():
        for name, domain in common["domains"].items():
            figures[f"{name} at the one threshold: TAR at FAR {common['far_target']}"] = domain["tar"]
            figures[f"{name} at the one threshold: FAR at FAR {common['far_target']}"] = domain["far"]
            if not domain["below_resolution"]:
                figures[f"{name} at its own threshold: TAR at FAR {common['far_target']}"] = domain["tar_own"]
    return figures | _searched(fields.get("identification") or fields)


def _searched(fields: Mapping[str, Any]) -> Figures:
    """Ranks and TPIR: the mean over galleries, or those of a single gallery; without galleries, those of the result."""
    galleries = fields.get("galleries") or {}
    only = next(iter(galleries.values())) if len(galleries) == 1 else None
    ranks = fields.get("mean_ranks") or (only.ranks if only is not None else fields.get("ranks") or ())
    points = fields.get("mean_points") or (
        only.operating_points if only is not None else fields.get("identification_points") or ()
    )
    coarse = {
        point.fpir_target
        for gallery in galleries.values()
        for point in gallery.operating_points
        if point.below_resolution
    }
    return {f"rank {rank.rank}": rank.rate for rank in ranks} | {
        f"TPIR at FPIR {point.fpir_target}": point.tpir for point in points if point.fpir_target not in coarse
    }


def over_sets(figures: Mapping[str, Figures]) -> tuple[OverSets, ...]:
    """Mean and spread of accuracy and of TAR at each FAR, over the sets that have them.

    >>> over_sets({"a": {"accuracy": 0.5}, "b": {"accuracy": 1.0}})
    (OverSets(figure='accuracy', mean=0.75, std_population=0.25, std_sample=0.3535533905932738, sets=('a', 'b')),)
    """
    names = dict.fromkeys(name for of_set in figures.values() for name in of_set)
    averaged = [name for name in names if name == "accuracy" or name.startswith("TAR at FAR ")]
    results = []
    for name in averaged:
        sets = tuple(title for title, of_set in figures.items() if name in of_set)
        values: Sequence[float] = [figures[title][name] for title in sets]
        sample = stdev(values) if len(values) > 1 else None
        results.append(OverSets(name, fmean(values), pstdev(values), sample, sets))
    return tuple(results)


COMBINED = "combined"


@dataclass(frozen=True, eq=False)
class SetResult:
    """One set of a suite.

    Attributes:
        command: the words of the command that repeats the evaluation by hand.
    """

    place: str
    command: tuple[str, ...]
    result: Result | None
    error: str = ""
    notes: tuple[str, ...] = ()

    @property
    def all_notes(self) -> tuple[str, ...]:
        """The notes on the lists, and those of the evaluation."""
        return self.notes if self.result is None else (*self.notes, *self.result.fields().get("notes", ()))

    def fields(self) -> dict[str, Any]:
        """The fields of the set, for JSON."""
        fields: dict[str, Any] = {"place": self.place}
        if self.command:
            fields["command"] = shlex.join(self.command)
        if self.notes:
            fields["notes"] = self.notes
        return fields | ({"error": self.error} if self.result is None else {"result": self.result.fields()})


@dataclass(frozen=True, eq=False)
class SuiteResult(Result):
    """The results of one call of `verisphere evaluate suite`.

    Attributes:
        sets: every set that was found, by name, and `combined` at the end.
    """

    folder: Path
    model: Path | None
    rule: str
    sets: Mapping[str, SetResult]
    embedded: int
    reused: int
    unknown: tuple[str, ...]
    kept: bool

    @property
    def figures(self) -> dict[str, Figures]:
        """The figures of each set that was evaluated, by name."""
        return {
            name: figures_of(entry.result.fields()) for name, entry in self.sets.items() if entry.result is not None
        }

    @property
    def sources(self) -> dict[str, tuple[EvaluatedFile, ...]]:
        """The files of each set that was evaluated, by name."""
        return {
            name: entry.result.fields().get("sources", ())
            for name, entry in self.sets.items()
            if entry.result is not None
        }

    @property
    def origins(self) -> dict[str, Origin]:
        """The origin of the embeddings of each set, if their files state it."""
        return {
            name: source.origin for name, files in self.sources.items() for source in files if source.origin is not None
        }

    @property
    def mixed(self) -> str:
        """Two sets whose embeddings were made differently; empty if all were made in the same way."""
        origins = self.origins
        for (first, ours), (name, theirs) in combinations(origins.items(), 2):
            if differing := ours.differences(theirs):
                return f"the embeddings of {first} and {name} were not made alike ({', '.join(differing)})"
        return ""

    def note_unknown(self) -> None:
        """Say of which two sets it is not known that their embeddings were made alike, as `check_same_origin` does."""
        files = [(name, source) for name, sources in self.sources.items() for source in sources if not source.is_list]
        origins = [(name, source.origin) for name, source in files]
        for (first, ours), (name, theirs) in combinations(origins, 2):
            if first != name and not (ours and theirs and ours.differences(theirs)):  # `mixed` says so
                check_same_origin(f"{first} was", ours, name, theirs, "")

    @property
    def over_sets(self) -> tuple[OverSets, ...]:
        """Mean and spread over the sets but `combined`; empty if embeddings of two sets were made differently."""
        if self.mixed:
            return ()
        return over_sets({name: figures for name, figures in self.figures.items() if name != COMBINED})

    @property
    def failed(self) -> tuple[str, ...]:
        """The sets that could not be evaluated."""
        return tuple(name for name, entry in self.sets.items() if entry.result is None)

    def text(self) -> str:
        """The figures as tables, the sets that could not be evaluated, and the commands that repeat each figure."""
        figures = self.figures
        names = list(dict.fromkeys(name for of_set in figures.values() for name in of_set))
        results = {name: entry.result.fields() for name, entry in self.sets.items() if entry.result is not None}
        implausible = [f"{name}: {each}" for name, fields in results.items() for each in fields.get("implausible", ())]
        notes = first_lines([source for files in self.sources.values() for source in files], implausible)
        parts = [notes.rstrip()] if notes else []
        for chosen in (
            [name for name in names if name == "accuracy" or name.startswith("TAR at FAR ")],
            [name for name in names if name.startswith(("rank ", "TPIR at FPIR "))],
        ):
            rows = [
                [title, *(number(of_set[name]) if name in of_set else "-" for name in chosen)]
                for title, of_set in figures.items()
                if any(name in of_set for name in chosen)
            ]
            if rows:
                parts.append(table(["set", *chosen], rows))
        if any(len(summary.sets) > 1 for summary in self.over_sets):
            rows = [
                [
                    summary.figure,
                    number(summary.mean),
                    number(summary.std_population),
                    "-" if summary.std_sample is None else number(summary.std_sample),
                    str(len(summary.sets)),
                ]
                for summary in self.over_sets
            ]
            header = ["over sets", "mean", "standard deviation (population)", "(sample)", "sets"]
            parts.append(
                f"{table(header, rows)}\nsets count alike; {COMBINED}, which consists of others, is none of them"
            )
        parts.append(f"rule: {self.rule}; -: not measured, or too few comparisons for this rate")
        if self.model is not None:
            again = f"{self.reused:,} rows are those of equal images, or of an earlier run"
            parts.append(f"{self.embedded:,} images were embedded, {again}")
        remarks = [f"{name}: {note}" for name, entry in self.sets.items() for note in entry.all_notes]
        if self.mixed:
            remarks.append(f"{self.mixed}, so there is no mean over sets")
        if remarks:
            parts.append("\n".join(map(printable, remarks)))
        if self.failed:
            errors = [f"{name}: {self.sets[name].error}" for name in self.failed]
            parts.append("not evaluated:\n" + "\n".join(map(printable, errors)))
        if self.unknown:
            parts.append(f"no known set: {listed(self.unknown)}")
        where = "" if self.kept else " (the embeddings files were temporary; --embeddings DIR keeps them)"
        commands = [shlex.join(entry.command) for entry in self.sets.values() if entry.result is not None]
        if commands:
            parts.append(f"each set by hand{where}:\n" + "\n".join(map(printable, commands)))
        return "\n\n".join(parts)

    def fields(self) -> dict[str, Any]:
        """The figures of the JSON; missing values have no key."""
        fields = {
            "folder": self.folder.name,
            "model": None if self.model is None else self.model.name,
            "origin": None if self.mixed else next(iter(self.origins.values()), None),
            "rule": self.rule,
            "embedded": self.embedded,
            "reused": self.reused,
            "sets": {name: entry.fields() for name, entry in self.sets.items()},
            "over_sets": self.over_sets,
            "not_evaluated": self.failed,
            "unknown": self.unknown,
        }
        return {name: value for name, value in fields.items() if value is not None}
