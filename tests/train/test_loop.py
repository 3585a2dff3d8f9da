"""The loop: steps, clipping, refusals, checkpoints and when they are made."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from verisphere.backbones.backbone import Backbone
from verisphere.head.head import Head
from verisphere.losses.margin import CosFace
from verisphere.train.loop import Length, Sample, TrainingDiverged, TrainingStopped, train
from verisphere.train.objective import Objective
from verisphere.train.optimizer import Optimizer
from verisphere.train.sample import Part
from verisphere.train.schedule import Plateau, Schedule


class Line(Backbone):
    """One matrix on 2 x 2 images, which notes the dtype it works in."""

    input_size = (2, 2)

    def __init__(self) -> None:
        super().__init__(4)
        self.project = nn.Linear(12, 4)
        self.dtypes: set[torch.dtype] = set()

    def embed(self, images: Tensor) -> Tensor:
        made = self.project(images.flatten(1))
        self.dtypes.add(made.dtype)
        return made


def objective(seed: int = 0, **options: Any) -> Objective:
    torch.manual_seed(seed)
    return Objective(Line(), Head(CosFace(0.2, 8.0), 3, 4), **options)


def named(first: int) -> Callable[[Sequence[int]], list[str]]:
    return lambda positions: [f"image {first + position}" for position in positions]


def samples(steps: int, spoil: Callable[[int, Tensor], None] = lambda step, images: None) -> Iterator[Sample]:
    for step in range(steps):
        images = torch.randn(6, 3, 2, 2, generator=torch.Generator().manual_seed(step))
        spoil(step, images)
        yield Sample(images, torch.arange(6) % 3, named(6 * step))


class Diary:
    """What the loop asked for, in its order."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int]] = []
        self.figures: list[dict[str, float]] = []

    def record(self, step: int, figures: dict[str, float]) -> None:
        self.events.append(("record", step))
        self.figures.append(figures)

    def save(self, step: int) -> None:
        self.events.append(("save", step))

    def steps(self, kind: str) -> list[int]:
        return [step for event, step in self.events if event == kind]


def length(**fields: Any) -> Length:
    usual: dict[str, Any] = {"steps_per_epoch": 4, "epochs": 2.0, "rate": 0.1, "schedule": Schedule()}
    return Length(**usual | fields)


def run(made: Objective, plan_: Length, given: Iterator[Sample] | None = None, **options: Any) -> Diary:
    diary = Diary()
    optimizer = Optimizer(rate=plan_.rate).build(made)
    given = samples(plan_.steps) if given is None else given
    train(made, optimizer, given, plan_, record=diary.record, save=diary.save, **options)
    return diary


@pytest.mark.parametrize(("epochs", "per_epoch", "steps"), [(2.0, 4, 8), (0.1, 30, 3), (1.1, 10, 11), (0.01, 3, 1)])
def test_a_training_has_so_many_steps(epochs, per_epoch, steps):
    assert length(epochs=epochs, steps_per_epoch=per_epoch).steps == steps


def test_what_happens_when():
    diary = run(objective(), length(log_every=3, save_every=5, validate_every=4), validate=lambda: {"tar": 0.5})
    assert diary.steps("save") == [5, 8]
    assert diary.steps("record") == [3, 4, 6, 8, 8]  # 4 and the second 8 are validations
    assert diary.figures[1] == {"tar": 0.5}
    assert diary.events[-2:] == [("save", 8), ("record", 8)]  # a validation that fails costs no work


def test_the_logged_loss_is_the_mean_since_the_last_entry():
    every = [figures["loss"] for figures in run(objective(), length(epochs=8.0, log_every=1)).figures]
    diary = run(objective(), length(epochs=8.0, log_every=25))
    assert diary.steps("record") == [10, 25, 32]  # the first after ten steps, for the loss at the beginning
    means = [sum(every[:10]) / 10, sum(every[10:25]) / 15, sum(every[25:]) / 7]
    assert [figures["loss"] for figures in diary.figures] == pytest.approx(means, rel=1e-12)


def test_without_an_interval_validation_comes_at_the_end_alone():
    calls = []
    run(objective(), length(validate_every=0), validate=lambda: calls.append(1) or {})
    assert calls == [1]


def test_rate_and_margin_follow_the_schedule():
    schedule = Schedule(power=1.0, warmup=1.0, margin_warmup=2.0)
    diary = run(objective(), length(rate=0.2, schedule=schedule, log_every=1))
    rates = [figures["rate"] for figures in diary.figures]
    # the middles of 4 steps a warm-up epoch, then of 4 steps down to 0
    assert rates == pytest.approx([0.2 * share for share in (0.125, 0.375, 0.625, 0.875, 0.875, 0.625, 0.375, 0.125)])
    margins = [figures["margin_share"] for figures in diary.figures]
    assert margins == pytest.approx([(2 * step + 1) / 16 for step in range(8)])


PLATEAU = Schedule(shape="plateau", factor=0.5, patience=2)


def test_the_rate_falls_when_validation_stops_improving():
    tars = iter([0.5, 0.4, 0.5, 0.6, 0.6, 0.5, 0.7, 0.8])
    plateau = Plateau()
    diary = run(
        objective(), length(schedule=PLATEAU, log_every=1, validate_every=1),
        validate=lambda: {"tar": next(tars)}, plateau=plateau,
    )  # fmt: skip
    rates = [figures["rate"] for figures in diary.figures if "rate" in figures]
    assert rates == pytest.approx([0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.025, 0.025])
    assert plateau == Plateau(best=0.8, waited=0, falls=2, step=8)


def test_a_validation_that_a_checkpoint_came_before_is_made_again():
    calls: list[int] = []
    for seen_at, expected in ((2, 3), (4, 2)):  # the checkpoint is of step 4, where a validation is due
        calls.clear()
        run(objective(), length(schedule=PLATEAU, validate_every=2), samples(4), first_step=4,
            validate=lambda: calls.append(1) or {"tar": 0.1}, plateau=Plateau(0.5, 0, 0, seen_at))  # fmt: skip
        assert len(calls) == expected


def test_a_figure_that_the_validation_does_not_have():
    schedule = Schedule(shape="plateau", figure="cfp")
    with pytest.raises(ValueError, match=r"schedule\.figure is 'cfp', but the validation has tar, agedb"):
        run(objective(), length(schedule=schedule), validate=lambda: {"tar": 0.1, "agedb": 0.2}, plateau=Plateau())


def test_clipping_is_of_the_backbone_alone():
    tight, free = objective(), objective()
    rate = 0.1
    before = [one.detach().clone() for one in tight.backbone.parameters()]
    flat = length(epochs=0.25, rate=rate, clip=1e-3, schedule=Schedule(shape="constant"), log_every=1)
    for made, one in ((tight, flat), (free, length(epochs=0.25, rate=rate, schedule=Schedule(shape="constant")))):
        optimizer = Optimizer("sgd", rate, momentum=0.0, weight_decay=0.0).build(made)
        train(made, optimizer, samples(1), one, record=lambda *_: None, save=lambda _: None)
    moved = torch.cat([(new - old).flatten() for new, old in zip(tight.backbone.parameters(), before, strict=True)])
    assert moved.norm().item() == pytest.approx(rate * 1e-3, rel=1e-3)
    assert torch.equal(tight.head.centers, free.head.centers)


def test_each_step_has_random_numbers_of_its_own_whatever_drew_before():
    drawn: list[list[float]] = []
    for _ in range(2):
        made = objective()
        torch.rand(len(drawn) + 3)  # somebody else's use of the generator
        numbers: list[float] = []
        made.backbone.register_forward_hook(lambda *_, into=numbers: into.append(float(torch.rand(()))))
        run(made, length(), seed=5)
        drawn.append(numbers)
    assert drawn[0] == drawn[1]
    assert len(set(drawn[0])) == 8


def poison(value: float, rows: Sequence[int]) -> Callable[[int, Tensor], None]:
    def spoil(step: int, images: Tensor) -> None:
        if step == 2:
            images[list(rows)] = value

    return spoil


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_stops_before_the_update_and_names_step_and_records(value):
    made, clean = objective(), objective()
    run(clean, length(epochs=0.5))
    with pytest.raises(TrainingDiverged) as caught:
        run(made, length(epochs=0.75, schedule=Schedule()), samples(3, poison(value, [1, 4])))
    text = str(caught.value)
    assert text.startswith("step 3: the loss of 2 of 6 records is not finite: image 13, image 16;")
    assert "\n" not in text
    assert all(one.isfinite().all() for one in made.parameters())


def test_weights_are_those_before_the_step_that_diverged():
    made = objective()
    kept: list[Tensor] = []
    flat = length(log_every=1)

    def note(step: int, figures: dict[str, float]) -> None:
        kept[:] = [one.detach().clone() for one in made.parameters()]

    with pytest.raises(TrainingDiverged, match=r"6 of 6 records is not finite: image 12, .* and 1 more"):
        train(made, Optimizer().build(made), samples(8, poison(math.nan, range(6))), flat, record=note,
              save=lambda _: None)  # fmt: skip
    assert all(torch.equal(one, old) for one, old in zip(made.parameters(), kept, strict=True))


def test_a_gradient_that_is_not_finite_stops_though_the_loss_is():
    made = objective()
    made.backbone.project.weight.register_hook(lambda gradient: gradient / 0.0)
    with pytest.raises(TrainingDiverged, match=r"step 1: the gradient is not finite .* began with image 0, image 1"):
        run(made, length())


def test_a_stop_leaves_a_checkpoint_of_the_step_just_made():
    answers = iter([None, None, 15])
    diary, made = Diary(), objective()
    with pytest.raises(TrainingStopped) as caught:
        train(made, Optimizer().build(made), samples(8), length(validate_every=1), record=diary.record, save=diary.save,
              validate=dict, stopping=lambda: next(answers))  # fmt: skip
    assert caught.value.reason == 15
    assert diary.events[-1] == ("save", 3)  # before a validation that one who stops does not wait for


def test_a_stop_at_the_last_step_is_the_end():
    answers = iter([None] * 7 + [2])
    diary = run(objective(), length(), stopping=lambda: next(answers))
    assert diary.steps("save") == [8]


def test_nothing_is_left_to_do_after_the_last_step():
    diary = run(objective(), length(), iter([]), first_step=8)
    assert diary.events == []


def test_samples_that_end_early_are_an_error():
    with pytest.raises(ValueError, match="the samples end after step 3 of 8"):
        run(objective(), length(), samples(3))


def test_validation_may_change_the_mode():
    made = objective()
    modes = []
    made.backbone.register_forward_pre_hook(lambda module, _: modes.append(module.training))
    run(made, length(validate_every=2), validate=lambda: made.eval() and {})
    assert modes == [True] * 8


def test_bfloat16_is_for_the_backbone_and_the_head_stays_float32():
    made = objective(precision=torch.bfloat16)
    run(made, length(epochs=0.25))
    assert made.backbone.dtypes == {torch.bfloat16}
    images, labels = torch.randn(6, 3, 2, 2), torch.arange(6) % 3
    assert made(images, labels).loss.dtype == torch.float32
    assert all(one.dtype == torch.float32 for one in made.parameters())


def in_parts(given: Iterator[Sample], *rows: int) -> Iterator[Sample]:
    for sample in given:
        parts = tuple(Part(count, count / len(sample.labels)) for count in rows)
        yield Sample(sample.images, sample.labels, sample.records, parts)


def test_a_batch_in_parts_makes_the_step_of_the_whole():
    whole, parts = objective(), objective()
    diaries = [run(whole, length(log_every=1)), run(parts, length(log_every=1), in_parts(samples(8), 3, 1, 2))]
    for one, other in zip(whole.parameters(), parts.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-6)
    for one, other in zip(*(diary.figures for diary in diaries), strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-5)
        assert one["gradient_norm"] == pytest.approx(other["gradient_norm"], rel=1e-4)


def test_a_record_of_any_part_is_named():
    with pytest.raises(TrainingDiverged, match="the loss of 2 of 6 records is not finite: image 13, image 16;"):
        run(objective(), length(), in_parts(samples(8, poison(math.nan, [1, 4])), 2, 4))


def test_parts_make_the_batch():
    with pytest.raises(ValueError, match="parts of 2, 3 rows do not make 6"):
        next(in_parts(samples(1), 2, 3))


def test_another_form_of_the_backbone_can_run_in_its_place():
    made = objective()
    calls = []
    other = Objective(made.backbone, made.head, run=lambda images: calls.append(1) or made.backbone(images))
    images, labels = torch.randn(6, 3, 2, 2), torch.arange(6) % 3
    assert other(images, labels).loss == made(images, labels).loss
    assert calls == [1]
    assert other.state_dict().keys() == made.state_dict().keys()
