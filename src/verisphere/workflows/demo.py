"""The whole road in a few minutes: synthetic faces, a training, and figures on people the model has not seen."""

import json
import logging
import time
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np

from verisphere.data.embeddings_file import write_embeddings
from verisphere.data.files import write_whole
from verisphere.data.memory import InMemory, in_memory
from verisphere.data.synthetic import SyntheticFaces, contact_sheet
from verisphere.decide import roc
from verisphere.embed.extract import extract
from verisphere.protocols import AllPairsResult, PairsOfSet, all_pairs
from verisphere.report.plots import domains_plot, roc_plot, save_image, save_plot, training_plot
from verisphere.report.results import json_text
from verisphere.report.tables import number, one_threshold_table, small, table
from verisphere.train.recipe import read_recipe
from verisphere.vocabulary import Embeddings, Progress, quietly
from verisphere.workflows.device import choose_device
from verisphere.workflows.embed import open_backbone
from verisphere.workflows.train import train_run

log = logging.getLogger(__name__)

FARS = ("1e-2", "1e-3", "1e-4")
ONE_FAR = "1e-3"


@dataclass(frozen=True)
class DemoSize:
    """How much the demo does; the tests run a small one.

    Attributes:
        people: unseen people that the figures are measured on.
        images: images of each.
        overrides: fields of the recipe to change, as `--field value` pairs.
    """

    people: int = 180
    images: int = 9
    overrides: tuple[str, ...] = ()


def run_demo(
    out: Path, *, device: str | None = None, progress: Progress = quietly, size: DemoSize | None = None
) -> str:
    """Run the demo; an earlier run's folder under `out` is left alone and the next number taken.

    Args:
        out: folder; receives pictures, embeddings, figures and the run.
        device: a GPU where there is one, by default.
        progress: shown on each long step.
        size: how much to do.

    Returns:
        the tables and the paths of the pictures, as text.
    """
    size = DemoSize() if size is None else size
    started = time.monotonic()
    out = _free_folder(out)
    with as_file(files("verisphere.workflows") / "demo.yaml") as path:
        read = read_recipe(path, list(size.overrides))
    train_run(read, out / "run", device=device, progress=progress)

    trained_on = read.recipe.data
    assert isinstance(trained_on, SyntheticFaces)
    unseen = SyntheticFaces(
        size.people,
        size.images,
        trained_on.seed,
        trained_on.domain_names,
        trained_on.difficulty,
        first_person=_first_unseen(trained_on),
    )
    faces = in_memory(unseen, read.recipe.workers, progress)
    place = choose_device(device)
    sets = {
        name: extract(open_backbone(model, place), faces, progress=progress)
        for name, model in (("trained", out / "run"), ("untrained", out / "run" / "recipe.yaml"))
    }
    results = {name: all_pairs(embeddings, FARS, progress=progress) for name, embeddings in sets.items()}
    write_embeddings(out / "embeddings.npz", sets["trained"])
    write_whole(out / "figures.json", lambda partial: partial.write_text(json_text(results)))
    pictures = _pictures(out, unseen, faces, sets, results["trained"])
    log.info("the demo took %.0f s", time.monotonic() - started)
    return _text(results, pictures)


def _first_unseen(trained_on: SyntheticFaces) -> int:
    """A person's number past all that were trained on, at the start of a round of domains and families."""
    return 10_000 * (1 + (trained_on.first_person + len(trained_on.people)) // 10_000)


def _free_folder(out: Path) -> Path:
    folder, number_ = out, 1
    while folder.exists() and any(folder.iterdir()):
        number_ += 1
        folder = out.with_name(f"{out.name}-{number_}")
    return folder


def _pictures(
    out: Path, unseen: SyntheticFaces, faces: InMemory, sets: dict[str, Embeddings], result: AllPairsResult
) -> list[Path]:
    assert result.one_threshold is not None
    common = next(one for one in result.one_threshold if one.far_target == ONE_FAR)
    curves, by_domain = {}, {}
    for name, embeddings in sets.items():
        pairs = PairsOfSet(embeddings)
        genuine, own_rows = pairs.all_scores(genuine=True)
        impostor, rows = pairs.all_scores(genuine=False)
        curves[name] = roc(genuine, impostor)
        if name == "trained":
            domains = np.array(faces.domains)
            by_domain = {
                domain: (
                    genuine[(domains[own_rows] == domain).all(1)],
                    impostor[(domains[rows] == domain).all(1)],
                )
                for domain in common.domains
            }
    entries = [json.loads(line) for line in (out / "run" / "metrics.jsonl").read_text().splitlines()]
    title = f"{len(faces.people)} unseen synthetic people, {curves['trained'].impostor_total:,} impostor pairs"
    return [
        save_image(contact_sheet(unseen, min(8, len(unseen.people)), min(10, unseen.images_each)), out / "faces.png"),
        save_plot(roc_plot(curves, title), out / "roc.png"),
        save_plot(domains_plot(by_domain, common), out / "one_threshold.png"),
        save_plot(training_plot(entries), out / "training.png"),
    ]


def _text(results: dict[str, AllPairsResult], pictures: list[Path]) -> str:
    trained, untrained = results["trained"], results["untrained"]
    assert trained.one_threshold is not None
    rows = [
        [
            ours.far_target,
            number(theirs.tar),
            number(ours.tar),
            f"{number(ours.tar_lower_95)} .. {number(ours.tar_upper_95)}",
            number(ours.threshold),
            f"{ours.impostor_accepted:,} / {ours.impostor_total:,}",
            f"{small(ours.far_lower_95)} .. {small(ours.far_upper_95)}",
        ]
        for ours, theirs in zip(trained.operating_points, untrained.operating_points, strict=True)
    ]
    header = ["FAR target", "TAR untrained", "TAR trained", "95 % bounds", "threshold", "impostors", "FAR 95 % bounds"]
    common = next(one for one in trained.one_threshold if one.far_target == ONE_FAR)
    shown = "\n".join(f"  {path}" for path in pictures)
    return f"{table(header, rows)}\n\n{one_threshold_table(common)}\n\npictures:\n{shown}"
