"""Class paths in files: recipes, checkpoints and model folders name classes by import path, and those may move.

A path that was public stays readable: `MOVED` gives the current name of its module, and every reader of class paths
from a file or from the command line passes them through `present_names` first.
"""

import re
import sys
from importlib.util import find_spec
from typing import Any

from verisphere.base.words import did_you_mean

#: Modules that have moved, by their old names. A name stands for all names below it; the longest that fits is used.
MOVED = {
    "verisphere.clean": "verisphere.study.clean",
    "verisphere.data": "verisphere.images",
    "verisphere.data.embeddings_file": "verisphere.files.embeddings",
    "verisphere.data.landmarks_file": "verisphere.files.landmarks",
    "verisphere.data.lists": "verisphere.files.people_lists",
    "verisphere.data.memory": "verisphere.images.decoded_faces",
    "verisphere.data.part_of_people": "verisphere.images.select",
    "verisphere.data.scores_file": "verisphere.files.scores",
    "verisphere.data.seeds": "verisphere.base.seeds",
    "verisphere.data.synthetic": "verisphere.images.synthetic.synthetic_faces",
    "verisphere.detect": "verisphere.images.detect",
    "verisphere.distill": "verisphere.train.distill",
    "verisphere.distill.settings": "verisphere.train.distill.teachers",
    "verisphere.embed": "verisphere.backbones",
    "verisphere.embed.load": "verisphere.models.build",
    "verisphere.embed.model_folder": "verisphere.models.folder",
    "verisphere.embed.onnx_file": "verisphere.models.onnx_file",
    "verisphere.experiments": "verisphere.study.experiments",
    "verisphere.head.contract": "verisphere.head.interface",
    "verisphere.images.part_of_people": "verisphere.images.select",
    "verisphere.invert": "verisphere.study.invert",
    "verisphere.invert.terms": "verisphere.study.invert.inversion",
    "verisphere.losses.contract": "verisphere.losses.class_loss",
    "verisphere.packs": "verisphere.images.packs",
    "verisphere.pairs.contract": "verisphere.pairs.pair_term",
    "verisphere.protocols": "verisphere.measure.protocols",
    "verisphere.report.calibration": "verisphere.files.calibration",
    "verisphere.search": "verisphere.study.search",
    "verisphere.search.maps": "verisphere.study.search.space",
    "verisphere.seeds": "verisphere.base.seeds",
    "verisphere.study.invert.terms": "verisphere.study.invert.inversion",
    "verisphere.study.search.maps": "verisphere.study.search.space",
    "verisphere.train.checkpoint": "verisphere.models.checkpoint",
    "verisphere.train.distill.settings": "verisphere.train.distill.teachers",
}
_DOTTED = re.compile(r"verisphere(\.\w+)+")
_MISSING = re.compile(r"No module named '(verisphere(?:\.\w+)+)'")
_ABSENT = re.compile(r"module '(verisphere(?:\.\w+)+)' has no attribute '(\w+)'")
_DEEPEST = 64


def present_name(path: str) -> str:
    """The current spelling of a class path; any other text is returned unchanged.

    >>> present_name("verisphere.embed.iresnet.IResNet")
    'verisphere.backbones.iresnet.IResNet'
    >>> present_name("my_networks.Tiny")
    'my_networks.Tiny'
    """
    if not _DOTTED.fullmatch(path):
        return path
    module, below = path, ""
    while "." in module:
        if module in MOVED:
            return MOVED[module] + below
        module, _, last = module.rpartition(".")
        below = f".{last}{below}"
    return path


def name_present_module(message: str) -> str:
    """The message of an import error; a module that has moved is followed by its current name.

    >>> name_present_module("No module named 'verisphere.embed'")
    "No module named 'verisphere.embed': it is verisphere.backbones now"
    >>> name_present_module("No module named 'verisphere.data.nothing'")
    "No module named 'verisphere.data.nothing'"
    """
    return _ABSENT.sub(_with_nearest_class, _MISSING.sub(_with_present_name, message))


def _with_nearest_class(absent: re.Match[str]) -> str:
    public = vars(sys.modules.get(absent[1], sys)).items()
    return absent[0] + did_you_mean(absent[2], [name for name, value in public if isinstance(value, type)])


def _with_present_name(missing: re.Match[str]) -> str:
    today = present_name(missing[1])
    known = today != missing[1] and find_spec(today) is not None
    return f"{missing[0]}: it is {today} now" if known else missing[0]


def present_names(value: Any, depth: int = 0) -> Any:
    """Plain data from a file, with the current spelling of every class path; what is deeper than any recipe stays."""
    if isinstance(value, str):
        return present_name(value)
    if depth < _DEEPEST:
        if isinstance(value, dict):
            return {name: present_names(entry, depth + 1) for name, entry in value.items()}
        if isinstance(value, list):
            return [present_names(entry, depth + 1) for entry in value]
    return value
