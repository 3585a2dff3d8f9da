"""Who may do what: a file with the SHA-256 of each key, and its role."""

import hashlib
import hmac
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from verisphere.files.documents import read_json_file
from verisphere.files.errors import errors_naming
from verisphere.files.json_values import from_json, shown

#: Each may do what those before it may: compare and find; enrol, and see who is near; remove.
Role = Literal["read", "enrol", "admin"]
FORMAT = "verisphere keys 1"


@dataclass(frozen=True)
class Key:
    """The holder of a key, whose name stands in the audit log."""

    name: str
    role: Role
    sha256: str

    def may(self, role: Role) -> bool:
        """Whether the holder has this role, or one that includes it."""
        roles = get_args(Role)
        return bool(roles.index(self.role) >= roles.index(role))


@dataclass(frozen=True)
class Keys:
    """The content of a file of keys."""

    format: str
    keys: tuple[Key, ...]

    def holder(self, key: str) -> Key | None:
        """The holder of a key; every entry is compared, in constant time."""
        digest = hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()
        same = [entry for entry in self.keys if hmac.compare_digest(entry.sha256, digest)]
        return same[0] if same else None


def read_keys(path: Path) -> Keys:
    """Read a file of keys; ValueError for another format, no key, a digest that is none, or a name or digest twice."""
    content = read_json_file(path)
    with errors_naming(path):
        keys = from_json(Keys, content)
        if keys.format != FORMAT or not keys.keys:
            raise ValueError(f"format {shown(keys.format)}, {len(keys.keys)} keys; expected {FORMAT!r}, and a key")
        for entry in keys.keys:
            if not re.fullmatch("[0-9a-f]{64}", entry.sha256):
                raise ValueError(f"sha256 of {shown(entry.name)} must be 64 digits 0 to 9 or a to f")
        if min(len({entry.name for entry in keys.keys}), len({entry.sha256 for entry in keys.keys})) < len(keys.keys):
            raise ValueError("two keys have the same name or sha256")
    return keys
