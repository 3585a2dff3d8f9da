"""The table of published sets: how each is recognised in a folder, and the function that finds it."""

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from verisphere.base.identity import decided, folded
from verisphere.base.vocabulary import NOBODY, printable
from verisphere.files.errors import errors_naming
from verisphere.files.ijb import IjbFiles
from verisphere.files.image_suffixes import SUFFIXES
from verisphere.files.images_json import read_source
from verisphere.files.json_values import shown
from verisphere.files.pair_lists.layouts import read_pairs
from verisphere.files.pair_lists.pair_list import PairList
from verisphere.files.results import Result
from verisphere.files.text import numbered_lines
from verisphere.images.packs.bin_pairs import BIN
from verisphere.images.packs.columns import spelled_once
from verisphere.images.packs.folders import read_folder
from verisphere.images.packs.image_files import image_files
from verisphere.measure.distractors import DistractorOptions, evaluate_distractors
from verisphere.measure.evaluate import Options, evaluate_all_pairs
from verisphere.measure.identification import IdentificationOptions, evaluate_galleries
from verisphere.measure.ijb import IjbOptions, evaluate_ijb
from verisphere.measure.listed import evaluate_pairs
from verisphere.measure.suite.images import SetImages, find_images
from verisphere.measure.suite.task import SuiteOptions, Task

log = logging.getLogger(__name__)

#: FARs at which the sets of the LFW family are published; their few thousand impostors resolve no lower ones.
FARS = ("1e-2", "1e-3")
_VIEW_2 = 6_000  # pairs of LFW's View 2
_RFW_GROUPS = ("African", "Asian", "Caucasian", "Indian")


def lists_below(place: Path, pattern: str) -> list[Path]:
    """Files and folders of a set that fit a pattern, in its folder or else one level below."""
    for levels in ("", "*/"):
        if paths := sorted(place.glob(levels + pattern)):
            return paths
    return []


def find_listed(place: Path, pattern: str, name: str = "", note: str = "") -> Iterator[Task]:
    """A set with a list of pairs, whose images lie anywhere below the set's folder.

    Where several folders below that one have such a list, each is a set with the name of its folder after that of the
    first, and its images are looked for in its own folder first. `pattern` is the list, a file or, as for CFP and RFW,
    a folder. `note` is a remark on a peculiarity of the published list; if it is given, repeated pairs are kept.
    """
    paths = lists_below(place, pattern)
    for path in paths:
        title = part = name or place.name
        below = path.relative_to(place).parts[0]
        if path != paths[0]:
            title, part = f"{title} ({place.name}/{below})", f"{title}-{place.name}-{below}"
        home = place / below if len(paths) > 1 else place
        yield pairs_task(title, place, {part: partial(_listed_images, path, home)}, (path,), note)


def find_lfw(place: Path) -> Iterator[Task]:
    """LFW: a `pairs.txt` with the numbers of View 2, or in a folder named LFW; any other takes its folder's name.

    The name `pairs.txt` alone does not identify a list of LFW, and only LFW may count for the combined figure.
    """
    lists = lists_below(place, "pairs.txt")
    called_so = re.search(r"(?<![a-z])lfw", place.name.lower()) is not None
    view_2 = any(_is_view_2(path) for path in lists if path.is_file())
    yield from find_listed(place, "pairs.txt", "lfw" if called_so or view_2 else "")


def _is_view_2(path: Path) -> bool:
    """Whether a list has the header of LFW's View 2, ten folds of 300 pairs of a kind, or as many lines without it."""
    try:
        lines = [text for _, text in numbered_lines(path)]
    except (ValueError, OSError):
        return False  # its faults are reported where it is read
    return len(lines) == _VIEW_2 or (len(lines) == _VIEW_2 + 1 and lines[0].split() == ["10", "300"])


def find_rfw(place: Path) -> Iterator[Task]:
    """RFW, with a note if lists of its four groups are missing."""
    for task in find_listed(place, "test/txts", "rfw"):
        there = {path.parent.name for path in task.pairs[0].glob("*/*_pairs.txt")}
        lacking = [group for group in _RFW_GROUPS if group not in there]
        note = f"of the published groups, {', '.join(lacking)} {'is' if len(lacking) == 1 else 'are'} not there"
        yield replace(task, notes=(note,)) if lacking else task


def find_bin(place: Path) -> Iterator[Task]:
    """A verification set of InsightFace, which is one file."""
    if place.suffix.lower() == ".bin" and place.is_file():
        yield pairs_task(place.stem, place, {place.stem: partial(_packed_images, place)}, (place,))


def pairs_task(
    name: str, place: Path, parts: dict[str, Callable[[Path], SetImages]], lists: tuple[Path, ...], note: str = ""
) -> Task:
    """A set that `verisphere evaluate pairs` measures; several lists are pooled, each a domain.

    There is one list for each part. `note` is what is unusual about the list; if it is given, repeated pairs are kept.
    """
    return Task(
        name,
        place,
        parts,
        partial(evaluate_lists, lists=lists, keep_repeated=bool(note)),
        partial(command_of_lists, lists=lists, keep_repeated=bool(note)),
        lists,
        (note,) if note else (),
    )


def evaluate_lists(
    embeddings: Sequence[Path], options: SuiteOptions, *, lists: Sequence[Path], keep_repeated: bool
) -> Result:
    """The figures of lists of pairs, each with its embeddings file."""
    asked = Options(
        options.fars or FARS,
        options.rule,
        progress=options.progress,
        keep_repeated=keep_repeated,
        feature_norm=options.feature_norm,
    )
    if len(lists) == 1:
        return evaluate_pairs(embeddings[0], lists[0], asked)
    return evaluate_pairs(list(embeddings), list(lists), asked)


def command_of_lists(
    embeddings: Sequence[Path], options: SuiteOptions, *, lists: Sequence[Path], keep_repeated: bool
) -> list[str]:
    """The command that repeats `evaluate_lists`."""
    words = ["verisphere", "evaluate", "pairs", *map(str, embeddings)]
    words += [word for path in lists for word in ("--pairs", str(path))] + options.words(options.fars or FARS)
    return [*words, "--keep-repeated"] if keep_repeated else words


def _listed_images(path: Path, place: Path, root: Path) -> SetImages:
    """Every image that a list names, once, in the order of the list; for videos every frame.

    The person of an image is its folder, if it has one folder and no label of the list contradicts that; else only the
    list states who is compared.
    """
    pairs = read_pairs(path)
    names = list(dict.fromkeys(name for pair in zip(pairs.left, pairs.right, strict=True) for name in pair))
    where, files, positions = find_images(names, place, root, pairs.videos)
    listed = files.keep(np.concatenate(positions))
    source = read_source(where, listed.names)
    if not pairs.videos:
        return SetImages(listed, tuple(names), _people_by_folder(pairs, names), source)
    videos = tuple(name for name, frames in zip(names, positions, strict=True) for _ in frames)
    frames = (f"{video}/{path.rpartition('/')[2]}" for video, path in zip(videos, listed.names, strict=True))
    return SetImages(listed, tuple(frames), (NOBODY,) * len(videos), source, templates=videos)


def _people_by_folder(pairs: PairList, names: Sequence[str]) -> tuple[str, ...]:
    folders = [name.split("/")[0] if name.count("/") == 1 else NOBODY for name in names]
    person = dict(zip(names, folders, strict=True))

    def contradicted(form: Callable[[str], str]) -> int:
        sides = zip(pairs.left, pairs.right, pairs.genuine, strict=True)
        both = ((form(person[left]), form(person[right]), genuine) for left, right, genuine in sides)
        return sum(NOBODY not in (left, right) and (left == right) != genuine for left, right, genuine in both)

    if not (contradicted(str) and contradicted(folded)):  # else they are no people, however they are spelled
        with errors_naming(pairs.source):
            person = dict(zip(names, spelled_once(folders, names, decided()), strict=True))
    if wrong := contradicted(folded if decided() == "merge" else str):
        log.warning(
            "%s: folders are not taken for people, which %s, nor compared with the training's people",
            printable(str(pairs.source)),
            "1 label contradicts" if wrong == 1 else f"{wrong:,} labels contradict",
        )
    return tuple(NOBODY if wrong else person[name] for name in names)


def _packed_images(path: Path, root: Path) -> SetImages:
    pack = BIN.read(path)
    return SetImages(pack.files, tuple(pack.names), tuple(pack.identities), pack.source)


#: FARs at which IJB-B and IJB-C are published.
IJB_FARS = ("1e-6", "1e-5", "1e-4", "1e-3", "1e-2", "1e-1")
#: FARs at which MegaFace and MFR are published.
SEARCHED_FARS = ("1e-6",)
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
        fars=options.fars or SEARCHED_FARS,
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
    return words + options.words(options.fars or SEARCHED_FARS)


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
                *options.words(options.fars or SEARCHED_FARS),
            ],
        )


def _evaluate_groups(embeddings: Sequence[Path], options: SuiteOptions) -> Result:
    fars, norm = options.fars or SEARCHED_FARS, options.feature_norm
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


@dataclass(frozen=True)
class KnownSet:
    """The description by which a published set is recognised.

    `find` returns the tasks of a sub-folder, or of a file beside the sub-folders; empty if it is another set.
    """

    name: str
    recognised: str
    find: Callable[[Path], Iterator[Task]]


def _listed(name: str, pattern: str, note: str = "") -> KnownSet:
    return KnownSet(name, pattern, partial(find_listed, pattern=pattern, name=name, note=note))


#: Every set that a suite knows, in the order of its table; a new one is one entry here.
KNOWN_SETS = (
    KnownSet("lfw", "pairs.txt, of View 2 or in a folder called LFW; else under the name of its folder", find_lfw),
    _listed("sllfw", "pair_SLLFW.txt"),
    _listed("calfw", "pairs_CALFW.txt"),
    _listed("cplfw", "pairs_CPLFW.txt"),
    KnownSet("agedb_30", "NAME.bin, a verification set of InsightFace, under its name", find_bin),
    _listed("cfp_ff", "Protocol/Split/FF", "the published list has repeated pairs, which count as they are listed"),
    _listed("cfp_fp", "Protocol/Split/FP"),
    _listed("xqlfw", "xqlfw_pairs.txt"),
    _listed("ytf", "splits.txt"),
    KnownSet("rfw", "test/txts", find_rfw),
    KnownSet("tinyface", "Testing_Set/Gallery_Match", find_tinyface),
    KnownSet("ijbb", "meta/ijbb_face_tid_mid.txt", partial(find_ijb, prefix="ijbb")),
    KnownSet("ijbc", "meta/ijbc_face_tid_mid.txt", partial(find_ijb, prefix="ijbc")),
    KnownSet("megaface", "facescrub_lst", find_megaface),
    KnownSet("your own list", "pairs.csv, under the name of its folder", partial(find_listed, pattern="pairs.csv")),
)
#: Tried if a sub-folder has no set of the table.
GROUPS = KnownSet("groups", "GROUP/Name/image, under the name of its folder", find_groups)


def find_sets(folder: Path, *excluded: Path | None) -> tuple[list[Task], tuple[str, ...]]:
    """The sets of a folder, in the order of the table, and the names of its entries that are no known set.

    A list beside the sub-folders is no set, since its images could be those of any sub-folder.

    If two sets, or their embeddings files, have the same name, the name of the second is followed by that of its folder
    or file. `excluded` paths are skipped, such as the folder of embeddings files.
    """
    hidden = {path.resolve() for path in excluded if path is not None}
    places = [
        path
        for path in sorted(folder.iterdir())
        if not path.name.startswith(".") and path.resolve() not in hidden and (path.is_dir() or _is_set(path))
    ]
    tasks: list[tuple[int, Task]] = []
    unknown = []
    for place in places:
        here = [(order, task) for order, known in enumerate(KNOWN_SETS) for task in known.find(place)]
        if not here and place.is_dir():
            here = [(len(KNOWN_SETS), task) for task in GROUPS.find(place)]
        if not here:
            unknown.append(place.name)
        tasks += here
    loose = {path.name for known in KNOWN_SETS for task in known.find(folder) for path in task.pairs}
    unknown += sorted(name for name in loose if (folder / name).is_file() and not _is_set(folder / name))
    named: dict[str, Task] = {}
    files: set[str] = set()
    for _, task in sorted(tasks, key=lambda entry: entry[0]):
        while task.name in named or not files.isdisjoint(task.parts):
            parts = {f"{part}-{task.place.name}": find for part, find in task.parts.items()}
            task = replace(task, name=f"{task.name} ({task.place.name})", parts=parts)
        named[task.name] = task
        files.update(task.parts)
    return list(named.values()), tuple(unknown)


def _is_set(path: Path) -> bool:
    return path.suffix.lower() == ".bin" and path.is_file()
