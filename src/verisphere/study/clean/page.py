"""The page about a cleaning: which images were dropped, why, which people lost images, and the images themselves."""

from pathlib import Path

import numpy as np

from verisphere.images.faces import Faces
from verisphere.measure.data.statistics import images_histogram
from verisphere.report.blocks import Page, Plot, Section
from verisphere.report.html import Markup, definitions, facts, table, tag
from verisphere.report.tables import number, percent
from verisphere.study.clean.cleaning import Cleaning
from verisphere.study.clean.page_pictures import Pictures, images_text, no_others
from verisphere.study.clean.page_plots import angle_plots, in_words
from verisphere.study.clean.rules import Rule
from verisphere.study.clean.truth import NoiseDropped

PAGE = "index.html"
MOST_LOST = 30  # lost identities that are named; clean.json has all
_NONE = "-"  # a share of nothing
_ARCFACE = "ArcFace (Deng et al. 2021, arXiv:1801.07698v4)"


def write_result(cleaning: Cleaning, faces: Faces | None, folder: Path, title: str) -> None:
    """Write all files of a result."""
    write_page(cleaning, faces, folder, title)  # first, since the page is refused if the images have other names
    cleaning.write(folder)


def write_page(cleaning: Cleaning, faces: Faces | None, folder: Path, title: str) -> None:
    """Write `index.html`, one file without scripts, and `plots/` into a folder; only images that it shows are read."""
    cleaning_page(cleaning, faces, title).write(folder / PAGE)


def cleaning_page(cleaning: Cleaning, faces: Faces | None, title: str) -> Page:
    """The page."""
    pictures = Pictures(cleaning, faces)
    sections = [
        Section("Summary", "summary", _summary(cleaning)),
        Section("Angles compared", "compared", _compared(cleaning)),
        Section("Identities", "identities", _identities(cleaning)),
        Section("Angles of the images", "angles", _angles(cleaning)),
        Section("Sub-classes of single identities", "sub-classes", pictures.sub_classes()),
        Section("Dropped images", "dropped", pictures.sheets(pictures.dropped, "No image was dropped.")),
        Section("Kept images", "kept", pictures.sheets(pictures.kept, "No image of an identity was kept.")),
        Section("How each number was made", "method", [_method(cleaning.rule)]),
    ]
    made = (
        "Beside this page lie kept.txt, the list of the kept images, clean.json, each image with its angles and the "
        "reason, and plots/, the plots as PNG and SVG."
    )
    return Page(title, sections, made, "cleaning.css")


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


def _dropped_by(cleaning: Cleaning) -> dict[str, int]:
    """Number of samples that were dropped for each reason that this rule has, by the reason in words."""
    rule, counts = cleaning.rule, cleaning.counts
    words = {}
    if rule.angle is not None:
        words[f"more than {rule.angle:g} degrees to the dominant sub-center"] = counts["angle"]
    if rule.only_dominant:
        words["nearer to another sub-center"] = counts["sub_center"]
    if rule.min_images > 1:
        words[f"fewer than {rule.min_images:,} images of the identity remain"] = counts["few_images"]
    return words


def counted(part: int, whole: int, what: str) -> str:
    """A part of a whole as numbers, with its share.

    >>> counted(3, 1200, "images"), counted(0, 1200, "images")
    ('3 of 1,200 images (0.2\\xa0%)', 'none of 1,200 images')
    """
    return f"{part:,} of {whole:,} {what} ({percent(part / whole)})" if part else f"none of {whole:,} {what}"


def _share(part: int, whole: int) -> str:
    """A share in percent; a dash for a share of nothing."""
    return percent(part / whole) if whole else _NONE


def _opening(text: str) -> str:
    return text[:1].upper() + text[1:]


# --- summary ---


def _summary(cleaning: Cleaning) -> list[Markup]:
    """The number of dropped images by rule, and whether they were noise."""
    sub, images, identities = cleaning.found.sub, len(cleaning.found), int((cleaning.images > 0).sum())
    kept, sub_centers = int(cleaning.kept.sum()), sub.counts.shape[1]
    dropped = images - kept
    lead = (
        f"{_opening(counted(dropped, images, 'images'))} are dropped, {kept:,} are kept. "
        f"{_opening(counted(int(cleaning.is_lost.sum()), identities, 'identities'))} are lost."
    )
    most = "one center for each identity (K = 1)"
    if sub_centers > 1:
        most = f"at most {sub_centers} sub-classes of an identity (K = {sub_centers})"
    stated = [("Method", f"{cleaning.found.method}; {most}."), ("Rule", rule_in_words(cleaning.rule))]
    if sub_centers > 1:
        dominant = counted(int(sub.in_dominant.sum()), int(sub.known.sum()), "images")
        empty = _opening(counted(cleaning.empty, identities * sub_centers, "sub-centers"))
        stated.append(
            (
                "Sub-classes",
                f"{dominant} are nearest to the dominant sub-center of their identity. {empty} are empty: no image is "
                "nearest to them.",
            )
        )
    if nobody := int((sub.labels < 0).sum()):
        stated.append(("Without identity", f"{images_text(nobody)}. No rule applies to them; they are kept."))
    counts = {**_dropped_by(cleaning), "all dropped images": dropped}
    rows = [[because, f"{count:,}", _share(count, images)] for because, count in counts.items()]
    note = "An image is counted once, under the first of these reasons." if len(rows) > 2 else ""
    truth = cleaning.agreement
    unknown = (
        "Whether the dropped images are noise is not known here: the data set does not state who is truly on its "
        "images. Look at the sheets below before you use the list."
    )
    return [
        tag("p", lead, class_="lead"),
        facts(*stated),
        table("Dropped images by rule", ["Reason", "Images", "Share of all"], rows, note),
        *([tag("p", unknown)] if truth is None else _truth(cleaning, truth)),
        *_nearest_class(cleaning),
    ]


def _nearest_class(cleaning: Cleaning) -> list[Markup]:
    """Rank 1 among the classes, before and after dropping the sub-centers that are not dominant, where it is known."""
    if cleaning.rank_1 is None:
        return []
    rows = [
        [f"{which} images", number(shares["all_sub_centers"]), number(shares["dominant_only"])]
        for which, shares in cleaning.rank_1.items()
    ]
    told = (
        'To keep the dominant sub-centers alone ("K = 3 to 1") changes no embedding, and so no score of two images. It '
        "changes which class center is nearest to an image."
    )
    header = ["Images", "All sub-centers", "Dominant ones alone"]
    return [table("Share of the images whose nearest class is their own", header, rows), tag("p", told)]


def _truth(cleaning: Cleaning, truth: NoiseDropped) -> list[Markup]:
    """Precision and recall, and the share of wrong labels before and after."""
    rows = [
        [name, f"{noisy + clean:,}", f"{noisy:,}", _share(noisy, noisy + clean)]
        for name, noisy, clean in (
            ("before", truth.noisy, truth.clean),
            ("dropped", truth.noisy_dropped, truth.clean_dropped),
            ("after", truth.noisy - truth.noisy_dropped, truth.clean - truth.clean_dropped),
        )
    ]
    stated = []
    if truth.dropped:
        right = counted(truth.noisy_dropped, truth.dropped, "dropped images")
        stated.append(("Precision", f"{right} have a wrong label."))
    if truth.noisy:
        reached = counted(truth.noisy_dropped, truth.noisy, "images with a wrong label")
        stated.append(("Recall", f"{reached} are dropped."))
    price = counted(truth.clean_dropped, truth.clean, "images with a right label")
    stated.append(("Price", f"{price} are dropped too."))
    told = (
        "The data set states who is truly on its images, and a label counts as wrong where it differs from that. An "
        "error that this truth has itself counts as a right label."
    )
    return [
        tag("p", told),
        facts(*stated),
        table("Wrong labels before and after", ["Images", "Number", "Label wrong", "Share"], rows),
        *_categories(cleaning),
    ]


def _categories(cleaning: Cleaning) -> list[Markup]:
    if cleaning.found.sub.counts.shape[1] == 1:
        return []
    counts = {in_words(name): int(rows.sum()) for name, rows in cleaning.categories.items()}
    rows = [[name, f"{count:,}", _share(count, sum(counts.values()))] for name, count in counts.items()]
    return [table("The categories of ArcFace, figure 7", ["Images", "Number", "Share"], rows)]


# --- angles ---


def _compared(cleaning: Cleaning) -> list[Markup]:
    """The images that the angle alone drops, for each of the compared angles."""
    header = ["Angle", "Dropped", "Share", "Identities lost"]
    if cleaning.noisy is not None:
        header += ["Precision", "Recall", "Wrong labels after", "Right labels dropped"]
    rows = []
    for at in cleaning.at_angles():
        row = [
            f"{at.angle:g}\N{DEGREE SIGN}{' (the rule)' if at.angle == cleaning.rule.angle else ''}",
            f"{at.dropped:,}",
            _share(at.dropped, len(cleaning.found)),
            f"{at.identities_lost:,}",
        ]
        if (truth := at.agreement) is not None:
            noisy_left, clean_left = truth.noisy - truth.noisy_dropped, truth.clean - truth.clean_dropped
            row += [
                _share(truth.noisy_dropped, truth.dropped),
                _share(truth.noisy_dropped, truth.noisy),
                _share(noisy_left, noisy_left + clean_left),
                _share(truth.clean_dropped, truth.clean),
            ]
        rows.append(row)
    told = (
        f"The angle alone, whatever further rules are in use. {_ARCFACE} compares 70, 75, 80 and 85 degrees in table 3 "
        "and chooses 75."
    )
    return [tag("p", told), table("What each angle drops", header, rows)]


def _angles(cleaning: Cleaning) -> list[Markup | Plot]:
    plots = angle_plots(cleaning)
    if not plots:
        return [tag("p", "No image has an identity with a sub-center, so there are no angles.")]
    told = (
        "Above on a linear scale, below on a logarithmic one, which shows small groups. Shares are of all images with "
        "an identity. Where sub-centers are means of images, an image that is alone in its sub-class lies at 0 degrees."
    )
    outside = cleaning.found.sub.known & ~cleaning.found.sub.in_dominant
    return [tag("p", told), *plots, *([] if outside.any() else [tag("p", no_others(cleaning))])]


# --- identities ---


def _identities(cleaning: Cleaning) -> list[Markup]:
    """The lost identities, and the share that is lost by number of images of an identity."""
    header = ["Images of an identity", "Identities", "Lost", "Images", "Dropped", "Share dropped"]
    header += ["Right labels dropped"] if cleaning.noisy is not None else []
    told = (
        "Each identity counts under its number of images before cleaning. An identity of one image is its own "
        "sub-center where sub-centers are found from these images, so it cannot be dropped by an angle; sub-centers of "
        "a trained model can also lie far from a single image."
    )
    parts = [
        table("The loss by number of images of an identity", header, _by_images(cleaning)),
        tag("p", told, class_="note"),
        tag("h3", "Identities lost"),
    ]
    images, gone = cleaning.images, cleaning.is_lost
    ranked = [place for place in np.argsort(-images, kind="stable").tolist() if gone[place]]
    if not ranked:
        return [*parts, tag("p", "None: at least one image of every identity is kept.")]
    more = len(ranked) - MOST_LOST
    named = table(
        "Identities of which no image is kept, those with most images first",
        ["Identity", "Images before"],
        [[cleaning.found.people[place], f"{images[place]:,}"] for place in ranked[:MOST_LOST]],
        f"And {more:,} more; clean.json names all." if more > 0 else "",
    )
    return [*parts, named]


def _by_images(cleaning: Cleaning) -> list[list[str]]:
    """A row for each interval of the number of images of an identity that some identity has."""
    labels, images = cleaning.found.sub.labels, cleaning.images
    of_image = np.zeros(len(labels), np.int64)  # number of images of each image's identity
    of_image[labels >= 0] = images[labels[labels >= 0]]
    rows = []
    for interval in images_histogram(images[images > 0]):
        first, last = interval.first, interval.last
        identities = (images >= first) & (images <= last)
        if not identities.any():
            continue
        within = (of_image >= first) & (of_image <= last)
        dropped = int((within & ~cleaning.kept).sum())
        row = [
            f"{first:,}" if first == last else f"{first:,} to {last:,}",
            f"{identities.sum():,}",
            f"{(identities & cleaning.is_lost).sum():,}",
            f"{within.sum():,}",
            f"{dropped:,}",
            _share(dropped, int(within.sum())),
        ]
        if cleaning.noisy is not None:
            clean = within & ~cleaning.noisy
            row.append(_share(int((clean & ~cleaning.kept).sum()), int(clean.sum())))
        rows.append(row)
    return rows


# --- method ---


def _method(rule: Rule) -> Markup:
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
            f"{rule_in_words(rule)} The angle to the dominant sub-center alone decides in {_ARCFACE}, section 3.2; "
            "dropping every image that is nearer to another sub-center is a further rule of verisphere's own, off by "
            "default.",
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
