"""The threshold control: numbers as Python counts them, in a browser at fifty stops, by mouse, keyboard and touch."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from verisphere.base.vocabulary import Embeddings, Origin, Preprocessing
from verisphere.base.words import in_per_cent, share, share_bounds
from verisphere.decide import binomial_bounds, exact_rate, threshold_at
from verisphere.decide.order import SortedScores
from verisphere.files.embeddings import read_known_people, write_embeddings
from verisphere.measure.protocols.all_pairs import PairsOfSet
from verisphere.measure.report import make_report, report_inputs
from verisphere.measure.report_control import _none_of, galleries, said
from verisphere.report.html import unbroken
from verisphere.report.tables import tar_bounds, tar_text
from verisphere.score import unit_rows
from verisphere.score.pairs import pair_scores
from verisphere.ship.calibrate import calibrate

CHROMIUM = shutil.which("chromium")
FARS = ("1e-1", "1e-2", "1e-3")
ORIGIN = Origin("ab" * 32, True, "float32", "here", preprocessing=Preprocessing((4, 4), "RGB", "NCHW", 0.0, 1.0))


def people(noise: float, seed: int = 0, prefix: str = "p", origin: Origin | None = None) -> Embeddings:
    person = np.repeat(np.arange(70), 4)
    rows = np.random.default_rng(seed).normal(size=(70, 24))[person]
    rows += noise * np.random.default_rng(seed + 1).normal(size=rows.shape)
    return Embeddings(
        rows.astype(np.float32),
        names=[f"{prefix}{one}/{number % 4}" for number, one in enumerate(person)],
        identities=[f"{prefix}{one}" for one in person],
        domains=np.where(np.arange(len(person)) % 4 < 2, "day", "night"),
        origin=origin,
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with two models' embeddings of the same images, a calibration of the first, and their report."""
    folder = tmp_path_factory.mktemp("control")
    write_embeddings(folder / "ours.npz", people(1.0, origin=ORIGIN))
    write_embeddings(folder / "theirs.npz", people(1.4))
    write_embeddings(folder / "new.npz", people(1.0, seed=9, prefix="q", origin=ORIGIN))
    calibration = calibrate(folder / "new.npz", ["2e-1"], "expected")
    paths = [folder / "ours.npz", folder / "theirs.npz"]
    options = {"fars": FARS, "one_far": "1e-2", "replicates": 20, "calibration": calibration}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("verisphere.report.blocks.save_plot", lambda _, path: path.write_text("") or path)
        make_report(report_inputs(paths), folder / "report", **options)
    calibration.write_json(folder / "calibration.json")
    return folder


def data(place: Path) -> dict:
    text = (place / "report" / "report.html").read_text()
    (found,) = re.findall('data-control="(.*?)"', text)
    return json.loads(found.replace("&quot;", '"'))


def scores(path: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Genuine and impostor scores of all pairs and within each domain, every pair listed."""
    rows = read_known_people(path)
    first, second = np.triu_indices(len(rows), 1)
    score = pair_scores(unit_rows(rows.embeddings), torch.from_numpy(first), torch.from_numpy(second)).numpy()
    same = rows.identities[first] == rows.identities[second]
    pools = {"all pairs": np.ones(len(first), bool)}
    pools |= {name: (rows.domains[first] == name) & (rows.domains[second] == name) for name in ("day", "night")}
    return {name: (score[same & inside], score[~same & inside]) for name, inside in pools.items()}


def test_every_stop_is_what_its_threshold_counts(place: Path):
    found = data(place)
    for name, part in zip(("ours", "theirs"), found["sets"], strict=True):
        alike = [in_per_cent(pool[4] for pool in at) for at in zip(*part["pools"], strict=True)]
        pools = scores(place / f"{name}.npz")
        assert len(part["pools"]) == len(pools)
        assert part["thresholds"] == sorted(part["thresholds"], reverse=True)
        for stop, threshold in enumerate(part["thresholds"]):
            for pool, (genuine, impostor) in enumerate(pools.values()):
                counts = [(int((kind > threshold).sum()), len(kind)) for kind in (impostor, genuine)]
                shown = part["pools"][pool][stop]
                assert shown == said([*counts[0], *counts[1]], alike[stop])
                assert shown[4] == counts[0][0] / counts[0][1]


def test_the_targets_the_promise_and_equal_far(place: Path):
    found, pairs = data(place), PairsOfSet(people(1.0))
    impostor = pairs.everything(genuine=False)
    ours, theirs = found["sets"]
    for far, name in zip(FARS, ("1 in 10 (1e-1)", "1 in 100 (1e-2)", "1 in 1,000 (1e-3)"), strict=True):
        assert ours["thresholds"][found["names"].index(name)] == threshold_at(impostor, far)
    promised = json.loads((place / "calibration.json").read_text())["thresholds"][0]
    stop = found["promises"].index("20 % (2e-1)")
    assert found["start"] == stop
    begins = (
        f"Threshold {promised['threshold']:.4f}, promised: On average over calibrations, at most 20\xa0% of pairs of "
    )
    assert found["said"][stop].startswith(f"{begins}strangers pass; ")
    assert ours["thresholds"][stop] == promised["threshold"]
    assert ours["at"][stop] == f"Threshold {promised['threshold']:.4f}."
    assert theirs["at"][stop].endswith(", at the FAR of ours.")
    for stop in range(len(found["names"])):
        at = [part["pools"][0][stop][4] for part in found["sets"]]
        assert at[0] == at[1]


def report_of(folder: Path, name: str, rows: Embeddings, **options) -> tuple[dict, str]:
    """The control of a report of one set, and the page."""
    write_embeddings(folder / name, rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("verisphere.report.blocks.save_plot", lambda _, path: path.write_text("") or path)
        make_report(report_inputs([folder / name]), folder / "out", fars=FARS, one_far="1e-2", replicates=20, **options)
    text = (folder / "out" / "report.html").read_text()
    (found,) = re.findall('data-control="(.*?)"', text)
    return json.loads(found.replace("&quot;", '"')), text


def test_rows_of_domains_called_by_numbers_keep_their_order(tmp_path: Path):
    rows = people(1.0)
    found, text = report_of(tmp_path, "years{}.npz", replace(rows, domains=np.where(rows.domains == "day", "20", "3")))
    (part,) = found["sets"]
    pairs = PairsOfSet(replace(rows, domains=None)).everything(genuine=False)
    assert part["pools"][0][0][4] == pairs.above(part["thresholds"][0]) / pairs.total
    assert [pool[-1][4] != part["pools"][0][-1][4] for pool in part["pools"]] == [False, True, True]
    order = [text.index(f'<th scope="row">{name}</th>', text.index('aria-label="years')) for name in ("20", "3")]
    assert order == sorted(order)


def test_promises_that_accept_equally_many_have_a_stop_each_and_begin_with_the_first(tmp_path: Path):
    write_embeddings(tmp_path / "new.npz", people(0.1, seed=9, prefix="q", origin=ORIGIN))
    made = calibrate(tmp_path / "new.npz", ["2e-1", "1e-1"], "expected")
    strict = [replace(one, threshold=0.9 + 0.01 * place) for place, one in enumerate(made.thresholds)]
    made = replace(made, thresholds=tuple(strict), checks=())
    found, _ = report_of(tmp_path, "set.npz", people(1.0, origin=ORIGIN), calibration=made)
    (part,) = found["sets"]
    stops = [stop for stop, far in enumerate(found["promises"]) if far]
    assert sorted(part["thresholds"][stop] for stop in stops) == [0.9, 0.91]
    assert part["thresholds"] == sorted(part["thresholds"], reverse=True)
    assert part["thresholds"][found["start"]] == 0.9
    shutil.rmtree(tmp_path / "out")
    wrong = [replace(one, implausible="labels belong to other rows") for one in made.thresholds]
    found, text = report_of(
        tmp_path, "set.npz", people(1.0, origin=ORIGIN), calibration=replace(made, thresholds=(*wrong,))
    )
    assert found["sets"][0]["thresholds"][found["start"]] == 0.9
    assert not any(found["promises"])
    assert not any(": promised" in words or "promised for" in words for words in found["said"])
    assert "labels belong to other rows" in text


def test_a_promise_that_more_pass_than_says_so_at_its_stop(tmp_path: Path):
    write_embeddings(tmp_path / "new.npz", people(1.0, seed=9, prefix="q", origin=ORIGIN))
    made = calibrate(tmp_path / "new.npz", ["2e-1"], "expected")
    lenient = replace(made, thresholds=(replace(made.thresholds[0], threshold=0.0),), checks=())  # half pass
    for calibration, above in ((made, False), (lenient, True)):
        found, _ = report_of(tmp_path, "set.npz", people(1.0, origin=ORIGIN), calibration=calibration)
        assert ("; here above it: " in found["said"][found["start"]]) == above
        assert not re.search(r"1 in \d|\d %", "".join(found["said"]))  # none breaks across lines
        shutil.rmtree(tmp_path / "out")


def test_a_gallery_without_anybody_above_finds_nobody():
    for others in (10, 13, 103, 1729):
        for size in (1, 10, others):
            assert _none_of(np.zeros((2, 3), np.int64), others, size).tolist() == [[1.0] * 3] * 2


def test_what_is_said_of_counts():
    tar, far = binomial_bounds(90, 100), binomial_bounds(3, 1000)
    found = said([3, 1000, 90, 100], per_cent=False)
    texts = ["90.00\xa0%", "82.38 to 95.10\xa0%", "1\xa0in\xa0330", "1\xa0in\xa01,700 to 110"]
    assert found == [*texts, 0.003, *(float(f"{bound:.4g}") for bound in far)]
    assert texts[:2] == [tar_text(0.9), tar_bounds(*tar)]
    assert said([3, 1000, 90, 100], per_cent=True)[2:4] == ["0.3\xa0%", "0.061 to 0.88\xa0%"]


def test_strangers_in_galleries_are_those_of_a_simulation():
    rows = people(1.0)
    thresholds = [0.6, 0.4, 0.2]
    found = galleries(rows, thresholds, seed=0)
    assert list(found) == [1, 10, 69]
    random = np.random.default_rng(3)
    units = rows.embeddings / np.linalg.norm(rows.embeddings, axis=1, keepdims=True)
    best = []
    for _ in range(4000):
        chosen = random.permutation(70)[:11]
        probe, *enrolled = units[4 * chosen + random.integers(4, size=11)]
        best.append(max(np.dot(probe, other) for other in enrolled))
    for threshold, rate in zip(thresholds, found[10], strict=True):
        simulated = (np.array(best) > threshold).mean()
        assert abs(simulated - rate) < 0.04, threshold
    impostor = SortedScores(scores_of_one_image(rows))
    assert found[1][2] == pytest.approx(impostor.above(0.2) / impostor.total, abs=0.02)
    assert (found[69] >= found[10]).all()
    assert found[10][2] < 10 * found[1][2]  # not N times FAR


def scores_of_one_image(rows: Embeddings) -> np.ndarray:
    units = rows.embeddings / np.linalg.norm(rows.embeddings, axis=1, keepdims=True)
    same = rows.identities[:, None] == rows.identities[None]
    return (units @ units.T)[~same].astype(np.float64)


def test_a_gallery_of_everybody_finds_whoever_has_one_above():
    eye = np.eye(3, dtype=np.float32)
    near = np.array([[1, 0.5, 0]], np.float32)  # scores 0.894 with the first, 0.447 with the second
    rows = Embeddings(np.concatenate([eye, near]), identities=["a", "b", "c", "d"])
    found = galleries(rows, [0.8, 0.4, -0.1], seed=0)
    assert {size: rates.tolist() for size, rates in found.items()} == {
        1: pytest.approx([2 / 12, 4 / 12, 1.0]),
        3: pytest.approx([2 / 4, 3 / 4, 1.0]),
    }


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright, which leads a browser, is missing")
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(params=["desk", "phone", "dark"])
def page(request, browser, place: Path):
    look = {
        "desk": {"viewport": {"width": 1280, "height": 900}},
        "phone": {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True},
        "dark": {"color_scheme": "dark"},
    }[request.param]
    context = browser.new_context(**look)
    opened, faults = context.new_page(), []
    opened.on("console", lambda message: faults.append(message.text))
    opened.on("pageerror", lambda error: faults.append(str(error)))
    address = (place / "report" / "report.html").as_uri()
    opened.on("request", lambda asked: faults.append(asked.url) if asked.url != address else None)
    opened.goto(address)
    yield opened
    assert faults == []
    assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
    context.close()


def read(page) -> list[list[list[str]]]:
    """The cells of each set's table, each cell with its bounds."""
    return page.evaluate(
        """[...document.querySelectorAll("[data-set]")].map((set) => [...set.querySelectorAll("tbody tr")].map((row) =>
        [...row.cells].map((cell) => [...cell.childNodes].map((node) => node.textContent).join("|"))))"""
    )


def move(page, stop: int) -> None:
    page.evaluate(
        "(at) => { const it = document.getElementById('stop'); it.value = at; it.dispatchEvent(new Event('input')); }",
        stop,
    )


needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here (apt-get install chromium)")


@pytest.mark.slow
@needs_chromium
def test_the_page_shows_what_python_counts_at_fifty_stops(page, place: Path):
    found = data(place)
    pools = {name: scores(place / f"{name}.npz") for name in ("ours", "theirs")}
    rates = {name: galleries(read_known_people(place / f"{name}.npz"), part["thresholds"], 0)
             for name, part in zip(pools, found["sets"], strict=True)}  # fmt: skip
    page.get_by_label("Comparisons of strangers a day").fill("1000000")
    page.get_by_label("People in a gallery").select_option("10")
    stops = np.linspace(0, len(found["names"]) - 1, 50).round().astype(int).tolist()
    assert len(set(stops)) == 50
    for stop in stops:
        move(page, stop)
        for number, (name, shown) in enumerate(zip(pools, read(page), strict=True)):
            threshold = found["sets"][number]["thresholds"][stop]
            per_cent = in_per_cent(float((impostor > threshold).mean()) for _, impostor in pools[name].values())
            for (pool, (genuine, impostor)), row in zip(pools[name].items(), shown, strict=True):
                passed, accepted = int((impostor > threshold).sum()), int((genuine > threshold).sum())
                far = passed / len(impostor)
                assert row[0] == pool
                tars = tar_bounds(*binomial_bounds(accepted, len(genuine)))
                assert row[1] == f"{tar_text(accepted / len(genuine))}|{tars}"
                fars = share_bounds(*binomial_bounds(passed, len(impostor)), per_cent)
                assert row[2] == unbroken(f"{share(far, per_cent=per_cent)}|{fars}")
                daily = row[3].partition("|")[0]
                assert daily == ("none" if passed == 0 else f"{1_000_000 * far:,.0f}")
            fpir = page.locator(f"[data-set='{number}'] .fpir").inner_text()
            assert fpir.endswith(unbroken(f"(FPIR): {share(float(rates[name][10][stop]))}."))
            assert f"{threshold:.4f}" in page.locator(f"[data-set='{number}'] .at").inner_text()


@pytest.mark.slow
@needs_chromium
def test_presets_keys_and_what_is_promised(page, place: Path):
    found = data(place)
    slider, told = page.locator("#stop"), page.locator("#stop-said")
    assert "promised: On average over calibrations, at most 20\xa0% of pairs of strangers pass; " in told.inner_text()
    line = page.locator("svg.scores .threshold")
    before = line.get_attribute("transform")
    slider.focus()
    page.keyboard.press("ArrowLeft")
    assert slider.input_value() == str(found["start"] - 1)
    assert "measured here, not promised; stricter than the threshold promised for 20" in told.inner_text()
    assert line.get_attribute("transform") != before
    page.keyboard.press("End")
    assert told.inner_text().endswith("measured here, not promised.")
    preset = page.get_by_role("button", name="1 in 100 (1e-2)")
    preset.tap() if page.evaluate("navigator.maxTouchPoints") else preset.click()
    assert slider.input_value() == str(found["names"].index("1 in 100 (1e-2)"))
    assert preset.get_attribute("aria-pressed") == "true"
    assert read(page)[0][0][2].startswith(unbroken(share(float(exact_rate("1e-2")))))
    assert "at the FAR of ours" in page.locator("[data-set='1'] .at").inner_text()


@pytest.mark.slow
@needs_chromium
def test_the_picture_says_what_falls_on_the_wrong_side_at_each_stop(page, place: Path):
    found, picture = data(place), page.locator("svg.scores")
    (genuine, impostor), *_ = scores(place / "ours.npz").values()
    for stop in (found["start"], 0, len(found["names"]) - 1):
        move(page, stop)
        threshold = found["sets"][0]["thresholds"][stop]
        passed, failed = int((impostor > threshold).sum()), int((genuine <= threshold).sum())
        words = (
            f"at the threshold {threshold:.4f}, {passed:,} of {len(impostor):,} pairs of strangers pass, "
            f"and {failed:,} of {len(genuine):,} pairs of the same person fail."
        )
        assert words in page.locator("figcaption").first.inner_text()
        assert picture.get_attribute("aria-label") == f"Scores of ours: {words}"


@pytest.mark.slow
@needs_chromium
def test_a_number_of_comparisons_that_is_none_gives_a_message(page):
    day, message = page.get_by_label("Comparisons of strangers a day"), page.locator("#comparisons-wrong")
    for wrong in ("", "-5", "0", "2.5"):
        day.fill(wrong)
        assert "whole number of at least 1" in message.inner_text(), wrong
        assert {row[3] for rows in read(page) for row in rows} == {"\N{EN DASH}"}
    day.fill("1000")
    assert message.text_content() == ""
    assert "\N{EN DASH}" not in {row[3] for rows in read(page) for row in rows}


@pytest.mark.slow
@needs_chromium
def test_without_scripts_the_page_has_what_holds_at_the_first_stop(browser, place: Path):
    shown = []
    for scripts in (True, False):
        context = browser.new_context(java_script_enabled=scripts)
        opened = context.new_page()
        opened.goto((place / "report" / "report.html").as_uri())
        texts = [opened.locator("#stop-said").inner_text(), *opened.locator(".at, .fpir").all_inner_texts()]
        cells = [cell.inner_text() for cell in opened.locator("[data-set] tbody td").all()]
        shown.append([*texts, *(cell.split() for cell in cells)])
        assert opened.locator("#stop").is_visible() == scripts
        opened.emulate_media(media="print")
        assert not opened.get_by_text("Move the threshold").last.is_visible()
        opened.set_viewport_size({"width": 560, "height": 800})  # a sheet of paper has no scroll bar
        assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
        context.close()
    assert shown[0] == shown[1]
    assert all(shown[0])
