"""The parts of a training that follow from its recipe alone: its length, and the `Training` that pair terms receive."""

from math import inf

import numpy as np

from verisphere.base.vocabulary import NO_CLASS
from verisphere.decide.point import far_text
from verisphere.images.packs.columns import coded
from verisphere.images.select import require_people
from verisphere.losses.auxiliary import WeightedSum
from verisphere.losses.class_loss import ClassLoss
from verisphere.losses.similarity_kl import SimilarityKL
from verisphere.pairs.pair_term import PairTerm, Training
from verisphere.pairs.teacher_distance import TeacherDistance
from verisphere.report.outcome import VALIDATION
from verisphere.train.loop import Length
from verisphere.train.recipe import Recipe


def length_of(recipe: Recipe) -> Length:
    """The length of a recipe's training on its data, in steps."""
    require_people(recipe.data)
    steps_per_epoch = len(recipe.data) // recipe.batch_size
    if not steps_per_epoch:
        raise ValueError(f"{len(recipe.data)} images do not fill one batch of {recipe.batch_size}; lower batch_size")
    check_plateau(recipe)
    per_unit = 1 if recipe.unit == "steps" else steps_per_epoch
    return Length(
        steps_per_epoch=steps_per_epoch,
        epochs=epochs_of(recipe, steps_per_epoch),
        rate=recipe.optimizer.rate,
        schedule=recipe.schedule.in_epochs(recipe.unit, steps_per_epoch),
        clip=recipe.clip,
        log_every=recipe.log_every,
        save_every=max(round(recipe.save_every * per_unit), 1),
        validate_every=max(round(recipe.validate_every * per_unit), 1) if recipe.validate_every else 0,
    )


def epochs_of(recipe: Recipe, steps_per_epoch: int | None) -> float:
    """The length of the training in epochs; infinite if it is stated in steps and an epoch's steps are unknown."""
    if recipe.steps is None:
        assert recipe.epochs is not None  # as the recipe has checked
        return recipe.epochs
    return recipe.steps / steps_per_epoch if steps_per_epoch else inf


def check_plateau(recipe: Recipe) -> None:
    """Refuse a schedule that follows a validation which does not take place, or a figure that it does not have."""
    if recipe.schedule.shape != "plateau":
        return
    if recipe.validation is None or not recipe.validate_every or not recipe.validation_far:
        raise ValueError(
            "schedule.shape is plateau, which lowers the rate when validation stops improving: it needs a validation "
            "set, validation_far, and validate_every above 0"
        )
    names = [f"{VALIDATION}{far_text(far)}" for far in recipe.validation_far]
    if recipe.schedule.figure not in (None, *names):
        raise ValueError(f"schedule.figure is {recipe.schedule.figure!r}; allowed are {', '.join(names)}")


def domains_for_loss(recipe: Recipe) -> tuple[str, ...] | None:
    """The domain of each class, for a loss that distinguishes domains; None for any other loss."""
    told_apart = recipe.loss.class_domains
    if not told_apart:
        return None
    if recipe.data.domains is None:
        raise ValueError(f"the images have no domains, and the loss has a margin for each of {', '.join(told_apart)}")
    column, labels, people = coded(recipe.data.domains), recipe.data.labels.numpy(), recipe.data.people
    domains, known = column.values, labels != NO_CLASS
    of_class = np.zeros(len(people), np.int64)
    of_class[labels[known]] = column.codes[known]
    mixed = np.flatnonzero(known & (of_class[labels] != column.codes))
    if len(mixed):
        label = labels[mixed[0]]
        first, second = sorted((domains[of_class[label]], domains[column.codes[mixed[0]]]))
        raise ValueError(
            f"{people[label]} has images in the domains {first} and {second}; a loss with a margin for each domain "
            "needs all images of a person in one"
        )
    present = sorted({domains[number] for number in np.unique(of_class).tolist()})
    for domain in present:
        if domain not in told_apart:
            raise ValueError(
                f"images are in the domain {domain}, for which the loss has no margin; it has margins for "
                f"{', '.join(told_apart)}"
            )
    for domain in told_apart:
        if domain not in present:
            raise ValueError(
                f"the loss has a margin for the domain {domain}, in which no image is; the images are in "
                f"{', '.join(present)}"
            )
    return tuple(domains[number] for number in of_class.tolist())


def loss_of(recipe: Recipe) -> ClassLoss:
    """The recipe's loss; in a distillation with the divergence between class similarities beside it."""
    distill = recipe.distill
    if not (distill.teachers and distill.kl):
        return recipe.loss
    return WeightedSum([recipe.loss, SimilarityKL(distill.scale)], [1.0, distill.kl])


def terms_of(recipe: Recipe) -> list[PairTerm]:
    """The recipe's pair terms; in a distillation with the distance between embeddings behind them."""
    distill = recipe.distill
    if not (distill.teachers and distill.l2):
        return recipe.pair_terms
    return [*recipe.pair_terms, TeacherDistance(distill.l2, distill.projection)]


def training_of(recipe: Recipe, teacher_size: int | None = None) -> Training:
    """The recipe's training on its data, as pair terms are prepared for it."""
    domains = None if recipe.data.domains is None else tuple(sorted(coded(recipe.data.domains).present()))
    steps_per_epoch = len(recipe.data) // recipe.batch_size
    return training_without_data(recipe, len(recipe.data.people), domains, steps_per_epoch, teacher_size)


def training_without_data(
    recipe: Recipe,
    classes: int,
    domains: tuple[str, ...] | None,
    steps_per_epoch: int | None = None,
    teacher_size: int | None = None,
) -> Training:
    """The recipe's training on other data than its own, which are not read.

    None says that the data have no domains or are of unknown length, or that there is no teacher.
    """
    return Training(
        classes,
        recipe.backbone.embedding_size,
        recipe.batch_size,
        domains,
        recipe.backbone.side_columns,
        epochs_of(recipe, steps_per_epoch),
        recipe.unit,
        steps_per_epoch,
        teacher_size,
    )
