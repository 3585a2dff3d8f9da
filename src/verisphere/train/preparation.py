"""What follows from a recipe before its training begins: the length, and what the pair terms need to know."""

from verisphere.images.select import require_people
from verisphere.pairs.pair_term import Training
from verisphere.train.loop import Length
from verisphere.train.recipe import Recipe


def length_of(recipe: Recipe) -> Length:
    """The length of a recipe's training on its data, in steps.

    Raises:
        ValueError: the data have too few people, or too few images for one batch.
    """
    require_people(recipe.data)
    steps_per_epoch = len(recipe.data) // recipe.batch_size
    if not steps_per_epoch:
        raise ValueError(f"{len(recipe.data)} images do not fill one batch of {recipe.batch_size}; lower batch_size")
    return Length(
        steps_per_epoch=steps_per_epoch,
        epochs=recipe.epochs,
        rate=recipe.optimizer.rate,
        schedule=recipe.schedule,
        clip=recipe.clip,
        log_every=recipe.log_every,
        save_every=max(round(recipe.save_every * steps_per_epoch), 1),
        validate_every=max(round(recipe.validate_every * steps_per_epoch), 1) if recipe.validate_every else 0,
    )


def training_of(recipe: Recipe) -> Training:
    """The recipe's training on its data, as pair terms are prepared for it."""
    domains = None if recipe.data.domains is None else tuple(sorted(set(recipe.data.domains)))
    return training_without_data(recipe, len(recipe.data.people), domains)


def training_without_data(recipe: Recipe, classes: int, domains: tuple[str, ...] | None) -> Training:
    """The recipe's training on other data than its own, which are not read.

    Args:
        recipe: everything but the data.
        classes: number of identities.
        domains: names of the domains; None for data without domains.
    """
    return Training(
        classes,
        recipe.backbone.embedding_size,
        recipe.batch_size,
        domains,
        recipe.backbone.side_columns,
        recipe.epochs,
    )
