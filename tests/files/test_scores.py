"""Scores files: what is read, and that each thing wrong with one is told in a line that says where."""

import math
import pickle
import re
from pathlib import Path

import numpy as np
import pytest

from verisphere.base.vocabulary import Scores
from verisphere.decide import operating_point
from verisphere.files.scores import read_scores


@pytest.fixture
def write(tmp_path: Path):
    def write_file(content: str | bytes, name: str = "scores.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file


def rows(scores: Scores) -> list[tuple]:
    domains = [None] * len(scores.score) if scores.domains is None else scores.domains.tolist()
    return list(zip(scores.score.tolist(), scores.genuine.tolist(), domains, strict=True))


def refused(path: Path) -> str:
    """The error, which names the file and is one line."""
    with pytest.raises(ValueError, match=re.escape(str(path))) as caught:
        read_scores(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- CSV -------------------------------------------------------------------------------------------------------------

PLAIN = [(0.5, True, None), (-0.25, False, None)]


@pytest.mark.parametrize(
    "text",
    [
        "score,label\n0.5,1\n-0.25,0\n",
        "score,label\n0.5,1\n-0.25,0",  # no newline at the end
        "score,label\r\n0.5,1\r\n-0.25,0\r\n",
        "\ufeffscore,label\n0.5,1\n-0.25,0\n",
        "\n\nscore,label\n\n0.5,1\n   \n-0.25,0\n\n",
        "label,score\n1,0.5\n0,-0.25\n",
        "left,score,right,label\na,0.5,b,1\nc,-0.25,d,0\n",
        'note,"score","label"\n"a, b","0.5","1"\n"two\nlines","-0.25","0"\n',
        " score , label \n 0.5 , 1 \n -0.25 , 0 \n",
        "score,label\n5e-1,1\n-.25,0\n",
        "name,name,score,label\na,b,0.5,1\nc,d,-0.25,0\n",  # a name of no meaning may come twice
    ],
)
def test_one_content_in_many_spellings(write, text: str):
    scores = read_scores(write(text))
    assert rows(scores) == PLAIN
    assert (scores.score.dtype, scores.genuine.dtype) == (np.float64, np.bool_)


def test_domains_and_the_empty_one(write):
    scores = read_scores(write("domain,score,label\nday,0.5,1\n,0.25,0\n  ,0.125,0\nnight,0,0\n"))
    assert rows(scores) == [(0.5, True, "day"), (0.25, False, ""), (0.125, False, ""), (0.0, False, "night")]


def test_infinities_large_values_and_minus_zero_are_kept_and_ordered(write):
    scores = read_scores(write("score,label\ninf,1\n-inf,1\n-Infinity,0\n-0.0,0\n0.0,0\n1e300,0\n-17.5,0\n2,1\n"))
    assert scores.score.tolist() == [math.inf, -math.inf, -math.inf, 0, 0, 1e300, -17.5, 2]
    genuine, impostor = scores.score[scores.genuine], scores.score[~scores.genuine]
    # Five impostors, k = 2: the third largest of 1e300, 0, -0, -17.5, -inf is zero without a sign.
    point = operating_point(genuine, impostor, far="0.4")
    assert math.copysign(1, point.threshold) == 1
    assert (point.threshold, point.impostor_accepted, point.genuine_accepted) == (0.0, 1, 2)


def test_float64_text_is_read_exactly(write):
    text = "0.1234567890123456789"
    assert read_scores(write(f"score,label\n{text},1\n")).score[0] == float(text)


def test_one_class_alone_can_be_read(write):
    """Whether both are needed is for the evaluation to say: a calibration file needs impostors alone."""
    assert not read_scores(write("score,label\n0.5,0\n")).genuine.any()


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("score,label\n0.5,1\n\nnan,0\nnan,1\n", 4, "NaN"),
        ("score,label\n-nan,1\n", 2, "NaN"),
        ("score,label\n0.5,1.0\n", 2, "label must be 0.*'1.0'"),
        ("score,label\n0.5,1\n0.5,2\n", 3, "label must be 0.*'2'"),
        ("score,label\n0.5,\n", 2, "label must be 0.*''"),
        ("score,label\n0.5,+1\n", 2, "label"),
        ("score,label\n0.5,01\n", 2, "label"),
        ("score,label\nhigh,1\n", 2, "score must be a number.*'high'"),
        ("score,label\n,1\n", 2, "score must be a number.*''"),
        ('score,label\n"0,5",1\n', 2, "score must be a number.*'0,5'"),
        ("score,label\n1_000,1\n", 2, "score must be a number.*'1_000'"),
        ("score,label\n０.５,1\n", 2, "score must be a number"),
        ("score,label\n0x1p-1,1\n", 2, "score must be a number"),
        ("score,label\n0.5\n", 2, "1 values under a header of 2"),
        ("score,label\n0,5,1\n", 2, "3 values under a header of 2"),
        (f"score,label,domain\n0.5,1,{'d' * 256}\n", 2, "domain 'ddd.*[.]{3} has 256 characters; allowed are 255"),
        ("score,label,domain\n0.5,1,\n0.5,1, NaN\n", 3, "domain 'NaN' is the text of a missing value; leave it empty"),
        ("score;label\n0.5;1\n", 1, "must name score and label once.*score;label"),
        ("0.5,1\n0.25,0\n", 1, "must name score and label once.*0.5,1"),
        ("Score,label\n0.5,1\n", 1, "must name score once"),
        ('score,"la\nbel"\n0.5,1\n', 2, "must name label once"),
        (f"score,label\n0.5,{'1' * 5000}\n", 2, "got '1+[.]{3}$"),
        ("\n\nscore,class\n0.5,1\n", 3, "must name label once"),
        ("score,score,label\n0.5,0.4,1\n", 1, "must name score once"),
        ("score,label,domain,domain\n0.5,1,a,b\n", 1, "must name domain once"),
        (f"score,label\n{'9' * 200_000},1\n", 2, "field larger than"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(write, text: str, line: int, says: str):
    message = refused(write(text))
    assert f"line {line}: " in message
    assert re.search(says, message)


@pytest.mark.parametrize("text", ["", "\n\n", "\ufeff", "score,label\n", "score,label,domain\n\n"])
def test_a_file_without_a_comparison(write, text: str):
    assert "no comparison" in refused(write(text))


@pytest.mark.parametrize(
    "content",
    [
        "score,label,domain\n0.5,1,Köln\n".encode("latin-1"),
        "score,label\n0.5,1\n".encode("utf-16"),
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\xff",
        pickle.dumps([0.5, 1.0]),
    ],
)
def test_what_is_not_utf8_says_where(write, content: bytes):
    assert re.search(r"not UTF-8 text \(byte \d+\)", refused(write(content)))


@pytest.mark.parametrize("name", ["nothing.csv", "nothing.npz", "."])
def test_no_file(tmp_path: Path, name: str):
    with pytest.raises(FileNotFoundError, match="there is no such file"):
        read_scores(tmp_path / name)


# --- .npz ------------------------------------------------------------------------------------------------------------


def save(folder: Path, **arrays: np.ndarray) -> Path:
    np.savez(folder / "scores.npz", **arrays)
    return folder / "scores.npz"


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f4"])
@pytest.mark.parametrize("label", [np.uint8, np.int64, np.bool_, np.float32])
def test_arrays_of_any_number_type(tmp_path: Path, dtype, label):
    path = save(tmp_path, score=np.array([0.5, -0.25], dtype), label=np.array([1, 0], label), extra=np.eye(3))
    assert rows(read_scores(path)) == PLAIN


def test_arrays_with_domains(tmp_path: Path):
    score, label = np.array([0.5, np.inf, -0.0]), np.array([1, 0, 0])
    scores = read_scores(save(tmp_path, score=score, label=label, domain=np.array(["day", "", "night"])))
    assert rows(scores) == [(0.5, True, "day"), (math.inf, False, ""), (0.0, False, "night")]
    scores = read_scores(save(tmp_path, score=score, label=label, domain=np.array([7, 7, 8])))
    assert scores.domains.tolist() == ["7", "7", "8"]
    scores = read_scores(save(tmp_path, score=score, label=label, domain=np.array([b"day", b"", b"night"])))
    assert scores.domains.tolist() == ["day", "", "night"]


TWO = np.array([0.5, 0.25])


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"score": TWO}, "no array label; it has score"),
        ({"label": TWO, "x": TWO}, "no array score; it has label, x"),
        ({"score": np.array([0.5, np.nan, np.nan]), "label": np.array([0, 1, 1])}, "2 of 3 .*NaN.*position 1"),
        ({"score": TWO, "label": np.array([1, 2])}, "label must be 0.*got 2 at position 1"),
        ({"score": TWO, "label": np.array([1, np.nan])}, "label must be 0.*got nan at position 1"),
        ({"score": TWO, "label": np.array([1, 0.5])}, "got 0.5 at position 1"),
        ({"score": TWO, "label": np.array(["1", "0"])}, "must be numbers"),
        ({"score": np.array(["a", "b"]), "label": np.array([1, 0])}, "must be numbers"),
        ({"score": TWO, "label": np.array([1, 0, 1])}, r"\(2,\).*\(3,\)"),
        ({"score": np.eye(2), "label": np.eye(2)}, r"\(2, 2\)"),
        ({"score": np.array(0.5), "label": np.array(1)}, r"\(\)"),
        ({"score": np.empty(0), "label": np.empty(0)}, "no comparison"),
        (
            {"score": TWO, "label": np.array([1, 0]), "domain": np.array(["day"])},
            r"domain has shape \(1,\) but there are 2 scores",
        ),
        (
            {"score": TWO, "label": np.array([1, 0]), "domain": np.array(["day", "None"])},
            "1 of 2 rows have an empty domain, .* 'None' .position 1.*or leave it empty for a pair across domains",
        ),
        (
            {"score": TWO, "label": np.array([1, 0]), "domain": np.array([1, np.nan])},
            "domain holds NaN .* first in row 1",
        ),
        ({"score": TWO, "label": np.array([1, 0]), "domain": np.array([b"K\xf6ln", b"x"])}, "domain .*not ASCII"),
        ({"score": TWO.astype(object), "label": np.array([1, 0])}, "Python objects"),
    ],
)
def test_what_is_wrong_with_arrays(tmp_path: Path, arrays: dict, says: str):
    assert re.search(says, refused(save(tmp_path, **arrays)))


def test_nothing_is_unpickled(write):
    """A pickle under the name of an archive is refused before it can run."""

    class Bomb:
        def __reduce__(self):
            return (pytest.fail, ("a pickle was executed",))

    assert "never loaded" in refused(write(pickle.dumps(Bomb()), "scores.npz"))
