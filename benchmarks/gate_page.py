"""The tables and the picture of docs/enrolment.md, from gate.csv."""

import csv
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from verisphere.report.plots import INK, LINES, PALE, SERIES, save_plot, tidy

ROOT = Path(__file__).parents[1]
CSV = Path(__file__).with_name("gate.csv")
PICTURE = ROOT / "docs" / "images" / "enrolment.png"
ASKED = "2e-2"
KINDS = {
    "reduced": "reduced to 12 to 32 pixels",
    "blurred": "blurred",
    "wrong, enrolled": "of another enrolled person",
    "wrong, a stranger": "of a stranger",
    "good": "good",
}
NAMES = {
    "least length": "length of the embedding",
    "least detail": "detail",
    "least mirrored": "likeness of the mirror image",
    "least blurred": "likeness of a blurred copy",
    "most turned": "turned",
    "most tilted": "tilted",
    "most nodded": "raised or lowered",
    "least size": "size",
    "most clipped": "clipped",
    "least brightness": "brightness, the dark end",
    "most brightness": "brightness, the bright end",
    "least contrast": "contrast",
    "chance": "chance",
}


def read_rows() -> list[dict[str, str]]:
    """The rows of gate.csv; none if it is not there."""
    if not CSV.is_file():
        return []
    with CSV.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def figure(rows: Sequence[dict[str, str]], **wanted: str) -> float | None:
    """The mean of the one row with these values; None if there is none."""
    found = [float(of["mean"]) for of in rows if all(of[name] == value for name, value in wanted.items())]
    assert len(found) < 2, wanted
    return found[0] if found else None


def shown(value: float | None, digits: int = 1) -> str:
    """A share in per cent."""
    return "-" if value is None else f"{100 * value:.{digits}f}"


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table of Markdown whose first column is text."""
    rows = [head, ["---", *("---:" for _ in head[1:])], *lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in rows)


def tables(rows: Sequence[dict[str, str]]) -> dict[str, str]:
    """Each table by its name."""
    bar = [of for of in rows if of["part"] == "bar"]
    refused = []
    for kind, words in KINDS.items():
        whats = ("refused by limits", "refused by alarm", "refused by alarm, first", "refused")
        cells = [
            shown(figure(bar, case=case, name=ASKED, at=kind, figure=what))
            for case in ("one photograph each", "empty at first")
            for what in whats
        ]
        refused.append([words, *cells[:2], cells[3], *cells[4:]])
    settings = {"nothing poisoned": "nothing poisoned", "no gate": "poisoned, no gate"}
    settings |= {
        name: f"poisoned, gate at {100 * float(name):g} %" for name in (of["name"] for of in bar) if "e-" in name
    }
    served = []
    for name, words in settings.items():
        of = {"case": "one photograph each", "name": name}
        parts = [shown(figure(bar, **of, at=kind, figure="refused")) for kind in ("good", "reduced", "blurred")]
        wrong = [figure(bar, **of, at=kind, figure="refused") for kind in ("wrong, enrolled", "wrong, a stranger")]
        parts.append("-" if None in wrong else shown(sum(wrong) / 2))
        parts += [shown(figure(bar, **of, at="as before", figure=what), 2) for what in ("fpir", "fpir, worse")]
        parts.append(shown(figure(bar, **of, at="anew", figure="tpir")))
        served.append([words, *parts])
    one = [of for of in rows if of["part"] == "measures"]
    discarded = ("0.0", "0.01", "0.02", "0.05", "0.1", "0.2")
    bought = [
        [words, *(shown(figure(one, name=name, at=at, figure="fnir"), 2) for at in discarded),
         *(shown(figure(one, name=name, at=at, figure="fpir"), 2) for at in ("0.02", "0.1"))]
        for name, words in NAMES.items()
    ]  # fmt: skip
    tried, effects = [of for of in rows if of["part"] == "chosen"], []
    for at in dict.fromkeys(of["at"] for of in tried if of["at"]):
        cells = [f"{100 * float(at):g} %"]
        for asked in ("detail", "detail and length"):
            each = [
                figure(tried, name=asked, at=at, figure=what)
                for what in ("worse_refused", "fpir", "fpir_highest", "tpir")
            ]
            cells += [shown(each[0]), f"{shown(each[1], 2)} ({shown(each[2], 2)})", shown(each[3])]
            cells[0] += f", chosen by {asked}" * (figure(tried, name=asked, figure="chosen") == float(at))
        effects.append(cells)
    reach, extents = [of for of in rows if of["part"] == "extents"], {}
    for kind, words in (
        ("reduced", "reduced to, pixels"),
        ("motion", "motion, pixels"),
        ("defocus", "defocus, radius"),
    ):
        ats = [of["at"] for of in reach if of["case"] == kind and of["figure"] == "likeness"]
        each = {what: [figure(reach, case=kind, at=at, figure=what) for at in ats] for what in ("likeness", "refused")}
        likeness = ["likeness", *(f"{value:.2f}" for value in each["likeness"])]
        extents[kind] = table([words, *ats], [likeness, ["refused, %", *map(shown, each["refused"])]])
    return {
        "refused": table(
            ["photograph", "by the limits", "by the alarm", "in all", "from nothing: by the limits", "by the alarm",
             "by the alarm, first", "in all"], refused
        ),
        "served": table(
            ["gallery", "good refused", "reduced refused", "blurred refused", "wrong refused", "FPIR",
             "FPIR, worse copies", "TPIR"], served
        ),
        "chosen": table(
            ["good refused, at most", "detail: worse copies refused", "FPIR, worse copies (highest)", "TPIR of all",
             "detail and length: worse copies refused", "FPIR, worse copies (highest)", "TPIR of all"], effects
        ),
        "bought": table(
            ["refused by", "0 %", "1 %", "2 %", "5 %", "10 %", "20 %", "FPIR at 2 %", "FPIR at 10 %"], bought
        ),
    } | extents  # fmt: skip


def draw(rows: Sequence[dict[str, str]]) -> None:
    """What refusing by one measure buys, and what the gate refuses of each kind, as a picture."""
    picture = Figure(figsize=(9.6, 3.8), layout="constrained")
    left, right = picture.subplots(1, 2)
    one = [of for of in rows if of["part"] == "measures" and of["figure"] == "fnir"]
    lines = [
        *zip(("least length", "least mirrored", "most turned", "least detail"), SERIES[:1] + SERIES[2:], strict=True)
    ]
    for name, colour in [(name, None) for name in NAMES if name not in dict(lines)] + lines:
        points = [(100 * float(of["at"]), 100 * float(of["mean"])) for of in one if of["name"] == name]
        style = {"color": colour, "label": NAMES[name], "linewidth": 2} if colour else {"color": PALE, "linewidth": 0.8}
        if name == "chance":
            style = {"color": INK, "linestyle": "--", "label": "by chance"}
        left.plot(*zip(*points, strict=True), **style)
    left.plot([], [], color=PALE, linewidth=0.8, label="other measures")
    left.set_ylim(3.8)
    left.set_xlabel("worst enrolled photographs refused, %")
    left.set_ylabel("people missed (FNIR), %")
    left.set_title("LFW as it is: one measure refuses", loc="left", color=INK, fontsize=10)
    bar = [of for of in rows if of["part"] == "bar" and of["case"] == "one photograph each" and "e-" in of["name"]]
    goods = {of["name"]: 100 * float(of["mean"]) for of in bar if (of["at"], of["figure"]) == ("good", "refused")}
    for (kind, words), colour in zip(list(KINDS.items())[:-1], SERIES[:1] + SERIES[2:], strict=True):
        share = {of["name"]: 100 * float(of["mean"]) for of in bar if (of["at"], of["figure"]) == (kind, "refused")}
        right.plot([goods[name] for name in goods], [share[name] for name in goods], "o-", color=colour, label=words)
    right.axvline(2, color=PALE, linestyle=":")
    right.set_xlabel("good photographs refused, %")
    right.set_ylabel("poisoned photographs refused, %")
    right.set_xlim(0)
    right.set_title("A tenth poisoned: the gate and the alarm refuse", loc="left", color=INK, fontsize=10)
    for axes in (left, right):
        axes.legend(frameon=False, fontsize=8)
        axes.grid(color=LINES, linewidth=0.7)
        tidy(axes)
    save_plot(picture, PICTURE)


if __name__ == "__main__":
    for name, text in tables(read_rows()).items():
        print(f"{name}\n\n{text}")
