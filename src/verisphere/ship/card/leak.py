"""How well faces can be recovered from the model, in a card."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from verisphere.base.provenance import UNRECORDED
from verisphere.files.leak_figures import UNTRAINED, LeakRow, read_leak
from verisphere.models.model_json import LEAK
from verisphere.report.markdown import plain
from verisphere.report.tables import number

_FROM = {"embeddings": "embeddings of photographs", "head": "class centers", "folder": "the network alone"}


def leak_section(folder: Path, source: str | None) -> Iterator[str]:
    """How well faces recovered from the model match their people; or that this was not tested, without figures."""
    if source is None:
        yield "How well faces can be recovered from this model was not tested (`verisphere leak` tests it)."
        return
    figures = read_leak(folder / LEAK)
    attacks = [row for row in figures.rows if row.source in _FROM]
    steps = figures.settings.get("steps")
    said = [f"{known[0].upper()}{known[1:]}."] if (known := figures.of_training()) else []
    if figures.preprocessing is None:
        said.append(f"**Pixels were not compared**: the test was {UNRECORDED}.")
    worked = [row for row in attacks if row.worked]
    for place, asked in enumerate(figures.rows[-1].points if worked else ()):
        real = [row.points[place].tar for row in figures.rows if row.source == "photographs" and row.points]
        photographs = f"; of photographs {number(real[0], 3)}" if real else ""
        said.append(
            f"At its threshold for FAR {asked.far_target}, a second model ({plain(figures.judge)}) recognised the "
            f"people of these faces, which were recovered from this one (steps: {steps}): "
            f"{', '.join(_found(row, place) for row in worked)}{photographs}."
        )
    if figures.judge_sha256 is None:
        said.append(f"The second model {UNTRAINED}.")
    low = dict.fromkeys(point.far_target for row in figures.rows for point in row.points if point.below_resolution)
    if low:
        said.append(f"So few pairs of two people do not resolve FAR {' and '.join(low)}.")
    if no_proof := figures.no_proof():
        said.append(f"{no_proof[0].upper()}{no_proof[1:]}. (Settings: {_settings(figures.settings)}.)")
    if unjudged := figures.unjudged():
        said.append(f"{unjudged[0].upper()}{unjudged[1:]}.")
    said += [
        f"The attack from {_FROM[row.source]} failed: its faces (steps: {steps}) have {_reached(row)}. So nothing is "
        f"known of what can be recovered from {_FROM[row.source]}."
        for row in attacks
        if row.worked is False
    ]
    said += [
        f"Without this network, embeddings that it made are translated to the second model: of people whom the thief "
        f"does not know {' and '.join(f'{number(one.tar, 3)} match at FAR {one.far_target}' for one in row.points)}, "
        f"by photographs of {row.known:,} others."
        for row in figures.rows
        if row.source == "bridge"
    ]
    unknown = [_FROM[row.source] for row in attacks if row.worked is None]
    if unknown and figures.format == 1:
        said.append(
            f"Whether the attack from {', '.join(unknown)} worked is not recorded, so nothing is claimed of it "
            "(`verisphere leak` of this version records it)."
        )
    elif unknown:
        said.append(
            f"Whether the attack from {', '.join(unknown)} worked is not known, for nobody had two photographs to "
            "compare, so nothing is claimed of it."
        )
    yield f"{' '.join(said)} (From {source}.)"


def _settings(settings: Mapping[str, object]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in settings.items() if name != "seed")


def _found(row: LeakRow, place: int) -> str:
    """How many faces of an attack that worked were accepted, at one of the FARs, and what it reached."""
    point = row.points[place]
    text = (
        f"from {_FROM[row.source]} {point.genuine_accepted} of {point.genuine_total} "
        f"(95 % {number(point.tar_lower_95, 3)} .. {number(point.tar_upper_95, 3)}; the attack worked: they have "
        f"{_reached(row)})"
    )
    if row.strangers:
        chance = number(row.strangers[place].tar, 3)
        text += f", where photographs of strangers that are chosen in the same way have {chance}"
    if row.other_people:
        return (
            f"{text}, and these faces pass as other people in {number(row.other_people[place].tar, 3)} of comparisons"
        )
    return f"{text}, and how often these faces pass as other people is not known"


def _reached(row: LeakRow) -> str:
    """The cosine that faces of an attack reached, where it is known, beside what it should reach."""
    assert row.reached is not None
    assert row.needed is not None
    return (
        f"a mean cosine of {number(row.reached, 3)} with their targets under this model, and two photographs of one "
        f"person have {number(row.needed, 3)}"
    )
