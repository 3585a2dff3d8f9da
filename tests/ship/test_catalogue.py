"""The first minute: a file that the catalogue knows, one that it does not, and what neither may reach."""

import hashlib
import importlib.util
import json
import re
import shlex
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from PIL import Image

import verisphere
from foreign_graphs import SIDE, graph, written
from verisphere.cli import main
from verisphere.cli.start import parser
from verisphere.files.embeddings import read_embeddings
from verisphere.ship import catalogue, model_file
from verisphere.ship.catalogue import CatalogueEntry, CatalogueFigures, read_entry
from verisphere.ship.model_file import ModelFile, ScoreOnly, model_at
from verisphere.ship.pixels import Told

ENTRIES = sorted(catalogue.FOLDER.glob("*.yaml"))
PAGE = (Path(__file__).parents[2] / "docs" / "first_minute.md").read_text(encoding="utf-8")
BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "catalogue.py"

pytestmark = pytest.mark.usefixtures("process_as_it_was")


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is downloaded: whatever asks for an address fails."""

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("something asked the network")

    monkeypatch.setattr("socket.getaddrinfo", refused)
    monkeypatch.setattr("socket.create_connection", refused)


def pooled(path: Path) -> Path:
    """A graph that takes 112 x 112 pixels, of which it sees the means of 14 x 14."""
    model = graph(normalised=False)
    model.graph.node[0].input[0] = "small"
    model.graph.node.insert(
        0, helper.make_node("AveragePool", ["images"], ["small"], kernel_shape=[14, 14], strides=[14, 14])
    )
    for axis in (2, 3):
        model.graph.input[0].type.tensor_type.shape.dim[axis].dim_value = 14 * SIDE
    return written(path, model)


def photo(path: Path, seed: int, near: int | None = None) -> Path:
    """An aligned picture of noise; or one that is mostly another's."""
    pixels = np.random.default_rng(seed).uniform(0, 255, (SIDE, SIDE, 3))
    if near is not None:
        pixels = 0.8 * np.random.default_rng(near).uniform(0, 255, (SIDE, SIDE, 3)) + 0.2 * pixels
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels.astype(np.uint8).repeat(14, 0).repeat(14, 1)).save(path)
    return path


@pytest.fixture
def photos(tmp_path: Path) -> list[str]:
    """Two photographs of one person, and one of another, as words of a command."""
    made = photo(tmp_path / "one.png", 1), photo(tmp_path / "two.png", 2, near=1), photo(tmp_path / "three.png", 3)
    return [str(path) for path in made]


@pytest.fixture
def unknown(tmp_path: Path) -> Path:
    """A file that is no entry."""
    return pooled(tmp_path / "my net.onnx")


@pytest.fixture
def known(tmp_path: Path, unknown: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that is an entry: its thresholds are those of the first entry there is."""
    digest = hashlib.sha256(unknown.read_bytes()).hexdigest()
    takes = Told((112, 112), "RGB", 0.0, 1.0, template="arcface_112x112")
    entry = replace(read_entry(ENTRIES[0]), sha256=digest, name="ours", takes=takes)
    monkeypatch.setattr(model_file, "catalogue", lambda: {digest: entry})
    return unknown


# ------------------------------------------------------------------------------------------------------ the entries


@pytest.mark.parametrize("path", ENTRIES, ids=lambda path: path.stem)
def test_an_entry_has_figures_and_neither_weights_nor_an_address(path):
    entry = read_entry(path)
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"://|www\.|\.com|\.org|base64", text)
    assert len(text) < 5000
    assert entry.name == path.stem
    assert entry.licence_of_weights
    assert entry.licence_of_data
    points = entry.figures.points
    assert [point.far_target for point in points] == ["1e-2", "1e-3", "1e-4", "1e-5"]
    assert sorted(point.threshold for point in points) == [point.threshold for point in points]
    adopt, embed, evaluate = (shlex.split(command)[1:] for command in entry.figures.commands)
    assert (adopt[0], embed[0], evaluate[:2]) == ("adopt", "embed", ["evaluate", "all-pairs"])
    for words in (adopt, embed, evaluate):
        parser().parse_args(words)
    assert catalogue.catalogue()[entry.sha256] == entry


def test_both_models_that_are_known_are_entries():
    assert [path.stem for path in ENTRIES] == ["pretrained_mobilefacenet", "second_mobilefacenet"]


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        (
            "licence_of_data",
            "license_of_data",
            r"there is no field 'license_of_data' \(did you mean licence_of_data\?\)",
        ),
        ("sha256: 0c", "sha256: 0C", "sha256 must be 64 hexadecimal digits in lower case, got '0C"),
        ("images: 13233", "images: 13234", r"242,257 genuine and 87,307,271 impostor pairs are not the 87,562,761 of"),
        ("'1e-3'", "'2e-3'", "there is no threshold at FAR 1e-3, which decides where none is named"),
        ("far: 0.0009", "far: 0.0008", "a rate of 0.0008999968960202638 is not what 87307 of 87307271"),
        ("colour: RGB", "colour: RBG", "takes.colour must be 'RGB' or 'BGR', got 'RBG'"),
        ("flip: false", "flip: perhaps", "flip must be true or false, got 'perhaps'"),
    ],
)
def test_an_entry_with_a_fault_is_refused_in_one_line_that_names_the_file(tmp_path, before, after, line):
    path = tmp_path / "entry.yaml"
    path.write_text(ENTRIES[0].read_text(encoding="utf-8").replace(before, after, 1), encoding="utf-8")
    with pytest.raises(ValueError, match=rf"entry\.yaml: .*{line}") as error:
        read_entry(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("path", ENTRIES, ids=lambda path: path.stem)
def test_a_flipped_bit_is_no_entry(real_data, path):
    content = bytearray((real_data / f"{path.stem}.onnx").read_bytes())
    assert catalogue.catalogue()[hashlib.sha256(content).hexdigest()].name == path.stem
    content[len(content) // 2] ^= 1
    assert hashlib.sha256(content).hexdigest() not in catalogue.catalogue()


def test_the_figures_of_the_first_are_those_of_its_embeddings(real_data):
    figures = read_entry(ENTRIES[0]).figures
    rows = read_embeddings(real_data / "lfw_embeddings.npz")
    assert (figures.people, figures.images) == (len(set(rows.identities.tolist())), len(rows))
    points = verisphere.evaluate(rows, far=[point.far_target for point in figures.points])
    assert tuple(points) == figures.points


@pytest.mark.slow
@pytest.mark.timeout(3600)  # all of LFW is embedded
@pytest.mark.parametrize("path", ENTRIES, ids=lambda path: path.stem)
def test_the_commands_of_an_entry_give_its_figures(real_data, path):
    """Adopts, embeds all of LFW and evaluates: minutes."""
    spec = importlib.util.spec_from_file_location("measure_catalogue", BENCHMARK)
    measure = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(measure)
    assert (
        measure.main([str(real_data / f"{path.stem}.onnx"), str(real_data / "lfw_112.zip"), str(path), "--check"]) == 0
    )
    assert measure.text_of(read_entry(path)) == path.read_text(encoding="utf-8")


# ------------------------------------------------------------------------------------------------ a file that is known


def test_a_known_file_answers_and_says_whose_people_its_rate_is_of(known, photos, capsys):
    assert main(["verify", *photos[:2], "--model", str(known), "--aligned"]) == 0
    note, answer, rates, *rest = capsys.readouterr().out.splitlines()
    assert note == (
        "Measured, not promised: the threshold fits somebody else's people, the 5,749 of LFW; `verisphere calibrate` "
        "on people like yours makes it yours."
    )
    assert re.fullmatch(r"Same person: score 0\.9\d+, threshold 0\.3228\.", answer)
    assert rates.startswith(
        "On LFW 1 in 1,000 pairs of strangers pass and 1 in 220 pairs of one person fail; among your people it may be "
        "more."
    )
    assert not rest
    assert not re.search(r"confident that|promises? that", rates)


def test_the_exact_wording_has_counts_licences_and_source(known, photos):
    text = verisphere.verify(*photos[:2], known, aligned=True, far="1e-4").text(explain=True)
    for said in ("239,870 of 242,257", "8,730 of 87,307,271", "licence of its weights: states no licence",
                 "licence of its data: ", "people of the training among them: not known"):  # fmt: skip
        assert said in text


def test_json_says_what_it_was_measured_on(known, photos, capsys):
    assert main(["verify", *photos[:2], "--model", str(known), "--aligned", "--json", "--far", "1e-5"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["same"]
    assert (found["threshold"]["far_target"], found["threshold"]["measured_on"]) == ("1e-5", "LFW")
    assert "guarantee" not in found["threshold"]
    assert found["model"] == str(known)


def test_a_far_that_was_not_measured_is_refused(known, photos, capsys):
    assert main(["verify", *photos[:2], "--model", str(known), "--aligned", "--far", "1e-6"]) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("verisphere: ")]
    assert line.endswith("no threshold at FAR 1e-6 of this model; there is: 1e-2, 1e-3, 1e-4, 1e-5")


def test_it_never_becomes_a_promise_or_part_of_an_export(known, photos, tmp_path, capsys):
    model = model_at(known)
    assert isinstance(model, ModelFile)
    assert model.thresholds == ()
    for ask in (model.promise, model.threshold, model.drawn):
        with pytest.raises(ValueError, match="this model ships no threshold for two photographs"):
            ask()
    answer = tmp_path / "answer.json"
    answer.write_text(verisphere.verify(*photos[:2], model, aligned=True).json())
    adopted = tmp_path / "adopted"
    verisphere.adopt(known, adopted, colour="RGB", mean=0.0, scale=1.0)
    capsys.readouterr()
    for calibration in (answer, ENTRIES[0]):
        assert main(["export", str(adopted), "--calibration", str(calibration), "--out", str(tmp_path / "out")]) == 2
        assert f"{calibration}: not " in capsys.readouterr().err
        assert not (tmp_path / "out").exists()
    assert main(["export", str(known), "--out", str(tmp_path / "out")]) == 2
    assert not (tmp_path / "out").exists()
    assert verisphere.load(adopted).thresholds == ()
    card = (adopted / "model_card.md").read_text(encoding="utf-8")
    assert "0.3228" not in card
    assert "LFW" not in card
    assert main(["verify", *photos[:2], "--model", str(adopted), "--aligned"]) == 2
    assert "this model ships no threshold" in capsys.readouterr().err


def test_a_gallery_is_searched_by_it_and_a_large_one_refused(known, photos, tmp_path):
    gallery = tmp_path / "people"
    photo(gallery / "ann" / "a.png", 4, near=1)
    photo(gallery / "ben" / "b.png", 5)
    found = verisphere.identify(photos[0], gallery, known, aligned=True)
    assert [match.name for match in found.matches][:1] == ["ann"]
    assert found.text().startswith("Measured, not promised: ")
    assert "(1 in 1,000 pairs of strangers of LFW pass, and of yours perhaps more), so among 2 people" in found.text()
    assert "among 2 people a stranger is found with a chance of up to 1 in 500" in found.text()
    for number in range(10, 20):
        photo(gallery / f"p{number}" / "a.png", number)
    with pytest.raises(
        ValueError, match="among 12 people a stranger is found with a chance of up to 12 %; calibrate one"
    ):
        verisphere.identify(photos[0], gallery, known, aligned=True, far="1e-2")


# ---------------------------------------------------------------------------------------------- a file that is unknown


def test_an_unknown_file_gives_a_score_and_the_way_to_a_verdict_and_code_2(unknown, photos, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["verify", *photos[:2], "--model", str(unknown), "--aligned"])
    assert ended.value.code == 2
    out = capsys.readouterr().out
    assert "Same person" not in out
    assert "Different people" not in out
    digest = hashlib.sha256(unknown.read_bytes()).hexdigest()
    assert re.match(
        rf"No verdict: score \d\.\d+, and no threshold is known for .*my net\.onnx \(SHA-256 {digest[:12]}", out
    )
    assert "takes 112 x 112 pixels, RGB, NCHW, (pixel - " in out
    assert "probe: 12 people, two images each (drawn faces)" in out
    assert "drawn faces show the normalisation alone" in out
    assert "with photographs of 598 people or more" in out
    commands = [shlex.split(line)[1:] for line in out.splitlines() if line.startswith("  verisphere ")]
    assert [words[0] for words in commands] == ["align", "adopt", "embed", "calibrate", "export", "verify"]
    for words in commands:
        parser().parse_args(words)
    assert commands[1][1] == str(unknown)
    assert commands[-1][1:3] == photos[:2]


def test_an_unknown_file_in_python_and_json(unknown, photos):
    found = verisphere.verify(*photos[:2], unknown, aligned=True, far="1e-3")
    assert isinstance(found, ScoreOnly)
    assert not hasattr(found, "same")
    fields = json.loads(found.json())
    assert (fields["score"], fields["people"]) == (found.score, 5990)
    assert "--far 1e-3" in fields["commands"][3]
    assert fields["probe"]["drawn"]
    with pytest.raises(ValueError, match="no entry of the catalogue"):
        verisphere.verify(*photos[:2], unknown, aligned=True, probability=0.5)


def test_nobody_is_identified_by_an_unknown_file(unknown, photos, tmp_path):
    photo(tmp_path / "people" / "ann" / "a.png", 4)
    with pytest.raises(ValueError, match=r"no entry of the catalogue .* verisphere calibrate faces\.npz --far 1e-2"):
        verisphere.identify(photos[0], tmp_path / "people", unknown, aligned=True)


def test_what_a_graph_leaves_open_is_told_to_adopt(tmp_path, photos, capsys):
    path = written(tmp_path / "small.onnx", graph())  # 8 x 8, of which there is no template
    assert main(["verify", *photos[:2], "--model", str(path), "--aligned"]) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("verisphere: ")]
    assert "name yours by --template; `verisphere adopt` has these options, and --model takes its folder" in line


def test_files_that_are_no_model_are_one_line(known, photos, tmp_path, capsys):
    verisphere.adopt(known, tmp_path / "adopted", colour="RGB", mean=0.0, scale=1.0)
    (tmp_path / "no.onnx").write_bytes(b"no model at all")
    capsys.readouterr()
    for model, said in (
        ("no.onnx", "no.onnx: not an ONNX file"),
        ("absent.onnx", "absent.onnx: there is no such model folder"),
        ("adopted/network.onnx", "network.onnx: a file; a model is a folder"),
    ):
        assert main(["verify", *photos[:2], "--model", str(tmp_path / model), "--aligned"]) == 2
        (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("verisphere: ")]
        assert said in line


@pytest.mark.parametrize("size", [(112, 112), (112, 96), (160, 160), (48, 64)])
def test_drawn_faces_have_the_size_of_the_network(size):
    from verisphere.ship.probe import drawn_faces

    faces = drawn_faces(size)
    assert faces.images([0]).shape == (1, 3, *size)
    assert faces.source.drawn
    assert len(faces.people) == 12


# ---------------------------------------------------------------------------------------------- ordinary photographs


@pytest.fixture
def people(real_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Unaligned photographs of two people, and the first model, in the folder in which commands run."""
    with zipfile.ZipFile(real_data / "lfw_raw_sample.zip") as archive:
        for name in ("Colin_Powell/Colin_Powell_0007", "Colin_Powell/Colin_Powell_0051", "Tony_Blair/Tony_Blair_0001"):
            (tmp_path / f"{name.rpartition('/')[2]}.jpg").write_bytes(archive.read(f"{name}.jpg"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


PAIR = ["Colin_Powell_0007.jpg", "Colin_Powell_0051.jpg"]


def test_the_page_shows_what_two_photographs_get(real_data, people, capsys):
    model = str(real_data / f"{ENTRIES[0].stem}.onnx")
    assert main(["verify", *PAIR, "--model", model]) == 0
    assert f"```\n{capsys.readouterr().out}```" in PAGE
    assert not verisphere.verify(PAIR[0], "Tony_Blair_0001.jpg", model).same


def test_photographs_by_the_second_model(real_data, people):
    model = str(real_data / f"{ENTRIES[1].stem}.onnx")
    assert verisphere.verify(*PAIR, model).same
    assert not verisphere.verify(PAIR[0], "Tony_Blair_0001.jpg", model).same


def test_the_page_shows_what_a_flipped_bit_gets(real_data, people, capsys):
    content = bytearray((real_data / f"{ENTRIES[0].stem}.onnx").read_bytes())
    content[len(content) // 2] ^= 1
    (people / "net.onnx").write_bytes(content)
    with pytest.raises(SystemExit) as ended:
        main(["verify", *PAIR, "--model", "net.onnx"])
    assert ended.value.code == 2
    out = capsys.readouterr().out.replace(PAIR[0], "one.jpg").replace(PAIR[1], "two.jpg")
    out = re.sub("SHA-256 [0-9a-f]{12}", "SHA-256 ", out).splitlines()[1:]
    shown = PAGE.split("```\nNo verdict")[1].split("```")[0].splitlines()
    assert [line for line in ["No verdict" + shown[0], *shown[1:]] if line not in out] == ["..."]


def test_the_page_shows_the_figures_of_the_entries():
    lines = [line.split("|")[1:-1] for line in PAGE.splitlines() if " of 87,307,271 " in line]
    points = [point for path in ENTRIES for point in read_entry(path).figures.points]
    made = [
        (point.far_target, f"{point.threshold:.4f}", f"{point.impostor_accepted:,} of {point.impostor_total:,}",
         f"{point.genuine_accepted:,} of {point.genuine_total:,}", f"{point.tar:.4f}")
        for point in points
    ]  # fmt: skip
    assert [tuple(cell.strip() for cell in line[1:]) for line in lines] == made


def test_an_entry_takes_what_its_model_was_measured_with(real_data, tmp_path):
    """The embedding of an image is the one that the figures are of, to the last bit."""
    rows = read_embeddings(real_data / "lfw_embeddings.npz")
    model = model_at(real_data / "pretrained_mobilefacenet.onnx", "cpu")
    with zipfile.ZipFile(real_data / "lfw_112.zip") as archive:
        archive.extract("AJ_Cook/AJ_Cook_0001.jpg", tmp_path)
    pixels = np.asarray(Image.open(tmp_path / "AJ_Cook" / "AJ_Cook_0001.jpg"))
    (place,) = np.flatnonzero(rows.names == "AJ_Cook/AJ_Cook_0001.jpg")
    np.testing.assert_array_equal(model.embed(pixels[None])[0], rows.embeddings[place])


def test_figures_and_entry_check_each_other():
    figures = read_entry(ENTRIES[0]).figures
    with pytest.raises(ValueError, match="are not the 1 of 2 images"):
        CatalogueFigures("x", "x", "x", 1, 2, figures.points, ())
    assert isinstance(read_entry(ENTRIES[0]), CatalogueEntry)
