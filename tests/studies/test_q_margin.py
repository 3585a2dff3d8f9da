"""The study of Q-Margin: the TAR over people beside that over pairs."""

import numpy as np
import pytest

from studies.q_margin.__main__ import main
from studies.q_margin.people import tars
from verisphere.base.vocabulary import Embeddings
from verisphere.files.embeddings import write_embeddings


@pytest.fixture
def experiment(tmp_path):
    """Ann has three photographs that agree, Ben two that are far apart, Cem one."""
    angles = np.radians([0, 5, 10, 60, 150, 220])
    rows = np.stack([np.cos(angles), np.sin(angles)], 1)
    for seed in ("seed-0", "seed-1"):
        folder = tmp_path / "runs" / "An_arm~0123456789ab" / seed
        folder.mkdir(parents=True)
        write_embeddings(folder / "set.npz", Embeddings(rows, identities=["Ann", "Ann", "Ann", "Ben", "Ben", "Cem"]))
    return tmp_path


def test_a_person_with_many_pairs_counts_once_over_people(experiment):
    (path,) = experiment.glob("runs/*/seed-0/set.npz")
    assert tars(path, ["1e-1"]) == [(3 / 4, 1 / 2)]


def test_the_table_has_means_over_seeds(experiment, capsys, tmp_path):
    assert main([str(experiment), "--out", str(tmp_path / "people.csv")]) == 0
    assert "| An arm |" in (shown := capsys.readouterr().out)
    assert "0.7500 (0.0000) | 0.5000 (0.0000)" in shown
    assert "An arm,seed-1,1e-2,0.75,0.5" in (tmp_path / "people.csv").read_text()
