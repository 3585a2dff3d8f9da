"""The record of people and images in checkpoints: of a training, resumed, begun from another, and of several ranks."""

from pathlib import Path

import numpy as np
import pytest
import torch

from processes import run
from tiny_runs import read
from verisphere.base.distributed import world
from verisphere.base.trained_on import UNNAMED, TrainedOn, image_digests, name_digests
from verisphere.base.vocabulary import NOBODY
from verisphere.images import InMemory
from verisphere.images.decoded_faces import in_memory
from verisphere.images.loader import batches
from verisphere.models.checkpoint import list_checkpoints, read_checkpoint
from verisphere.models.trained_on import PART, as_tensors, from_tensors, of_checkpoint
from verisphere.train.images_seen import ImagesSeen
from verisphere.train.session import train_run

PIXELS = torch.randint(256, (20, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
NAMES = tuple(f"{number}" for number in range(20))


def digests() -> list[int]:
    from own_parts import Noise

    faces = Noise()
    return np.unique(image_digests(faces.images(range(len(faces))).numpy())).tolist()


def recorded(folder: Path) -> TrainedOn:
    return of_checkpoint(read_checkpoint(folder))


def test_a_checkpoint_records_the_images_that_were_used(recipe: Path, tmp_path: Path):
    train_run(read(recipe), tmp_path / "run")
    found = recorded(tmp_path / "run")
    assert found.people.tolist() == name_digests([f"p{person}" for person in range(5)]).tolist()
    assert (found.images.tolist(), found.gap) == (digests(), "")
    for step, most in ((1, 6), (2, 12)):  # before the end of the first epoch: those seen so far
        train_run(read(recipe), tmp_path / f"{step}", until=step)
        early = recorded(tmp_path / f"{step}").images.tolist()
        assert len(early) == most
        assert set(early) <= set(digests())


def test_people_under_wrong_labels_are_recorded_too():
    faces = InMemory(PIXELS, NAMES, ("Ann",) * 20, true_identities=("Ann", "-1", "out/Ben") + ("Ann",) * 17)
    assert ImagesSeen(faces, TrainedOn.unknown("")).people.tolist() == name_digests(["Ann", "Ben"]).tolist()


@pytest.mark.parametrize(
    ("people", "gap"),
    [(("Ann", "17"), UNNAMED), (("Ann", NOBODY), ""), (("16", "17"), ""), (("one/Ann", "two/0017"), UNNAMED)],
)
def test_a_set_in_which_only_some_people_have_names_says_so(people: tuple[str, str], gap: str):
    record = ImagesSeen(InMemory(PIXELS, NAMES, people * 10), TrainedOn.unknown("")).record()
    assert record.gap == gap
    assert from_tensors(as_tensors(record), Path("run")).gap == gap


def test_names_that_were_taken_exactly_are_recorded_as_written_too():
    assert ImagesSeen(InMemory(PIXELS, NAMES, ("AB", "cd") * 10), TrainedOn.unknown("")).record().written is None
    faces = InMemory(PIXELS, NAMES, ("AB", "ab") * 10, names_rule="exact")
    record = ImagesSeen(in_memory(faces), TrainedOn.unknown("")).record()
    assert (len(record.people), record.written.tolist()) == (1, name_digests(["AB", "ab"], written=True).tolist())
    again = from_tensors(as_tensors(record), Path("run"))
    assert again.written is not None
    assert again.written.tolist() == record.written.tolist()


def test_a_run_records_those_of_the_run_it_started_from(recipe: Path, tmp_path: Path):
    train_run(read(recipe), tmp_path / "first", until=3)
    other = ("--data.init_args.people", "7", "--start_head", "false", "--start", str(tmp_path / "first"))
    train_run(read(recipe, *other, "--steps", "1", "--epochs", "null"), tmp_path / "second")
    first, second = recorded(tmp_path / "first"), recorded(tmp_path / "second")
    assert set(first.images.tolist()) < set(second.images.tolist())
    assert second.people.tolist() == name_digests([f"p{person}" for person in range(7)]).tolist()


def test_a_run_of_an_earlier_version_has_its_people_and_says_that_images_are_missing(recipe: Path, tmp_path: Path):
    train_run(read(recipe), tmp_path / "run", until=3)
    checkpoint = list_checkpoints(tmp_path / "run")[-1]
    state = (checkpoint / "state.json").read_text()
    (checkpoint / f"{PART}.safetensors").unlink()
    lines = [line for line in state.splitlines() if f'"{PART}"' not in line]
    (checkpoint / "state.json").write_text("\n".join(lines).replace(",\n  },", "\n  },").replace('",\n  }', '"\n  }'))
    found = recorded(tmp_path / "run")
    assert found.people.tolist() == name_digests([f"p{person}" for person in range(5)]).tolist()
    assert (found.images.tolist(), found.gap) == ([], "an earlier version made the run, which recorded no images")
    train_run(read(recipe), tmp_path / "run", resume=True)
    resumed = recorded(tmp_path / "run")
    assert (resumed.images.tolist(), resumed.gap) == (digests(), found.gap)


@pytest.mark.parametrize(
    "tensors",
    [
        {"people": torch.zeros(2), "images": torch.zeros(2), "gap": torch.zeros(0)},
        {"people": torch.zeros(2, dtype=torch.int64)},
        {
            "people": torch.zeros(2, dtype=torch.int64),
            "images": torch.zeros(1, dtype=torch.int64),
            "gap": torch.tensor([255], dtype=torch.uint8),
        },
    ],
)
def test_a_record_that_is_none_is_refused(tensors: dict[str, torch.Tensor], tmp_path: Path):
    with pytest.raises(ValueError, match="here: not a record of a training"):
        from_tensors(tensors, Path("here"))


def _worker() -> list[int]:
    """Digests after each rank has used its own images."""
    faces, rank = InMemory(PIXELS, NAMES, NAMES), world().rank
    seen = ImagesSeen(faces, TrainedOn.unknown(""))
    own = torch.arange(rank, len(faces) - 1, 2)  # of different lengths, and the last image is not used
    for batch in batches(faces, own, batch_size=4):
        seen.add(batch)
    return seen.record().images.tolist()


def test_ranks_record_what_all_have_used():
    first, second = run(_worker, 2)
    assert first == second == np.unique(image_digests(PIXELS.numpy()[:-1])).tolist()
