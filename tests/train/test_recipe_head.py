"""A recipe's fields as the objects that a head takes."""

import pytest

from verisphere.head import Auto, Dense, Sampled, Sparse, Streamed, SubCenters
from verisphere.train.recipe import Recipe, read_recipe
from verisphere.train.recipe_head import centers_and_engine


def recipe(*overrides: str) -> Recipe:
    data = "--data", "verisphere.images.SyntheticFaces", "--data.people", "4", "--data.images", "2"
    parts = "--backbone", "verisphere.backbones.Pixels", "--backbone.side", "4", "--loss", "verisphere.losses.ArcFace"
    return read_recipe(None, [*data, *parts, *overrides]).recipe


@pytest.mark.parametrize(
    ("overrides", "engine"),
    [
        ([], Auto(Streamed("float32"))),
        (["--engine", "dense"], Dense()),
        (["--engine", "streamed", "--head_precision", "bfloat16"], Streamed("bfloat16")),
        (["--engine", "auto", "--head_precision", "bfloat16"], Auto(Streamed("bfloat16"))),
        (["--engine", "sparse", "--loss", "verisphere.losses.QMargin"], Sparse(Streamed())),
        (["--engine", "sampled", "--sample_rate", "0.25", "--seed", "3"], Sampled(0.25, Streamed(), seed=3)),
    ],
)
def test_engines(overrides, engine):
    assert centers_and_engine(recipe(*overrides))[1] == engine


def test_centers():
    assert centers_and_engine(recipe())[0] == SubCenters()
    fields = "--subcenters", "3", "--pooling", "softmax", "--pull_together", "0.5"
    assert centers_and_engine(recipe(*fields))[0] == SubCenters(3, "softmax", pull_together=0.5)
    assert centers_and_engine(recipe(*fields, "--temperature", "0.05"))[0] == SubCenters(3, "softmax", 0.05, 0.5)
