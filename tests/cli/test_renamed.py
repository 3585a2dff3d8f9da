"""Verbs and options that have another name today: one line that names it, exit code 2."""

import pytest

from verisphere.cli import main
from verisphere.cli.renamed import RENAMED

pytestmark = pytest.mark.usefixtures("process_as_it_was")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["sweep", "recipe.yaml", "--out", "runs"], "`verisphere sweep` is now `verisphere experiment`"),
        (["sweep", "--help"], "`verisphere sweep` is now `verisphere experiment`"),
        (["figures"], "`verisphere figures` is now `make figures, in a checkout of the project`"),
        (
            ["--default-allocator", "evaluate", "search", "probes.npz"],
            "`verisphere evaluate search` is now `verisphere evaluate identification`",
        ),
        (
            ["evaluate", "all-pairs", "set.npz", "--far", "1e-3", "--sweep", "kept.npz"],
            "`verisphere evaluate all-pairs --sweep` is now `--work FOLDER`",
        ),
        (
            ["evaluate", "all-pairs", "set.npz", "--state", "kept"],
            "`verisphere evaluate all-pairs --state` is now `--work FOLDER`",
        ),
        *(
            ([*old.split(), "set.npz", "--out=out"], f"`verisphere {old}` is now `{RENAMED[old]}`")
            for old in (
                *(
                    "gate check",
                    "evaluate one-threshold",
                    "evaluate megaface",
                    "evaluate trillion-pairs",
                    "render",
                    "distill",
                ),
                *("clean --recipe", "data duplicates", "data overlap", "data noise", "data relabel"),
                *("clean duplicates --cosine", "clean duplicates --image-cosine", "clean overlap --cosine"),
            )
        ),
    ],
)
def test_an_old_name_is_answered_with_the_new_one(capsys: pytest.CaptureFixture[str], words: list[str], line: str):
    assert main(words) == 2
    output = capsys.readouterr()
    assert (output.out, output.err) == ("", f"verisphere: {line}\n")


def test_every_renamed_word_is_tried():
    (cases,) = (mark for mark in test_an_old_name_is_answered_with_the_new_one.pytestmark if mark.name == "parametrize")
    assert {line.split("`")[1].removeprefix("verisphere ") for _, line in cases.args[1]} == RENAMED.keys()


def test_the_old_words_may_be_values(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(["evaluate", "scores", "search", "--sweep"])
    assert "is now" not in capsys.readouterr().err
