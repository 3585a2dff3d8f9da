"""GroupFace: its sums by hand, what it gives in training and outside, and that it is a backbone like any other."""

from pathlib import Path

import pytest
import torch
from torch import nn

from verisphere.backbones import Backbone, GroupFace, MobileFaceNet
from verisphere.backbones.group_face import group_ensemble
from verisphere.head.head import Head
from verisphere.losses.margin import ArcFace
from verisphere.models.build import build_backbone
from verisphere.models.folder import Model
from verisphere.models.onnx_file import InputFormat, compare_onnx, read_onnx, write_onnx
from verisphere.pairs import GroupLabels
from verisphere.train.objective import Objective


class Small(Backbone):
    """One matrix, on faces of a size and normalisation of its own."""

    input_size = (6, 4)
    mean, scale = 100.0, 50.0

    def __init__(self, embedding_size: int = 5) -> None:
        super().__init__(embedding_size)
        self.project = nn.Linear(3 * 6 * 4, embedding_size)

    def embed(self, images):
        return self.project(images.flatten(1))


def network(**options) -> GroupFace:
    torch.manual_seed(0)
    return GroupFace(Small(), **{"groups": 3, "embedding_size": 4, "hidden": 8, **options})


def images(count: int = 6) -> torch.Tensor:
    return torch.randn(count, 3, 6, 4, generator=torch.Generator().manual_seed(1))


def test_ensembles_by_hand():
    instance = torch.tensor([[1.0, 0.0]])
    groups = torch.tensor([[[4.0, 0.0], [0.0, 8.0]]])
    logits = torch.tensor([[0.25, 0.75]]).log()
    assert group_ensemble(instance, groups, logits).tolist() == [pytest.approx([2.0, 6.0])]
    assert group_ensemble(instance, groups, logits, "hard").tolist() == [[1.0, 8.0]]


@pytest.mark.parametrize("ensemble", ["soft", "hard"])
def test_gradient_of_an_ensemble(ensemble):
    torch.manual_seed(0)
    rows = [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in [(2, 3), (2, 4, 3), (2, 4)]]
    assert torch.autograd.gradcheck(lambda *given: group_ensemble(*given, ensemble), rows)


def test_one_certain_group_is_a_plain_backbone():
    """Limit case: with all of the probability on one group, e_0 + e_1 is one linear layer of the shared feature."""
    model = network().eval()
    with torch.no_grad():
        model.decide[-1].weight.zero_()
        model.decide[-1].bias.copy_(torch.tensor([-200.0, 200.0, -200.0]))
        shared = model.backbone(images())
        layer = model.instance.weight + model.groups.weight[4:8], model.instance.bias + model.groups.bias[4:8]
        torch.testing.assert_close(model(images()), nn.functional.linear(shared, *layer))


def test_training_gives_the_logits_too():
    model = network()
    with torch.no_grad():
        training, outside = model.train()(images()), model.eval()(images())
        logits = model.decide(model.instance(model.backbone(images())))
    assert training.shape == (6, 4 + 3)
    assert model.side_columns == 3
    assert outside.shape == (6, model.embedding_size) == (6, 4)
    assert torch.equal(training[:, :4], outside)
    assert torch.equal(training[:, 4:], logits)


def test_faces_are_the_inner_backbone_s():
    model = network()
    pixels = torch.full((1, 3, 6, 4), 200, dtype=torch.uint8)
    assert torch.equal(model.normalise(pixels), Small().normalise(pixels))
    assert model.input_size == (6, 4)
    with pytest.raises(ValueError, match="images are 112 x 112 pixels but GroupFace takes 6 x 4"):
        model(torch.zeros(1, 3, 112, 112))


def test_around_a_backbone_of_the_house():
    torch.manual_seed(0)
    model = GroupFace(MobileFaceNet(16, 0.1), groups=4, embedding_size=8).to(memory_format=torch.channels_last).eval()
    faces = torch.randn(2, 3, 112, 112)
    with torch.no_grad():
        together = model(faces)
        torch.testing.assert_close(model(faces[1:]), together[1:], rtol=1e-3, atol=1e-4)
    assert together.shape == (2, 8)


def test_half_precision_training():
    with torch.autocast("cpu", torch.bfloat16):
        found = network().train()(images())
    assert found.shape == (6, 7)
    assert found.isfinite().all()


@pytest.mark.parametrize("ensemble", ["soft", "hard"])
def test_gradient_reaches_every_parameter_with_its_term(ensemble):
    model = network(ensemble=ensemble)
    objective = Objective(model, Head(ArcFace(), 6, 4), terms=[GroupLabels()])
    output = objective.train()(images(), torch.arange(6))
    assert set(output.figures) == {"group_loss", "group_largest_share", "group_smallest_share"}
    output.loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad.abs().max() > 0, name


def test_without_its_term_it_trains_as_any_backbone():
    model = network()
    output = Objective(model, Head(ArcFace(), 6, 4)).train()(images(), torch.arange(6))
    output.loss.backward()
    assert output.figures == {}
    assert model.groups.weight.grad.abs().max() > 0


def test_the_loss_is_the_head_s_and_the_term_s():
    model = network()
    head = Head(ArcFace(), 6, 4)
    labels = torch.arange(6)
    output = Objective(model, head, terms=[GroupLabels(0.1)]).train()(images(), labels)
    plain = head(model(images())[:, :4], labels).loss
    assert output.loss.item() == pytest.approx(plain.item() + 0.1 * output.figures["group_loss"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"groups": 1}, "groups is 1; it must be at least 2"),
        ({"hidden": 0}, "hidden is 0; it must be at least 1"),
        ({"embedding_size": 0}, "embedding_size is 0"),
        ({"ensemble": "sum"}, "ensemble is 'sum'; allowed are soft, hard"),
        ({"backbone": network()}, "backbone is GroupFace, which gives 3 columns of its own"),
    ],
)
def test_refusals_name_the_argument(arguments, message):
    bare = getattr(GroupFace.__init__, "__wrapped__", GroupFace.__init__)  # past the type checks of the test run
    with pytest.raises(ValueError, match=message):
        bare(GroupFace.__new__(GroupFace), **{"backbone": Small(), **arguments})


NESTED = {
    "class_path": "verisphere.backbones.GroupFace",
    "init_args": {
        "backbone": {
            "class_path": "verisphere.backbones.MobileFaceNet",
            "init_args": {"embedding_size": 16, "width": 0.1},
        },
        "groups": 4,
        "embedding_size": 8,
    },
}


def test_it_is_built_from_its_description():
    model = build_backbone(NESTED)
    assert (model.embedding_size, model.side_columns) == (8, 4)
    assert type(model.backbone) is MobileFaceNet


def test_a_description_inside_is_no_more_trusted_than_one_outside():
    inside = {"class_path": "somewhere.Else", "init_args": {}}
    hidden = {**NESTED, "init_args": {**NESTED["init_args"], "backbone": inside}}
    with pytest.raises(
        ValueError, match=r"backbone: 'somewhere\.Else' is not part of verisphere; building it runs its"
    ):
        build_backbone(hidden)


@pytest.mark.parametrize("ensemble", ["soft", "hard"])
def test_it_can_be_written_as_onnx(ensemble, tmp_path):
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    model = Model(Path("nowhere"), "groups", network(ensemble=ensemble).eval(), "ab" * 32, True, "own", ())
    about = InputFormat(model.backbone.input_size, "own", True, 4, model.sha256, "0.1.0")
    write_onnx(tmp_path / "model.onnx", model.backbone, about)
    assert compare_onnx(read_onnx(tmp_path / "model.onnx"), model).cosine < 1e-6
