"""Files with templates or media: every kind of evaluation compares what they pool to, worked out by hand.

Template 1 (Ann) is a video of two frames, (2, 0) and (4, 0), and a still, (0, 1): ((2 + 4) / 2, 1) / 2 = (1.5, 0.5), of
length sqrt(2.5) = 1.581139. The others are one face each: 2 (Ann) in direction (0, 1), 3 (Ben) in (1, 0), 4 (Ben) in
(0.8, 0.6), 5 (Cem) in (-1, 0), 6 (Eve) in (0.6, -0.8).
"""

import json
from pathlib import Path

import numpy as np
import pytest

from verisphere.cli import main

pytestmark = pytest.mark.usefixtures("process_as_it_was")

ROWS = np.array([[2, 0], [4, 0], [0, 1], [0, 2], [1, 0], [4, 3], [-1, 0], [3, -4]], np.float32)
TEMPLATES = np.array(["1", "1", "1", "2", "3", "4", "5", "6"])
MEDIA = np.array(["v", "v", "s", "b", "c", "d", "e", "f"])
PEOPLE = np.array(["Ann", "Ann", "Ann", "Ann", "Ben", "Ben", "Cem", "Eve"])


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> dict:
        assert main(["--default-allocator", "evaluate", *map(str, arguments), "--json", "out.json"]) == 0
        assert capsys.readouterr().err == ""
        return json.loads(Path("out.json").read_text())

    return call


def save(name: str, chosen: np.ndarray, **columns: np.ndarray) -> None:
    names = np.array([f"{row}.jpg" for row in range(len(ROWS))])
    arrays = {"embeddings": ROWS, "names": names, "identities": PEOPLE, **columns}
    np.savez(name, **{field: column[chosen] for field, column in arrays.items()})


ALL = np.ones(len(ROWS), bool)


def test_all_pairs_of_templates(run):
    """Of 15 pairs two are genuine: 1-2 at 0.5 / 1.581139 and 3-4 at 0.8.

    Impostors from the top: 1-3 and 1-4 at 1.5 / 1.581139, 2-4 and 3-6 at 0.6, ... FAR 0.2 of 13 lets two pass.
    """
    save("e.npz", ALL, templates=TEMPLATES, media=MEDIA)
    point = run("all-pairs", "e.npz", "--far", "0.2")["operating_points"][0]
    assert point["threshold"] == pytest.approx(0.6, abs=1e-6)
    counts = ("genuine_accepted", "genuine_total", "impostor_accepted", "impostor_total")
    assert [point[name] for name in counts] == [1, 2, 2, 13]


@pytest.mark.parametrize(("feature_norm", "threshold"), [("keep", 0.948683), ("drop", 0.989949)])
def test_listed_pairs_name_templates(run, feature_norm: str, threshold: float):
    """Pair 1-4 is the impostor: 1.5 / 1.581139, or with unit rows (0.5 * 0.8 + 0.5 * 0.6) / sqrt(0.5)."""
    save("e.npz", ALL, templates=TEMPLATES, media=MEDIA)
    Path("pairs.csv").write_text("left,right,label\n1,2,1\n3,4,1\n1,4,0\n")
    out = run(
        *("pairs", "e.npz", "--pairs", "pairs.csv", "--points-only"),
        *("--far", "0.1", "--feature-norm", feature_norm),
    )
    assert out["operating_points"][0]["threshold"] == pytest.approx(threshold, abs=1e-6)


def test_probes_and_galleries_of_templates(run):
    """Probe 2 scores 0.316228 with Ann's template and 0 with Ben's; probe 4 0.948683 with Ann's and 0.8 with Ben's."""
    enrolled = np.isin(TEMPLATES, ["1", "3"])
    save("gallery.npz", enrolled, templates=TEMPLATES, media=MEDIA)
    save("probes.npz", ~enrolled, templates=TEMPLATES, media=MEDIA)
    out = run("identification", "probes.npz", "--gallery", "gallery.npz", "--rank", "1", "--rank", "2", "--fpir", "0.5")
    gallery = out["galleries"]["gallery"]
    assert (gallery["people"], gallery["images"]) == (2, 2)
    assert (gallery["mated_probes"], gallery["nonmated_probes"]) == (2, 2)
    assert [rank["rate"] for rank in gallery["ranks"]] == [0.5, 1]
