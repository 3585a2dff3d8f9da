"""Maps, method and schedule in the file of a search: each mistake is one line that names the file and the key."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from verisphere.search import EachEpoch, Linear, Reinforce
from verisphere.search.definition import read_search

FACTOR = "loss.init_args.factor"
SMALL = ["--data.init_args.people=8", "--data.init_args.images=4", "--batch_size=8"]


def named(name: str, **arguments: Any) -> dict[str, Any]:
    return {"class_path": f"verisphere.search.{name}", "init_args": arguments}


def written(folder: Path, **changed: Any) -> Path:
    content = {
        "recipe": "synthetic/search_softmax",
        "set": {"epochs": 2},
        "space": {FACTOR: named("ModulatingFactor", scale=16)},
        "reward": {
            "faces": {
                "class_path": "verisphere.images.SyntheticFaces",
                "init_args": {"people": 4, "images": 2, "seed": 1, "first_person": 5000},
            },
            "far": ["1e-1"],
        },
    } | changed
    path = folder / "search.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def test_whole_numbers_stand_for_others_and_defaults_are_the_papers(tmp_path):
    search = read_search(written(tmp_path, space={FACTOR: named("Linear", low=-10, high=0, start=-2)}), SMALL)
    (of_field,) = search.space.maps
    assert isinstance(of_field, Linear)
    assert (of_field.low, of_field.high, of_field.start) == (-10.0, 0.0, 0.8)
    assert isinstance(search.method, Reinforce)
    assert isinstance(search.schedule, EachEpoch)
    assert search.schedule.candidates == 4


@pytest.mark.parametrize(
    ("changed", "parts"),
    [
        ({"method": named("Reinforce", rte=0.1)}, ["rte"]),
        ({"method": named("Reinforce", rate="fast")}, ["rate"]),
        ({"method": named("Reinforce", rate=-1)}, ["rate must be a positive number, got -1"]),
        ({"method": named("EachEpoch")}, ["method", "EachEpoch"]),
        ({"method": named("Reinforc")}, ["Reinforc"]),
        ({"schedule": named("EachEpoch", candidates=2.5)}, ["candidates"]),
        ({"schedule": named("SuccessiveHalving", first=3)}, ["first is 3 epochs, longer than a training of 2"]),
        ({"space": {FACTOR: named("Linear", low=0)}}, ["high"]),
        ({"space": {FACTOR: named("Linear", low=1, high=0)}}, ["low is 1.0 and high 0.0"]),
        ({"space": {FACTOR: named("ModulatingFactor")}}, [FACTOR, "scale 32 and the loss 16"]),
        ({"space": {FACTOR: named("Linear", low=-1, high=2)}}, [f"{FACTOR} 2", "factor is 2.0; it must be"]),
    ],
)
def test_mistakes_are_one_line_that_names_the_file(tmp_path, changed, parts):
    path = written(tmp_path, **changed)
    with pytest.raises(ValueError, match=r"search\.yaml") as caught:
        read_search(path, SMALL)
    assert len(str(caught.value).splitlines()) == 1
    for part in parts:
        assert part in str(caught.value)
