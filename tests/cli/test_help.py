"""What a person sees who asks for help or mistypes: examples that work, the nearest word, help for a bare call."""

import shlex
import subprocess
import sys

import numpy as np
import pytest

from every_verb import EVERY
from verisphere.base.words import did_you_mean
from verisphere.cli.start import main, parser

pytestmark = pytest.mark.usefixtures("process_as_it_was")


@pytest.mark.parametrize("words", ["", *EVERY])
def test_help_ends_with_two_examples_that_parse(words: str, says):
    out = says(*words.split(), "--help")
    assert out.startswith("usage: verisphere")
    _, _, end = out.partition("\nexamples:\n")
    lines = end.splitlines()
    assert len(lines) == 2, f"two examples are due in the help of {' '.join(words)}, and there are {len(lines)}"
    for line in lines:
        assert f"{line} ".startswith(f"  verisphere {words}".rstrip() + " ")
        if "--help" not in line:
            call = shlex.split(line)[1:]
            options, further = parser(call).parse_known_args(call)
            assert callable(options.verb)
            assert options.any_field or not further


def test_a_verb_has_a_parser_without_the_others():
    for words in (["train", "embed"], ["--default-allocator", "train"]):
        listed = parser(words).format_help()
        assert "\n    train " in listed
        assert "\n    embed " not in listed
    for words in ([], ["--help", "train"], ["bogus", "train"]):
        assert parser(words).format_help() == parser().format_help()


@pytest.mark.parametrize("verb", ["invert", "leak"])
def test_help_says_how_an_onnx_file_becomes_a_second_model(verb: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        parser().parse_args([verb, "--help"])
    _, _, told = capsys.readouterr().out.partition("\n  --judge ")
    assert "ONNX file made elsewhere after `verisphere adopt`" in " ".join(told.split("\n  --")[0].split())


def test_help_loads_no_large_library():
    """So that it is there at once: NumPy and jaxtyping alone took a quarter of a second."""
    script = (
        "import sys\nfrom verisphere.cli import main\n"
        "try: main(['evaluate', 'all-pairs', '--help'])\n"
        "except SystemExit: print('loaded:', sorted({'numpy', 'torch', 'jaxtyping', 'rich'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert done.stdout.endswith("loaded: []\n")


def test_a_bare_call_shows_the_help(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as leaving:
        main([])
    output = capsys.readouterr()
    assert (leaving.value.code, output.err) == (0, "")
    assert output.out == parser().format_help()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("evaluate all-pairs e.npz --fars 1e-3", "--fars 1e-3 (did you mean --far?)"),
        ("evaluate all-pairs e.npz --fmr=1e-3", "--fmr=1e-3 (did you mean --far?)"),
        ("calibrate e.npz --out t.json --fars 1e-3", "unrecognised arguments: --fars 1e-3 (did you mean --far?)"),
        ("embed m f --out e.npz --batchsize 3", "did you mean --batch-size?"),
        ("export run --out m --xyz", "unrecognised arguments: --xyz ("),
        ("trian photos", "did you mean train?"),
        ("evaluate al-pairs e.npz", "did you mean all-pairs?"),
        ("clean set.npz", "did you mean verisphere clean embeddings set.npz?"),
        ("evaluate scores s.csv --rule at-most", "did you mean at_most?"),
    ],
)
def test_a_misspelt_word_names_the_nearest(words: str, says: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as leaving:
        main(words.split())
    assert leaving.value.code == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("train none.yaml --out run --resum", "there is no option or field --resum (did you mean --resume?)"),
        ("experiment none.yaml --out run --seed 3 --sedes 1,2", "--sedes (did you mean --seeds?)"),
        ("train none.yaml --out run --epochs 3", "none.yaml: there is no such recipe"),  # a field
        ("train none.yaml --out run --memori 3", "did you mean --memory?"),
    ],
)
def test_a_misspelt_option_beside_the_fields_of_a_recipe(words: str, says: str, capsys: pytest.CaptureFixture[str]):
    assert main(["--default-allocator", *words.split()]) == 2
    assert says in capsys.readouterr().err


def test_nothing_near_is_no_guess():
    assert did_you_mean("--zzz", ["--far", "--json"]) == ""


@pytest.mark.parametrize(
    ("name", "arrays", "kind"),
    [
        ("a.npz", ["embeddings", "names", "identities"], "all-pairs"),
        ("b.npz", ["embeddings", "domains"], "all-pairs"),
        ("c.npz", ["score", "label"], "scores"),
    ],
)
def test_a_file_where_the_kind_of_an_evaluation_belongs(tmp_path, capsys, name, arrays, kind):
    np.savez(tmp_path / name, **dict.fromkeys(arrays, np.zeros(2)))
    np.savetxt(tmp_path / "scores.csv", np.zeros((2, 2)), delimiter=",", header="label,score", comments="")
    for file, suggested in ((tmp_path / name, kind), (tmp_path / "scores.csv", "scores")):
        with pytest.raises(SystemExit) as ended:
            parser().parse_args(["evaluate", str(file)])
        assert ended.value.code == 2
        assert f"(did you mean verisphere evaluate {suggested} {file}?)" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        parser().parse_args(["evaluate", str(tmp_path)])
    assert "did you mean" not in capsys.readouterr().err
