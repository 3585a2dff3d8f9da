"""Recognises in a folder the published sets that are no lists of pairs, and makes a task of the suite from each.

These are sets of templates, which are several images of a person (IJB-B and IJB-C), of galleries with distractors
(TinyFace, MegaFace), and of groups of people (MFR, OneFace). A task names the images to embed, the evaluation of their
embeddings, and the command that does the same.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from verisphere.base.vocabulary import NOBODY
from verisphere.files.ijb import IjbFiles
from verisphere.files.image_suffixes import SUFFIXES
from verisphere.files.images_json import read_source
from verisphere.files.json_values import shown
from verisphere.files.results import Result
from verisphere.files.text import numbered_lines
from verisphere.images.packs.folders import read_folder
from verisphere.images.packs.image_files import image_files
from verisphere.measure.distractors import DistractorOptions, evaluate_distractors
from verisphere.measure.evaluate import Options, evaluate_all_pairs
from verisphere.measure.identification import IdentificationOptions, evaluate_galleries
from verisphere.measure.ijb import IjbOptions, evaluate_ijb
from verisphere.measure.suite.images import SetImages, find_images
from verisphere.measure.suite.listed_sets import lists_below
from verisphere.measure.suite.task import SuiteOptions, Task

#: FARs at which IJB-B and IJB-C are published.
IJB_FARS = ("1e-6", "1e-5", "1e-4", "1e-3", "1e-2", "1e-1")
#: FARs at which MegaFace and MFR are published.
FARS = ("1e-6",)
TINYFACE_RANKS = (1, 5, 10, 20)
MEGAFACE_RANKS = (1, 10)


# --- IJB-B, IJB-C ---


def find_ijb(place: Path, prefix: str) -> Iterator[Task]:
    """IJB-B or IJB-C as InsightFace lays them out: loose crops, and `meta` with templates, media, pairs, galleries.

    The names of its files begin with `prefix`: `ijbb` or `ijbc`.
    """
    for meta in lists_below(place, f"meta/{prefix}_face_tid_mid.txt")[:1]:
        pairs = meta.with_name(f"{prefix}_template_pair_label.txt")
        scores = meta.with_name(f"{prefix}_name_5pts_score.txt")
        probes = meta.with_name(f"{prefix}_1N_probe_mixed.csv")
        galleries = sorted(meta.parent.glob(f"{prefix}_1N_gallery_*.csv")) if probes.is_file() else []
        files = IjbFiles(
            meta,
            pairs,
            scores if scores.is_file() else None,
            tuple(galleries),
            probes if galleries else None,
        )
        yield Task(
            prefix,
            place,
            {prefix: partial(_loose_crops, meta, scores, place)},
            partial(_evaluate_ijb, files=files),
            partial(_command_of_ijb, files=files),
            notes=(*_lacking(files, scores, probes), *_further(place, f"meta/{prefix}_face_tid_mid.txt")),
        )


def _further(place: Path, pattern: str) -> Iterator[str]:
    """Other files of the same set in a folder, which are not measured."""
    for path in lists_below(place, pattern)[1:]:
        yield f"{path.relative_to(place)} is a second one of this set and was not measured; give it a folder of its own"


def _lacking(files: IjbFiles, scores: Path, probes: Path) -> Iterator[str]:
    """The published files that this folder lacks."""
    if files.scores is None:
        yield f"{scores.name} is not there, so images are not aligned by its points, and faces are weighed alike"
    if files.probes is None:
        lacking = "the galleries are" if probes.is_file() else f"{probes.name} is"
        yield f"{lacking} not there, so nothing is identified (1:N)"
    elif len(files.galleries) == 1:
        yield f"{files.galleries[0].name} is the only gallery, where the published protocol has the mean over two"


def _evaluate_ijb(embeddings: Sequence[Path], options: SuiteOptions, *, files: IjbFiles) -> Result:
    asked = IjbOptions(
        fars=options.fars or IJB_FARS,
        rule=options.rule,
        progress=options.progress,
        feature_norm=options.feature_norm,
    )
    return evaluate_ijb(embeddings[0], files, asked)


def _command_of_ijb(embeddings: Sequence[Path], options: SuiteOptions, *, files: IjbFiles) -> list[str]:
    words = ["verisphere", "evaluate", "ijb", str(embeddings[0]), "--meta", str(files.meta)]
    words += ["--pairs", str(files.pairs)]
    if files.scores is not None:
        words += ["--scores", str(files.scores)]
    for gallery in files.galleries:
        words += ["--gallery", str(gallery)]
    if files.probes is not None:
        words += ["--probes", str(files.probes)]
    return words + options.words(options.fars or IJB_FARS)


def _loose_crops(meta: Path, scores: Path, place: Path, root: Path) -> SetImages:
    """The images of the templates, each once; with a file of points they are aligned by these, as InsightFace does."""
    names = list(dict.fromkeys(text.rsplit(None, 2)[0] for _, text in numbered_lines(meta)))
    where, files, positions = find_images(names, place, root)
    listed = files.keep(np.concatenate(positions))
    points = _points(scores, names) if scores.is_file() else None
    nobody = (NOBODY,) * len(names)
    return SetImages(listed, tuple(names), nobody, read_source(where, listed.names), points=points)


def _points(path: Path, names: Sequence[str]) -> Float64[np.ndarray, "images 5 2"]:
    """The five points of each image: `image x1 y1 ... x5 y5 score` a line."""
    points: dict[str, list[float]] = {}
    for line, text in numbered_lines(path):
        image, *numbers = text.rsplit(None, 11)
        try:
            places = [float(number) for number in numbers[:10]]
        except ValueError:
            places = []
        if len(numbers) != 11 or not np.isfinite(places or np.nan).all():
            raise ValueError(f"{path}: line {line}: {shown(text, 100)} is not `image x1 y1 ... x5 y5 score`")
        if points.setdefault(image, places) != places:
            raise ValueError(f"{path}: line {line}: {shown(image, 100)} has other points on an earlier line")
    if missing := [name for name in names if name not in points]:
        raise ValueError(f"{path}: no points of {len(missing):,} images, the first {shown(missing[0], 200)}")
    return np.array([points[name] for name in names]).reshape(-1, 5, 2)


# --- galleries with distractors ---


def find_tinyface(place: Path) -> Iterator[Task]:
    """TinyFace: probes, the gallery of their people, distractors; a file's name begins with its person's number."""
    for gallery in lists_below(place, "Testing_Set/Gallery_Match")[:1]:
        folders = {"probes": "Probe", "gallery": gallery.name, "distractors": "Gallery_Distractor"}
        yield Task(
            "tinyface",
            place,
            {
                f"tinyface-{part}": partial(_numbered_people, gallery.with_name(name), known=part != "distractors")
                for part, name in folders.items()
            },
            _evaluate_tinyface,
            _command_of_tinyface,
            notes=tuple(_further(place, "Testing_Set/Gallery_Match")),
        )


def _evaluate_tinyface(embeddings: Sequence[Path], options: SuiteOptions) -> Result:
    probes, gallery, distractors = embeddings
    asked = IdentificationOptions(
        fpirs=(),
        ranks=TINYFACE_RANKS,
        rule=options.rule,
        progress=options.progress,
        feature_norm=options.feature_norm,
    )
    return evaluate_galleries(probes, [gallery], asked, distractors=[distractors])


def _command_of_tinyface(embeddings: Sequence[Path], options: SuiteOptions) -> list[str]:
    probes, gallery, distractors = map(str, embeddings)
    ranks = [word for rank in TINYFACE_RANKS for word in ("--rank", str(rank))]
    words = ["verisphere", "evaluate", "identification", probes, "--gallery", gallery, "--distractors", distractors]
    return [*words, "--closed-set", *ranks, *options.words(())]


def _numbered_people(folder: Path, root: Path, *, known: bool) -> SetImages:
    """The images of a folder; the person is the number at the start of a name, or nobody among distractors."""
    files = image_files(folder)
    people = tuple(name.rsplit("/", 1)[-1].split("_")[0] if known else NOBODY for name in files.names)
    return SetImages(files, tuple(files.names), people, read_source(folder, files.names))


def find_megaface(place: Path) -> Iterator[Task]:
    """MegaFace: lists of probes and of distractors, their images, and lists of the noisy ones."""
    for probes in lists_below(place, "facescrub_lst")[:1]:
        lists = {"probes": probes, "distractors": probes.with_name("megaface_lst")}
        noise = {
            side: path
            for side, name in (("noisy_probes", "facescrub"), ("noisy_distractors", "megaface"))
            if (path := probes.with_name(f"{name}_noises.txt")).is_file()
        }
        yield Task(
            "megaface",
            place,
            {
                f"megaface-{part}": partial(_listed_photos, path, place, known=part == "probes")
                for part, path in lists.items()
            },
            partial(_evaluate_megaface, noise=noise),
            partial(_command_of_megaface, noise=noise),
            notes=tuple(_further(place, "facescrub_lst")),
        )


def _evaluate_megaface(embeddings: Sequence[Path], options: SuiteOptions, *, noise: Mapping[str, Path]) -> Result:
    asked = DistractorOptions(
        fars=options.fars or FARS,
        ranks=MEGAFACE_RANKS,
        rule=options.rule,
        feature_norm=options.feature_norm,
        progress=options.progress,
        noisy_probes=noise.get("noisy_probes"),
        noisy_distractors=noise.get("noisy_distractors"),
    )
    return evaluate_distractors("megaface", embeddings[0], [embeddings[1]], asked)


def _command_of_megaface(embeddings: Sequence[Path], options: SuiteOptions, *, noise: Mapping[str, Path]) -> list[str]:
    words = ["verisphere", "evaluate", "distractors", "--layout", "megaface"]
    words += [str(embeddings[0]), "--distractors", str(embeddings[1])]
    words += [word for side, path in noise.items() for word in (f"--{side.replace('_', '-')}", str(path))]
    words += [word for rank in MEGAFACE_RANKS for word in ("--rank", str(rank))]
    return words + options.words(options.fars or FARS)


def _listed_photos(path: Path, place: Path, root: Path, *, known: bool) -> SetImages:
    """The images of a list, one a line; the person is the folder of an image, or nobody among distractors."""
    names = list(dict.fromkeys(text for _, text in numbered_lines(path)))
    if not names:
        raise ValueError(f"{path}: it lists no image")
    where, files, positions = find_images(names, place, root)
    listed = files.keep(np.concatenate(positions))
    if known and any("/" not in name for name in names):
        raise ValueError(f"{path}: a line is `Name/image`, with the folder of the person")
    people = tuple(name.split("/")[-2] if known else NOBODY for name in names)
    return SetImages(listed, tuple(names), people, read_source(where, listed.names))


# --- groups ---


def find_groups(place: Path) -> Iterator[Task]:
    """A folder of groups, `GROUP/Name/image`: all pairs, together and by group (MFR's multi-racial test, OneFace)."""
    groups = [path for path in _folders(place) if any(_holds_images(person) for person in _folders(path)[:1])]
    if len(groups) > 1:
        yield Task(
            place.name,
            place,
            {place.name: partial(_in_groups, place)},
            _evaluate_groups,
            lambda embeddings, options: [
                "verisphere",
                "evaluate",
                "all-pairs",
                str(embeddings[0]),
                *options.words(options.fars or FARS),
            ],
        )


def _evaluate_groups(embeddings: Sequence[Path], options: SuiteOptions) -> Result:
    fars, norm = options.fars or FARS, options.feature_norm
    return evaluate_all_pairs(embeddings[0], Options(fars, options.rule, progress=options.progress, feature_norm=norm))


def _in_groups(place: Path, root: Path) -> SetImages:
    pack = read_folder(place)
    if pack.domains is None:
        raise ValueError(f"{place}: images are not in groups; the layout is GROUP/Name/image")
    return SetImages(pack.files, tuple(pack.names), tuple(pack.identities), pack.source, tuple(pack.domains))


def _folders(place: Path) -> list[Path]:
    return sorted(path for path in place.iterdir() if path.is_dir() and not path.name.startswith("."))


def _holds_images(place: Path) -> bool:
    with os.scandir(place) as entries:
        return any(entry.is_file() and entry.name.lower().endswith(SUFFIXES) for entry in entries)
