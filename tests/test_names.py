"""Names come from files and archives: whatever is in them, they steer neither a terminal nor a page."""

import json
import logging
import sys
import zipfile
from io import BytesIO, StringIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from verisphere.base.vocabulary import Embeddings, ImageSource, printable
from verisphere.cli import main
from verisphere.cli.messages import bounded, fail, message_of, show
from verisphere.cli.parsing import Parser
from verisphere.files.embeddings import write_embeddings
from verisphere.report import html, markdown, progress
from verisphere.report.plots import in_picture, new_figure, save_plot
from verisphere.report.tables import listed, table
from verisphere.ship.align import AlignResult
from verisphere.ship.face_search import Skipped
from verisphere.ship.notes import first_few, notes_on_faces, notes_on_skipped
from verisphere.ship.people import Person

#: Rename the window, clear the screen, end a text, turn letters round, C1 controls, and a line of our own making.
NASTY = "A\x1b]0;owned\x07\x1b[2J\x00\u202egpj.exe\u2066\x9b31m\u2028B\r\nverisphere: all is well [red]$x_{$|<b>"
UNSEEN = "\x1b\x07\x00\u202e\u2066\x9b\u2028\r"


def check_seen(text: str, lines: int = 1) -> None:
    """That nothing in a text steers what shows it, and that it has no more lines than it should."""
    assert not set(UNSEEN) & set(text), text
    assert text.count("\n") <= lines, text


def test_every_letter_is_shown_or_escaped():
    text = printable(NASTY)
    check_seen(text, lines=0)
    assert text.startswith(r"A\x1b]0;owned\x07\x1b[2J\x00\u202egpj.exe\u2066\x9b31m\u2028B\r\nverisphere")
    assert printable("Zoë 李 ñ [x]") == "Zoë 李 ñ [x]"
    assert printable("a\nb\tc", keep="\n") == "a\nb\\tc"
    assert printable("\udcff") == r"\udcff"


def test_standard_output(capsys):
    show(NASTY)
    check_seen(capsys.readouterr().out, lines=2)


def test_a_cell_of_a_table_and_a_list_are_one_line():
    check_seen(table(["domain", "TAR"], [[NASTY, "1"]]), lines=2)
    check_seen(listed([NASTY, "other"]), lines=0)


def test_an_error(capsys):
    assert fail(2, NASTY) == 2
    check_seen(capsys.readouterr().err)
    with pytest.raises(SystemExit):
        Parser(prog="verisphere").error(NASTY)
    check_seen(capsys.readouterr().err)


@pytest.mark.parametrize(
    "error",
    [
        ValueError(f"{NASTY}: no such thing"),
        FileNotFoundError(2, "No such file", f"{NASTY}"),
        FileExistsError(f"{NASTY}: a folder"),
    ],
)
def test_a_line_feed_in_an_error_is_escaped(error: Exception):
    text = message_of(error)
    check_seen(text, lines=0)
    assert r"B\r\nverisphere" in text


def test_sentences_with_names_have_no_more_lines():
    skipped = (Skipped(f"{NASTY}.jpg", f"{NASTY}.jpg is damaged"),)
    person = Person(NASTY, (NASTY,), skipped, (NASTY,))
    notes = [*notes_on_faces(person), *notes_on_skipped(person)]
    assert len(notes) == 2
    for line in [*notes, *first_few([NASTY] * 9, "left out")]:
        check_seen(line, lines=0)
    text = AlignResult(NASTY, NASTY, NASTY, 1, 0, 1, 0, (f"{NASTY}.gif",), skipped, (NASTY,)).text()
    check_seen(text, lines=5)
    check_seen(ImageSource(NASTY, False, NASTY).described(), lines=0)


def test_what_verbs_print_has_their_lines_alone(tmp_path: Path, capsys):
    """The last line of `data render`, `embed`, `calibrate`, whose files bear the names."""
    folder = tmp_path / "a\nverisphere: all is well"
    folder.mkdir()
    drawn, network, made = folder / "drawn.zip", folder / "network.yaml", folder / "made.npz"
    network.write_text("class_path: verisphere.backbones.Pixels\ninit_args: {side: 4}\n")
    assert main(["data", "render", str(drawn), "--people", "4", "--images", "2"]) == 0
    assert main(["embed", str(network), str(drawn), "--out", str(made), "--workers", "0"]) == 0
    words = ["--far", "0.5", "--guarantee", "expected", "--out", str(folder / "made.json")]
    assert main(["calibrate", str(made), *words]) == 0
    assert main(["embed", str(network), str(folder / "none"), "--out", str(made)]) == 2
    said = capsys.readouterr()
    assert "\nverisphere: all is well" not in said.out + said.err
    assert said.out.count(r"a\nverisphere: all is well") >= 3
    assert r"a\nverisphere: all is well" in said.err


def test_a_long_error_keeps_its_beginning_and_its_end(capsys):
    fail(2, "faces.zip: " + "x" * 5000 + "; align them first")
    said = capsys.readouterr().err
    assert len(said) == len("verisphere: \n") + 1000
    assert said.startswith("verisphere: faces.zip: xxx")
    assert " [...] " in said
    assert said.endswith("xxx; align them first\n")
    assert bounded("x" * 1000) == "x" * 1000


@pytest.mark.parametrize("terminal", [True, False])
def test_the_log_and_progress(monkeypatch, terminal):
    written = StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    console = Console(file=written, force_terminal=terminal, width=400, color_system=None, legacy_windows=False)
    monkeypatch.setattr(progress, "console", console)
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.0)
    logger = logging.getLogger("verisphere")
    before, level = logger.handlers[:], logger.level
    try:
        progress.log_to_terminal()
        logger.info("%s", NASTY)
        said = written.getvalue()
        check_seen(said)
        assert "[red]" in said  # no markup of rich
        list(progress.shown([1], NASTY))
    finally:
        logger.handlers[:] = before
        logger.setLevel(level)
    said = written.getvalue()[len(said) :]
    assert r"A\x1b]0;owned" in said  # a bar draws itself by escapes of its own
    assert "[red]" in said
    assert not set("\x07\x00\u202e") & set(said)
    assert "]0;owned\x07" not in said


def test_the_page():
    page = html.tag("p", NASTY, title=NASTY) + html.breakable(NASTY) + html.tag("pre", NASTY)
    assert not set(UNSEEN) & set(page)
    assert "<b>" not in page


def test_the_card():
    check_seen(markdown.plain(NASTY), lines=0)
    assert r"\|" in markdown.plain("a|b")
    check_seen(markdown.link(NASTY), lines=0)


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_a_picture(tmp_path: Path, suffix: str):
    check_seen(in_picture(NASTY), lines=0)
    figure = new_figure(1.0)
    figure.add_subplot().set_title(in_picture(NASTY[::-1] + "$\\frac{$"))
    save_plot(figure, tmp_path / f"plot{suffix}")


def test_a_whole_evaluation(tmp_path: Path, capsys):
    """Domains and identities of an embeddings file, as they reach the tables and the JSON."""
    rows = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
    people = np.array([f"{NASTY}{row // 2}" for row in range(8)])
    sets = np.array([f"{NASTY}{row // 4}" for row in range(8)])
    path = tmp_path / "a\x1b[31m.npz"
    write_embeddings(path, Embeddings(rows, np.array([f"{NASTY}{row}" for row in range(8)]), people, sets))
    out = tmp_path / "figures.json"
    assert main(["evaluate", "all-pairs", str(path), "--far", "0.5", "--json", str(out)]) == 0
    said = capsys.readouterr()
    check_seen(said.out + said.err, lines=60)
    assert "\nverisphere: all is well" not in said.out + said.err
    check_seen(out.read_text(), lines=10_000)
    (result,) = json.loads(out.read_text())["one_threshold"]
    assert sorted(result["domains"]) == [f"{NASTY}0", f"{NASTY}1"]  # the figures keep the names as they are


def test_an_image_that_cannot_be_read(tmp_path: Path, capsys):
    archive = tmp_path / "faces.zip"
    content = BytesIO()
    Image.new("RGB", (112, 112)).save(content, "PNG")
    with zipfile.ZipFile(archive, "w") as file:
        for person in "ab":
            file.writestr(f"{person}/1.png", content.getvalue())
            file.writestr(f"{person}/{NASTY.replace(chr(0), '')}.png", b"no image")
    recipe = tmp_path / "pixels.yaml"
    recipe.write_text("class_path: verisphere.backbones.Pixels\n")
    assert main(["embed", str(recipe), str(archive), "--out", str(tmp_path / "out.npz"), "--device", "cpu"]) == 2
    check_seen(capsys.readouterr().err)
