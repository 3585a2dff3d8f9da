"""Opening models: a run, a checkpoint, a recipe; and refusing what is damaged or foreign."""

import json
from pathlib import Path

import pytest
import torch

from verisphere.embed.sfnet import SFNet
from verisphere.train.checkpoint import save_checkpoint
from verisphere.workflows.embed import open_backbone

CPU = torch.device("cpu")
CLASS = "verisphere.embed.mobilefacenet.MobileFaceNet"
ARGUMENTS = {"embedding_size": 8, "width": 0.1, "activation": "relu"}


def write(run: Path, step: int = 3, **state: object) -> tuple[Path, dict[str, torch.Tensor]]:
    from verisphere.embed.load import build_backbone

    description = {"class_path": CLASS, "init_args": ARGUMENTS}
    torch.manual_seed(step)
    tensors = dict(build_backbone(description).state_dict())
    path = save_checkpoint(run, step, {"backbone": tensors}, {"backbone": description} | state)
    return path, tensors


def test_a_run_gives_its_newest_checkpoint_and_a_checkpoint_itself(tmp_path):
    old, old_tensors = write(tmp_path, 3)
    _, new_tensors = write(tmp_path, 5)
    for place, tensors in ((tmp_path, new_tensors), (old, old_tensors)):
        backbone = open_backbone(place, CPU)
        assert not backbone.training
        assert all(torch.equal(value, tensors[name]) for name, value in backbone.state_dict().items())


def test_a_recipe_gives_the_untrained_network(tmp_path):
    path = tmp_path / "net.yml"
    path.write_text("class_path: verisphere.embed.sfnet.SFNet\ninit_args: {embedding_size: 4}\nseed: 9\n")
    torch.manual_seed(9)
    expected = SFNet(embedding_size=4)
    assert torch.equal(open_backbone(path, CPU).project.weight, expected.project.weight)


def test_nothing_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"net\.yaml: there is no such file"):
        open_backbone(tmp_path / "net.yaml", CPU)
    with pytest.raises(FileNotFoundError, match="neither a checkpoint"):
        open_backbone(tmp_path / "absent", CPU)
    (tmp_path / "model.pt").touch()
    with pytest.raises(FileNotFoundError, match="neither a checkpoint"):
        open_backbone(tmp_path / "model.pt", CPU)


@pytest.mark.parametrize(
    ("description", "message"),
    [
        (None, "names no backbone"),
        ("verisphere.embed.Pixels", "names no backbone"),
        ({}, "backbone '' is not part of verisphere"),
        ({"class_path": "os.system", "init_args": {"command": "true"}}, "'os.system' is not part of verisphere"),
        ({"class_path": CLASS, "init_args": {"width": -1.0}}, "cannot be built: width is -1"),
        ({"class_path": CLASS, "init_args": ARGUMENTS | {"embedding_size": 9}}, "does not fit MobileFaceNet: "),
        ({"class_path": "verisphere.embed.pixels.Pixels"}, "does not fit Pixels: .* more"),
    ],
)
def test_a_checkpoint_that_is_not_what_it_says_gets_one_line(tmp_path, description, message):
    path, _ = write(tmp_path)
    state = json.loads((path / "state.json").read_text())
    (path / "state.json").write_text(json.dumps(state | {"backbone": description}))
    with pytest.raises(ValueError, match=message) as caught:
        open_backbone(tmp_path, CPU)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_foreign_classes_need_trust(tmp_path, monkeypatch):
    (tmp_path / "foreign_net.py").write_text(f"from {CLASS.rpartition('.')[0]} import MobileFaceNet as Net\n")
    monkeypatch.syspath_prepend(tmp_path)
    description = {"class_path": "foreign_net.Net", "init_args": ARGUMENTS}
    _, tensors = write(tmp_path, backbone=description)
    with pytest.raises(ValueError, match="--trust-code"):
        open_backbone(tmp_path, CPU)
    assert torch.equal(open_backbone(tmp_path, CPU, trust=True).state_dict()["stem.0.0.weight"],
                       tensors["stem.0.0.weight"])  # fmt: skip


def test_damaged_weights_are_refused(tmp_path):
    path, _ = write(tmp_path)
    file = path / "backbone.safetensors"
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"backbone\.safetensors is damaged"):
        open_backbone(tmp_path, CPU)
