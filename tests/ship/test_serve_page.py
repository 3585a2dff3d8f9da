"""The page of a service in a browser: each question, by mouse and keyboard, on a desk and a phone, light and dark."""

import shutil
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
pytest.importorskip("uvicorn", reason="the extra serve is not installed")
pytest.importorskip("playwright.sync_api", reason="playwright, which leads a browser, is not installed")

from playwright import sync_api as playwright
from uvicorn import Config, Server

from tiny_service import FACES, FIND, MODEL, NAMES, OTHERS, again, gallery_at, photo
from verisphere.ship.face_search import FaceOfPhotograph
from verisphere.ship.living.gallery import LivingGallery
from verisphere.ship.serve.app import make_app
from verisphere.ship.serve.desk import Desk

CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here (apt-get install chromium)"),
]


def gate(faces: Sequence[FaceOfPhotograph], rows: np.ndarray) -> list[tuple[str, ...]]:
    return [("its fine detail is too little",) for _ in faces]


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Iterator[str]:
    """The address of a running service, on a thread of this process."""
    folder = tmp_path_factory.mktemp("served") / "door"
    gallery_at(folder).store.close()
    door = socket.create_server(("127.0.0.1", 0))
    app = make_app(Desk(LivingGallery(folder), MODEL, FIND, gate=gate))
    server = Server(Config(app, log_config=None, access_log=False, ws="none"))
    thread = threading.Thread(target=server.run, args=([door],))
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{door.getsockname()[1]}/"
    server.should_exit = True
    thread.join()


@pytest.fixture(scope="module")
def photographs(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("photographs")
    pictures = {
        "one": FACES[1],
        "other": again(FACES[1:2], 9, 0.3)[0],
        "unsure": again(FACES[1:2], 5, 0.83)[0],
        "stranger": OTHERS[360],
    }
    for name, face in pictures.items():
        (folder / f"{name}.png").write_bytes(photo(face))
    return {name: folder / f"{name}.png" for name in pictures}


@pytest.fixture(scope="module")
def browser():
    arguments = ["--no-sandbox", "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield launched
        launched.close()


@pytest.fixture(params=["desk", "phone", "dark"])
def page(request, browser, place):
    """The page as it was opened; nothing that it loads is from elsewhere, and no error is on its console."""
    look = {
        "desk": {"viewport": {"width": 1100, "height": 900}},
        "phone": {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True},
        "dark": {"color_scheme": "dark"},
    }[request.param]
    context = browser.new_context(**look)
    opened = context.new_page()
    faults: list[str] = []
    opened.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on("request", lambda asked: faults.append(asked.url) if not asked.url.startswith((place, "blob:")) else None)
    opened.goto(place)
    playwright.expect(opened.locator("#promise")).to_contain_text("at most 1 in 100 strangers")
    yield opened
    assert [fault for fault in faults if "422" not in fault] == []
    assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
    context.close()


def ask(page, question: str, **fields) -> None:
    page.get_by_role("radio", name=question).check()
    for label, value in fields.items():
        if isinstance(value, Path):
            page.get_by_label(label.replace("_", " "), exact=True).set_input_files(value)
        else:
            page.get_by_label(label.replace("_", " ")).fill(value)
    page.get_by_role("button", name="Enrol" if question.startswith("Enrol") else "Ask").click()


def verdict(page) -> str:
    answer = page.get_by_role("region", name="Answer")
    playwright.expect(answer).to_be_focused()
    return answer.get_by_role("heading").inner_text()


def test_every_question_is_answered(page, photographs):
    ask(page, "Who is on this photograph?", Photograph=photographs["other"])
    assert verdict(page) == NAMES[1]
    assert page.locator("#people tr").count() == 5
    axis = page.get_by_role("img", name="score")
    assert "above threshold" in axis.get_attribute("aria-label")
    line, mark, words = (page.locator(f"#axis{part}").bounding_box() for part in ("", " .mark", " .score"))
    assert line["x"] <= words["x"]
    assert words["x"] + words["width"] <= line["x"] + line["width"] + 1
    assert words["x"] - mark["width"] <= mark["x"] <= words["x"] + words["width"]  # they stand beside each other
    ask(page, "Who is on this photograph?", Photograph=photographs["stranger"])
    playwright.expect(page.locator("#verdict")).to_have_text("Nobody who is enrolled")
    ask(page, "Do two photographs", Photograph=photographs["one"], Second_photograph=photographs["unsure"])
    playwright.expect(page.locator("#verdict")).to_have_text("Unsure")
    assert "in the unsure band" in axis.get_attribute("aria-label")
    ask(page, "Is this the person", Photograph=photographs["one"], Name_of_the_person=NAMES[2])
    playwright.expect(page.locator("#verdict")).to_have_text("Different people")
    ask(page, "Enrol a person", Photograph=photographs["stranger"], Name_of_the_person="Newcomer")
    playwright.expect(page.locator("#verdict")).to_have_text("Not enrolled")
    playwright.expect(page.locator("#reasons")).to_have_text("Its fine detail is too little.")


def test_a_question_that_cannot_be_asked_says_why_and_is_grey(page):
    of_verify, of_enrol = (page.locator(f"label:has([value={value}])") for value in ("verify", "enrol"))
    colour = "(label) => getComputedStyle(label).color"
    ink = of_verify.evaluate(colour)
    card = page.evaluate("fetch('v1/card').then((answer) => answer.json())")
    page.route("**/v1/card", lambda route: route.fulfill(json={**card, "role": "read", "pair": ""}))
    page.reload()
    playwright.expect(of_verify).to_contain_text("the model ships no threshold for two photographs")
    playwright.expect(of_enrol).to_contain_text("this key may not enrol")
    for label in (of_verify, of_enrol):
        assert label.get_by_role("radio").is_disabled()
        assert label.evaluate(colour) != ink
    page.unroute("**/v1/card")
    page.reload()
    playwright.expect(page.locator("#promise")).to_contain_text("at most 1 in 100 strangers")
    assert of_verify.inner_text().strip() == "Do two photographs show one person?"
    assert of_verify.evaluate(colour) == ink


def test_the_page_says_what_is_stored_and_what_is_known_of_misses(page, photographs):
    playwright.expect(page.locator("main > .note")).to_contain_text("only the image of a face that is enrolled")
    ask(page, "Is this the person", Photograph=photographs["one"], Name_of_the_person=NAMES[1])
    playwright.expect(page.locator("#misses")).to_contain_text("known of the threshold for two photographs")


def test_a_keyboard_is_enough_and_everything_has_a_label(page, photographs):
    page.get_by_label("Photograph", exact=True).set_input_files(photographs["one"])
    page.keyboard.press("Tab")
    page.get_by_role("radio", name="Who is on").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert page.get_by_role("radio", name="Is this the person").is_checked()
    page.get_by_label("Name of the person").focus()
    page.keyboard.type(NAMES[1])
    page.keyboard.press("Enter")
    assert verdict(page) == "Same person"
    unnamed = "[...document.querySelectorAll('input')].filter((one) => !one.labels.length).map((one) => one.id)"
    assert page.evaluate(unnamed) == []
    assert page.evaluate("document.documentElement.lang") == "en"


def test_a_picture_of_the_camera_is_sent(page):
    page.get_by_role("button", name="Use the camera").first.click()
    page.get_by_role("button", name="Take the picture").click()
    playwright.expect(page.get_by_role("img", name="The photograph")).to_be_visible()
    page.get_by_role("button", name="Ask").click()
    assert verdict(page) == "No answer"  # this model takes aligned crops of 12 x 12 pixels
    playwright.expect(page.locator("#reasons")).to_contain_text("640 x 480 pixels, but aligned crops are 12 x 12")


def test_no_line_breaks_within_a_rate_and_a_question_stands_beside_its_button(page):
    assert "95\N{NO-BREAK SPACE}%" in page.locator("#promise").text_content()
    assert "1\N{NO-BREAK SPACE}in\N{NO-BREAK SPACE}100" in page.locator("#promise").text_content()
    page.set_viewport_size({"width": 240, "height": 740})
    places = "[...document.querySelectorAll('#tasks label')].map((one) => {" \
             " const words = document.createRange(); words.selectNodeContents(one.lastChild);" \
             " return Math.min(...[...words.getClientRects()].map((line) => line.left))" \
             " - one.firstChild.getBoundingClientRect().right; })"  # fmt: skip
    assert all(place >= 0 for place in page.evaluate(places))
    page.set_viewport_size({"width": 360, "height": 740})


def test_light_and_dark_differ(page, request):
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(20, 24, 29)") == (request.node.callspec.params["page"] == "dark")
