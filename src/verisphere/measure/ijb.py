"""IJB-B and IJB-C: templates pooled from rows that are never held, compared 1:1 over a list and 1:N in galleries."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int64

from verisphere.base.identity import decided, spellings
from verisphere.base.vocabulary import FARS, NOBODY, Comparisons, Embeddings, Progress, Rule, quietly
from verisphere.base.words import IJB_FPIRS, RANKS, FeatureNorm
from verisphere.decide import Far, differences_of, exact_rate
from verisphere.files.disk import check_file
from verisphere.files.embeddings import note_crowds
from verisphere.files.errors import errors_naming
from verisphere.files.ijb import IjbFiles
from verisphere.files.ijb.images import TemplateImages, read_detector_scores, read_images
from verisphere.files.ijb.pairs import read_template_pairs
from verisphere.files.ijb.people import SUBJECT, TEMPLATE, TemplatePeople, one_spelling, read_covariate, read_people
from verisphere.files.image_names import rows_named
from verisphere.files.results import EvaluatedFile, Result, first_lines
from verisphere.files.streamed_rows import StreamedRows, evaluated, open_rows
from verisphere.measure.evaluation import Evaluation
from verisphere.measure.identification import (
    GallerySearch,
    IdentificationEvaluation,
    IdentificationOptions,
    evaluate_searches,
)
from verisphere.measure.protocols.ijb import template_pairs
from verisphere.measure.protocols.listed_pairs import repeated_text
from verisphere.measure.protocols.plausible import implausible_pairs, implausible_sides
from verisphere.score.listing import shares
from verisphere.score.templates import Membership, kept_rows, pool_rows

MOST_GROUPS = 100  # more values of a covariate are names or measurements, no groups


def subjects_of_templates(
    templates: Int64[np.ndarray, " templates"], people: Sequence[TemplatePeople], files: IjbFiles
) -> np.ndarray:
    """Person of each template, `NOBODY` if no file states it; `people` are galleries, followed by probes if any."""
    subjects = np.full(len(templates), NOBODY, object)
    stated: dict[int, TemplatePeople] = {}
    for side in people:
        place = np.searchsorted(templates, side.templates).clip(max=len(templates) - 1)
        for position, template, subject, line in zip(
            place.tolist(), side.templates.tolist(), side.subjects, side.lines, strict=True
        ):
            if templates[position] != template:
                raise ValueError(f"{side.source}: line {line}: template {template} is not in {files.meta}")
            before = stated.setdefault(template, side)
            if before is not side and side.source == files.probes:
                raise ValueError(
                    f"{side.source}: line {line}: template {template} is enrolled in {before.source} too; a template "
                    "that is compared with itself is always found"
                )
            if before is not side and subjects[position] != subject:
                raise ValueError(
                    f"{side.source}: line {line}: template {template} shows {subject!r}, but {subjects[position]!r} in "
                    f"{before.source}"
                )
            subjects[position] = subject
    return subjects.astype(str)


def groups_of_templates(
    templates: Embeddings, files: IjbFiles, group_by: str | None, group_names: Mapping[str, str] | None
) -> tuple[dict[str, np.ndarray] | None, list[str]]:
    """The templates of each group, None without covariates; and notes on the templates that have no group."""
    if files.covariates is None or group_by is None:
        return None, []
    covariate = read_covariate(files.covariates, group_by)
    if covariate.by == SUBJECT and (templates.identities == NOBODY).all():
        raise ValueError(
            f"{files.covariates}: its values are of a {SUBJECT}, and it has no {TEMPLATE}; which template shows whom "
            "is in the files of --gallery and --probes, which are not given"
        )
    whose, of_owner = templates.names, covariate.values
    if covariate.by == SUBJECT:
        whose, people, owners = templates.identities, np.unique(templates.identities).tolist(), list(of_owner)
        where = [*(["of a template"] * len(people)), *([f"in {files.covariates}"] * len(owners))].__getitem__
        new = spellings([*people, *owners], [*people, *owners], where, decided(), (people, owners))
        of_owner = {new.get(name, name): value for name, value in of_owner.items()}
    values = np.array(["" if name == NOBODY else of_owner.get(name, "") for name in whose.tolist()])
    present = sorted(set(values.tolist()) - {""})
    if not 0 < len(present) <= MOST_GROUPS:
        raise ValueError(
            f"{files.covariates}: {group_by} has {len(present):,} values for the templates of {files.meta}; "
            f"1 to {MOST_GROUPS} can be groups"
        )
    renamed = dict(group_names or {})
    if unknown := sorted(set(renamed) - set(present)):
        raise ValueError(
            f"--group-name {unknown[0]}={renamed[unknown[0]]}: no template has this {group_by}; its values are "
            f"{', '.join(present)}"
        )
    names = [renamed.get(value, value) for value in present]
    if len(set(names)) < len(names):
        raise ValueError(f"--group-name: two values of {group_by} are called {max(names, key=names.count)!r}")
    groups = {name: values == value for name, value in zip(names, present, strict=True)}
    lacking = int((values == "").sum())
    notes = [f"{lacking:,} of {len(values):,} templates have no {group_by}: their pairs are in no group"]
    if covariate.several:
        whose_rows = "templates" if covariate.by == TEMPLATE else "people"
        notes.append(f"{covariate.several:,} {whose_rows} have several values of {group_by}, and so none")
    return groups, notes if lacking else notes[1:]


def contradicted_labels(comparisons: Comparisons, subjects: np.ndarray, pairs: Path) -> list[str]:
    """A note on the pairs whose label the people of galleries and probes contradict, if there are any."""
    _, person = np.unique(subjects, return_inverse=True)
    known, wrong, first = subjects != NOBODY, 0, 0
    if not known.any():
        return []
    for share in shares(len(comparisons)):
        left, right = comparisons.left[share], comparisons.right[share]
        same = person[left] == person[right]
        places = np.flatnonzero(known[left] & known[right] & (same != comparisons.genuine[share]))
        if len(places) and not wrong:
            first = share.start + int(places[0]) + 1
        wrong += len(places)
    if not wrong:
        return []
    return [
        f"{wrong:,} labels of {pairs.name} contradict the people of the gallery and probe files, first on line "
        f"{first}, and were used"
    ]


@dataclass(frozen=True)
class IjbOptions:
    """The figures that an evaluation of IJB-B or IJB-C computes.

    Attributes:
        fpirs: target FPIRs of each gallery; if empty, only closed-set ranks are computed.
        group_names: names of values, such as `F` for `0`; other values keep their spelling.
    """

    fars: Sequence[Far] = FARS
    fpirs: Sequence[Far] = IJB_FPIRS
    ranks: Sequence[int] = RANKS
    rule: Rule = "at_most"
    feature_norm: FeatureNorm = "keep"
    keep_repeated: bool = False
    group_by: str | None = None
    group_names: Mapping[str, str] | None = None
    skip_empty: bool = False
    progress: Progress = quietly

    def __post_init__(self) -> None:
        for far in self.fars:
            exact_rate(far)  # refuse a malformed FAR before minutes of work, not after
        if self.group_names and self.group_by is None:
            raise ValueError("--group-name names the groups of --group-by, which is not given")
        self.of_galleries()  # refuses a malformed FPIR or rank

    def of_galleries(self) -> IdentificationOptions:
        """The options of the part 1:N."""
        return IdentificationOptions(
            fpirs=self.fpirs,
            ranks=self.ranks,
            rule=self.rule,
            progress=self.progress,
            feature_norm=self.feature_norm,
        )


@dataclass(frozen=True)
class Pooling:
    """The pooling of the templates, by weights of a file or alike, of so many media within each."""

    feature_norm: str
    detector_scores: str | None
    faces: int
    media: int
    templates: int


@dataclass(frozen=True, eq=False)
class IjbEvaluation(Result):
    """The results of one call of `verisphere evaluate ijb`; `notes` are on rows that were counted but not used."""

    pooling: Pooling
    sources: tuple[EvaluatedFile, ...]
    verification: Evaluation | None
    identification: IdentificationEvaluation | None
    notes: tuple[str, ...]

    @property
    def _measured(self) -> list[Evaluation | IdentificationEvaluation]:
        return [part for part in (self.verification, self.identification) if part is not None]

    @property
    def implausible(self) -> tuple[str, ...]:
        """Reasons why the figures cannot be those of a working model with right labels."""
        return tuple(dict.fromkeys(reason for part in self._measured for reason in part.implausible))

    def text(self) -> str:
        """The figures as tables."""
        pooling, notes = self.pooling, first_lines(self.sources, self.implausible)
        weighed = f"weighed by {pooling.detector_scores}" if pooling.detector_scores else "weighed alike"
        parts = [
            f"{notes}{pooling.templates:,} templates of {pooling.faces:,} faces in {pooling.media:,} media, {weighed}, "
            f"feature norm {pooling.feature_norm}"
        ]
        parts += [
            part.text().removeprefix(first_lines(self.sources, part.implausible)).lstrip() for part in self._measured
        ]
        return "\n\n".join([*parts, *(["\n".join(self.notes)] if self.notes else [])])

    def fields(self) -> dict[str, Any]:
        """The figures of the JSON; those that were not requested have no key."""
        fields = {} if self.verification is None else self.verification.fields()
        fields |= {"sources": self.sources, "pooling": self.pooling}
        fields |= {name: value for name in ("notes", "implausible") if (value := getattr(self, name))}
        if self.identification is not None:
            fields["identification"] = self.identification.fields()
        return fields


def evaluate_ijb(path: Path, files: IjbFiles, options: IjbOptions) -> IjbEvaluation:
    """Figures of IJB-B or IJB-C: 1:1 over the listed pairs, 1:N in each gallery, or both.

    The embeddings file has a row for each image of the metadata, by its name; it is read a portion at a time.
    """
    if (files.covariates is None) != (options.group_by is None):
        raise ValueError("--covariates names the file and --group-by its column: give both or neither")
    for file in (path, *files.all):
        check_file(file)
    sources = tuple(replace(evaluated(file), is_list=True) for file in files.all)
    people = [read_people(side) for side in (*files.galleries, *((files.probes,) if files.probes else ()))]
    subjects = one_spelling([(side.source, side.subjects, side.lines) for side in people])
    people = [replace(side, subjects=tuple(column)) for side, column in zip(people, subjects, strict=True)]
    pooled = _pooled(path, files, people, options)
    templates, numbers = pooled.templates, pooled.numbers
    sources = (pooled.source, *sources)
    groups, notes = groups_of_templates(templates, files, options.group_by, options.group_names)
    notes = [*pooled.notes, *notes]
    used = np.zeros(len(templates), bool)
    for side in people:
        used[np.searchsorted(numbers, side.templates)] = True
    verification = None
    if files.pairs is not None:
        comparisons = read_template_pairs(files.pairs, numbers, files.meta)
        used[comparisons.left] = used[comparisons.right] = True
        notes += contradicted_labels(comparisons, templates.identities, files.pairs)
        if options.keep_repeated and (kept := repeated_text(templates, comparisons)):
            notes.append(f"repeated pairs were kept: {kept}")
        verification = _verification(templates, comparisons, groups, files.pairs, sources, options)
        del comparisons  # 17 bytes a pair, which 1:N does not need
    if unused := int((~used).sum()):
        notes.append(f"{unused:,} of {len(used):,} templates are compared with none")
    identification = _identification(templates, numbers, people, files, sources, options) if people else None
    return IjbEvaluation(pooled.pooling, sources, verification, identification, tuple(notes))


@dataclass(frozen=True, eq=False)
class _Pooled:
    """Templates in memory, without their faces, which take more memory.

    They are named by their numbers, ascending, and have their people if known, else `NOBODY`.
    """

    templates: Embeddings
    numbers: Int64[np.ndarray, " templates"]
    source: EvaluatedFile
    pooling: Pooling
    notes: tuple[str, ...]


def _pooled(path: Path, files: IjbFiles, people: Sequence[TemplatePeople], options: IjbOptions) -> _Pooled:
    """Pool the rows of each template as they are read."""
    images = read_images(files.meta)
    numbers, template = images.numbered()
    subjects = subjects_of_templates(numbers, people, files)
    for side in people:
        note_crowds(side.source, np.where(np.isin(numbers, side.templates), subjects, NOBODY)[template])
    rows = open_rows(path)
    row = rows_named(images.names, rows.names.tolist(), files.meta, path)[images.image]
    weight, notes = _weights(images, files)
    if len(rows) > len(images.names):
        notes.append(f"{len(rows) - len(images.names):,} of {len(rows):,} rows of {path.name} belong to no template")
    kept = kept_rows(len(row))
    kept = kept[np.argsort(row[kept], kind="stable")]  # neighbours are those of the file
    sample = np.empty((len(kept), rows.dim), np.float32)
    portions = options.progress(_keeping(rows, row[kept], sample), "pooling templates", rows.steps)
    membership = Membership(row, template, images.medium, weight)
    pooled = pool_rows(portions, membership, len(numbers), options.feature_norm)
    empty = np.flatnonzero(~pooled.any(axis=1))
    if len(empty):
        lines = images.lines[template == empty[0]]
        why = "its faces cancel" if weight is None else "its detector scores are all 0, or its faces cancel"
        raise ValueError(
            f"{files.meta}: line {lines[0]}: template {numbers[empty[0]]} of {len(lines)} faces pools to length zero, "
            f"for {why}; it has no direction"
        )
    mediums, medium = np.unique(images.medium, return_inverse=True)  # numbers of up to 18 digits become small ones
    media = len(np.unique(template * len(mediums) + medium))
    weighed_by = None if files.scores is None else files.scores.name
    with errors_naming(path):
        names = numbers.astype(str)
        faces = Embeddings(sample, None, subjects[template[kept]], templates=names[template[kept]])
        templates = Embeddings(pooled, names, subjects, origin=rows.source.origin, pooled_from=faces)
    pooling = Pooling(options.feature_norm, weighed_by, len(row), media, len(numbers))
    source = rows.source
    if rows.in_training is not None:
        shown = np.full(len(rows), NOBODY, object) if rows.identities is None else rows.identities.astype(object)
        shown[row] = np.where(subjects[template] == NOBODY, shown[row], subjects[template])
        shown = shown.astype(str)
        known = rows.in_training.of(shown, source.names_rule)  # a number says nothing of whom the file names
        known = replace(known, people=known.people | rows.in_training.people)
        source = replace(source, in_training=known.shared(shown))
    return _Pooled(templates, numbers, source, pooling, tuple(notes))


def _keeping(rows: StreamedRows, wanted: Int64[np.ndarray, " kept"], sample: np.ndarray) -> Iterator[np.ndarray]:
    """The portions of a file; each row that is wanted is copied into the sample as it passes."""
    order, start = np.argsort(wanted, kind="stable"), 0
    ascending = wanted[order]
    for _, part in rows.portions():
        low, high = np.searchsorted(ascending, [start, start + len(part)])
        sample[order[low:high]] = part[ascending[low:high] - start]
        start += len(part)
        yield part


def _weights(images: TemplateImages, files: IjbFiles) -> tuple[np.ndarray | None, list[str]]:
    """The weight of each face, and notes on the scores."""
    if files.scores is None:
        return None, []
    scores, others = read_detector_scores(files.scores, images.names)
    notes = [f"{others:,} lines of {files.scores.name} are of images in no template"] if others else []
    if zeros := int((scores == 0).sum()):
        notes.append(f"{zeros:,} images have the detector score 0: they count in their medium's mean and add nothing")
    return scores[images.image], notes


def _verification(
    templates: Embeddings,
    comparisons: Comparisons,
    groups: Mapping[str, np.ndarray] | None,
    pairs: Path,
    sources: tuple[EvaluatedFile, ...],
    options: IjbOptions,
) -> Evaluation:
    with errors_naming(pairs):
        points, common = template_pairs(
            templates,
            comparisons,
            groups,
            options.fars,
            options.rule,
            options.progress,
            options.keep_repeated,
            options.skip_empty,
        )
    return Evaluation(
        points,
        sources,
        one_threshold=common,
        implausible=implausible_pairs(templates, comparisons),
        group_differences=None if common is None else tuple(differences_of(at_one) for at_one in common),
    )


def _identification(
    templates: Embeddings,
    numbers: Int64[np.ndarray, " templates"],
    people: Sequence[TemplatePeople],
    files: IjbFiles,
    sources: tuple[EvaluatedFile, ...],
    options: IjbOptions,
) -> IdentificationEvaluation:
    *galleries, probes = (templates.take(np.searchsorted(numbers, side.templates)) for side in people)
    searches = [
        GallerySearch(path.stem, f"{files.probes} searched in {path}", probes, gallery)
        for path, gallery in zip(files.galleries, galleries, strict=True)
    ]
    result = evaluate_searches(searches, sources, options.of_galleries())
    probes_name = "" if files.probes is None else files.probes.name
    reasons = [
        reason
        for path, gallery in zip(files.galleries, galleries, strict=True)
        for reason in implausible_sides(probes, gallery, (probes_name, path.name))
    ]
    return replace(result, implausible=tuple(dict.fromkeys(reasons)))
