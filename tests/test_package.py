"""What `import verisphere` gives, and what it costs."""

import importlib
import importlib.metadata
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import verisphere


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=300)


def test_the_version_is_the_installed_one():
    assert verisphere.__version__ == importlib.metadata.version("verisphere")


def test_python_m_verisphere_is_the_command():
    done = run("-m", "verisphere", "--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"verisphere {verisphere.__version__}\n", "")


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'no_such_thing'"):
        verisphere.no_such_thing  # noqa: B018  # the access is the test


def test_importing_it_loads_neither_torch_nor_matplotlib():
    """The command line must answer --help at once."""
    loaded = (
        "import sys, verisphere, verisphere.cli; print(sorted({'torch', 'matplotlib', 'scipy'} & set(sys.modules)))"
    )
    assert run("-c", loaded).stdout == "[]\n"


def test_types_are_shipped():
    assert (Path(verisphere.__file__).parent / "py.typed").is_file()


@pytest.mark.parametrize("give", [list, np.array, torch.tensor, lambda values: np.array(values, np.float32)])
def test_operating_point_takes_tensors_arrays_and_lists(give):
    # n = 4 impostors, k = floor(0.25 * 4) = 1: the threshold is the second largest, 0.375.
    point = verisphere.operating_point(give([0.875, 0.75, 0.25]), give([0.5, 0.375, 0.125, 0.0]), far="0.25")
    assert (point.threshold, point.far, point.impostor_accepted, point.genuine_accepted) == (0.375, 0.25, 1, 2)
    assert point.far_target == "0.25"


def test_one_threshold_takes_domains_across_and_calibration():
    domains = {"day": ([0.75], [0.5, 0.25]), "night": (torch.tensor([0.625]), np.array([0.375, 0.125]))}
    # 0.25 of the 4 impostors is 1: the second largest of 0.5 0.375 0.25 0.125.
    assert verisphere.one_threshold(domains, far="0.25").calibration_threshold == 0.375
    # with two more across domains, floor(0.25 * 6) = 1: the second largest of 0.875 0.5 ...
    assert verisphere.one_threshold(domains, far="0.25", across=[0.875, 0.0]).calibration_threshold == 0.5
    # a calibration set alone decides: floor(0.25 * 4) = 1.
    result = verisphere.one_threshold(domains, far="0.25", calibration=[0.7, 0.65, 0.2, 0.1])
    assert (result.calibration_threshold, result.union) == (0.65, "calibration")
    assert [domain.tar for domain in result.domains.values()] == [1.0, 0.0]
