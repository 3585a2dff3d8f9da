"""A study of rules of cleaning: label noise put into embeddings, and how much of it each rule finds. No training.

A study is YAML with the key `rules` in the place of a recipe:

    rules:
      embeddings: {LFW: lfw_embeddings.npz}           # sets; paths relative to the folder it is started in
      min_images: 5                                   # people with fewer images are those outside
      noise: [0, 0.2, 0.4, 0.6]                       # share of each person's images
      open_shares: {closed: 0, half: 0.5, open: 1}    # of the wrong images, the share of people outside
      sub_centers: [1, 3, 5, 10]
      restarts: [0]                                   # further starts of k-means
      angles: [50, 55, 60, 65, 70, 75, 80, 85]
      only_dominant: [false, true]
      others: [mean-of-others, dbscan]                # methods beside the sub-centers
    seeds: [0, 1, 2, 3, 4]

A cell is a set with one kind and rate of noise at one seed; its counts are a file in `cells/`, and a cell that is there
is not computed again. Without noise nothing is drawn, so there is one cell whatever the seeds.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path

import numpy as np

from studies.rules.cells import Cell, NoisySet, cell_counts, read_counts, write_counts
from studies.rules.figures import RuleFigure, figures_of, results_csv, results_plot, results_text
from verisphere.base.seeds import check_seed
from verisphere.base.vocabulary import NOBODY, Progress, Redrawing, check_word, quietly
from verisphere.base.words import unknown_name
from verisphere.decide.bootstrap import draws_of
from verisphere.files.definitions import read_based
from verisphere.files.disk import digest
from verisphere.files.documents import read_json_file
from verisphere.files.embeddings import read_embeddings
from verisphere.files.errors import errors_naming
from verisphere.files.json_values import from_json, shown
from verisphere.files.lock import alone_in
from verisphere.files.results import json_text
from verisphere.images.packs.columns import Coded
from verisphere.report.plots import save_plot
from verisphere.study.clean.from_embeddings import Finder
from verisphere.study.clean.rules import Rule
from verisphere.study.clean.spherical_k_means import unit_rows
from verisphere.study.experiments.arms import check_folders, folder_name
from verisphere.study.experiments.folder import write_text

RULES, SEEDS = "rules", "seeds"


@dataclass(frozen=True)
class RulesStudy:
    """The settings that a study compares; see the head of this file.

    Raises:
        ValueError: a value is outside its range, or a list is empty.
    """

    embeddings: dict[str, str]
    min_images: int = 5
    noise: tuple[float, ...] = (0.0, 0.2, 0.4, 0.6)
    open_shares: dict[str, float] = field(default_factory=lambda: {"closed": 0.0, "half": 0.5, "open": 1.0})
    sub_centers: tuple[int, ...] = (1, 3, 5, 10)
    restarts: tuple[int, ...] = (0,)
    angles: tuple[float, ...] = (50.0, 55.0, 60.0, 65.0, 70.0, 75.0, 80.0, 85.0)
    only_dominant: tuple[bool, ...] = (False, True)
    others: tuple[str, ...] = ("mean-of-others", "dbscan")
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)

    def __post_init__(self) -> None:
        lists = ("noise", "open_shares", "sub_centers", "restarts", "angles", "only_dominant", "seeds")
        for name in ("embeddings", *lists):
            values = getattr(self, name)
            if not values or (isinstance(values, tuple) and len(set(values)) < len(values)):
                listed = list(values) if isinstance(values, tuple) else values
                raise ValueError(f"{name} is {shown(listed)}; expected one or more values, each once")
        for rate in self.noise:
            if not 0 <= rate < 1:
                raise ValueError(f"noise has {rate}; a rate is at least 0 and below 1")
        for name, share in self.open_shares.items():
            if not 0 <= share <= 1:
                raise ValueError(f"open_shares has {name}: {share}; a share is from 0 to 1")
        if self.min_images < 2:
            raise ValueError(f"min_images is {self.min_images}; allowed is 2 or more")
        for method in self.others:
            check_word("others", method, ("mean-of-others", "dbscan"))
        check_folders("embeddings", self.embeddings)
        for seed in self.seeds:
            check_seed(seed)
        assert self.rules  # which check their own numbers

    @property
    def rules(self) -> dict[str, tuple[Finder, Rule]]:
        """The rules by their names.

        A single sub-center is always dominant, and every start of k-means finds the same one; so neither
        `only_dominant` nor `restarts` adds a rule for it.
        """
        rules = {}
        for sub_centers, restarts, only in product(self.sub_centers, self.restarts, self.only_dominant):
            if sub_centers == 1 and (only or restarts != self.restarts[0]):
                continue
            family = f"K = {sub_centers}" + (f" with {restarts} restarts" if restarts and sub_centers > 1 else "")
            for angle in self.angles:
                name = f"{family}, {angle:g}{', only dominant' if only else ''}"
                rules[name] = Finder(sub_centers=sub_centers, restarts=restarts), Rule(angle, only)
        for method in self.others:
            if method == "dbscan":
                rules["DBSCAN"] = Finder("dbscan"), Rule(None, only_dominant=True)
            else:
                finder = Finder("mean-of-others")
                rules |= {f"mean of others, {angle:g}": (finder, Rule(angle)) for angle in self.angles}
        return rules

    @property
    def cells(self) -> list[Cell]:
        """The cells, ordered so that those of one kind and rate of noise are neighbours."""
        return [
            Cell(name, kind if rate else "none", rate, seed)
            for name in self.embeddings
            for rate in sorted(self.noise)
            for kind in (self.open_shares if rate else ("none",))
            for seed in (self.seeds if rate else self.seeds[:1])
        ]


@dataclass(frozen=True)
class RulesResult:
    """The results of a study.

    Attributes:
        study: the settings that were compared.
        people: number of people of each set.
        images: number of their images.
        replicates: number of replicates of the bootstrap over people.
        figures: each figure of each rule under each noise.
    """

    study: RulesStudy
    people: dict[str, int]
    images: dict[str, int]
    replicates: int
    figures: list[RuleFigure]

    def text(self) -> str:
        """The tables, and how to read them."""
        sets = ", ".join(
            f"{name}: {self.images[name]:,} images of {people:,} people with {self.study.min_images} or more"
            for name, people in self.people.items()
        )
        return f"{sets}\n\n{results_text(self.figures, len(self.study.seeds), self.replicates)}"


def read_rules(path: Path, seeds: Sequence[int] | None = None) -> RulesStudy:
    """A study of rules from a file.

    Args:
        path: YAML file.
        seeds: replace the seeds of the file.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is not YAML, has no key `rules`, an unknown key or a wrong value.
    """
    content = read_based(path).content
    with errors_naming(path):
        if not isinstance(content, Mapping) or RULES not in content:
            raise ValueError("a study of rules has the key `rules`, and this file has none")
        fields = content[RULES]
        if not isinstance(fields, Mapping):
            raise ValueError(f"rules is {shown(fields)}; expected its fields, such as embeddings and noise")
        allowed = [name for name in RulesStudy.__dataclass_fields__ if name != SEEDS]
        for given, known in ((content, [RULES, SEEDS]), (fields, allowed)):
            for key in given:
                if key not in known:
                    raise ValueError(unknown_name("key", key, known))
        values = {**fields} | ({SEEDS: content[SEEDS]} if SEEDS in content else {})
        if seeds is not None:
            values[SEEDS] = list(seeds)
        return from_json(RulesStudy, values)


def run_rules(
    study: RulesStudy, out: Path, *, replicates: int = 1000, draws: int = 0, progress: Progress = quietly
) -> RulesResult:
    """Put noise into the embeddings, apply every rule, and count; a study that was stopped is continued.

    The folder `out` receives `cells/`, `results.csv`, `results.json` and `plots/SET.png`.

    Args:
        study: the settings that are compared.
        out: folder of the study; a new one, or that of the same study.
        replicates: number of replicates of the bootstrap over people.
        draws: seed of the bootstrap.
        progress: reports the progress over the cells.

    Raises:
        FileNotFoundError: there is no such embeddings file.
        ValueError: the folder belongs to another experiment, or an embeddings file has too few people.
    """
    redrawing = Redrawing(replicates, draws)
    sets = {name: _noisy_set(name, Path(path), study) for name, path in study.embeddings.items()}
    with alone_in(out):
        _open(out, study)
        counts = {}
        for cell in progress(study.cells, "cells", len(study.cells)):
            path = out / "cells" / f"{cell.file_name}.npz"
            if not path.is_file():
                share = study.open_shares.get(cell.kind, 0.0)
                write_counts(path, cell_counts(sets[cell.measured], cell, share, list(study.rules.values())))
            counts[cell] = read_counts(path, len(study.rules), sets[cell.measured].people)
        figures = []
        for name, noisy in sets.items():
            redrawn = np.concatenate(list(draws_of(noisy.people, redrawing)))
            of_set = {cell: found for cell, found in counts.items() if cell.measured == name}
            figures += figures_of(of_set, list(study.rules), noisy.sizes, redrawn)
        result = RulesResult(
            study,
            {name: noisy.people for name, noisy in sets.items()},
            {name: len(noisy.rows) for name, noisy in sets.items()},
            replicates,
            figures,
        )
        write_text(out / "results.csv", results_csv(figures))
        write_text(out / "results.json", json_text(result))
        for name in sets:
            if (plot := results_plot(figures, name)) is not None:
                (out / "plots").mkdir(exist_ok=True)
                save_plot(plot, out / "plots" / f"{folder_name(name)}.png")
    return result


def _noisy_set(name: str, path: Path, study: RulesStudy) -> NoisySet:
    """The people of an embeddings file with enough images, and the rows of everybody else.

    Raises:
        ValueError: fewer than two people have enough images, or too few rows are left for open-set noise.
    """
    embeddings = read_embeddings(path)
    rows = unit_rows(embeddings.embeddings)
    people, codes, sizes = np.unique(embeddings.identities, return_inverse=True, return_counts=True)
    enough = (sizes >= study.min_images) & (people != NOBODY)
    if enough.sum() < 2:
        raise ValueError(
            f"{path}: {enough.sum()} of {len(people):,} people have {study.min_images} images or more (min_images); "
            "noise takes at least two people"
        )
    inside = enough[codes]
    labels = (np.cumsum(enough) - 1)[codes[inside]]
    needed = max(study.noise) * max(study.open_shares.values()) * inside.sum() + enough.sum()
    if max(study.noise) * max(study.open_shares.values()) > 0 and (~inside).sum() < needed:
        raise ValueError(
            f"{path}: {(~inside).sum():,} images are of people with fewer than {study.min_images} (min_images); "
            f"open-set noise takes up to {needed:,.0f}; lower noise or open_shares"
        )
    identities = Coded(tuple(people[enough].tolist()), labels)
    return NoisySet(name, rows[inside], embeddings.names[inside].tolist(), identities, sizes[enough], rows[~inside])


def _open(out: Path, study: RulesStudy) -> None:
    """Create the folder of a study, or check that it belongs to this one; seeds and rates may be added.

    Raises:
        ValueError: the folder holds something else.
    """
    asked = {
        "embeddings": {name: digest(path) for name, path in study.embeddings.items()},
        "min_images": study.min_images,
        "open_shares": study.open_shares,
        "rules": {name: [asdict(finder), asdict(rule)] for name, (finder, rule) in study.rules.items()},
    }
    path = out / "plan.json"
    if path.is_file():
        before = read_json_file(path)
        for name, value in json.loads(json.dumps(asked)).items():
            known = before.get(name) if isinstance(before, Mapping) else None
            if known != value:
                raise ValueError(f"{path}: this folder holds another experiment: {name} differs; choose another --out")
    elif any(entry.name != ".lock" for entry in out.iterdir()):
        raise ValueError(f"{out}: it holds something, and no study of rules; choose another --out")
    write_text(path, json.dumps(asked, indent=2) + "\n")
