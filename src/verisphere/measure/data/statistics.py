"""Distributions of a data set: two of the five in figure 9 of ArcFace (Deng et al. 2019, arXiv:1801.07698v4)."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float64, Int64
from matplotlib.figure import Figure

from verisphere.base.words import Names
from verisphere.files.disk import write_whole
from verisphere.files.landmarks import points_of_images, read_landmarks
from verisphere.files.results import Result
from verisphere.images.detect.pose import yaw_of
from verisphere.measure.data.info import domains_of, domains_table, images_of_people
from verisphere.models.described_faces import open_faces
from verisphere.report.plots import data_plot, save_plot
from verisphere.report.tables import table

ESTIMATOR = "yaw = arctan(2 a - 1), a = the nose's place from the left eye (0) to the right eye (1) on their line"
YAW_EDGES = tuple(range(-90, 91, 15))
"""Limits of the intervals of yaw, in degrees; an angle at a limit counts above it, and 90 in the last."""


@dataclass(frozen=True)
class HistogramBin:
    """A row of a histogram.

    Attributes:
        first: smallest value, included.
        last: largest value, included for images, excluded for degrees.
        images: number of images of these people; None in a histogram of images.
    """

    first: int
    last: int
    count: int
    images: int | None = None


@dataclass(frozen=True)
class Statistics(Result):
    """The distributions of a data set.

    Attributes:
        yaw: number of images in each interval of degrees; None without landmarks.
        yaw_within_30: share of the images with a yaw between -30 and 30 degrees; None without any.
        yaw_estimator: formula of the yaw; empty without landmarks.
    """

    path: str
    images: int
    identities: int
    images_per_identity: tuple[HistogramBin, ...]
    domains: dict[str, int] | None
    yaw: tuple[HistogramBin, ...] | None
    yaw_images: int
    yaw_within_30: float | None
    yaw_estimator: str
    names_rule: Names | None

    ascii_only = False

    def write_folder(self, path: Path) -> None:
        """Writes a folder with `statistics.png`, the picture of the figures, and `statistics.json`."""

        def write(partial: Path) -> None:
            partial.mkdir()
            self.write_json(partial / "statistics.json")
            save_plot(self._figure(), partial / "statistics.png")

        write_whole(path, write)

    def _figure(self) -> Figure:
        return data_plot(
            Path(self.path).name,
            [(_images_label(row), row.count) for row in self.images_per_identity],
            None if self.yaw is None else [(row.first, row.last, row.count) for row in self.yaw],
            self.domains,
        )

    def text(self) -> str:
        """The figures as tables."""
        head = f"{self.path}: {self.images:,} images of {self.identities:,} identities"
        rows = [
            [_images_label(row), f"{row.count:,}", _share(row.count, self.identities), f"{row.images:,}"]
            for row in self.images_per_identity
        ]
        texts = [head, table(["images per identity", "identities", "share", "images"], rows)]
        if self.domains is not None:
            texts.append(domains_table(self.domains))
        if self.yaw is None:
            texts.append("no yaw: --landmarks FILE states the five points of each image")
        else:
            rows = [
                [f"{row.first} to {row.last}", f"{row.count:,}", _share(row.count, self.yaw_images)] for row in self.yaw
            ]
            within = "" if self.yaw_within_30 is None else f"; {self.yaw_within_30:.1%} within 30 degrees"
            texts.append(
                f"{table(['yaw, degrees', 'images', 'share'], rows)}\n"
                f"{self.yaw_images:,} of {self.images:,} images have landmarks{within}\n"
                f"estimate: {self.yaw_estimator}; for distributions, not for the pose of one face"
            )
        return "\n\n".join(texts)


def _images_label(row: HistogramBin) -> str:
    return f"{row.first:,}" if row.first == row.last else f"{row.first:,} to {row.last:,}"


def _share(count: int, total: int) -> str:
    return f"{count / total:.1%}" if total else "-"


def data_statistics(path: Path, landmarks: Path | None = None, trust: bool = False) -> Statistics:
    """The distributions of a data set, from its index and a file of landmarks; no image is read."""
    faces = open_faces(path, trust=trust)
    counts = images_of_people(faces.identities)
    yaws = np.empty(0)
    if landmarks is not None:
        listed = read_landmarks(landmarks)
        yaws = yaw_of(points_of_images(faces.names, listed))
        yaws = yaws[~np.isnan(yaws)]
        if not len(yaws):
            raise ValueError(
                f"{landmarks}: none of its {len(listed):,} photos is an image of {path}; it names "
                f"{next(iter(listed))!r} where the set has {faces.names[0]!r}"
            )
    return Statistics(
        path=str(path),
        images=len(faces),
        identities=len(counts),
        images_per_identity=images_histogram(counts),
        domains=domains_of(faces),
        yaw=None if landmarks is None else yaw_histogram(yaws),
        yaw_images=len(yaws),
        yaw_within_30=float((np.abs(yaws) <= 30).mean()) if len(yaws) else None,
        yaw_estimator="" if landmarks is None else ESTIMATOR,
        names_rule=faces.names_rule,
    )


def images_histogram(counts: Int64[np.ndarray, " people"]) -> tuple[HistogramBin, ...]:
    """People by their number of images: 1, 2, 3 to 4, 5 to 8, 9 to 16 and so on, up to the largest number.

    >>> [(row.first, row.last, row.count, row.images) for row in images_histogram(np.array([1, 1, 3, 4, 5]))]
    [(1, 1, 2, 2), (2, 2, 0, 0), (3, 4, 2, 7), (5, 8, 1, 5)]
    """
    rows = []
    first, last = 1, 1
    while first <= counts.max(initial=0):
        inside = (counts >= first) & (counts <= last)
        rows.append(HistogramBin(first, last, int(inside.sum()), int(counts[inside].sum())))
        first, last = last + 1, last * 2
    return tuple(rows)


def yaw_histogram(yaws: Float64[np.ndarray, " images"]) -> tuple[HistogramBin, ...]:
    """Images by yaw in degrees, in the intervals of `YAW_EDGES`."""
    counts, _ = np.histogram(yaws, YAW_EDGES)
    return tuple(
        HistogramBin(first, last, count)
        for first, last, count in zip(YAW_EDGES[:-1], YAW_EDGES[1:], counts.tolist(), strict=True)
    )
