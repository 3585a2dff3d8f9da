"""The images that a command line names: a pack on disk, or any data set that a recipe can train on."""

from pathlib import Path
from typing import Any

from verisphere.base.identity import decided, names_taken
from verisphere.files.definitions import names_class, read_based
from verisphere.files.errors import errors_naming
from verisphere.files.packaged_recipes import find_recipe, packaged_recipes
from verisphere.images.faces import Faces, Selection
from verisphere.images.packs.columns import spelled_alike
from verisphere.images.packs.formats import format_of
from verisphere.images.photos import Photos
from verisphere.images.select import positions_of_listed
from verisphere.models.named_class import build_named

#: Package of the data sets that a file may name without being trusted.
HOUSE = "verisphere.images."


def open_faces(
    path: Path, people: Path | None = None, size: tuple[int, int] = (112, 112), trust: bool = False
) -> Faces:
    """A set of face images, only of some people where a file lists them.

    It is a folder, archive, list or pack of images, as `Photos` reads them; or a YAML file that describes a data set by
    `class_path` and `init_args`, by themselves or, as in a recipe, under `data`; or the name of a packaged recipe.
    Photographs on disk are resampled to the size (height, width); a described data set states its own.
    """
    path = _packaged(path)
    if path.suffix.lower() not in (".yaml", ".yml"):
        try:
            format_of(path)
        except ValueError as error:
            hint = "; if it holds embeddings, `verisphere evaluate` takes it as it is" if path.suffix == ".npz" else ""
            raise ValueError(f"{error}; and a YAML file that describes a data set (.yaml .yml){hint}") from None
        return Photos(path, people, size=size)
    description = describe_faces(path)
    with errors_naming(path):
        faces: Faces = build_named(description, Faces, HOUSE, "data set", trust)  # type: ignore[type-abstract]
        rule = decided(faces.names_rule)
        given = [column for column in (faces.identities, faces.true_identities) if column is not None]
        identities, *truth = spelled_alike(given, faces.names, rule)
    if identities is not faces.identities:  # of a class that does not ask for the rule of names
        faces = Selection(faces, range(len(faces)))
        faces.identities, faces.true_identities = identities, truth[0] if truth else None
    faces.take_rule(rule)
    if people is None:
        return faces
    with names_taken(faces.names_rule):
        return faces.select(positions_of_listed(faces.identities, people))


def describe_faces(path: Path) -> dict[str, Any]:
    """The description of a data set, `class_path` and `init_args`: of a YAML file, or of images that `Photos` reads.

    What `--names` decides is part of it, so that the set is read in the same way again.
    """
    path = _packaged(path)
    if path.suffix.lower() not in (".yaml", ".yml"):
        return _with_names({"class_path": f"{HOUSE}Photos", "init_args": {"path": str(path.resolve())}})
    content = read_based(path).content
    description = content.get("data", content) if isinstance(content, dict) else None
    if not isinstance(description, dict) or not names_class(description):
        raise ValueError(f"{path}: names no data set (a class_path, by itself or under data)")
    return _with_names(description)


def _with_names(value: Any) -> Any:
    """A description in which each set of photographs states what `--names` decides, unless it states something."""
    if isinstance(value, list):
        return [_with_names(one) for one in value]
    if not isinstance(value, dict):
        return value
    described = {name: _with_names(one) for name, one in value.items()}
    kind = str(described.get("class_path"))
    if decided() and kind.startswith(HOUSE) and kind.endswith(".Photos"):
        described["init_args"] = {"names": decided()} | described.get("init_args", {})
    return described


def _packaged(path: Path) -> Path:
    """The file of a packaged recipe, if a path is the name of a recipe and of nothing else."""
    return find_recipe(path).path if not path.exists() and str(path) in packaged_recipes() else path
