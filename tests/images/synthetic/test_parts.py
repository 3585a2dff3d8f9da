import pytest
import torch

from verisphere.images.synthetic import draws as synthetic_random
from verisphere.images.synthetic import render as synthetic_scene
from verisphere.images.synthetic import synthetic_faces as synthetic_camera
from verisphere.images.synthetic.identity import Columns, hair_colour, iris_colour, skin_colour, transmittance
from verisphere.images.synthetic.render import render
from verisphere.images.synthetic.synthetic_faces import SyntheticFaces


def unsigned(words: torch.Tensor) -> list[int]:
    return [word % (1 << 64) for word in words.flatten().tolist()]


class TestRandom:
    def test_words_are_splitmix64(self) -> None:
        # the generator's published first outputs for seed 0
        published = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
        assert unsigned(synthetic_random.words(torch.tensor([0]), 3)) == published

    def test_keys_of_a_tree_do_not_collide(self) -> None:
        parents, numbers = torch.arange(300).repeat_interleave(300), torch.arange(300).repeat(300)
        children = synthetic_random.keys(parents, numbers)
        assert len(children.unique()) == 90_000
        assert children[1] != synthetic_random.keys(torch.tensor(1), torch.tensor(0))

    def test_uniforms_fill_the_unit_interval(self) -> None:
        draws = synthetic_random.uniforms(torch.arange(5000), 20)
        assert 0 <= draws.min() < 0.001
        assert 0.999 < draws.max() < 1
        assert draws.mean().item() == pytest.approx(0.5, abs=0.004)
        assert torch.corrcoef(draws.T).fill_diagonal_(0).abs().max() < 0.07

    def test_bells_have_unit_variance_and_bounded_tails(self) -> None:
        ends = synthetic_random.bells(torch.tensor([0, -1]))
        # four uniform parts: 2 half ranges over sqrt(4 / 12) ranges = 2 sqrt(3)
        assert ends.tolist() == pytest.approx([-(12**0.5), 12**0.5], abs=1e-4)
        draws = synthetic_random.normals(torch.arange(5000), 20)
        assert draws.mean().item() == pytest.approx(0, abs=0.015)
        assert draws.var().item() == pytest.approx(1, abs=0.02)

    def test_noise_is_the_same_for_a_key_and_differs_between_keys(self) -> None:
        noise = synthetic_random.noise(torch.tensor([7, 8, 7]), 18_816)
        assert torch.equal(noise[0], noise[2])
        assert abs(torch.corrcoef(noise[:2])[0, 1]) < 0.04
        assert noise.std().item() == pytest.approx(1, abs=0.03)

    def test_noise_refuses_what_its_plate_cannot_hold(self) -> None:
        with pytest.raises(ValueError, match="count is 600000"):
            synthetic_random.noise(torch.tensor([1]), 600_000)


class TestColours:
    def test_transmittance_by_hand(self) -> None:
        # (1 + 4 / 4)^-4 = 1 / 16
        assert transmittance(torch.tensor([0.0, 4.0])).tolist() == [1.0, 0.0625]

    def test_skin_darkens_with_melanin_and_keeps_the_order_of_its_channels(self) -> None:
        melanin = torch.linspace(0, 2, 9).view(-1, 1, 1)
        skin = skin_colour(melanin, torch.full_like(melanin, 0.5)).flatten(1)
        assert (skin.diff(dim=0) < 0).all()
        assert (skin[:, 0] > skin[:, 1]).all()
        assert (skin[:, 1] > skin[:, 2]).all()
        assert ((skin > 0) & (skin < 1)).all()

    def test_hair_greys_and_eyes_turn_from_blue_to_brown(self) -> None:
        one = torch.ones(1, 1, 1)
        dark, old = hair_colour(one * 2, one * 0.2, one * -1), hair_colour(one * 2, one * 0.2, one * 0.9)
        assert (old > dark).all()
        assert (old.max() - old.min()).item() < 0.05
        blue, brown = iris_colour(one * 0).flatten(), iris_colour(one).flatten()
        assert blue[2] > blue[0]
        assert brown[0] > brown[2]

    def test_columns_refuse_names_that_do_not_fit(self) -> None:
        with pytest.raises(ValueError, match="2 columns but 1 names"):
            Columns(torch.zeros(3, 2), ("jaw",))


class TestScene:
    def test_masks_by_hand(self) -> None:
        across = torch.tensor([[[0.0, 1.0, 2.0, 3.0]]])
        level = torch.zeros_like(across)
        # 1 - (x / 2)^2
        assert synthetic_scene.spot(across, level, 2.0, 1.0).tolist() == [[[1.0, 0.75, 0.0, 0.0]]]
        # (0.75 / 0.5 + 0.5) is cut at 1; the rim is half covered
        assert synthetic_scene.disc(across, level, 2.0, 1.0, 0.5).tolist() == [[[1.0, 1.0, 0.5, 0.0]]]
        assert synthetic_scene.line(across, 2.0).tolist() == [[[1.0, 0.5, 0.0, 0.0]]]
        assert synthetic_scene.cover(across - 1, 0.25).tolist() == [[[0.25, 0.5, 0.75, 1.0]]]

    def test_paint_mixes_in_place(self) -> None:
        picture = torch.zeros(1, 3, 1, 2)
        synthetic_scene.paint(picture, torch.tensor([[[0.25, 1.0]]]), torch.tensor([1.0, 2.0, 4.0]).view(1, 3, 1, 1))
        assert picture.flatten(1).tolist() == [[0.25, 1.0, 0.5, 2.0, 1.0, 4.0]]

    def test_light_direction_has_length_one(self) -> None:
        _, photo, _ = SyntheticFaces(people=50, images=1).parameters(range(50))
        squares = sum((part * part for part in synthetic_scene.light_direction(photo)), torch.zeros(1))
        assert torch.allclose(squares, torch.ones_like(squares), atol=1e-6)

    def test_a_turn_carries_the_face_and_a_roll_tilts_it(self) -> None:
        person, photo, _ = SyntheticFaces(people=2, images=1).parameters(range(2))
        names = {name: number for number, name in enumerate(photo.names)}
        still = torch.zeros_like(photo.values)
        still[:, names["zoom"]] = 1
        still[1, names["yaw"]] = 0.3
        scene = synthetic_scene.stage(person, Columns(still, photo.names), 112)
        # the face's middle, face_x = 0, lies where x cos = bulge depth sin: to the right of the frame's middle
        middle = scene.face_x[:, 56].abs().argmin(1)
        assert middle[0] in (55, 56)
        assert 60 < middle[1] < 75
        still[0, names["roll"]] = 0.3
        rolled = synthetic_scene.stage(person, Columns(still, photo.names), 112)
        assert rolled.x[0, 0, 56] < 0 < rolled.x[0, 111, 56]

    @pytest.mark.parametrize("difficulty", ["medium", "hard"])
    def test_bands_of_rows_cut_no_feature_off(self, difficulty: str, monkeypatch: pytest.MonkeyPatch) -> None:
        person, photo, _ = SyntheticFaces(people=96, images=1, difficulty=difficulty).parameters(range(96))
        banded = render(person, photo, 112)
        monkeypatch.setattr(synthetic_scene.Scene, "rows", lambda self, top, bottom: self)
        assert torch.equal(render(person, photo, 112), banded)

    def test_pictures_are_finite_and_within_bounds(self) -> None:
        person, photo, _ = SyntheticFaces(people=64, images=1, difficulty="hard").parameters(range(64))
        pictures = render(person, photo, 64)
        assert pictures.isfinite().all()
        assert pictures.min() >= 0
        assert pictures.max() < 3


class TestCamera:
    def test_the_block_transform_is_orthogonal(self) -> None:
        rows = torch.tensor(synthetic_camera.TRANSFORM, dtype=torch.int64)
        assert (rows @ rows.T).tolist() == torch.diag(torch.tensor([512, 578, 320, 578, 512, 578, 320, 578])).tolist()

    def test_fine_steps_keep_the_plane(self) -> None:
        plane = torch.randint(-128, 128, (2, 24, 16), generator=torch.Generator().manual_seed(0)).float()
        kept = synthetic_camera.quantise(plane, torch.full((2,), 0.01), torch.full((2,), 8.0), 1)
        assert (kept - plane).abs().max() < 0.5  # rounding to bytes restores it

    def test_detail_one_leaves_the_means_of_blocks(self) -> None:
        plane = torch.randint(-128, 128, (1, 16, 16), generator=torch.Generator().manual_seed(1)).float()
        flat = synthetic_camera.quantise(plane, torch.tensor([0.01]), torch.tensor([1.0]), 1)
        means = plane.view(1, 2, 8, 2, 8).mean((2, 4))
        assert torch.allclose(flat[:, ::8, ::8], means, atol=0.05)
        assert (flat.view(1, 2, 8, 2, 8).amax((2, 4)) == flat.view(1, 2, 8, 2, 8).amin((2, 4))).all()

    def test_coarse_steps_round_by_hand(self) -> None:
        # a flat block of 10 has the orthonormal spectrum 80 at frequency 0; in steps of 32 that rounds to 2 * 32 = 64
        flat = synthetic_camera.quantise(torch.full((1, 8, 8), 10.0), torch.tensor([32.0]), torch.tensor([8.0]), 1)
        assert flat.unique().tolist() == [8.0]

    def test_growing_repeats_pixels(self) -> None:
        plane = torch.randint(-128, 128, (3, 8, 16), generator=torch.Generator().manual_seed(2)).float()
        step, detail = torch.tensor([4.0, 9.0, 20.0]), torch.tensor([8.0, 6.0, 3.0])
        once = synthetic_camera.quantise(plane, step, detail, 1)
        twice = synthetic_camera.quantise(plane, step, detail, 2)
        assert torch.equal(twice, once.repeat_interleave(2, 1).repeat_interleave(2, 2))

    def test_quantising_is_exact_in_float32(self) -> None:
        plane = torch.randint(-128, 128, (4, 112, 112), generator=torch.Generator().manual_seed(3)).float()
        step, detail = torch.tensor([3.0, 8.0, 16.0, 31.0]), torch.full((4,), 8.0)
        together = synthetic_camera.quantise(plane, step, detail, 1)
        units = together * 2**11
        assert torch.equal(units, units.round())
        assert units.abs().max() < 2**24

    def test_blur_by_hand(self) -> None:
        plane = torch.tensor([[[0.0, 0.0, 0.0], [0.0, 16.0, 0.0], [0.0, 0.0, 0.0]]])
        one, zero = torch.ones(1), torch.zeros(1)
        assert torch.equal(synthetic_camera.blur(plane.clone(), zero, zero), plane)
        # 1 2 1 over 4 across leaves half in the middle; down then half of that
        assert synthetic_camera.blur(plane.clone(), one, zero)[0, 1, 1].item() == 8
        assert synthetic_camera.blur(plane.clone(), one, one)[0, 1, 1].item() == 4

    def test_halving_averages_four(self) -> None:
        assert synthetic_camera.halved(torch.tensor([[[1.0, 3.0], [5.0, 11.0]]])).tolist() == [[[5.0]]]

    def test_the_film_curve_keeps_black_and_white(self) -> None:
        _, photo, _ = SyntheticFaces(people=1, images=1).parameters([0])
        values = photo.values.clone()
        for name in ("exposure", "tint", "contrast"):
            values[:, photo.names.index(name)] = 0
        ramp = torch.tensor([0.0, 0.05, 0.5, 1.0]).expand(1, 3, 1, 4).clone()
        shown = synthetic_camera.expose(ramp, Columns(values, photo.names))[0, 0, 0]
        # 0.5 * 2.5 / (0.5 + 1.5) = 0.625
        assert shown.tolist() == pytest.approx([0, 0.125 / 1.55, 0.625, 1])
