"""The tables of docs/galleries.md, docs/promises.md and docs/lab/promises.md, from the rows of galleries.csv.

`python benchmarks/gallery_page.py` prints them; a test compares the pages with them.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from gallery_pools import Row, read_rows

ROWS = Path(__file__).with_name("galleries.csv")
RATES = {"1e-1": "1 in 10", "1e-2": "1 in 100", "1e-3": "1 in 1,000"}
LABELS = {
    "unreviewed": "unreviewed",
    "right": "right",
    "unfound, allowed for": "misses 2, `--unfound`",
    "wrong": "removes 2 strangers too",
    "wrong, allowed for": "removes 2 strangers too, `--wrong 2`",
}
Picked = dict[tuple[str, ...], Row]


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, the first column aligned to the left."""
    lines = [header, [":--", *["--:"] * (len(header) - 1)], *rows]
    text = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join(text).replace("| :-- |", "|:--|").replace(" --: |", "--:|").replace("|:-- ", "|:--")


def percent(value: float, digits: int = 0) -> str:
    """A share in percent."""
    return f"{100 * value:.{digits}f} %"


def with_ends(row: Row, digits: int = 3) -> str:
    """A figure with its interval."""
    return f"{row.value:.{digits}f} ({row.lower:.{digits}f} to {row.upper:.{digits}f})"


def signed(row: Row) -> str:
    """A difference with its interval."""
    return f"{row.value:+.3f} ({row.lower:+.3f} to {row.upper:+.3f})"


def picked(rows: Sequence[Row], part: str, *names: str) -> Picked:
    """The rows of a part by some of their fields."""
    return {tuple(str(getattr(row, name)) for name in names): row for row in rows if row.part == part}


def values(rows: Sequence[Row], part: str, name: str) -> list[str]:
    """The values of a field in a part, in order of appearance."""
    return list(dict.fromkeys(str(getattr(row, name)) for row in rows if row.part == part))


def coverage(rows: Sequence[Row]) -> str:
    """In short: the least coverage and the highest mean over all worlds and galleries, with LFW's beside them."""
    lines = []
    for rate, words in RATES.items():
        for guarantee, figure, choose in (("confident", "held", min), ("expected", "mean FPIR / f", max)):
            cells = []
            for part in ("coverage", "coverage of faces"):
                fit = [row for row in rows if row.part == part and row.rate == rate and row.figure == figure]
                fit = [row for row in fit if row.case == f"best, {guarantee}"]
                numbers = sorted({row.strangers or 0 for row in fit})
                for number in numbers:
                    worst = choose(row.value for row in fit if row.strangers == number)
                    cells.append(percent(worst, 1) if guarantee == "confident" else f"{worst:.2f} f")
            lines.append([words, f"`{guarantee}`", " and ".join(f"{number:,}" for number in numbers), *cells])
    return markdown(
        ["FPIR f", "guarantee", "strangers (least, 3 x)", "worlds: least", "3 x", "LFW: least", "3 x"], lines
    )


def covered(rows: Sequence[Row], guarantee: str, figure: str, shown: Callable[[float], str]) -> str:
    """In full: every world and LFW, by FPIR, number of strangers and size of the gallery."""
    lines: dict[tuple[str, str, str], dict[str, str]] = {}
    for row in rows:
        if row.part in ("coverage", "coverage of faces") and row.case == f"best, {guarantee}" and row.figure == figure:
            key = row.rate, f"{row.strangers:,}", row.population
            lines.setdefault(key, {})[f"{row.people:,}"] = shown(row.value)
    sizes = ["10", "100", "1,000", "10,000"]
    body = [[*key, *(cells.get(size, "") for size in sizes)] for key, cells in lines.items()]
    order = list(RATES)
    body.sort(key=lambda line: (order.index(line[0]), int(line[1].replace(",", ""))))
    return markdown(["FPIR", "strangers", "population", *(f"gallery {size}" for size in sizes)], body)


def strangers(rows: Sequence[Row]) -> str:
    """TPIR by the number of strangers, with LFW's duplicate identities and without."""
    found = picked(rows, "strangers", "population", "strangers", "figure")
    return markdown(
        ["strangers", "TPIR, duplicates removed", "FPIR of the rest", "TPIR, LFW as it is", "FPIR of the rest"],
        [
            [f"{int(number):,}"]
            + [
                cell
                for population in ("LFW", "LFW as it is")
                for cell in (
                    with_ends(found[population, number, "TPIR"], 2),
                    f"{found[population, number, 'FPIR of the rest / f'].value:.2f} f",
                )
            ]
            for number in values(rows, "strangers", "strangers")
        ],
    )


def rules(rows: Sequence[Row]) -> str:
    """TPIR by rule, less that of `best` of the same model, and of the better one."""
    found = picked(rows, "rules", "population", "case", "figure")
    lines = []
    for population, case, figure in found:
        if figure != "TPIR":
            continue
        less = [
            signed(row) if (row := found.get((population, case, f"less best of the {which} model"))) else ""
            for which in ("same", "better")
        ]
        name = case if population == "any" else f"{population}: `{case}`" if " " not in case else f"both: {case}"
        if population == "any":
            less[0] = ""
        fpir = found[population, case, "FPIR of the rest / f"].value
        lines.append([name, with_ends(found[population, case, figure]), *less, f"{fpir:.2f} f"])
    return markdown(
        ["rule", "TPIR", "less `best` of the same model", "less `best` of the better model", "FPIR of the rest"], lines
    )


def labels(rows: Sequence[Row]) -> str:
    """Coverage and TPIR by the share planted and the review, on LFW."""
    shares = ("0", "0.5", "1", "2")
    lines = []
    for part, people, about in (
        ("labels of faces", "1000", "1,000 enrolled"),
        ("labels of pairs", "None", "two photographs"),
    ):
        found = picked(rows, part, "people", "case", "figure")
        for case, words in LABELS.items():
            cells = []
            for share in shares:
                held, tpir = (found.get((people, f"{share} % planted, {case}", figure)) for figure in ("held", "TPIR"))
                cells.append(f"{percent(held.value)}; {tpir.value:.3f}" if held and tpir else "")
            lines.append([about, words, *cells])
    return markdown(["", "review", *(f"{share} % planted" for share in shares)], lines)


def growth(rows: Sequence[Row]) -> str:
    """The factor by which growth raised the mean FPIR."""
    lines = []
    for part in ("growth of faces", "growth"):
        found = picked(rows, part, "population", "people", "case", "figure")
        for population, people in dict.fromkeys(key[:2] for key in found):
            joined = [key[2] for key in found if key[:2] == (population, people) and key[3] == "law"]
            cells = [
                f"{found[population, people, case, 'mean FPIR / mean before'].value:.2f}"
                f" ({percent(found[population, people, case, 'held at law x f'].value)})"
                for case in joined
            ]
            fixed = "the same, threshold fixed without the gallery"
            last = found.get((population, people, joined[-1], fixed))
            lines.append([population, f"{int(people):,}", *cells, "" if last is None else f"{last.value:.2f}"])
    return markdown(
        ["population", "enrolled", "+10 % (law 1.1)", "+50 % (1.5)", "+100 % (2)", "+100 %, threshold fixed before"],
        lines,
    )


def failures(rows: Sequence[Row]) -> str:
    """FPIR over the target where the strangers in use are not as those calibrated on."""
    lines = []
    for part in ("relatives", "camera"):
        for row in rows:
            if row.part == part and row.figure == "FPIR / f":
                ends = "" if row.lower is None else f" ({row.lower:.1f} to {row.upper:.1f})"
                tpir = [other.value for other in rows if (other.case, other.figure) == (row.case, "TPIR")]
                lines.append([row.case, f"{row.value:.1f} f{ends}", f"{tpir[0]:.2f}" if tpir else ""])
    return markdown(["strangers in use", "FPIR", "TPIR"], lines)


def chosen(rows: Sequence[Row]) -> str:
    """How often a threshold held whose rule was chosen on the calibration's own strangers."""
    found = picked(rows, "chosen rules", "case", "strangers", "figure")
    numbers = values(rows, "chosen rules", "strangers")
    return markdown(
        ["rule", *(f"{int(number):,} strangers" for number in numbers)],
        [
            [
                case.removeprefix("rule: "),
                *(
                    f"held in {percent(found[case, number, 'held'].value, 1)}; "
                    f"{found[case, number, 'FPIR / f'].value:.2f} f"
                    for number in numbers
                ),
            ]
            for case in values(rows, "chosen rules", "case")
        ],
    )


def tables(rows: Sequence[Row]) -> dict[str, tuple[str, str]]:
    """The page and the text of each table, by its name."""
    page, lab = "galleries.md", "lab/promises.md"
    return {
        "coverage": (page, coverage(rows)),
        "strangers to buy": (page, strangers(rows)),
        "growth": (page, growth(rows)),
        "rules": (page, rules(rows)),
        "rules chosen on the strangers": (page, chosen(rows)),
        "wrong labels": ("promises.md", labels(rows)),
        "where the assumption does not hold": (page, failures(rows)),
        "confident, in full": (lab, covered(rows, "confident", "held", lambda value: percent(value, 1))),
        "expected, in full": (lab, covered(rows, "expected", "mean FPIR / f", lambda value: f"{value:.2f} f")),
    }


def main() -> None:
    for name, (page, text) in tables(read_rows(ROWS)).items():
        print(f"{name} ({page})\n\n{text}\n")


if __name__ == "__main__":
    main()
