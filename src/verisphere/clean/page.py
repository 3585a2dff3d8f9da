"""The page about a cleaning: the dropped samples, the reasons, the identities that lose images, and pictures."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Int64

from verisphere import __version__
from verisphere.clean.cleaning import Cleaning
from verisphere.clean.rules import Reason, Rule, images_left
from verisphere.images.faces import Faces
from verisphere.measure.data.statistics import images_histogram
from verisphere.report.cleaning_findings import (
    ByImages,
    Category,
    CleaningFindings,
    IdentityShown,
    Sheet,
    Shot,
    SubClass,
)
from verisphere.report.cleaning_sections import cleaning_page
from verisphere.report.samples import pictures, varied

PAGE = "index.html"
IDENTITIES = 3  # identities shown in their sub-classes
IN_ROW = 8  # images shown of a sub-class
ON_SHEET = 24  # images of a contact sheet
PER_IDENTITY = 2  # images of one identity among them, at most
_LOOKED_AT = 100_000  # images from which a sheet is chosen in order, so that one identity does not fill it


def write_result(cleaning: Cleaning, faces: Faces | None, folder: Path, title: str) -> str:
    """Write all files of a result; returns an empty text, since `on_first_rank` needs a result.

    Args:
        cleaning: the result.
        faces: the images, for the pictures of a page; None if they are not available.
        folder: the folder.
        title: heading of a page.
    """
    write_page(cleaning, faces, folder, title)  # first, since the page is refused if the images have other names
    cleaning.write(folder)
    return ""


def write_page(cleaning: Cleaning, faces: Faces | None, folder: Path, title: str) -> None:
    """Write `index.html`, one file without scripts, and `plots/` into a folder.

    Only the images that the page shows are read.

    Args:
        cleaning: the cleaning.
        faces: the images; None makes a page without pictures.
        folder: an existing folder.
        title: title of the page.
    """
    findings = cleaning_findings(cleaning, title)
    if faces is not None:
        findings = _with_pictures(findings, faces)
    cleaning_page(findings).write(folder / PAGE)


def cleaning_findings(cleaning: Cleaning, title: str) -> CleaningFindings:
    """The contents of the page, without pictures."""
    found, rule = cleaning.found, cleaning.rule
    sub = found.sub
    images = cleaning.images
    lost = (images > 0) & (images_left(sub, cleaning.reasons) == 0)
    ranked = [int(place) for place in np.argsort(-images, kind="stable") if lost[place]]
    return CleaningFindings(
        title=title,
        version=__version__,
        method=found.method,
        rule=rule_in_words(rule),
        angle=rule.angle,
        images=len(found),
        kept=int(cleaning.kept.sum()),
        nobody=int((sub.labels < 0).sum()),
        identities=int((images > 0).sum()),
        sub_centers=sub.counts.shape[1],
        empty=int((sub.counts[images > 0] == 0).sum()),
        dropped={because: cleaning.counts[reason.word] for reason, because in _reasons_in_words(rule).items()},
        lost=[(found.people[place], int(images[place])) for place in ranked],
        truth=cleaning.agreement,
        at_angles=cleaning.at_angles(),
        by_images=_by_images(cleaning, lost),
        categories=_categories(cleaning),
        shown=[_identity(cleaning, label) for label in telling_identities(cleaning)],
        sheets_dropped=_sheets_dropped(cleaning),
        sheets_kept=_sheets_kept(cleaning),
        rank_1=cleaning.rank_1,
    )


def rule_in_words(rule: Rule) -> str:
    """The rule as whole sentences."""
    sentences = []
    if rule.angle is not None:
        sentences.append(
            f"Images at more than {rule.angle:g} degrees to the dominant sub-center of their identity are dropped; an "
            "image at this very angle is kept."
        )
    if rule.only_dominant:
        sentences.append("Images that are nearer to another sub-center than to the dominant one are dropped.")
    if rule.min_images > 1:
        sentences.append(f"Identities of which fewer than {rule.min_images:,} images remain are dropped as a whole.")
    return " ".join(sentences) or "No image is dropped."


def _reasons_in_words(rule: Rule) -> dict[Reason, str]:
    """The possible reasons of this rule for dropping an image, in words."""
    words = {}
    if rule.angle is not None:
        words[Reason.ANGLE] = f"more than {rule.angle:g} degrees to the dominant sub-center"
    if rule.only_dominant:
        words[Reason.SUB_CENTER] = "nearer to another sub-center"
    if rule.min_images > 1:
        words[Reason.FEW_IMAGES] = f"fewer than {rule.min_images:,} images of the identity remain"
    return words


def _by_images(cleaning: Cleaning, lost: Bool[np.ndarray, " classes"]) -> list[ByImages]:
    """The loss by the number of images of an identity."""
    labels = cleaning.found.sub.labels
    named = labels >= 0
    of_image = np.zeros(len(labels), np.int64)  # number of images of each image's identity
    of_image[named] = cleaning.images[labels[named]]
    rows = []
    for interval in images_histogram(cleaning.images[cleaning.images > 0]):
        within = (of_image >= interval.first) & (of_image <= interval.last)
        identities = (cleaning.images >= interval.first) & (cleaning.images <= interval.last)
        row = ByImages(
            interval.first,
            interval.last,
            identities=int(identities.sum()),
            lost=int((identities & lost).sum()),
            images=int(within.sum()),
            dropped=int((within & ~cleaning.kept).sum()),
        )
        if cleaning.noisy is not None:
            clean = within & ~cleaning.noisy
            row = replace(row, clean=int(clean.sum()), clean_dropped=int((clean & ~cleaning.kept).sum()))
        rows.append(row)
    return rows


def _categories(cleaning: Cleaning) -> list[Category]:
    """The samples with an identity: dominant or not, and clean or noisy if the truth is known."""
    sub = cleaning.found.sub
    everything = np.ones(len(sub), bool)
    kinds = [(None, everything)] if cleaning.noisy is None else [(False, ~cleaning.noisy), (True, cleaning.noisy)]
    return [
        Category(dominant, noisy, sub.angle[rows & of_kind], sub.nearest[rows & of_kind])
        for dominant, rows in ((True, sub.in_dominant), (False, sub.known & ~sub.in_dominant))
        for noisy, of_kind in kinds
    ]


# --- which images are shown ---


def telling_identities(cleaning: Cleaning, count: int = IDENTITIES) -> list[int]:
    """Labels of the identities with most dropped samples outside their dominant sub-class.

    Among equals, those with most samples outside it come first, then those that come first in the set. Identities
    without a sample outside are not chosen.
    """
    sub = cleaning.found.sub
    outside = sub.known & ~sub.in_dominant
    classes = len(sub.dominant)
    elsewhere = np.bincount(sub.labels[outside], minlength=classes)
    dropped = np.bincount(sub.labels[outside & ~cleaning.kept], minlength=classes)
    order = np.lexsort((-elsewhere, -dropped))[:count]
    return [int(label) for label in order if elsewhere[label]]


def _identity(cleaning: Cleaning, label: int) -> IdentityShown:
    found = cleaning.found
    dominant = int(found.sub.dominant[label])
    counts = found.sub.counts[label]
    rows = np.flatnonzero(found.sub.labels == label)
    rows = rows[np.argsort(found.sub.angle[rows], kind="stable")]
    order = sorted(np.flatnonzero(counts).tolist(), key=lambda number: (number != dominant, -counts[number]))
    sub_classes = []
    for number in order:
        members = rows[found.sub.sub_center[rows] == number]
        shown = members[even_steps(len(members), IN_ROW)]
        dropped = int((~cleaning.kept[members]).sum())
        sub_classes.append(SubClass(number, len(members), dropped, _shots(cleaning, shown)))
    return IdentityShown(found.people[label], dominant, tuple(sub_classes), int((counts == 0).sum()))


def even_steps(length: int, most: int) -> Int64[np.ndarray, " shown"]:
    """Positions at even steps from the first to the last, at most the given number.

    >>> even_steps(3, 10).tolist(), even_steps(10, 4).tolist()
    ([0, 1, 2], [0, 3, 6, 9])
    """
    return np.linspace(0, length - 1, min(length, most)).round().astype(np.int64)


def _sheets_dropped(cleaning: Cleaning) -> list[Sheet]:
    """Contact sheets of the dropped samples: for each reason, and in both orders for the angle."""
    sheets = []
    rule, reasons = cleaning.rule, cleaning.reasons
    if rule.angle is not None:
        beyond = reasons == Reason.ANGLE
        sheets += [
            _sheet(cleaning, "Dropped for their angle, largest angle first", beyond, largest_first=True),
            _sheet(cleaning, f"Dropped for their angle, nearest to {rule.angle:g} degrees first", beyond),
        ]
    if rule.only_dominant:
        rows = reasons == Reason.SUB_CENTER
        sheets.append(_sheet(cleaning, "Dropped as nearer to another sub-center, smallest angle first", rows))
    if rule.min_images > 1:
        rows = reasons == Reason.FEW_IMAGES
        sheets.append(_sheet(cleaning, "Dropped with an identity of few images, smallest angle first", rows))
    return sheets


def _sheets_kept(cleaning: Cleaning) -> list[Sheet]:
    rows = cleaning.kept & cleaning.found.sub.known
    angle = cleaning.rule.angle
    heading = "Kept, largest angle first" if angle is None else f"Kept, nearest to {angle:g} degrees first"
    return [_sheet(cleaning, heading, rows, largest_first=True)]


def _sheet(cleaning: Cleaning, heading: str, rows: Bool[np.ndarray, " samples"], largest_first: bool = False) -> Sheet:
    """The first samples in the order of the angle to the dominant sub-center, at most a few of one identity."""
    sub = cleaning.found.sub
    places = np.flatnonzero(rows)
    order = np.argsort(-sub.angle[places] if largest_first else sub.angle[places], kind="stable")
    places = places[order[:_LOOKED_AT]]
    labels = sub.labels[places]
    chosen = places[varied(np.stack([labels, labels], axis=1), ON_SHEET, PER_IDENTITY)]
    return Sheet(heading, int(rows.sum()), _shots(cleaning, chosen))


def _shots(cleaning: Cleaning, places: Int64[np.ndarray, " shown"]) -> tuple[Shot, ...]:
    found = cleaning.found
    truth = found.true_identities
    return tuple(
        Shot(
            found.names[place],
            found.identities[place],
            float(found.sub.angle[place]),
            bool(cleaning.kept[place]),
            None if truth is None else truth[place],
        )
        for place in places.tolist()
    )


# --- pictures ---


def _with_pictures(findings: CleaningFindings, faces: Faces) -> CleaningFindings:
    """The contents with the images that are shown."""
    sheets = (*findings.sheets_dropped, *findings.sheets_kept)
    shots = [shot for sheet in sheets for shot in sheet.shown]
    shots += [shot for shown in findings.shown for part in shown.sub_classes for shot in part.shown]
    uris = pictures(faces, list(dict.fromkeys(shot.name for shot in shots)))

    def with_uris(given: Sequence[Shot]) -> tuple[Shot, ...]:
        return tuple(replace(shot, uri=uris[shot.name]) for shot in given)

    def on(given: Sequence[Sheet]) -> list[Sheet]:
        return [replace(sheet, shown=with_uris(sheet.shown)) for sheet in given]

    return replace(
        findings,
        shown=[
            replace(
                shown,
                sub_classes=tuple(replace(part, shown=with_uris(part.shown)) for part in shown.sub_classes),
            )
            for shown in findings.shown
        ],
        sheets_dropped=on(findings.sheets_dropped),
        sheets_kept=on(findings.sheets_kept),
        people=not faces.source.drawn,
        pictures=True,
    )
