"""`PYTHONPATH=docs python -m figures.cleaning OUT`: draw the pictures of docs/cleaning.md, of drawn faces alone.

Drawn faces get label noise, a linear projection embeds them, K sub-centers for each identity are trained with ArcFace
on these embeddings, and the rule of the angle cleans. The projection is fitted to other drawn people, so that it has
seen none of the labels that it helps to clean; the sub-centers see the noisy labels alone.
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float32, Float64, Int64, UInt8
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from PIL import Image
from scipy.linalg import eigh

from figures.loss_plots import save_compact, wide_figure
from verisphere.files.disk import write_whole
from verisphere.head import Head, SubCenters
from verisphere.images import SyntheticFaces
from verisphere.images.faces import Faces
from verisphere.losses import ArcFace
from verisphere.report.plots import INK, in_picture, save_plot
from verisphere.score.cosine import unit
from verisphere.study.clean.cleaning import Cleaning
from verisphere.study.clean.page import angle_plots, rows_of_identity, telling_identities
from verisphere.study.clean.rules import Rule
from verisphere.study.clean.sub_classes import SamplesInSubClasses, sub_classes

SHEET = "one_identity"
_DROPPED = "#e4572e"
_SIDE = 96  # pixels of a drawn face
_WIDTH = 1120  # pixels of the sheet
_IN_ROW = 8  # images of a row, as on the page
_FIRST_OTHER = 100_000  # number of the first person that the projection is fitted to
_DRAWN_AT_ONCE = 1 << 10  # images that are drawn at a time


@dataclass(frozen=True)
class DrawnSet:
    """The sizes of the example.

    Attributes:
        people, images: identities that are cleaned, and photographs of each.
        noise: share of wrong labels.
        others, others_images: people that the projection is fitted to, and photographs of each.
        components: principal components of the pixels that the projection starts from.
        dim: numbers in an embedding.
        sub_centers: K.
        steps: steps of the training of the sub-centers.
        seed: seed of the faces and of the sub-centers.
    """

    people: int = 60
    images: int = 30
    noise: float = 0.3
    others: int = 400
    others_images: int = 12
    components: int = 300
    dim: int = 64
    sub_centers: int = 3
    steps: int = 300
    seed: int = 0

    def faces(self) -> SyntheticFaces:
        """The people that are cleaned."""
        return SyntheticFaces(
            self.people, self.images, self.seed, ("studio",), "easy", label_noise=self.noise, size=_SIDE
        )

    def other_faces(self) -> SyntheticFaces:
        """Other people."""
        return SyntheticFaces(
            self.others, self.others_images, self.seed, ("studio",), "easy", first_person=_FIRST_OTHER, size=_SIDE
        )


def pixel_values(faces: Faces) -> Float32[np.ndarray, "images values"]:
    """Pixels of each image, averaged over squares of four by four."""
    parts = []
    for start in range(0, len(faces), _DRAWN_AT_ONCE):
        pixels = faces.images(range(start, min(start + _DRAWN_AT_ONCE, len(faces)))).float()
        parts.append(torch.nn.functional.avg_pool2d(pixels, 4).flatten(1).numpy())
    return np.concatenate(parts)


def discriminants(
    rows: Float32[np.ndarray, "images values"], labels: Int64[np.ndarray, " images"], components: int, dim: int
) -> tuple[Float32[np.ndarray, " values"], Float64[np.ndarray, "values dim"]]:
    """Mean and projection of Fisher's linear discriminants, in the principal components of the rows (Fisher 1936)."""
    mean = rows.mean(axis=0)
    centered = rows - mean
    variance, axes = np.linalg.eigh(np.cov(centered.T.astype(np.float64)))
    principal = axes[:, -components:] / np.sqrt(variance[-components:])
    whitened = centered @ principal
    means = np.stack([whitened[labels == label].mean(axis=0) for label in range(labels.max() + 1)])
    within = np.cov((whitened - means[labels]).T) + 0.01 * np.eye(components)
    _, directions = eigh(np.cov(means.T), within)
    return mean, principal @ directions[:, -dim:]


def trained_sub_centers(
    rows: Float32[np.ndarray, "images dim"], labels: Int64[np.ndarray, " images"], size: DrawnSet
) -> Float32[np.ndarray, "images subcenters"]:
    """Cosines of rows to the sub-centers of their class, trained by ArcFace on rows that stay as they are."""
    embeddings, classes = torch.from_numpy(rows), torch.from_numpy(labels)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(size.seed)
        head = Head(ArcFace(0.5, 16.0), size.people, rows.shape[1], centers=SubCenters(size.sub_centers))
    optimizer = torch.optim.Adam(head.parameters(), lr=0.002)
    for _ in range(size.steps):
        optimizer.zero_grad()
        head(embeddings, classes).loss.backward()
        optimizer.step()
    own = unit(head.centers.detach())[classes]  # (images, K, dim)
    return torch.einsum("bd,bkd->bk", unit(embeddings), own).numpy()


def drawn_cleaning(size: DrawnSet) -> tuple[Cleaning, SyntheticFaces]:
    """Drawn faces with noise, cleaned by the default rule."""
    others = np.repeat(np.arange(size.others), size.others_images)
    mean, projection = discriminants(pixel_values(size.other_faces()), others, size.components, size.dim)
    faces = size.faces()
    rows = ((pixel_values(faces) - mean) @ projection).astype(np.float32)
    labels = faces.labels.numpy()
    sub = sub_classes(trained_sub_centers(rows, labels, size), labels, len(faces.people))
    found = SamplesInSubClasses(
        faces.names,
        faces.identities,
        faces.people,
        sub,
        "sub-centers trained on drawn faces",
        true_identities=faces.true_identities,
    )
    return Cleaning.by(Rule(), found), faces


def sheet_plot(cleaning: Cleaning, label: int, faces: Faces) -> Figure:
    """The sub-classes of one identity, a row of faces each (ArcFace, figure 6a)."""
    found, rows = cleaning.found, rows_of_identity(cleaning, label)
    figure = wide_figure(1.5 * len(rows) + 0.3)
    figure.set_layout_engine(ConstrainedLayoutEngine(w_pad=0.06, h_pad=0.16))
    grid = figure.subplots(len(rows), _IN_ROW, squeeze=False)
    for axes in grid.ravel():
        axes.set_axis_off()
    for panels, (number, members, shown) in zip(grid, rows, strict=True):
        for axes, place in zip(panels, shown.tolist(), strict=False):
            axes.set_axis_on()
            axes.imshow(_pixels(faces, place))
            axes.set_xticks([])
            axes.set_yticks([])
            for spine in axes.spines.values():
                spine.set_visible(not cleaning.kept[place])
                spine.set(color=_DROPPED, linewidth=3)
            wrong = cleaning.noisy is not None and cleaning.noisy[place]
            told = f"{found.sub.angle[place]:.0f}\N{DEGREE SIGN}" + (", another" if wrong else "")
            axes.set_xlabel(told, fontsize=9, color=INK)
        dominant = ", dominant" if number == found.sub.dominant[label] else ""
        dropped = (~cleaning.kept[members]).sum()
        words = f"sub-center {number}{dominant}: {len(members)} images, {dropped} dropped"
        # a title would widen the first column, for the layout gives it half of its width
        title = panels[0].text(0, 1.1, in_picture(words), fontsize=9.5, color=INK, transform=panels[0].transAxes)
        title.set_in_layout(False)
    return figure


def _pixels(faces: Faces, place: int) -> UInt8[np.ndarray, "height width 3"]:
    return faces.images([place])[0].permute(1, 2, 0).numpy()


def draw_cleaning(out: Path, size: DrawnSet | None = None) -> str:
    """Draw the pictures into a folder, and return what the cleaning found as text."""
    cleaning, faces = drawn_cleaning(DrawnSet() if size is None else size)
    out.mkdir(parents=True, exist_ok=True)
    for plot in angle_plots(cleaning):
        save_compact(plot.draw(), out / f"{plot.name}.png")
    path = save_plot(sheet_plot(cleaning, telling_identities(cleaning)[0], faces), out / f"{SHEET}.png")
    with Image.open(path) as image:
        photographs = image.convert("RGB")
        photographs.thumbnail((_WIDTH, _WIDTH), Image.Resampling.LANCZOS)
    write_whole(out / f"{SHEET}.jpg", lambda partial: photographs.save(partial, quality=82))
    path.unlink()
    stricter = Cleaning.by(Rule(only_dominant=True), cleaning.found)
    return f"{cleaning.text()}\n\nonly the dominant sub-classes: {stricter.text()}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m figures.cleaning", description=__doc__)
    parser.add_argument("out", type=Path, metavar="OUT", help="folder for the pictures")
    try:
        print(draw_cleaning(parser.parse_args().out))
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
