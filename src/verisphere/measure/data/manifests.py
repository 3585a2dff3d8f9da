"""Faults of the manifest beside a pack: files that have changed, are missing or have been added."""

from pathlib import Path, PurePosixPath

from verisphere.base.vocabulary import Progress, quietly
from verisphere.files.disk import digest
from verisphere.files.errors import Fault
from verisphere.files.json_values import shown
from verisphere.images.packs.image_files import FilesOnDisk
from verisphere.images.packs.manifest import manifest_path, read_manifest
from verisphere.images.packs.pack import Format, Pack


def manifest_faults(path: Path, form: Format, pack: Pack | None, progress: Progress = quietly) -> list[Fault]:
    """The differences between the manifest of a pack and its files."""
    about = manifest_path(path)
    try:
        manifest = read_manifest(path, None if pack is None else len(pack), must_agree=False)
    except (ValueError, OSError) as error:
        return [Fault(str(about), "", None, str(error).removeprefix(f"{about}: "))]
    if manifest is None:
        return []
    faults = []
    if manifest.pack != form.name:
        faults.append(Fault(str(about), "", None, f"it is of a {shown(manifest.pack, 80)}, and this is a {form.name}"))
    if pack is not None and manifest.images != len(pack):
        faults.append(Fault(str(about), "", None, f"it states {manifest.images:,} images, but there are {len(pack):,}"))
    for name, sha256 in progress(manifest.sha256.items(), "SHA-256", len(manifest.sha256)):
        if reason := _wrong(about.parent, name, sha256):
            faults.append(Fault(str(about.parent / name), name, None, reason))
    if pack is not None and path.is_dir() and isinstance(pack.files, FilesOnDisk):
        added = [name for name in pack.files.names if name not in manifest.sha256]
        faults += [Fault(str(path / name), name, None, f"not in {about.name}; was it added later?") for name in added]
    return faults


def _wrong(folder: Path, name: str, sha256: str) -> str:
    """How a file differs from its entry in the manifest; empty if it does not."""
    parts = PurePosixPath(name).parts
    if not parts or ".." in parts or PurePosixPath(name).is_absolute():
        return "the manifest names a file outside its folder"
    try:
        actual = digest(folder / name)
    except FileNotFoundError:
        return "the manifest names this file, which is not there"
    except (ValueError, OSError) as error:
        return f"cannot be read ({error})"
    return "" if actual == sha256 else f"its SHA-256 is {actual}, but the manifest states {sha256}; it has changed"
