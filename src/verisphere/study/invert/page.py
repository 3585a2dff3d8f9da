"""The page about an inversion: its images, their similarity to their people, and the settings."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import Float, UInt8
from matplotlib.figure import Figure
from torch import Tensor

from verisphere.report.blocks import Page, Plot, Section
from verisphere.report.html import Markup, table, tag
from verisphere.report.pictures import data_uri
from verisphere.report.plots import INK, SERIES, new_figure, tidy
from verisphere.report.tables import number
from verisphere.study.invert.findings import QUANTILE, Cosines, InversionFindings, Likeness
from verisphere.study.invert.likeness import Compared
from verisphere.study.invert.marks import marked

PAGE = "index.html"
_MOST_SHOWN = 64
_BINS = np.linspace(-1.0, 1.0, 61)
_PAPER = "sections 3.3 and 4.5 of ArcFace (Deng et al. 2021, arXiv:1801.07698v4)"
_TARGETS = {
    "photographs": "embeddings of photographs",
    "embeddings": "stored embeddings",
    "centers": "class centers of the training (closed set)",
    "directions": "directions drawn at random, with the network alone",
}
_MODELS = {"inverted": "the inverted model", "judge": "the second model"}


def write_page(
    findings: InversionFindings,
    pixels: UInt8[Tensor, "count 3 height width"],
    photos: Sequence[UInt8[Tensor, "3 height width"]],
    compared: Compared | None,
    out: Path,
) -> None:
    """Write `index.html`, one file without scripts, and `plots/` into the folder of an inversion."""
    sections = [
        Section("What this shows", "what", [_what(findings)]),
        Section("Images", "images", [_images(findings, pixels, photos, compared)]),
    ]
    if findings.likeness:
        sections.append(Section("Likeness", "likeness", _likeness(findings, compared)))
    if findings.distances:
        sections.append(Section("Distance from photographs", "distance", [_distances(findings)]))
    if findings.pairs:
        sections.append(Section("Listed pairs", "pairs", [_pairs(findings)]))
    rows = [[name.replace("_", " "), str(value)] for name, value in findings.settings.items()]
    sections.append(Section("Settings", "settings", [table("Numbers", ["Setting", "Value"], rows)]))
    made = (
        "Beside this page lie inversion.json, images/ and plots/. Every generated image is marked in its pixels and in "
        "its file."
    )
    Page(f"Inversion of {findings.model}", sections, made, "inversion.css", findings.version).write(out / PAGE)


def _what(findings: InversionFindings) -> Markup:
    """The targets of the images, and whether the images are recognised."""
    facts = [
        f"{len(findings.images):,} images were made from noise by gradient descent on their pixels, as in {_PAPER}, "
        f"toward {_TARGETS[findings.target]}. No photograph was used to make them but by way of these numbers.",
        "They show what the model and these numbers reveal of people. They are not photographs, and no evidence of how "
        "anybody looks: treat them as biometric data of the people whom they imitate.",
    ]
    if findings.verdict:
        facts.append(f"{findings.verdict[0].upper()}{findings.verdict[1:]}.")
    if findings.likeness:
        last = findings.likeness[-1]
        by = _MODELS[last.model]
        if last.recognised is not None:
            assert last.own is not None
            assert last.others is not None
            verdict = "exceeds" if last.recognised else "does not exceed"
            facts.append(
                f"Under {by} the mean cosine of an image to photographs of its own person, {number(last.own.mean, 3)}, "
                f"{verdict} {number(last.others.quantile_95, 3)}, the 95 % quantile of the cosines to other people."
            )
        if findings.judge is None:
            facts.append(
                "No second model was given. The inverted model itself was led to find these images alike, so that its "
                "own cosines show only that the descent worked."
            )
    return tag("ul", *(tag("li", fact) for fact in facts))


def _images(
    findings: InversionFindings,
    pixels: UInt8[Tensor, "count 3 height width"],
    photos: Sequence[UInt8[Tensor, "3 height width"]],
    compared: Compared | None,
) -> Markup:
    """The first images, each below the photograph that it represents, with its mean cosines."""
    to_own, to_others = [], []
    if compared is not None:
        to_own = compared.to_own
        to_others = [row[stranger] for row, stranger in zip(compared.cosines, compared.strangers, strict=True)]
    boxes = []
    for place, person in enumerate(findings.people[:_MOST_SHOWN]):
        own = f"own {to_own[place].mean():.2f}" if to_own else ""
        others = f", others {to_others[place].mean():.2f}" if to_others and len(to_others[place]) else ""
        photograph = [tag("img", src=data_uri(photos[place]), alt=f"Photograph of {person}.")] if photos else []
        boxes.append(
            tag(
                "figure",
                *photograph,
                tag("img", src=data_uri(marked(pixels[place])), alt=f"Generated image for {person}."),
                tag("figcaption", person, Markup(" "), tag("span", own + others)),
                class_="face",
            )
        )
    return tag("div", *boxes, class_="faces")


def _likeness(findings: InversionFindings, compared: Compared | None) -> list[Markup | Plot]:
    rows = [row for entry in findings.likeness for row in _rows(entry)]
    note = (
        "The mean over comparisons, and the value that 5 % of them exceed. The rows of photographs have the "
        "same model's cosines of two real images."
    )
    header = ["Compared", "Under", "Comparisons", "Mean cosine", "95 % quantile"]
    parts: list[Markup | Plot] = [table("Cosines", header, rows, note)]
    accepted = [row for entry in findings.likeness for row in _accepted(entry)]
    if accepted:
        told = (
            "One photograph of the person for each image, not the one it was drawn to; the threshold is that of pairs "
            "of photographs of two people. As other people, each image is compared with the photographs of the others; "
            "these comparisons share images and have no bounds. Other bounds are exact binomial ones. "
            "A FAR with * is below what so few pairs resolve."
        )
        header = ["Accepted", "Under", "FAR", "Threshold", "Comparisons", "Share", "95 % bounds"]
        parts.append(table("Images accepted as their person", header, accepted, told))
    if compared is not None and (own := compared.to_own):
        last, others = findings.likeness[-1], compared.cosines[compared.strangers]
        caption = (
            f"Cosines of generated images under {_MODELS[last.model]}; dashed, the 95 % quantile of those to others."
        )
        alt = "Histogram of cosines to the own person and to others."
        parts.append(Plot("cosines", partial(cosines_plot, np.concatenate(own), others), alt, caption))
    return parts


def _rows(entry: Likeness) -> list[list[str]]:
    under = _MODELS[entry.model]
    lines: list[tuple[str, Cosines | None]] = [
        ("generated, the photograph it was drawn to", entry.same_photo),
        ("generated, photographs of its person", entry.same_person),
        ("generated, photographs of others", entry.others),
        ("photograph, others of its person", entry.real_same_person),
        ("photograph, photographs of others", entry.real_others),
    ]
    return [
        [compared, under, f"{found.count:,}", number(found.mean, 3), number(found.quantile_95, 3)]
        for compared, found in lines
        if found is not None
    ]


def _accepted(entry: Likeness) -> list[list[str]]:
    return [
        [
            what,
            _MODELS[entry.model],
            point.far_target + ("*" if point.below_resolution else ""),
            number(point.threshold, 3),
            f"{point.genuine_accepted} of {point.genuine_total}",
            number(point.tar, 3),
            # comparisons with other people share faces and people, so binomial bounds would be too narrow
            "-"
            if points is entry.other_points
            else f"{number(point.tar_lower_95, 3)} .. {number(point.tar_upper_95, 3)}",
        ]
        for what, points in (
            ("generated", entry.points),
            ("generated, as other people", entry.other_points),
            ("photograph", entry.real_points),
            ("stranger's photograph, the person chosen likewise", entry.stranger_points),
        )
        for point in points
    ]


def _distances(findings: InversionFindings) -> Markup:
    rows = [
        [one.name, _MODELS[one.space], f"{one.images:,}", number(one.generated, 4), number(one.real, 4)]
        for one in findings.distances
    ]
    note = (
        "Between unit embeddings. A Frechet distance takes more images than dimensions; the kernel distance (cubic, "
        "without bias) takes fewer and can be negative. Both depend on the number of images: compare "
        "with the last column."
    )
    return table(
        "Distance from photographs of other people",
        ["Distance", "Space", "Images", "Generated", "Photographs"],
        rows,
        note,
    )


def _pairs(findings: InversionFindings) -> Markup:
    rows = [
        [
            one.sides,
            _MODELS[one.model],
            f"{one.pairs:,}",
            str(one.folds),
            number(one.mean, 4),
            number(one.standard_error, 4),
        ]
        for one in findings.pairs
    ]
    header = ["Sides", "Under", "Pairs", "Folds", "Accuracy", "Standard error"]
    return table("Accuracy on listed pairs (ArcFace, table 11)", header, rows)


def cosines_plot(own: Float[np.ndarray, " own"], others: Float[np.ndarray, " others"]) -> Figure:
    """Histograms of the cosines with the own person and with others."""
    figure = new_figure(3.2)
    axes = figure.subplots()
    for values, colour, label in (
        (others, SERIES[0], "photographs of other people"),
        (own, SERIES[2], "photographs of the image's person"),
    ):
        weights = np.full(len(values), 1.0 / max(len(values), 1))
        axes.hist(values, _BINS.tolist(), weights=weights, color=colour, alpha=0.6, label=label)
    if len(others):
        axes.axvline(float(np.quantile(others, QUANTILE)), color=INK, linewidth=1.0, linestyle="--")
    axes.set_xlabel("cosine")
    axes.set_ylabel("share of comparisons")
    axes.legend(frameon=False, fontsize=8, loc="upper left")
    tidy(axes)
    return figure
