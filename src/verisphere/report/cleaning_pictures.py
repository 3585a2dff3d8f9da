"""Pictures on the page about cleaning: identities in their sub-classes, and contact sheets."""

import math
from collections.abc import Sequence

from verisphere.report.cleaning_findings import CleaningFindings, IdentityShown, Sheet, Shot, SubClass
from verisphere.report.html import Markup, breakable, joined, tag

_LONGEST = 60  # letters of a name below an image; the text for screen readers has all letters


def images_text(count: int) -> str:
    """A number of images in words."""
    return f"{count:,} image{'' if count == 1 else 's'}"


def no_others(findings: CleaningFindings) -> str:
    """The reason why there are only dominant sub-classes."""
    if findings.sub_centers == 1:
        return "With one sub-center (K = 1) there are no non-dominant sub-classes."
    return "All images are nearest to the dominant sub-center of their identity: no other sub-class has an image."


def sub_classes(findings: CleaningFindings) -> Markup:
    """Identities in their sub-classes, a row of images for each (ArcFace, figure 6a)."""
    if not findings.shown:
        return tag("p", no_others(findings))
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
    told = f"{images_text(images)}, {outside:,} outside the dominant sub-class, {dropped:,} dropped."
    if shown.empty:
        told += f" {shown.empty:,} sub-center{'' if shown.empty == 1 else 's'} of the identity without an image."
    parts = [tag("h3", shown.identity), tag("p", told)]
    for part in shown.sub_classes:
        parts += [_row_heading(part, part.number == shown.dominant), _shots(part.shown, same_identity=True)]
    return parts


def _row_heading(part: SubClass, dominant: bool) -> Markup:
    some = f", {len(part.shown):,} shown" if len(part.shown) < part.images else ""
    told = f"Sub-center {part.number}: {images_text(part.images)}{some}, {part.dropped:,} dropped "
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
            tag("p", f"{len(sheet.shown):,} of {images_text(sheet.total)}.", class_="note"),
            _shots(sheet.shown, same_identity=False),
        ]
    return joined(*parts)


def _about_pictures(findings: CleaningFindings) -> list[Markup]:
    if not findings.pictures:
        told = "No pictures: the images were not given. "
        how = joined("To see them, name the data set in the command: ", tag("code", "--faces DATA"), ".")
        return [tag("p", told, how, class_="note")]
    if findings.people:
        return [tag("p", "These pictures show people: consider who receives this page.", class_="note")]
    return []


def _shots(shots: Sequence[Shot], same_identity: bool) -> Markup:
    """Images with their angles and names; the name of an identity that all images share is not repeated."""
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
    """Whether the label is right by the truth; a wrong decision is marked."""
    right = truth == shot.identity
    told = joined("label right") if right else joined("truly ", breakable(_short(truth)))
    return tag("span", told, class_="wrong" if right != shot.kept else None)


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"\N{HORIZONTAL ELLIPSIS}{name[1 - _LONGEST :]}"
