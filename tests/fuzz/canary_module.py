"""Code that no file may bring to run: importing it leaves the canary."""

from pathlib import Path

from fuzz.junk import CANARY
from verisphere.backbones.backbone import Backbone

Path(CANARY).mkdir(exist_ok=True)


class Thing(Backbone):
    """A backbone, so that its kind alone does not refuse it."""
