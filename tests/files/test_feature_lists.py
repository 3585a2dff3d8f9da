"""MegaFace's lists: pictures to use, and noisy ones."""

import numpy as np
import pytest

from verisphere.files.feature_lists import listed_as, read_noise, read_pictures


def test_pictures_from_json_and_from_lines(write):
    listed = read_pictures(write('{"path": ["Ann/1.png", "Ben/2.png"], "id": ["A", "B"]}'))
    assert (listed.pictures, listed.people) == (("Ann/1.png", "Ben/2.png"), ("A", "B"))
    assert read_pictures(write('{"path": ["Ann/1.png"]}')).people == ("Ann",)
    assert read_pictures(write("Ann Lee/Ann Lee_1.png\n\n12/3@N00/4.jpg\n")).people == ("Ann Lee", "12")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it lists no picture"),
        ('{"path": []}', "it lists no picture"),
        ("a/1\nb/2\na/1\n", "line 3: 'a/1' is already on line 1"),
        ('{"path": ["a", "a"]}', r"path\[1\]: 'a' is already path\[0\]"),
        ('{"id": ["a"]}', "path is None, not a list of text"),
        ('{"path": ["a"], "id": []}', "1 entries of path but 0 of id"),
        ('{"path": ', "list.txt: "),
    ],
)
def test_a_list_of_another_form_is_refused(write, text, message):
    with pytest.raises(ValueError, match=message):
        read_pictures(write(text))


def test_noisy_pictures_with_comments_and_tabs(write):
    path = write("# checked by hand\nAnn_1.png\n\n7\t12/3@N00/4.jpg\tblurred\n")
    assert read_noise(path) == ((2, "Ann_1.png"), (4, "12/3@N00/4.jpg"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# nothing\n", "it lists no picture"),
        ("a.png\nb.png\na.png\n", "line 3: 'a.png' is already on line 1"),
        ("a.png\n1\t \tx\n", r"line 2: '1\\t \\tx' names no picture"),
    ],
)
def test_a_noise_list_of_another_form_is_refused(write, text, message):
    with pytest.raises(ValueError, match=message):
        read_noise(write(text))


def test_a_picture_is_meant_by_the_end_of_its_path():
    names = np.array(["Ann/Ann_1.png", "x/12/3@N00/4.jpg", "Ben/XAnn_1.png", "4.jpg"])
    marked, used = listed_as(names, ["Ann_1.png", "12/3@N00/4.jpg", "Cem_1.png"])
    assert marked.tolist() == [True, True, False, False]
    assert used == {"Ann_1.png", "12/3@N00/4.jpg"}
