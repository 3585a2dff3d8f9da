"""The pictures of docs/losses.md: what the losses do, drawn from the losses themselves and from small trainings."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from figures import loss_curves
from figures.feature_plots import Circle, Sphere, circles_plot, spheres_plot
from figures.loss_plots import (
    Panel,
    angles_plot,
    curves_plot,
    decision_margins_plot,
    save_compact,
    soft_indicator,
    soft_indicator_slope,
)
from figures.toy_features import (
    Features,
    ToySize,
    ToyTraining,
    draw_photographs,
    train_softmax,
    train_sphereface2,
)
from verisphere.base.vocabulary import Progress, printable, quietly
from verisphere.losses import CM1, CM2, ArcFace, ClassLoss, CosFace, NormFace, QMargin, SphereFace, SphereFace2
from verisphere.losses.margin import CombinedMargin
from verisphere.report.plots import save_plot

MARGINS: dict[str, CombinedMargin] = {
    "Norm-Softmax": NormFace(),
    "SphereFace, 1.35": SphereFace(),
    "ArcFace, 0.5": ArcFace(),
    "CosFace, 0.35": CosFace(),
    "CM1 (1, 0.3, 0.2)": CM1(),
    "CM2 (0.9, 0.4, 0.15)": CM2(),
}
PROBABILITIES: dict[str, ClassLoss] = {
    "softmax": NormFace(64.0),
    "CosFace": CosFace(0.4, 64.0),
    "Q-Margin, 1.25": QMargin(1.25),
    "Q-Margin, 1.5": QMargin(1.5),
    "Q-Margin, 2": QMargin(2.0),
    "1.5, exponential": QMargin(1.5, prior="exponential"),
}
#: Of the own class, in the picture of another class's probability.
OWN_COSINE = 0.6
FACTORS = (0.0, -1.0, -10.0, -100.0, -1000.0, -10000.0)
SCALES = (1.0, 4.0, 16.0, 64.0)
EXPONENTS = (1.0, 2.0, 3.0, 5.0)
TEMPERATURES = (0.1, 0.05, 0.01)
#: Cosines of the three other classes of four in the picture of the softmax loss. The paper's are lost in our text.
OTHERS = (0.3, 0.1, -0.2)
SOFTMAX_SCALE = 16.0  # of the trainings on a circle and a sphere


@dataclass(frozen=True)
class Drawn:
    """A figure, and what its trainings came to, a line each."""

    figure: Figure
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class FiguresResult:
    """The pictures that were written.

    Attributes:
        files: PNG and SVG of each.
        notes: what the trainings came to, by the name of the picture.
    """

    files: tuple[Path, ...]
    notes: dict[str, tuple[str, ...]]

    def text(self) -> str:
        """The files and the notes, a line each."""
        lines = [printable(str(path)) for path in self.files if path.suffix == ".png"]
        lines += [f"{name}: {note}" for name, notes in self.notes.items() for note in notes]
        return "\n".join(lines)


def draw_figures(
    out: Path, only: Sequence[str] = (), progress: Progress = quietly, size: ToySize | None = None
) -> FiguresResult:
    """Draw the pictures of docs/losses.md, each as PNG and SVG.

    Those with trained features train small networks on drawn faces first, seconds each, from fixed seeds.

    Args:
        out: folder for them; what is there under the same names is replaced.
        only: names of `FIGURES`; all where none is given.
        progress: shown over the pictures and in each training.
        size: of the trainings.

    Raises:
        ValueError: a name that is no picture's.
    """
    unknown = [name for name in only if name not in FIGURES]
    if unknown:
        raise ValueError(f"there is no picture {unknown[0]!r}; there are {', '.join(FIGURES)}")
    size = ToySize() if size is None else size
    files: list[Path] = []
    notes: dict[str, tuple[str, ...]] = {}
    chosen = [name for name in FIGURES if not only or name in only]
    for name in progress(chosen, "drawing pictures", len(chosen)):
        drawn = FIGURES[name](size, progress)
        files += [save_compact(drawn.figure, out / f"{name}.png"), save_plot(drawn.figure, out / f"{name}.svg")]
        if drawn.notes:
            notes[name] = drawn.notes
    return FiguresResult(tuple(files), notes)


def target_logits(size: ToySize, progress: Progress) -> Drawn:
    """Target logits of the margin losses, and ArcFace's past theta + m = 180 degrees by each rule."""
    degrees = np.linspace(0.0, 180.0, 361)
    far = np.linspace(120.0, 180.0, 1201)
    rules = {f'beyond="{rule}"': ArcFace(beyond=rule) for rule in ("monotone", "plain", "released")}
    panels = [
        Panel(
            "margin losses (grey: 20 to 100 degrees)",
            "angle to the own center (degrees)",
            "target logit / scale",
            {name: (degrees, loss_curves.target_logit(loss, degrees)) for name, loss in MARGINS.items()},
            shaded=(20.0, 100.0),
            step=30.0,
        ),
        Panel(
            "ArcFace, m = 0.5, past theta + m = 180 degrees",
            "angle to the own center (degrees)",
            "target logit / scale",
            {
                name: (far, loss_curves.without_jumps(loss_curves.target_logit(loss, far)))
                for name, loss in rules.items()
            },
            marks={"theta + m = 180": float(np.degrees(np.pi - 0.5))},
            step=15.0,
        ),
    ]
    return Drawn(curves_plot(panels, "Target logits", height=4.0))


def decision_margins(size: ToySize, progress: Progress) -> Drawn:
    """Where each of two classes wins, and the margin between."""
    degrees = np.linspace(0.0, 120.0, 481)
    boundaries = {}
    for name in ("Norm-Softmax", "SphereFace, 1.35", "CosFace, 0.35", "ArcFace, 0.5"):
        other = loss_curves.binary_boundary(MARGINS[name], degrees)
        there = np.isfinite(other)
        boundaries[name] = degrees[there], other[there]
    return Drawn(decision_margins_plot(boundaries, "Decision margins of two classes"))


def theta_distributions(size: ToySize, progress: Progress) -> Drawn:
    """Angles to the own center at the start, in the middle and at the end, in three ways to begin."""
    photographs = draw_photographs(size.many, max(size.images // 5, 1), 1, "medium", progress)
    panels: dict[str, dict[str, np.ndarray]] = {}
    notes = []
    for title, loss, warmup in (
        ("margin grown over 1/3 of the steps", ArcFace(), 1 / 3),
        ("whole margin from the first step", ArcFace(), 0.0),
        ('the same, gradient="detached"', ArcFace(gradient="detached"), 0.0),
    ):
        training = ToyTraining(photographs, loss, 64, size)
        moments = {0: "start", size.steps // 2: "middle", size.steps: "end"}
        seen: dict[str, np.ndarray] = {}

        def look(
            step: int,
            training: ToyTraining = training,
            moments: dict[int, str] = moments,
            seen: dict[str, np.ndarray] = seen,
        ) -> None:
            if step in moments:
                seen[moments[step]] = training.own_angles()

        training.run(size.steps, margin_warmup=warmup, before=look, progress=progress, named=f"ArcFace, {title}")
        panels[title] = seen
        medians = ", ".join(f"{moment} {np.median(angles):.1f}" for moment, angles in seen.items())
        notes.append(f"{title}: median angle in degrees {medians}")
    return Drawn(angles_plot(panels, "ArcFace: angles to the own center during training"), tuple(notes))


def modulating_function(size: ToySize, progress: Progress) -> Drawn:
    """h(a, p) and h(a, p) * p for the factors of the loss-search paper."""
    p = np.linspace(0.0, 1.0, 501)
    both = {f"a = {factor:g}": loss_curves.modulation(factor, p) for factor in FACTORS}
    panels = [
        Panel(title, "softmax probability p", up, {name: (p, values[which]) for name, values in both.items()})
        for which, (title, up) in enumerate((("modulating function", "h(a, p)"), ("margin probability", "h(a, p) p")))
    ]
    return Drawn(curves_plot(panels, "Search-Softmax: every margin as a lowered probability"))


def hard_and_easy(size: ToySize, progress: Progress) -> Drawn:
    """Loss against the own cosine, for several scales."""
    cosine = np.linspace(-1.0, 1.0, 401)
    softmax = {f"s = {s:g}": (cosine, loss_curves.softmax_over_scale(cosine, OTHERS, s)) for s in SCALES}
    binary = {f"r = {r:g}": (cosine, loss_curves.positive_term(cosine, r)) for r in SCALES}
    others = ", ".join(f"{one:g}" for one in OTHERS)
    panels = [
        Panel(f"softmax, other cosines {others}", "own cosine", "loss / s", softmax),
        Panel("SphereFace2's positive term", "own cosine", "log(1 + exp(-r cos)) / r", binary),
    ]
    return Drawn(curves_plot(panels, "The scale decides how much easy samples count"))


def class_probabilities(size: ToySize, progress: Progress) -> Drawn:
    """Probabilities of softmax losses and of Q-Margin over the angle, among 10,000 random centers."""
    degrees = np.linspace(20.0, 90.0, 281)
    cosines = np.cos(np.radians(degrees))[:, None]
    random = np.random.default_rng(0).standard_normal(9_999)[None] / np.sqrt(512)
    others = np.broadcast_to(random, (len(degrees), random.shape[1]))
    at = np.full_like(cosines, OWN_COSINE)
    of_own = np.hstack([cosines, others])
    of_other = np.hstack([at, cosines, others[:, 1:]])
    panels = [
        Panel(
            title,
            f"angle to {which} (degrees)",
            "probability",
            {
                name: (degrees, loss_curves.class_probabilities(loss, rows)[:, column])
                for name, loss in PROBABILITIES.items()
            },
            step=10.0,
        )
        for title, which, rows, column in (
            ("the own class", "the own center", of_own, 0),
            (f"another class, own cosine {OWN_COSINE:g}", "its center", of_other, 1),
        )
    ]
    return Drawn(curves_plot(panels, "Q-Margin: probabilities among 10,000 classes, s = 64, m = 0.4", height=4.0))


def similarity_adjustment(size: ToySize, progress: Progress) -> Drawn:
    """g(z) and its slope for several exponents t."""
    z = np.linspace(-1.0, 1.0, 401)
    both = {f"t = {t:g}": loss_curves.adjustment(z, t) for t in EXPONENTS}
    panels = [
        Panel(title, "cosine z", up, {name: (z, values[which]) for name, values in both.items()})
        for which, (title, up) in enumerate((("adjusted similarity", "g(z)"), ("its slope", "dg / dz")))
    ]
    return Drawn(curves_plot(panels, "SphereFace2: similarity adjustment"))


def soft_indicators(size: ToySize, progress: Progress) -> Drawn:
    """AnchorFace's sigmoid beside the indicator, and their slopes."""
    x = np.linspace(-0.5, 0.5, 1001)
    before, after = x[x <= 0], x[x > 0]
    indicator = np.concatenate([before, after]), np.concatenate([np.zeros(len(before)), np.ones(len(after))])
    named = {f"tau = {tau:g}": tau for tau in TEMPERATURES}
    panels = [
        Panel(
            "indicator and sigmoid",
            "score - threshold",
            "counts as accepted",
            {name: (x, soft_indicator(x, tau)) for name, tau in named.items()} | {"indicator": indicator},
        ),
        Panel(
            "slope (the indicator's is 0 but at 0)",
            "score - threshold",
            "slope",
            {name: (x, soft_indicator_slope(x, tau)) for name, tau in named.items()},
        ),
    ]
    return Drawn(curves_plot(panels, "AnchorFace: a FAR with a gradient"))


def arcface_features(size: ToySize, progress: Progress) -> Drawn:
    """Features on a circle by NormFace and by ArcFace."""
    photographs = draw_photographs(size.people, size.images, size.held_out, progress=progress)
    circles, notes = {}, []
    losses = {"Norm-Softmax": NormFace(SOFTMAX_SCALE), "ArcFace, m = 0.5": ArcFace(0.5, SOFTMAX_SCALE)}
    for name, loss in losses.items():
        features = train_softmax(loss, photographs, 2, size, progress)
        circles[name] = _margins(features, loss)
        notes.append(f"{name}: {features.text()}")
    return Drawn(circles_plot(circles, "Two numbers a face: class centers, boundaries, margins (grey)"), tuple(notes))


def _margins(features: Features, loss: CombinedMargin) -> Circle:
    """Grey wedges where no class wins with its margin; the boundaries without one as lines."""
    points = 7200  # 0.05 degrees
    directions = loss_curves.circle_directions(points)
    won = loss_curves.winners(directions, features.centers, loss.margined)
    turn = 360.0 / points
    wedges = [(start * turn, end * turn, -1) for start, end in loss_curves.runs(won, -1)]
    around = np.sort(np.degrees(np.arctan2(features.centers[:, 1], features.centers[:, 0])))
    halfway = [(left + right) / 2 for left, right in pairwise([*around, around[0] + 360.0])]
    return Circle(
        features.unit, features.labels, features.centers, wedges, {"boundary where no margin is asked for": halfway}
    )


def sphereface2_features(size: ToySize, progress: Progress) -> Drawn:
    """Features on a circle by SphereFace2 with a small and a larger margin."""
    photographs = draw_photographs(size.people, size.images, size.held_out, progress=progress)
    circles, notes = {}, []
    for margin in (0.1, 0.3):
        loss = SphereFace2("C", margin)
        features = train_sphereface2(loss, photographs, 2, size, progress)
        name = f"SphereFace2-C, m = {margin:g}"
        angles = loss_curves.boundary_angles(loss)
        circles[name] = _thresholds(features, angles)
        notes.append(f"{name}: {features.text()}; {_angles_text(angles)}")
    return Drawn(circles_plot(circles, "Two numbers a face: one threshold for all classes"), tuple(notes))


def _thresholds(features: Features, angles: tuple[float, float, float]) -> Circle:
    """Each class's sector within the positive boundary; all three boundaries of the first class."""
    toward = np.degrees(np.arctan2(features.centers[:, 1], features.centers[:, 0]))
    positive = angles[0]
    wedges = [(float(at) - positive, float(at) + positive, number) for number, at in enumerate(toward)]
    names = ("positive", "universal threshold", "negative")
    rays = {f"{name}, class 1": (toward[0] - at, toward[0] + at) for name, at in zip(names, angles, strict=True)}
    return Circle(features.unit, features.labels, features.centers, wedges, rays)


def sphere_features(size: ToySize, progress: Progress) -> Drawn:
    """Features on a sphere by ArcFace and by SphereFace2."""
    photographs = draw_photographs(size.people, size.images, size.held_out, progress=progress)
    arcface = ArcFace(0.5, SOFTMAX_SCALE)
    features = train_softmax(arcface, photographs, 3, size, progress)
    notes = [f"ArcFace, m = 0.5: {features.text()}"]
    regions = [
        (
            "where a class wins with its margin",
            number,
            "-",
            loss_curves.reach(features.centers, number, arcface.margined),
        )
        for number in range(len(features.centers))
    ]
    spheres = {"ArcFace, m = 0.5": Sphere(features.unit, features.labels, features.centers, regions)}

    sphereface2 = SphereFace2("C", 0.3)
    features = train_sphereface2(sphereface2, photographs, 3, size, progress)
    angles = loss_curves.boundary_angles(sphereface2)
    notes.append(f"SphereFace2-C, m = 0.3: {features.text()}; {_angles_text(angles)}")
    rings = [
        (f"{name}, class 1", -1, style, loss_curves.ring_around(features.centers[0], at))
        for name, style, at in zip(
            ("positive", "universal threshold", "negative"), ("-", "--", ":"), angles, strict=True
        )
    ]
    spheres["SphereFace2-C, m = 0.3"] = Sphere(features.unit, features.labels, features.centers, rings)
    return Drawn(spheres_plot(spheres, "Three numbers a face"), tuple(notes))


def _angles_text(angles: tuple[float, float, float]) -> str:
    return "boundaries at {:.1f}, {:.1f} and {:.1f} degrees".format(*angles)


FIGURES: dict[str, Callable[[ToySize, Progress], Drawn]] = {
    "target_logits": target_logits,
    "decision_margins": decision_margins,
    "theta_distributions": theta_distributions,
    "modulating_function": modulating_function,
    "hard_and_easy": hard_and_easy,
    "class_probabilities": class_probabilities,
    "similarity_adjustment": similarity_adjustment,
    "soft_indicator": soft_indicators,
    "arcface_features": arcface_features,
    "sphereface2_features": sphereface2_features,
    "sphere_features": sphere_features,
}
