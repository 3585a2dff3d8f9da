"""What the page of clusters shows of LFW at threshold 0.40: the figures of docs/clusters.md, section "Page".

`python benchmarks/clusters_look.py lfw_embeddings.npz lfw_112.zip` writes clusters_look.csv beside this file; a minute
on one core.
"""

import csv
import sys
import tempfile
from pathlib import Path

import numpy as np

from verisphere.files.clusters import Cluster
from verisphere.files.embeddings import read_embeddings
from verisphere.models.described_faces import open_faces
from verisphere.score import unit_rows
from verisphere.ship.clusters.clusters import ClusterOptions, cluster_folder
from verisphere.ship.clusters.page import MOST_CARDS, PAGE

ROWS = Path(__file__).with_name("clusters_look.csv")
THRESHOLD = 0.40
LOOKED_AT = ("Jia_Qinglin", "Roberto_Lavagna", "Ben_Chandler", "George_W_Bush")
TWINS = (
    ("Ashley_Olsen", "Mary-Kate_Olsen"),
    ("Carolina_Moraes", "Isabela_Moraes"),
    ("Claire_Hentzen", "Morgan_Hentzen"),
)


def who(name: str) -> str:
    """The label of an image of LFW, without its number."""
    return name.partition("/")[0]


def figures(embeddings: Path, images: Path) -> dict[str, str]:
    """Every figure by its name."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "people"
        made = cluster_folder(embeddings, out, ClusterOptions(THRESHOLD), images=open_faces(images))
        size = (out / PAGE).stat().st_size / 1e6
    several = [cluster for cluster in made.clusters if len(cluster.faces) > 1]
    mixed = [cluster for cluster in several if len({who(face.name) for face in cluster.faces}) > 1]
    fit = [(face.score or 0.0, face.name, cluster) for cluster in several for face in cluster.faces[1:]]
    fit = sorted(fit, key=lambda one: one[0])[:MOST_CARDS]
    others = [cluster.person for _, name, cluster in fit if who(name) != who(cluster.faces[0].name)]
    enough = [pair for pair in made.proposals if pair.score >= pair.needed]
    right = [pair for pair in enough if who(pair.name) == who(pair.other_name)]
    of_face = {face.name: cluster for cluster, face, _ in made.rows()}
    found = {
        "megabytes": f"{size:.0f}",
        "mixed by labels": str(len(mixed)),
        "faces that fit least with another label": str(len(others)),
        "clusters of these": str(len(set(others))),
        "merge proposals whose score would suffice": str(len(enough)),
        "of these of one person by label": str(len(right)),
    }
    for person in LOOKED_AT:
        cluster: Cluster = of_face[f"{person}/{person}_0001.jpg"]
        found |= {f"faces of the cluster of {person}": str(len(cluster.faces)), f"last with {person}": ""}
        found[f"last with {person}"] = who(cluster.faces[-1].name)
    faces = read_embeddings(embeddings)
    units, label = unit_rows(faces.embeddings).numpy(), np.array([who(name) for name in faces.names.tolist()])
    for one, other in TWINS:
        score = float((units[label == one] @ units[label == other].T).mean())
        together = of_face[f"{one}/{one}_0001.jpg"] is of_face[f"{other}/{other}_0001.jpg"]
        found[f"{one} and {other}"] = f"{score:.3f}" if together else "apart"
    return found


if __name__ == "__main__":
    with ROWS.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(
            [("figure", "value"), *figures(*map(Path, sys.argv[1:3])).items()]
        )
