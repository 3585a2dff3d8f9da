"""Backbones from descriptions: what is built, and that nothing else is."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from verisphere.backbones.mobilefacenet import MobileFaceNet
from verisphere.backbones.pixels import Pixels
from verisphere.models.build import build_backbone, read_description, untrained

PIXELS = {"class_path": "verisphere.backbones.pixels.Pixels", "init_args": {"side": 4}}
FOREIGN = """\
from pathlib import Path

Path({marker!r}).touch()  # what importing it does

from verisphere.backbones import Pixels

class Foreign(Pixels):
    pass

def function(**arguments):
    Path({marker!r}).touch()
"""


def test_it_builds_our_own():
    backbone = build_backbone(PIXELS)
    assert isinstance(backbone, Pixels)
    assert backbone.side == 4
    assert isinstance(build_backbone({"class_path": "verisphere.backbones.Pixels"}), Pixels)
    assert isinstance(build_backbone({"class_path": "verisphere.backbones.Pixels", "init_args": None}), Pixels)


@pytest.fixture
def foreign(tmp_path, monkeypatch) -> Path:
    """A module outside verisphere; the file that it makes as soon as any of it runs."""
    marker = tmp_path / "it_ran"
    (tmp_path / "foreign_parts.py").write_text(FOREIGN.format(marker=str(marker)))
    monkeypatch.syspath_prepend(tmp_path)
    return marker


def test_code_from_elsewhere_runs_only_if_trusted(foreign):
    description = {"class_path": "foreign_parts.Foreign", "init_args": {"side": 3}}
    with pytest.raises(ValueError, match=r"'foreign_parts\.Foreign' is not part of verisphere; .* --trust-code"):
        build_backbone(description)
    assert not foreign.exists()
    assert build_backbone(description, trust=True).side == 3
    assert foreign.exists()


@pytest.mark.parametrize(
    "path",
    [
        "verisphere.files.disk.remove_whole",  # ours, and yet nothing that a file may call
        "verisphere.cli.main",
        "verisphere.__main__.main",  # importing it would start the command line
        "verisphere_evil.embed.Net",
        "os.system",
        "",
        "Pixels",
    ],
)
def test_nothing_outside_the_backbones_is_reached(path, tmp_path):
    kept = tmp_path / "kept"
    kept.touch()
    with pytest.raises(ValueError, match="is not part of verisphere"):
        build_backbone({"class_path": path, "init_args": {"path": str(kept)}})
    assert kept.exists()


@pytest.mark.parametrize(
    "path",
    [
        "verisphere.backbones.extract.extract",
        "verisphere.backbones.extract.batches",
        "verisphere.backbones.extract.TrainedOn",
    ],
)
def test_what_is_no_backbone_is_not_called(path):
    with pytest.raises(ValueError, match="does not correspond to a subclass of Backbone"):
        build_backbone({"class_path": path, "init_args": {"path": "/"}})


def test_a_trusted_function_is_not_called_either(foreign):
    with pytest.raises(ValueError, match="does not correspond to a subclass of Backbone"):
        build_backbone({"class_path": "foreign_parts.function"}, trust=True)


@pytest.mark.parametrize(
    ("description", "message"),
    [
        (
            {"class_path": "verisphere.backbones.absent.Net"},
            "verisphere.backbones.absent.Net: No module",
        ),
        ({"class_path": "verisphere.backbones.pixels.Net"}, "no attribute 'Net'"),
        ({"class_path": "verisphere.backbones..Net"}, "No module named"),
        (PIXELS | {"init_args": {"sides": 3}}, r"there is no field 'sides' \(did you mean side\?\)"),
        (PIXELS | {"init_args": {"side": 500}}, "cannot be built: side is 500"),
        (PIXELS | {"init_args": [3]}, "init_args names no arguments"),
        ({}, "backbone: '' is not part of verisphere"),
    ],
)
def test_refusals(description, message):
    with pytest.raises(ValueError, match=message):
        build_backbone(description)


@pytest.mark.parametrize(
    "text",
    [
        "class_path: {path}\ninit_args: {{embedding_size: 8, width: 0.1}}\nseed: 5\n",
        "seed: 5\nbackbone:\n  class_path: {path}\n  init_args: {{embedding_size: 8, width: 0.1}}\n",
    ],
)
def test_an_untrained_network_has_the_weights_of_its_seed(tmp_path, text):
    path = tmp_path / "net.yaml"
    path.write_text(text.format(path="verisphere.backbones.MobileFaceNet"))
    torch.manual_seed(5)
    expected = MobileFaceNet(embedding_size=8, width=0.1)
    assert all(
        torch.equal(one, other) for one, other in zip(untrained(path).parameters(), expected.parameters(), strict=True)
    )


def test_a_seed_can_be_left_out(tmp_path):
    path = tmp_path / "net.yaml"
    path.write_text("class_path: verisphere.backbones.Pixels\n")
    assert read_description(path) == ({"class_path": "verisphere.backbones.Pixels"}, 0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "names no backbone"),
        (b"- 1", "names no backbone"),
        (b"backbone: 3", "names no backbone"),
        (b"class_path: verisphere.backbones.Pixels\nseed: first", "seed must be a whole number .* got 'first'"),
        (b"class_path: verisphere.backbones.Pixels\nseed: -1", "seed must be a whole number .* got -1"),
        (b"class_path: verisphere.backbones.Pixels\ninit_args: {side: 0}", "side is 0"),
    ],
)
def test_a_wrong_file_gets_one_line_that_names_it(tmp_path, content, message):
    path = tmp_path / "net.yaml"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        untrained(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


# --- a claim is compared with the weights before memory is taken ------------------------------------------------------

TINY = {"class_path": "verisphere.backbones.MobileFaceNet", "init_args": {"embedding_size": 8, "width": 0.1}}


def weights_of(description: dict, path: Path) -> Path:
    save_file(dict(build_backbone(description).state_dict()), path)
    return path


def test_weights_that_fit_are_no_matter(tmp_path):
    weights = weights_of(TINY, tmp_path / "weights.safetensors")
    assert build_backbone(TINY, weights=weights).embedding_size == 8


@pytest.mark.parametrize(
    "claim",
    [
        {"embedding_size": 8, "width": 16},
        {"embedding_size": 65536, "width": 0.1},
    ],
)
def test_a_network_larger_than_its_weights_is_refused_before_it_is_built(tmp_path, monkeypatch, claim):
    weights = weights_of(TINY, tmp_path / "weights.safetensors")
    taken = []
    monkeypatch.setattr(torch.nn.init, "kaiming_normal_", lambda tensor, **_: taken.append(tensor.device.type))
    with pytest.raises(ValueError, match=r"weights\.safetensors does not fit MobileFaceNet: ") as caught:
        build_backbone(TINY | {"init_args": claim}, weights=weights)
    assert set(taken) == {"meta"}
    assert "\n" not in str(caught.value)


def test_weights_that_are_none_are_named(tmp_path):
    path = tmp_path / "weights.safetensors"
    for content in (b"", b"\xff" * 64, (2**60).to_bytes(8, "little") + b"{}"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"weights\.safetensors: not the weights of a network"):
            build_backbone(TINY, weights=path)


def nested(depth: int) -> dict:
    inner = TINY
    for _ in range(depth):
        inner = {"class_path": "verisphere.backbones.GroupFace", "init_args": {"backbone": inner}}
    return inner


@pytest.mark.parametrize(
    ("description", "message"),
    [
        (TINY | {"init_args": {"width": 200.0}}, "width is 200.0; allowed is more than 0, and at most 16"),
        (TINY | {"init_args": {"width": True}}, "width must be a number, got True"),
        (TINY | {"init_args": {"embedding_size": 10**30}}, "an embedding has at most 65,536"),
        (TINY | {"init_args": {"activation": ["relu"]}}, r"activation must be 'prelu' or 'relu', got \['relu'\]"),
        ({"class_path": "verisphere.backbones.Backbone", "init_args": {"embedding_size": 4}}, "computes no embeddings"),
        (
            {"class_path": "verisphere.backbones.GroupFace", "init_args": {"backbone": 3}},
            "backbone: not a Backbone, got 3",
        ),
        (nested(9), "backbones inside each other, more than 8 deep"),
        (nested(300), "backbones inside each other, more than 8 deep"),
    ],
)
@pytest.mark.parametrize("trust", [False, True])
def test_claims_of_a_wrong_kind_or_size_get_one_line(tmp_path, description, message, trust):
    weights = weights_of(TINY, tmp_path / "weights.safetensors")
    for file in (None, weights):
        with pytest.raises(ValueError, match=message) as caught:
            build_backbone(description, trust, file)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 600
