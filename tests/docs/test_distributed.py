"""The examples of docs/distributed.md: what schedulers start is a command of ours, and its parts come to one result."""

import ast
import importlib.util
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import yaml

from verisphere.base.vocabulary import Embeddings
from verisphere.cli import main
from verisphere.cli.start import parser
from verisphere.files.embeddings import write_embeddings

PAGE = (Path(__file__).parents[2] / "docs" / "distributed.md").read_text(encoding="utf-8")

pytestmark = pytest.mark.usefixtures("process_as_it_was")


def block_after(title: str) -> str:
    """The first block of code below a title of the page."""
    found = re.search(rf"^## {title}\n.*?^```\w*\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


def parsed(command: str) -> tuple[Path, tuple[int, int]]:
    """The folder and the part of a command, which is one of ours."""
    options = parser().parse_args(shlex.split(command)[1:])
    return options.work, options.part


def test_a_task_of_a_slurm_array_is_a_part():
    script = block_after("SLURM")
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0
    words = script.replace("\\\n", " ").rpartition("srun ")[2]
    command = words.replace('"$SLURM_CPUS_PER_TASK"', "32").replace('"$SLURM_ARRAY_TASK_ID/16"', "16/16")
    assert "--array=1-16 " in script
    assert parsed(command) == (Path("/shared/work"), (15, 16))


def test_an_index_of_a_kubernetes_job_is_a_part():
    job = yaml.safe_load(block_after("Kubernetes"))
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert (job["spec"]["completionMode"], job["spec"]["completions"]) == ("Indexed", 16)
    command = container["args"][0].removeprefix("exec ").replace("$((JOB_COMPLETION_INDEX + 1))", "1")
    assert parsed(command) == (Path("/shared/work"), (0, 16))


def test_the_ray_example_starts_parts():
    words = [node.value for node in ast.walk(ast.parse(block_after("Ray"))) if isinstance(node, ast.Constant)]
    assert {"--work", "--part", "/shared/work"} <= {*words}


@pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="ray is not installed, so its example was not run (pip install ray)"
)
def test_the_ray_example_comes_to_the_figures_of_one_process(tmp_path: Path):
    generator, person = np.random.default_rng(0), np.arange(200) % 50
    rows = generator.normal(size=(50, 16))[person] + 0.5 * generator.normal(size=(200, 16))
    write_embeddings(tmp_path / "embeddings.npz", Embeddings(rows.astype(np.float32), identities=person.astype(str)))
    code = (
        block_after("Ray").replace("/shared", str(tmp_path)).replace("1e-6", "1e-3").replace("num_cpus=8", "num_cpus=1")
    )
    code = code.replace('"verisphere", "evaluate"', f'{sys.executable!r}, "-m", "verisphere", "evaluate"')
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=300)
    made = tmp_path / "alone.json"
    words = ["evaluate", "all-pairs", str(tmp_path / "embeddings.npz"), "--far", "1e-3", "--json", str(made)]
    assert main(["--default-allocator", *words]) == 0
    assert (tmp_path / "figures.json").read_bytes() == made.read_bytes()
