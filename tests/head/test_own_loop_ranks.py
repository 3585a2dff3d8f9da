"""A head in a loop of several ranks: what DDP reaches and what it does not, clipping and scaling of shards."""

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parametrize

from loss_examples import EXAMPLES
from processes import run
from verisphere.base.collectives import summed_by_ddp
from verisphere.base.distributed import world
from verisphere.head.dense import Dense
from verisphere.head.head import Head
from verisphere.head.sampled import Sampled
from verisphere.head.sharded import Sharded
from verisphere.head.streamed import Streamed
from verisphere.head.update import HeadSGD
from verisphere.losses.adaface import AdaFace
from verisphere.losses.auxiliary import Inter
from verisphere.losses.class_loss import ClassLoss
from verisphere.losses.elastic_face import ElasticFace
from verisphere.losses.margin import ArcFace

CLASSES, SIZE, ROWS = 12, 6, 8
COMPARING = {"VSoftmax, batch", "CIFP", "CIFP, released", "CIFP, counted"}  # the rows of a batch with one another


class Network(nn.Module):
    def __init__(self, engine, loss=None) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.backbone = nn.Linear(SIZE, SIZE)
        self.head = Head(ArcFace() if loss is None else loss, CLASSES, SIZE, engine=engine)
        self.double()

    def forward(self, rows, labels):
        return self.head(self.backbone(rows), labels).loss


def batch(seed: int, whole: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """The rows of this rank."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(ROWS, SIZE, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, CLASSES, (ROWS,), generator=generator)
    share = slice(None) if whole else slice(world().share(ROWS).start, world().share(ROWS).stop)
    return rows[share], labels[share]


def refusal(action) -> str:
    try:
        action()
    except ValueError as error:
        return str(error)
    return ""


def inside_ddp(engine, unused: bool, training: bool = True) -> str:
    network = Network(engine).train(training)
    wrapped = DistributedDataParallel(network, find_unused_parameters=unused)
    return refusal(lambda: wrapped(*batch(0)).backward())


def whole_model_in_ddp() -> dict[str, str | float]:
    """For each loss, by SGD with the whole model in DDP: what is refused, or how far two steps are from one rank's."""
    found: dict[str, str | float] = {}
    for name, example in EXAMPLES.items():
        alone, network = Network(Dense(), example.make()), Network(Dense(), example.make())
        wrapped = DistributedDataParallel(network, find_unused_parameters=True)

        def trained(model, whole: bool) -> None:
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step in range(2):
                optimizer.zero_grad()
                model(*batch(step, whole)).backward()
                optimizer.step()

        found[name] = refusal(lambda: trained(wrapped, whole=False))  # noqa: B023  # called in this turn
        if not found[name]:
            trained(alone, whole=True)
            pairs = zip(network.state_dict().values(), alone.state_dict().values(), strict=True)
            found[name] = max((left - right).abs().max().item() for left, right in pairs if left.numel())
    return found


def evaluated_in_ddp() -> dict[str, str | float]:
    """For each loss in evaluation mode: what is refused, or how far the gradient is from that of one rank."""
    found: dict[str, str | float] = {}
    for name, example in EXAMPLES.items():
        alone, network = Network(Dense(), example.make()).eval(), Network(Dense(), example.make()).eval()
        wrapped = DistributedDataParallel(network, find_unused_parameters=True)
        found[name] = refusal(lambda: wrapped(*batch(0)).backward())  # noqa: B023  # called in this turn
        with torch.no_grad():
            assert refusal(lambda: wrapped(*batch(0))) == found[name]  # noqa: B023
        if not found[name]:
            alone(*batch(0, whole=True)).backward()
            pairs = zip(network.parameters(), alone.parameters(), strict=True)
            gradients = [(left.grad, right.grad) for left, right in pairs if right.grad is not None]
            found[name] = max((left - right).abs().max().item() for left, right in gradients)
    return found


def parametrised_centers() -> str:
    network = Network(Dense(), AdaFace())
    parametrize.register_parametrization(network.head, "centers", nn.Identity())
    wrapped = DistributedDataParallel(network, find_unused_parameters=True)
    return refusal(lambda: wrapped(*batch(0)).backward())


def ignored_centers(of_head: bool) -> str:
    """What is refused where DDP was told to ignore the centers: of the head, or of the model that it wraps."""
    network = Network(Dense(), AdaFace())
    part, name = (network.head, "centers") if of_head else (network, "head.centers")
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(part, [name])
    wrapped = DistributedDataParallel(network, find_unused_parameters=True)
    return refusal(lambda: wrapped(*batch(0)).backward())


class Joined(ClassLoss):
    """A user's own loss that runs another one, and says nothing of it but its terms."""

    def __init__(self) -> None:
        super().__init__(scale=64.0)
        self.inner = ElasticFace()

    @property
    def terms(self):
        return ((2.0, self.inner),)

    def prepare(self, classes: int) -> None:
        super().prepare(classes)
        self.inner.prepare(classes)


def own_terms() -> str:
    wrapped = DistributedDataParallel(Network(Dense(), Joined()))
    return refusal(lambda: wrapped(*batch(0)).backward())


def centers_alone() -> list[torch.Tensor]:
    """The centers after two steps of DDP on a loss that reaches no embedding."""
    network = Network(Dense(), Inter())
    wrapped = DistributedDataParallel(network)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for step in range(2):
        optimizer.zero_grad()
        wrapped(*batch(step)).backward()
        optimizer.step()
    return [network.head.centers.detach()]


def replicated_head() -> str:
    network = Network(Streamed())
    return refusal(lambda: HeadSGD(network.parameters(), network.head, lr=0.1))


def head_deferred_before() -> str:
    network = Network(Streamed())
    network.head.deferred = True  # as by a HeadSGD from before the group was joined
    wrapped = DistributedDataParallel(network, find_unused_parameters=True)
    return refusal(lambda: wrapped(*batch(0)).backward())


def backbone_gradients() -> list[torch.Tensor]:
    """The gradient beside a sharded head: in plain DDP, and with the remedy."""
    gradients = []
    for remedy in (lambda embeddings: embeddings, summed_by_ddp):
        network = Network(Sharded(Streamed()))
        wrapped, (rows, labels) = DistributedDataParallel(network.backbone), batch(0)
        network.head(remedy(wrapped(rows)), labels).loss.backward()
        gradients.append(network.backbone.weight.grad)
    return gradients


def three_steps(network: Network, optimizer: torch.optim.Optimizer, embed, whole: bool) -> list:
    """Clipped and scaled steps, of which the second has an infinite scale: the norms, the scale, the centers."""
    scaler, norms = torch.amp.GradScaler("cpu", init_scale=1024.0), []
    for step in range(3):
        optimizer.zero_grad()
        rows, labels = batch(step, whole)
        loss = scaler.scale(network.head(embed(rows), labels).loss)
        (loss * torch.inf if step == 1 else loss).backward()
        scaler.unscale_(optimizer)
        if step != 1:
            norms.append(torch.nn.utils.clip_grad_norm_(network.parameters(), 1e-3).item())
        scaler.step(optimizer)
        scaler.update()
    return [torch.tensor(norms), scaler.get_scale(), network.head.centers.detach(), network.backbone.weight.detach()]


def sharded_steps() -> list:
    network = Network(Sharded(Streamed(chunk=4)))
    wrapped = DistributedDataParallel(network.backbone)
    optimizer = HeadSGD(network.parameters(), network.head, lr=0.1, momentum=0.9)
    return three_steps(network, optimizer, lambda rows: summed_by_ddp(wrapped(rows)), whole=False)


def overflow_on_one_rank() -> list:
    """The scale after a step in which the deferred gradient of rank 0 alone is not finite."""
    network = Network(Sharded(Streamed(chunk=4)))
    optimizer = HeadSGD([network.head.centers], network.head, lr=0.1)
    scaler, before = torch.amp.GradScaler("cpu", init_scale=1024.0), network.head.centers.detach().clone()
    scaler.scale(network.head(*batch(0)).loss).backward()
    if world().first:
        network.head.centers.grad.mul_(torch.inf)
    scaler.step(optimizer)
    scaler.update()
    return [scaler.get_scale(), torch.equal(network.head.centers, before)]


def work() -> dict:
    return {
        "replicated": replicated_head(),
        "deferred before": head_deferred_before(),
        "sharded inside": inside_ddp(Sharded(Streamed()), unused=False),
        "sampled inside": inside_ddp(Sampled(0.5, Dense()), unused=False),
        "sgd inside": inside_ddp(Streamed(), unused=False),
        "every loss inside": whole_model_in_ddp(),
        "every loss evaluated": evaluated_in_ddp(),
        "sampled evaluated": inside_ddp(Sampled(0.5, Dense()), unused=False, training=False),
        "sharded evaluated": inside_ddp(Sharded(Streamed()), unused=False, training=False),
        "parametrised": parametrised_centers(),
        "ignored by the head": ignored_centers(of_head=True),
        "ignored by the model": ignored_centers(of_head=False),
        "own terms": own_terms(),
        "centers alone": centers_alone(),
        "gradients": backbone_gradients(),
        "steps": sharded_steps(),
        "overflow": overflow_on_one_rank(),
    }


@pytest.fixture(scope="module")
def of_ranks() -> list[dict]:
    return run(work, 2)


def test_a_deferred_gradient_of_all_classes_is_refused_on_several_ranks(of_ranks):
    for result in of_ranks:
        for case in ("replicated", "deferred before"):
            assert "each of 2 ranks holds all 12 classes" in result[case]
            assert "DDP does not average a deferred gradient" in result[case]
        assert result["sgd inside"] == ""


def test_a_sharded_head_inside_ddp_is_refused(of_ranks):
    assert all("a sharded head is inside DDP" in result["sharded inside"] for result in of_ranks)


def test_classes_sampled_inside_ddp_are_refused(of_ranks):
    assert all("a head with sampled classes is inside DDP" in result["sampled inside"] for result in of_ranks)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_loss_in_ddp_of_the_whole_model_is_that_of_one_rank_or_refused(of_ranks, name):
    for result in of_ranks:
        found = result["every loss inside"][name]
        if EXAMPLES[name].loss.of_batch:
            assert "is inside DDP, where each rank sees its own rows only" in found
        else:
            assert found < 1e-10


@pytest.mark.parametrize("name", EXAMPLES)
def test_in_evaluation_mode_only_a_loss_that_compares_rows_is_refused(of_ranks, name):
    for result in of_ranks:
        found = result["every loss evaluated"][name]
        if name in COMPARING:
            assert "is inside DDP, where each rank sees its own rows only" in found
        else:
            assert found < 1e-10


def test_in_evaluation_mode_sampled_classes_are_all_and_shards_are_still_refused(of_ranks):
    assert [result["sampled evaluated"] for result in of_ranks] == ["", ""]
    assert all("a sharded head is inside DDP" in result["sharded evaluated"] for result in of_ranks)


def test_parametrised_centers_inside_ddp_are_recognised(of_ranks):
    assert all("a head with AdaFace is inside DDP" in result["parametrised"] for result in of_ranks)


def test_centers_are_ignored_by_ddp_only_where_the_wrapped_model_says_so(of_ranks):
    assert all("a head with AdaFace is inside DDP" in result["ignored by the head"] for result in of_ranks)
    assert all(result["ignored by the model"] == "" for result in of_ranks)


def test_an_own_loss_inside_ddp_depends_on_what_its_terms_depend_on(of_ranks):
    assert all("a head with Joined is inside DDP, where each rank" in result["own terms"] for result in of_ranks)


def test_a_loss_of_centers_alone_gives_ddp_the_gradients_that_it_waits_for(of_ranks):
    network = Network(Dense(), Inter())
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for step in range(2):
        optimizer.zero_grad()
        network(*batch(step, whole=True)).backward()
        optimizer.step()
    for result in of_ranks:
        torch.testing.assert_close(result["centers alone"][0], network.head.centers.detach())


def test_ddp_divides_the_gradient_beside_a_sharded_head_and_the_remedy_does_not(of_ranks):
    network = Network(Dense())
    network(*batch(0, whole=True)).backward()
    for result in of_ranks:
        plain, remedied = result["gradients"]
        torch.testing.assert_close(plain, network.backbone.weight.grad / 2)
        torch.testing.assert_close(remedied, network.backbone.weight.grad)


def test_clipping_and_scaling_reach_the_shards_of_all_ranks(of_ranks):
    network = Network(Dense())
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    norms, scale, centers, weight = three_steps(network, optimizer, network.backbone, whole=True)
    for result in of_ranks:
        torch.testing.assert_close(result["steps"][0], norms)
        assert result["steps"][1] == scale == 512.0
        torch.testing.assert_close(result["steps"][3], weight)
    torch.testing.assert_close(torch.cat([result["steps"][2] for result in of_ranks]), centers)


def test_a_gradient_that_is_not_finite_on_one_rank_skips_the_step_of_all(of_ranks):
    assert [result["overflow"] for result in of_ranks] == [[512.0, True], [512.0, True]]
