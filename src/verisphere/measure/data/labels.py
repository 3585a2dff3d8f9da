"""Faults of labels: identities that name nobody, identities with one image, one image under two identities."""

import re
from collections.abc import Iterator

import numpy as np
from jaxtyping import UInt64

from verisphere.base.identity import decided, folded, is_missing
from verisphere.base.vocabulary import NOBODY
from verisphere.files.errors import Fault
from verisphere.files.json_values import shown
from verisphere.files.text import LONGEST_NAME
from verisphere.images.packs.columns import coded
from verisphere.images.packs.pack import Pack

_NEGATIVE = re.compile(r"-[0-9]+(\.0*)?")


def label_faults(pack: Pack, allow_single: bool = False) -> list[Fault]:
    """Faults of the identities and domains of a pack, one for each image that has a faulty one."""
    reasons: dict[str, str] = {}
    how = decided()
    column = coded(pack.identities)
    spelled: dict[str, str] = {}
    for person, count in zip(column.values, column.counts().tolist(), strict=True):
        if not count or person == NOBODY:
            continue
        first = spelled.setdefault(folded(person), person)
        if wrong := _wrong_text(person):
            reasons[person] = f"the identity {shown(person, 80)} {wrong}"
        elif first != person and how is None:
            reasons[person] = (
                f"the identity {person!a} is {first!a} but for case, blanks, Unicode form, invisible letters or the "
                "spelling of a number"
            )
        elif _NEGATIVE.fullmatch(person):
            reasons[person] = f"the label {person} is out of range; allowed are 0 and more, and {NOBODY} for nobody"
        elif count == 1 and not allow_single:
            reasons[person] = f"the only image of the identity {shown(person, 80)}; no genuine pair can be made of it"
    faulty = np.array([value in reasons for value in column.values], bool)[column.codes]
    faults = [
        pack.fault(position, reasons[column.values[column.codes[position]]])
        for position in faulty.nonzero()[0].tolist()
    ]
    if pack.domains is not None:
        groups = coded(pack.domains)
        bad = {value: wrong for value in groups.values if (wrong := _wrong_text(value))}
        faulty = np.array([value in bad for value in groups.values], bool)[groups.codes]
        for position in faulty.nonzero()[0].tolist():
            domain = groups.values[groups.codes[position]]
            faults.append(pack.fault(position, f"the domain {shown(domain, 80)} {bad[domain]}"))
    return faults


def _wrong_text(name: str) -> str:
    """The fault of the name of a person or a domain; empty if there is none."""
    if not name.strip():
        return "is empty"
    if is_missing(name):
        return "is the text of a missing value"
    return f"has {len(name)} characters; allowed are {LONGEST_NAME}" if len(name) > LONGEST_NAME else ""


def repeated_images(pack: Pack, digests: UInt64[np.ndarray, "images 2"]) -> Iterator[tuple[int, int, bool]]:
    """Images with the bytes of an earlier one.

    `digests` has 128 bits of each image, zeros for one that cannot be read. Yields, equal images together and in order:
    the position of the image; that of an earlier image with these bytes, if possible of the same identity; and whether
    no earlier one has the same identity, which is label noise.
    """
    order = np.lexsort((digests[:, 1], digests[:, 0]))  # a stable sort: equal digests stay in the order of the pack
    ordered = digests[order]
    equal = (ordered[1:] == ordered[:-1]).all(axis=1) & ordered[1:].any(axis=1)
    earlier: dict[str, int] = {}  # by identity, in the current run of equal digests
    for place in equal.nonzero()[0].tolist():
        before, here = int(order[place]), int(order[place + 1])
        if not place or not equal[place - 1]:
            earlier = {pack.identities[before]: before}
        person = pack.identities[here]
        yield here, earlier.get(person, next(iter(earlier.values()))), person not in earlier
        earlier.setdefault(person, here)
