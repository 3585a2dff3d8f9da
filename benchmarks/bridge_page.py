"""The tables of docs/bridge.md and docs/inversion.md, from the rows of bridge.csv and roads.csv.

`python benchmarks/bridge_page.py` prints them; a test compares the pages with them.
"""

import csv
from collections.abc import Sequence
from pathlib import Path

from gallery_page import markdown

from verisphere.decide.sample_size import people_needed
from verisphere.score.bridge import FEWEST_FITTED

ROWS = Path(__file__).with_name("bridge.csv")
OURS = "`verisphere bridge`"
ROADS = Path(__file__).with_name("roads.csv")
PEOPLE = ("50", "200", "500")
WAYS = ("back", "there")  # to the better of the two models, and to the weaker
Rows = Sequence[dict[str, str]]


def read_rows(path: Path = ROWS) -> Rows:
    """The rows of the benchmark."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def figure(rows: Rows, method: str, people: str, kind: str) -> dict[str, str]:
    """A figure's row."""
    (found,) = [row for row in rows if (row["method"], row["people"], row["figure"]) == (method, people, kind)]
    return found


def mean(rows: Rows, method: str, people: str, kind: str) -> str:
    """The mean of a figure, to three digits."""
    return f"{float(figure(rows, method, people, kind)['mean']):.3f}"


def methods(rows: Rows) -> str:
    """TAR by method and number of people."""
    names = dict.fromkeys(row["method"] for row in rows if row["figure"] == "people" and row["people"])
    body = []
    for name in names:
        found = [figure(rows, name, people, "people") for people in PEOPLE]
        cells = [f"{float(row['mean']):.3f} ({float(row['deviation']):.3f})" for row in found]
        body.append([name, *cells] if name != OURS else [f"**{cell}**" for cell in (name, *cells)])
    return markdown(["fitted on", *(f"{people} people" for people in PEOPLE)], body)


def needed() -> str:
    """The fewest people of a bridge by FAR."""
    kinds = ("confident", "expected")
    cells = (
        (far, *(f"{people_needed(far, kind) + FEWEST_FITTED:,}" for kind in kinds)) for far in ("1e-1", "1e-2", "1e-3")
    )
    return markdown(["FAR", "`confident` needs", "`expected` needs"], cells)


def privacy(rows: Rows) -> str:
    """What an attacker recognises by the number of people whom he knows."""
    body = [
        [
            "photographs of an enrolled person that match at FAR 1e-3",
            *(mean(rows, OURS, people, "people") for people in PEOPLE),
        ]
    ]
    cells = [mean(rows, f"first of a gallery, {OURS}", people, "rank 1") for people in PEOPLE]
    body.append(["photographs whose person is the nearest of 2,875 enrolled", *cells])
    return markdown(["known people", *PEOPLE], body)


def covered(rows: Rows) -> str:
    """How often promises held, a sentence for each."""
    found = [row for row in rows if row["figure"] == "held"]
    ratios = [
        next(row for row in rows if row["figure"] == "FAR / target" and row["method"] == held["method"])
        for held in found
    ]
    sentences = []
    for held, ratio in zip(found, ratios, strict=True):
        kept, far = f"{100 * float(held['mean']):.1f} % kept it", f"{float(ratio['mean']):.2f} of the target"
        promise = held["method"].replace(" at", "` at")
        sentences.append(
            f"Of {held['runs']} bridges with the promise `{promise}, from {int(held['people']):,} people of LFW drawn "
            f"anew, {kept} on 1,000 others (mean FAR {far})."
        )
    return " ".join(sentences)


def roads(rows: Rows) -> str:
    """TPIR of a gallery by each road, to the better model and to the weaker."""
    names = dict.fromkeys((row["method"], row["people"]) for row in rows if row["figure"] == "TPIR")
    body = []
    for name, people in names:
        cells = [figure([row for row in rows if row["way"] == way], name, people, "TPIR") for way in WAYS]
        fitted = f" from {people} people" if name == "bridge" else ""
        body.append([name + fitted, *(f"{float(cell['mean']):.3f} ({float(cell['deviation']):.3f})" for cell in cells)])
    return markdown(["gallery under the new model", "to a better one", "to a weaker one"], body)


def own_people(rows: Rows) -> str:
    """What thresholds by the map's own people let pass, in a sentence."""

    def ratios(name: str) -> str:
        found = [figure([row for row in rows if row["way"] == way], name, "850", "FPIR / target") for way in WAYS]
        return " and ".join(f"{float(row['mean']):.2f}" for row in found)

    own, others = ratios("the map's own people"), ratios("others")
    return (
        f"thresholds by 850 people on whom the map was fitted let {own} times as many fresh strangers pass as was "
        "promised (`expected` at FPIR 5e-2, to the better and to the weaker model, means of 20 splits), those by 850 "
        f"others {others} times"
    )


def tables(rows: Rows) -> dict[str, tuple[str, str]]:
    """Each table with its page."""
    return {
        "methods": ("bridge.md", methods(rows)),
        "needed": ("bridge.md", needed()),
        "covered": ("bridge.md", covered(rows)),
        "roads": ("bridge.md", roads(read_rows(ROADS))),
        "own people": ("bridge.md", own_people(read_rows(ROADS))),
        "privacy": ("inversion.md", privacy(rows)),
    }


if __name__ == "__main__":
    for name, (page, text) in tables(read_rows()).items():
        print(f"{name} of docs/{page}\n\n{text}\n")
