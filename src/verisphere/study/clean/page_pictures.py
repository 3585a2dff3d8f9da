"""Pictures on the page about a cleaning: identities in their sub-classes, and contact sheets."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int64

from verisphere.images.faces import Faces
from verisphere.images.select import even_steps
from verisphere.report.html import Markup, breakable, joined, tag
from verisphere.report.pictures import SHOWS_PEOPLE, pictures, varied
from verisphere.study.clean.cleaning import Cleaning
from verisphere.study.clean.rules import Reason

IDENTITIES = 3  # identities shown in their sub-classes
IN_ROW = 8  # images shown of a sub-class
ON_SHEET = 24  # images of a contact sheet
PER_IDENTITY = 2  # images of one identity among them, at most
_LOOKED_AT = 100_000  # images from which a sheet is chosen in order, so that one identity does not fill it
_LONGEST = 60  # letters of a name below an image; the text for screen readers has all letters

_Samples = Int64[np.ndarray, " shown"]


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
        for (number, members, shown), count in zip(rows, dropped, strict=True):
            some = f", {len(shown):,} shown" if len(shown) < len(members) else ""
            heading = f"Sub-center {number}: {images_text(len(members))}{some}, {count:,} dropped "
            mark = tag("span", "dominant", class_="mark") if number == dominant else ""
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


def rows_of_identity(cleaning: Cleaning, label: int) -> list[tuple[int, _Samples, _Samples]]:
    """Each sub-center of an identity that has samples, with all of them and with those that are shown.

    The dominant sub-center comes first, then the others by falling number of samples; the sample that is nearest to the
    dominant sub-center comes first.
    """
    sub = cleaning.found.sub
    dominant, counts = int(sub.dominant[label]), sub.counts[label]
    places = np.flatnonzero(sub.labels == label)
    places = places[np.argsort(sub.angle[places], kind="stable")]
    order = sorted(np.flatnonzero(counts).tolist(), key=lambda number: (number != dominant, -counts[number]))
    of_number = ((number, places[sub.sub_center[places] == number]) for number in order)
    return [(number, members, members[even_steps(len(members), IN_ROW)]) for number, members in of_number]


def sheets_of_dropped(cleaning: Cleaning) -> list[Sheet]:
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
