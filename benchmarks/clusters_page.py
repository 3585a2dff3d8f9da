"""The tables of docs/clusters.md and docs/lab/lfw_noise.md on clusters, from clusters.csv, results.csv and the lists.

`python benchmarks/clusters_page.py` prints them; a test compares the pages with them.
"""

import csv
from collections import Counter
from pathlib import Path

from gallery_page import markdown

ROWS = Path(__file__).with_name("clusters.csv")
TIMES = Path(__file__).with_name("results.csv")
JUDGED = Path(__file__).parents[1] / "docs" / "lab" / "lfw_noise" / "clusters.csv"
OURS = "verisphere"
MODELS = {"pretrained": "model 1", "second": "model 2"}
STRICT = "recall 0.96"
KINDS = ("twins", "relatives", "label error", "cannot tell", "look-alikes")
PRICES = ("0", "0.04", "0.08", "0.1", "0.12", "0.16")
Line = dict[str, str]


def lines_of(path: Path) -> list[Line]:
    """The lines of a file of comma-separated values."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def read_rows() -> list[Line]:
    """The rows of the benchmark."""
    return lines_of(ROWS)


def row_of(rows: list[Line], where: str, model: str, method: str, point: str = "best") -> Line:
    """The row of a method; `where` is a set and its labels."""
    (row,) = [
        row
        for row in rows
        if (f"{row['set']}, {row['labels']}", row["model"], row["method"], row["point"])
        == (where, model, method, point)
    ]
    return row


def of_set(rows: list[Line], where: str) -> list[str]:
    """The methods that were measured on a set with both models, ours first, then by B-cubed F with the first one."""
    points = [row for row in rows if (f"{row['set']}, {row['labels']}", row["point"]) == (where, "best")]
    best, others = ({row["method"]: -float(row["f"]) for row in points if row["model"] == model} for model in MODELS)
    methods = [method for method in best if method in others and not method.startswith("price")]
    return sorted(methods, key=lambda method: (method != OURS, best[method]))


def mixed(row: Line) -> str:
    """Mixed clusters, with the fewest and the most of several orders of the faces."""
    fewest, most = (float(row[name]) for name in ("fewest_mixed", "most_mixed"))
    return f"{fewest:.0f}" if fewest == most else f"{fewest:.0f} to {most:.0f}"


def methods(rows: list[Line], model: str) -> str:
    """Every method at its best point on LFW."""
    body = []
    for method in of_set(rows, "LFW, corrected"):
        row = row_of(rows, "LFW, corrected", model, method)
        cells = [
            method,
            row["setting"],
            "{:.4f} ({:.4f} to {:.4f})".format(*(float(row[name]) for name in ("f", "lower", "upper"))),
            "{:.4f}, {:.4f}".format(*(float(row[name]) for name in ("precision", "recall"))),
            mixed(row),
            "{:.4f}, {:.4f}".format(*(float(row[name]) for name in ("pair_precision", "pair_recall"))),
            "{:.4f}, {:.4f}".format(*(float(row[name]) for name in ("other_pair_precision", "other_pair_recall"))),
        ]
        body.append(cells if method != OURS else [f"**{cell}**" for cell in cells])
    head = ["method", "at", "B-cubed F (95 % over people)", "B-cubed precision, recall", "mixed clusters",
            "pairs: precision, recall", "without the person of 530 images"]  # fmt: skip
    return markdown(head, body)


def other_people(rows: list[Line]) -> str:
    """B-cubed F and mixed clusters with the parameter found on other people, and the distance from ours at the best."""
    body = []
    for method in of_set(rows, "LFW, corrected"):
        cells = [method]
        for model in MODELS:
            found = row_of(rows, "LFW, corrected", model, method, "other people")
            best = row_of(rows, "LFW, corrected", model, method)
            ends = [float(best[name]) for name in ("difference", "difference_lower", "difference_upper")]
            behind = "" if method == OURS else "{:.4f} ({:.4f} to {:.4f})".format(*ends)
            cells += [f"{float(found['f']):.4f}", f"{float(found['mixed']):.0f}", behind]
        body.append(cells)
    head = ["method"]
    for title in MODELS.values():
        head += [f"{title}: F", "mixed", "behind ours at the best points"]
    return markdown(head, body)


def small(rows: list[Line]) -> str:
    """ORL: B-cubed F at the best point and with the parameter found on other people."""
    body = []
    for method in of_set(rows, "ORL, as published"):
        cells = [method]
        for model in MODELS:
            best, found = (row_of(rows, "ORL, as published", model, method, at) for at in ("best", "other people"))
            cells += [f"{float(best['f']):.4f}", mixed(best), f"{float(found['f']):.4f}"]
        body.append(cells)
    head = ["method"]
    for title in MODELS.values():
        head += [f"{title}: F", "mixed", "F, other people"]
    return markdown(head, body)


def prices(rows: list[Line]) -> str:
    """Ours by the price of a merge of small groups."""
    body = []
    for price in PRICES:
        cells = [price]
        for model in MODELS:
            best, found = (
                row_of(rows, "LFW, corrected", model, OURS if price == "0.1" else f"price {price}", at)
                for at in ("best", "other people")
            )
            threshold = best["setting"].removeprefix("threshold ")
            cells += [f"{float(best['f']):.4f} at {threshold}", mixed(best), f"{float(found['f']):.4f}"]
        body.append(cells)
    head = ["price"]
    for title in MODELS.values():
        head += [f"{title}: F at its best", "mixed", "F, other people"]
    return markdown(head, body)


def noise(rows: list[Line]) -> str:
    """LFW as published beside LFW with corrected labels."""
    body = []
    raw = {row["method"] for row in rows if (row["set"], row["labels"]) == ("LFW", "as published")}
    for method in [method for method in of_set(rows, "LFW, corrected") if method in raw]:
        for model, title in MODELS.items():
            cells = [f"{method}, {title}"]
            for labels in ("as published", "corrected"):
                row = row_of(rows, f"LFW, {labels}", model, method)
                cells += [f"{float(row['f']):.4f}", mixed(row)]
            body.append(cells)
    return markdown(["method", "as published: F", "mixed", "corrected: F", "mixed"], body)


def judged() -> str:
    """What the mixed clusters show, by kind: pairs of names at the best point and at a B-cubed recall of 0.96."""
    lines = lines_of(JUDGED)
    whole = Counter(line["kind"] for line in lines)
    strict = Counter(line["kind"] for line in lines if line["at_recall_0.96"] == "yes")
    body = [[kind, str(strict[kind]), str(whole[kind])] for kind in KINDS]
    return markdown(["pairs of names in one cluster", "at recall 0.96", "at the best F"], body)


def scale() -> str:
    """CPU seconds and memory by number of faces."""
    body = []
    for line in lines_of(TIMES):
        if line["benchmark"] == "clusters":
            memory = line["versions"].rpartition("memory at most ")[2]
            body.append(
                [line["case"].replace(" down to ", ", floor "), line["variant"], f"{float(line['cpu_s']):,.0f}", memory]
            )
    return markdown(["faces", "step", "CPU seconds of one core", "memory at most"], body)


def tables(rows: list[Line]) -> dict[str, tuple[str, str]]:
    """Each table with its page."""
    page = "clusters.md"
    return {
        "model 1": (page, methods(rows, "pretrained")),
        "model 2": (page, methods(rows, "second")),
        "other people": (page, other_people(rows)),
        "ORL": (page, small(rows)),
        "price": (page, prices(rows)),
        "noise": (page, noise(rows)),
        "scale": (page, scale()),
        "judged": ("lab/lfw_noise.md", judged()),
    }


if __name__ == "__main__":
    for name, (page, text) in tables(read_rows()).items():
        print(f"{name} of docs/{page}\n\n{text}\n")
