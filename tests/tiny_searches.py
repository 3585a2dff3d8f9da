"""Searches that take a second: the file of one, and what is read from the folder that it leaves."""

from pathlib import Path

from tiny_runs import RECIPE, files, metrics
from verisphere.study.search.candidate import REWARD, Computing
from verisphere.study.search.definition import read_search
from verisphere.study.search.folder import SEARCH_JSON
from verisphere.study.search.search import SearchResult, run_search

SEARCH = """\
recipe: recipe.yaml
space:
  optimizer.rate: {class_path: verisphere.study.search.Logarithmic, init_args: {low: %s, high: %s}}
method: {class_path: verisphere.study.search.Reinforce}
schedule: {class_path: verisphere.study.search.EachEpoch, init_args: {candidates: %d, every: %s}}
reward:
  faces: {class_path: own_parts.Noise, init_args: {people: 6, images: 3}}
  figure: tar
  far: ["0.1"]
  replicates: 20
"""


def written(folder: Path, low: float = 0.001, high: float = 0.1, candidates: int = 3, every: float = 1.0) -> Path:
    (folder / "recipe.yaml").write_text(RECIPE)
    path = folder / "search.yaml"
    path.write_text(SEARCH % (low, high, candidates, every))
    return path


def searched(path: Path, out: Path, *words: str) -> SearchResult:
    return run_search(read_search(path, list(words)), out, Computing(device="cpu"))


def left(out: Path) -> dict[str, object]:
    """What a search leaves that another one of the same file must leave, too."""
    rewards = {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.glob(f"rounds/*/*/{REWARD}"))}
    return {
        "run": files(out),
        "log": metrics(out),
        "search": (out / SEARCH_JSON).read_bytes(),
        "recipe": (out / "recipe.yaml").read_bytes(),
        **rewards,
    }
