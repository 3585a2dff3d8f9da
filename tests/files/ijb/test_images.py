"""The faces of templates and their detector scores: what is read, and the line of what is refused."""

import re
from pathlib import Path

import pytest

from verisphere.files.ijb.images import read_detector_scores, read_images

POINTS = "46.060 62.026 87.785 60.323 68.851 77.656 52.162 99.875 86.450 98.648"


def test_images_templates_and_media(write):
    images = read_images(write("\ufeff1.jpg 5 700\r\n2.jpg\t5 701\n\n1.jpg 3 700\nimg/a b.jpg 3 9\n"))
    assert images.names == ("1.jpg", "2.jpg", "img/a b.jpg")
    assert images.image.tolist() == [0, 1, 0, 2]
    assert (images.template.tolist(), images.medium.tolist()) == ([5, 5, 3, 3], [700, 701, 700, 9])
    assert images.lines.tolist() == [1, 2, 4, 5]
    templates, number = images.numbered()
    assert (templates.tolist(), number.tolist()) == ([3, 5], [1, 1, 0, 0])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1.jpg 1 2\n2.jpg 1\n", "line 2: '2.jpg 1'; a line is `image template medium`"),
        ("1.jpg one 2\n", "line 1: '1.jpg one 2'"),
        ("1.jpg -1 2\n", "line 1: '1.jpg -1 2'"),
        ("1.jpg 1 2\n2.jpg 1 2\n3.jpg 2 2\n1.jpg 1 3\n", "line 4: '1.jpg' of template 1 is already on line 1"),
        ("\n", "it lists no image"),
        ("TEMPLATE_ID,SUBJECT_ID\n", "line 1: 'TEMPLATE_ID,SUBJECT_ID'"),
    ],
)
def test_a_line_of_another_form_is_named(write, text: str, says: str):
    path = write(text)
    with pytest.raises(ValueError, match=re.escape(f"{path}: {says}")):
        read_images(path)


def test_scores_go_by_name(write):
    scores, others = read_detector_scores(
        write(f"x.jpg {POINTS} 0.1\nb.jpg {POINTS} 0\na.jpg {POINTS} 0.999\nb.jpg {POINTS} 0.0\n"), ("a.jpg", "b.jpg")
    )
    assert (scores.tolist(), others) == ([0.999, 0.0], 1)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a.jpg 0.9\n", "line 1: 'a.jpg 0.9'; a line is `image x1 y1 ... x5 y5 score`"),
        (f"a.jpg {POINTS} -0.5\n", "line 1: the score of 'a.jpg' is '-0.5'; a score is a finite number from 0"),
        (f"a.jpg {POINTS} nan\n", "line 1: the score of 'a.jpg' is 'nan'"),
        (f"a.jpg {POINTS} inf\n", "line 1: the score of 'a.jpg' is 'inf'"),
        (f"a.jpg {POINTS} 1_0\n", "line 1: the score of 'a.jpg' is '1_0'"),
        (f"a.jpg {POINTS} high\n", "line 1: the score of 'a.jpg' is 'high'"),
        (f"a.jpg {POINTS} 1\n\na.jpg {POINTS} 2\n", "line 3: 'a.jpg' has the score 2, and on an earlier line 1"),
        (f"c.jpg {POINTS} 1\n", "no score of 2 of 2 images, first 'a.jpg'"),
    ],
)
def test_a_score_that_cannot_be_is_named(write, text: str, says: str):
    path = write(text)
    with pytest.raises(ValueError, match=re.escape(f"{path}: {says}")):
        read_detector_scores(path, ("a.jpg", "b.jpg"))


def test_a_missing_file_is_named(tmp_path: Path):
    for read in (read_images, lambda path: read_detector_scores(path, ("a.jpg",))):
        with pytest.raises(FileNotFoundError, match=r"none\.txt"):
            read(tmp_path / "none.txt")
