"""Listed pairs through the command line, with and without a score of each."""

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
        "them out of the list; evaluate pairs and evaluate ijb also keep them, by --keep-repeated "
        "(keep_repeated=True)\n"
    )
    assert main([*asked, "--keep-repeated"]) == 0
    output = capsys.readouterr().out
    assert "repeated pairs were kept: 1 of 1,773 pairs compare an image with itself, first 'i5'" in output
    pairs.write_text("\n".join(pairs.read_text().splitlines()[:-3]))
    assert main([*asked, "--keep-repeated"]) == 0
    assert "repeated" not in capsys.readouterr().out
