"""The files of a result: all of them, or none where the images are not those of the names."""

from pathlib import Path

import numpy as np
import pytest
import torch

from verisphere.images import InMemory
from verisphere.study.clean.cleaning import JSON, KEPT, Cleaning
from verisphere.study.clean.page import write_result
from verisphere.study.clean.rules import Rule
from verisphere.study.clean.sub_classes import SamplesInSubClasses, sub_classes


def test_a_list_is_not_written_beside_images_of_other_names(tmp_path: Path):
    cosines = np.cos(np.radians([[10.0], [20.0], [80.0]])).astype(np.float32)
    sub = sub_classes(cosines, np.zeros(3, np.int64), classes=1)
    found = SamplesInSubClasses(("Ann/1", "Ann/2", "Ann/3"), ("Ann",) * 3, ("Ann",), sub, "by hand")
    faces = InMemory(torch.zeros(1, 3, 8, 8, dtype=torch.uint8), ("Ben/1",), ("Ben",))
    with pytest.raises(ValueError, match="are not in it"):
        write_result(Cleaning.by(Rule(75.0), found), faces, tmp_path, "by hand")
    assert not (tmp_path / KEPT).exists()
    assert not (tmp_path / JSON).exists()
