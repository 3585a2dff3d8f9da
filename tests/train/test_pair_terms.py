"""Pair terms in a training: what reaches the loss, the log and the checkpoint, whatever the term."""

import math

import pytest
import torch
from torch import Tensor, nn

from verisphere.backbones.backbone import Backbone
from verisphere.base.distributed import world
from verisphere.head.head import Head
from verisphere.losses.margin import CosFace
from verisphere.models.checkpoint import load_into, read_checkpoint, save_checkpoint, shared_rows
from verisphere.pairs.anchor_face import AnchorFace
from verisphere.pairs.pair_term import GlobalBatch, PairOutput, PairTerm, Step, Training
from verisphere.train.loop import Length, gradients, train
from verisphere.train.objective import Objective, Position
from verisphere.train.optimizer import Optimizer
from verisphere.train.recipe import read_recipe
from verisphere.train.sample import Part, Sample
from verisphere.train.schedule import Schedule


class Line(Backbone):
    """One matrix on 2 x 2 images; with side columns in training if asked."""

    input_size = (2, 2)

    def __init__(self, side: int = 0) -> None:
        super().__init__(4)
        self.side_columns = side
        self.project = nn.Linear(12, 4 + side, bias=False)

    def embed(self, images: Tensor) -> Tensor:
        made = self.project(images.flatten(1))
        return made if self.training else made[:, :4]


class Told(PairTerm):
    """Gives what it was told to, and notes the steps it saw."""

    def __init__(self, weights: Tensor | None = None, factor: float | None = None, name: str = "told") -> None:
        super().__init__()
        self.weights, self.factor, self.name = weights, factor, name
        self.steps: list[Step] = []

    def forward(self, step: Step) -> PairOutput:
        self.steps.append(step)
        loss = None if self.factor is None else self.factor * step.batch.local_units.sum()
        return PairOutput(loss, self.weights, {self.name: float(len(self.steps))})


def objective(*terms: PairTerm, side: int = 0) -> Objective:
    torch.manual_seed(0)
    return Objective(Line(side), Head(CosFace(0.2, 8.0), 3, 4), terms=terms).train()


IMAGES = torch.randn(6, 3, 2, 2, generator=torch.Generator().manual_seed(1))
LABELS = torch.tensor([0, 1, 2, 0, 1, 2])


def test_a_terms_loss_is_added_and_its_gradient_with_it():
    plain, more = objective(), objective(Told(factor=0.5), Told(factor=0.25))
    expected = plain(IMAGES, LABELS)
    found = more(IMAGES, LABELS)
    units = nn.functional.normalize(plain.backbone(IMAGES), dim=1)
    assert float(found.loss.detach()) == pytest.approx(float((expected.loss + 0.75 * units.sum()).detach()), abs=1e-6)
    (expected.loss + 0.75 * units.sum()).backward()
    found.loss.backward()
    torch.testing.assert_close(more.backbone.project.weight.grad, plain.backbone.project.weight.grad)
    assert torch.equal(found.per_sample, expected.per_sample)


def test_weights_of_terms_multiply_and_reach_the_class_center_loss_alone():
    one, two = torch.tensor([1.0, 2, 1, 1, 1, 0]), torch.tensor([0.5, 1, 1, 1, 3, 1])
    found = objective(Told(one), Told(two))(IMAGES, LABELS)
    plain = objective()(IMAGES, LABELS)
    torch.testing.assert_close(found.loss.detach(), (plain.per_sample * one * two).mean())
    assert torch.equal(found.per_sample, plain.per_sample)


def test_a_term_sees_the_step_and_the_centers_and_side_columns_that_are_no_part_of_the_embedding():
    term = Told()
    made = objective(term, side=3)
    made(IMAGES, LABELS, None, Position(7, 1.5), torch.tensor([0, 0, 1, 1, 0, 1]))
    (step,) = term.steps
    assert (step.number, step.epoch, step.held) == (7, 1.5, range(3))
    assert step.domains.tolist() == [0, 0, 1, 1, 0, 1]
    assert step.side.shape == (6, 3)
    assert step.embeddings.shape == (6, 4)
    assert step.side.requires_grad
    assert step.centers.shape == (3, 1, 4)
    assert not step.batch.units.requires_grad
    assert step.batch.local_units.requires_grad
    torch.testing.assert_close(step.batch.units, step.batch.local_units.detach())


@pytest.mark.parametrize("spoil", [0.0, math.nan, math.inf])
def test_a_step_with_an_embedding_without_direction_is_left_out_and_said_once(spoil, caplog):
    term = Told(factor=1.0)
    made = objective(term)
    images = IMAGES.clone()
    images[2] = spoil
    with caplog.at_level("WARNING"):
        for _ in range(2):
            made(images, LABELS, None, Position(4))
    assert not term.steps
    assert [record.message for record in caplog.records] == [
        "step 5: an embedding is not finite, or of length 0: pair terms skip such a step"
    ]


def test_figures_of_one_name_are_told_apart_by_their_term():
    given = objective(Told(), Told(name="other"), Told())(IMAGES, LABELS).figures
    assert list(given) == ["told", "other", "told#3"]


def test_parts_of_a_batch_are_one_step_to_a_term_and_figures_their_mean():
    term = Told(factor=1.0)
    made = objective(term)
    sample = Sample(IMAGES, LABELS, lambda positions: [], (Part(4, 4 / 6), Part(2, 2 / 6)), domains=LABELS)
    _loss, per_sample, figures = gradients(made, sample, Position(3))
    assert [step.number for step in term.steps] == [3, 3]
    assert [step.domains.tolist() for step in term.steps] == [[0, 1, 2, 0], [1, 2]]
    assert figures == {"told": 1.5}
    assert len(per_sample) == 6


def test_the_log_holds_the_mean_of_a_terms_figures_since_its_last_entry():
    entries = []
    made = objective(Told(factor=0.0))
    length = Length(4, 2.0, 0.1, Schedule(), log_every=3)
    train(made, Optimizer().build(made), (Sample(IMAGES, LABELS, lambda positions: []) for _ in range(8)), length,
          record=lambda step, figures: entries.append((step, figures["told"])), save=lambda step: None)  # fmt: skip
    assert entries == [(3, 2.0), (6, 5.0), (8, 7.5)]


def test_a_log_that_goes_on_after_a_stop_between_its_entries_is_the_same():
    entries, since = [], {"told": [1.0, 2.0]}
    term = Told(factor=0.0)
    made = objective(term)
    with torch.no_grad():
        for _ in range(2):
            made(IMAGES, LABELS)
    length, saved = Length(4, 1.5, 0.1, Schedule(), log_every=3, save_every=5), []
    train(made, Optimizer().build(made), (Sample(IMAGES, LABELS, lambda positions: []) for _ in range(4)), length,
          first_step=2, record=lambda step, figures: entries.append((step, figures["told"])),
          save=lambda step: saved.append((step, since.get("told", [])[:], len(since.get("loss", [])))),
          figures_since=since)  # fmt: skip
    assert entries == [(3, 2.0), (6, 5.0)]
    assert saved == [(5, [4.0, 5.0], 2), (6, [], 0)]  # the loss since the last entry is kept beside the term's figure


def test_a_terms_parameters_are_trained_and_a_gradient_of_theirs_that_is_not_finite_is_found():
    class Learned(PairTerm):
        def __init__(self) -> None:
            super().__init__()
            self.bias = nn.Parameter(torch.tensor(1.0))

        def forward(self, step: Step) -> PairOutput:
            return PairOutput(self.bias.sqrt())

    term = Learned()
    made = objective(term)
    length = Length(1, 1.0, 0.1, Schedule())
    arguments = {"record": lambda step, figures: None, "save": lambda step: None}
    given = [Sample(IMAGES, LABELS, lambda positions: ["a"] * len(positions))]
    train(made, Optimizer().build(made), given, length, **arguments)
    assert float(term.bias.detach()) < 1.0
    with torch.no_grad():
        term.bias.zero_()
    with pytest.raises(ValueError, match="the gradient is not finite though every loss is"):
        train(made, Optimizer().build(made), given, length, **arguments)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_whole_loss_that_is_not_finite_stops_though_rows_and_gradients_are(value: float):
    class Constant(PairTerm):
        def forward(self, step: Step) -> PairOutput:
            return PairOutput(torch.tensor(value))

    made = objective(Constant())
    before = [one.detach().clone() for one in made.parameters()]
    given = [Sample(IMAGES, LABELS, lambda positions: ["a"] * len(positions))]
    with pytest.raises(ValueError, match=r"step 1: the loss as a whole is not finite .* pull_together, or the weight"):
        train(made, Optimizer().build(made), given, Length(1, 1.0, 0.1, Schedule()), record=lambda step, figures: None,
              save=lambda step: None)  # fmt: skip
    assert all(torch.equal(one, old) for one, old in zip(made.parameters(), before, strict=True))


def test_a_batch_has_unit_rows_as_evaluation_has_them_and_hands_a_known_gradient_to_its_own():
    embeddings = torch.randn(5, 3, requires_grad=True)
    batch = GlobalBatch.of(embeddings, torch.arange(5))
    doubled = embeddings.detach().double()
    assert torch.equal(batch.units, (doubled / doubled.norm(dim=1, keepdim=True)).float())
    assert batch.local_rows == slice(0, 5)
    assert world().size == 1
    gradient = torch.randn(5, 3)
    loss = batch.loss(torch.tensor(2.5), gradient)
    assert float(loss.detach()) == 2.5
    (3 * loss).backward()
    units = nn.functional.normalize(again := embeddings.detach().clone().requires_grad_(), dim=1)
    (3 * units * gradient).sum().backward()
    torch.testing.assert_close(embeddings.grad, again.grad)


@pytest.mark.parametrize("name", ["classes", "embedding_size", "batch_size"])
def test_a_training_of_nothing_is_refused(name):
    with pytest.raises(ValueError, match=f"{name} is 0; it must be at least 1"):
        Training(**{"classes": 3, "embedding_size": 4, "batch_size": 6} | {name: 0})


def test_a_term_whose_time_would_never_come_is_refused():
    training = Training(3, 4, 6, epochs=2.0)
    training.check_begins("AnchorFace", 1.9)
    with pytest.raises(ValueError, match="AnchorFace: after is 2 epochs but the training has 2, so it would never act"):
        training.check_begins("AnchorFace", 2.0)


def test_a_term_begins_after_as_many_steps_as_a_recipe_in_steps_says():
    training = Training(3, 4, 6, epochs=2.0, unit="steps", steps_per_epoch=10)
    assert training.epoch_of(15.0) == 1.5
    training.check_begins("AnchorFace", 19.0)
    with pytest.raises(ValueError, match="AnchorFace: after is 20 steps but the training has 20, so it would never"):
        training.check_begins("AnchorFace", 20.0)
    with pytest.raises(ValueError, match=r"after is 1\.76, but the recipe's unit is steps: state it in whole steps"):
        training.check_begins("AnchorFace", 1.76)
    unknown = Training(3, 4, 6, unit="steps")  # a dry run without data
    unknown.check_begins("AnchorFace", 1e6)
    term = AnchorFace(after=15.0)
    term.prepare(training)
    assert term.begins == 1.5


def test_a_base_term_says_where_to_compute():
    with pytest.raises(NotImplementedError, match="PairTerm has no forward"):
        objective(PairTerm())(IMAGES, LABELS)


class Remembering(Told):
    """Rows of its own, split over processes by another rule than the classes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.arange(10.0).view(5, 2))
        self.register_buffer("count", torch.tensor(3))

    def held(self) -> dict[str, range]:
        return {"kept": range(5)}


def test_memories_are_in_the_checkpoint_and_come_back(tmp_path):
    made, other = objective(Remembering()), objective(Remembering())
    optimizer = Optimizer().build(made)
    held = shared_rows(made.head, optimizer, made.terms)
    assert held.splits("pairs", "0.kept", 2)
    assert not held.splits("pairs", "0.count", 0)
    assert held.rows_of("pairs", "0.kept") == range(5)
    assert held.rows_of("head", "centers") == range(3)
    parts = {"head": dict(made.head.state_dict()), "pairs": dict(made.terms.state_dict())}
    save_checkpoint(tmp_path, 3, parts, {}, held=held)
    other.terms[0].kept.zero_()
    load_into(other.terms, read_checkpoint(tmp_path).tensors("pairs", held), "here")
    assert torch.equal(other.terms[0].kept, made.terms[0].kept)


# Recipes --------------------------------------------------------------------------------------------------------------

BASE = ["--data", "verisphere.images.SyntheticFaces", "--data.people", "4", "--data.images", "2",
        "--backbone", "verisphere.backbones.Pixels", "--loss", "verisphere.losses.CosFace"]  # fmt: skip


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (["--images_per_identity", "0"], "images_per_identity must be at least 1, got 0"),
        (["--images_per_identity", "200"], "images_per_identity is 200, more than a batch of 128 has images"),
        (["--pair_terms", "[{class_path: verisphere.losses.CosFace}]"], "pair_terms"),
        (["--pair_terms", "[{class_path: verisphere.pairs.Nothing}]"], "pair_terms"),
    ],
)
def test_what_a_recipe_cannot_say_is_one_line(override, message):
    with pytest.raises(ValueError, match=message) as refused:
        read_recipe(None, [*BASE, *override])
    assert "\n" not in str(refused.value)
