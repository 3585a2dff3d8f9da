"""Notes that a person needs beside an answer: what weakens its promise first, then what was seen on the photographs."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from verisphere.base.provenance import UNRECORDED, UNTIED, check_same_origin
from verisphere.base.vocabulary import ImageSource, Origin, printable
from verisphere.decide import STATISTICS, GalleryThreshold, GuaranteedThreshold
from verisphere.decide.probability import StatedProbability, check_prior
from verisphere.files.calibration import Calibration, read_calibration
from verisphere.models.folder import Model, drawn_by, is_model_folder
from verisphere.models.model_json import CALIBRATION, NAME, read_model_json
from verisphere.ship.catalogue import AnyThreshold
from verisphere.ship.face_search import FindFaces, alignments_of
from verisphere.ship.people import Person

PHOTOGRAPHS_NAMED = 5  # photographs that a note names

#: Note for a comparison of sets of photographs.
SETS = (
    "Sets of photographs are the same person if more than half of all comparisons pass; two different people's do at "
    "most twice as often as one comparison."
)

#: Note for a probe of several photographs in a gallery with a threshold of its own.
SETS_IN_GALLERY = (
    "Several photographs show a person of the gallery if more than half of them meet the threshold with this person; a "
    "stranger's do at most twice as often as one photograph."
)


#: Further note where an FRR is promised.
SETS_DIFFERENT = "One person's are called different at most twice as often as one comparison, too."


def notes_on_model(
    model: Model,
    threshold: AnyThreshold,
    accept_drawn: bool,
    find: FindFaces,
    calibration: Path,
    origin: Origin | None,
    *enrolled: Origin | None,
) -> tuple[str, ...]:
    """What weakens the promise of a threshold, the gravest first; each is printed before the answer.

    The origin is that of the calibration; those enrolled are of the photographs in a living gallery, None where nothing
    says how some of them were embedded.
    """
    of_calibration = isinstance(threshold, GalleryThreshold) or is_model_folder(model.folder)  # not of the catalogue
    untied = UNTIED if of_calibration and origin is None else ""
    source = threshold.calibrated_on
    if origin is None and source is not None:
        origin = model.origin(source)
    drawn = refuse_drawn(model, source, accept_drawn)
    trusted = on_trust("the gallery", "some of its rows") if None in enrolled else ""
    weak = threshold.weak_checks if isinstance(threshold, GuaranteedThreshold) else ""
    notes = [threshold.warning(), weak, untied, drawn, trusted]
    for made in (origin, *enrolled):
        notes += notes_on_origin(model, find, calibration, made, "calibrate")
    first, *others = origins_of(model, find)
    notes += [
        f"photographs were {_made_otherwise(differing)}" for one in others if (differing := first.differences(one))
    ]
    return tuple(sentence(note) for note in dict.fromkeys(notes) if note)


def on_trust(file: str, rows: str = "its embeddings") -> str:
    """The note on rows that another model could have made."""
    return f"nothing in {file} says which model made {rows}: that it was this one is taken on trust"


def sealed_origin(model: Model) -> tuple[Path, Origin | None]:
    """The calibration of a model folder for two photographs, and the origin that it records."""
    sealed = sealed_calibration(model.folder)
    return model.folder / CALIBRATION, None if sealed is None else sealed.origin


def sealed_calibration(folder: Path) -> Calibration | None:
    """The calibration for two photographs in a model folder; None where there is none."""
    sealed = is_model_folder(folder) and CALIBRATION in read_model_json(folder / NAME).files
    return read_calibration(folder / CALIBRATION) if sealed else None


def shipped_probability(model: Model, prior: float) -> Callable[[float], StatedProbability]:
    """The probability of one person that a model ships, by the score of two photographs."""
    check_prior(prior)
    sealed = sealed_calibration(model.folder)
    if sealed is None or sealed.probability is None:
        raise ValueError(f"{model.folder}: it ships no probability; calibrate with --probability, and export it again")
    return partial(sealed.probability.at, prior=prior)


def sentence(text: str) -> str:
    """A clause as a sentence.

    >>> sentence("there is no record of it")
    'There is no record of it.'
    """
    return f"{text[0].upper()}{text[1:]}."


def origins_of(model: Model, find: FindFaces) -> list[Origin]:
    """How a model embeds photographs on which faces are found so, for each way in which these are aligned."""
    alignments = alignments_of(find) or (None,)
    return [model.origin(ImageSource("", None, alignment)) for alignment in alignments]


def notes_on_origin(model: Model, find: FindFaces, file: Path, origin: Origin | None, verb: str) -> list[str]:
    """What weakens an answer because a file was made in another way than photographs are compared now."""
    if origin is None:
        return []
    notes = [] if origin.preprocessing is not None else [f"the embeddings behind {file.name} were {UNRECORDED}"]
    for own in origins_of(model, find):
        hint = f"{verb} with what this model is given now"
        what = f"{model.folder} embeds these photographs"
        check_same_origin(what, own, file, origin, hint, but=("detector",), said=True)
        if differing := origin.differences(own):
            notes.append(f"the file {file.name} was {_made_otherwise(differing)}")
    return notes


def made_unlike(file: Path, origin: Origin | None, calibration: Path, calibrated: Origin | None) -> str:
    """The note on a file that was made in another way than the rows of a calibration; empty where both agree."""
    differing = origin.differences(calibrated) if origin and calibrated else ()
    return f"the file {file.name} was not made as {calibration.name}: {_made_otherwise(differing)}" if differing else ""


def _made_otherwise(differing: Sequence[str]) -> str:
    return f"made otherwise ({', '.join(differing)}): the crops differ, and so may the rates"


def refuse_drawn(model: Model, calibrated_on: ImageSource | None, accept_drawn: bool) -> str:
    """The note on a model that was trained or calibrated on drawn faces, unless refused; empty for any other model."""
    how = drawn_by(model.training, calibrated_on)
    if not how:
        return ""
    follows = "about photographs its threshold promises nothing"
    if how == "trained":
        follows = "it may tell few photographs apart"
    fact = f"this model was {how} on drawn faces, so {follows}"
    if not accept_drawn:
        raise ValueError(
            f"{model.folder}: {fact}; to compare drawings, or to see it run, say --accept-drawn-model "
            "(accept_drawn=True)"
        )
    return fact


def notes_on_faces(*people: Person) -> list[str]:
    """A note on photographs with several faces."""
    several = [photo for person in people for photo in person.with_several_faces]
    return first_few(several, "Several faces, of which the most central is compared, are on")


def note_on_folders(person: Person) -> list[str]:
    """A note on photographs of several folders, which may be of several people."""
    folders = len({name.rpartition("/")[0] for name in person.photos})
    hint = f"The photographs of {folders} folders are taken for those of one person; --each takes each by itself."
    return [hint] if folders > 1 else []


def notes_on_skipped(person: Person) -> list[str]:
    """Notes on photographs of a person that were skipped."""
    return first_few([f"{photo.name} ({photo.reason})" for photo in person.skipped], "Skipped")


def first_few(items: Sequence[str], what: str) -> list[str]:
    """One line with the first few items and the number of further ones; no line for no items."""
    if not items:
        return []
    more = f", and {len(items) - PHOTOGRAPHS_NAMED} more" if len(items) > PHOTOGRAPHS_NAMED else ""
    return [f"{what}: {', '.join(map(printable, items[:PHOTOGRAPHS_NAMED]))}{more}."]


def number_of(threshold: AnyThreshold) -> str:
    """What the number that decides is called."""
    return STATISTICS[threshold.statistic].number if isinstance(threshold, GalleryThreshold) else "score"


def promise_in_words(model: Model, threshold: AnyThreshold) -> str:
    """What a threshold promises, as it is said to people, and whether it is known what the model was trained on."""
    record = "" if model.training.sources else f" {sentence(model.training.described())}"
    return f"{threshold.promise()}{record}"
