"""The streamed engine by itself: what it holds in memory, how many products it makes, its shifts and its refusals."""

import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from verisphere.head import streamed
from verisphere.head.auto import Auto
from verisphere.head.dense import Dense, DenseView
from verisphere.head.head import Head
from verisphere.head.interface import Engine, SGDStep, ViewRequest
from verisphere.head.passes import Chunks, chunk_size
from verisphere.head.streamed import Streamed, StreamedView
from verisphere.head.subcenters import SubCenters
from verisphere.losses.auxiliary import Inter, WeightedSum
from verisphere.losses.class_loss import ClassLoss
from verisphere.losses.curricular import CurricularFace
from verisphere.losses.margin import ArcFace, NormFace
from verisphere.losses.sphereface2 import SphereFace2

BATCH, CLASSES, SIZE = 16, 600, 8


class Watch(TorchDispatchMode):
    """Counts products, and writes down the shape and type of every tensor that an operation makes anew."""

    def __init__(self):
        super().__init__()
        self.products, self.made = 0, []

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        result = function(*arguments, **(keywords or {}))
        self.products += function is torch.ops.aten.mm.default
        view = function.is_view or any(argument.alias_info for argument in function._schema.arguments)
        for one in result if isinstance(result, tuple | list) else (result,):
            if isinstance(one, torch.Tensor) and not view:
                self.made.append((one.dtype, one.numel()))
        return result

    def of_size(self, numel: int, dtype: torch.dtype = torch.float32) -> int:
        """How many tensors of at least this many numbers were made."""
        return sum(made >= numel and kind == dtype for kind, made in self.made)


def batch(classes: int = CLASSES) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    embeddings = 5 * torch.randn(BATCH, SIZE, generator=generator)
    return embeddings.requires_grad_(), torch.randint(0, classes, (BATCH,), generator=generator)


def head_of(loss: ClassLoss, engine: Engine, classes: int = CLASSES) -> Head:
    torch.manual_seed(1)
    return Head(loss, classes, SIZE, engine=engine)


def watched(loss: ClassLoss, engine: Engine, deferred: bool = False) -> Watch:
    head, (embeddings, labels) = head_of(loss, engine), batch()
    head.deferred = deferred
    buffer = torch.zeros_like(head.centers)
    with Watch() as watch:
        head(embeddings, labels).loss.backward()
        if deferred:
            with torch.no_grad():
                assert head.step(SGDStep(0.1, momentum=0.9), buffer)
    return watch


CHUNK = 60  # ten of them
LOSSES = {"ArcFace": ArcFace, "unbounded": lambda: ClassLoss(32.0), "SphereFace2": SphereFace2}


@pytest.mark.parametrize("make", LOSSES.values(), ids=LOSSES.keys())
@pytest.mark.parametrize("engine", [Streamed(chunk=CHUNK), Streamed("bfloat16", chunk=CHUNK),
                                    Streamed("bfloat16", chunk=CHUNK, keep_bytes=0)],
                         ids=["float32", "kept", "again"])  # fmt: skip
@pytest.mark.parametrize("deferred", [False, True])
def test_no_batch_x_classes_floats(make, engine, deferred):
    watch = watched(make(), engine, deferred)
    gradients = watch.of_size(CLASSES * SIZE)
    assert gradients == (0 if deferred else 1)  # the one that an optimizer asks for
    assert watch.of_size(2 * BATCH * CHUNK) == gradients  # a chunk's logits are the largest tensors beside it


def test_the_dense_engine_would_be_seen():
    head, (embeddings, labels) = head_of(ArcFace(), Dense()), batch()
    with Watch() as watch:
        head(embeddings, labels).loss.backward()
    assert watch.of_size(BATCH * CLASSES) > 4


@pytest.mark.parametrize(
    ("make", "engine", "deferred", "products"),
    [
        (ArcFace, Streamed("bfloat16", chunk=CHUNK), False, 3),
        (ArcFace, Streamed("bfloat16", chunk=CHUNK), True, 3),
        (ArcFace, Streamed("bfloat16", chunk=CHUNK, keep_bytes=0), True, 4),
        (ArcFace, Streamed(chunk=CHUNK), False, 4),  # float32 derivatives would be as large as the logits
        (SphereFace2, Streamed(chunk=CHUNK), False, 3),  # in one pass
        (SphereFace2, Streamed("bfloat16", chunk=CHUNK, keep_bytes=0), False, 3),
        (SphereFace2, Streamed("bfloat16", chunk=CHUNK), True, 3),
        (SphereFace2, Streamed(chunk=CHUNK), True, 4),
    ],
)
def test_how_many_products_a_chunk_costs(make, engine, deferred, products):
    assert watched(make(), engine, deferred).products == products * CLASSES / CHUNK


@pytest.mark.parametrize("deferred", [False, True])
def test_a_small_batch_copies_no_more_centers_at_a_time(deferred, monkeypatch):
    """One row: a chunk is bounded by its centers, 64 classes of 8 numbers."""
    monkeypatch.setitem(streamed.CHUNK_ELEMENTS, "cpu", 64 * SIZE)
    head = head_of(ArcFace(), Streamed("bfloat16"))
    head.deferred = deferred
    buffer = torch.zeros_like(head.centers)
    with Watch() as watch:
        head(torch.ones(1, SIZE, requires_grad=True), torch.tensor([3])).loss.backward()
        if deferred:
            with torch.no_grad():
                assert head.step(SGDStep(0.1, momentum=0.9), buffer)
    assert watch.of_size(100 * SIZE) == (0 if deferred else 1)  # the gradient
    assert watch.of_size(100 * SIZE, torch.bfloat16) == 0


def test_what_is_kept_stays_within_the_budget():
    needed = 2 * BATCH * CLASSES
    exactly, less = (watched(ArcFace(), Streamed("bfloat16", CHUNK, keep)) for keep in (needed, needed - 1))
    assert (exactly.products, less.products) == (30, 40)


def test_one_pass_follows_whatever_is_done_with_the_loss():
    embeddings, labels = batch()
    found = []
    for engine in (Dense(), Streamed(chunk=CHUNK)):
        head = head_of(SphereFace2(), engine).double()
        (head(embeddings, labels).loss * 3 - 1).square().backward()
        found.append((head.centers.grad, head.loss.bias.grad, embeddings.grad))
        embeddings.grad = None
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


def test_products_in_bfloat16_are_summed_in_float32():
    """600 chunks pull alike, each with a 600th: a sum in bfloat16 would soon stop growing."""
    embeddings, labels = batch()
    direction = torch.nn.functional.one_hot(torch.tensor([0]), SIZE).float()
    gradients = []
    for engine in (Dense(), Streamed("bfloat16", chunk=1), Streamed("bfloat16", chunk=1, keep_bytes=0)):
        head = head_of(NormFace(1.0), engine)
        head.centers.data.add_(direction)
        embeddings.grad = None
        head(embeddings, labels).loss.backward()
        gradients.append(embeddings.grad)
    for gradient in gradients[1:]:
        assert (gradient - gradients[0]).norm() < 0.1 * gradients[0].norm()


@pytest.mark.parametrize("factor", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_is_not_taken_for_a_wrong_slope(factor):
    embeddings, labels = batch()
    head = head_of(SphereFace2(), Streamed(chunk=CHUNK))
    (head(embeddings, labels).loss * factor).backward()
    assert not head.centers.grad.isfinite().any()


def test_rows_without_weight_in_one_pass():
    embeddings, labels = batch()
    head = head_of(SphereFace2(), Streamed(chunk=CHUNK))
    head(embeddings, labels, torch.zeros(BATCH)).loss.backward()
    assert head.centers.grad.abs().max() == 0


class WrongSlope(SphereFace2):
    """Its sum is squared, whatever it says."""

    def finish(self, own, rest, *context):
        return own + rest.square()


def test_a_loss_that_is_not_linear_as_it_says_is_found_out():
    embeddings, labels = batch()
    out = head_of(WrongSlope(), Streamed(chunk=CHUNK))(embeddings, labels)
    with pytest.raises(ValueError, match=r"says that it is linear, but .* not what its slope\(\) says"):
        out.loss.backward()


class Running(NormFace):
    """No bound, so that a running maximum is kept."""

    def bound(self):
        return None


@pytest.mark.parametrize("scale", [1.0, 64.0, 2000.0])
def test_running_maximum(scale):
    """Against a loss of any scale in float32: exponentials of 2000 would overflow, those of -2000 vanish."""
    embeddings, labels = batch()
    expected = head_of(NormFace(scale), Dense()).double()(embeddings.detach().double(), labels)
    for loss in (Running(scale), NormFace(scale)):
        found = head_of(loss, Streamed(chunk=7))(embeddings, labels)
        torch.testing.assert_close(found.per_sample.double(), expected.per_sample, rtol=1e-4, atol=1e-4)
        found.loss.backward()
        assert embeddings.grad.isfinite().all()


@pytest.mark.parametrize("classes", [CLASSES, 2**21])
def test_fixed_shift_loses_nothing_at_either_end(classes):
    """All other classes at cosine -1 or all at 1, own ones opposite; exponentials of +-64 in float32, and many."""
    direction = torch.nn.functional.normalize(torch.randn(SIZE, generator=torch.Generator().manual_seed(2)), dim=0)
    for sign in (1.0, -1.0):
        head = head_of(NormFace(64.0), Streamed(compile=False), classes)
        head.centers.data[:] = sign * direction
        head.centers.data[0] = -sign * direction
        out = head(direction.expand(2, SIZE), torch.zeros(2, dtype=torch.int64))
        expected = math.log(classes - 1) + 2 * 64 * sign  # log(1 + exp(it)) is it, or the exponential of it
        expected = expected if sign > 0 else math.exp(expected)
        assert out.per_sample.tolist() == pytest.approx([expected] * 2, rel=1e-4)


def test_a_bound_of_128_takes_a_running_maximum():
    """CurricularFace, with easy classes at logits of -64: less a shift made for 128 they would all vanish."""
    direction = torch.nn.functional.one_hot(torch.tensor([0]), SIZE).float()
    angle = 2.5  # of the own center; with the margin of 0.5 still above the others, at cosine -1
    own = torch.tensor([[math.cos(angle), math.sin(angle), *[0.0] * (SIZE - 2)]])
    head = head_of(CurricularFace(0.5, 64.0), Streamed(chunk=CHUNK))
    head.centers.data[:] = -direction
    head.centers.data[0] = own
    expected = math.log1p((CLASSES - 1) * math.exp(-64 - 64 * math.cos(angle + 0.5)))
    assert head(direction, torch.tensor([0])).per_sample.tolist() == pytest.approx([expected], rel=1e-4)


@pytest.mark.parametrize("length", [1e-6, 1e-10])
def test_short_centers_have_a_finite_gradient(length):
    """The slope of their cosines is 1 / length, beside exponentials as large as the fixed shift lets them be."""
    direction = torch.nn.functional.one_hot(torch.tensor([0]), SIZE).float()
    across = torch.nn.functional.one_hot(torch.tensor([1]), SIZE).float()
    found = []
    for engine in (Dense(), Streamed(chunk=CHUNK)):
        head = head_of(NormFace(64.0), engine)
        head.centers.data[:] = direction * length
        head.centers.data[0] = -across
        head((direction + 0.14 * across).expand(2, SIZE), torch.zeros(2, dtype=torch.int64)).loss.backward()
        found.append(head.centers.grad)
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-7 / length)


def near_pair() -> torch.Tensor:
    """Centers, the first two of them 3 degrees apart: a cosine of 0.9986, which bfloat16 rounds to 1."""
    centers = torch.randn(40, 1, 64, generator=torch.Generator().manual_seed(3))
    first, second = torch.linalg.qr(centers[:2, 0].T).Q.T
    turn = math.radians(3)
    centers[0, 0], centers[1, 0] = first, math.cos(turn) * first + math.sin(turn) * second
    return centers


@pytest.mark.parametrize("make", [Inter, lambda: WeightedSum([Inter()], [2.0])], ids=["alone", "in a sum"])
def test_a_loss_that_takes_angles_has_exact_products(make):
    gradients = []
    for engine in (Dense(), Streamed("bfloat16", chunk=7)):
        head = Head(make(), 40, 64, engine=engine)
        head.centers.data[:] = near_pair()
        head(torch.randn(8, 64, generator=torch.Generator().manual_seed(4)), torch.arange(8)).loss.backward()
        gradients.append(head.centers.grad)
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("make", [ArcFace, lambda: CurricularFace(rate=0.9)], ids=["plain", "with a state"])
def test_two_batches_before_their_backwards(make):
    """The curriculum of the first batch is a copy: the second moves it in place."""
    embeddings, labels = batch()
    found = []
    for engine in (Dense(), Streamed(chunk=CHUNK)):
        head = head_of(make(), engine).double()
        first = head(embeddings.detach().double(), labels).loss
        second = head(embeddings.detach().double() + 4, labels.flip(0)).loss
        second.backward()
        first.backward()
        found.append(head.centers.grad)
    torch.testing.assert_close(found[1], found[0])


@pytest.mark.parametrize("make", LOSSES.values(), ids=LOSSES.keys())
def test_a_backward_to_the_embeddings_leaves_nothing_behind(make):
    embeddings, labels = batch()
    found = []
    for engine in (Dense(), Streamed(chunk=CHUNK)):
        head = head_of(make(), engine).double()
        rows = embeddings.detach().double().requires_grad_()
        loss = head(rows, labels).loss * 3
        torch.autograd.grad(loss, rows, retain_graph=True)
        torch.autograd.grad(-2 * loss, rows, retain_graph=True)
        loss.backward()
        found.append((head.centers.grad, rows.grad))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


def test_what_waits_is_settled():
    """A later backward to the embeddings alone does not change it."""
    embeddings, labels = batch()
    moved = []
    for again in (False, True):
        head = head_of(ArcFace(), Streamed(chunk=CHUNK))
        head.deferred = True
        loss = head(embeddings, labels).loss
        loss.backward(retain_graph=True)
        if again:
            torch.autograd.grad(5 * loss, embeddings)
        with torch.no_grad():
            head.step(SGDStep(0.1))
        moved.append(head.centers.detach())
    assert torch.equal(*moved)


@pytest.mark.parametrize("deferred", [False, True])
def test_autocast_around_the_backward_changes_nothing(deferred):
    embeddings, labels = batch()
    found = []
    for enabled in (False, True):
        head = head_of(ArcFace(), Streamed(chunk=CHUNK))
        head.deferred = deferred
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            head(embeddings, labels).loss.backward()
            if deferred:
                with torch.no_grad():
                    head.step(SGDStep(0.1))
        found.append(head.centers.detach() if deferred else head.centers.grad)
    assert torch.equal(*found)


def test_hooks_on_saved_tensors_are_refused():
    embeddings, labels = batch()
    head = head_of(ArcFace(), Streamed(chunk=CHUNK))
    with (
        torch.autograd.graph.save_on_cpu(),
        pytest.raises(RuntimeError, match="the streamed engine cannot run under hooks on saved tensors"),
    ):
        head(embeddings, labels)


def test_backward_twice_through_a_retained_graph():
    embeddings, labels = batch()
    head = head_of(ArcFace(), Streamed("bfloat16", chunk=CHUNK))
    loss = head(embeddings, labels).loss
    loss.backward(retain_graph=True)
    once = head.centers.grad.clone()
    loss.backward()
    torch.testing.assert_close(head.centers.grad, 2 * once)


def test_backward_twice_through_one_pass_is_refused():
    embeddings, labels = batch()
    loss = head_of(SphereFace2(), Streamed(chunk=CHUNK))(embeddings, labels).loss
    loss.backward(retain_graph=True)
    with pytest.raises(ValueError, match="a second backward pass through one forward pass"):
        loss.backward()


def test_centers_changed_before_the_backward_are_an_error():
    embeddings, labels = batch()
    head = head_of(ArcFace(), Streamed(chunk=CHUNK))
    loss = head(embeddings, labels).loss
    with torch.no_grad():
        head.centers.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradient(mode):
    embeddings, labels = batch()
    head = head_of(ArcFace(), Streamed("bfloat16", chunk=CHUNK))
    with mode():
        out = head(embeddings.detach(), labels)
    assert not out.loss.requires_grad
    torch.testing.assert_close(out.per_sample, head(embeddings, labels).per_sample)


def test_only_what_asks_receives_a_gradient():
    embeddings, labels = batch()
    head = head_of(ArcFace(), Streamed(chunk=CHUNK))
    head.centers.requires_grad_(False)
    head(embeddings, labels).loss.backward()
    expected = embeddings.grad
    head.centers.requires_grad_(True)
    embeddings.grad = None
    head(embeddings, labels).loss.backward()
    torch.testing.assert_close(embeddings.grad, expected)
    alone = head_of(ArcFace(), Streamed(chunk=CHUNK))
    alone(embeddings.detach(), labels).loss.backward()
    torch.testing.assert_close(alone.centers.grad, head.centers.grad)


def test_float64_embeddings_over_float32_centers():
    embeddings, labels = batch()
    found = []
    for engine in (Dense(), Streamed(chunk=CHUNK)):
        head = head_of(ArcFace(), engine)
        out = head(embeddings.double(), labels)
        out.loss.backward()
        assert out.loss.dtype == torch.float64
        assert head.centers.grad.dtype == torch.float32
        found.append((out.per_sample, head.centers.grad))
    torch.testing.assert_close(found[1][0], found[0][0], rtol=1e-12, atol=0)
    torch.testing.assert_close(found[1][1], found[0][1])


@pytest.mark.parametrize("logits", [BATCH * CLASSES, BATCH * CLASSES - 1])
def test_auto_goes_by_the_number_of_logits(logits):
    embeddings, labels = batch()
    head = head_of(ArcFace(), Dense())
    request = ViewRequest(labels, SubCenters(), "cosine", torch.float32, head.loss, embeddings)
    view = Auto(Streamed(), logits).view(head.centers, request)
    assert type(view) is (DenseView if logits == BATCH * CLASSES else StreamedView)
    expected = head(embeddings, labels).per_sample
    torch.testing.assert_close(head_of(ArcFace(), Auto(Streamed(), logits))(embeddings, labels).per_sample, expected)


@pytest.mark.parametrize(("classes", "at_most", "sizes"), [(10, 4, [4, 4, 2]), (10, 100, [10]), (7, 1, [1] * 7),
                                                          (9, 8, [5, 4]), (1, 1, [1])])  # fmt: skip
def test_chunks_cover_every_class_once(classes, at_most, sizes):
    centers = torch.randn(classes, 2, 3)
    chunks = list(Chunks(centers, at_most, torch.float32, cosine=True))
    assert [len(chunk.stored) // 2 for chunk in chunks] == sizes
    assert [chunk.first for chunk in chunks] == [sum(sizes[:index]) for index in range(len(sizes))]
    assert torch.equal(torch.cat([chunk.stored for chunk in chunks]), centers.flatten(0, 1))
    lengths = torch.cat([chunk.inverse for chunk in chunks]).reciprocal()
    torch.testing.assert_close(lengths, centers.flatten(0, 1).norm(dim=1))


@pytest.mark.parametrize(("classes", "at_most", "size"), [(10**6, 2**16, 62_528), (10_000, 8192, 5056), (90, 100, 90),
                                                         (64, 64, 64), (130, 128, 128)])  # fmt: skip
def test_chunks_of_a_gpu_are_aligned(classes, at_most, size):
    assert chunk_size(classes, at_most, "cuda") == size
    assert chunk_size(classes, at_most, "cpu") <= size <= at_most


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"chunk": 0}, "chunk is 0; it needs at least 1 class"), ({"keep_bytes": -1}, "keep_bytes is -1; it must not be")],
)
def test_refusals(settings, message):
    with pytest.raises(ValueError, match=message):
        Streamed(**settings)


COMPILED = """
import torch
from verisphere.base.compiling import compiler_works
from verisphere.head import Head, SGDStep, Streamed, SubCenters
from verisphere.losses.curricular import CurricularFace
from verisphere.losses.margin import ArcFace
from verisphere.losses.sphereface2 import SphereFace2
if not compiler_works("cpu"):
    raise SystemExit(77)
for make in (ArcFace, CurricularFace, SphereFace2):
    for subcenters in (1, 2):
        for precision in ("float32", "bfloat16"):
            found = []
            for compile in (False, True):
                torch.manual_seed(0)
                engine = Streamed(precision, chunk=20, compile=compile)
                head = Head(make(), 50, 16, centers=SubCenters(subcenters), engine=engine)
                rows = torch.randn(8, 16).mul(4).requires_grad_()
                out = head(rows, torch.arange(8))
                out.loss.backward()
                gradient = head.centers.grad.clone()
                head.deferred, head.centers.grad, buffer = True, None, torch.zeros_like(head.centers)
                head(rows, torch.arange(8)).loss.backward()
                with torch.no_grad():
                    head.step(SGDStep(0.1, 0.9, 5e-4, nesterov=True), buffer)
                found.append([out.per_sample, rows.grad, gradient, head.centers.detach(), buffer])
            for one, other in zip(*found, strict=True):
                assert (one - other).norm() <= (1e-5 if precision == "float32" else 1e-2) * other.norm()
"""


@pytest.mark.slow
def test_compiled_is_eager():
    """In a process of its own: what checks shapes here is not to be compiled along."""
    source = Path(__file__).parents[2] / "src"
    done = subprocess.run([sys.executable, "-c", COMPILED], cwd=source, capture_output=True, text=True, check=False)
    if done.returncode == 77:
        pytest.skip("there is no compiler here")
    assert done.returncode == 0, done.stderr
    assert "could not be compiled" not in done.stderr
