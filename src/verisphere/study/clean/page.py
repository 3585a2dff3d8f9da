"""The page about a cleaning: which images were dropped, why, which people lost images, and the images themselves."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from verisphere.images.faces import Faces
from verisphere.images.select import even_steps
from verisphere.measure.data.statistics import images_histogram
from verisphere.report.blocks import Page, Plot, Section
from verisphere.report.html import Markup, breakable, definitions, facts, joined, table, tag
from verisphere.report.pictures import SHOWS_PEOPLE, pictures, varied
from verisphere.report.plots import INK, in_picture, new_figure, tidy
from verisphere.report.tables import number, percent
from verisphere.study.clean.cleaning import Cleaning
from verisphere.study.clean.rules import Reason, Rule
from verisphere.study.clean.truth import NoiseDropped

IDENTITIES = 3  # identities shown in their sub-classes
IN_ROW = 8  # images shown of a sub-class
ON_SHEET = 24  # images of a contact sheet
PER_IDENTITY = 2  # images of one identity among them, at most
_LOOKED_AT = 100_000  # images from which a sheet is chosen in order, so that one identity does not fill it
_LONGEST = 60  # letters of a name below an image; the text for screen readers has all letters

_Samples = Int64[np.ndarray, "..."]


def images_text(count: int) -> str:
    """A number of images in words."""
    return f"{count:,} image{'' if count == 1 else 's'}"


@dataclass(frozen=True, eq=False)
class Sheet:
    """A contact sheet: positions of chosen images in order, of how many, and both in words."""

    heading: str
    total: int
    shown: _Samples


class Pictures:
    """The images of a page, if there are any, of which only those are read that are shown."""

    def __init__(self, cleaning: Cleaning, faces: Faces | None) -> None:
        self._cleaning, self._faces = cleaning, faces
        self.dropped, self.kept = sheets_of_dropped(cleaning), [sheet_of_kept(cleaning)]
        self._identities = {label: rows_of_identity(cleaning, label) for label in telling_identities(cleaning)}
        self._uris: dict[str, str] = {}
        if faces is not None:
            of_sheets = [sheet.shown for sheet in (*self.dropped, *self.kept)]
            rows = [*of_sheets, *(shown for parts in self._identities.values() for _, _, shown in parts)]
            names = (cleaning.found.names[place] for places in rows for place in places.tolist())
            self._uris = pictures(faces, list(dict.fromkeys(names)))

    def sub_classes(self) -> list[Markup]:
        """Identities in their sub-classes, a row of images for each (ArcFace, figure 6a)."""
        if not self._identities:
            return [tag("p", no_others(self._cleaning))]
        told = (
            "As ArcFace's figure 6a. Shown are the identities with most dropped images outside their dominant "
            "sub-class, and of equally many those with most images outside it. In each row the image nearest to the "
            "dominant sub-center is first; its angle to the dominant sub-center stands below. Dropped images have a "
            "frame. Of a large sub-class, images are shown at even steps from the first to the last."
        )
        parts = [tag("p", told), *self._note()]
        for label, rows in self._identities.items():
            parts += self._identity(label, rows)
        return parts

    def sheets(self, contact_sheets: Sequence[Sheet], none: str) -> list[Markup]:
        """Contact sheets; the given words where none has an image."""
        filled = [sheet for sheet in contact_sheets if len(sheet.shown)]
        if not filled:
            return [tag("p", none)]
        parts = self._note()
        for sheet in filled:
            parts += [
                tag("h3", sheet.heading),
                tag("p", f"{len(sheet.shown):,} of {images_text(sheet.total)}.", class_="note"),
                self._shots(sheet.shown, same_identity=False),
            ]
        return parts

    def _note(self) -> list[Markup]:
        if self._faces is None:
            told = "No pictures: the images were not given. "
            how = joined("To see them, name the data set in the command: ", tag("code", "--faces DATA"), ".")
            return [tag("p", told, how, class_="note")]
        if not self._faces.source.drawn:
            return [SHOWS_PEOPLE]
        return []

    def _identity(self, label: int, rows: Sequence[tuple[int, _Samples, _Samples]]) -> list[Markup]:
        found, kept = self._cleaning.found, self._cleaning.kept
        dominant = int(found.sub.dominant[label])
        images = sum(len(members) for _, members, _ in rows)
        dropped = [int((~kept[members]).sum()) for _, members, _ in rows]
        outside = sum(len(members) for number, members, _ in rows if number != dominant)
        told = f"{images_text(images)}, {outside:,} outside the dominant sub-class, {sum(dropped):,} dropped."
        if empty := int((found.sub.counts[label] == 0).sum()):
            told += f" {empty:,} sub-center{'' if empty == 1 else 's'} of the identity without an image."
        parts = [tag("h3", found.people[label]), tag("p", told)]
        for (sub_center, members, shown), count in zip(rows, dropped, strict=True):
            some = f", {len(shown):,} shown" if len(shown) < len(members) else ""
            heading = f"Sub-center {sub_center}: {images_text(len(members))}{some}, {count:,} dropped "
            mark = tag("span", "dominant", class_="mark") if sub_center == dominant else ""
            parts += [tag("h4", heading, mark), self._shots(shown, same_identity=True)]
        return parts

    def _shots(self, places: _Samples, same_identity: bool) -> Markup:
        """Images with their angles and names; the name of an identity that all images share is not repeated."""
        kept = self._cleaning.kept
        entries = (
            tag("li", *self._shot(place, same_identity), class_=None if kept[place] else "dropped")
            for place in places.tolist()
        )
        return tag("ul", *entries, class_="shots bare" if self._faces is None else "shots")

    def _shot(self, place: int, same_identity: bool) -> list[Markup]:
        found, kept = self._cleaning.found, bool(self._cleaning.kept[place])
        name, identity, angle = found.names[place], found.identities[place], float(found.sub.angle[place])
        at = "no angle" if math.isnan(angle) else f"{angle:.1f}\N{DEGREE SIGN}"
        parts = []
        if name in self._uris:
            alt = f"{'kept' if kept else 'dropped'}, {at}: {name}, labelled {identity}"
            parts.append(tag("img", src=self._uris[name], alt=alt))
        parts.append(tag("span", at if kept else f"{at} dropped", class_="angle"))
        if not same_identity:
            parts.append(tag("span", breakable(_short(identity))))
        file = name.removeprefix(f"{identity}/") or name  # without the folder that repeats the identity
        parts.append(tag("span", breakable(_short(file)), class_="file"))
        if found.true_identities is not None:
            truth = found.true_identities[place]
            right = truth == identity
            if not (same_identity and kept and right):
                told = joined("label right") if right else joined("truly ", breakable(_short(truth)))
                parts.append(tag("span", told, class_="wrong" if right != kept else None))  # a wrong decision is marked
        return parts


def no_others(cleaning: Cleaning) -> str:
    """The reason why there are only dominant sub-classes."""
    if cleaning.found.sub.counts.shape[1] == 1:
        return "With one sub-center (K = 1) there are no non-dominant sub-classes."
    return "All images are nearest to the dominant sub-center of their identity: no other sub-class has an image."


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"\N{HORIZONTAL ELLIPSIS}{name[1 - _LONGEST :]}"


# --- which images are shown ---


def telling_identities(cleaning: Cleaning, count: int = IDENTITIES) -> list[int]:
    """Labels of the identities with most dropped samples outside their dominant sub-class."""
    sub = cleaning.found.sub
    outside = sub.known & ~sub.in_dominant
    classes = len(sub.dominant)
    elsewhere = np.bincount(sub.labels[outside], minlength=classes)
    dropped = np.bincount(sub.labels[outside & ~cleaning.kept], minlength=classes)
    order = np.lexsort((-elsewhere, -dropped))[:count]
    return [int(label) for label in order if elsewhere[label]]


def rows_of_identity(cleaning: Cleaning, label: int) -> list[tuple[int, _Samples, _Samples]]:
    """Each sub-center of an identity that has samples, the dominant one first, with all of them and those shown."""
    sub = cleaning.found.sub
    dominant, counts = int(sub.dominant[label]), sub.counts[label]
    places = np.flatnonzero(sub.labels == label)
    places = places[np.argsort(sub.angle[places], kind="stable")]
    order = sorted(np.flatnonzero(counts).tolist(), key=lambda number: (number != dominant, -counts[number]))
    of_number = ((number, places[sub.sub_center[places] == number]) for number in order)
    return [(number, members, members[even_steps(len(members), IN_ROW)]) for number, members in of_number]


def sheets_of_dropped(cleaning: Cleaning) -> list[Sheet]:
    """Contact sheets of the dropped samples: one for each reason; for the angle in both orders unless one has all."""
    sheets = []
    rule, reasons = cleaning.rule, cleaning.reasons
    if rule.angle is not None:
        beyond = reasons == Reason.ANGLE
        largest = _sheet(cleaning, "Dropped for their angle, largest angle first", beyond, largest_first=True)
        sheets.append(largest)
        if len(largest.shown) < largest.total:  # one sheet that has them all shows those near the rule too
            sheets.append(_sheet(cleaning, f"Dropped for their angle, nearest to {rule.angle:g} degrees first", beyond))
    if rule.only_dominant:
        rows = reasons == Reason.SUB_CENTER
        sheets.append(_sheet(cleaning, "Dropped as nearer to another sub-center, smallest angle first", rows))
    if rule.min_images > 1:
        rows = reasons == Reason.FEW_IMAGES
        sheets.append(_sheet(cleaning, "Dropped with an identity of few images, smallest angle first", rows))
    return sheets


def sheet_of_kept(cleaning: Cleaning) -> Sheet:
    """The contact sheet of the kept samples."""
    angle = cleaning.rule.angle
    heading = "Kept, largest angle first" if angle is None else f"Kept, nearest to {angle:g} degrees first"
    return _sheet(cleaning, heading, cleaning.kept & cleaning.found.sub.known, largest_first=True)


def _sheet(cleaning: Cleaning, heading: str, rows: Bool[np.ndarray, " samples"], largest_first: bool = False) -> Sheet:
    """The first samples in the order of the angle to the dominant sub-center, at most a few of one identity."""
    sub = cleaning.found.sub
    places = np.flatnonzero(rows)
    order = np.argsort(-sub.angle[places] if largest_first else sub.angle[places], kind="stable")
    places = places[order[:_LOOKED_AT]]
    labels = sub.labels[places]
    chosen = places[varied(np.stack([labels, labels], axis=1), ON_SHEET, PER_IDENTITY)]
    return Sheet(heading, int(rows.sum()), chosen)


#: Blue and orange are distinguishable with every kind of colour vision, as are green and purple; line styles differ,
#: too.
CLEAN, NOISY = ("#2274a5", "-"), ("#e4572e", "--")
DOMINANT, OTHERS = ("#3a7d44", "-"), ("#7b2d8b", "--")
_LEAST_AXIS = 120  # degrees; the axis of the paper
_FINE = 10_000  # samples from which a bin is one degree wide; with fewer it is two degrees wide
_STYLES = {
    "dominant": DOMINANT,
    "non_dominant": OTHERS,
    "dominant_clean": CLEAN,
    "dominant_noisy": NOISY,
    "non_dominant_clean": CLEAN,
    "non_dominant_noisy": NOISY,
}
#: Names of the categories where there is one center for each identity.
_OF_ONE_CENTER = {"dominant": "all images", "dominant_clean": "clean", "dominant_noisy": "noisy"}
_TOWER = 2  # a first bin that is as many times higher than the others is cut off on the linear scale
_MARKS = (0, 15, 30, 45, 60, 75, 90, 105, 120, 135, 150, 165, 180)

_Groups: TypeAlias = dict[str, tuple[tuple[str, str], Float32[np.ndarray, "_"]]]
SPLIT, IN_DOMINANT, NEAREST, TO_DOMINANT = "sub_classes", "dominant", "non_dominant_nearest", "non_dominant_angle"


def in_words(category: str) -> str:
    """The name of a category of `Cleaning.categories` in words.

    >>> in_words("non_dominant_noisy")
    'non-dominant and noisy'
    """
    return category.replace("non_dominant", "non-dominant").replace("_", " and ")


def angle_plots(cleaning: Cleaning) -> list[Plot]:
    """The plots of a page; a plot without samples is skipped."""
    sub, rule, categories = cleaning.found.sub, cleaning.rule.angle, cleaning.categories
    total = int(sub.known.sum())
    if not total:
        return []
    counts = ", ".join(f"{in_words(name)} {int(rows.sum()):,}" for name, rows in categories.items())
    line = "" if rule is None else f" The line is the rule: {rule:g}\N{DEGREE SIGN}."

    def plot(name: str, groups: _Groups, title: str, to: str, caption: str, marked: float | None = rule) -> Plot:
        draw = partial(angles_plot, groups, total, title, f"angle to the {to}, degrees", marked)
        return Plot(name, draw, f"Histogram. {caption} Images: {counts}.", caption)

    def styled(kind: str, angles: Float32[np.ndarray, " samples"]) -> _Groups:
        """The angles of the categories of a kind."""
        chosen = {name: rows for name, rows in categories.items() if name.startswith(kind)}
        return {in_words(name): (_STYLES[name], angles[rows]) for name, rows in chosen.items()}

    whole = "All samples"
    if sub.counts.shape[1] == 1:
        groups = {
            name: (_STYLES[kind], sub.angle[categories[kind]])
            for kind, name in _OF_ONE_CENTER.items()
            if kind in categories
        }
        told = f"All images to the center of their identity (ArcFace, figure 7a).{line}"
        return [plot(SPLIT, groups, whole, "center of the identity", told)]
    outside = sub.known & ~sub.in_dominant
    split: _Groups = {
        "dominant": (DOMINANT, sub.angle[sub.in_dominant]),
        "non-dominant": (OTHERS, sub.angle[outside]),
    }
    dominant, nearest = "dominant sub-center", "nearest sub-center"
    plots = [
        plot(
            SPLIT,
            split,
            whole,
            dominant,
            f"All images to the dominant sub-center of their identity (ArcFace, figure 6b).{line}",
        ),
        plot(
            IN_DOMINANT,
            styled("dominant", sub.angle),
            "Samples of dominant sub-classes",
            nearest,
            f"Images of dominant sub-classes to their nearest sub-center (ArcFace, figure 7b).{line}",
        ),
    ]
    if outside.any():
        title = "Samples of non-dominant sub-classes"
        told = "Images of non-dominant sub-classes to their nearest sub-center (ArcFace, figure 7c)."
        plots.append(plot(NEAREST, styled("non_dominant", sub.nearest), title, nearest, told, None))
        told = f"The same images to the dominant sub-center of their identity (ArcFace, figure 7d).{line}"
        plots.append(plot(TO_DOMINANT, styled("non_dominant", sub.angle), title, dominant, told))
    return plots


def angles_plot(
    groups: Mapping[str, tuple[tuple[str, str], Float32[np.ndarray, "_"]]],
    total: int,
    title: str,
    label: str,
    rule: float | None,
) -> Figure:
    """Histograms of angles in degrees, above on a linear scale, below on a logarithmic one; NaN is not drawn."""
    figure = new_figure(4.4)
    even, logarithmic = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    edges = bins([angles for _, angles in groups.values()], total)
    highest, others, at_start = 1, 1, 0
    for name, ((colour, dashes), angles) in groups.items():
        counts = np.histogram(angles[~np.isnan(angles)], edges)[0]
        highest, others = max(highest, int(counts.max())), max(others, int(counts[1:].max()))
        at_start += int(counts[0])
        share = f"{in_picture(name)} ({100 * len(angles) / total:.2f} %)"
        for axes in (even, logarithmic):
            axes.stairs(counts, edges, fill=True, color=colour, alpha=0.35)
            axes.stairs(counts, edges, color=colour, linestyle=dashes, linewidth=1.3, label=share)
    if rule is not None:
        for axes in (even, logarithmic):
            axes.axvline(rule, color=INK, linewidth=1.5, label=f"rule: {rule:g}\N{DEGREE SIGN}")
    for axes in (even, logarithmic):
        axes.set_ylabel("images")
        axes.set_xlim(0, float(edges[-1]))
        tidy(axes)
    even.set_ylim(0, 1.06 * highest)
    if highest > _TOWER * others:
        even.set_ylim(0, 1.3 * others)
        words = f"\N{UPWARDS ARROW} {at_start:,} within {edges[1]:g}\N{DEGREE SIGN}"
        even.text(2.5 * edges[1], 1.27 * others, words, fontsize=8.5, color=INK, va="top")
    even.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    even.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    logarithmic.set_ylim(0.5, 3 * highest)  # set before the scale, which cannot choose limits for empty bins
    logarithmic.set_yscale("log")
    logarithmic.yaxis.set_major_locator(LogLocator(10, numticks=4))
    logarithmic.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    logarithmic.yaxis.set_minor_locator(NullLocator())
    logarithmic.set_xticks([mark for mark in _MARKS if mark <= edges[-1]])
    logarithmic.set_xlabel(label)
    even.set_title(in_picture(title), loc="left", color=INK, fontsize=11)
    handles, labels = even.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=1, frameon=False, fontsize=9)
    return figure


def bins(groups: Sequence[Float32[np.ndarray, "_"]], total: int) -> Float64[np.ndarray, " edges"]:
    """Edges of bins from 0 to 120 degrees, and on to the whole bin that holds the largest angle.

    >>> bins([np.array([30.0, 121.0], np.float32)], total=2)[[0, 1, -1]].tolist()
    [0.0, 2.0, 122.0]
    """
    width = 1 if total >= _FINE else 2
    largest = max((float(np.nanmax(angles, initial=0.0)) for angles in groups), default=0.0)
    last = max(_LEAST_AXIS, width * int(np.ceil(largest / width)))
    return np.arange(0, last + width, width, dtype=np.float64)


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
    return Page(f"Cleaning of {title}", sections, made, "cleaning.css")


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
        told = f"{dominant} are nearest to the dominant sub-center of their identity."
        if cleaning.empty:
            empty = _opening(counted(cleaning.empty, identities * sub_centers, "sub-centers"))
            told += f" {empty} are empty: no image is nearest to them."
        stated.append(("Sub-classes", told))
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
    parts = [table("What is lost, by the number of images of an identity", header, _by_images(cleaning)),
             tag("p", told, class_="note")]  # fmt: skip
    images, gone = cleaning.images, cleaning.is_lost
    ranked = [place for place in np.argsort(-images, kind="stable").tolist() if gone[place]]
    if not ranked:
        return parts
    more = len(ranked) - MOST_LOST
    named = table(
        "Identities of which no image is kept, those with most images first",
        ["Identity", "Images before"],
        [[cleaning.found.people[place], f"{images[place]:,}"] for place in ranked[:MOST_LOST]],
        f"And {more:,} more; clean.json names all." if more > 0 else "",
    )
    return [*parts, tag("h3", "Identities lost"), named]


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
