"""Write the software bill of materials of a release: CycloneDX 1.6, from requirements.lock alone.

`make dist` calls it. Names, versions, markers and the graph of dependencies are those of the lock, so the same lock
gives the same bytes on every machine. The digests of the files stay in the lock, whose own digest is in the bill.
"""

import argparse
import hashlib
import json
import re
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

_PIN = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^ ;]+)(?: ; (?P<marker>[^\\]+?))? \\")
_HASH = re.compile(r"    --hash=sha256:(?P<digest>[0-9a-f]{64})(?: \\)?")
_VIA = re.compile(r"    #(?: via)? *(?P<name>.*)")


@dataclass(frozen=True)
class Pin:
    """A package of the lock.

    Attributes:
        name: name on the index.
        version: the one version that is installed.
        marker: where it is installed, as an environment marker; None means everywhere.
        digests: SHA-256 of each of its files.
        needed_by: names of the packages that require it; `verisphere` where it is a direct dependency.
    """

    name: str
    version: str
    marker: str | None
    digests: tuple[str, ...]
    needed_by: tuple[str, ...]

    @property
    def url(self) -> str:
        """The package URL (purl), which is its reference in the bill."""
        return f"pkg:pypi/{self.name}@{self.version}"


def read_lock(text: str) -> list[Pin]:
    """The packages of a lock, as `uv pip compile --generate-hashes` writes it.

    Raises:
        ValueError: a line is none that it writes; names the line.
    """
    pins: list[Pin] = []
    for number, line in enumerate(text.splitlines(), 1):
        if match := _PIN.fullmatch(line):
            pins.append(Pin(match["name"], match["version"], match["marker"], (), ()))
            continue
        last = pins[-1] if pins else None
        if last and (match := _HASH.fullmatch(line)):
            pins[-1] = Pin(last.name, last.version, last.marker, (*last.digests, match["digest"]), last.needed_by)
        elif last and (match := _VIA.fullmatch(line)):
            parent = match["name"].partition(" ")[0]  # "verisphere (pyproject.toml)", "-c constraints.txt"
            if parent and parent != "-c":
                pins[-1] = Pin(last.name, last.version, last.marker, last.digests, (*last.needed_by, parent))
        else:
            raise ValueError(
                f"requirements.lock: line {number} is {line[:80]!r}; expected NAME==VERSION, a hash or `via`"
            )
    return pins


def bill(lock: str, version: str, epoch: int) -> dict[str, Any]:
    """The bill of materials of a release.

    Args:
        lock: text of requirements.lock.
        version: version of verisphere.
        epoch: time of the commit, in seconds since 1970 (SOURCE_DATE_EPOCH).
    """
    pins, digest = read_lock(lock), hashlib.sha256(lock.encode()).hexdigest()
    root = f"pkg:pypi/verisphere@{version}"
    urls = {pin.name: pin.url for pin in pins} | {"verisphere": root}
    needs: dict[str, list[str]] = {url: [] for url in urls.values()}
    for pin in pins:
        for parent in pin.needed_by:
            needs[urls[parent]].append(pin.url)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, f'verisphere {version} {epoch} {digest}')}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(epoch, UTC).isoformat(),
            "component": {
                "type": "library",
                "bom-ref": root,
                "name": "verisphere",
                "version": version,
                "purl": root,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
                "properties": [{"name": "verisphere:sha256 of requirements.lock", "value": digest}],
            },
        },
        "components": [
            {
                "type": "library",
                "bom-ref": pin.url,
                "name": pin.name,
                "version": pin.version,
                "purl": pin.url,
                **({"properties": [{"name": "verisphere:marker", "value": pin.marker}]} if pin.marker else {}),
            }
            for pin in pins
        ],
        "dependencies": [{"ref": url, "dependsOn": sorted(of)} for url, of in sorted(needs.items())],
    }


def main() -> None:
    """Write the bill of the lock in this folder."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("version")
    options.add_argument("epoch", type=int, help="SOURCE_DATE_EPOCH")
    options.add_argument("out", type=Path)
    given = options.parse_args()
    lock = Path("requirements.lock").read_text(encoding="utf-8")
    given.out.write_text(json.dumps(bill(lock, given.version, given.epoch), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
