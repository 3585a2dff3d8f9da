"""A page of the comparisons that cost a threshold the most, and a list in which a person writes who is who."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from verisphere.base.vocabulary import Embeddings
from verisphere.base.words import printable
from verisphere.files.disk import write_text
from verisphere.files.verdicts import WORDS, Suspicious, is_unfilled, verdicts_csv
from verisphere.measure.report_inputs import images_of
from verisphere.models.described_faces import open_faces
from verisphere.report.blocks import Page, Section
from verisphere.report.html import Markup, tag
from verisphere.report.pictures import SHOWS_PEOPLE, image_line, pair_cards, pictures
from verisphere.report.tables import number

LIST, PAGE = "review.csv", "index.html"
PAIRS = 20  # on a page, unless another number is asked for


@dataclass(frozen=True, eq=False)
class Side:
    """One side of the pairs: an embeddings file, or a folder or archive of photographs, and the embeddings."""

    path: Path
    rows: Embeddings

    def pictures(self, names: Sequence[str], faces: Path | None, trust: bool) -> tuple[dict[str, str], str]:
        """The named images, or the reason why there are none."""
        given = None if faces is None else open_faces(faces, trust=trust)
        found, reason = images_of(self.rows, given, faces, self.path.parent, trust)
        if found is None:
            return {}, f"{self.path.name}: {reason}"
        try:
            return pictures(found, names), ""
        except (ValueError, OSError) as error:
            return {}, f"{self.path.name}: {error}."


def write_review(
    folder: Path,
    pairs: Sequence[Suspicious],
    sides: tuple[Side, Side],
    about: str,
    faces: Path | None = None,
    trust: bool = False,
) -> str:
    """Write the page and the list, and say what to do with them."""
    refuse_verdicts(folder)
    new = [pair for pair in pairs if not pair.verdict]
    names = [pair.photograph for pair in new], [pair.other for pair in new]
    found = [side.pictures(named, faces, trust) for side, named in zip(sides, names, strict=True)]
    uris = found[0][0], found[1][0]
    reasons = dict.fromkeys(tag("p", reason, class_="note") for _, reason in found if reason)
    words = f"{', '.join(WORDS[:-1])} or {WORDS[-1]}"
    how = (
        f"{about} A person under two names makes the threshold higher than it need be. Write {words} into the column "
        f"verdict of {LIST}, and calibrate again with --reviewed {LIST}: a comparison that is found to show the same "
        "person is removed. A high score is no reason for a verdict; look at the pictures."
    )
    cards = pair_cards(_card(place, pair, uris) for place, pair in enumerate(pairs, 1) if not pair.verdict)
    sections = [
        Section("What to do", "how", [tag("p", how), *reasons, SHOWS_PEOPLE]),
        Section(f"{len(new):,} pairs", "pairs", [cards]),
    ]
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / LIST, verdicts_csv(pairs))
    Page("Who is who", sections, "These pictures may be of people: mind to whom the page is given.").write(
        folder / PAGE
    )
    where = printable(str(folder))
    return (
        f"{where}: {len(new):,} pairs to look at, in {PAGE}; write {words} into the "
        f"column verdict of {LIST}, and calibrate again with --reviewed {where}/{LIST}"
    )


def refuse_verdicts(folder: Path) -> None:
    """Refuse a folder for a page that holds anything but a page without verdicts."""
    if folder.is_file():
        raise FileExistsError(f"{folder}: a file, and a folder was to be made under its name; choose another name")
    there = {path.name for path in folder.iterdir()} if folder.is_dir() else set[str]()
    if foreign := there - {LIST, PAGE}:
        raise FileExistsError(f"{folder}: it holds {min(foreign)!r}, which is no part of a page; choose another folder")
    if there == {PAGE}:
        raise FileExistsError(
            f"{folder}: it holds a {PAGE} without a {LIST}, which is another page; choose another folder"
        )
    if LIST in there and not is_unfilled(folder / LIST):
        raise FileExistsError(f"{folder}: its {LIST} has verdicts, or cannot be read; choose another folder")


def _card(place: int, pair: Suspicious, uris: tuple[dict[str, str], dict[str, str]]) -> list[Markup]:
    return [
        tag(
            "div",
            *(
                tag("img", src=known[name], alt=f"Face: {name}")
                for name, known in zip((pair.photograph, pair.other), uris, strict=True)
                if name in known
            ),
            class_="faces",
        ),
        tag("p", f"pair {place}: score {number(pair.score)}"),
        image_line(pair.photograph, pair.person),
        image_line(pair.other, pair.other_person),
    ]
