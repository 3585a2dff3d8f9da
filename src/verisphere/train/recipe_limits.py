"""The smallest and largest numbers of a recipe, and the statement of its length in epochs or in steps."""

from collections.abc import Mapping
from math import inf, isfinite
from typing import Any

from verisphere.base.words import check_at_least, check_positive
from verisphere.images.loader import MOST_WORKERS
from verisphere.train.schedule import check_whole_steps

#: Length of a training whose recipe states none.
EPOCHS = 20.0
#: Smallest and largest value of each count. The largest are beyond any training, and small enough that a mistake is
#: reported before it fills the memory or exceeds 64-bit sizes.
_ALLOWED = {
    "batch_size": (2, 2**20),
    "accumulate": (1, 2**20),
    "subcenters": (1, 1000),
    "log_every": (1, 10**9),
    "workers": (0, MOST_WORKERS),
    "seed": (0, inf),
    "images_per_identity": (1, 2**20),
    "max_unreadable": (0, 2**20),
}
_MOST = {"epochs": 10**6, "steps": 10**9}
_MOST_PULL = 10**6  # beyond it the loss would consist of this term alone


def check_counts(fields: Mapping[str, Any]) -> None:
    """Refuse counts and weights of a recipe that are too small or too large."""
    for name, (least, most) in _ALLOWED.items():
        check_at_least(name, fields[name], least)
        if fields[name] > most:
            raise ValueError(f"{name} must be at most {most:,}, got {fields[name]:,}")
    if fields["seed"] >= 2**31:
        raise ValueError(f"seed must be below 2^31, got {fields['seed']}")
    if not 0 <= fields["pull_together"] <= _MOST_PULL:
        raise ValueError(f"pull_together must lie in [0, {_MOST_PULL:,}], got {fields['pull_together']}")


def check_length(fields: Mapping[str, Any]) -> None:
    """Refuse a recipe that states no length or two, and lengths and intervals that are no training's."""
    epochs, steps, unit = fields["epochs"], fields["steps"], fields["unit"]
    if epochs is None and steps is None:
        raise ValueError("epochs and steps are both null; one of them states the length of the training")
    if epochs is not None:
        check_positive("epochs", epochs)
    if steps is not None and not 0 < steps <= _MOST["steps"]:
        raise ValueError(f"steps must be at least 1 and at most {_MOST['steps']:,}, got {steps:,}")
    if steps is not None and epochs not in (None, EPOCHS):
        raise ValueError(f"epochs is {epochs:g} and steps is {steps:,}; a training has one length, so make one null")
    check_positive("save_every", fields["save_every"])
    if not (isfinite(fields["validate_every"]) and fields["validate_every"] >= 0):
        raise ValueError(f"validate_every must not be negative, got {fields['validate_every']}")
    if epochs is not None and epochs > _MOST["epochs"]:
        raise ValueError(f"epochs must be at most {_MOST['epochs']:,} epochs, got {epochs:g}")
    for name in ("save_every", "validate_every"):
        if fields[name] > _MOST[unit]:
            raise ValueError(f"{name} must be at most {_MOST[unit]:,} {unit}, got {fields[name]:g}")
    if unit == "steps":
        check_whole_steps({name: fields[name] for name in ("save_every", "validate_every")})
        fields["schedule"].check_whole_steps()
        if fields["save_every"] == 1:
            raise ValueError(
                "save_every is 1 step, since unit is steps: every step would write a checkpoint; state an interval "
                "such as 1000"
            )
