"""The table of promises about both errors in the lab book is that of benchmarks/both_errors.csv."""

import csv
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_says_what_was_simulated():
    page = (ROOT / "docs" / "lab" / "promises.md").read_text(encoding="utf-8")
    section = page[page.index("## Both errors at once") :]
    with (ROOT / "benchmarks" / "both_errors.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    worlds = [row for row in rows if not row["population"].startswith("LFW")]
    shown = [
        f"| {row['population']} | {int(row['people']):,} | "
        + " | ".join(f"{float(row[name]):.3f}" for name in ("far", "frr", "both", "unsure_genuine", "unsure_impostor"))
        + " |"
        for row in worlds
        if row["guarantee"] == "confident"
    ]
    assert re.findall(r"^\| (?!world|:).*$", section, re.MULTILINE) == shown
    means = [[float(row[rate]) for row in worlds if row["guarantee"] == "expected"] for rate in ("far", "frr")]
    said = [f"{bound:.2f}" for rates in means for bound in (min(rates), max(rates))]
    assert "its mean FAR was {} to {} of the target and its mean FRR {} to {}".format(*said) in section
    (lfw,) = [row for row in rows if row["population"].startswith("LFW") and row["guarantee"] == "confident"]
    assert f"kept both in {100 * float(lfw['both']):.1f} % of {lfw['sets']} draws" in section
    assert float(lfw["unsure_genuine"]) == 0
    for row in worlds:
        if row["guarantee"] == "confident":
            for name, least in (("far", 0.96), ("frr", 0.99), ("both", 0.95)):
                error = (least * (1 - least) / int(row["sets"])) ** 0.5
                assert float(row[name]) >= least - 2 * error, (row["population"], row["people"], name)
