"""The parts of a model card about what makes its figures worth nothing: people of the training, implausible scores."""

from collections.abc import Iterator, Mapping

from verisphere.base.trained_on import SharedWithTraining
from verisphere.files.calibration import Calibration
from verisphere.report.markdown import plain
from verisphere.ship.card_files import Figures


def implausible_figures(figures: Mapping[str, Figures]) -> Iterator[str]:
    """For each evaluation whose figures cannot be right, the reasons."""
    for name, figure in figures.items():
        if figure.implausible:
            reasons = plain("; ".join(figure.implausible))
            yield f"**Implausible figures.** Those of {plain(name)} cannot be right, so they say nothing: {reasons}."


def people_of_training(calibrated: Calibration | None, figures: Mapping[str, Figures]) -> Iterator[str]:
    """For each set of calibration and evaluation, the number of its people and images that were trained on."""
    sets: dict[str, SharedWithTraining | None] = {}
    if calibrated is not None:
        sources = (calibrated.source, *(check.source for check in calibrated.checks))
        sets |= {source.file: source.in_training for source in sources}
    sets |= {source.file: source.in_training for figure in figures.values() for source in figure.sources}
    known = {file: shared for file, shared in sets.items() if shared is not None}
    if known:
        yield "Compared with the training, images by their pixels and people by their names:\n\n" + "\n".join(
            f"- {plain(file)}: {plain(shared.described())}." for file, shared in known.items()
        )
    rest = "" if not known else f"of {', '.join(map(plain, sorted(sets.keys() - known.keys())))} "
    if len(known) < len(sets) or not known:
        yield (
            f"Nothing here shows that the people {rest or 'calibrated or evaluated on '}were not trained on; if some "
            "were, the figures are too good and the threshold is too low."
        )
    yield (
        "An image that was encoded, resized or aligned anew has other pixels and is not recognised, and people whose "
        "names are numbers are not compared. Who these people are (age, sex, skin, country, camera) is not recorded in "
        "these files, unless as the domains below."
    )
