"""Whole inputs of the protocols of the field: lists of pairs, the files of IJB-C, and features as MegaFace has them."""

import json
from pathlib import Path

from feature_files import write_matrix
from fuzz.containers import Files
from verisphere.base.vocabulary import Embeddings


def pair_lists() -> dict[str, Files]:
    """A small list in each published layout."""
    rows = ["Ann\t1\t2", "Ann\t1\tBo\t1", "Cy\t3\t4", "Cy\t1\tDi\t1"]
    images = [("Ann_0001.jpg", "Ann_0002.jpg"), ("Cy_0003.jpg", "Cy_0004.jpg"), ("Ann_0001.jpg", "Bo_0001.jpg"),
              ("Cy_0001.jpg", "Di_0001.jpg")]  # fmt: skip
    folds = dict(zip(images, (1, 2, 0, 0), strict=True))
    frontal = "".join(f"{number} ../Data/Images/00{number}/frontal/01.jpg\n" for number in (1, 2, 3))
    texts = {
        "lfw pairs without header": "\r\n".join(rows),
        "sllfw pairs": "".join(f"{name[:-9]}/{name}\n" for pair in (0, 2, 1, 3) for name in images[pair]),
        "calfw pairs": "".join(f"{name} {fold}\n" for pair, fold in folds.items() for name in pair),
        "label last": "".join(f"{left} {right} {1 if fold else -1}\n" for (left, right), fold in folds.items()),
        "label first": "".join(f"{min(fold, 1)} {left} {right}\n" for (left, right), fold in folds.items()),
        "ytf pairs": "1, 1, Ann/1, Ann/5, 1\r\n1, 2, Bo/1, Cy/0, 0\r\n2, 1, Di/0, Di/1, 1\r\n2, 2, Di/0, Ed/2, 0",
    }
    return {name: {"pairs.txt": text.encode()} for name, text in texts.items()} | {
        "rfw pairs": {f"pairs.txts/{group}_pairs.txt": "\n".join(rows).encode() for group in ("Asian", "Indian")},
        "cfp pairs": {
            "Protocol/Pair_list_F.txt": frontal.encode(),
            "Protocol/Pair_list_P.txt": frontal.replace("frontal", "profile").encode(),
            **{f"Protocol/Split/FP/0{fold}/{kind}.txt": f"{fold},{fold + (kind == 'diff')}\n".encode()
               for fold in (1, 2) for kind in ("same", "diff")},
        },
    }  # fmt: skip


def templates(embeddings: bytes, names: list[str]) -> Files:
    """Files as IJB-C has them: a template of two faces for each of six people, and a second one of the first two."""
    faces = [f"{name} {1 + row // 2} {row}\n" for row, name in enumerate(names)]
    faces += [f"{names[2 * person]} {7 + person} 0\n" for person in range(2)]
    points = " ".join(["1.5"] * 10)
    header = "TEMPLATE_ID,SUBJECT_ID,FILENAME\n"
    return {
        "set.npz": embeddings,
        "meta.txt": "".join(faces).encode(),
        "pairs.txt": b"1 7 1\n2 8 1\n1 2 0\n3 4 0\n5 6 0\n7 8 0\n",
        "scores.txt": "".join(f"{name} {points} 0.{row + 10}\n" for row, name in enumerate(names)).encode(),
        "gallery_G1.csv": f"{header}1,A,a.jpg\n1,A,b.jpg\n3,C,c.jpg\n".encode(),
        "gallery_G2.csv": f"{header}2,B,a.jpg\n4,D,c.jpg\n".encode(),
        "probes.csv": f"{header}7,A,a.jpg\n8,B,c.jpg\n5,E,d.jpg\n".encode(),
        "covariates.csv": b"TEMPLATE_ID,GENDER\n1,0.0\n2,0.0\n7,0\n3,1\n4,1\n5,\n",
    }


def features(path: Path, embeddings: Embeddings) -> dict[str, Files]:
    """Features and lists of pictures as MegaFace's development kit has them."""
    write_matrix(path, embeddings.embeddings)
    matrix, pictures, people = path.read_bytes(), embeddings.names.tolist(), embeddings.identities.tolist()
    listed = json.dumps({"path": pictures, "id": people}).encode()
    folder: Files = {"list.json": listed}
    for picture_name, row in zip(pictures, embeddings.embeddings, strict=True):
        write_matrix(path, row[:, None])
        folder[f"features/{picture_name}.bin"] = path.read_bytes()
    noise = "".join(["# noisy\n", pictures[0].rpartition("/")[2], f"\n7\t{pictures[1]}\n"])
    return {
        "matrix of features": {"set.bin": matrix, "list.json": listed},
        "folder of features": folder,
        "json of pictures": {"list.json": listed},
        "lines of pictures": {
            "list.txt": "".join(f"{name}\n" for name in pictures).encode(),
            "noise.txt": noise.encode(),
        },
    }
