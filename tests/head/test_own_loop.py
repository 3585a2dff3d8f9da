"""A head inside other people's loops: clipping, scaling, other optimizers, autocast, compile, export, odd inputs."""

import copy
import gc
import pickle
from contextlib import suppress

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from loss_examples import of_all
from verisphere.head.checks import check_rows
from verisphere.head.deferred import DeferredTensor
from verisphere.head.dense import Dense
from verisphere.head.head import Head
from verisphere.head.sampled import Sampled
from verisphere.head.streamed import Streamed
from verisphere.head.subcenters import SubCenters
from verisphere.head.update import HeadSGD
from verisphere.losses.auxiliary import Inter, Intra, WeightedSum
from verisphere.losses.domain_margins import DomainMargins
from verisphere.losses.elastic_face import ElasticFace
from verisphere.losses.margin import ArcFace
from verisphere.losses.sphereface2 import SphereFace2

CLASSES, SIZE = 11, 6
#: An engine that defers the gradient, one that computes the same gradient, and a momentum under which both agree.
DEFERRING = {
    "streamed": (Streamed(chunk=4), Dense(), 0.9),
    "sampled": (Sampled(0.9, Streamed(chunk=4)), Sampled(0.9, Dense()), 0.0),
    "sampled, dense": (Sampled(0.9, Dense()), Sampled(0.9, Dense()), 0.0),
}


def batch(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(8, SIZE, generator=generator, dtype=torch.float64)
    return rows, torch.randint(0, CLASSES, (8,), generator=generator)


def model(engine, loss=None) -> nn.ModuleDict:
    """A backbone and a head with two sub-centers, in float64."""
    torch.manual_seed(1)
    loss = WeightedSum([ArcFace(), Inter()]) if loss is None else loss
    head = Head(loss, CLASSES, SIZE, centers=SubCenters(2, pull_together=0.2), engine=engine)
    return nn.ModuleDict({"backbone": nn.Linear(SIZE, SIZE), "head": head}).double()


def loss_of(parts: nn.ModuleDict, rows: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return parts["head"](parts["backbone"](rows), labels).loss


def stepper(parts: nn.ModuleDict, deferred: bool, momentum: float = 0.9) -> torch.optim.Optimizer:
    if deferred:
        return HeadSGD(parts.parameters(), parts["head"], lr=0.1, momentum=momentum)
    return torch.optim.SGD(parts.parameters(), lr=0.1, momentum=momentum)


@pytest.mark.parametrize(("engine", "reference", "momentum"), DEFERRING.values(), ids=DEFERRING.keys())
def test_clipping_and_scaling_reach_a_deferred_gradient(engine, reference, momentum):
    norms, weights = [], []
    for deferred, parts in ((False, model(reference)), (True, model(engine))):
        optimizer, scaler = stepper(parts, deferred, momentum), torch.amp.GradScaler("cpu", init_scale=1024.0)
        of_steps = []
        for step, order in enumerate((2.0, float("inf"), 3.0)):
            optimizer.zero_grad()
            scaler.scale(loss_of(parts, *batch(step))).backward()
            assert isinstance(parts["head"].centers.grad, DeferredTensor) is deferred
            scaler.unscale_(optimizer)
            of_steps.append(torch.nn.utils.clip_grad_norm_(parts.parameters(), 1e-3, norm_type=order))
            scaler.step(optimizer)
            scaler.update()
        norms.append(torch.stack(of_steps))
        weights.append([weight.detach() for weight in parts.parameters()])
    assert (norms[0] > 1e-2).all()  # every step was clipped
    torch.testing.assert_close(norms[1], norms[0], rtol=1e-9, atol=0.0)
    torch.testing.assert_close(weights[1], weights[0], rtol=1e-9, atol=1e-12)


def test_a_scaler_skips_a_step_whose_deferred_gradient_is_not_finite():
    parts = model(Streamed(chunk=4))
    optimizer, scaler = stepper(parts, True), torch.amp.GradScaler("cpu", init_scale=1024.0)
    before = parts["head"].centers.detach().clone()
    rows, labels = batch()
    scaler.scale(parts["head"](rows.index_fill(0, torch.tensor([3]), torch.inf), labels).loss).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 512.0
    assert torch.equal(parts["head"].centers, before)


def test_what_cannot_read_a_deferred_gradient_refuses_it():
    parts = model(Streamed(chunk=4))
    HeadSGD(parts.parameters(), parts["head"], lr=0.1)
    for user in (parts, copy.deepcopy(parts)):
        loss_of(user, *batch()).backward()
        for other in (torch.optim.AdamW(user.parameters()), torch.optim.SGD(user.parameters(), lr=0.1)):
            with pytest.raises(ValueError, match=r"head's centers, which is deferred to HeadSGD\.step: .* DDP"):
                other.step()
        with pytest.raises(ValueError, match="head's centers, which is deferred to HeadSGD"):
            torch.nn.utils.clip_grad_value_(user.parameters(), 1.0)
        user.zero_grad()
        user["head"].deferred, before = False, user["head"].centers.detach().clone()
        loss_of(user, *batch()).backward()
        torch.optim.AdamW(user.parameters()).step()
        assert not torch.equal(user["head"].centers, before)


def test_zero_grad_of_a_module_around_the_head_drops_the_deferred_gradient():
    parts = model(Streamed(chunk=4))
    optimizer, before = stepper(parts, True), parts["head"].centers.detach().clone()
    for _ in range(2):
        parts.zero_grad()
        loss_of(parts, *batch()).backward()
    parts.zero_grad()
    optimizer.step()
    assert torch.equal(parts["head"].centers, before)


def test_a_copy_between_backward_and_step_has_no_gradient():
    parts = model(Streamed(chunk=4))
    optimizer, before = stepper(parts, True), parts["head"].centers.detach().clone()
    loss_of(parts, *batch()).backward()
    for copied in (copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))):
        twin, of_twin = copied((parts, optimizer))
        assert twin["head"].centers.grad is None
        of_twin.step()
        assert torch.equal(twin["head"].centers, before)
    optimizer.step()
    assert not torch.equal(parts["head"].centers, before)


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # of an embedding, by the tracer
@pytest.mark.parametrize("engine", [Streamed(), Sampled(0.5), Dense()])
def test_a_compiled_model_computes_what_the_model_does(engine):
    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = model(engine)

        def forward(self, rows, labels):
            return loss_of(self.parts, rows, labels)

    gradients = []
    for wrap in (lambda module: module, lambda module: torch.compile(module, backend="eager")):
        network = Network()
        loss = wrap(network)(*batch())
        loss.backward()
        gradients.append([loss.detach(), *(weight.grad for weight in network.parameters())])
    assert all(torch.equal(left, right) for left, right in zip(*gradients, strict=True))


def test_a_loss_that_learns_belongs_to_one_head():
    loss = SphereFace2()
    first = Head(loss, CLASSES, SIZE)
    with torch.no_grad():
        loss.bias.fill_(7.0)
    for again in (loss, WeightedSum([loss, Inter()])):
        with pytest.raises(ValueError, match="this SphereFace2 belongs to another head"):
            Head(again, CLASSES, SIZE)
    assert loss.bias.item() == 7.0
    Head(copy.deepcopy(loss), CLASSES, SIZE)
    plain = ArcFace()  # without state, so two heads of as many classes may have it
    heads = [Head(plain, CLASSES, SIZE), Head(plain, CLASSES, SIZE)]
    assert heads[0].loss is heads[1].loss
    del first
    gc.collect()
    Head(loss, CLASSES, SIZE)


@pytest.mark.parametrize("loss", [Inter(), ElasticFace(), WeightedSum([ElasticFace(), Intra()])])
def test_a_head_keeps_the_loss_that_it_was_built_with(loss):
    rows, labels = batch()
    head = Head(ArcFace(), CLASSES, SIZE).double()
    built_with, head.loss = head.loss, loss
    with pytest.raises(ValueError, match=rf"head\.loss was replaced by this {type(loss).__name__}, and a head keeps"):
        head(rows, labels)
    for copied in (copy.copy(head), copy.deepcopy(head), pickle.loads(pickle.dumps(head))):
        with pytest.raises(ValueError, match=r"head\.loss was replaced"):
            copied(rows, labels)
    head.loss = built_with
    head(rows, labels)
    copied = copy.deepcopy(head)
    copied(rows, labels)
    copied.loss = built_with  # of the other head
    with pytest.raises(ValueError, match=r"head\.loss was replaced by this ArcFace"):
        copied(rows, labels)


def test_a_term_of_a_sum_is_not_the_loss_of_its_head():
    rows, labels = batch()
    head = Head(WeightedSum([ArcFace(), Inter()]), CLASSES, SIZE).double()
    head.loss = head.loss.terms[0][1]
    with pytest.raises(ValueError, match=r"head\.loss was replaced by this ArcFace"):
        head(rows, labels)


def test_domains_of_classes_are_the_reason_why_a_second_head_is_refused():
    loss = DomainMargins({"day": 0.1, "night": 0.3})
    first = Head(loss, CLASSES, SIZE)
    with pytest.raises(ValueError, match="a second head would share what it was given for the classes of the first"):
        Head(loss, CLASSES, SIZE)
    with pytest.raises(ValueError, match="a second head of 3 would change the loss of the first"):
        Head(loss, 3, SIZE)
    assert first.loss is loss


@of_all()
def test_a_second_head_of_other_classes_leaves_the_first_ones_loss_as_it_was(example):
    rows, labels = batch()
    first = Head(example.make(), CLASSES, SIZE).double().eval()
    before = first(rows, labels).per_sample
    with suppress(ValueError):
        Head(first.loss, 3, SIZE)
    assert torch.equal(first(rows, labels).per_sample, before)


@pytest.mark.parametrize("share", [lambda loss: loss, lambda loss: WeightedSum([ArcFace(), loss])])
def test_a_second_head_of_other_classes_is_refused_while_any_head_has_the_loss(share):
    loss = Inter()
    first, second = Head(share(loss), CLASSES, SIZE), Head(share(loss), CLASSES, SIZE)
    twin = copy.deepcopy(first)
    del second  # the last one to which it was given; the first still has it
    gc.collect()
    for shared in (loss, twin.loss):
        with pytest.raises(ValueError, match=f"belongs to another head of {CLASSES} classes, and a second head of 3"):
            Head(shared, 3, SIZE)
    assert loss.classes == CLASSES
    del first
    gc.collect()
    assert Head(loss, 3, SIZE).loss.classes == 3


@pytest.mark.parametrize("reentrant", [False, True])
@of_all()
def test_a_checkpointed_head_has_the_gradient_of_its_loss_or_is_refused(example, reentrant):
    rows, labels = batch()
    found = []
    for recompute in (False, True):
        torch.manual_seed(1)
        parts = nn.ModuleDict({"head": Head(example.make(), CLASSES, SIZE, engine=Dense()).double()})
        given = rows.clone().requires_grad_()

        def forward(given, head=parts["head"]):
            return head(given, labels).loss

        loss = checkpoint(forward, given, use_reentrant=reentrant) if recompute else forward(given)
        state = {name: tensor.clone() for name, tensor in parts.state_dict().items()}
        if recompute and parts["head"].loss.moves:
            with pytest.raises(ValueError, match="a head runs a second time inside the backward pass"):
                loss.backward()
        else:
            loss.backward()
            gradients = (given.grad, parts["head"].centers.grad)
            found.append([torch.zeros(()) if gradient is None else gradient for gradient in gradients])
        assert all(torch.equal(tensor, state[name]) for name, tensor in parts.state_dict().items())
    assert all(torch.equal(left, right) for left, right in zip(found[0], found[-1], strict=True))


def test_a_checkpointed_head_that_draws_classes_is_refused():
    rows, labels = batch()
    head = Head(ArcFace(), CLASSES, SIZE, engine=Sampled(0.9, Dense())).double()
    loss = checkpoint(lambda given: head(given, labels).loss, rows.requires_grad_(), use_reentrant=False)
    with pytest.raises(ValueError, match="the sampled engine would draw or observe the batch again"):
        loss.backward()
    assert head.draws.state.tolist() == [0, 1]
    head.eval()
    checkpoint(lambda given: head(given, labels).loss, rows, use_reentrant=False).backward()


def test_a_backward_pass_inside_autocast_keeps_its_precision():
    gradients = []
    for enabled in (False, True):
        parts = model(Dense()).float()
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            rows = batch()[0].float().requires_grad_()
            parts["head"](rows, batch()[1]).loss.backward()
        gradients.append((rows.grad, parts["head"].centers.grad))
    assert torch.equal(gradients[0][0], gradients[1][0])
    assert torch.equal(gradients[0][1], gradients[1][1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": torch.zeros(8, 1).long()}, r"labels have shape \(8, 1\); a head takes one class number for each"),
        ({"labels": torch.tensor(3)}, r"labels have shape \(\); a head takes one class number"),
        ({"labels": torch.zeros(8)}, r"labels are torch\.float32; a head takes class numbers"),
        ({"labels": torch.zeros(7).long()}, "8 embeddings came with 7 labels"),
        ({"embeddings": torch.zeros(8, SIZE, 1)}, r"embeddings have shape \(8, 6, 1\); a head takes \(batch, 6\)"),
        ({"embeddings": torch.zeros(8, SIZE).long()}, r"embeddings are torch\.int64; a head takes floating-point"),
        ({"labels": [0] * 8}, "labels have the type list; a head takes tensors"),
    ],
)
def test_rows_that_do_not_fit_are_refused(change, message):
    rows, labels = batch()
    arguments = {"embeddings": rows, "labels": labels, "weights": None, "size": SIZE} | change
    bare = getattr(check_rows, "__wrapped__", check_rows)  # past the type checks of the test run
    with pytest.raises((ValueError, TypeError), match=message):
        bare(**arguments)


@pytest.mark.parametrize("kind", [torch.int32, torch.int16, torch.uint8])
def test_labels_of_any_integer_type(kind):
    rows, labels = batch()
    for engine in (Dense(), Streamed(chunk=4)):
        parts = model(engine)
        assert loss_of(parts, rows, labels.to(kind)) == loss_of(parts, rows, labels)


def test_a_head_is_not_exported():
    with pytest.raises(ValueError, match="cannot be exported: export the backbone alone"):
        torch.export.export(model(Dense())["head"], batch(), strict=False)


def test_head_sgd_names_what_is_no_head():
    bare = getattr(HeadSGD.__init__, "__wrapped__", HeadSGD.__init__)  # below the type checks of the test run
    backbone = nn.Linear(2, 2)
    with pytest.raises(TypeError, match=r"^head is Linear; HeadSGD takes the parameters, and then a verisphere\.Head$"):
        bare(HeadSGD.__new__(HeadSGD), backbone.parameters(), backbone)
