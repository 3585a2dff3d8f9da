"""Every loss on the streamed engine, and one of each kind in each precision and setting, against the dense engine."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf, isfinite, nan
from pathlib import Path

import pytest
import torch
from torch import Tensor

from loss_examples import of_all, of_kinds
from verisphere.head.dense import Dense
from verisphere.head.head import Head
from verisphere.head.interface import Engine
from verisphere.head.streamed import Streamed
from verisphere.head.subcenters import SubCenters
from verisphere.losses.class_loss import ClassLoss

BATCH, CLASSES = 6, 13


@dataclass
class Case:
    """A batch for a head; `run` gives everything that an engine could get wrong."""

    make: Callable[[], ClassLoss]
    subcenters: int = 1
    classes: int = CLASSES
    size: int = 8
    dtype: torch.dtype = torch.float64
    settings: dict = field(default_factory=dict)

    def __post_init__(self):
        generator = torch.Generator().manual_seed(7)
        loss = self.make()
        self.embeddings = torch.randn(BATCH, self.size, generator=generator, dtype=torch.float64)
        if loss.similarity == "cosine":
            self.embeddings *= 5
        self.centers = torch.randn(
            self.classes, self.subcenters, self.size + loss.class_bias, generator=generator, dtype=torch.float64
        )
        self.labels = torch.randint(0, self.classes, (BATCH,), generator=generator)
        self.labels[:2] = self.labels[0]  # a class that two rows share
        if loss.reduce == "sum" and loss.query != "own_center":  # it accepts rows without a class
            self.labels[3] = -1
        self.weights = torch.rand(BATCH, generator=generator, dtype=torch.float64)

    def head(self, engine: Engine) -> Head:
        centers = SubCenters(self.subcenters, **self.settings)
        return Head(self.make(), self.classes, self.size, centers=centers, engine=engine).to(self.dtype)

    def run(self, engine: Engine) -> dict[str, Tensor]:
        head = self.head(engine)
        head.centers.data = self.centers.to(self.dtype)
        embeddings = self.embeddings.to(self.dtype, copy=True).requires_grad_()
        out = head(embeddings, self.labels, self.weights.to(self.dtype))
        out.loss.backward()
        found = {"loss": out.loss.detach(), "per_sample": out.per_sample}
        gradients = {"embeddings": embeddings.grad, **{name: one.grad for name, one in head.named_parameters()}}
        found |= {f"gradient of {name}": one for name, one in gradients.items() if one is not None}
        return found


def differences(found: dict[str, Tensor], expected: dict[str, Tensor], floor: float = 1e-6) -> dict[str, float]:
    """L2 distance of each, relative to the length of what is expected, or to `floor` where that is shorter.

    Infinite where it is not finite: a maximum would pass over nan.
    """
    none = {name: torch.zeros_like(one) for name, one in expected.items()}
    apart = {
        name: float((found.get(name, none[name]) - one).double().norm() / max(float(one.double().norm()), floor))
        for name, one in expected.items()
    }
    return {name: one if isfinite(one) else inf for name, one in apart.items()}


def test_a_difference_that_is_not_finite_is_the_largest():
    one, other = {"loss": torch.ones(2), "gradient": torch.tensor([1.0, nan])}, {"loss": torch.ones(2)}
    assert max(differences(one, other | {"gradient": torch.ones(2)}).values()) == inf


@pytest.fixture
def make(example) -> Callable[[], ClassLoss]:
    return example.make


@of_all()
def test_streamed_is_dense_in_float64(make):
    case = Case(make, 3)
    found, dense = case.run(Streamed(chunk=5)), case.run(Dense())  # 13 = 5 + 5 + 3: the last is of another size
    assert max(differences(found, dense).values()) < 1e-10


@of_kinds()
@pytest.mark.parametrize(
    ("subcenters", "dtype", "tolerance"),
    [(1, torch.float64, 1e-10), (3, torch.float64, 1e-10), (3, torch.float32, 1e-5)],
    ids=["K=1", "K=3", "float32"],
)
def test_streamed_is_dense_whatever_the_chunk(make, subcenters, dtype, tolerance):
    case = Case(make, subcenters, dtype=dtype)
    dense = case.run(Dense())
    for chunk in (1, 5, CLASSES):
        for name, difference in differences(case.run(Streamed(chunk=chunk)), dense).items():
            assert difference < tolerance, (chunk, name)


@of_kinds()
def test_streamed_is_dense_in_bfloat16(make):
    case = Case(make, 3, size=64, dtype=torch.float32)
    dense = case.run(Dense())
    kept, again = (case.run(Streamed("bfloat16", chunk=5, keep_bytes=keep)) for keep in (2**30, 0))
    for name, difference in differences(kept, dense).items():
        assert difference < (5e-2 if "gradient" in name else 2e-2), name
    assert max(differences(again, kept).values()) < 1e-6


@of_kinds()
def test_pooling_and_regulariser_are_the_same(make):
    settings = {"pooling": "softmax", "temperature": 0.5, "pull_together": 2.0}
    case = Case(make, 3, classes=5, settings=settings)
    assert max(differences(case.run(Streamed(chunk=2)), case.run(Dense())).values()) < 1e-10


@of_kinds()
@pytest.mark.parametrize("classes", [1, 2])
def test_few_classes(example, make, classes):
    if classes == 1 and example.alone == "refused":
        with pytest.raises(ValueError, match="class"):
            Case(make, 3, classes=1).run(Dense())
        return
    case = Case(make, 3, classes=classes)
    assert max(differences(case.run(Streamed(chunk=1)), case.run(Dense())).values()) < 1e-10
    case.dtype = torch.float32
    for engine in (Streamed(), Streamed("bfloat16")):
        assert all(one.isfinite().all() for one in case.run(engine).values())


@of_kinds()
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_cosines_of_one_and_rows_of_length_zero(make, sign):
    """Rows on their center or opposite, all other centers with them; a row and a class without direction."""
    case = Case(make, 3, classes=6)
    direction = torch.randn(case.size, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    case.centers[..., : case.size] = direction
    case.embeddings[:] = sign * 3 * direction
    case.embeddings[4] = 0
    case.centers[1] = 0
    dense, streamed = case.run(Dense()), case.run(Streamed(chunk=2))
    # Some gradients are 0 but for rounding. The angle of a cosine of 1 that is rounded by 2^-53 is 1.5e-8, not 0.
    tolerance = 1e-7 if make().exact_products else 1e-10
    assert max(differences(streamed, dense, floor=1.0).values()) < tolerance
    case.dtype = torch.float32
    for engine in (Streamed(chunk=2), Streamed("bfloat16", chunk=2)):
        assert all(one.isfinite().all() for one in case.run(engine).values())


@pytest.mark.parametrize("engine", ["dense", "streamed", "auto"])
def test_own_loss_by_its_import_path(engine, tmp_path, monkeypatch):
    # here, since other tests start processes that import this file: they need no workflows, which take their time
    from verisphere.train.recipe import read_recipe
    from verisphere.train.session import train_run

    for folder in (Path(__file__).parent, Path(__file__).parents[1] / "train"):
        monkeypatch.syspath_prepend(folder)
    path = tmp_path / "recipe.yaml"
    path.write_text(
        "data: {class_path: own_parts.Noise, init_args: {people: 5, images: 2}}\n"
        "backbone: {class_path: own_parts.TinyNet}\n"
        "loss: {class_path: own_loss.SoftMargin, init_args: {scale: 12}}\n"
        f"engine: {engine}\nsubcenters: 2\nbatch_size: 4\nepochs: 1\n"
    )
    read = read_recipe(path, [])
    objective = train_run(read, tmp_path / "run", device="cpu")
    assert type(read.recipe.loss).__name__ == "SoftMargin"
    assert read.recipe.loss.margin.item() != pytest.approx(0.2)  # it has learned
    assert all(parameter.isfinite().all() for parameter in objective.head.parameters())

    case = Case(lambda: type(read.recipe.loss)(12.0), 3)
    assert max(differences(case.run(Streamed(chunk=5)), case.run(Dense())).values()) < 1e-10
