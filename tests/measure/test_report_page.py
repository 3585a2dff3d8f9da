"""The page: well-formed, nothing fetched, nothing run, every name escaped, every number at its place."""

import csv
import dataclasses
import json
import re
from importlib.resources import files

import numpy as np

from read_page import Page, read_alone
from redrawing import count_scores
from verisphere.base.vocabulary import Embeddings, Origin, Redrawing, quietly
from verisphere.base.words import share
from verisphere.decide import Interval, exact_rate, one_threshold, operating_point, point_at, roc
from verisphere.decide.guarantee import independent_threshold
from verisphere.decide.identification import Cmc
from verisphere.decide.order import SortedScores
from verisphere.measure.report_control import said
from verisphere.measure.report_findings import (
    ALL,
    Calibrated,
    Comparison,
    Contents,
    FigureOptions,
    File,
    Findings,
    Samples,
    Shipped,
    Training,
)
from verisphere.measure.report_first import leading
from verisphere.measure.report_folder import write_tables
from verisphere.measure.report_page import plot_name, report_page
from verisphere.report.blocks import _COLOURS
from verisphere.report.plots import SERIES
from verisphere.report.tables import tar_text

EVIL = '<script>alert("1")</script> & $x$'
RANDOM = np.random.default_rng(0)
GENUINE, IMPOSTOR = RANDOM.normal(0.6, 0.1, 300), RANDOM.normal(0.0, 0.1, 2000)
NIGHT = RANDOM.normal(0.5, 0.1, 100), RANDOM.normal(0.1, 0.1, 900)
EDGES = np.linspace(-1, 1.5, 51)
FARS = ("1e-2", "1e-3", "1e-4")
COUNTS = ([0, 2000, 200, 300], [9, 2000, 290, 300])


def findings(title: str = "ours", person: str = "Ann") -> Findings:
    domains = {"day": (GENUINE, IMPOSTOR), "night": NIGHT}
    points = tuple(operating_point(GENUINE, IMPOSTOR, far) for far in FARS)
    images = [f"{person}/1.jpg", "Bob/2.jpg"]
    return Findings(
        title=title,
        file=File(f"{title}.npz", "ab" * 32),
        embeddings=Embeddings(np.ones((2, 4), np.float32), images, [person, "Bob"], domains=["day", "night"]),
        people=9,
        model="the embeddings file does not say which model made it.",
        points=points,
        headline=points[0],
        interval=Interval(points[0].tar, 0.91, 0.99, 1000),
        band={exact_rate("1e-2"): Interval(points[0].tar, 0.91, 0.99, 1000)},
        cmc=Cmc((1, 3), (7, 9), mated_total=9, people=5),
        one=one_threshold(domains, far="1e-2"),
        curve=roc(GENUINE, IMPOSTOR),
        histogram=count_scores(GENUINE, IMPOSTOR, EDGES),
        by_domain={name: count_scores(*both, EDGES) for name, both in domains.items()},
        samples=Samples((), ((0, 1, 0.4321),), {images[0]: "data:image/jpeg;base64,AAAA"}),
    )


def training(title: str = "run", measured: bool = True) -> Training:
    entries = [{"step": 1, "epoch": 0.5, "loss": 3.0}, {"step": 2, "epoch": 1.0, "loss": 2.5}]
    return Training(
        title, "runs/first", entries, "seed: 0\n", 12, (File("runs/first/recipe.yaml", "cd" * 32),), measured
    )


def contents(*found: Findings, **changes: object) -> Contents:
    asked = FigureOptions(FARS, str(changes.pop("far", "1e-2")), Redrawing(1000, 0), degrees=False, progress=quietly)
    sets = [
        {
            "title": one.title,
            "thresholds": [0.5, 0.3],
            "at": ["Threshold 0.5.", "Threshold 0.3."],
            "rows": ["all pairs", "night"],
            "pools": [[said(at, per_cent=False) for at in COUNTS]] * 2,
            "fpir": {"1": ["0", "1"]},
        }
        for one in found
    ]
    words = {"names": ["", "1 in 100"], "promises": ["1 in 100", ""], "said": ["all is well", ""], "wrong": ["", ""]}
    control = {**words, "start": 1, "sets": sets} if found else None
    whole = Contents("A report", asked, found, (), None, None, (training(),), control)
    return dataclasses.replace(whole, **changes)  # type: ignore[arg-type]


def rendered(whole: Contents) -> str:
    return report_page(whole).html(lambda plot: b"<svg/>")


def plots(whole: Contents) -> list[str]:
    return [plot.name for plot in report_page(whole).plots]


def shown(whole: Contents) -> Page:
    return read_alone(rendered(whole))


def test_every_name_is_text():
    found = dataclasses.replace(
        findings(EVIL, EVIL),
        file=File(EVIL, None),
        model=EVIL,
        one=one_threshold({EVIL: (GENUINE, IMPOSTOR), "night": NIGHT}, far="1e-2"),
        samples=dataclasses.replace(findings(EVIL, EVIL).samples, missing=EVIL),
    )
    run = dataclasses.replace(training(EVIL, measured=False), folder=EVIL, recipe=EVIL)
    whole = contents(
        found,
        title=EVIL,
        comparisons=(Comparison(EVIL, EVIL, "1e-2", Interval(0.1, 0.05, 0.2, 10), 0.01, 0.02),),
        calibrated=dataclasses.replace(calibrated(EVIL), file=File(EVIL, None), notes=(EVIL,)),
        trainings=(run,),
    )
    text = rendered(whole)
    assert text.count("<script") == 1  # that of the control
    page = Page(text)
    assert page.text.count(EVIL) > 15  # and it reads as it was written
    assert any(EVIL in (image["aria-label"] or "") for image in page.all("svg"))
    (control,) = (box for box in page.all("div") if box.get("id") == "control")
    assert json.loads(control["data-control"])["sets"][0]["title"] == EVIL


def test_the_summary_says_the_headline_with_its_interval():
    page = shown(contents(findings()))
    point = findings().headline
    assert point.impostor_accepted == 20  # of 2,000 at FAR 1e-2
    assert "Here 1 in 100 pairs of strangers passed (20 of 2,000; 95 %: 1 in 170 to 64)" in page.text
    assert "TAR; 95 % over people: 91.00 to 99.00\N{NO-BREAK SPACE}%" in page.text
    assert "fitted on these pairs for FAR 1 in 100 (1e-2)" in page.text
    assert "Nobody. This threshold was fitted on these very people" in page.text


def test_below_resolution_no_rate_is_stated():
    whole = findings()
    page = shown(contents(dataclasses.replace(whole, headline=whole.points[2], interval=None), far="1e-4"))
    assert "2,000 pairs of strangers cannot show FAR 1 in 10,000 (1e-4), which takes at least 10,000" in page.text
    assert "1 in 10,000 (1e-4) *" in page.text
    assert "* below resolution: 2,000 pairs of strangers cannot show a FAR this low." in page.text


def test_what_weakens_the_figures_is_a_sentence():
    page = shown(contents(dataclasses.replace(findings(), first=("ours: all scores are equal",))))
    assert [words for tag, words in page.words if "all scores are equal" in words] == ["ours: all scores are equal."]


def test_sets_are_compared_side_by_side():
    pair = Comparison("ours", "theirs", "1e-2", Interval(0.02, 0.01, 0.05, 1000), 0.04, 0.08)
    page = shown(contents(findings(), findings("theirs"), comparisons=(pair,)))
    words = "ours recognises more than theirs: 2.00 points of TAR (95 % over people: +1.00 to +5.00); may be chance."
    assert f"At FAR 1 in 100 (1e-2) {words}" in page.text
    assert "one whose own interval leaves out zero may be chance" in page.text
    pair = Comparison("ours", "theirs", "1e-2", Interval(-0.02, -0.05, -0.01, 1000), 0.01, 0.02)
    page = shown(contents(findings(), findings("theirs"), comparisons=(pair,)))
    words = "theirs recognises more than ours: 2.00 points of TAR (95 % over people: +1.00 to +5.00); beyond chance."
    assert f"At FAR 1 in 100 (1e-2) {words}" in page.text
    assert "are not compared" not in page.text
    pair = Comparison("ours", "theirs", "1e-2", Interval(0.0, 0.0, 0.0, 1000), 1.0, 1.0)
    page = shown(contents(findings(), findings("theirs"), findings("third"), comparisons=(pair,)))
    few = "too few pairs of strangers for FAR 1 in 100 (1e-2)"
    assert f"Sets of different images or people, or of {few}, are not compared." in page.text
    assert "At FAR 1 in 100 (1e-2) ours and theirs recognise equally many; no difference." in page.text
    assert "TAR at each FAR" in page.text
    assert "\N{EN DASH}: the set has too few pairs of strangers to show this FAR." in page.text
    assert "Compared" not in shown(contents(findings())).text


def test_each_domain_is_in_the_picture_and_those_far_apart_in_words():
    found = findings()
    assert found.one is not None
    page = shown(contents(found))
    for name, domain in found.one.domains.items():
        assert f"{name} {domain.threshold:.3f}" in rendered(contents(found))
    assert "strangers pass most often in night" in page.text
    assert f"their own thresholds lie {found.one.gamma:.4f} from the one" in page.text
    without = dataclasses.replace(found, one=None)
    assert "omain" not in shown(contents(without, control=None)).text.replace("of all domains, those", "").replace(
        "A domain's own", ""
    ).replace("across domains", "")
    assert not [name for name in plots(contents(without)) if name.startswith("domains")]


def test_a_pair_says_what_was_decided():
    page = shown(contents(findings()))
    assert "score 0.4321," in page.text
    assert ("span", "wrongly accepted") in page.words
    assert "Ann/1.jpg (day)" in page.text
    assert [image for image in page.all("img") if image["alt"] == "Face: Ann/1.jpg"]


def calibrated(title: str) -> Calibrated:
    threshold = independent_threshold(IMPOSTOR, "1e-2", "expected")
    point = point_at(SortedScores(GENUINE), SortedScores(IMPOSTOR), threshold.threshold, "1e-2", "expected")
    night = point_at(*map(SortedScores, NIGHT), threshold.threshold, "1e-2", "expected")
    redrawn = {title: {"night": Interval(night.far, 0.02, 0.5, 100)}}
    shipped = Shipped(threshold, {title: {ALL: point, "night": night}}, redrawn)
    return Calibrated(File("cal.npz", "ef" * 32), (shipped,), frozenset(), ("theirs: not tried.",))


def test_calibrated_thresholds_are_shown_with_what_they_promise():
    found = calibrated("ours")
    page = shown(contents(findings(), calibrated=found))
    assert found.shipped[0].threshold.meaning() in page.text
    assert "theirs: not tried." in page.text
    drawn = {plot.name: plot.draw for plot in report_page(contents(findings(), calibrated=found)).plots}
    figure = drawn["scores-1-ours"]()
    assert found.shipped[0].threshold.threshold in [line.get_xdata()[0] for line in figure.axes[0].lines]


def test_a_run_without_embeddings_still_has_a_page():
    page = shown(contents(trainings=(training(measured=False),)))
    assert "verisphere embed runs/first FACES --out runs/first/name.npz" in page.text
    assert "At the end: epoch 1, loss 2.5" in page.text
    assert "Operating points" not in page.text
    assert "cd" * 32 in page.text


def test_a_run_that_has_not_begun_to_log():
    run = dataclasses.replace(training(), entries=[])
    whole = contents(findings(), trainings=(run,))
    assert not [name for name in plots(whole) if name.startswith("training")]
    assert "the run has logged nothing yet" in shown(whole).text


def test_file_names_of_plots_are_plain():
    assert plot_name("scores", 2, "Ünï/../<b> LFW all") == "scores-2-n-b-lfw-all"
    assert plot_name("scores", 1, "夜") == "scores-1"
    assert re.fullmatch(r"[a-z0-9-]+", plot_name("scores", 1, "x" * 400))


def test_a_far_above_the_promised_one_is_called_out():
    found = calibrated("ours")
    night = found.shipped[0].points["ours"]["night"]
    assert night.far_lower_95 > 0.01  # by hand: impostors at night score 0.1 higher
    page = shown(contents(findings(), calibrated=found))
    assert share(night.far) == "11 %"
    said = "night 11 % (at least 2 % over people)"  # both in per cent, since one is above a tenth
    assert f"above the promised one of 1 in 100 (1e-2): {said}." in page.text
    assert f"Here the measured rate is above the promised one: {said}." in page.text
    assert "A promise is about two new people, one image of each" in page.text
    assert "does not test them" not in page.text
    kept = {"ours": {ALL: found.shipped[0].points["ours"][ALL]}}
    within = dataclasses.replace(
        found, shipped=(Shipped(found.shipped[0].threshold, kept, {"ours": {}}),), own=frozenset(["ours"])
    )
    page = shown(contents(findings(), calibrated=within))
    assert "ours: the measured FAR is consistent with the promise." in page.text
    spread = {"ours": {"night": Interval(night.far, 0.004, 0.5, 100)}}  # above by binomial bounds alone
    undecided = dataclasses.replace(found, shipped=(dataclasses.replace(found.shipped[0], over_people=spread),))
    assert (
        "ours: the measured FAR is consistent with the promise."
        in shown(contents(findings(), calibrated=undecided)).text
    )
    assert "ours is the set that the thresholds were found on, so it does not test them." in page.text


def test_each_file_is_listed_once():
    found = dataclasses.replace(calibrated("ours"), file=File("ours.npz", findings().file.sha256))
    moved = dataclasses.replace(findings(), file=File("runs/mine/ours.npz", findings().file.sha256))
    page = shown(contents(moved, calibrated=found))
    assert page.text.count("ab" * 32) == 1
    assert "runs/mine/ours.npz" in page.text


def test_the_first_screen_says_how_good_at_which_threshold_and_for_whom():
    page = shown(contents(findings("untrained"), findings(), calibrated=calibrated("ours")))
    assert [words for tag, words in page.words if tag == "dt"][:3] == [
        "How good",
        "At which threshold",
        "Promised for whom",
    ]
    shipped = calibrated("ours").shipped[0]
    point = shipped.points["ours"][ALL]
    first = page.text[: page.text.index("Move the threshold", page.text.index("How good"))]
    assert f"{tar_text(point.tar)} of the pairs of the same person are recognised" in first
    assert f"{point.threshold:.4f}: the same person if the score is above" in first
    assert "the shipped threshold for FAR 1 in 100 (1e-2), tried on these pairs" in first
    assert shipped.threshold.promise() in first
    assert "do not test it" not in first
    itself = dataclasses.replace(calibrated("ours"), own=frozenset(["ours"]))
    assert "it was found on this very set" in shown(contents(findings(), calibrated=itself)).text
    assert "untrained" not in first.replace("Report: untrained", "")
    (picture,) = (svg for svg in page.all("svg") if svg.get("class") == "scores")
    assert f"{point.impostor_accepted:,} of 2,000 pairs of strangers pass" in picture["aria-label"]


def test_a_threshold_that_was_not_tried_on_a_set_promises_nothing_about_it():
    page = shown(contents(findings(), calibrated=calibrated("other")))
    assert "the thresholds of cal.npz were not tried on this set" in page.text
    assert leading([findings(), findings("other")], calibrated("other")) == 1
    own = dataclasses.replace(calibrated("other"), own=frozenset(["other"]))
    assert leading([findings(), findings("other")], own) == 1  # no other set has the thresholds


def test_a_set_of_no_known_weights_leads_only_alone():
    embeddings = dataclasses.replace(findings().embeddings, origin=Origin("ab" * 32, True, "float32", "x"))
    trained = dataclasses.replace(findings("trained"), embeddings=embeddings)
    assert leading([findings("untrained"), trained], None) == 1
    assert leading([findings("untrained"), findings("other")], None) == 0


def test_the_tars_are_tables_for_a_paper(tmp_path):
    write_tables(tmp_path, contents(findings(), findings("a_b & c")))
    tar = findings().points[0].tar
    rows = list(csv.DictReader((tmp_path / "table.csv").read_text().splitlines()))
    assert [(row["set"], row["far_target"]) for row in rows] == [
        (title, far) for title in ("ours", "a_b & c") for far in FARS
    ]
    assert (float(rows[0]["tar"]), rows[0]["lower_95"], rows[0]["bounds"]) == (tar, "0.91", "over people")
    assert (rows[1]["bounds"], rows[2]["tar"]) == ("of independent pairs", "")  # 1e-4 is below resolution
    markdown = (tmp_path / "table.md").read_text().splitlines()
    assert f"{100 * tar:.2f}" in markdown[2]
    assert "a_b &amp; c" in markdown[0]
    assert {line.count("|") for line in markdown[:5]} == {4}
    assert not (tmp_path / "differences.csv").exists()
    lines = (tmp_path / "table.tex").read_text().splitlines()
    assert lines[0] == r"\begin{tabular}{lrr}"
    assert lines[2] == "FAR & ours & a\\_b \\& c \\\\"
    assert lines[4].startswith(f"1e-2 & {100 * tar:.2f} & ")
    assert lines[6] == "1e-4 & - & - \\\\"


def test_differences_stand_in_every_form_with_what_is_beyond_chance(tmp_path):
    pairs = (
        Comparison("ours", "a_b & c", "1e-2", Interval(0.02, 0.01, 0.05, 80), 0.01, 0.02),
        Comparison("ours", "a_b & c", "1e-3", Interval(0.01, -0.01, 0.05, 80), 0.3, 0.3),
    )
    whole = contents(findings(), findings("a_b & c"), comparisons=pairs)
    write_tables(tmp_path, whole)
    first, second = csv.DictReader((tmp_path / "differences.csv").read_text().splitlines())
    assert (first["set"], first["against"], first["far_target"], first["tar"]) == ("ours", "a_b & c", "1e-2", "0.02")
    assert (first["p_holm"], first["verdict"], second["verdict"]) == ("0.02", "beyond chance", "may be chance")
    markdown = (tmp_path / "table.md").read_text()
    assert "- At FAR 1 in 100 (1e-2) ours recognises more than a_b &amp; c: 2.00 points of TAR" in markdown
    assert "+5.00); beyond chance.\n" in markdown
    assert "2 comparisons. People are redrawn 80 times" in markdown
    lines = (tmp_path / "table.tex").read_text().splitlines()
    assert "ours - a\\_b \\& c & 1e-2 & +2.00 & +1.00 to +5.00 & beyond chance \\\\" in lines
    assert lines.count(r"\end{tabular}") == 2


def test_curves_have_bands_over_people():
    drawn = {plot.name: plot.draw() for plot in report_page(contents(findings())).plots if plot.name in ("roc", "det")}
    for figure in drawn.values():
        assert len(figure.axes[0].collections) == 1
    (band,) = drawn["roc"].axes[0].collections
    assert {round(y, 6) for _, y in band.get_paths()[0].vertices} == {0.91, 0.99}


def test_a_page_has_one_pair_of_words():
    text = shown(contents(findings(), findings("theirs"), calibrated=calibrated("ours"))).text
    known = "which standards call genuine, and otherwise of strangers, which they call impostors"
    assert text.count(known) == 1
    assert not re.findall("[Gg]enuine|[Ii]mpostor", text.replace(known, ""))


def test_a_rate_of_more_than_a_tenth_is_a_sentence():
    shipped = calibrated("ours").shipped[0]
    night = dataclasses.replace(shipped, points={"ours": {ALL: shipped.points["ours"]["night"]}})
    whole = dataclasses.replace(calibrated("ours"), shipped=(night,))
    assert "Here 11 % of pairs of strangers passed" in shown(contents(findings(), calibrated=whole)).text


def test_the_name_of_the_set_is_seen_without_unfolding():
    embeddings = dataclasses.replace(findings().embeddings, origin=Origin("ab" * 32, True, "float32", "data/lfw.zip"))
    page = shown(contents(dataclasses.replace(findings(), embeddings=embeddings)))
    assert "ours on lfw.zip: 2 images of 9 people" in page.text


def test_a_set_with_one_usable_domain_has_no_section_about_domains():
    alone = dataclasses.replace(findings(), one=one_threshold({"day": (GENUINE, IMPOSTOR)}, far="1e-2"))
    page = shown(contents(alone))
    assert "Domains at one threshold" in shown(contents(findings())).text
    assert "Domains at one threshold" not in page.text
    assert not [name for name in plots(contents(alone)) if name.startswith("domains")]


def test_what_is_said_of_images_that_do_not_look_aligned_stands_first_and_once():
    found = [dataclasses.replace(findings(title), doubt="orl: not aligned") for title in ("ours", "theirs")]
    page = shown(contents(*found))
    assert page.text.count("orl: not aligned") == 1
    assert page.text.index("orl: not aligned") < page.text.index("How good")


def test_lines_and_words_stand_out_from_light_and_dark_paper():
    style = (files("verisphere.report") / "page.css").read_text()
    light, dark = (dict(re.findall(r"--(\w+): (#\w{6})", part)) for part in style.split("@media", 2)[:2])
    for look in (light, dark):
        for name in ("ink", "soft", "link", "bad", "blue", "brown", "green", "violet"):
            assert _contrast(look[name], look["paper"]) >= 4.5, name
    assert _COLOURS[SERIES[1]] == "brown"
    assert light["brown"] == SERIES[1]


def _contrast(first: str, second: str) -> float:
    """The contrast of two colours by WCAG 2."""
    shares = np.array([[int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)] for colour in (first, second)])
    linear = np.where(shares <= 0.03928, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
    high, low = sorted(linear @ [0.2126, 0.7152, 0.0722], reverse=True)
    return (high + 0.05) / (low + 0.05)
