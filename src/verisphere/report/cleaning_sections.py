"""The page about cleaning: which images were dropped, why, which people lost images, and the images themselves."""

from collections.abc import Mapping

from verisphere.report.blocks import Page, Plot, Section
from verisphere.report.cleaning_findings import ByImages, CleaningFindings, NoiseDropped
from verisphere.report.cleaning_pictures import images_text, no_others, sheets, sub_classes
from verisphere.report.cleaning_plots import IN_DOMINANT, NEAREST, SPLIT, TO_DOMINANT, cleaning_figures
from verisphere.report.html import Markup, definitions, joined, table, tag
from verisphere.report.sections import percent
from verisphere.report.tables import number

MOST_LOST = 30  # lost identities that are named; clean.json has all
_NONE = "-"  # a share of nothing
_ARCFACE = "ArcFace (Deng et al. 2021, arXiv:1801.07698v4)"


def cleaning_page(findings: CleaningFindings) -> Page:
    """The page."""
    kept = sheets(findings, findings.sheets_kept, "No image of an identity was kept.")
    sections = [
        Section("Summary", "summary", [summary(findings)]),
        Section("Angles compared", "compared", [compared(findings)]),
        Section("Identities", "identities", [identities(findings)]),
        Section("Angles of the images", "angles", angles(findings)),
        Section("Sub-classes of single identities", "sub-classes", [sub_classes(findings)]),
        Section("Dropped images", "dropped", [sheets(findings, findings.sheets_dropped, "No image was dropped.")]),
        Section("Kept images", "kept", [kept]),
        Section("How each number was made", "method", [method(findings)]),
    ]
    made = (
        "Beside this page lie kept.txt, the list of the kept images, clean.json, each image with its angles and the "
        "reason, and plots/, the plots as PNG and SVG."
    )
    return Page(findings.title, sections, made, "cleaning.css", findings.version)


def counted(part: int, whole: int, what: str) -> str:
    """A part of a whole as numbers, with its share.

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


# --- summary ---


def summary(findings: CleaningFindings) -> Markup:
    """The number of dropped images by rule, and whether they were noise."""
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
                f": {images_text(findings.nobody)}. No rule applies to them; they are kept.",
            )
        )
    rows = [[because, f"{images:,}", share(images, findings.images)] for because, images in findings.dropped.items()]
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


def _truth(findings: CleaningFindings, truth: NoiseDropped) -> Markup:
    """Precision and recall, and the share of wrong labels before and after."""
    dropped = truth.dropped
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
    """The images that the angle alone drops, for each of the compared angles."""
    header = ["Angle", "Dropped", "Share", "Identities lost"]
    with_truth = any(at.agreement is not None for at in findings.at_angles)
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
        if (truth := at.agreement) is not None:
            noisy_left, clean_left = truth.noisy - truth.noisy_dropped, truth.clean - truth.clean_dropped
            row += [
                share(truth.noisy_dropped, truth.dropped),
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


def angles(findings: CleaningFindings) -> list[Markup | Plot]:
    """Histograms of the angles."""
    figures = cleaning_figures(findings)
    if not figures:
        return [tag("p", "No image has an identity with a sub-center, so there are no angles.")]
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
        Plot(name, draw, f"Histogram. {captions[name]} Images: {counts}.", captions[name])
        for name, draw in figures.items()
    ]
    told = (
        "Above on a linear scale, below on a logarithmic one, which shows small groups. Shares are of all images with "
        "an identity. Where sub-centers are means of images, an image that is alone in its sub-class lies at 0 degrees."
    )
    return [tag("p", told), *plots, *([] if NEAREST in figures else [tag("p", no_others(findings))])]


# --- identities ---


def identities(findings: CleaningFindings) -> Markup:
    """The lost identities, and the share that is lost by number of images of an identity."""
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
            f"{findings.rule} The angle to the dominant sub-center alone decides in {_ARCFACE}, section 3.2; dropping "
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
