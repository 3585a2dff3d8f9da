"""Every backbone: shapes, parameter counts, memory formats, gradients, state and refusals."""

import pytest
import torch

from further_backbones import with_further
from verisphere.backbones.backbone import Backbone
from verisphere.backbones.efficientnet import EfficientNet
from verisphere.backbones.iresnet import IResNet, SEResNet
from verisphere.backbones.mobilefacenet import MobileFaceNet, scaled_channels
from verisphere.backbones.sfnet import SFNet
from verisphere.images.augment import Augment, augment
from verisphere.train.dry_run.measured import measure_backbone

#: Those with small arguments or several options; all others that are exported are made by their defaults.
BACKBONES = {
    "MobileFaceNet": lambda: MobileFaceNet(embedding_size=32),
    "MobileFaceNet, narrow": lambda: MobileFaceNet(embedding_size=32, width=0.3, activation="relu"),
    "IResNet": lambda: IResNet(18, embedding_size=32, dropout=0.1),
    "SEResNet": lambda: SEResNet(18, embedding_size=32),
    "SFNet": lambda: SFNet(20, embedding_size=32),
    "EfficientNet": lambda: EfficientNet(embedding_size=32, drop=0.0),
}
BACKBONES = with_further(BACKBONES, 32)


@pytest.fixture(params=BACKBONES.values(), ids=BACKBONES.keys())
def backbone(request) -> Backbone:
    torch.manual_seed(0)
    return request.param()


def faces(backbone: Backbone, count: int = 2) -> torch.Tensor:
    pixels = torch.randint(0, 256, (count, 3, *backbone.input_size), generator=torch.Generator().manual_seed(1))
    return backbone.normalise(pixels.to(torch.uint8))


def parameters(backbone: Backbone) -> int:
    return sum(parameter.numel() for parameter in backbone.parameters())


def test_embeddings_have_the_stated_size(backbone):
    with torch.no_grad():
        embeddings = backbone.eval()(faces(backbone))
    assert embeddings.shape == (2, backbone.embedding_size) == (2, 32)
    assert embeddings.dtype == torch.float32
    assert embeddings.isfinite().all()
    assert embeddings.norm(dim=1).min() > 0


def test_channels_last_equals_contiguous(backbone):
    images = faces(backbone)
    with torch.no_grad():
        plain = backbone.eval()(images.contiguous())
        last = backbone.to(memory_format=torch.channels_last)(images.to(memory_format=torch.channels_last))
    # another order of summation through up to 20 layers
    torch.testing.assert_close(last, plain, rtol=1e-3, atol=1e-3 * plain.abs().max().item())


def test_a_face_does_not_depend_on_its_batch(backbone):
    images = faces(backbone, 3)
    with torch.no_grad():
        together = backbone.eval()(images)
        alone = backbone(images[1:2])
    torch.testing.assert_close(together[1:2], alone, rtol=1e-3, atol=1e-3 * together.abs().max().item())


def test_gradient_reaches_every_parameter(backbone):
    target = torch.randn(2, 32, generator=torch.Generator().manual_seed(2))
    (backbone.train()(faces(backbone)) * target).sum().backward()
    for name, parameter in backbone.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad.isfinite().all(), name
            assert parameter.grad.abs().max() > 0, name


def test_state_survives_a_round_trip(backbone, request):
    torch.manual_seed(9)
    again = BACKBONES[request.node.callspec.id]()
    again.load_state_dict(backbone.state_dict())
    images = faces(backbone)
    with torch.no_grad():
        assert torch.equal(again.eval()(images), backbone.eval()(images))


def test_wrong_size_is_refused(backbone):
    height, width = backbone.input_size
    with pytest.raises(ValueError, match=rf"images are 96 x 112 pixels but \w+ takes {height} x {width}"):
        backbone(torch.zeros(1, 3, 96, 112))


@pytest.mark.parametrize(
    ("build", "millions"),
    [
        # ArcFace's released networks: 43.6 and 65.2 million; rounding to one digit is the tolerance
        (lambda: IResNet(50), 43.6),
        (lambda: IResNet(100), 65.2),
        # arXiv:1804.07573 gives 0.99 at 128 numbers; the slopes of PReLU, one a channel, are not in it
        (lambda: MobileFaceNet(128), 1.0),
    ],
)
def test_parameter_counts_of_the_papers(build, millions):
    with torch.device("meta"):
        assert round(parameters(build()) / 1e6, 1) == millions


def test_mobilefacenet_without_slopes_is_the_papers_0_99_million():
    with torch.device("meta"):
        assert 0.99e6 <= parameters(MobileFaceNet(128, activation="relu")) < 1.0e6


def test_mobilefacenet_adds_its_input_wherever_the_shape_allows():
    network = MobileFaceNet(8, 0.1).eval()
    keeps_input = []
    with torch.no_grad():
        for block in network.bottlenecks:
            block.layers[-1][-1].weight.zero_()  # the last batch norm: what the layers add becomes 0
            x = torch.ones(1, block.layers[0][0].in_channels, 4, 4)
            keeps_input.append(torch.equal(block(x), x))
    # table 1: five, the first at stride 2; one at stride 2; six; one at stride 2; two. The width is 8, then 16.
    assert keeps_input == [False, *[True] * 4, False, *[True] * 6, False, *[True] * 2]


@pytest.mark.parametrize("depth", [20, 64])
def test_sfnet_has_as_many_convolutions_as_its_name_says(depth):
    with torch.device("meta"):
        network = SFNet(depth)
    kinds = [type(module) for module in network.modules()]
    assert kinds.count(torch.nn.Conv2d) == depth
    assert not any(issubclass(kind, torch.nn.modules.batchnorm._BatchNorm) for kind in kinds)


@pytest.mark.parametrize("depth", [18, 34, 50, 100])
def test_iresnet_depth_counts_its_weighted_layers(depth):
    # convolutions outside the shortcuts, and the last layer
    with torch.device("meta"):
        network = IResNet(depth)
    main_path = [
        name
        for name, module in network.named_modules()
        if isinstance(module, torch.nn.Conv2d | torch.nn.Linear) and "shortcut" not in name
    ]
    assert len(main_path) == depth


def test_squeeze_excitation_adds_its_gates():
    with torch.device("meta"):
        plain, gated = IResNet(18, 8), SEResNet(18, 8)
    # per block two 1 x 1 convolutions c x c/16 with biases; and a last layer for 9 x 9 places instead of 7 x 7
    gates = sum(2 * (2 * c * (c // 16) + c + c // 16) for c in (64, 128, 256, 512))
    assert parameters(gated) - parameters(plain) == gates + 8 * 512 * (81 - 49)


def test_last_scale_is_held_at_one_unless_asked():
    images = torch.randn(4, 3, 112, 112, generator=torch.Generator().manual_seed(3))
    fixed, free = IResNet(18, 16), IResNet(18, 16, free_scale=True)
    (fixed(images).sum() + free(images).square().sum()).backward()
    assert not fixed.project[-1].weight.requires_grad
    assert fixed.project[-1].weight.tolist() == [1.0] * 16
    assert free.project[-1].weight.grad.abs().max() > 0


def test_a_subsampled_shortcut_has_no_weights_in_the_first_stage():
    with torch.device("meta"):
        plain, subsampled = IResNet(18, 8), IResNet(18, 8, subsampled_shortcut=True)
    assert parameters(plain) - parameters(subsampled) == 64 * 64 + 2 * 64
    assert subsampled.eval()(torch.zeros(1, 3, 112, 112, device="meta")).shape == (1, 8)


def test_faces_need_not_be_square_and_have_their_own_normalisation():
    network = MobileFaceNet(16, face_height=48, face_width=32, mean=0.0, scale=255.0).eval()
    images = faces(network)
    assert images.shape == (2, 3, 48, 32)
    assert images.min() >= 0
    assert images.max() <= 1
    assert network(images).shape == (2, 16)
    assert MobileFaceNet.input_size == (112, 112)


def test_dropout_acts_in_training_only():
    network = IResNet(18, 16, dropout=0.5)
    images = faces(network)
    with torch.no_grad():
        assert not torch.equal(network.train()(images), network(images))
        assert torch.equal(network.eval()(images), network(images))


def test_64_layers_without_normalisation_neither_explode_nor_vanish():
    torch.manual_seed(4)
    network = SFNet(64, embedding_size=32)
    embeddings = network(faces(network))
    (embeddings * torch.randn(2, 32)).sum().backward()
    assert 1e-2 < embeddings.std() < 1e2
    norms = [parameter.grad.norm() for name, parameter in network.named_parameters() if name.endswith("weight")]
    strided = [network.layers[0].weight.grad.norm(), network.project.weight.grad.norm()]
    assert 1e-2 < strided[0] / strided[1] < 1e2  # the first layer learns as fast as the last, within reason
    assert all(norm > 0 for norm in norms)


def test_normalisation_by_hand():
    pixels = torch.tensor([0, 127, 255], dtype=torch.uint8).reshape(1, 3, 1, 1).expand(1, 3, 2, 2)
    before = pixels.clone()
    assert MobileFaceNet(8, 0.1).normalise(pixels)[0, :, 0, 0].tolist() == pytest.approx([-1.0, -1 / 255, 1.0])
    with torch.device("meta"):
        gated = SEResNet(18, 8)
    assert gated.normalise(pixels)[0, :, 0, 0].tolist() == pytest.approx([-127.5 / 128, -0.5 / 128, 127.5 / 128])
    assert torch.equal(pixels, before)
    assert gated.normalise(torch.zeros(2, 3, 8, 8, dtype=torch.uint8)).is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_normalisation_is_that_of_training_bit_for_bit(layout):
    values = torch.arange(256, dtype=torch.uint8).reshape(1, 1, 16, 16).expand(2, 3, 16, 16)
    pixels = values.contiguous(memory_format=layout)
    network = MobileFaceNet(8, 0.1)
    network.mean, network.scale = 120.3, 57.1
    normalised = network.normalise(pixels)
    assert normalised.dtype == torch.float32
    assert normalised.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(normalised, augment(pixels, Augment(flip=0.0), 0, 120.3, 57.1))
    assert torch.equal(normalised, (pixels.float() - 120.3) / 57.1)


@pytest.mark.parametrize(("width", "expected"), [(1.0, 64), (0.5, 32), (0.3, 16), (0.01, 8), (1.07, 72)])
def test_channels_are_multiples_of_eight(width, expected):
    assert scaled_channels(64, width) == expected


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: MobileFaceNet(0), "embedding_size is 0"),
        (lambda: MobileFaceNet(width=0.0), "width is 0.0"),
        (lambda: IResNet(depth=101), "depth is 101; allowed are 18, 34, 50, 100, 200"),
        (lambda: IResNet(dropout=1.0), r"dropout is 1.0; it must be in \[0, 1\)"),
        (lambda: SEResNet(depth=20), "depth is 20"),
        (lambda: IResNet(18, epsilon=0.0), "epsilon is 0.0; it must be above 0"),
        (lambda: IResNet(18, scale=0.0), "scale is 0.0; it must be above 0"),
        (lambda: MobileFaceNet(mean=float("nan")), "mean is nan; it must be a finite number"),
        (lambda: MobileFaceNet(face_width=100), "face_width is 100; it must be a multiple of 16"),
        (lambda: MobileFaceNet(face_height=2048), "face_height is 2048; .* at most 1,024"),
        (lambda: EfficientNet(drop=1.0), "drop is 1.0; a probability below 1"),
        (lambda: EfficientNet(width=17.0), r"width is 17\.0; allowed is more than 0"),
        (lambda: EfficientNet(face_width=100), "face_width is 100; it must be a multiple of 16"),
        (lambda: SFNet(depth=36), "depth is 36; allowed are 20, 64"),
    ],
)
def test_refusals_name_the_argument(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_a_backbone_without_a_network_says_so():
    with pytest.raises(ValueError, match="Backbone computes no embeddings; name a backbone that derives from it"):
        Backbone(4)


def test_efficientnet_has_the_weights_and_the_work_of_b0():
    """The paper's 5.3 million weights, less its 1.281 million for 1,000 classes, are those of our stages."""
    network = EfficientNet(512)
    stages = sum(weight.numel() for part in (network.stem, network.blocks, network.mix) for weight in part.parameters())
    assert stages == pytest.approx(5.3e6 - 1.281e6, rel=0.01)
    assert (
        0.75e9 < measure_backbone(network).flops < 0.8e9
    )  # twice the paper's 0.39 billion multiply-adds; below 1 GFLOP


def test_efficientnet_leaves_blocks_out_in_training_alone():
    torch.manual_seed(0)
    network = EfficientNet(32, width=0.25, drop=0.9, face_height=32, face_width=32)
    images = faces(network, 4)
    with torch.no_grad():
        assert not torch.equal(network.train()(images), network(images))
        assert torch.equal(network.eval()(images), network(images))
    drops = [block.drop for block in network.blocks]
    assert drops == pytest.approx([0.9 * place / 15 for place in range(16)])
