"""Listed pairs through the command line, with and without a score of each."""

import json
from pathlib import Path

import numpy as np
import pytest

from verisphere.base.vocabulary import Embeddings
from verisphere.cli import main
from verisphere.files.embeddings import write_embeddings

pytestmark = pytest.mark.usefixtures("process_as_it_was")


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    random = np.random.default_rng(0)
    person = np.arange(60) % 12
    rows = (random.normal(size=(12, 8))[person] + random.normal(size=(60, 8))).round(1)
    names, people = (np.array([f"{kind}{n}" for n in numbers]) for kind, numbers in (("i", range(60)), ("p", person)))
    write_embeddings(tmp_path / "rows.npz", Embeddings(rows.astype(np.float32), names, people))
    left, right = np.triu_indices(60, 1)
    listed = [f"i{a},i{b},{int(person[a] == person[b])}" for a, b in zip(left, right, strict=True)]
    (tmp_path / "pairs.csv").write_text("\n".join(["left,right,label", *listed]) + "\n")
    return tmp_path / "rows.npz", tmp_path / "pairs.csv"


@pytest.mark.parametrize("rule", ["at_most", "nearest", "interpolated"])
def test_points_alone_are_the_points_of_the_whole_evaluation(rule: str, files: tuple[Path, Path], tmp_path: Path):
    rows, pairs = files
    found = []
    for name, more in (("whole", []), ("points", ["--points-only"])):
        out = tmp_path / f"{name}.json"
        asked = ["evaluate", "pairs", rows, "--pairs", pairs, "--far", "1e-1", "--far", "0.033", "--rule", rule]
        assert main(["--default-allocator", *map(str, asked), *more, "--json", str(out)]) == 0
        found.append(json.loads(out.read_text()))
    assert found[0]["operating_points"] == found[1]["operating_points"]
    assert ("accuracy" in found[0], "accuracy" in found[1]) == (True, False)


@pytest.mark.parametrize("option", [["--intervals"], ["--curve", "out.csv"]])
def test_what_needs_every_score_is_refused(option: list[str], files: tuple[Path, Path], refused, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    rows, pairs = files
    said = refused("evaluate", "pairs", rows, "--pairs", pairs, "--points-only", *option)
    assert "--points-only makes no score of each pair, which --against, --calibration, --intervals" in said
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize(("wrong", "counted"), [(1, "1 such pair"), (2, "2 such pairs")])
def test_labels_that_the_identities_contradict_are_counted(wrong: int, counted: str, files: tuple[Path, Path], refused):
    rows, pairs = files
    lines = pairs.read_text().splitlines()
    for number in range(1, wrong + 1):  # images 0 and 1, 0 and 2 show different people
        lines[number] = lines[number][:-1] + "1"
    pairs.write_text("\n".join(lines))
    assert refused("evaluate", "pairs", rows, "--pairs", pairs, "--far", "1e-1") == (
        f"verisphere: {pairs}: line 2: listed as genuine, which the identities in {rows} contradict ({counted})\n"
    )


@pytest.mark.parametrize("more", [[], ["--points-only"], ["--against"]])
def test_repeated_pairs_are_refused_unless_they_are_to_be_kept(
    more: list[str], files: tuple[Path, Path], capsys: pytest.CaptureFixture, tmp_path: Path
):
    rows, pairs = files
    with pairs.open("a") as file:
        file.write("i1,i0,0\ni5,i5,1\ni0,i1,0\n")  # lines 1772 to 1774
    more = [*more, str(rows)] if more == ["--against"] else more
    asked = ["--default-allocator", "evaluate", "pairs", str(rows), "--pairs", str(pairs), "--far", "1e-1", *more]
    assert main(asked) == 2
    assert capsys.readouterr().err == (
        f"verisphere: {pairs}: 1 of 1,773 pairs compare an image with itself, first 'i5' in line 1773; 2 of 1,773 "
        "pairs repeat an earlier one, first 'i0' with 'i1' in line 2 and line 1772; such pairs move the figures: take "
        "them out of the list, or keep them by --keep-repeated (keep_repeated=True)\n"
    )
    assert main([*asked, "--keep-repeated"]) == 0
    output = capsys.readouterr().out
    assert "repeated pairs were kept: 1 of 1,773 pairs compare an image with itself, first 'i5'" in output
    pairs.write_text("\n".join(pairs.read_text().splitlines()[:-3]))
    assert main([*asked, "--keep-repeated"]) == 0
    assert "repeated" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("i0 i12 1\ni1 i2 maybe\n", "{}: line 2: label 'maybe'; allowed are 1 (genuine), and 0 or -1 (impostor)"),
        ("1, 1, Ann/1, Ann/2, 1\n1, 3, Ann/1, Bo/2, 0\n", "{}: line 2: pair 3 of split 1, where pair 2 follows; is a"),
    ],
)
def test_a_published_list_with_a_fault_gets_one_line(
    text: str, message: str, files: tuple[Path, Path], refused, tmp_path: Path
):
    rows, listed = files[0], tmp_path / "list.txt"
    listed.write_text(text)
    out = tmp_path / "out.json"
    assert message.format(listed) in refused("evaluate", "pairs", rows, "--pairs", listed, "--json", out)
    assert not out.exists()
