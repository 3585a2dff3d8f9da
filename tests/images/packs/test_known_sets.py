"""Published sets are recognised by names alone, and what is said of them is one line."""

import re
from pathlib import Path
from typing import get_args

import pytest

from verisphere.images.packs.known_sets import KNOWN_SETS, KnownSet, Terms, known_set

NAMES = {
    "celeb-1m": "MS-Celeb-1M",
    "MS-Celeb-1M_align_112x112": "MS-Celeb-1M",
    "MS1M_wo_RFW": "MS-Celeb-1M",
    "faces_ms1m_112x112": "MS1MV1",
    "faces_emore/train.rec": "MS1MV2",
    "MS1MV2.zip": "MS1MV2",
    "faces_ms1m-refine-v2_112x112": "MS1MV2",
    "ms1m-retinaface-t1/imgs": "MS1MV3",
    "Glint360K/part3/00001.tar": "Glint360K",
    "faces_glint_112x112": "DeepGlint",
    "WebFace42M_parquet": "WebFace260M",
    "webface42m_shuffled_10": "WebFace260M",
    "casia-maxpy-clean": "CASIA-WebFace",
    "VGG-Face2_train": "VGGFace2",
    "vgg2_fp.bin": "VGG2-FP",
    "megaface_testpack.zip": "MegaFace",
    "lfw_112.zip": "LFW",
    "lfw_raw_sample.zip": "LFW",
    "faces_emore/lfw.bin": "LFW",
    "agedb_30.bin": "AgeDB",
    "RFW/test/data": "RFW",
    "BUPT-Balancedface/race_per_7000": "BUPT-Balancedface",
    "ijb-testsuite": "IJB-A",
    "orl.zip": "ORL",
    "dcface_0.5m_oversample_xid": "DCFace",
}


def started(name: str) -> KnownSet:
    """The one set whose name starts with a text, up to a comma or a space."""
    (known,) = (known for known in KNOWN_SETS if known.name.replace(",", " ").split()[0] == name)
    return known


@pytest.mark.parametrize("name", NAMES)
def test_a_name_means_a_set(name: str):
    assert known_set(Path("/data") / name) == started(NAMES[name])


OTHERS = """
    faces.zip holiday train.rec images orlando.zip my_lfw.zip lfw_ours lfw_ours/train.rec lfw/holiday.zip lfw_unsere_ä
    lfw_наши casual atta matte glint cfp_call team_orl webface_ours ms1mv2_and_ours megafaces emorecords -
    00001.tar equalized_face
"""


@pytest.mark.parametrize("name", [*OTHERS.split(), ""])
def test_any_other_name_means_none(name: str):
    assert known_set(Path("/data") / name) is None


def test_no_word_means_two_sets():
    words = [word for known in KNOWN_SETS for word in known.words]
    assert len(words) == len(set(words))
    assert all(word.isalnum() and word == word.lower() for word in words)


def test_a_note_says_when_and_what():
    assert len(KNOWN_SETS) > 40
    for known in KNOWN_SETS:
        assert known.terms in get_args(Terms), known.name
        assert re.search(r"\b(19|20)\d\d\b", known.note), known.name
        assert known.line().isprintable(), known.name
        assert "|" not in known.line(), known.name  # a cell of a table
        if known.terms == "withdrawn":
            assert re.search("publisher.* (withdrew|took|ended)", known.note), known.name
        if known.terms == "not stated":
            assert re.search("no licence|credited|for the code", known.note), known.name
