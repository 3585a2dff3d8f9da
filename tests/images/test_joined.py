"""Several sets as one: names, people, domains and images keep their places."""

import pytest
import torch

from verisphere.base.identity import names_taken
from verisphere.base.vocabulary import NO_CLASS, ImageSource
from verisphere.base.words import Names
from verisphere.files.images_json import joint_source
from verisphere.images import InMemory, Joined, SyntheticFaces
from verisphere.images.joined import SamePeople


def grey(first: int, names: tuple[str, ...], people: tuple[str, ...], domains: tuple[str, ...] | None = None, size=4):
    pixels = torch.arange(first, first + len(names), dtype=torch.uint8)[:, None, None, None]
    return InMemory(pixels.expand(-1, 3, size, size).contiguous(), names, people, domains)


ONE = grey(0, ("1", "2", "3"), ("a", "b", "-1"), ("x", "x", "y"))
TWO = grey(10, ("1", "2", "3"), ("b", "c", "-1"), ("z", "x", "z"))


def shades(faces: Joined) -> list[int]:
    return faces.images(range(len(faces)))[:, 0, 0, 0].tolist()


def test_a_person_of_both_sets_is_taken_from_the_first():
    faces = Joined([ONE, TWO], ["one", "two"])
    assert faces.names == ("one/1", "one/2", "one/3", "two/2", "two/3")
    assert faces.identities == ("a", "b", "-1", "c", "-1")
    assert faces.domains == ("x", "x", "y", "x", "z")
    assert shades(faces) == [0, 1, 2, 11, 12]
    assert faces.labels.tolist() == [0, 1, NO_CLASS, 2, NO_CLASS]
    assert faces.true_identities is None


def test_a_person_of_both_sets_has_the_images_of_both():
    faces = Joined([TWO, ONE], ["two", "one"], "merge")
    assert faces.people == ("a", "b", "c")
    assert faces.labels.tolist() == [1, 2, NO_CLASS, 0, 1, NO_CLASS]
    assert shades(faces) == [10, 11, 12, 0, 1, 2]


def test_people_of_different_sets_are_different_people():
    faces = Joined([ONE, TWO], ["one", "two"], "apart")
    assert faces.people == ("one/a", "one/b", "two/b", "two/c")
    assert faces.identities[2] == faces.identities[5] == "-1"


def test_images_in_any_order_and_of_one_set_alone():
    faces = Joined([ONE, TWO], ["one", "two"], "merge")
    assert faces.images([5, 0, 3, 1])[:, 0, 0, 0].tolist() == [12, 0, 10, 1]
    assert faces.images([4])[:, 0, 0, 0].tolist() == [11]
    assert faces.images([]).shape == (0, 3, 4, 4)
    assert faces.select([4, 0]).images([0, 1])[:, 0, 0, 0].tolist() == [11, 0]


def test_spellings_of_one_name_are_one_person_by_the_rule_of_the_sets():
    one, other = grey(0, ("1", "2"), ("a", "b"), ("x", "x")), grey(20, ("1",), ("B",), ("x",))
    with pytest.raises(ValueError, match="'B'"):
        Joined([one, other], ["one", "two"], "merge")
    one.names_rule = other.names_rule = "merge"
    a, b, same = Joined([one, other], ["one", "two"], "merge").identities
    assert a != b == same


def test_the_truth_of_one_set_is_kept():
    noisy = grey(20, ("1", "2"), ("d", "e"), ("x", "x"))
    noisy.true_identities = ("e", "e")
    assert Joined([ONE, noisy], ["one", "two"]).true_identities == ("a", "b", "-1", "e", "e")


def test_true_identities_are_spelled_as_the_identities():
    one, other = grey(0, ("1", "2"), ("Ann", "Ben")), grey(20, ("1", "2"), ("ANN", "Ben"))
    other.true_identities = ("ANN", "BEN")
    with pytest.raises(ValueError, match=r"'Ann' \('one/1'\) and 'ANN' \('two/1'\) are one name"):
        Joined([one, other], ["one", "two"], "merge")
    with names_taken("merge"):
        faces = Joined([one, other], ["one", "two"], "merge")
    assert faces.identities == faces.true_identities == ("ANN", "Ben", "ANN", "Ben")
    assert faces.names_rule == "merge"


RULES: tuple[Names | None, ...] = ("merge", "exact", None)


@pytest.mark.parametrize("same", ["first", "merge"])
@pytest.mark.parametrize(("first", "second"), [(one, two) for one in RULES for two in RULES])
def test_names_of_two_sets_are_taken_by_a_rule_of_both(same: SamePeople, first: Names | None, second: Names | None):
    one, two = grey(0, ("1", "2"), ("a", "b")), grey(20, ("1", "2"), ("B", "C"))
    one.names_rule, two.names_rule = first, second
    if "exact" in (first, second) and "merge" not in (first, second):
        faces = Joined([one, two], ["one", "two"], same)
        assert (faces.people, faces.names_rule) == (("B", "C", "a", "b"), "exact")
    elif first == second == "merge":
        assert Joined([one, two], ["one", "two"], same).people == ("B", "C", "a")
    else:
        with pytest.raises(ValueError, match="are one name but for case"):
            Joined([one, two], ["one", "two"], same)
    with names_taken("exact"):
        assert len(Joined([one, two], ["one", "two"], same).people) == 4


def test_a_prefix_hides_no_name():
    """Below a numbered folder what has a digit is a session; no training would be compared with it."""
    one, two = grey(0, ("1", "2"), ("p0001", "Ann")), grey(20, ("1",), ("p0002",))
    with pytest.raises(ValueError, match=r"prefix '2023' has no letter, so '2023/p0001' would be no name but"):
        Joined([one, two], ["2023", "two"], "apart")
    assert Joined([one, two], ["2023", "two"]).people == ("Ann", "p0001", "p0002")
    assert Joined([one, two], ["y2023", "two"], "apart").people == ("two/p0002", "y2023/Ann", "y2023/p0001")
    for names in (("Ann", "Ben"), ("17", "18"), ("0000123/session1", "-1")):
        Joined([grey(0, ("1", "2"), names), two], ["2023", "two"], "apart")


def test_a_source_states_what_each_set_records():
    drawn = SyntheticFaces(people=2, images=2, size=48)
    both = Joined([drawn, drawn], ["a", "b"], "apart").source
    assert (both.drawn, both.place) == (drawn.source.drawn, f"{drawn.source.place} and {drawn.source.place}")
    assert Joined([drawn, grey(0, ("1",), ("a",), ("x",), 48)], ["a", "b"]).source.drawn is True


@pytest.mark.parametrize(
    ("other", "template", "detector"),
    [
        ("arcface_112x112 by SCRFD", "arcface_112x112", "MTCNN+SCRFD"),
        ("mine (tight) by MTCNN", "arcface_112x112+mine (tight)", "MTCNN"),
        (None, "arcface_112x112", "MTCNN"),
    ],
)
def test_sets_of_other_crops_are_no_set_of_unknown_crops(other, template, detector):
    sets = [
        InMemory(one.pixels, one.names, one.identities, one.domains, source=ImageSource("a", None, alignment))
        for one, alignment in ((ONE, "arcface_112x112 by MTCNN"), (TWO, other))
    ]
    source = Joined(sets, ["one", "two"]).source
    assert (source.template, source.detector) == (template, detector)


def test_a_join_of_joins_records_what_a_join_of_all_does():
    alignments = (
        "arcface_112x112 by MTCNN",
        "arcface_112x112 by SCRFD",
        "mine by MTCNN",
        "arcface_112x112 by the landmarks in a+b.csv",
        "the place they are drawn at",
    )
    a, b, c, d, e = (ImageSource("a", None, alignment) for alignment in alignments)
    assert joint_source("", [a, joint_source("", [a, b])]).detector == "MTCNN+SCRFD"
    for parts in ([a, a, b], [a, b, c], [a, b, e], [a, d, d], [c, e, a]):
        whole = joint_source("", parts)
        for nested in (
            [parts[0], joint_source("", parts[1:])],
            [joint_source("", parts[:2]), parts[2]],
            [joint_source("", parts[:2]), joint_source("", parts[1:]), *parts],
        ):
            assert joint_source("", nested) == whole


def test_refusals():
    for prefixes in (["one"], ["one", "one"], ["", "two"], ["a", "a/b"]):
        with pytest.raises(ValueError, match=r"for 2 sets; two sets or more take a name each, all different"):
            Joined([ONE, TWO], prefixes)
    with pytest.raises(ValueError, match="some of the sets have domains and others do not"):
        Joined([ONE, grey(0, ("1",), ("a",))], ["one", "two"])
    faces = Joined([ONE, grey(0, ("1",), ("z",), ("x",), size=5)], ["one", "two"])
    with pytest.raises(ValueError, match=r"sizes \[\(4, 4\), \(5, 5\)\]; give all sets one size"):
        faces.images([0, 3])
