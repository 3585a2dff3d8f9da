"""Finished synthetic faces a second: drawn, degraded, uint8."""

from harness import compare

from verisphere.data import SyntheticFaces


def main() -> None:
    faces = SyntheticFaces(people=64, images=8)
    compare(
        "synthetic", "112 x 112, medium, all domains", {"verisphere": lambda: faces.images(range(512))}, 512, "images"
    )
    for difficulty in ("easy", "hard"):
        other = SyntheticFaces(people=32, images=8, difficulty=difficulty)
        compare(
            "synthetic",
            f"112 x 112, {difficulty}",
            {"verisphere": lambda o=other: o.images(range(256))},
            256,
            "images",
            3,
        )


if __name__ == "__main__":
    main()
