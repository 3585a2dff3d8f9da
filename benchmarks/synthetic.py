"""Finished synthetic faces a second: drawn, degraded, uint8; in this process, and by workers."""

import os

import torch
from harness import compare

from verisphere.images import SyntheticFaces, batches

WORKERS = os.cpu_count() or 1


def by_workers(faces: SyntheticFaces) -> None:
    for _ in batches(faces, torch.arange(len(faces)), batch_size=64, workers=WORKERS):
        pass


def main() -> None:
    for difficulty in ("medium", "easy", "hard"):
        faces = SyntheticFaces(people=128, images=8, difficulty=difficulty)
        variants = {
            "verisphere": lambda faces=faces: faces.images(range(len(faces))),
            f"verisphere, {WORKERS} worker processes": lambda faces=faces: by_workers(faces),
        }
        compare("synthetic", f"112 x 112, {difficulty}, all domains", variants, len(faces), "images", 5)


if __name__ == "__main__":
    main()
