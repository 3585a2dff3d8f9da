"""Memory that runs out: one line and exit code 2, and nothing half-written."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from faults.verbs import Act, listing, random_set, said
from verisphere.files.embeddings import write_embeddings

MEGABYTES = 60  # beyond what is loaded; the files below need several times as much

VERBS = {
    "train": ("train", "large.yaml", "--out", "out/run"),
    "embed": ("embed", "wide.yaml", "faces", "--out", "out/made.npz", "--workers", 0),
    "align": ("align", "photos", "out/crops.zip"),
    "evaluate": ("evaluate", "all-pairs", "large.npz", "--json", "out/made.json"),
    "calibrate": ("calibrate", "large.npz", "--far", "0.2", "--out", "out/made.json", "--guarantee", "expected"),
}


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
def test_memory_that_runs_out_is_one_line(verb: str, act: Act, world: Path):
    recipe = (world / "recipe.yaml").read_text()
    recipe = recipe.replace("own_parts.TinyNet}", "verisphere.backbones.MobileFaceNet}")
    (world / "large.yaml").write_text(recipe.replace(
        "own_parts.Noise, init_args: {people: 6, images: 6}",
        "verisphere.images.SyntheticFaces, init_args: {people: 8, images: 2, difficulty: easy}",
    ).replace("batch_size: 6", "batch_size: 16"))  # fmt: skip
    (world / "wide.yaml").write_text("class_path: verisphere.backbones.MobileFaceNet\ninit_args: {width: 2.0}\n")
    if verb in ("evaluate", "calibrate"):
        write_embeddings(world / "large.npz", random_set(20_000, 2, 1024))
    if verb == "align":
        (world / "photos").mkdir()
        Image.effect_noise((1500, 1500), 60).convert("RGB").save(world / "photos" / "wide.jpg")
    done = act(*VERBS[verb], memory=MEGABYTES)
    assert done.returncode == 2, done.stderr
    (line,) = said(done)
    assert "memory" in line.lower()
    left = listing(world / "out") if (world / "out").exists() else {}
    assert not [name for name in left if name.endswith((".npz", "made.json", ".zip")) or "/checkpoints/step-" in name]


@pytest.mark.slow
def test_there_is_enough_without_the_limit(act: Act, world: Path):
    """What the limit takes is what makes them fail: the same small files pass under it."""
    done = act("evaluate", "all-pairs", "set.npz", "--json", "out/made.json", memory=400)
    assert done.returncode == 0, done.stderr
    assert np.isfinite(float((world / "out" / "made.json").stat().st_size))
