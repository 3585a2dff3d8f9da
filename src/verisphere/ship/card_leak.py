"""The paragraph of a model card on the faces that can be recovered from the model."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from verisphere.files.leak_figures import UNRECOGNISED, UNTRAINED, LeakRow, read_leak
from verisphere.report.markdown import plain
from verisphere.report.tables import number

LEAK = "leak.json"
_FROM = {"embeddings": "embeddings of photographs", "head": "class centers", "folder": "the network alone"}


def leak_section(folder: Path, source: str | None) -> Iterator[str]:
    """How well faces recovered from the model match their people; or that this was not tested, without figures."""
    if source is None:
        yield "How well faces can be recovered from this model was not tested (`verisphere leak` tests it)."
        return
    figures = read_leak(folder / LEAK)
    attacks = [row for row in figures.rows if row.source in _FROM]
    steps = figures.settings.get("steps")
    said = []
    if found := [_found(row) for row in attacks if row.worked]:
        real = [row.points[-1].tar for row in figures.rows if row.source == "photographs" and row.points]
        photographs = f"; of photographs {number(real[0], 3)}" if real else ""
        said.append(
            f"Faces recovered from it (steps: {steps}) were taken for their people by a second model "
            f"({plain(figures.judge)}), at its threshold for FAR {figures.rows[-1].points[-1].far_target}: "
            f"{', '.join(found)}{photographs}."
        )
    if figures.judge_sha256 is None:
        said.append(f"The second model {UNTRAINED}.")
    if any(row.points[-1].below_resolution for row in figures.rows if row.points):
        said.append(f"So few pairs of two people do not resolve FAR {figures.rows[-1].points[-1].far_target}.")
    if any(row.worked and not row.recognised for row in attacks):
        said.append(f"{UNRECOGNISED[0].upper()}{UNRECOGNISED[1:]}. (Settings: {_settings(figures.settings)}.)")
    said += [
        f"The attack from {_FROM[row.source]} failed: its faces (steps: {steps}) have a mean cosine of "
        f"{number(row.reached, 3)} with their targets under this model, and two photographs of one person have "
        f"{number(row.needed, 3)}. So nothing is known of what can be recovered from {_FROM[row.source]}."
        for row in attacks
        if row.worked is False and row.reached is not None and row.needed is not None
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


def _found(row: LeakRow) -> str:
    """How many faces of an attack that worked were accepted, at the last FAR."""
    point = row.points[-1]
    text = (
        f"from {_FROM[row.source]} {point.genuine_accepted} of {point.genuine_total} "
        f"(95 % {number(point.tar_lower_95, 3)} .. {number(point.tar_upper_95, 3)})"
    )
    if row.strangers:
        text += (
            f", where photographs of strangers that are chosen in the same way have {number(row.strangers[-1].tar, 3)}"
        )
    return text
