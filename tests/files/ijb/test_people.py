"""Gallery and probe files, and covariates: columns by their names, rows a face or a template."""

import re
from pathlib import Path

import pytest

from verisphere.files.ijb import IjbFiles
from verisphere.files.ijb.people import read_covariate, read_people


@pytest.mark.parametrize(
    "text",
    [
        "TEMPLATE_ID,SUBJECT_ID\n7,Ann\n2,17\n",
        "subject_id, template_id ,FILENAME\n\nAnn,7,a.jpg\nAnn,7,b.jpg\n17, 2 ,c.jpg\n",
        'FILENAME,TEMPLATE_ID,SUBJECT_ID\n"a,b.jpg",007,Ann\nc.jpg,2,17\nd.jpg,7,Ann\n',
    ],
)
def test_each_template_once_with_its_person(write, text: str):
    people = read_people(write(text))
    assert (people.templates.tolist(), people.subjects) == ([7, 2], ("Ann", "17"))


def test_lines_are_those_of_the_file(write):
    assert read_people(write("TEMPLATE_ID,SUBJECT_ID\n\n7,Ann\n7,Ann\n2,17\n")).lines == (3, 5)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it is empty; its first line names the columns"),
        ("1,7\n", "no column TEMPLATE_ID and no column SUBJECT_ID; its first line names the columns, which are 1, 7"),
        ("TEMPLATE_ID,SUBJECT_ID\n", "it lists no template"),
        ("TEMPLATE_ID,SUBJECT_ID\n1,a\n1.5,a\n", "line 3: TEMPLATE_ID is '1.5'; it must be a whole number"),
        ("TEMPLATE_ID,SUBJECT_ID\n1,\n", "line 2: SUBJECT_ID is '', which names no person"),
        ("TEMPLATE_ID,SUBJECT_ID\n1,nan\n", "line 2: SUBJECT_ID is 'nan', which names no person"),
        ("TEMPLATE_ID,SUBJECT_ID\n1,-1\n", "line 2: SUBJECT_ID is '-1', which names no person"),
        ("TEMPLATE_ID,SUBJECT_ID\n1,a\n1,b\n", "line 3: template 1 shows 'b', but 'a' on line 2"),
        ("TEMPLATE_ID,SUBJECT_ID,subject_id\n1,a,b\n", "2 columns are called SUBJECT_ID; rename all but the one that"),
        ("X,TEMPLATE_ID,SUBJECT_ID\n1,2\n", "line 2: 2 entries where the header has 3"),
    ],
)
def test_a_mistake_is_named(write, text: str, says: str):
    path = write(text)
    with pytest.raises(ValueError, match=re.escape(f"{path}: {says}")):
        read_people(path)


def test_a_covariate_that_two_columns_could_be_is_refused(write):
    path = write("SUBJECT_ID,GENDER,AGE,AGE,GENDER\na,F,3,4,M\n")
    with pytest.raises(ValueError, match=re.escape(f"{path}: 2 columns are called GENDER; rename")):
        read_covariate(path, "gender")


def test_other_columns_may_be_called_alike(write):
    assert read_people(write("TEMPLATE_ID,X,SUBJECT_ID,X\n7,1,Ann,2\n")).subjects == ("Ann",)


def test_a_covariate_by_template_or_by_person(write):
    path = write("TEMPLATE_ID,SUBJECT_ID,GENDER,AGE\n1,a,0.0,nan\n1,a,0,3\n2,b,1,4\n2,b,1,5\n3,c,,\n4,d,1.5,-2.0\n")
    gender = read_covariate(path, "gender")
    assert (gender.by, gender.values) == ("TEMPLATE_ID", {"1": "0", "2": "1", "4": "1.5"})
    assert (gender.several, gender.missing) == (0, 1)
    age = read_covariate(path, "AGE")
    assert (age.values, age.several, age.missing) == ({"1": "3", "4": "-2"}, 1, 1)
    by_person = read_covariate(write("SUBJECT_ID,SKINTONE\na,2\nb,nan\n"), "SKINTONE")
    assert (by_person.by, by_person.values, by_person.missing) == ("SUBJECT_ID", {"a": "2"}, 1)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("TEMPLATE_ID,SUBJECT_ID\n1,a\n", "no column GENDER"),
        ("GENDER\n1\n", "no column TEMPLATE_ID"),
        ("TEMPLATE_ID,GENDER\nx,1\n", "line 2: TEMPLATE_ID is 'x'"),
    ],
)
def test_a_covariate_that_cannot_be_read_is_named(write, text: str, says: str):
    path = write(text)
    with pytest.raises(ValueError, match=re.escape(f"{path}: {says}")):
        read_covariate(path, "GENDER")


def test_files_that_need_each_other():
    some = Path("some")
    for arguments, says in (
        ((some, some, None, (some,)), "--gallery and --probes make 1:N together"),
        ((some, some, None, (), some), "--gallery and --probes make 1:N together"),
        ((some, None), "there is nothing to evaluate"),
        ((some, None, None, (some,), some, some), "--covariates groups the pairs of --pairs"),
    ):
        with pytest.raises(ValueError, match=says):
            IjbFiles(*arguments)
    assert IjbFiles(some, None, None, (some,), some).all == (some, some, some)
