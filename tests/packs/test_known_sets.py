"""Published sets are recognised by names alone, and what is said of them is one line."""

from pathlib import Path

import pytest

from verisphere.packs.known_sets import KNOWN_SETS, known_set

NAMES = {
    "ms1m": "withdrawn",
    "faces_emore/train.rec": "withdrawn",
    "MS1MV2.zip": "withdrawn",
    "ms1m-retinaface-t1": "withdrawn",
    "glint360k/train.rec": "non-commercial",
    "WebFace42M_parquet": "research only",
    "webface260m.tar": "research only",
    "faces_webface_112x112": "research only",
    "casia-webface.lmdb": "research only",
    "VGGFace2.rec": "withdrawn",
    "megaface_testpack.zip": "withdrawn",
    "celeb-1m": "withdrawn",
    "umdface": "research only",
    "lfw_112.zip": "not stated",
    "faces_emore/lfw.bin": "not stated",
    "cfp_fp.bin": "not stated",
    "agedb_30.bin": "non-commercial",
    "calfw.bin": "not stated",
    "cplfw.bin": "not stated",
    "ytf": "research only",
    "RFW": "non-commercial",
    "IJB-C": "research only",
    "tinyface": "research only",
    "BUPT-Balancedface": "non-commercial",
    "imdb-face": "research only",
    "asian-celeb": "research only",
    "orl.zip": "not stated",
    "digiface-1m": "non-commercial",
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_means_a_set(name: str):
    known = known_set(Path("/data") / name)
    assert known is not None
    assert known.terms == NAMES[name]
    assert "\n" not in known.line()


@pytest.mark.parametrize("name", ["faces.zip", "holiday", "train.rec", "orlando.zip", "my_lfw.zip", "", "-"])
def test_any_other_name_means_none(name: str):
    assert known_set(Path("/data") / name) is None


def test_no_word_means_two_sets():
    words = [word for known in KNOWN_SETS for word in known.words]
    assert len(words) == len(set(words))
    assert all(word.isalnum() and word == word.lower() for word in words)


def test_what_is_withdrawn_names_who_or_when():
    for known in KNOWN_SETS:
        if known.terms == "withdrawn":
            assert "publisher" in known.note
