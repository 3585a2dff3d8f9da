"""Verbs and options that have another name today: one line that names it, exit code 2."""

import pytest

from verisphere.cli import main
from verisphere.cli.renamed import RENAMED

pytestmark = pytest.mark.usefixtures("process_as_it_was")


@pytest.mark.parametrize("old", RENAMED)
def test_an_old_name_is_answered_with_the_new_one(capsys: pytest.CaptureFixture[str], old: str):
    for words in ([*old.split(), "set.npz", "--out=out"], ["--default-allocator", *old.split(), "--help"]):
        assert main(words) == 2
        output = capsys.readouterr()
        assert (output.out, output.err) == ("", f"verisphere: `verisphere {old}` is now `{RENAMED[old]}`\n")


def test_the_old_words_may_be_values(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(["evaluate", "scores", "search", "--sweep"])
    assert "is now" not in capsys.readouterr().err
