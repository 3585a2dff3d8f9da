"""The people and groups of the templates of IJB-B and IJB-C, from the files of the protocol."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Int64

from verisphere.base.identity import decided, spellings
from verisphere.base.vocabulary import NOBODY, Comparisons, Embeddings
from verisphere.files.ijb import IjbFiles
from verisphere.files.ijb.people import SUBJECT, TEMPLATE, TemplatePeople, read_covariate
from verisphere.score.listing import shares

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
    """The templates of each group, None without covariates; and notes on the templates that have no group.

    Values of the column `group_by` of the covariates are groups; those without a name in `group_names` keep their
    spelling.
    """
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
