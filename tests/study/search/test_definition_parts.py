"""Maps, method and schedule in the file of a search: each mistake is one line that names the file and the key."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from verisphere.base.vocabulary import Embeddings, Redrawing
from verisphere.images.faces import Faces
from verisphere.measure.domain_bias import bias_of_domains
from verisphere.measure.set_figures import set_figures
from verisphere.study.search import EachEpoch, Linear, Reinforce
from verisphere.study.search.definition import read_search

FACTOR = "loss.init_args.factor"
SMALL = ["--data.init_args.people=8", "--data.init_args.images=4", "--batch_size=8"]


def named(name: str, **arguments: Any) -> dict[str, Any]:
    return {"class_path": f"verisphere.study.search.{name}", "init_args": arguments}


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
        ({"method": named("Reinforce", rate=-1)}, ["rate must be a positive number, got -1"]),
        ({"method": named("EachEpoch")}, ["method", "EachEpoch"]),
        ({"schedule": named("SuccessiveHalving", first=3)}, ["first is 3 epochs, longer than a training of 2"]),
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


BIAS = {
    "faces": {
        "class_path": "verisphere.images.SyntheticFaces",
        "init_args": {"people": 4, "images": 2, "seed": 1, "first_person": 5000, "domains": ["studio", "night"]},
    },
    "far": ["1e-1"],
    "figure": "domain_bias",
}


def test_a_reward_with_an_anchor(tmp_path):
    reward = read_search(written(tmp_path, reward=BIAS | {"anchor": "studio"}), SMALL).reward
    assert (reward.anchor, reward.described["anchor"]) == ("studio", "studio")
    assert reward.title == "domain_bias to studio"
    embeddings = embeddings_of(reward.measured_set.faces)
    figures = set_figures("reward", reward.measured_set, embeddings, Redrawing(20, 0), reward.anchor)
    (key,) = (figure for figure in figures.values if figure.name == "domain_bias")
    assert figures.values[key] == bias_of_domains(embeddings, "studio", Redrawing(20, 0)).value > 0
    assert len(figures.redrawn[key].replicates) == 20


def embeddings_of(faces: Faces) -> Embeddings:
    numbers = np.random.default_rng(0).normal(size=(len(faces), 8))
    return Embeddings(numbers, faces.names, faces.identities, faces.domains)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({}, "reward: figure is domain_bias, which needs anchor, the name of a domain; allowed are night, studio"),
        ({"anchor": "street"}, "reward: anchor is 'street'; the domains are night, studio"),
        ({"anchor": 3}, "reward: figure is domain_bias, which needs anchor"),
        ({"anchor": "studio", "figure": "tar"}, "reward: anchor is 'studio', and figure tar; only domain_bias has"),
    ],
)
def test_an_anchor_that_does_not_fit(tmp_path, changed, message):
    with pytest.raises(ValueError, match=message):
        read_search(written(tmp_path, reward=BIAS | changed), SMALL)


def test_margins_that_do_not_fit_the_domains_are_refused_before_a_training(tmp_path):
    changed = {"recipe": "synthetic/domain_margins", "space": {"loss.init_args.margins.studio": named("Linear")}}
    changed["space"]["loss.init_args.margins.studio"]["init_args"] = {"low": 0, "high": 0.4}
    path = written(tmp_path, **changed)
    assert read_search(path, SMALL).space.fields == ("loss.init_args.margins.studio",)
    with pytest.raises(
        ValueError, match="images are in the domain street, for which the loss has no margin; it has ma"
    ):
        read_search(path, [*SMALL, "--data.init_args.domains=[studio, street]"])
