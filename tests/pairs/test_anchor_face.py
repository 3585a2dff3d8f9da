"""AnchorFace by hand on tiny sets, against evaluation's thresholds, and in trainings that are stopped and resumed."""

import logging
import math
import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tiny_runs import OWN, metrics
from verisphere.backbones.extract import extract
from verisphere.base.vocabulary import Embeddings
from verisphere.decide import operating_point
from verisphere.decide.point import short_far
from verisphere.files.packaged_recipes import FOLDER
from verisphere.measure.protocols.all_pairs import all_pairs
from verisphere.pairs import AnchorFace, GlobalBatch, PairOutput, Step, Training
from verisphere.pairs.anchor_face import _far_weight
from verisphere.train.recipe import read_recipe
from verisphere.train.session import train_run

RECIPES = FOLDER / "anchorface"


def anchor(classes: int = 3, dim: int = 2, **options: Any) -> AnchorFace:
    term = AnchorFace(**{"far": "0.25", "after": 0.0, "temperature": 0.1, **options})
    term.prepare(Training(classes, dim, 8))
    return term


def step_of(embeddings: Tensor, labels: list[int], number: int = 0, **more: Any) -> Step:
    named = torch.tensor(labels, dtype=torch.int64)
    return Step(GlobalBatch.of(embeddings, named), embeddings, named, number, **more)


def at_degrees(*degrees: float) -> Tensor:
    angles = torch.tensor(degrees, dtype=torch.float64).deg2rad()
    return torch.stack([angles.cos(), angles.sin()], 1)


def figure(given: PairOutput, name: str, far: str = "0.25") -> float:
    return given.figures[f"anchor_{name}_at_far_{short_far(far)}"]


def test_a_term_with_a_memory_is_refused_under_checkpointing():
    embeddings = at_degrees(0, 90, 180).float().requires_grad_()
    for term, refused in ((anchor(), True), (anchor(compare="centers"), False)):

        def loss_of(rows: Tensor, term: AnchorFace = term) -> Tensor:
            return term(step_of(rows, [0, 1, 1], centers=torch.eye(3, 2)[:, None], held=range(3))).loss

        loss = checkpoint(loss_of, embeddings, use_reentrant=False)
        if refused:
            with pytest.raises(ValueError, match="AnchorFace runs a second time inside the backward pass"):
                loss.backward()
        else:
            loss.backward()


# By hand ---------------------------------------------------------------------------------------------------


class TwoSteps:
    """Identities 0, 1, 2 at 0, 90 and 180 degrees; then 0 and 1 again, at 70 and 120 degrees.

    The second step stores both, so each row is compared with five features less itself. Scores are the cosines of:
    row at 70 (identity 0): genuine 70; impostors 20 (of 1), 110 (of 2), and 50 (the batch's other row)
    row at 120 (identity 1): genuine 30; impostors 120 (of 0), 60 (of 2), and 50 (the batch's other row)
    Of impostors that is 0.939693, 0.642788 twice, 0.5, -0.342020, -0.5; of genuine ones 0.866025 and 0.342020.
    """

    def __init__(self, **options: Any) -> None:
        self.term = anchor(**options)
        self.term(step_of(at_degrees(0, 90, 180).float() * 3, [0, 1, 2]))
        # lengths must not matter
        self.embeddings = (at_degrees(70, 120) * torch.tensor([[2.0], [0.5]])).float().requires_grad_()
        self.given = self.term(step_of(self.embeddings, [0, 1], 1))


def test_pairs_by_hand():
    found = TwoSteps().given
    assert figure(found, "negatives") == 6
    assert figure(found, "positives") == 2
    assert found.figures["anchor_set_fill"] == 5 / 15


# k = floor(f x 6) negatives may pass: 1, 2, 3, 4, 5. Ties at the threshold are rejected, so for 2 it is that for 1
@pytest.mark.parametrize(
    ("far", "threshold", "tar"),
    [("0.2", 0.642788, 0.5), ("0.34", 0.642788, 0.5), ("0.5", 0.5, 0.5), ("0.67", -0.342020, 1), ("0.9", -0.5, 1)],
)
def test_the_anchor_threshold_by_hand(far, threshold, tar):
    found = TwoSteps(far=far).given
    assert figure(found, "threshold", far) == pytest.approx(threshold, abs=1e-6)
    assert figure(found, "tar", far) == tar
    assert figure(found, "too_few", far) == 0


def test_the_losses_by_hand():
    # k = 1, t_A = 0.642788, tau = 0.1; L_f = (0.951156 + 2 x 0.5 + 0.193430 + 0.000053 + 0.000011) / 6, the sigmoids of
    # 2.969050, 0, -1.427876, -9.848078, -11.427876; L_t = 1 - (0.903120 + 0.047080) / 2, those of 2.232378, -3.007675
    found = TwoSteps(far_weight=4.0, tar_weight=10.0).given
    assert figure(found, "far_loss") == pytest.approx(0.357442, abs=2e-6)
    assert figure(found, "tar_loss") == pytest.approx(0.524900, abs=2e-6)
    assert float(found.loss.detach()) == pytest.approx(4 * 0.357442 + 10 * 0.524900, abs=2e-5)
    assert found.weights is None


def test_the_gradient_by_hand():
    # Slopes are s (1 - s) / tau. The score of a row at angle a with a feature at b rises by sin(b - a) a radian.
    # Row at 70. L_f: 0.464581 sin 20 + 2.5 sin 50 + 0.000528 sin 110, over 6: 0.345751
    # L_t, which falls as scores rise: -0.448638 sin(-70), over 2: 0.210791
    # Row at 120. L_f: 1.560147 sin 60 + 2.5 sin(-50) + 0.000109 sin(-120), over 6: -0.094013
    # L_t: -0.874946 sin(-30), over 2: 0.218736
    case = TwoSteps(far_weight=1.0, tar_weight=1.0)
    case.given.loss.backward()
    embeddings = case.embeddings.detach()
    turn = torch.stack([-embeddings[:, 1], embeddings[:, 0]], 1)  # a radian of it
    found = (case.embeddings.grad * turn).sum(1)
    torch.testing.assert_close(found, torch.tensor([0.345751 + 0.210791, -0.094013 + 0.218736]), atol=3e-6, rtol=0)
    along = (case.embeddings.grad * embeddings).sum(1)
    torch.testing.assert_close(along, torch.zeros(2), atol=1e-6, rtol=0)  # a length is no part of a score


def test_without_tar_and_without_far():
    both, no_tar, no_far = (TwoSteps(**more).given for more in ({}, {"tar_weight": 0.0}, {"far_weight": 0.0}))
    # 0.1 / FAR and 10
    far, tar = 0.4 * figure(both, "far_loss"), 10 * figure(both, "tar_loss")
    assert float(both.loss.detach()) == pytest.approx(far + tar)
    assert float(no_tar.loss.detach()) == pytest.approx(far)
    assert float(no_far.loss.detach()) == pytest.approx(tar)
    assert "anchor_tar_loss_at_far_2.5e-1" not in no_tar.figures
    assert "anchor_far_loss_at_far_2.5e-1" not in no_far.figures


def test_with_neither_it_only_logs():
    found = TwoSteps(tar_weight=0.0, far_weight=0.0).given
    assert found.loss is None
    assert figure(found, "tar") == 0.5


@pytest.mark.parametrize(("far", "weight"), [("1e-4", 1e3), ("1e-5", 1e4), ("1e-6", 1e5), (1e-4, 1e3)])
def test_the_paper_s_weight_of_the_far_loss(far, weight):
    assert _far_weight(AnchorFace(far=far).far) == weight


# Pairs ------------------------------------------------------------------------------------------------------


def test_never_with_itself_though_rows_of_one_identity_pair_both_ways():
    found = anchor()(step_of(at_degrees(0, 60, 90).float(), [0, 0, 1]))
    assert figure(found, "positives") == 2
    assert figure(found, "negatives") == 4
    # cos 90 and cos 30 from either side: one of the four may pass, but two are tied
    assert figure(found, "threshold") == pytest.approx(math.cos(math.pi / 6), abs=1e-7)
    assert figure(found, "tar") == 0  # cos 60 twice; a row with itself would score 1


def test_a_row_without_a_copy_pairs_with_all_that_is_stored():
    # K = 1: the second row takes the first one's place; the first is compared with it, the second with nothing
    found = anchor(features_per_identity=1)(step_of(at_degrees(0, 60, 90, 180).float(), [0, 0, 1, 2]))
    assert figure(found, "positives") == 1
    # stored are 60, 90 and 180 degrees: two others for each row
    assert figure(found, "negatives") == 8


def test_a_row_of_no_class_is_a_negative_for_all_and_is_not_stored():
    term = anchor()
    found = term(step_of(at_degrees(0, 60, 90).float(), [0, -1, -1]))
    assert figure(found, "negatives") == 2
    assert figure(found, "positives") == 0
    assert found.figures["anchor_set_fill"] == 1 / 15


def test_expired_features_are_no_pairs():
    term = anchor(valid_steps=2)
    for number in range(4):
        found = term(step_of(at_degrees(0, 120).float(), [number % 3, (number + 1) % 3], number))
    # stored by steps 2 and 3: identities 2, 0 and 0, 1; each row of step 3 has one earlier feature, or none, of its own
    assert found.figures["anchor_set_fill"] == 4 / 15
    assert figure(found, "positives") == 1
    assert figure(found, "negatives") == 2 + 3


def test_class_centers_in_place_of_the_set():
    term = anchor(compare="centers", far="0.5", far_weight=1.0, tar_weight=1.0)
    assert not dict(term.named_buffers())
    assert term.held() == {}
    centers = at_degrees(0, 90, 180).float()[:, None] * 5
    found = term(step_of(at_degrees(70, 120).float(), [0, 1], centers=centers.requires_grad_(), held=range(3)))
    # impostors: cos 20, cos 110; cos 120, cos 60: two may pass; genuine: cos 70, cos 30
    assert figure(found, "negatives", "0.5") == 4
    assert figure(found, "positives", "0.5") == 2
    assert figure(found, "threshold", "0.5") == pytest.approx(-0.342020, abs=1e-6)
    assert figure(found, "tar", "0.5") == 1
    assert "anchor_set_fill" not in found.figures
    assert found.loss is not None


# The streamed losses are those of the equations, on what is stored ----------------------------------------------


def random_rows(count: int, dim: int, seed: int) -> Tensor:
    return torch.randn(count, dim, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    ("options", "tolerance"),
    [
        ({}, 1e-6),
        ({"storage": "bfloat16"}, 1e-6),
        ({"place": "host", "storage": "bfloat16"}, 1e-6),
        ({"precision": "bfloat16"}, 3e-2),
    ],
    ids=str,
)
def test_loss_and_gradient_equal_autograd_over_all_pairs_at_once(options, tolerance):
    term = anchor(6, 16, far="1e-1", features_per_identity=3, valid_steps=3, **options)
    generator = torch.Generator().manual_seed(0)
    for number in range(5):
        labels = torch.randint(-1, 6, (9,), generator=generator)
        embeddings = random_rows(9, 16, number).requires_grad_()
        given = term(step_of(embeddings, labels.tolist(), number))
        stored = term.memory.stored(number)
        units, rows = nn.functional.normalize(embeddings.double(), dim=1), stored.rows.double()
        scores = units @ rows.T
        filled, same = stored.labels[None, :] >= 0, labels[:, None] == stored.labels[None, :]
        # a row's own copy is the only stored row that near
        itself = nn.functional.normalize(rows, dim=1).matmul(units.detach().T).T > 0.9999
        negative, positive = scores[filled & ~same], scores[filled & same & ~itself]
        threshold = figure(given, "threshold", "1e-1")
        assert figure(given, "negatives", "1e-1") == len(negative)
        assert figure(given, "positives", "1e-1") == len(positive)
        point = operating_point(positive.detach(), negative.detach(), "1e-1") if len(positive) else None
        if point is not None:
            assert threshold == pytest.approx(point.threshold, abs=1e-7)
            assert figure(given, "tar", "1e-1") == point.tar
        expected = 1.0 * torch.sigmoid((negative - threshold) / 0.1).mean()
        if len(positive):
            expected = expected + 10 * (1 - torch.sigmoid((positive - threshold) / 0.1).mean())
        (gradient,) = torch.autograd.grad(expected, embeddings)
        given.loss.backward()
        assert float(given.loss.detach()) == pytest.approx(float(expected.detach()), rel=max(tolerance, 1e-6))
        apart = (embeddings.grad - gradient).abs().max() / gradient.abs().max()
        assert float(apart) < max(tolerance, 2e-6)


# Thresholds are evaluation's ------------------------------------------------------------------------------------


PEOPLE, IMAGES, DIM = 20, 4, 24


@pytest.fixture(scope="module")
def frozen() -> tuple[Tensor, Tensor]:
    """What a frozen network makes of a data set, in a random order: embeddings and labels."""
    labels = torch.arange(PEOPLE).repeat_interleave(IMAGES)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(5))
    embeddings = random_rows(PEOPLE, DIM, 6)[labels] + random_rows(len(labels), DIM, 7)
    return embeddings[order], labels[order]


@pytest.mark.parametrize("far", ["1e-1", "0.0137", "1e-3"])
def test_over_a_set_that_holds_all_the_data_it_is_the_threshold_over_all_pairs(frozen, far):
    """Each pair is met twice, once from either side: with n pairs, k' = floor(2 f n), and the (k' + 1)-th of scores
    that stand there twice each is the (floor(k' / 2) + 1)-th of all pairs; floor(floor(2 f n) / 2) = floor(f n) = k.
    """
    embeddings, labels = frozen
    term = anchor(PEOPLE, DIM, far=far, features_per_identity=IMAGES)
    given = term(step_of(embeddings, labels.tolist()))
    data = Embeddings(embeddings.numpy(), np.arange(len(labels)).astype(str), labels.numpy().astype(str))
    (point,) = all_pairs(data, [far]).operating_points
    assert figure(given, "negatives", far) == 2 * point.impostor_total
    assert figure(given, "positives", far) == 2 * point.genuine_total
    assert figure(given, "threshold", far) == point.threshold
    assert figure(given, "tar", far) == point.tar


def test_the_threshold_of_a_training_is_that_of_an_evaluation_of_its_network(tmp_path, monkeypatch, process_as_it_was):
    """One step over all images of a network that does not learn; then its embeddings, compared as a test set."""
    monkeypatch.syspath_prepend(OWN)
    path = tmp_path / "recipe.yaml"
    path.write_text(FROZEN)
    recipe = read_recipe(path, [])
    objective = train_run(recipe, tmp_path / "run", device="cpu")
    logged = metrics(tmp_path / "run")[0]
    for far in ("1e-1", "0.0137"):
        (point,) = all_pairs(extract(objective.backbone, recipe.recipe.data), [far]).operating_points
        assert logged[f"anchor_threshold_at_far_{short_far(far)}"] == point.threshold
        assert logged[f"anchor_tar_at_far_{short_far(far)}"] == point.tar
        assert logged[f"anchor_negatives_at_far_{short_far(far)}"] == 2 * point.impostor_total


# Phases, too few ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("log_before", [True, False])
def test_at_first_the_class_center_loss_trains_alone_while_the_set_fills(log_before):
    term = anchor(after=1.0, log_before=log_before)
    given = [
        term(step_of(at_degrees(0, 90, 60).float(), [0, 1, 0], number, epoch=(number + 0.5) / 2)) for number in range(3)
    ]
    assert [one.loss is None for one in given] == [True, True, False]
    assert [one.figures["anchor_set_fill"] for one in given] == [3 / 15, 6 / 15, 8 / 15]  # 7, and then 9 of 5 places
    logged = ["anchor_threshold_at_far_2.5e-1" in one.figures for one in given]
    assert logged == [log_before, log_before, True]
    assert "anchor_far_loss_at_far_2.5e-1" not in given[0].figures


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "verisphere.pairs.anchor_face"]


def test_too_few_negatives_are_said_once_and_take_the_nearest_rate_above_0(caplog):
    term = anchor(far="0.01", far_weight=2.0)
    with caplog.at_level(logging.WARNING):
        given = [term(step_of(at_degrees(0, 30, 90).float(), [0, 1, 2], number)) for number in range(2)]
    assert warnings_of(caplog) == [
        "step 1: 6 negative pairs are too few for FAR 0.01, which needs at least 100; such steps use the threshold "
        "at the nearest FAR above 0, which accepts at most one pair"
    ]
    # cos 30 twice, cos 60 twice, cos 90 twice: one may pass, but both are tied
    assert figure(given[0], "threshold", "0.01") == pytest.approx(math.cos(math.pi / 6), abs=1e-7)
    assert figure(given[0], "too_few", "0.01") == 1
    assert given[0].loss is not None


def test_the_paper_s_weight_is_that_of_the_rate_in_force():
    given = anchor(far="0.01", tar_weight=0.0)(step_of(at_degrees(0, 30, 90).float(), [0, 1, 2]))
    assert float(given.loss.detach()) == pytest.approx(0.1 * 6 * figure(given, "far_loss", "0.01"))


def test_too_few_negatives_can_leave_the_term_out(caplog):
    term = anchor(far="0.01", too_few="skip")
    with caplog.at_level(logging.WARNING):
        given = [term(step_of(at_degrees(0, 30, 90).float(), [0, 1, 2], number)) for number in range(2)]
    assert len(warnings_of(caplog)) == 1
    assert warnings_of(caplog)[0].endswith("which needs at least 100; such steps skip AnchorFace")
    assert all(one.loss is None for one in given)
    assert "anchor_threshold_at_far_1e-2" not in given[0].figures


def test_before_its_time_nothing_is_said(caplog):
    with caplog.at_level(logging.WARNING):
        given = anchor(far="0.01", after=1.0)(step_of(at_degrees(0, 30).float(), [0, 1]))
    assert not warnings_of(caplog)
    assert "anchor_threshold_at_far_1e-2" not in given.figures


@pytest.mark.parametrize(
    ("labels", "negatives"), [([0, 0, 0], 0), ([-1, -1, -1], 0), ([0, -1], 1)], ids=["one", "nobody", "a single pair"]
)
def test_without_two_negatives_there_is_no_threshold(labels, negatives):
    given = anchor()(step_of(at_degrees(0, 30, 90)[: len(labels)].float(), labels))
    assert given.loss is None
    assert figure(given, "negatives") == negatives


def test_without_a_positive_the_tar_loss_is_0():
    given = anchor(far_weight=1.0)(step_of(at_degrees(0, 30, 90).float(), [0, 1, 2]))
    assert float(given.loss.detach()) == pytest.approx(figure(given, "far_loss"))
    assert "anchor_tar_at_far_2.5e-1" not in given.figures
    assert "anchor_tar_loss_at_far_2.5e-1" not in given.figures


def test_hints_are_no_part_of_a_checkpoint():
    assert set(anchor().state_dict()) == {"memory.features", "memory.until"}


# What is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"far": "0"}, "far is 0; an anchor lies between 0 and 1, both excluded"),
        ({"far": 1.0}, "far is 1.0; an anchor lies between 0 and 1, both excluded"),
        ({"far": "1:1000"}, "a FAR must be a decimal number such as 1e-4, got '1:1000'"),
        ({"temperature": 0.0}, "temperature is 0.0; it must be a positive number"),
        ({"tar_weight": -1.0}, "tar_weight is -1.0; it must be a number and not negative"),
        ({"far_weight": math.nan}, "far_weight is nan; it must be a number and not negative"),
        ({"after": math.inf}, "after is inf; it must be a number and not negative"),
        ({"features_per_identity": 0}, "features_per_identity is 0; it must be at least 1"),
        ({"valid_steps": 0}, "valid_steps is 0; it must be at least 1"),
    ],
    ids=str,
)
def test_what_is_refused(options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        AnchorFace(**options)


# In a training ----------------------------------------------------------------------------------------------------


FROZEN = """\
data: {class_path: own_parts.Noise, init_args: {people: 9, images: 4}}
backbone: {class_path: own_parts.FixedNet}
loss: {class_path: verisphere.losses.ArcFace}
pair_terms:
- {class_path: verisphere.pairs.AnchorFace, init_args: {far: "1e-1", after: 0}}
- {class_path: verisphere.pairs.AnchorFace, init_args: {far: "0.0137", tar_weight: 0, far_weight: 0}}
augment: {flip: 0}
epochs: 1
batch_size: 36
log_every: 1
workers: 0
"""


def test_a_term_moves_the_batch_across_the_threshold():
    """Positives below the threshold rise and negatives above it fall where only the two losses act."""
    torch.manual_seed(0)
    labels = torch.arange(8).repeat_interleave(4)
    images = torch.randn(8, 3, 4, 4)[labels] + 1.0 * torch.randn(32, 3, 4, 4)
    images, labels = images.flatten(1), labels.tolist()
    weight = nn.Parameter(0.1 * torch.randn(48, 16))
    term = anchor(8, 16, far="0.05", features_per_identity=4)
    optimizer, tar = torch.optim.SGD([weight], 0.02), []
    for number in range(40):
        given = term(step_of(images @ weight, labels, number))
        tar.append(figure(given, "tar", "0.05"))
        optimizer.zero_grad()
        given.loss.backward()
        optimizer.step()
    assert tar[-1] > tar[0] + 0.2


# The recipes ------------------------------------------------------------------------------------------------------

#: What each says of the paper's: loss, FAR, weights in force, what is compared.
PAPER = {
    "arcface_1e-4": ("ArcFace", "1e-4", None, 10, "set"),
    "arcface_1e-5": ("ArcFace", "1e-5", None, 10, "set"),
    "arcface_1e-6": ("ArcFace", "1e-6", None, 10, "set"),
    "arcface_without_tar": ("ArcFace", "1e-4", None, 0, "set"),
    "arcface_without_far": ("ArcFace", "1e-4", 0, 10, "set"),
    "arcface_fc": ("ArcFace", "1e-4", None, 10, "centers"),
    "cosface_1e-4": ("CosFace", "1e-4", None, 10, "set"),
    "curricularface_1e-4": ("CurricularFace", "1e-4", None, 10, "set"),
}


def test_every_recipe_is_known():
    assert {path.stem for path in RECIPES.glob("*.yaml") if not path.stem.startswith("baseline_")} == set(PAPER)


@pytest.mark.parametrize("name", PAPER)
def test_recipes_have_the_paper_s_settings(name):
    path = RECIPES / f"{name}.yaml"
    with torch.device("meta"):
        found = read_recipe(path, ["--data", "verisphere.images.SyntheticFaces", "--data.people", "2"]).recipe
    (term,) = found.pair_terms
    loss, far, far_weight, tar_weight, compare = PAPER[name]
    assert type(found.loss).__name__ == loss
    assert isinstance(term, AnchorFace)
    assert (short_far(term.far), term.far_weight, term.tar_weight) == (far, far_weight, tar_weight)
    assert (term.memory is None) == (compare == "centers")
    if term.memory is not None:
        assert (term.memory.features_per_identity, term.memory.valid_steps) == (5, 1000)
    assert term.temperature == 0.01
    assert (found.batch_size, found.optimizer.rate, found.schedule.factor) == (512, 0.1, 0.1)
    assert found.unit == "steps"
    assert (*found.schedule.milestones, found.steps, term.after) == (110_000, 190_000, 220_000, 240_000, 20_000)
