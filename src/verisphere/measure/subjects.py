"""What a report is about: runs and embeddings files, found by their paths, with the images where these are at hand."""

import logging
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from verisphere.files.disk import MAX_TABLE, check_file, read_file, real_path
from verisphere.files.documents import read_json
from verisphere.files.embeddings import read_embeddings
from verisphere.files.npz import names_in_npz
from verisphere.images.faces import Faces
from verisphere.images.photos import Photos
from verisphere.models.folder import is_model_folder
from verisphere.vocabulary import Embeddings

log = logging.getLogger(__name__)

Entry = Mapping[str, float | int | None]


@dataclass(frozen=True, eq=False)
class Subject:
    """One set of embeddings, or a run that has none yet.

    Attributes:
        title: what to call it; unique in a report.
        embeddings: the set; None for a run without.
        source: file of the embeddings, as shown; its digest is stated where it is there.
        run: folder of the run that made the model, where that is known.
        faces: the images, under the embeddings' names, where they are at hand.
        no_faces: why they are not.
    """

    title: str
    embeddings: Embeddings | None
    source: str
    run: Path | None
    faces: Faces | None
    no_faces: str = "they were not handed over."


def subjects_of(paths: Sequence[Path], faces: Path | None = None) -> list[Subject]:
    """The subjects of runs and embeddings files: of a run, every embeddings file directly in its folder.

    Args:
        paths: folders made by `verisphere train`, or embeddings files.
        faces: the images of the embeddings; without, they are looked for where the embeddings' origin says.

    Raises:
        FileNotFoundError: a path leads nowhere.
        ValueError: it is neither a run nor an embeddings file; two are the same; `faces` holds the images of none.
    """
    given = Photos(faces) if faces is not None else None
    found: list[tuple[Path, Path | None]] = []
    for path in paths:
        if path.is_dir():
            require_run(path)
            files = [file for file in sorted(path.glob("*.npz")) if _has_embeddings(file)]
            found += [(file, path) for file in files] or [(path, path)]
        else:
            found.append((path, None))
    places = Counter(real_path(path) for path, _ in found)
    again = [path for path, _ in found if places[real_path(path)] > 1]
    if again:
        raise ValueError(f"{again[0]}: named twice; a report shows it once")
    titles = distinct_titles([path for path, _ in found])
    subjects = [_subject(title, path, run, given, faces) for title, (path, run) in zip(titles, found, strict=True)]
    if given is not None and not any(subject.faces for subject in subjects):
        first = next((subject.no_faces for subject in subjects if subject.embeddings is not None), "there are none")
        raise ValueError(f"{faces}: its images are not those of the embeddings: {first}")
    return subjects


def require_run(path: Path) -> None:
    """Raise ValueError where a folder is no run."""
    if is_model_folder(path):
        raise ValueError(f"{path}: an exported model; name the run it came from, or embeddings that it made")
    if not (path / "recipe.yaml").is_file():
        raise ValueError(
            f"{path}: not a run of `verisphere train` (it holds no recipe.yaml); name such a folder, or an embeddings "
            "file"
        )


def read_log(run: Path) -> list[Entry]:
    """The lines of a run's `metrics.jsonl`; none where it has not begun to log.

    Raises:
        ValueError: a line is not what `verisphere train` writes. The last one may be cut short by a killed process.
    """
    path = run / "metrics.jsonl"
    if not path.is_file():
        return []
    lines = read_file(path, MAX_TABLE).splitlines()
    entries = []
    for number, line in enumerate(lines, start=1):
        entry = _entry(line)
        if entry is not None:
            entries.append(entry)
        elif number < len(lines):
            raise ValueError(
                f"{path}: line {number} is not a line of figures as `verisphere train` writes it: {line[:60]!r}"
            )
    return entries


def _entry(line: bytes) -> Entry | None:
    try:
        entry = read_json(line.decode("utf-8"))
    except ValueError:
        return None
    right = isinstance(entry, dict) and all(
        value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)) for value in entry.values()
    )
    return entry if right else None


def _has_embeddings(path: Path) -> bool:
    """Whether an .npz file in a run's folder holds embeddings; a damaged one counts: reading it says what is wrong."""
    check_file(path)
    try:
        there = "embeddings" in names_in_npz(path)
    except (ValueError, OSError):
        return True
    if not there:
        log.info("%s: left out, it is not an embeddings file", path)
    return there


def _subject(title: str, path: Path, run: Path | None, given: Faces | None, faces: Path | None) -> Subject:
    if path == run:
        return Subject(title, None, "", run, None)
    embeddings = read_embeddings(path)
    images, why = _images(embeddings, given, faces, path.parent)
    return Subject(title, embeddings, str(path), run, images, why)


def _images(embeddings: Embeddings, given: Faces | None, path: Path | None, beside: Path) -> tuple[Faces | None, str]:
    """The images of a set, or why there are none.

    An origin names them as they were typed, so they are looked for from here, and from beside the embeddings.
    """
    if given is None:
        if embeddings.origin is None:
            return None, "the embeddings file does not say where its images are; name them by --faces (faces=)."
        path = Path(embeddings.origin.images)
        if not path.exists() and (beside / path).exists():
            path = beside / path
        try:
            given = Photos(path)
        except (ValueError, OSError) as error:
            return None, f"the images cannot be read where they were ({error}); name them by --faces (faces=)."
    missing = set(embeddings.names.tolist()).difference(given.names)
    if missing:
        return None, f"{len(missing)} of {len(embeddings)} images are not in {path}, the first is {min(missing)!r}."
    return given, ""


def distinct_titles(paths: Sequence[Path]) -> list[str]:
    """A name for each path: its stem, with as many folders before it as tell all apart."""
    whole = [Path(os.path.abspath(path)) for path in paths]  # not resolved: a link has the name that was given to it
    parts = [(path.with_suffix("") if path.suffix == ".npz" else path).parts for path in whole]
    titles = ["/".join(part[-1:]) for part in parts]
    for length in range(1, max(map(len, parts), default=1) + 1):
        titles = ["/".join(part[-length:]).lstrip("/") for part in parts]
        if len(set(titles)) == len(titles):
            break
    return titles
