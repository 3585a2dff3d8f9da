"""From files of probes and distractors to the figures of MegaFace and Trillion-Pairs: tables, JSON and a picture."""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float32

from verisphere.base.identity import among
from verisphere.base.vocabulary import NOBODY, Embeddings, Precision, Progress, Rule, printable, quietly
from verisphere.base.words import MEGAFACE_FARS, FeatureNorm, check_at_least
from verisphere.decide.identification import exact_fpir, identification_curve
from verisphere.decide.point import Far, exact_rate
from verisphere.files.disk import real_path
from verisphere.files.embeddings import known_people, note_crowds
from verisphere.files.feature_lists import listed_as, read_noise, read_pictures
from verisphere.files.json_values import shown
from verisphere.files.results import EvaluatedFile, Result, first_lines
from verisphere.files.streamed_rows import ENDING, StreamedRows, is_features, open_templates, read_rows
from verisphere.measure.protocols.distractors import (
    MOST_HELD,
    DistractorResult,
    DistractorScores,
    distractor_figures,
    held_scores,
    require_mates,
    score_distractors,
)
from verisphere.measure.protocols.plausible import implausible_set, repeated_vectors
from verisphere.measure.sides import check_alike, check_one_model
from verisphere.report.plots import identification_plot, save_plot
from verisphere.report.tables import open_set_table, operating_points_table, ranks_table

DEPENDENT = (
    "The bounds take comparisons as independent; here every photo stands in many of them, so the bounds are too narrow."
)


@dataclass(frozen=True)
class DistractorOptions:
    """The figures that an evaluation among distractors computes, and the pictures that it excludes.

    Attributes:
        screen: type of the products that screen; changes speed, never a figure.
    """

    ranks: Sequence[int] = (1,)
    fars: Sequence[Far] = MEGAFACE_FARS
    fpirs: Sequence[Far] = ()
    rule: Rule = "at_most"
    screen: Precision = "float32"
    noisy_probes: Path | None = None
    noisy_distractors: Path | None = None
    probe_list: Path | None = None
    distractor_list: Path | None = None
    ending: str = ENDING
    feature_norm: FeatureNorm = "keep"
    progress: Progress = quietly

    def __post_init__(self) -> None:
        for far in self.fars:
            exact_rate(far)  # refuse a malformed rate before minutes of work, not after
        for fpir in self.fpirs:
            exact_fpir(fpir)
        check_at_least("rank", min(self.ranks, default=1))


@dataclass(frozen=True, eq=False)
class DistractorEvaluation(Result):
    """The results of one call of `verisphere evaluate distractors`."""

    protocol: str
    result: DistractorResult
    scores: DistractorScores
    sources: tuple[EvaluatedFile, ...]
    rule: Rule
    noisy_probes: int
    noisy_distractors: int
    notes: tuple[str, ...]
    implausible: tuple[str, ...]

    def text(self) -> str:
        """The figures as tables."""
        result = self.result
        where = f"{result.distractors:,} distractors"
        head = (
            f"{result.people:,} people by {result.probes:,} photos among {where}; {result.searches:,} searches, each "
            "photo of a person once the mate for every other one\n"
            f"excluded as noisy: {self.noisy_probes:,} probe photos, {self.noisy_distractors:,} distractors"
        )
        parts = [first_lines(self.sources, self.implausible) + head, ranks_table({where: result.ranks})]
        if result.identification_points:
            parts.append(open_set_table({where: result.identification_points}))
        if result.operating_points:
            parts.append(operating_points_table(result.operating_points))
        return "\n\n".join([*parts, "\n".join(map(printable, (*self.notes, DEPENDENT)))])

    def fields(self) -> dict[str, Any]:
        """The figures of the JSON; those that were not requested have no key."""
        present = {
            "protocol": self.protocol,
            "rule": self.rule,
            "sources": self.sources,
            "noisy_probes": self.noisy_probes,
            "noisy_distractors": self.noisy_distractors,
            **vars(self.result),
            "notes": self.notes,
            "implausible": self.implausible,
        }
        return {name: value for name, value in present.items() if value != ()}

    def write_plot(self, path: Path) -> None:
        """Draw the CMC, and TPIR over FPIR if requested."""
        where = f"{self.result.distractors:,} distractors"
        curves = {where: identification_curve(self.scores.searches)} if self.result.identification_points else {}
        save_plot(identification_plot({where: self.result.cmc}, curves, self.protocol), path)


def evaluate_distractors(
    layout: str, probes: Path, distractors: Sequence[Path], options: DistractorOptions = DistractorOptions()
) -> DistractorEvaluation:
    """Figures of probes among distractors: rank-k identification, verification, and identification at a threshold."""
    check_paths(distractors, options)
    notes: list[str] = []
    shown_probes, source = _probes(probes, options, notes)
    noisy = _noisy(options.noisy_probes, [shown_probes.names], [probes], notes)[0]
    if noisy.all():
        raise ValueError(f"{options.noisy_probes}: it lists all {len(noisy)} probes of {probes}")
    used = shown_probes.take(~noisy)
    require_mates(used, f"{probes}: ")
    of_features = options.distractor_list if is_features(distractors[0]) else None
    opened = [open_templates(path, options.feature_norm, of_features, options.ending) for path in distractors]
    for rows in opened:
        check_alike(probes, used.embeddings.shape[1], source.origin, rows.path, rows.dim, rows.source.origin)
    check_one_model({rows.path: rows.source.origin for rows in opened})
    listed = _listed(options.distractor_list, opened, notes) if of_features is None else _everything(opened)
    noise = _noisy(options.noisy_distractors, [rows.names for rows in opened], distractors, notes)
    kept = [chosen & ~marked for chosen, marked in zip(listed, noise, strict=True)]
    if same := sum(_of_probe_people(used, rows, chosen) for rows, chosen in zip(opened, kept, strict=True)):
        notes.append(f"{same:,} distractors have the identity of a probe person; they count as other people")
    portions = _portions(probes, used, opened, kept, options.progress)
    count = sum(int(chosen.sum()) for chosen in kept)
    if not count:
        raise ValueError(f"{options.noisy_distractors}: it lists all distractors, so there is none to search among")
    impostors = len(used) * count
    fars = [far for far in options.fars if held_scores(far, impostors) <= MOST_HELD]

    def about() -> list[object]:
        return [*kept, *(rows.source.sha256 for rows in opened)]

    steps = sum(rows.steps for rows in opened)
    scores = score_distractors(used, portions, count, fars, options.screen, steps, about)
    result = distractor_figures(used, scores, options.ranks, fars, options.fpirs, options.rule)
    notes += [
        f"no verification at FAR {far}: it would take {held_scores(far, impostors):,} of {impostors:,} impostor scores "
        f"in memory, more than {MOST_HELD:,}"
        for far in options.fars
        if far not in fars
    ]
    if result.alone:
        notes.append(f"{result.alone:,} probe photos are the only one of their person: they have no mate")
    sources = (source, *(rows.source for rows in opened))
    excluded = sum(int((chosen & marked).sum()) for chosen, marked in zip(listed, noise, strict=True))
    counts = int(noisy.sum()), excluded
    unlikely = [
        f"{rows.path.name}, its first rows: {reason}"
        for rows in opened
        for reason in repeated_vectors(next(rows.read()), None)
    ]
    return DistractorEvaluation(
        layout, result, scores, sources, options.rule, *counts, tuple(notes), (*implausible_set(used), *unlikely)
    )


def check_paths(distractors: Sequence[Path], options: DistractorOptions) -> None:
    """Refuse a file that is named twice, and a list of distractors for several features."""
    places = [real_path(path) for path in distractors]
    for path, place in zip(distractors, places, strict=True):
        if places.count(place) > 1:
            raise ValueError(f"{path}: named twice among the distractors, so each of them would count twice")
    if options.distractor_list is not None and len(distractors) > 1 and any(map(is_features, distractors)):
        raise ValueError(
            f"{options.distractor_list}: a list of distractors is for embeddings files, or for one file or folder of "
            "features"
        )


def _probes(path: Path, options: DistractorOptions, notes: list[str]) -> tuple[Embeddings, EvaluatedFile]:
    """The listed probe photos whose person is known."""
    wanted = options.probe_list
    embeddings, source = read_rows(path, options.feature_norm, wanted if is_features(path) else None, options.ending)
    if wanted is not None and not is_features(path):
        pictures = read_pictures(wanted).pictures
        rows = {name: row for row, name in enumerate(embeddings.names.tolist())}
        _refuse_lacking(wanted, pictures, rows, str(path))
        if others := len(embeddings) - len(pictures):
            notes.append(f"{others:,} photos of {path.name} are not in {wanted.name} and are excluded")
        embeddings = embeddings.take(np.array([rows[name] for name in pictures]))
    note_crowds(path, embeddings.identities)
    known = known_people(embeddings, path)
    if nobody := len(embeddings) - len(known):
        notes.append(f"{nobody:,} photos of {path.name} show nobody who is known ({NOBODY}) and are excluded")
    return known, source


def _everything(opened: Sequence[StreamedRows]) -> list[Bool[np.ndarray, " _"]]:
    return [np.ones(len(rows.names), bool) for rows in opened]


def _listed(path: Path | None, opened: Sequence[StreamedRows], notes: list[str]) -> list[Bool[np.ndarray, " _"]]:
    """The rows of embeddings files that a list of pictures names; each picture must be in one of the files."""
    if path is None:
        return _everything(opened)
    pictures = read_pictures(path).pictures
    chosen = [np.isin(rows.names, pictures) for rows in opened]
    there = set().union(*(rows.names[marked].tolist() for rows, marked in zip(opened, chosen, strict=True)))
    _refuse_lacking(path, pictures, there, ", ".join(str(rows.path) for rows in opened))
    if others := sum(int((~marked).sum()) for marked in chosen):
        notes.append(f"{others:,} distractors are not in {path.name} and are excluded")
    return chosen


def _refuse_lacking(path: Path, pictures: Sequence[str], there: Container[str], where: str) -> None:
    lacking = [name for name in pictures if name not in there]
    if lacking:
        raise ValueError(
            f"{path}: {len(lacking):,} of {len(pictures):,} listed pictures are not in {where}, the first is "
            f"{shown(lacking[0], 200)}"
        )


def _noisy(
    path: Path | None, names: Sequence[np.ndarray], files: Sequence[Path], notes: list[str]
) -> list[Bool[np.ndarray, " _"]]:
    """The rows of each file that a list of noisy pictures names."""
    if path is None:
        return [np.zeros(len(column), bool) for column in names]
    listed = [name for _, name in read_noise(path)]
    marked = [listed_as(column, listed) for column in names]
    unused = len(listed) - len(set().union(*(used for _, used in marked)))
    if unused == len(listed):
        raise ValueError(
            f"{path}: none of its {len(listed):,} pictures, the first is {shown(listed[0], 200)}, is in "
            f"{', '.join(map(str, files))}; is it the list of another set?"
        )
    if unused:
        notes.append(f"{unused:,} of {len(listed):,} pictures of {path.name} are in no file")
    return [rows for rows, _ in marked]


def _of_probe_people(probes: Embeddings, rows: StreamedRows, kept: Bool[np.ndarray, " rows"]) -> int:
    """Number of distractors whose identity is that of a probe."""
    if rows.identities is None:
        return 0
    return int(among(rows.identities[kept], probes.identities, probes.names_rule).sum())


def _portions(
    path: Path,
    probes: Embeddings,
    opened: Sequence[StreamedRows],
    kept: Sequence[Bool[np.ndarray, " _"]],
    progress: Progress,
) -> Iterator[Float32[np.ndarray, "rows dim"]]:
    """The distractors of all files that are kept, some at a time."""
    place = {name: row for row, name in enumerate(probes.names.tolist())}
    pieces = (
        (rows.path, names, part)
        for rows, chosen in zip(opened, kept, strict=True)
        for names, part in rows.portions(chosen)
    )
    steps = sum(rows.steps for rows in opened)
    for distractors, names, part in progress(pieces, "searching the distractors", steps):
        for row, name in enumerate(names.tolist()):
            if name in place and (probes.embeddings[place[name]] == part[row]).all():
                raise ValueError(
                    f"{distractors}: {shown(name, 200)} is a probe in {path} too; it would be its own rival"
                )
        yield part
