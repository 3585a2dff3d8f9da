"""Generated images are marked in their pixels and in their file."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from verisphere.study.invert.marks import (
    COLOUR,
    IMAGES,
    UNDER_MARKS,
    marked,
    read_unmarked,
    write_grid,
    write_marked,
    write_under_marks,
)


@pytest.mark.parametrize("size", [(112, 112), (112, 96), (16, 16), (9, 40)])
def test_the_band_covers_the_last_rows_and_nothing_else(size: tuple[int, int]):
    pixels = torch.randint(0, 200, (3, *size), dtype=torch.uint8)
    before = pixels.clone()
    result = marked(pixels)
    band = max(size[0] // 9, 1)
    assert torch.equal(pixels, before)
    assert torch.equal(result[:, :-band], pixels[:, :-band])
    corners = result[:, -band:][:, :, [0, -1]]
    assert (corners == torch.tensor(COLOUR, dtype=torch.uint8)[:, None, None]).all()


def test_what_lies_under_the_bands_is_kept_apart(tmp_path: Path):
    pixels = torch.randint(0, 256, (11, 3, 20, 30), dtype=torch.uint8)
    (tmp_path / IMAGES).mkdir()
    for number, image in enumerate(pixels, start=1):
        write_marked(tmp_path / IMAGES / f"{number:05d}_a.png", image)
    write_under_marks(tmp_path / UNDER_MARKS, pixels)
    assert np.load(tmp_path / UNDER_MARKS)["rows"].shape == (11, 3, 2, 30)  # a ninth, and no whole image
    assert torch.equal(read_unmarked(tmp_path), pixels)


def test_the_word_is_legible_in_a_face():
    band = marked(torch.zeros(3, 112, 112, dtype=torch.uint8))[1, -12:]  # green: 0 in the band, 255 in letters
    columns = (band > 128).any(0).nonzero().flatten()
    assert 40 <= len(columns) <= 112
    assert 5 <= (band > 128).any(1).sum() <= 12


def test_the_file_says_that_it_is_generated(tmp_path: Path):
    pixels = torch.randint(0, 256, (3, 32, 32), dtype=torch.uint8)
    write_marked(tmp_path / "a.png", pixels)
    with Image.open(tmp_path / "a.png") as file:
        assert "Not a photograph" in file.text["Description"]
        assert "digitalsourcetype/trainedAlgorithmicMedia" in file.text["XML:com.adobe.xmp"]
        assert np.array_equal(np.asarray(file), marked(pixels).permute(1, 2, 0).numpy())


def test_a_grid_has_each_image_below_its_photograph(tmp_path: Path):
    generated = torch.stack([torch.full((3, 18, 16), value, dtype=torch.uint8) for value in range(1, 11)])
    photos = [torch.full((3, 18, 16), 100 + value, dtype=torch.uint8) for value in range(1, 11)]
    write_grid(tmp_path / "grid.png", generated, photos)
    with Image.open(tmp_path / "grid.png") as file:
        assert "Generated" in file.text["Description"]
        sheet = np.asarray(file)
    assert sheet.shape == (4 * 18, 8 * 16, 3)
    assert (sheet[0, 0] == 101).all()
    assert (sheet[18, 0] == 1).all()
    assert (sheet[2 * 18, 16] == 110).all()
    assert (sheet[3 * 18, 16] == 10).all()
    assert (sheet[2 * 18, 3 * 16] == 255).all()  # no tenth-but-one image
    assert tuple(sheet[2 * 18 - 1, 0]) == COLOUR
    write_grid(tmp_path / "alone.png", generated[:2], [])
    with Image.open(tmp_path / "alone.png") as file:
        assert file.size == (32, 18)
