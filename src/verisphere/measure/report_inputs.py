"""The inputs of a report: runs and embeddings files, found by their paths, with their images if these are found."""

import logging
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from verisphere.base.collectives import on_first_rank
from verisphere.base.vocabulary import Embeddings, Progress, quietly
from verisphere.files.disk import check_file, real_path
from verisphere.files.embeddings import known_people, note_crowds, read_known_people
from verisphere.files.npz import names_in_npz
from verisphere.files.sharded import manifest_of
from verisphere.images.detect.unaligned import warn_if_unaligned
from verisphere.images.faces import Faces
from verisphere.models.described_faces import open_faces
from verisphere.models.embed import embed, open_model
from verisphere.models.folder import is_model_folder
from verisphere.models.model_json import NAME as MODEL_JSON
from verisphere.models.model_json import read_model_json

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class ReportInput:
    """A set of embeddings, or a run that has none yet.

    Attributes:
        title: name of the set in the report, unique there.
        source: file of the embeddings, as it is shown; its digest is stated if the file exists.
        faces: the images, under the embeddings' names, if they were found.
        no_faces: the reason why the images were not found.
        doubt: why the images that were embedded here do not look like aligned faces; empty where they do.
    """

    title: str
    embeddings: Embeddings | None
    source: str
    run: Path | None
    faces: Faces | None
    no_faces: str = "they were not given."
    doubt: str = ""


def report_inputs(
    paths: Sequence[Path], faces: Path | None = None, trust: bool = False, progress: Progress = quietly
) -> list[ReportInput]:
    """The inputs of a report: embeddings files, and for a run all that lie directly in its folder, shards included.

    Faces are those of the embeddings, as `open_faces` takes them; by default they are read from the path that the
    origin of the embeddings states. A model folder embeds the faces, as it ships, and is called by its own name.
    """
    given = open_faces(faces, trust=trust) if faces is not None else None
    files = files_of(paths)
    titles = _titles([path for path, _ in files])
    doubts: dict[tuple[int, int], str] = {}
    inputs = []
    for title, (path, run) in zip(titles, files, strict=True):
        if path == run:
            inputs.append(ReportInput(title, None, "", run, None))
            continue
        made, doubt = _embedded(path, faces, trust, progress, doubts)
        embeddings = made or read_known_people(path)
        images, missing = images_of(embeddings, given, faces, path.parent, trust)
        inputs.append(ReportInput(title, embeddings, str(path), run, images, missing, doubt))
    if given is not None and not any(entry.faces for entry in inputs):
        first = next((entry.no_faces for entry in inputs if entry.embeddings is not None), "there are none")
        raise ValueError(f"{faces}: its images are not those of the embeddings: {first}")
    return inputs


def _titles(paths: Sequence[Path]) -> list[str]:
    """The names of the paths; of model folders the names that these state, where no two are alike."""
    titles = distinct_titles(paths)
    own = [read_model_json(path / MODEL_JSON).name if is_model_folder(path) else "" for path in paths]
    used = Counter([*titles, *own])
    return [
        name if name and used[name] - (name == title) == 1 else title for name, title in zip(own, titles, strict=True)
    ]


def files_of(paths: Sequence[Path]) -> list[tuple[Path, Path | None]]:
    """The embeddings that a report of these paths shows, each with its run, and the runs without embeddings."""
    files: list[tuple[Path, Path | None]] = []
    for path in paths:
        if path.is_dir() and manifest_of(path) is None and not is_model_folder(path):
            require_run(path)
            in_run = [place for place in sorted(path.iterdir()) if _has_embeddings(place)]
            files += [(file, path) for file in in_run] or [(path, path)]
        else:
            files.append((path, None))
    places = Counter(real_path(path) for path, _ in files)
    repeated = [path for path, _ in files if places[real_path(path)] > 1]
    if repeated:
        raise ValueError(f"{repeated[0]}: named twice; a report shows it once")
    return files


def require_run(path: Path) -> None:
    """Refuse a folder that is not the folder of a run."""
    if not (path / "recipe.yaml").is_file():
        raise ValueError(
            f"{path}: not a run of `verisphere train` (it holds no recipe.yaml); name such a folder, or an embeddings "
            "file"
        )


def _embedded(
    path: Path, faces: Path | None, trust: bool, progress: Progress, doubts: dict[tuple[int, int], str]
) -> tuple[Embeddings | None, str]:
    """What a model folder makes of the faces, and why they do not look aligned; None where the path is another input.

    Faces are looked at once for each size that a model takes, which `doubts` remembers.
    """
    if not is_model_folder(path):
        return None, ""
    if faces is None:
        raise ValueError(f"{path}: a model folder, which holds no figures; name images by --faces (faces=) to embed")
    model = open_model(path, torch.device("cpu"), trust)
    size = model.backbone.input_size
    images = open_faces(faces, None, size, trust)
    if size not in doubts:
        doubts[size] = on_first_rank(lambda: warn_if_unaligned(images))
    made = embed(model, images, str(faces), progress=progress)
    note_crowds(faces, made.identities)
    return known_people(made, faces), doubts[size]


def _has_embeddings(path: Path) -> bool:
    """Whether this is an .npz file of embeddings or a folder of shards; a damaged one counts: reading it reports it."""
    if path.suffix != ".npz":
        return path.is_dir() and manifest_of(path) is not None
    check_file(path)
    try:
        embeddings = "embeddings" in names_in_npz(path)
    except (ValueError, OSError):
        return True
    if not embeddings:
        log.info("%s: skipped, it is not an embeddings file", path)
    return embeddings


def images_of(
    embeddings: Embeddings, given: Faces | None, path: Path | None, beside: Path, trust: bool
) -> tuple[Faces | None, str]:
    """The images of a set, or the reason why there are none.

    An origin has the path as the user typed it, so it is tried relative to the current folder and to that of the
    embeddings. Images that were named are given, with their path.
    """
    if given is None:
        if embeddings.origin is None:
            return None, "the embeddings file does not say where its images are; name them by --faces (faces=)."
        path = Path(embeddings.origin.images)
        if not path.exists() and (beside / path).exists():
            path = beside / path
        try:
            given = open_faces(path, trust=trust)
        except (ValueError, OSError) as error:
            return None, f"the images cannot be read where they were ({error}); name them by --faces (faces=)."
    missing = set(embeddings.names.tolist()).difference(given.names)
    if missing:
        return None, f"{len(missing)} of {len(embeddings)} images are not in {path}, the first is {min(missing)!r}."
    return given, ""


def distinct_titles(paths: Sequence[Path]) -> list[str]:
    """A name for each path: its stem, with as many folders before it as make all names distinct."""
    whole = [Path(os.path.abspath(path)) for path in paths]  # not resolved: a link keeps its own name
    parts = [(path.with_suffix("") if path.suffix == ".npz" else path).parts for path in whole]
    titles = ["/".join(part[-1:]) for part in parts]
    for length in range(1, max(map(len, parts), default=1) + 1):
        titles = ["/".join(part[-length:]).lstrip("/") for part in parts]
        if len(set(titles)) == len(titles):
            break
    return titles
