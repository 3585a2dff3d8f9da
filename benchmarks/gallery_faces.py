"""LFW as a population: its people, galleries and strangers, and what the threshold of a gallery does with them."""

import io
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from gallery_pools import Pool, Row, coverage, spread_of

from verisphere.base.vocabulary import Embeddings
from verisphere.decide import STATISTICS, gallery_threshold
from verisphere.files.embeddings import read_embeddings, write_embeddings
from verisphere.models.gallery import Cohort, Gallery, Searched

#: Two centers with a higher cosine are one person under two names; 37 pairs, each of which was looked at
#: (docs/lab/cleaning.md).
ONE_PERSON = 0.6
#: Sisters, brothers and twins among these pairs, who are two people.
TWINS = (
    ("Carolina_Moraes", "Isabela_Moraes"),
    ("Claire_Hentzen", "Morgan_Hentzen"),
    ("Ashley_Olsen", "Mary-Kate_Olsen"),
    ("Tamara_Mowry", "Tia_Mowry"),
    ("James_Phelps", "Oliver_Phelps"),
)
#: Further ones by their names.
SIBLINGS = (
    *TWINS,
    ("Serena_Williams", "Venus_Williams"),
    ("Ahmed_Ibrahim_Bilal", "Muhammad_Ibrahim_Bilal"),
)
COHORT = 500
RULES = tuple(rule for rule in STATISTICS if rule != "median")  # with one enrolled photograph each it is best


def unit(rows: np.ndarray) -> np.ndarray:
    """Rows at length 1."""
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


@dataclass(frozen=True, eq=False)
class Split:
    """A gallery and everybody else.

    Attributes:
        enrolled: numbers of the people of the gallery.
        others: numbers of everybody else, in random order.
    """

    enrolled: np.ndarray
    others: np.ndarray


class Faces:
    """The people of an embeddings file; the photographs of each are in the order of their names.

    Args:
        name: what the population is called.
        rows: the embeddings of all photographs.
        names: names of the photographs.
        identities: name of the person on each.
        without: names of people to exclude.
    """

    def __init__(
        self, name: str, rows: np.ndarray, names: np.ndarray, identities: np.ndarray, without: Sequence[str] = ()
    ) -> None:
        order = np.lexsort((names, identities))
        order = order[~np.isin(identities[order], list(without))]
        self.name, self.units, self.names = name, unit(rows[order].astype(np.float64)), names[order]
        self.people, self.first, self.count = np.unique(identities[order], return_index=True, return_counts=True)

    @classmethod
    def read(cls, name: str, path: Path, without: Sequence[str] = ()) -> "Faces":
        """The people of a file."""
        read = read_embeddings(path)
        return cls(name, read.embeddings, read.names, read.identities, without)

    def duplicates(self) -> list[str]:
        """A name of each two that one person has, by the centers of the photographs."""
        center = unit(np.add.reduceat(self.units, self.first))
        left, right = np.nonzero(np.triu(center @ center.T > ONE_PERSON, 1))
        pairs = [(str(self.people[a]), str(self.people[b])) for a, b in zip(left, right, strict=True)]
        return sorted({pair[1] for pair in pairs if pair not in TWINS})

    def rows(self, people: np.ndarray, photograph: int = 0) -> np.ndarray:
        """One photograph of each of these people: the first is number 0."""
        return self.units[self.first[people] + photograph]

    def split(self, random: np.random.Generator, size: int, photographs: int = 1) -> Split:
        """A random gallery of people with so many photographs, and everybody else."""
        fit = random.permutation(np.nonzero(self.count >= photographs)[0])
        others = np.setdiff1d(np.arange(len(self.people)), fit[:size])
        return Split(fit[:size], random.permutation(others))

    def gallery(self, people: np.ndarray) -> Gallery:
        """The gallery of the first photographs; its people are numbered as here."""
        order = np.sort(people)
        return Gallery(Embeddings(self.rows(order), identities=self.people[order]))

    def cohort(self, people: np.ndarray) -> Cohort:
        """Their first photographs as a cohort."""
        return Cohort.of(Embeddings(self.rows(people), identities=self.people[people]))

    @cached_property
    def mated(self) -> np.ndarray:
        """Numbers of the people with two photographs or more."""
        return np.nonzero(self.count > 1)[0]


def write_example(everybody: Faces, folder: Path) -> None:
    """The files of the example in docs/galleries.md: a gallery of 1,000 people of LFW as it is, probes, and strangers.

    `later.npz` is the gallery with 100 of its people gone, and 100 others enrolled.
    """
    random = np.random.default_rng(0)
    split = everybody.split(random, 1_000, photographs=2)
    strangers, joined = np.split(split.others, [900])
    parts = {
        "people": (split.enrolled, 0),
        "probes": (split.enrolled, 1),
        "strangers": (strangers, 0),
        "later": (np.concatenate([split.enrolled[100:], joined[:100]]), 0),
    }
    for name, (people, photograph) in parts.items():
        rows = everybody.first[np.sort(people)] + photograph
        identities = everybody.people[np.sort(people)]
        write_embeddings(folder / f"{name}.npz", Embeddings(everybody.units[rows], everybody.names[rows], identities))


def search(gallery: Gallery, rows: np.ndarray, rule: str, cohort: Cohort | None) -> Searched:
    """The statistic of each probe by a rule, which takes the cohort if it needs one."""
    return gallery.search(rows.astype(np.float32), rule, cohort if STATISTICS[rule].cohort is not None else None)


def found_as(faces: Faces, gallery: Gallery, people: np.ndarray, rule: str, cohort: Cohort | None = None) -> np.ndarray:
    """The statistics of the second photographs of enrolled people; minus infinity where another person is named."""
    searched = search(gallery, faces.rows(people, 1), rule, cohort)
    return np.where(gallery.people[searched.person] == faces.people[people], searched.statistic, -np.inf)


def covered(faces: Faces, sizes: Sequence[int], rates: Sequence[str], galleries: int, runs: int) -> Iterator[Row]:
    """Coverage with LFW's people as the population; every rule at 100 people."""
    for people in sizes:
        for rule in RULES if people == 100 else ("best",):
            random = np.random.default_rng([5, people, RULES.index(rule)])
            pools = []
            for _ in range(galleries):
                split = faces.split(random, people)
                cohort, strangers = np.split(split.others, [COHORT])
                statistic = search(faces.gallery(split.enrolled), faces.rows(strangers), rule, faces.cohort(cohort))
                pools.append(Pool(statistic.statistic))
            asked = rates if rule == "best" else ["1e-2"]
            yield from coverage("coverage, LFW", faces.name, people, pools, asked, runs, random, rule)


def to_buy(faces: Faces, size: int, numbers: Sequence[int], splits: int) -> Iterator[Row]:
    """TPIR, and FPIR on everybody else, by the number of strangers, at FPIR 1e-2 with 95 % confidence."""
    found: dict[int, list[tuple[float, float]]] = {count: [] for count in numbers}
    random = np.random.default_rng(6)
    for _ in range(splits):
        split = faces.split(random, size, photographs=2)
        gallery = faces.gallery(split.enrolled)
        probes = found_as(faces, gallery, split.enrolled, "best")
        strangers = search(gallery, faces.rows(split.others), "best", None).statistic
        for count in numbers:
            threshold = gallery_threshold(strangers[:count], "1e-2", people=size).threshold
            found[count].append((float((probes > threshold).mean()), Pool(strangers[count:]).rate(threshold)))
    for count, results in found.items():
        about = ("strangers to buy", faces.name, "best, confident", size, "1e-2", count)
        tpir, fpir = np.array(results).T
        yield Row(*about, "TPIR", *spread_of(tpir), splits)
        yield Row(*about, "FPIR of the rest / f", *spread_of(fpir / 0.01), splits)


def grown(faces: Faces, sizes: Sequence[int], galleries: int, runs: int) -> Iterator[Row]:
    """FPIR after people joined a gallery, of thresholds from before."""
    strangers = 1_000
    for size in sizes:
        random = np.random.default_rng([7, size])
        results: dict[int, list[tuple[float, float]]] = {}
        for _ in range(galleries):
            split = faces.split(random, 2 * size)
            scores = faces.rows(split.others) @ faces.rows(split.enrolled).T
            before = Pool(scores[:, :size].max(1))
            thresholds = [
                gallery_threshold(before.draw(random, strangers), "1e-2", people=size).threshold for _ in range(runs)
            ]
            for share in (0.1, 0.5, 1.0):
                joined = max(round(share * size), 1)
                after = Pool(scores[:, : size + joined].max(1))
                results.setdefault(joined, []).extend((before.rate(at), after.rate(at)) for at in thresholds)
        for joined, rates in results.items():
            about = ("growth", faces.name, f"+{joined} people", size, "1e-2", strangers)
            old, new = np.array(rates).T
            yield Row(*about, "law", 1 + joined / size)
            yield Row(*about, "mean FPIR / mean before", float(new.mean() / old.mean()), runs=len(new))
            held = np.mean(new <= (1 + joined / size) * 0.01)
            yield Row(*about, "held at law x f", float(held), runs=len(new))


def others_in_use(faces: Faces, size: int, splits: int) -> Iterator[Row]:
    """Strangers in use who are relatives of enrolled people, made up by mixing rows; and LFW's own, by their names."""
    random = np.random.default_rng(8)
    mixed: dict[float, list[float]] = {share: [] for share in (0.0, 0.1, 0.3, 0.5)}
    real: list[bool] = []
    number = {str(name): place for place, name in enumerate(faces.people)}
    pairs = [(number[a], number[b]) for a, b in SIBLINGS if a in number and b in number]
    for _ in range(splits):
        split = faces.split(random, size)
        strangers = np.setdiff1d(split.others, np.ravel(pairs))
        random.shuffle(strangers)
        base = np.setdiff1d(split.enrolled, np.ravel(pairs))
        enrolled = np.concatenate([base, [a for a, _ in pairs]])  # one of each two is enrolled, the other searches
        gallery = faces.gallery(enrolled)
        statistic = search(gallery, faces.rows(strangers), "best", None).statistic
        threshold = gallery_threshold(statistic[:1_000], "1e-2", people=len(enrolled)).threshold
        real.extend(search(gallery, faces.rows(np.array([b for _, b in pairs])), "best", None).statistic > threshold)
        rest = faces.rows(strangers[1_000:])
        relatives = faces.rows(random.choice(base, len(rest)))
        for share, found in mixed.items():
            statistic = search(gallery, unit(rest + share * relatives), "best", None).statistic
            found.append(Pool(statistic).rate(threshold) / 0.01)
    part = "assumption does not hold"
    for share, found in mixed.items():
        case = f"relatives: rows mixed with {share:g} of an enrolled person's" if share else "as calibrated"
        yield Row(part, faces.name, case, size, "1e-2", 1_000, "FPIR / f", *spread_of(found), splits)
    case = f"the {len(pairs)} pairs of siblings in LFW, one of each enrolled"
    yield Row(part, faces.name, case, size, "1e-2", 1_000, "FPIR / f", float(np.mean(real)) / 0.01, runs=len(real))


def blurred(image: bytes) -> np.ndarray:
    """A face at a quarter of the width and height, enlarged again."""
    from PIL import Image

    face = Image.open(io.BytesIO(image)).convert("RGB")
    return np.asarray(face.resize((28, 28), Image.Resampling.BOX).resize((112, 112), Image.Resampling.BICUBIC))


def grey(image: bytes) -> np.ndarray:
    """A face without colour, and of half the contrast."""
    from PIL import Image

    face = np.asarray(Image.open(io.BytesIO(image)).convert("L"), np.float64)
    return np.repeat((face / 2 + 64)[..., None], 3, 2).astype(np.uint8)


def other_camera(faces: Faces, model: Path, images: Path, size: int, count: int, splits: int) -> Iterator[Row]:
    """Strangers and probes in use that a worse camera took, and perhaps the gallery; calibrated on the better one."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    network = onnxruntime.InferenceSession(str(model), options)
    random = np.random.default_rng(9)
    some = random.permutation(len(faces.people))[:count]  # strangers in use, of every split
    mated = random.permutation(np.setdiff1d(faces.mated, some))[:size]
    with zipfile.ZipFile(images) as archive:
        files = {name.rpartition(".")[0]: name for name in archive.namelist()}
        for name, change in (("28 x 28 pixels", blurred), ("grey, half the contrast", grey)):

            def embedded(rows: np.ndarray, change=change) -> np.ndarray:
                found = []
                for row in rows:
                    image = change(archive.read(files[str(faces.names[row]).rpartition(".")[0]]))
                    pixels = np.ascontiguousarray(image.transpose(2, 0, 1)[None], np.float32)
                    found.append(network.run(None, {network.get_inputs()[0].name: pixels})[0][0])
                return unit(np.array(found, np.float64))

            order = np.sort(mated)
            changed, of_probes = embedded(faces.first[some]), embedded(faces.first[order] + 1)
            rest = np.setdiff1d(np.arange(len(faces.people)), np.concatenate([some, mated]))
            same = Gallery(Embeddings(embedded(faces.first[order]), identities=faces.people[order]))
            for where, gallery in (("strangers and probes", faces.gallery(mated)), ("the gallery too", same)):
                statistic = search(gallery, faces.rows(rest), "best", None).statistic
                found = Pool(search(gallery, changed, "best", None).statistic)
                named = search(gallery, of_probes, "best", None)
                right = gallery.people[named.person] == faces.people[order]
                results = []
                for _ in range(splits):
                    drawn = random.permutation(statistic)[:1_000]
                    threshold = gallery_threshold(drawn, "1e-2", people=size).threshold
                    results.append(
                        (found.rate(threshold) / 0.01, float((right & (named.statistic > threshold)).mean()))
                    )
                case = f"another camera, {name}: {where}"
                about = ("assumption does not hold", faces.name, case, size, "1e-2", 1_000)
                for figure, numbers in zip(("FPIR / f", "TPIR"), zip(*results, strict=True), strict=True):
                    yield Row(*about, figure, *spread_of(numbers), splits)


def chosen_on_strangers(faces: Faces, size: int, numbers: Sequence[int], galleries: int, runs: int) -> Iterator[Row]:
    """How often a threshold holds whose rule was chosen by TPIR with the calibration's own strangers."""
    random = np.random.default_rng(10)
    found: dict[int, list[tuple[float, float, float]]] = {count: [] for count in numbers}
    for _ in range(galleries):
        split = faces.split(random, size, photographs=2)
        outside, strangers = np.split(split.others, [COHORT])
        gallery, cohort = faces.gallery(split.enrolled), faces.cohort(outside)
        of_rule = [search(gallery, faces.rows(strangers), rule, cohort).statistic for rule in RULES]
        probes = [found_as(faces, gallery, split.enrolled, rule, cohort) for rule in RULES]
        pools = [Pool(statistic) for statistic in of_rule]
        for count in numbers:
            for _ in range(runs):
                drawn = random.integers(len(strangers), size=count)
                at = [gallery_threshold(part[drawn], "1e-2", people=size).threshold for part in of_rule]
                tpirs = [float((part > threshold).mean()) for part, threshold in zip(probes, at, strict=True)]
                best = int(np.argmax(tpirs))
                lowest = max(pool.rate(threshold) for pool, threshold in zip(pools, at, strict=True))
                found[count].append((pools[best].rate(at[best]), pools[0].rate(at[0]), lowest))
    for count, rates in found.items():
        for case, values in zip(
            ("chosen by TPIR", "best, chosen before", "the luckiest of all"), np.array(rates).T, strict=True
        ):
            about = ("assumption does not hold", faces.name, f"rule: {case}", size, "1e-2", count)
            yield Row(*about, "held", float((values <= 0.01).mean()), runs=len(values))
            yield Row(*about, "FPIR / f", *spread_of(values / 0.01), len(values))
