"""The pictures of docs/losses.md: curves at points known by hand, boundaries, small trainings, files written whole."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from figures import loss_curves
from figures.losses import FIGURES, draw_figures
from figures.toy_features import (
    Features,
    ToySize,
    ToyTraining,
    draw_photographs,
    train_softmax,
    train_sphereface2,
)
from verisphere.losses import ArcFace, CosFace, NormFace, QMargin, SphereFace, SphereFace2

TINY = ToySize(people=3, many=4, images=10, held_out=3, width=8, steps=6, batch=8)


# ------------------------------------------------------------------------------------------------------- curves


@pytest.mark.parametrize(
    ("loss", "degrees", "expected"),
    [
        (ArcFace(), 60.0, 0.0235966),  # cos(60 degrees + 0.5)
        (CosFace(), 60.0, 0.15),
        (SphereFace(), 60.0, 0.1564345),  # cos(81 degrees)
        (NormFace(), 60.0, 0.5),
        # cos(pi) - cos(pi - 0.5) - 1 = -1 + 0.8775826 - 1
        (ArcFace(), 180.0, -1.1224174),
        (ArcFace(beyond="plain"), 180.0, -0.8775826),
        # -1 - 0.5 sin(0.5)
        (ArcFace(beyond="released"), 180.0, -1.2397128),
    ],
)
def test_target_logit(loss, degrees, expected):
    assert loss_curves.target_logit(loss, np.array([degrees]))[0] == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize(
    ("loss", "first", "second"),
    [
        (NormFace(), 40.0, 40.0),
        (ArcFace(), 40.0, 40.0 + math.degrees(0.5)),
        (SphereFace(), 40.0, 54.0),
        (CosFace(), 0.0, math.degrees(math.acos(0.65))),
        (CosFace(), 60.0, math.degrees(math.acos(0.15))),
        (ArcFace(), 170.0, math.nan),  # below -1: class 1 wins at no angle of the other
    ],
)
def test_boundary_of_two_classes(loss, first, second):
    found = loss_curves.binary_boundary(loss, np.array([first]))[0]
    assert found == pytest.approx(second, abs=1e-5, nan_ok=True)


def test_modulation_by_hand():
    h, modulated = loss_curves.modulation(-10.0, np.array([0.0, 0.5, 1.0]))
    assert h == pytest.approx([1 / 11, 1 / 6, 1.0])
    assert modulated == pytest.approx([0.0, 1 / 12, 1.0])


def test_class_probabilities():
    # softmax: exp(2 * 0.5) : exp(0) : exp(0), and CosFace with m = 0.5 three alike
    rows = np.array([[0.5, 0.0, 0.0]])
    assert loss_curves.class_probabilities(NormFace(2.0), rows)[0] == pytest.approx(
        np.array([math.e, 1, 1]) / (math.e + 2)
    )
    assert loss_curves.class_probabilities(CosFace(0.5, 2.0), rows)[0] == pytest.approx(np.full(3, 1 / 3))
    # bases 0.6 and 0.8, as in tests/losses/test_q_margin.py; the third class lies outside the window of 2 logits
    rows = np.array([[0.18, 0.1, -0.2]])
    assert loss_curves.class_probabilities(QMargin(1.5, 0.2, 10.0), rows)[0] == pytest.approx([0.36, 0.64, 0.0])


def test_softmax_over_scale_by_hand():
    # three others at cosine 0, own 0: log 4; at s = 2 half of it
    found = loss_curves.softmax_over_scale(np.array([0.0]), (0.0, 0.0, 0.0), 2.0)
    assert found == pytest.approx([math.log(4) / 2])


def test_positive_term_by_hand():
    found = loss_curves.positive_term(np.array([0.0, 0.5]), 2.0)
    assert found == pytest.approx([math.log(2) / 2, math.log1p(math.exp(-1)) / 2])


def test_adjustment_by_hand():
    g, slope = loss_curves.adjustment(np.array([-1.0, 0.0, 1.0]), 3.0)
    assert g == pytest.approx([-1.0, -0.75, 1.0])
    assert slope == pytest.approx([0.0, 0.75, 3.0])


def test_a_jump_breaks_a_curve_and_a_slope_does_not():
    found = loss_curves.without_jumps(np.array([1.0, 1.04, 1.0, 0.5, 0.52]))
    assert found == pytest.approx([1.0, 1.04, 1.0, math.nan, 0.52], nan_ok=True)


# --------------------------------------------------------------------------------------------------- boundaries


def test_boundaries_of_sphereface2():
    loss = SphereFace2("C", 0.25, scale=10.0, t=2.0)
    loss.prepare(8)
    with torch.no_grad():
        loss.bias.fill_(5.0)  # 10 g + 5 = 0 where g = -0.5, so cos = 2 sqrt(0.25) - 1 = 0: 90 degrees
    positive, middle, negative = loss_curves.boundary_angles(loss)
    assert middle == pytest.approx(90.0)
    # g = -0.25 and -0.75: cos = 2 sqrt(0.375) - 1 and 2 sqrt(0.125) - 1
    assert positive == pytest.approx(math.degrees(math.acos(0.2247449)), abs=1e-4)
    assert negative == pytest.approx(math.degrees(math.acos(-0.2928932)), abs=1e-4)


def test_at_a_boundary_the_loss_is_at_its_middle():
    loss = SphereFace2("C", 0.3)
    loss.prepare(100)
    positive, _, negative = (torch.tensor([math.cos(math.radians(at))]) for at in loss_curves.boundary_angles(loss))
    bias = loss.bias.detach().expand(1)
    shift = bias + loss.scale * loss.negative_margin  # what `others` takes
    assert loss.own(positive, shift).item() == pytest.approx(math.log(2), abs=1e-4)
    assert loss.others(negative[:, None], shift[:, None]).item() == pytest.approx(math.log(2), abs=1e-4)


def test_boundaries_beyond_every_cosine():
    loss = SphereFace2("C", 0.0)
    loss.prepare(8)
    with torch.no_grad():
        loss.bias.fill_(1000.0)
    assert loss_curves.boundary_angles(loss) == (180.0, 180.0, 180.0)


@pytest.mark.parametrize("loss", [SphereFace2("A"), SphereFace2("C", bias=False)])
def test_boundaries_of_other_kinds_are_refused(loss):
    with pytest.raises(ValueError, match="boundaries are drawn for C with a bias"):
        loss_curves.boundary_angles(loss)


def test_winners_on_a_circle():
    centers = np.array([[1.0, 0.0], [0.0, 1.0]])
    degrees = np.array([0.0, 30.0, 31.0, 45.0, 59.0, 60.0, 90.0])
    directions = np.stack([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))], 1)
    # ArcFace, 0.5 = 28.6 degrees: class 0 wins while theta + 28.6 < 90 - theta, below 30.7
    assert loss_curves.winners(directions, centers, ArcFace().margined).tolist() == [0, 0, -1, -1, -1, 1, 1]
    assert loss_curves.winners(directions, centers, NormFace().margined)[[2, 4]].tolist() == [0, 1]


def test_runs_on_a_ring():
    assert loss_curves.runs(np.array([-1, 0, 0, -1, -1, 1]), -1) == [(0, 1), (3, 5)]
    assert loss_curves.runs(np.array([-1, 0, -1, -1]), -1) == [(2, 5)]  # round the end
    assert loss_curves.runs(np.array([0, -1, -1, 0]), -1) == [(1, 3)]
    assert loss_curves.runs(np.array([0, -1, 0, -1, -1]), -1) == [(1, 2), (3, 5)]
    assert loss_curves.runs(np.array([-1, -1]), -1) == [(0, 2)]
    assert loss_curves.runs(np.array([0, 1]), -1) == []


def test_a_ring_lies_at_its_angle_and_closes():
    center = np.array([1.0, 2.0, -2.0]) / 3
    ring = loss_curves.ring_around(center, 40.0)
    assert ring @ center == pytest.approx(np.full(len(ring), math.cos(math.radians(40.0))))
    assert np.linalg.norm(ring, axis=1) == pytest.approx(np.ones(len(ring)))
    assert ring[0] == pytest.approx(ring[-1])


def test_reach_on_a_sphere():
    poles = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]])
    for loss, degrees in ((NormFace(), 90.0), (ArcFace(), 90.0 - math.degrees(0.25))):
        line = loss_curves.reach(poles, 0, loss.margined, points=9)
        assert np.degrees(np.arccos(line[:, 2])) == pytest.approx(np.full(9, degrees), abs=0.02)


def test_reach_where_a_class_never_loses_or_never_wins():
    alone = loss_curves.reach(np.array([[0.0, 0.0, 1.0]]), 0, NormFace().margined, points=5)
    assert alone[:, 2] == pytest.approx(np.full(5, -1.0))
    twins = np.array([[0.0, 0.0, 1.0], [0.0, 0.1, math.sqrt(0.99)]])
    assert loss_curves.reach(twins, 0, ArcFace().margined, points=5)[:, 2] == pytest.approx(np.ones(5))


# ---------------------------------------------------------------------------------------------------- trainings


def test_photographs_are_parted_by_person():
    photographs = draw_photographs(3, 4, 2)
    assert photographs.classes == 3
    assert photographs.labels.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert photographs.unseen_labels.tolist() == [0, 0, 1, 1, 2, 2]
    assert photographs.pixels.shape == (12, 3, 24, 24)
    assert photographs.pixels.abs().max() <= 1
    assert not any(torch.equal(one, other) for one in photographs.pixels for other in photographs.unseen)


def test_features_by_hand():
    degrees = np.radians([10.0, 50.0, 90.0, 40.0])
    rows = np.stack([np.cos(degrees), np.sin(degrees)], 1)
    features = Features(rows, np.array([0, 0, 1, 1]), np.array([[1.0, 0.0], [0.0, 1.0]]))
    assert features.angles() == pytest.approx([10.0, 50.0, 0.0, 50.0], abs=1e-5)
    assert features.nearest_is_own() == 0.5
    assert "50.0 % nearest to their own center, median angle to it 30.0 degrees" in features.text()


def test_a_training_is_the_same_each_time_and_leaves_the_generator_alone():
    photographs = draw_photographs(3, 6, 2)
    torch.manual_seed(7)
    before = torch.get_rng_state()
    one, other = (train_softmax(ArcFace(0.5, 16.0), photographs, 2, TINY) for _ in range(2))
    assert np.array_equal(one.unit, other.unit)
    assert torch.equal(torch.get_rng_state(), before)
    assert np.linalg.norm(one.unit, axis=1) == pytest.approx(np.ones(6))


def test_the_bias_alone_moves_nothing_else_and_finds_its_place():
    photographs = draw_photographs(3, 6, 2)
    training = ToyTraining(photographs, NormFace(16.0), 2, TINY)
    loss = SphereFace2("C", 0.1)
    centers = training.head.centers.detach().clone()
    training.take(loss)
    weights = [one.detach().clone() for one in training.network.parameters()]
    start = loss.bias.item()
    training.run(5, only=loss.bias, rate=20.0)
    assert loss.bias.item() != start
    assert torch.equal(training.head.centers, centers)
    assert all(torch.equal(now, was) for now, was in zip(training.network.parameters(), weights, strict=True))


def test_angles_are_looked_at_before_each_step_and_after_the_last():
    training = ToyTraining(draw_photographs(3, 4, 1), ArcFace(), 8, TINY)
    seen: list[tuple[int, int, bool]] = []

    def look(step: int) -> None:
        seen.append((step, len(training.own_angles()), training.network.training))

    training.run(3, before=look)
    assert seen == [(step, 12, True) for step in range(4)]
    assert training.head.loss.strength == 1.0


def test_sphereface2_without_a_bias_is_refused():
    with pytest.raises(ValueError, match="no bias"):
        train_sphereface2(SphereFace2("C", bias=False), draw_photographs(2, 2, 1), 2, TINY)


def test_a_size_that_cannot_be_is_refused():
    with pytest.raises(ValueError, match="people is 1; it must be at least 2"):
        ToySize(people=1)


# --------------------------------------------------------------------------------------------------- the command


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory):
    out = tmp_path_factory.mktemp("figures") / "new"
    return out, draw_figures(out, size=TINY)


def test_every_picture_is_written_whole_in_both_formats(drawn):
    out, result = drawn
    expected = {f"{name}{suffix}" for name in FIGURES for suffix in (".png", ".svg")}
    assert {path.name for path in out.iterdir()} == expected == {path.name for path in result.files}
    for name in FIGURES:
        with Image.open(out / f"{name}.png") as picture:
            picture.load()
            assert min(picture.size) > 400
        assert (out / f"{name}.svg").read_text().rstrip().endswith("</svg>")


def test_the_text_names_pictures_and_what_trainings_came_to(drawn):
    out, result = drawn
    lines = result.text().splitlines()
    assert lines[: len(FIGURES)] == [str(out / f"{name}.png") for name in FIGURES]
    trained = ("theta_distributions", "arcface_features", "sphereface2_features", "sphere_features")
    assert set(result.notes) == set(trained)
    assert "9 photographs not trained on" in lines[-1]


def test_one_picture_alone_and_the_same_again(drawn, tmp_path: Path):
    out, _ = drawn
    result = draw_figures(tmp_path, ["arcface_features", "soft_indicator"], size=TINY)
    assert [path.name for path in result.files if path.suffix == ".png"] == [
        "soft_indicator.png",
        "arcface_features.png",
    ]
    for path in result.files:
        assert path.read_bytes() == (out / path.name).read_bytes()


def test_a_picture_that_there_is_not(tmp_path: Path):
    with pytest.raises(ValueError, match=r"there is no picture 'roc'; there are target_logits, .*sphere_features$"):
        draw_figures(tmp_path, ["target_logits", "roc"])
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_trainings_of_the_docs_show_what_the_docs_say():
    size = ToySize()
    photographs = draw_photographs(size.people, size.images, size.held_out)
    plain = train_softmax(NormFace(16.0), photographs, 2, size)
    arcface = train_softmax(ArcFace(0.5, 16.0), photographs, 2, size)
    assert min(plain.nearest_is_own(), arcface.nearest_is_own()) > 0.97
    assert np.median(arcface.angles()) < 0.5 * np.median(plain.angles())

    gaps = {}
    for margin in (0.1, 0.3):
        loss = SphereFace2("C", margin)
        features = train_sphereface2(loss, photographs, 2, size)
        assert features.nearest_is_own() > 0.97
        around = np.sort(np.degrees(np.arctan2(features.centers[:, 1], features.centers[:, 0])))
        gaps[margin] = np.diff([*around, around[0] + 360.0]).max()
        positive, middle, negative = loss_curves.boundary_angles(loss)
        assert positive < middle < negative < 45.0
    assert gaps[0.3] < 60.0 < gaps[0.1]  # eight classes evenly are 45 degrees apart

    collapsed = ToyTraining(photographs, SphereFace2("C", 0.3), 2, size)
    collapsed.run(size.steps)
    assert collapsed.features().nearest_is_own() < 0.6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loss", "warmup", "lowest", "highest"),
    [
        (ArcFace(), 1 / 3, 10.0, 35.0),
        (ArcFace(), 0.0, 150.0, 154.0),  # theta + 0.5 = pi at 151.4
        (ArcFace(beyond="plain"), 0.0, 175.0, 180.0),
        (ArcFace(gradient="detached"), 0.0, 20.0, 60.0),
        (CosFace(), 0.0, 20.0, 60.0),
    ],
)
def test_where_the_angles_of_a_short_training_end(loss, warmup, lowest, highest):
    size = ToySize()
    training = ToyTraining(draw_photographs(size.many, size.images // 5, 1, "medium"), loss, 64, size)
    training.run(size.steps, margin_warmup=warmup)
    assert lowest < np.median(training.own_angles()) < highest
