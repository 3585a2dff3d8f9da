"""The page of proposed duplicates: pictures of each pair of identities and of images, for a person to decide."""

from collections.abc import Mapping

from verisphere.images.faces import Faces
from verisphere.report.blocks import Page, Section
from verisphere.report.html import Markup, breakable, tag
from verisphere.report.pictures import face_row, image_line, pair_cards, pictures
from verisphere.report.tables import number
from verisphere.study.clean.same_person.duplicates import IMAGES, PAIRS, Duplicates, IdentityPair, ImagePair

MOST_SHOWN = 200  # pairs of each kind; more would make the page slow, and the CSV files have all
PICTURES_EACH = 2  # pictures of an identity


def duplicates_page(duplicates: Duplicates, faces: Faces) -> Page:
    """The page, with pictures of the images that have the names of the embeddings."""
    people, images = duplicates.people[:MOST_SHOWN], duplicates.pictures[:MOST_SHOWN]
    wanted = {name for pair in people for name in (pair.identity, pair.other)}
    names_of: dict[str, list[str]] = {}
    for name, identity in zip(faces.names, faces.identities, strict=True):
        if identity in wanted and len(names_of.setdefault(identity, [])) < PICTURES_EACH:
            names_of[identity].append(name)
    names = [name for names in names_of.values() for name in names]
    names += [name for pair in images for name in (pair.name, pair.other_name)]
    uris = pictures(faces, names) if names else {}
    title = f"Duplicates of {duplicates.embeddings}"
    told = (
        f"These are merge proposals, not findings: {duplicates.images:,} images of {duplicates.identities:,} people "
        "were compared by their embeddings. Relatives and look-alikes come near to each other, too, and one "
        "wrong photo makes two people look like one. Nothing was merged. To merge, delete the lines of wrong pairs "
        f"from {PAIRS} and hand that file to verisphere clean duplicates by --merge."
    )
    sections = [
        Section("What this page shows", "about", [tag("p", told)]),
        Section(
            f"Merge proposals: centers that score {duplicates.threshold:g} or more ({len(duplicates.people):,})",
            "identities",
            [
                _shown(len(people), len(duplicates.people), PAIRS),
                pair_cards(_people_card(pair, names_of, uris) for pair in people),
            ],
        ),
    ]
    if duplicates.image_threshold is not None or images:
        at = "" if duplicates.image_threshold is None else f" that score {duplicates.image_threshold:g} or more"
        sections.append(
            Section(
                f"Images of two identities{at} ({len(duplicates.pictures):,})",
                "images",
                [
                    _shown(len(images), len(duplicates.pictures), IMAGES),
                    pair_cards(_images_card(pair, uris) for pair in images),
                ],
            )
        )
    made = "These pictures may be of people: mind to whom the page is given."
    return Page(title, sections, made)


def _shown(shown: int, total: int, file: str) -> Markup:
    if not total:
        return tag("p", "None was found.")
    return tag("p", f"The first {shown:,} are shown; {file} has all {total:,}." if shown < total else "All are shown.")


def _people_card(pair: IdentityPair, names_of: Mapping[str, list[str]], uris: Mapping[str, str]) -> list[Markup]:
    return [
        *(face_row(names_of.get(identity, ()), uris) for identity in (pair.identity, pair.other)),
        tag("p", f"score {number(pair.score)}"),
        tag("p", breakable(pair.identity), f", {pair.images:,} image{'' if pair.images == 1 else 's'}"),
        tag("p", breakable(pair.other), f", {pair.other_images:,} image{'' if pair.other_images == 1 else 's'}"),
    ]


def _images_card(pair: ImagePair, uris: Mapping[str, str]) -> list[Markup]:
    score = "equal pixels" if pair.equal_pixels else ""
    if pair.score is not None:
        score = f"score {number(pair.score)}" + (f", {score}" if score else "")
    return [
        face_row((pair.name, pair.other_name), uris),
        tag("p", score),
        image_line(pair.name, pair.identity),
        image_line(pair.other_name, pair.other_identity),
    ]
