"""The faces of each template (`image template medium` a line), and the detector score of each face."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float64, Int64

from verisphere.files.disk import check_file
from verisphere.files.json_values import shown
from verisphere.files.text import is_count, text_lines

_META = "a line is `image template medium`, both whole numbers, as in ijbc_face_tid_mid.txt: 1.jpg 1 69544"
_SCORES = "a line is `image x1 y1 ... x5 y5 score`, as in ijbc_name_5pts_score.txt"
_POINTS = 10  # numbers of five points


@dataclass(frozen=True, eq=False)
class TemplateImages:
    """The faces of templates, with an entry for each face."""

    source: Path
    names: tuple[str, ...]  # once each, in the order of the file
    image: Int64[np.ndarray, " faces"]  # positions among the names
    template: Int64[np.ndarray, " faces"]
    medium: Int64[np.ndarray, " faces"]  # equal numbers within a template are one medium
    lines: Int64[np.ndarray, " faces"]

    def numbered(self) -> tuple[Int64[np.ndarray, " templates"], Int64[np.ndarray, " faces"]]:
        """The templates, ascending, and the position of each face's template among them."""
        templates, number = np.unique(self.template, return_inverse=True)
        return templates, number.astype(np.int64)


def read_images(path: Path) -> TemplateImages:
    """Reads `ijbc_face_tid_mid.txt`: image, template and medium, separated by spaces or tabs, without a header."""
    check_file(path)
    places: dict[str, int] = {}
    image, template, medium, lines = list[int](), list[int](), list[int](), list[int]()
    with text_lines(path) as text:
        for line, content in enumerate(text, 1):
            words = content.rsplit(None, 2)
            if len(words) != 3 or not (is_count(words[1]) and is_count(words[2])):
                if not content.strip():
                    continue
                raise ValueError(f"{path}: line {line}: {shown(content.strip(), 100)}; {_META}")
            image.append(places.setdefault(words[0].lstrip(), len(places)))
            template.append(int(words[1]))
            medium.append(int(words[2]))
            lines.append(line)
    if not image:
        raise ValueError(f"{path}: it lists no image; {_META}")
    columns = (np.array(column, np.int64) for column in (image, template, medium, lines))
    images = TemplateImages(path, tuple(places), *columns)
    _refuse_repeated(images)
    return images


def _refuse_repeated(images: TemplateImages) -> None:
    _, number = images.numbered()
    key = number * len(images.names) + images.image
    order = np.argsort(key, kind="stable")
    again = np.flatnonzero(key[order][1:] == key[order][:-1])
    if len(again):
        second = again[np.argmin(order[again + 1])]
        first_face, face = order[second], order[second + 1]
        raise ValueError(
            f"{images.source}: line {images.lines[face]}: {shown(images.names[images.image[face]], 100)} of template "
            f"{images.template[face]} is already on line {images.lines[first_face]}"
        )


def read_detector_scores(path: Path, names: Sequence[str]) -> tuple[Float64[np.ndarray, " images"], int]:
    """Reads `ijbc_name_5pts_score.txt`: the score of each image, after five points, and the number of other images."""
    check_file(path)
    place = {name: number for number, name in enumerate(names)}
    scores, others = np.full(len(names), np.nan), 0
    with text_lines(path) as text:
        for line, content in enumerate(text, 1):
            words = content.rsplit(None, _POINTS + 1)
            if len(words) != _POINTS + 2:
                if not content.strip():
                    continue
                raise ValueError(f"{path}: line {line}: {shown(content.strip(), 100)}; {_SCORES}")
            score = _score(words[-1])
            if score is None:
                raise ValueError(
                    f"{path}: line {line}: the score of {shown(words[0].lstrip(), 100)} is {shown(words[-1], 40)}; a "
                    "score is a finite number from 0, for a negative one would turn the embedding round"
                )
            number = place.get(words[0].lstrip())
            if number is None:
                others += 1
            elif math.isnan(scores[number]) or scores[number] == score:
                scores[number] = score
            else:
                raise ValueError(
                    f"{path}: line {line}: {shown(words[0].lstrip(), 100)} has the score {score:g}, and on an earlier "
                    f"line {scores[number]:g}"
                )
    missing = np.flatnonzero(np.isnan(scores))
    if len(missing):
        raise ValueError(
            f"{path}: no score of {len(missing):,} of {len(names):,} images, first {shown(names[missing[0]], 100)}"
        )
    return scores, others


def _score(text: str) -> float | None:
    """A finite number from 0; None for anything else."""
    try:
        score = float(text)
    except ValueError:
        return None
    return score if math.isfinite(score) and score >= 0 and "_" not in text else None
