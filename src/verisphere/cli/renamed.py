"""Verbs and options that were renamed, and the error for the old name."""

from collections.abc import Sequence

#: The old words after `verisphere`, and the words that replace them.
RENAMED = {
    "sweep": "verisphere experiment",
    "figures": "make figures, in a checkout of the project",
    "evaluate search": "verisphere evaluate identification",
    **{f"evaluate all-pairs --{name}": "--work FOLDER" for name in ("sweep", "state")},
    "evaluate one-threshold": "verisphere evaluate all-pairs",
    "evaluate megaface": "verisphere evaluate distractors --layout megaface",
    "evaluate trillion-pairs": "verisphere evaluate distractors --layout trillion-pairs",
    "render": "verisphere data render",
    "distill": "verisphere train RECIPE --distill.teachers [MODEL]",
    "gate check": "verisphere gallery enrol GALLERY IMAGES --gate FILE",
    "gallery review": "verisphere calibrate STRANGERS --gallery PEOPLE --fpir F --review PAGE",
    "clean --recipe": "verisphere clean loop RECIPE",
    **{f"clean {verb} --cosine": "--threshold" for verb in ("duplicates", "overlap")},
    "clean duplicates --image-cosine": "--image-threshold",
    **{f"data {verb}": f"verisphere clean {verb}" for verb in ("duplicates", "overlap", "noise", "relabel")},
}


def check_renamed(arguments: Sequence[str]) -> None:
    """Refuse a verb or option by the name that it had in an earlier version.

    >>> check_renamed(["experiment", "recipe.yaml", "--out", "sweep"])
    """
    verbs = [word for word in arguments if not word.startswith("-")]
    options = {word.partition("=")[0] for word in arguments if word.startswith("--")}
    for old, new in RENAMED.items():
        words = old.split()
        named = [word for word in words if not word.startswith("-")]
        if verbs[: len(named)] == named and all(word in options for word in words[len(named) :]):
            raise ValueError(f"`verisphere {old}` is now `{new}`")
