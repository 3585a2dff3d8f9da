"""Augmentation: values worked out by hand, limits, and the same numbers whatever else is switched on."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from PIL import Image

from verisphere.images.augment import Augment, augment, normalise

OFF = Augment(flip=0.0)
EVERYTHING = Augment(crop=0.1, low_resolution=0.5, smallest_side=8, brightness=0.2, contrast=0.2, saturation=0.2,
                     grey=0.2, erase=0.5)  # fmt: skip


def faces(batch: int = 8, height: int = 24, width: int = 20, seed: int = 0) -> torch.Tensor:
    return torch.randint(
        256, (batch, 3, height, width), generator=torch.Generator().manual_seed(seed), dtype=torch.uint8
    )


def smooth(batch: int = 8, height: int = 24, width: int = 20) -> torch.Tensor:
    """Levels that rise by 4 a column and 2 a row: a bilinear resampling of them is exact."""
    levels = 4 * torch.arange(width) + 2 * torch.arange(height)[:, None]
    return levels.to(torch.uint8).expand(batch, 3, -1, -1)


def levels(images: torch.Tensor, settings: Augment, seed: int = 0) -> torch.Tensor:
    """Augmented images in [0, 255]."""
    return augment(images, settings, seed, mean=0.0, scale=1.0)


# --- normalisation ---


def test_normalise_maps_black_and_white_to_minus_one_and_one():
    image = torch.tensor([0, 255, 51], dtype=torch.uint8).view(1, 3, 1, 1)
    assert normalise(image).flatten().tolist() == pytest.approx([-1.0, 1.0, -0.6])
    assert normalise(image, mean=127.5, scale=128.0).flatten().tolist() == pytest.approx(
        [-0.99609375, 0.99609375, -0.59765625]
    )


@pytest.mark.parametrize("settings", [OFF, Augment(), EVERYTHING, Augment(erase=1.0), Augment(crop=0.1)])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_every_path_gives_channels_last_float32_and_leaves_the_input(settings: Augment, layout: torch.memory_format):
    images = faces().contiguous(memory_format=layout)
    before = images.clone()
    result = augment(images, settings, 0)
    assert result.dtype == torch.float32
    assert result.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(images, before)
    assert torch.equal(result, augment(images.contiguous(), settings, 0))
    assert result.min() >= -1
    assert result.max() <= 1


def test_everything_off_is_normalise_bit_for_bit():
    assert torch.equal(augment(faces(), OFF, 0, 120.0, 64.0), normalise(faces(), 120.0, 64.0))


def test_no_images():
    assert augment(faces(0), EVERYTHING, 0).shape == (0, 3, 24, 20)


# --- draws ---


def test_the_same_seed_gives_the_same_images_and_another_gives_others():
    assert torch.equal(augment(faces(), EVERYTHING, 5), augment(faces(), EVERYTHING, 5))
    assert not torch.equal(augment(faces(), EVERYTHING, 5), augment(faces(), EVERYTHING, 6))


def test_an_image_does_not_depend_on_those_behind_it():
    torch.testing.assert_close(augment(faces()[:3], EVERYTHING, 5), augment(faces(), EVERYTHING, 5)[:3])


def test_some_images_of_a_batch_are_varied_as_in_the_whole_of_it():
    places = [4, 0, 2]  # processes that share a batch see together what one would
    some = augment(faces()[places], EVERYTHING, 5, places=places)
    torch.testing.assert_close(some, augment(faces(), EVERYTHING, 5)[places])


def test_there_is_a_place_for_each_image():
    with pytest.raises(ValueError, match="2 places from 0 on came with 3 images"):
        augment(faces(3), OFF, 0, places=[0, 1])
    with pytest.raises(ValueError, match="1 places from -1 on"):
        augment(faces(1), OFF, 0, places=[-1])


def test_switching_a_step_on_leaves_the_draws_of_the_others():
    flipped = (augment(smooth(64), Augment(), 1) != normalise(smooth(64))).flatten(1).any(1)
    grey = Augment(grey=1.0)  # the three channels are equal: changes nothing
    assert torch.equal((augment(smooth(64), grey, 1) - normalise(smooth(64))).abs().flatten(1).amax(1) > 1e-3, flipped)


def test_half_precision_around_it_changes_nothing():
    with torch.autocast("cpu", torch.bfloat16):
        inside = augment(faces(), EVERYTHING, 0)
    assert torch.equal(inside, augment(faces(), EVERYTHING, 0))


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_the_device_changes_nothing_visible():
    torch.testing.assert_close(
        augment(faces().to("cuda"), EVERYTHING, 0).cpu(), augment(faces(), EVERYTHING, 0), atol=4e-3, rtol=0
    )


# --- geometry ---


def test_flips_are_exact_and_as_frequent_as_stated():
    images = faces(2000, 4, 4)
    result = levels(images, Augment(flip=0.3))
    kept = (result == images).flatten(1).all(1)
    mirrored = (result == images.flip(-1)).flatten(1).all(1)
    assert bool((kept | mirrored).all())
    assert float(mirrored.float().mean()) == pytest.approx(0.3, abs=4 * math.sqrt(0.3 * 0.7 / 2000))
    assert torch.equal(levels(images, Augment(flip=1.0)), images.flip(-1).float())


def test_a_flip_by_resampling_is_the_same_flip():
    tiny = dataclasses.replace(Augment(), crop=1e-9)
    torch.testing.assert_close(levels(faces(), tiny), levels(faces(), Augment()), atol=1e-3, rtol=1e-5)


def test_crops_keep_straight_lines_and_stay_within_the_stated_window():
    crop = 0.2
    result = levels(smooth(200, 40, 40), dataclasses.replace(OFF, crop=crop))[:, 0, 12:28, 12:28]  # away from borders
    across, down = result.diff(dim=2), result.diff(dim=1)
    zoom = across.mean((1, 2)) / 4
    bent = (across - across.mean((1, 2), keepdim=True)).abs().amax((1, 2))
    assert float(bent[zoom <= 1].max()) < 1e-3  # one zoom for the whole image
    assert float(bent.max()) < 0.5  # a widened triangle has no whole number of pixels under it: an eighth of a pixel
    torch.testing.assert_close(down.mean((1, 2)) / 2, zoom, atol=2e-2, rtol=0)  # and for both axes
    assert 1 - crop <= float(zoom.min()) < 1 - crop / 2
    assert 1 + crop / 2 < float(zoom.max()) <= 1 + crop + 2e-2
    centre = smooth(1, 40, 40)[0, 0, 12:28, 12:28].float().mean()
    moved = (result.mean((1, 2)) - centre).abs().max()
    assert 0.5 * (crop / 2) * 40 * 6 < float(moved) <= (crop / 2) * 40 * 6 + 1e-2  # 4 a column and 2 a row


def test_beyond_the_border_its_pixels_go_on():
    images = torch.full((50, 3, 16, 16), 80, dtype=torch.uint8)
    torch.testing.assert_close(levels(images, Augment(crop=0.5)), images.float(), atol=1e-3, rtol=0)


def test_low_resolution_agrees_with_pillow():
    """Each result is what Pillow gives for some side, and the sides cover the range."""
    settings = dataclasses.replace(OFF, low_resolution=1.0, smallest_side=8)
    images = faces(400, 24, 24)
    result = levels(images, settings)
    sides = set()
    for image, mine in zip(images[:40], result[:40], strict=True):
        picture = Image.fromarray(image.permute(1, 2, 0).numpy())
        differences = {}
        for side in range(8, 25):
            small = picture.resize((side, side), Image.Resampling.BILINEAR)
            large = np.asarray(small.resize((24, 24), Image.Resampling.BILINEAR), np.float32)
            differences[side] = float(np.abs(large - mine.permute(1, 2, 0).numpy()).max())
        best = min(differences, key=differences.__getitem__)
        assert differences[best] < 2  # Pillow rounds to whole levels, and its weights, four times
        sides.add(best)
    assert min(sides) <= 10
    assert max(sides) >= 20


def test_low_resolution_is_as_frequent_as_stated():
    images = faces(1000, 16, 16)
    kept = (levels(images, dataclasses.replace(OFF, low_resolution=0.25, smallest_side=4)) == images).flatten(1).all(1)
    assert 1 - float(kept.float().mean()) == pytest.approx(0.25, abs=0.07)  # a side drawn near 16 changes nothing


# --- colour ---


def test_brightness_multiplies():
    result = levels(torch.full((300, 3, 2, 2), 100, dtype=torch.uint8), dataclasses.replace(OFF, brightness=0.4))
    factor = result[:, 0, 0, 0] / 100
    torch.testing.assert_close(result, factor[:, None, None, None].expand_as(result) * 100)
    assert 0.6 <= float(factor.min()) < 0.62
    assert 1.38 < float(factor.max()) <= 1.4


def test_contrast_keeps_the_mean_luma():
    images = torch.tensor([90, 110], dtype=torch.uint8).view(1, 1, 1, 2).expand(300, 3, 1, 2)
    result = levels(images, dataclasses.replace(OFF, contrast=0.5))
    torch.testing.assert_close(result.mean((1, 2, 3)), torch.full((300,), 100.0))
    spread = (result[:, 0, 0, 1] - result[:, 0, 0, 0]) / 20
    assert 0.5 <= float(spread.min()) < 0.53
    assert 1.47 < float(spread.max()) <= 1.5


def test_saturation_keeps_the_luma():
    images = torch.tensor([150, 100, 50], dtype=torch.uint8).view(1, 3, 1, 1).expand(300, 3, 1, 1)
    result = levels(images, dataclasses.replace(OFF, saturation=0.5))
    weights = torch.tensor([0.299, 0.587, 0.114]).view(1, 3, 1, 1)
    # 0.299 * 150 + 0.587 * 100 + 0.114 * 50 = 109.25
    torch.testing.assert_close((result * weights).sum((1, 2, 3)), torch.full((300,), 109.25))
    spread = (result[:, 0] - result[:, 2]).flatten() / 100
    assert 0.5 <= float(spread.min()) < 0.53
    assert 1.47 < float(spread.max()) <= 1.5


def test_grey_is_the_luma():
    images = torch.tensor([150, 100, 50], dtype=torch.uint8).view(1, 3, 1, 1)
    torch.testing.assert_close(levels(images, dataclasses.replace(OFF, grey=1.0)), torch.full((1, 3, 1, 1), 109.25))


def test_values_are_clipped_to_what_an_image_can_hold():
    result = augment(faces(50), dataclasses.replace(OFF, brightness=0.9, contrast=0.9, saturation=0.9), 0)
    assert (float(result.min()), float(result.max())) == (-1.0, 1.0)


# --- erasing ---


def test_one_rectangle_of_the_stated_area_is_set_to_the_mean():
    images = torch.full((400, 3, 40, 40), 200, dtype=torch.uint8)
    result = augment(images, dataclasses.replace(OFF, erase=0.75, largest_erased=0.2), 0)
    erased = result == 0
    assert bool((erased | (result == normalise(images))).all())
    assert bool((erased == erased[:, :1]).all())
    mask = erased[:, 0]
    hit = mask.flatten(1).any(1)
    assert float(hit.float().mean()) == pytest.approx(0.75, abs=0.09)
    rows, columns = mask[hit].any(2).sum(1), mask[hit].any(1).sum(1)
    assert torch.equal(rows * columns, mask[hit].sum((1, 2)))  # a rectangle
    share = rows * columns / 1600
    assert 0.045 < float(share.min()) < 0.07
    assert 0.18 < float(share.max()) < 0.21
    assert float((rows / columns).max()) < 2.3
    assert mask.any(0).any(0).all()  # every column and every row is reached
    assert mask.any(0).any(1).all()


# --- arguments ---


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("flip", 1.5, r"flip is 1.5; a probability lies in \[0, 1\]"),
        ("low_resolution", -0.1, "low_resolution is -0.1"),
        ("grey", math.nan, "grey is nan"),
        ("erase", 2.0, "erase is 2.0"),
        ("crop", 1.0, r"crop is 1.0; a strength lies in \[0, 1\)"),
        ("brightness", -0.5, "brightness is -0.5"),
        ("contrast", 1.0, "contrast is 1.0"),
        ("saturation", math.inf, "saturation is inf"),
        ("largest_erased", 0.0, r"largest_erased is 0.0; .* \(0, 0.5\]"),
        ("smallest_side", 0, "smallest_side is 0"),
    ],
)
def test_settings_check_themselves(field: str, value: float, message: str):
    with pytest.raises(ValueError, match=message):
        Augment(**{field: value})


def test_wrong_arguments():
    with pytest.raises(ValueError, match="smallest_side is 16 but the images are 24 x 12"):
        augment(faces(2, 24, 12), Augment(low_resolution=0.1), 0)
    for scale in (0.0, -1.0, math.nan):
        with pytest.raises(ValueError, match="scale is"):
            augment(faces(), OFF, 0, scale=scale)
        with pytest.raises(ValueError, match="scale is"):
            normalise(faces(), scale=scale)
