"""A recipe's fields as the objects that a head takes."""

from verisphere.head import Auto, Dense, Sampled, Sparse, Streamed, SubCenters
from verisphere.head.interface import Engine
from verisphere.train.recipe import Recipe


def centers_and_engine(recipe: Recipe) -> tuple[SubCenters, Engine]:
    """The sub-centers of each class, and the engine of one rank, which several ranks put into `Sharded`."""
    centers = SubCenters(recipe.subcenters, recipe.pooling, recipe.temperature, recipe.pull_together)
    streamed = Streamed(recipe.head_precision)
    engines: dict[str, Engine] = {
        "dense": Dense(),
        "streamed": streamed,
        "auto": Auto(streamed),
        "sparse": Sparse(streamed),
        "sampled": Sampled(recipe.sample_rate, streamed, recipe.seed),
    }
    return centers, engines[recipe.engine]
