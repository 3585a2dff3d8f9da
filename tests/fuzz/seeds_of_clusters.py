"""Whole inputs of clusters: the folder that `cluster` writes, lists of links, and the promise of `purity`."""

from pathlib import Path

from fuzz.containers import Files, files_of
from verisphere.base.vocabulary import Origin
from verisphere.decide.purity import ClusterFigures
from verisphere.files.calibration import Source
from verisphere.files.clusters import Cluster, Clusters, Face, Proposal
from verisphere.files.purity import AtSize, MergesNotMade, Purity
from verisphere.files.results import EvaluatedFile

FACES = tuple("abcdefg")
ROWS = {name: row for row, name in enumerate(FACES)}


def clusters(folder: Path) -> dict[str, Files]:
    """A folder with confirmed, unsure and moved faces, the three kinds of links, and a promise."""
    folder.mkdir()
    origin = Origin("0" * 64, False, "float32", "photos")
    ann = Face("a", 0.7, "2", 0.4, True, alone="2"), Face("b", 0.6, None, None), Face("c", 0.5, "2", 0.1, before="9")
    other = Cluster("2", (Face("e", None, None, None),), (Face("d", 0.5, "Ann", 0.6, before="Ann"),))
    merges = (Proposal("Ann", "2", 0.4, 0.5, "a", "e"),)
    known = ClusterFigures(5, 2, 3, 1, 0.2, 0.1, 0.9, 0.8, 0.7, 0.6)
    source = EvaluatedFile("faces.npz", "0" * 64, origin)
    made = Clusters(source, 0.45, 0.0, 0.1, (Cluster("Ann", ann), other), merges, "1" * 64, ("x",), "promised", known)
    made.write(folder)
    from_known = Source("known.npz", "0" * 64, "embeddings", 40, 9)
    sizes, joined = (AtSize(2, 19, 0.01, 0.9, 0.0),), (MergesNotMade(0.1, 5, 2), MergesNotMade(0.12, 0, 0))
    promise = Purity(origin, from_known, 0.4, "1e-2", "expected", 2, 19, 1, 0.0, 0, sizes, joined, rows=(5, 2**60))
    return {
        "clusters": files_of(folder),
        "links": {"links.csv": b"name,other\na,b\nc,d\n"},
        "photographs of faces": {"photographs.csv": b"name,photograph\na,1.jpg\nb,1.jpg\nz,2.jpg\n"},
        "promise of purity": {"purity.json": promise.json().encode()},
    }
