"""The page about cleaning: what was dropped, why, whom it costs, and what the images look like."""

import base64
import math
from collections.abc import Mapping, Sequence

from verisphere.report.cleaning_findings import (
    ByImages,
    CleaningFindings,
    IdentityShown,
    Sheet,
    Shot,
    SubClass,
    Truth,
)
from verisphere.report.cleaning_plots import IN_DOMINANT, NEAREST, SPLIT, TO_DOMINANT
from verisphere.report.html import Markup, breakable, definitions, joined, table, tag
from verisphere.report.picture_sections import picture
from verisphere.report.sections import percent
from verisphere.report.tables import number
from verisphere.report.whole_page import whole_page

MOST_LOST = 30  # lost identities that are named; clean.json has all
_LONGEST = 60  # letters of a name below an image; its text for screen readers has all
_NONE = "-"  # a share of nothing
_ARCFACE = "ArcFace (Deng et al. 2021, arXiv:1801.07698v4)"


def render_cleaning_page(findings: CleaningFindings, plots: Mapping[str, bytes]) -> str:
    """The page as HTML.

    Args:
        findings: contents of the page.
        plots: SVG of each figure of `cleaning_figures`.
    """
    uris = {name: f"data:image/svg+xml;base64,{base64.b64encode(data).decode()}" for name, data in plots.items()}
    parts: list[tuple[str, str, Markup]] = [
        ("Summary", "summary", summary(findings)),
        ("Angles compared", "compared", compared(findings)),
        ("Identities", "identities", identities(findings)),
        ("Angles of the images", "angles", angles(findings, uris)),
        ("Sub-classes of single identities", "sub-classes", sub_classes(findings)),
        ("Dropped images", "dropped", sheets(findings, findings.sheets_dropped, "No image was dropped.")),
        ("Kept images", "kept", sheets(findings, findings.sheets_kept, "No image of an identity was kept.")),
        ("How each number was made", "method", method(findings)),
    ]
    made = (
        f"Made by verisphere {findings.version}. Beside this page lie kept.txt, the list of the kept images, "
        "clean.json, each image with its angles and the reason, and plots/, the plots as PNG and SVG."
    )
    return whole_page(findings.title, findings.version, parts, made, "cleaning.css")


def counted(part: int, whole: int, what: str) -> str:
    """A number of a whole, with its share.

    >>> counted(3, 1200, "images"), counted(0, 1200, "images")
    ('3 of 1,200 images (0.2\\xa0%)', 'none of 1,200 images')
    """
    return f"{part:,} of {whole:,} {what} ({percent(part / whole)})" if part else f"none of {whole:,} {what}"


def share(part: int, whole: int) -> str:
    """A share in percent; a dash for a share of nothing."""
    return percent(part / whole) if whole else _NONE


def _opening(text: str) -> str:
    """The text as the opening of a sentence."""
    return text[:1].upper() + text[1:]


def _images(count: int) -> str:
    return f"{count:,} image{'' if count == 1 else 's'}"


# --- summary ---


def summary(findings: CleaningFindings) -> Markup:
    """What was dropped, by which rule, and whether it was noise."""
    dropped = findings.images - findings.kept
    lead = (
        f"{_opening(counted(dropped, findings.images, 'images'))} are dropped, {findings.kept:,} are kept. "
        f"{_opening(counted(len(findings.lost), findings.identities, 'identities'))} are lost."
    )
    known = sum(len(category.angle) for category in findings.categories)
    slots = findings.identities * findings.sub_centers
    dominant = sum(len(category.angle) for category in findings.categories if category.dominant)
    facts = [
        joined(tag("strong", "Method"), f": {findings.method}; {_most(findings.sub_centers)}."),
        joined(tag("strong", "Rule"), f": {findings.rule}"),
    ]
    if findings.sub_centers > 1:
        facts.append(
            joined(
                tag("strong", "Sub-classes"),
                f": {counted(dominant, known, 'images')} are nearest to the dominant sub-center of their identity. "
                f"{_opening(counted(findings.empty, slots, 'sub-centers'))} are empty: no image is nearest to them.",
            )
        )
    if findings.nobody:
        facts.append(
            joined(
                tag("strong", "Without identity"),
                f": {_images(findings.nobody)}. No rule applies to them; they are kept.",
            )
        )
    rows = [[entry.because, f"{entry.images:,}", share(entry.images, findings.images)] for entry in findings.dropped]
    rows.append(["all dropped images", f"{dropped:,}", share(dropped, findings.images)])
    note = "An image is counted once, under the first of these reasons." if len(rows) > 2 else ""
    return joined(
        tag("p", lead, class_="lead"),
        tag("ul", *(tag("li", fact) for fact in facts)),
        table("Dropped images by rule", ["Reason", "Images", "Share of all"], rows, note),
        _truth(findings, findings.truth) if findings.truth is not None else _unknown(),
        "" if findings.rank_1 is None else _nearest_class(findings.rank_1),
    )


def _nearest_class(rank_1: Mapping[str, Mapping[str, float]]) -> Markup:
    """Rank 1 among the classes, before and after dropping the sub-centers that are not dominant."""
    rows = [
        [f"{which} images", number(shares["all_sub_centers"]), number(shares["dominant_only"])]
        for which, shares in rank_1.items()
    ]
    told = (
        'To keep the dominant sub-centers alone ("K = 3 to 1") changes no embedding, and so no score of two images. It '
        "changes which class center is nearest to an image."
    )
    header = ["Images", "All sub-centers", "Dominant ones alone"]
    return joined(table("Share of the images whose nearest class is their own", header, rows), tag("p", told))


def _most(sub_centers: int) -> str:
    if sub_centers == 1:
        return "one center for each identity (K = 1)"
    return f"at most {sub_centers} sub-classes of an identity (K = {sub_centers})"


def _unknown() -> Markup:
    told = (
        "Whether the dropped images are noise is not known here: the data set does not state who is truly on its "
        "images. Look at the sheets below before you use the list."
    )
    return tag("p", told)


def _truth(findings: CleaningFindings, truth: Truth) -> Markup:
    """Precision and recall, and the share of wrong labels before and after."""
    dropped = truth.noisy_dropped + truth.clean_dropped
    rows = [
        [name, f"{noisy + clean:,}", f"{noisy:,}", share(noisy, noisy + clean)]
        for name, noisy, clean in (
            ("before", truth.noisy, truth.clean),
            ("dropped", truth.noisy_dropped, truth.clean_dropped),
            ("after", truth.noisy - truth.noisy_dropped, truth.clean - truth.clean_dropped),
        )
    ]
    facts = []
    if dropped:
        right = counted(truth.noisy_dropped, dropped, "dropped images")
        facts.append(joined(tag("strong", "Precision"), f": {right} have a wrong label."))
    if truth.noisy:
        reached = counted(truth.noisy_dropped, truth.noisy, "images with a wrong label")
        facts.append(joined(tag("strong", "Recall"), f": {reached} are dropped."))
    price = counted(truth.clean_dropped, truth.clean, "images with a right label")
    facts.append(joined(tag("strong", "Price"), f": {price} are dropped too."))
    told = (
        "The data set states who is truly on its images, and a label counts as wrong where it differs from that. An "
        "error that this truth has itself counts as a right label."
    )
    return joined(
        tag("p", told),
        tag("ul", *(tag("li", fact) for fact in facts)),
        table("Wrong labels before and after", ["Images", "Number", "Label wrong", "Share"], rows),
        _categories(findings) if findings.sub_centers > 1 else "",
    )


def _categories(findings: CleaningFindings) -> Markup:
    total = sum(len(category.angle) for category in findings.categories)
    rows = [
        [category.name, f"{len(category.angle):,}", share(len(category.angle), total)]
        for category in findings.categories
    ]
    return table("The categories of ArcFace, figure 7", ["Images", "Number", "Share"], rows)


# --- angles ---


def compared(findings: CleaningFindings) -> Markup:
    """What the angle alone drops at each of the compared angles."""
    header = ["Angle", "Dropped", "Share", "Identities lost"]
    with_truth = any(at.truth is not None for at in findings.at_angles)
    if with_truth:
        header += ["Precision", "Recall", "Wrong labels after", "Right labels dropped"]
    rows = []
    for at in findings.at_angles:
        row = [
            f"{at.angle:g}\N{DEGREE SIGN}{' (the rule)' if at.angle == findings.angle else ''}",
            f"{at.dropped:,}",
            share(at.dropped, findings.images),
            f"{at.identities_lost:,}",
        ]
        if (truth := at.truth) is not None:
            noisy_left, clean_left = truth.noisy - truth.noisy_dropped, truth.clean - truth.clean_dropped
            row += [
                share(truth.noisy_dropped, truth.noisy_dropped + truth.clean_dropped),
                share(truth.noisy_dropped, truth.noisy),
                share(noisy_left, noisy_left + clean_left),
                share(truth.clean_dropped, truth.clean),
            ]
        rows.append(row)
    told = (
        f"The angle alone, whatever further rules are in use. {_ARCFACE} compares 70, 75, 80 and 85 degrees in table 3 "
        "and chooses 75."
    )
    return joined(tag("p", told), table("What each angle drops", header, rows))


def angles(findings: CleaningFindings, uris: Mapping[str, str]) -> Markup:
    """Histograms of the angles."""
    if not uris:
        return tag("p", "No image has an identity with a sub-center, so there are no angles.")
    everything = "the dominant sub-center of their identity (ArcFace, figure 6b)"
    if findings.sub_centers == 1:
        everything = "the center of their identity (ArcFace, figure 7a)"
    line = "" if findings.angle is None else f" The line is the rule: {findings.angle:g}\N{DEGREE SIGN}."
    captions = {
        SPLIT: f"All images to {everything}.{line}",
        IN_DOMINANT: f"Images of dominant sub-classes to their nearest sub-center (ArcFace, figure 7b).{line}",
        NEAREST: "Images of non-dominant sub-classes to their nearest sub-center (ArcFace, figure 7c).",
        TO_DOMINANT: f"The same images to the dominant sub-center of their identity (ArcFace, figure 7d).{line}",
    }
    counts = ", ".join(f"{category.name} {len(category.angle):,}" for category in findings.categories)
    plots = [
        picture(uris[name], f"Histogram. {caption} Images: {counts}.", caption)
        for name, caption in captions.items()
        if name in uris
    ]
    told = (
        "Above on a linear scale, below on a logarithmic one, which shows small groups. Shares are of all images with "
        "an identity. Where sub-centers are means of images, an image that is alone in its sub-class lies at 0 degrees."
    )
    alone = "" if NEAREST in uris else tag("p", _no_others(findings))
    return joined(tag("p", told), tag("div", *plots, class_="plots"), alone)


def _no_others(findings: CleaningFindings) -> str:
    if findings.sub_centers == 1:
        return "With one sub-center (K = 1) there are no non-dominant sub-classes."
    return "All images are nearest to the dominant sub-center of their identity: no other sub-class has an image."


# --- identities ---


def identities(findings: CleaningFindings) -> Markup:
    """Who was lost, and how the loss falls on identities with few images."""
    with_truth = any(row.clean is not None for row in findings.by_images)
    header = ["Images of an identity", "Identities", "Lost", "Images", "Dropped", "Share dropped"]
    header += ["Right labels dropped"] if with_truth else []
    rows = [_by_images(row) for row in findings.by_images if row.identities]
    told = (
        "Each identity counts under its number of images before cleaning. An identity of one image is its own "
        "sub-center where sub-centers are found from these images, so it cannot be dropped by an angle; sub-centers of "
        "a trained model can also lie far from a single image."
    )
    parts = [
        table("The loss by number of images of an identity", header, rows),
        tag("p", told, class_="note"),
        tag("h3", "Identities lost"),
    ]
    if not findings.lost:
        parts.append(tag("p", "None: at least one image of every identity is kept."))
        return joined(*parts)
    named = findings.lost[:MOST_LOST]
    more = len(findings.lost) - len(named)
    parts.append(
        table(
            "Identities of which no image is kept, those with most images first",
            ["Identity", "Images before"],
            [[identity, f"{images:,}"] for identity, images in named],
            f"And {more:,} more; clean.json names all." if more else "",
        )
    )
    return joined(*parts)


def _by_images(row: ByImages) -> list[str]:
    cells = [
        f"{row.first:,}" if row.first == row.last else f"{row.first:,} to {row.last:,}",
        f"{row.identities:,}",
        f"{row.lost:,}",
        f"{row.images:,}",
        f"{row.dropped:,}",
        share(row.dropped, row.images),
    ]
    if row.clean is not None and row.clean_dropped is not None:
        cells.append(share(row.clean_dropped, row.clean))
    return cells


# --- pictures ---


def sub_classes(findings: CleaningFindings) -> Markup:
    """Identities in their sub-classes, a row of images for each (ArcFace, figure 6a)."""
    if not findings.shown:
        return tag("p", _no_others(findings))
    told = (
        "As ArcFace's figure 6a. Shown are the identities with most dropped images outside their dominant sub-class, "
        "and of equally many those with most images outside it. In each row the image nearest to the dominant "
        "sub-center is first; its angle to the dominant sub-center stands below. Dropped images have a frame. Of a "
        "large sub-class, images are shown at even steps from the first to the last."
    )
    parts = [tag("p", told), *_about_pictures(findings)]
    for shown in findings.shown:
        parts += _identity(shown)
    return joined(*parts)


def _identity(shown: IdentityShown) -> list[Markup]:
    images = sum(part.images for part in shown.sub_classes)
    dropped = sum(part.dropped for part in shown.sub_classes)
    outside = sum(part.images for part in shown.sub_classes if part.number != shown.dominant)
    told = f"{_images(images)}, {outside:,} outside the dominant sub-class, {dropped:,} dropped."
    if shown.empty:
        told += f" {shown.empty:,} sub-center{'' if shown.empty == 1 else 's'} of the identity without an image."
    parts = [tag("h3", shown.identity), tag("p", told)]
    for part in shown.sub_classes:
        parts += [_row_heading(part, part.number == shown.dominant), _shots(part.shown, same_identity=True)]
    return parts


def _row_heading(part: SubClass, dominant: bool) -> Markup:
    some = f", {len(part.shown):,} shown" if len(part.shown) < part.images else ""
    told = f"Sub-center {part.number}: {_images(part.images)}{some}, {part.dropped:,} dropped "
    return tag("h4", told, tag("span", "dominant", class_="mark") if dominant else "")


def sheets(findings: CleaningFindings, contact_sheets: Sequence[Sheet], none: str) -> Markup:
    """Contact sheets."""
    filled = [sheet for sheet in contact_sheets if sheet.shown]
    if not filled:
        return tag("p", none)
    parts = _about_pictures(findings)
    for sheet in filled:
        parts += [
            tag("h3", sheet.heading),
            tag("p", f"{len(sheet.shown):,} of {_images(sheet.total)}.", class_="note"),
            _shots(sheet.shown, same_identity=False),
        ]
    return joined(*parts)


def _about_pictures(findings: CleaningFindings) -> list[Markup]:
    if not findings.pictures:
        told = "No pictures: the images were not given. "
        how = joined("To see them, name the data set in the command: ", tag("code", "--faces DATA"), ".")
        return [tag("p", told, how, class_="note")]
    if findings.people:
        return [tag("p", "These pictures are of people: mind to whom the page is given.", class_="note")]
    return []


def _shots(shots: Sequence[Shot], same_identity: bool) -> Markup:
    """Images with their angles and names; of one identity, its name is not repeated."""
    bare = all(shot.uri is None for shot in shots)
    entries = (tag("li", *_shot(shot, same_identity), class_=None if shot.kept else "dropped") for shot in shots)
    return tag("ul", *entries, class_="shots bare" if bare else "shots")


def _shot(shot: Shot, same_identity: bool) -> list[Markup]:
    what = "kept" if shot.kept else "dropped"
    at = "no angle" if math.isnan(shot.angle) else f"{shot.angle:.1f}\N{DEGREE SIGN}"
    parts = []
    if shot.uri is not None:
        parts.append(tag("img", src=shot.uri, alt=f"{what}, {at}: {shot.name}, labelled {shot.identity}"))
    parts.append(tag("span", at if shot.kept else f"{at} dropped", class_="angle"))
    if not same_identity:
        parts.append(tag("span", breakable(_short(shot.identity))))
    parts.append(tag("span", breakable(_short(_file(shot))), class_="file"))
    if shot.true_identity is not None and not (same_identity and shot.kept and shot.true_identity == shot.identity):
        parts.append(_verdict(shot, shot.true_identity))
    return parts


def _file(shot: Shot) -> str:
    """The name of the image, without the folder that repeats its identity."""
    return shot.name.removeprefix(f"{shot.identity}/") or shot.name


def _verdict(shot: Shot, truth: str) -> Markup:
    """What the truth says about the label; a wrong decision is marked."""
    right = truth == shot.identity
    told = joined("label right") if right else joined("truly ", breakable(_short(truth)))
    return tag("span", told, class_="wrong" if right != shot.kept else None)


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"\N{HORIZONTAL ELLIPSIS}{name[1 - _LONGEST :]}"


# --- method ---


def method(findings: CleaningFindings) -> Markup:
    """Definitions of the words of the page."""
    return definitions(
        (
            "Sub-class",
            "The images of an identity that are nearest to one of its K sub-centers; the nearest has the largest "
            "cosine.",
        ),
        (
            "Dominant sub-center",
            "The one that most images of the identity are nearest to; of several with equally many, the one with the "
            "larger sum of their cosines.",
        ),
        ("Angle", "The arc cosine of the cosine between an image's embedding and a sub-center, in degrees."),
        (
            "Rule",
            f"{findings.rule} The angle to the dominant sub-center alone decides in {_ARCFACE}, section 3.3; dropping "
            "every image that is nearer to another sub-center is a further rule of verisphere's own, off by default.",
        ),
        (
            "Precision and recall",
            "Precision is the share of the dropped images whose label is wrong; recall is the share of the images "
            "with a wrong label that are dropped. Both need the truth, and are not stated without it.",
        ),
        (
            "Choice of images",
            "Of the images in the order that a heading states, at most a few of one identity are shown. Nothing else "
            "was chosen, and nothing was chosen by eye.",
        ),
    )
