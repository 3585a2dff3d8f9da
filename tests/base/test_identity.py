"""Who is who: folding, missing names, and what is refused, merged and kept apart, by every reader alike."""

import json
import logging
import sys
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import verisphere
from verisphere.base.identity import MISSING, as_known, crowds, folded, is_missing, names_taken, settled
from verisphere.base.vocabulary import Embeddings
from verisphere.cli.start import main
from verisphere.files.calibration import read_calibration
from verisphere.files.embeddings import known_people, pool_embeddings, read_embeddings, same_people, write_embeddings
from verisphere.files.ijb.people import read_people
from verisphere.files.label_lists import read_labels
from verisphere.files.streamed_rows import open_rows
from verisphere.images.photos import Photos
from verisphere.score.templates import templates_of
from verisphere.ship.card.words import file_in_words

PEOPLE = [f"Person_{number // 6}" for number in range(720)]  # 120 people of 6 images
HALF = [name.lower() if row % 2 else name for row, name in enumerate(PEOPLE)]
ALIKE = [("Ann", "ann"), ("ǅan", "ǄAN"),
         ("Zoë", "Zoe\u0308"), ("Ann Lee", "Ann\u00a0 Lee"), ("Ann", "A\u200bnn"), ("Ann", "\ufeffAnn "),
         ("IŞIK", "ışık"), ("İREM", "irem"),
         ("Straße", "STRASSE"), ("Ann", "An\u00adn"), ("Ann", "Ann\ufe0f"), ("-1", " -1")]  # fmt: skip


def drawn(people: list[str]) -> np.ndarray:
    """Rows around a center of each person, the same for each spelling of a name."""
    draws = np.random.default_rng(0)
    centers = dict.fromkeys(map(str.lower, people))
    of = {name: draws.normal(size=24) for name in centers}
    return np.array([of[name.lower()] + 0.5 * draws.normal(size=24) for name in people], np.float32)


def save(path: Path, people: list[str]) -> Path:
    """An embeddings file as another project may write it."""
    names = np.arange(len(people)).astype(str)
    np.savez(path, embeddings=drawn(people), names=names, identities=np.array(people))
    return path


def refused(capsys, *words: object) -> str:
    """The error of a command, which ends with exit code 2 and one line."""
    assert main([str(word) for word in words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


# --- folding and missing names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "other"), ALIKE)
def test_names_that_look_alike_are_equal_once_folded(name: str, other: str):
    assert name != other
    assert folded(name) == folded(other)


@pytest.mark.parametrize(
    ("name", "other"), [("Zoë", "Zoe"), ("Ann_Lee", "Ann Lee"), ("AnnLee", "Ann Lee"), ("1", "01"), ("m.01", "m_01")]
)
def test_other_names_differ(name: str, other: str):
    assert folded(name) != folded(other)


@given(st.text(max_size=8))
def test_folding_again_changes_nothing_and_no_normal_form_matters(text: str):
    assert folded(folded(text)) == folded(text)
    assert folded(unicodedata.normalize("NFD", text)) == folded(unicodedata.normalize("NFC", text)) == folded(text)


def test_the_case_of_no_letter_matters():
    letters = [letter for letter in map(chr, range(sys.maxunicode + 1)) if letter.lower() != letter.upper()]
    assert len(letters) > 2_000
    both = {
        letter
        for letter in letters
        if len({folded(f"a{one}b") for one in (letter, letter.lower(), letter.upper())}) > 1
    }
    assert both == set()


@given(st.lists(st.text(st.sampled_from("aB é\u200b\n"), max_size=3), max_size=8))
def test_many_names_are_compared_as_one_by_one(names: list[str]):
    column = np.array([f"x{name}" for name in names], str)
    (merged,) = settled([("", column, column)], "merge")
    assert len(set(merged.tolist())) == len({folded(name) for name in column.tolist()})


@pytest.mark.parametrize(
    "text", [*sorted(MISSING), "NaN", "NULL", "N/A", "-NaN", "<Na>", "\u200b", "\xa0", " None\ufeff"]
)
def test_a_missing_name_is_missing_in_any_spelling(text: str):
    assert is_missing(text)


@pytest.mark.parametrize("text", ["Nan Li", "Nullius", "Na", "NA", "0", "unknown", "-1"])
def test_other_texts_are_names(text: str):
    assert not is_missing(text)


# --- the decision ----------------------------------------------------------------------------------------------------


def test_two_spellings_are_refused_merged_or_kept_apart():
    rows = drawn(HALF)
    with pytest.raises(
        ValueError, match=r"'Person_0' \('0', row 0\) and 'person_0' \('1', row 1\) .* 119 more; --names"
    ):
        verisphere.evaluate(rows, HALF, far="1e-3")
    truth = verisphere.evaluate(rows, PEOPLE, far="1e-3")
    assert verisphere.evaluate(rows, HALF, far="1e-3", names="merge") == truth
    apart = verisphere.evaluate(rows, HALF, far="1e-3", names="exact")
    assert truth.tar > 0.9 > 0.5 > apart.tar  # what passed in silence before


CLASH = None  # two spellings of one number, which are refused unless `--names` decides
SPELLINGS = [
    (["52", "7"], ["52", "7"]),
    (["52.0", "-1.0", "52.0"], ["52", "-1", "52"]),
    (["52.", "7.000"], ["52", "7"]),
    (["+52.0", "7"], ["52", "7"]),
    (["5.2e1", "7E+00", "0.1e2"], ["52", "7", "10"]),
    (["5.200000000000000000e+01", "-0.0"], ["52", "0"]),
    (["-1.00", "-1.0", "-1", "52.0"], ["-1", "-1", "-1", "52"]),
    (["9223372036854775807.0"], ["9223372036854775807"]),
    (["52.0", "007", "-1.0"], ["52", "007", "-1"]),
    (["007.0", "52.0"], ["007.0", "52"]),
    (["1.0", "01.0"], ["1", "01.0"]),
    (["1e5x", "0x10", "5.2e1"], ["1e5x", "0x10", "52"]),
    (["p1.0", "52.0", "-1.0"], ["p1.0", "52", "-1"]),
    (["1.5", "2.0"], ["1.5", "2"]),
    (["1e400", "12345678901234567890.0", "2.0"], ["1e400", "12345678901234567890.0", "2"]),
    (["52", "52.0"], CLASH),
    (["52.0", "+52.0", "-1.0"], CLASH),
    (["5.2e1", "52", "007"], CLASH),
    (["1.0", "1.00", "2.0"], CLASH),
    (["52.0", "52", "Ann"], CLASH),
    (["1e5", "100000", "a3f"], CLASH),
]


def _subjects(folder: Path, people: list[str]) -> object:
    lines = [f"{place},{person}\n" for place, person in enumerate(people)]
    (folder / "gallery.csv").write_text("TEMPLATE_ID,SUBJECT_ID\n" + "".join(lines))
    return read_people(folder / "gallery.csv").subjects


def _arrays(folder: Path, people: list[str]) -> object:
    return Embeddings(np.eye(len(people)), identities=people).identities


@pytest.mark.parametrize(("column", "people"), SPELLINGS)
@pytest.mark.parametrize("read", ["_arrays", "_npz", "_streamed", "_csv", "_npy", "_parquet", "_labels", "_list",
                                  "_folders", "_subjects"])  # fmt: skip
def test_a_number_is_one_name_in_every_spelling_to_every_reader(tmp_path: Path, read: str, column, people):
    if read == "_subjects" and any(folded(name) == "-1" for name in column):
        with pytest.raises(ValueError, match="names no person"):
            globals()[read](tmp_path, column)
    elif people is CLASH:
        with pytest.raises(ValueError, match=r"are one name but for case, .* or the spelling of a number.*; --names"):
            globals()[read](tmp_path, column)
        with names_taken("exact"):
            as_written = {"-1" if folded(name) == "-1" else name for name in column}
            assert set(globals()[read](tmp_path, column)) == as_written
        with names_taken("merge"):
            assert len(set(globals()[read](tmp_path, column))) == len(set(map(folded, column)))
    else:
        assert sorted(globals()[read](tmp_path, column)) == sorted(people)
        with names_taken("exact"):
            as_written = {"-1" if folded(name) == "-1" else name for name in column}
            assert set(globals()[read](tmp_path, column)) == as_written


@pytest.mark.parametrize("read", ["_arrays", "_npz", "_streamed", "_csv", "_npy"])
def test_blanks_around_a_number_are_no_part_of_it(tmp_path: Path, read: str):
    assert list(globals()[read](tmp_path, [" 52.0 ", "7", "\u00a0-1.0"])) == ["52", "7", "-1"]


def test_a_list_of_people_and_true_identities_may_spell_numbers_in_another_way(tmp_path: Path):
    """A column of a data frame in which a value is missing has points, the column beside it has none."""
    _list(tmp_path, ["52", "7"])
    (tmp_path / "people.txt").write_text("52.0\n")
    assert Photos(tmp_path / "a.csv", people=tmp_path / "people.txt").identities == ("52",)
    (tmp_path / "l.csv").write_text("name,identity,true_identity\na,52,52.0\nb,7,-1.0\n")
    assert read_labels(tmp_path / "l.csv").true_identities == ("52", "-1")


def test_a_number_is_one_person_in_two_files_whatever_else_they_name():
    """Data frames write a point beside a missing value; a file may have texts beside its numbers or none."""
    first, second = np.array(["52", "7.0", "-1.0"]), np.array([" 52.0 ", "Ann Lee", "7.0", "-1.0"])
    for sides in ([first, second], [second, first]):
        named = [("", column, column) for column in sides]
        plain = [[{" 52.0 ": "52", "7.0": "7", "-1.0": "-1"}.get(name, name) for name in column] for column in sides]
        for how in (None, "merge"):
            assert [column.tolist() for column in settled(named, how)] == plain
            alone = [column.tolist() for one in named for column in settled([one], how)]
            assert alone == plain  # as each file is read by itself
        written = [["-1" if name == "-1.0" else name for name in column] for column in sides]
        assert [column.tolist() for column in settled(named, "exact")] == written
    for other in (["052", "Ann Lee", "8"], ["52.5", "7x", "8"]):
        apart = [("", first, first), ("", first, np.array(other))]
        assert settled(apart, None)[1].tolist() == other


def test_names_as_the_known_people_spell_them():
    names, known = ["52.0", "ANN", "Ben", "-1.0"], ["52", "Ann", "Ben", "-1"]
    for how, found in (
        (None, ["52", "ANN", "Ben", "-1"]),
        ("merge", ["52", "Ann", "Ben", "-1"]),
        ("exact", ["52.0", "ANN", "Ben", "-1"]),
    ):
        assert [*as_known(names, known, how).values()] == found


def test_the_first_file_decides_the_spelling():
    """What is drawn from the first file stays the same whatever a second one calls its people."""
    first, second = np.array(["ann", "Ben", "cy"]), np.array(["ANN", "ANN", "BEN", "BEN", "Dee"])
    sides = [(f" of {name}", column, column) for name, column in (("a", first), ("b", second))]
    assert [column.tolist() for column in settled(sides, "merge")] == [
        ["ann", "Ben", "cy"], ["ann", "ann", "Ben", "Ben", "Dee"]]  # fmt: skip


def test_the_spelling_of_most_images_stays():
    made = Embeddings(np.eye(5), identities=["ann", "Ann", "Ann", "Ben", "BEN"], names_rule="merge")
    assert made.identities.tolist() == ["Ann", "Ann", "Ann", "BEN", "BEN"]
    assert made.take(np.array([0])).names_rule == "merge"


def test_names_that_look_the_same_are_shown_escaped():
    with pytest.raises(ValueError, match=r"'Zo\\xeb' .*'Zoe\\u0308' "):
        Embeddings(np.eye(2), identities=["Zoë", "Zoe\u0308"])


def test_a_name_of_nobody_is_not_a_person():
    for rule in (None, "merge", "exact"):
        read = Embeddings(np.eye(3), identities=["-1 ", "-1.0", "Ann"], names_rule=rule)
        assert read.identities.tolist() == ["-1", "-1", "Ann"]


def test_where_names_are_always_folded_nothing_advises_to_take_them_exactly():
    for exact in (True, False):
        with names_taken(None, exact), pytest.raises(ValueError, match="--names merge takes such names") as refusal:
            Embeddings(np.eye(2), identities=["Ann", "ann"])
        assert ("--names exact" in str(refusal.value)) == exact


@pytest.mark.parametrize("text", ["NAN", "null", "N/A", "-nan", "\u200b", "<na>", "None"])
@pytest.mark.parametrize("names", [None, "merge", "exact"])
def test_missing_names_are_refused_whatever_is_decided(text: str, names):
    with pytest.raises(ValueError, match=r"2 of 4 identities are empty or the text of a missing value.*row 1"):
        verisphere.calibrate(np.eye(4), ["Ann", text, text, "Ben"], names=names)


# --- every reader ----------------------------------------------------------------------------------------------------


def _npz(folder: Path, people: list[str]) -> object:
    return read_embeddings(save(folder / "a.npz", people)).identities


def _streamed(folder: Path, people: list[str]) -> object:
    return open_rows(save(folder / "a.npz", people), ("names", "identities")).identities


def _csv(folder: Path, people: list[str]) -> object:
    lines = [f"{row},{name},1,{row}" for row, name in enumerate(people)]
    (folder / "a.csv").write_text("\n".join(["name,identity,e0,e1", *lines]))
    return read_embeddings(folder / "a.csv").identities


def _npy(folder: Path, people: list[str]) -> object:
    np.save(folder / "a.npy", drawn(people))
    (folder / "a.txt").write_text("\n".join(f"{row}\t{name}" for row, name in enumerate(people)))
    return read_embeddings(folder / "a.npy").identities


def _parquet(folder: Path, people: list[str]) -> object:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {"name": [str(row) for row in range(len(people))], "identity": people, "e0": [1.0] * len(people)}
    parquet.write_table(pyarrow.table(columns), folder / "a.parquet")
    return read_embeddings(folder / "a.parquet").identities


def _labels(folder: Path, people: list[str]) -> object:
    (folder / "a.csv").write_text("\n".join(["name,identity", *(f"{row},{name}" for row, name in enumerate(people))]))
    return read_labels(folder / "a.csv").identities


def _list(folder: Path, people: list[str]) -> object:
    for row in range(len(people)):
        Image.new("RGB", (8, 8)).save(folder / f"{row}.png")
    (folder / "a.csv").write_text("\n".join(["name,identity", *(f"{row}.png,{n}" for row, n in enumerate(people))]))
    return Photos(folder / "a.csv").identities


def _folders(folder: Path, people: list[str]) -> object:
    for row, name in enumerate(people):
        (folder / name).mkdir(exist_ok=True)
        Image.new("RGB", (8, 8)).save(folder / name / f"{row}.png")
    return Photos(folder).identities


READERS = [_npz, _streamed, _csv, _npy, _parquet, _labels, _list, _folders]


@pytest.mark.parametrize("read", READERS)
def test_every_reader_has_the_rule(tmp_path: Path, read):
    people = ["Ann", "Ben", "ann", "Ann"]
    with pytest.raises(ValueError, match=r"'Ann' .* and 'ann' .* are one name but for case"):
        read(tmp_path, people)
    with names_taken("merge"):
        assert set(read(tmp_path, people)) == {"Ann", "Ben"}
    with names_taken("exact"):
        assert set(read(tmp_path, people)) == {"Ann", "Ben", "ann"}


@pytest.mark.parametrize("read", [reader for reader in READERS if reader is not _folders])
@pytest.mark.parametrize("text", ["null", "N\u200baN"])
def test_every_reader_has_the_table_of_missing_values(tmp_path: Path, read, text: str):
    with pytest.raises(ValueError, match="1 of 3 identities is empty or the text of a missing value"):
        read(tmp_path, ["Ann", text, "Ben"])


@pytest.mark.parametrize("layout", ["npz", "csv", "npy", "parquet", "labels", "images", "folders"])
@pytest.mark.parametrize("text", ["nan", "None", " N/A", "null", ""])
def test_every_reader_of_domains_has_the_table_too(tmp_path: Path, layout: str, text: str):
    domains = ["day", text, "day"]
    if layout == "folders":
        if not text or "/" in text:
            pytest.skip("no folder is called so")
        for row, domain in enumerate(domains):
            (tmp_path / domain / f"p{row}").mkdir(parents=True)
            Image.new("RGB", (8, 8)).save(tmp_path / domain / f"p{row}" / "a.png")
    head = "name,identity,domain"
    lines = "\n".join([head, *(f"{row}.png,p{row},{domain}" for row, domain in enumerate(domains))])
    path = tmp_path / ("a.csv" if layout in ("labels", "images") else f"a.{layout}")
    if layout in ("labels", "images"):
        path.write_text(lines)
        for row in range(3):
            Image.new("RGB", (8, 8)).save(tmp_path / f"{row}.png")
    elif layout == "npz":
        columns = {"names": np.arange(3), "identities": np.array(["a", "b", "c"]), "domains": np.array(domains)}
        np.savez(path, embeddings=np.eye(3), **columns)
    elif layout == "csv":
        path.write_text("\n".join(f"{line},{'e0' if line == head else 1}" for line in lines.split("\n")))
    elif layout == "npy":
        np.save(path, np.eye(3))
        path.with_suffix(".txt").write_text(lines)
    elif layout == "parquet":
        pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        table = {"name": list("abc"), "identity": list("abc"), "domain": ["day", text or None, "day"], "e0": [1.0] * 3}
        parquet.write_table(pyarrow.table(table), path)
    read = {"labels": read_labels, "images": Photos, "folders": lambda _: Photos(tmp_path)}.get(layout, read_embeddings)
    with pytest.raises(ValueError, match=r"of 3 rows have an empty domain, or the text|domain '' has 0 characters"):
        read(path)


@pytest.mark.parametrize("column", ["domains", "media", "templates"])
def test_a_missing_value_in_an_array_of_python_is_no_domain_medium_or_template(column: str):
    texts = np.array(["x", np.nan, "y"])
    with pytest.raises(
        ValueError, match=r"1 of 3 rows have an empty \w+, or .* the first is 'nan' \('1', row 1\): name"
    ):
        Embeddings(np.eye(3), identities=["a", "b", "c"], **{column: texts})


@pytest.mark.parametrize("read", READERS)
def test_healthy_names_pass_in_silence(tmp_path: Path, read, caplog):
    assert list(read(tmp_path, ["Ann", "Anna", "Ben_2", "Ben_3"])) == ["Ann", "Anna", "Ben_2", "Ben_3"]
    assert not caplog.records


# --- two sets --------------------------------------------------------------------------------------------------------


def test_the_rule_holds_across_pooled_sets():
    one, other = Embeddings(np.eye(2), identities=["Ann", "Ben"]), Embeddings(np.eye(2), identities=["ann", "Cy"])
    with pytest.raises(ValueError, match=r"'Ann' \('0', row 0 of a\) and 'ann' \('0', row 0 of b\)"):
        pool_embeddings([("a", one), ("b", other)])
    with names_taken("merge"):
        both = (Embeddings(part.embeddings, identities=part.identities) for part in (one, other))
        assert pool_embeddings(list(zip("ab", both, strict=True))).identities.tolist() == ["Ann", "Ben", "Ann", "Cy"]
    with pytest.raises(
        ValueError, match=r"'none' \(the name of a file\): name a domain for every row, or rename the file"
    ):
        pool_embeddings([("none", one), ("b", other)])
    one = Embeddings(np.eye(2), identities=["Ann", "Ben"], names_rule="exact")
    assert len(set(pool_embeddings([("a", one), ("b", other)]).identities)) == 4


def pointed() -> list[str]:
    """Numbers with a point and one text."""
    return [*(f"{number}.0" for number in range(100, 123)), "Ann"]


@pytest.mark.parametrize("names_rule", [None, "merge", "exact"])
def test_no_part_and_no_copy_of_a_settled_set_spells_a_name_in_another_way(names_rule):
    people = Embeddings(drawn(pointed()), identities=pointed(), names_rule=names_rule)
    numbers = people.take(people.identities != "Ann")
    domains = np.array(["day", "night"])[np.arange(len(people)) % 2]
    parts = [numbers, numbers.take(np.arange(3)), replace(numbers, names_rule=None),
             replace(people, domains=domains).take(domains == "night").take(np.array([0, 1])),
             pool_embeddings([("a", numbers)]), *same_people(("a", people), ("b", numbers)),
             templates_of(replace(numbers, templates=numbers.names)), known_people(numbers, "a")]  # fmt: skip
    with names_taken("merge"):
        parts.append(numbers.take(np.array([1])))
    assert all(set(part.identities) <= set(people.identities) for part in parts)
    first = pointed() if names_rule == "exact" else [name.removesuffix(".0") for name in pointed()]
    assert numbers.identities.tolist() == first[:-1]
    assert replace(numbers, identities=pointed()[:-1][::-1]).identities[-1] == first[0]
    with pytest.raises(ValueError, match="text of a missing value"):
        replace(numbers, identities=["nan"] * len(numbers))


def test_a_set_whose_names_were_taken_exactly_is_merged_where_that_is_asked_for():
    names = [["Person 1", "PERSON 1", "Person 2"][row % 3] for row in range(24)]
    exact = Embeddings(drawn(names), identities=names, names_rule="exact")
    merged = replace(exact, names_rule="merge")
    assert len(np.unique(exact.identities)) == 3
    assert np.unique(merged.identities).tolist() == ["PERSON 1", "Person 2"]
    assert np.array_equal(merged.take(np.arange(4)).identities, merged.identities[:4])
    nobody = ["-1.0", "Ann", "Ben"] * 8
    exact = Embeddings(drawn(nobody), identities=nobody, names_rule="exact")
    assert np.unique(replace(exact, names_rule="merge").identities).tolist() == ["-1", "Ann", "Ben"]


def test_merged_names_of_two_sets_are_the_same_in_both(tmp_path: Path, monkeypatch, capsys):
    """One file writes its numbers with points, the other without."""
    monkeypatch.chdir(tmp_path)
    plain = [name.removesuffix(".0") for name in pointed()]
    for file, people in (("points.npz", pointed()), ("right.npz", plain), ("plain.npz", [*plain[:-1], "123"])):
        images = [f"{file}/{row}" for row in range(24)]
        np.savez(file, embeddings=drawn(plain), names=images, identities=np.array(people))
    one, other = read_embeddings("points.npz"), read_embeddings("plain.npz")
    with names_taken("merge"):
        assert [sides.identities[0] for sides in same_people(("a", one), ("b", other))] == ["100"] * 2
        assert [sides.identities[0] for sides in same_people(("b", other), ("a", one))] == ["100"] * 2

    def printed(*words: str) -> str:
        assert main([*words, "--names", "merge"]) == 0
        return capsys.readouterr().out

    two_sets = ("evaluate", "two-sets", "--far", "1e-1")
    assert printed(*two_sets, "points.npz", "plain.npz") == printed(*two_sets, "right.npz", "plain.npz")
    for title in ("points", "right"):
        rank_one = printed("evaluate", "identification", "plain.npz", "--gallery", f"{title}.npz", "--closed-set")
        assert "23 / 23" in rank_one


def test_the_option_decides_where_one_file_records_that_names_were_merged():
    one = Embeddings(np.eye(2), identities=["Ann", "Ben"], names_rule="merge")
    for other in (None, "exact"):
        two = Embeddings(np.eye(2), identities=["ann", "Cy"], names_rule=other)
        with pytest.raises(ValueError, match="--names merge takes such names as one person, --names exact as"):
            pool_embeddings([("a", one), ("b", two)])
        for how, people in (("exact", 4), ("merge", 3)):
            with names_taken(how):
                pooled = pool_embeddings([("a", one), ("b", two)])
            assert (len(set(pooled.identities)), pooled.names_rule) == (people, how)


@pytest.mark.parametrize(
    "words",
    [
        ("evaluate", "two-sets", "a.npz", "b.npz", "--far", "1e-1"),
        ("evaluate", "all-pairs", "a.npz", "b.npz", "--far", "1e-1"),
        ("evaluate", "identification", "b.npz", "--gallery", "a.npz", "--closed-set"),
        ("calibrate", "a.npz", "--check", "b.npz", "--far", "5e-1", "--out", "c.json"),
    ],
)
def test_every_verb_that_compares_two_sets_asks(tmp_path: Path, monkeypatch, capsys, words):
    monkeypatch.chdir(tmp_path)
    save(Path("a.npz"), PEOPLE[:72])
    np.savez("b.npz", embeddings=drawn(HALF[:72])[::-1], names=[f"b{row}" for row in range(72)],
             identities=[name.lower() for name in PEOPLE[:72]][::-1])  # fmt: skip
    assert "are one name but for case" in refused(capsys, *words)
    assert main([*words, "--names", "merge"]) == 0


def test_a_list_of_people_follows_the_rule(tmp_path: Path):
    _list(tmp_path, ["Ann", "Ben"])
    (tmp_path / "people.txt").write_text("ann\n")
    with pytest.raises(ValueError, match=r"people.txt, .*'ann' \(entry 1 of the list\) and 'Ann' \(in the set\)"):
        Photos(tmp_path / "a.csv", people=tmp_path / "people.txt")
    assert Photos(tmp_path / "a.csv", people=tmp_path / "people.txt", names="merge").identities == ("Ann",)
    with pytest.raises(ValueError, match="1 of 1 people are not in the set"):
        Photos(tmp_path / "a.csv", people=tmp_path / "people.txt", names="exact")


def test_an_overlap_matches_each_spelling_by_itself(tmp_path: Path):
    (tmp_path / "train.csv").write_text("name,identity\n1,Ann\n2,Ben\n3,ann\n")
    (tmp_path / "test.txt").write_text("ANN\n")
    assert (
        main(["clean", "overlap", str(tmp_path / "train.csv"), str(tmp_path / "test.txt"), "--out", f"{tmp_path}/o"])
        == 0
    )
    assert read_labels(tmp_path / "o" / "kept.txt").names == ("2",)


# --- what the output records -----------------------------------------------------------------------------------------


def test_the_decision_is_in_json_and_calibration(tmp_path: Path, capsys):
    path, out = save(tmp_path / "a.npz", HALF), tmp_path / "out.json"
    assert str(path) in refused(capsys, "evaluate", "all-pairs", path)
    assert main(["evaluate", "all-pairs", str(path), "--names", "merge", "--json", str(out)]) == 0
    assert json.loads(out.read_text())["sources"][0]["names_rule"] == "merge"
    assert main(["calibrate", str(path), "--far", "1e-1", "--names", "exact", "--out", str(out)]) == 0
    assert read_calibration(out).source.names_rule == "exact"
    assert "240 people by names exactly as written" in file_in_words(read_calibration(out).source)
    assert "--names is for embeddings" in refused(
        capsys, "calibrate", _scores(tmp_path), "--names", "exact", "--independent", "--far", "5e-1", "--out", out
    )


def _scores(folder: Path) -> Path:
    (folder / "s.csv").write_text("score,label\n" + "0.1,0\n0.9,1\n" * 40)
    return folder / "s.csv"


def test_a_file_keeps_the_decision_and_is_not_asked_about_again(tmp_path: Path):
    made = Embeddings(drawn(HALF), identities=HALF, names_rule="exact")
    write_embeddings(tmp_path / "a.npz", made)
    assert read_embeddings(tmp_path / "a.npz").names_rule == "exact"
    assert main(["evaluate", "all-pairs", str(tmp_path / "a.npz"), "--far", "1e-2"]) == 0
    assert open_rows(tmp_path / "a.npz", ("names", "identities")).source.names_rule == "exact"


def test_a_decision_that_is_none_is_refused(tmp_path: Path, capsys):
    np.savez(tmp_path / "a.npz", embeddings=np.eye(2), names=["a", "b"], identities=["a", "b"], names_rule="yes")
    assert "its array names_rule is none of merge, exact" in refused(
        capsys, "evaluate", "all-pairs", tmp_path / "a.npz"
    )


@pytest.mark.parametrize(
    "letter", ["\u2065", "\ufff0", "\ufff8", "\ufffc", "\U000e0000", "\U000e0080", "\U000e01f0", "\U000e0fff", "\udc80"]
)
def test_letters_that_no_font_shows_are_removed(letter: str):
    assert folded(f"Ann{letter} Lee") == "ann lee"


@pytest.mark.usefixtures("unchecked")
def test_a_rule_of_another_word_is_refused(tmp_path: Path):
    """Every other word would be taken for `merge`."""
    (tmp_path / "Ann").mkdir()
    Image.new("RGB", (112, 112)).save(tmp_path / "Ann" / "1.png")
    wrong: Any = "Exact"
    rows, people = np.eye(4, dtype=np.float32), ["AB1", "AB1", "ab1", "ab1"]
    for made in (
        lambda: verisphere.evaluate(rows, people, far="0.5", names=wrong),
        lambda: Embeddings(rows, identities=people, names_rule=wrong),
        lambda: Photos(tmp_path, names=wrong),
    ):
        with pytest.raises(ValueError, match="names is 'Exact'; allowed are merge and exact, and None to refuse"):
            made()


# --- names of nobody -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["merge", "exact"])
@pytest.mark.parametrize(("verb", "file"), [("duplicates", "duplicates.json"), ("embeddings", "clean.json")])
def test_cleaning_records_how_names_were_taken(tmp_path: Path, rule: str, verb: str, file: str):
    path, out = save(tmp_path / "a.npz", HALF), tmp_path / "out"
    assert main(["clean", verb, str(path), "--names", rule, "--out", str(out)]) == 0
    read = json.loads((out / file).read_text())
    assert (read["names_rule"], read["identities"]) == (rule, 120 if rule == "merge" else 240)


@pytest.mark.parametrize(
    "words",
    [
        ["evaluate", "all-pairs", "a.npz", "--far", "1e-1"],
        ["evaluate", "distractors", "a.npz", "--distractors", "b.npz"],
        ["cluster", "a.npz", "--threshold", "0.5", "--known", "--out", "clusters"],
    ],
)
def test_a_crowd_under_unknown_is_named(tmp_path: Path, monkeypatch, caplog, words: list[str]):
    monkeypatch.chdir(tmp_path)
    save(Path("a.npz"), PEOPLE[:60] + ["Unknown"] * 40)
    save(Path("b.npz"), [f"Other_{row}" for row in range(20)])
    with caplog.at_level(logging.WARNING):
        assert main(words) == 0
    assert "'Unknown' holds 40 images, where the median person has 6" in caplog.text


@pytest.mark.parametrize(
    "name",
    [
        "missing",
        "...",
        "inf",
        "-1.0",
        "-999",
        "<unknown>",
        "n.a.",
        "\u2014",
        "unknown_12",
        "unk7",
        "(stranger) 3",
        "(null)",
        "nan_nan",
        "'None'",
        "\\N",
        "???",
        "x",
        "XXX_3",
        "Неизвестный",
        "未知",
    ],
)
def test_texts_and_codes_for_nobody_are_named(name: str):
    (note,) = crowds([("Ann", 4), ("Ben", 4), (name, 24)])
    assert note.startswith(f"{name!r} holds 24 images, where the median person has 4: are they all one person?")


@pytest.mark.parametrize(
    "images",
    [
        {"Ann": 2, "1.0": 40},
        {"Ann": 2, "007": 40},
        {"Ann": 2, "x12": 40},
        {"Ann": 2, "N. A. Lee 2": 40},
        {"Ann": 2, "Miss Inf": 40},
        {"Ann": 2, "unknown": 9},
        {"Ann": 9, "unknown": 40},
        {"Ann": 2, "Ben": 400},
        {"unknown": 50},
        {},
    ],
)
def test_a_name_that_holds_no_crowd_is_not_named(images: dict[str, int]):
    assert not crowds(images.items())
