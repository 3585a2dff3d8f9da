"""The lists of CFP, frontal against frontal (FF) and frontal against profile (FP), as a folder.

Layout: `Protocol/Split/FP` or `Protocol/Split/FF` (Sengupta et al. 2016, Frontal to Profile Face Verification in the
Wild): ten folders `01` ... `10`, each with `same.txt` and `diff.txt`, whose lines `5,1` number images from 1 in
`Protocol/Pair_list_F.txt` (frontal) and, for the second image of FP, in `Protocol/Pair_list_P.txt` (profile).
"""

from collections.abc import Sequence
from pathlib import Path

from verisphere.files.disk import check_file
from verisphere.files.json_values import shown
from verisphere.files.pair_lists.pair_list import Layout, PairList, PairRow
from verisphere.files.text import is_count, numbered_lines

_SIDES = {"FF": ("F", "F"), "FP": ("F", "P")}
_REPEATS = "; CFP-FF as it is published repeats 130 of its 7,000 pairs"


def _looks(path: Path, head: Sequence[str]) -> bool:
    if path.is_dir():
        return any(_folds(path))
    return path.stem in ("Pair_list_F", "Pair_list_P") or (path.stem in ("same", "diff") and is_count(path.parent.name))


def _folds(path: Path) -> list[Path]:
    """The folders of the folds, sorted by number, since a directory has no order."""
    folds = [fold for fold in path.iterdir() if is_count(fold.name) and (fold / "same.txt").exists()]
    return sorted(folds, key=lambda fold: int(fold.name))


def _read(path: Path) -> PairList:
    """Reads the folder; every fold must have equally many pairs of each kind. Image names lose their leading `../`."""
    if not path.is_dir():
        raise ValueError(
            f"{path}: a part of CFP's lists; name the folder Protocol/Split/FP or Protocol/Split/FF instead"
        )
    which = path.resolve().name.upper()
    if which not in _SIDES:
        raise ValueError(f"{path}: a folder of CFP's lists is called FP or FF, which says what its numbers count")
    lists = path.resolve().parent.parent
    images = {side: _images(lists / f"Pair_list_{side}.txt") for side in dict.fromkeys(_SIDES[which])}
    files = [lists / f"Pair_list_{side}.txt" for side in images]
    pairs, folds, people = list[PairRow](), [], []
    size = 0
    for number, fold in enumerate(_folds(path)):
        if int(fold.name) != number + 1:
            raise ValueError(f"{path}: the folder of fold {number + 1} is missing; the next one is {fold.name}")
        for kind in ("same", "diff"):
            file = fold / f"{kind}.txt"
            check_file(file)
            files.append(file)
            rows = numbered_lines(file)
            size = size or len(rows)
            if len(rows) != size:
                raise ValueError(
                    f"{file}: {len(rows)} pairs, but {path.name}/01/same.txt has {size}, and all folds have equally "
                    "many of each kind; is a line missing?"
                )
            for line, text in rows:
                names = _pair(file, line, text, [images[side] for side in _SIDES[which]])
                both = tuple(name.split("/")[-3] for name in names)
                if (both[0] == both[1]) != (kind == "same"):
                    raise ValueError(
                        f"{file}: line {line}: {shown(text)} is {shown(names[0])} and {shown(names[1])}, which show "
                        f"{'one person' if both[0] == both[1] else 'two people'}"
                    )
                pairs.append((f"line {line} of {fold.name}/{kind}.txt", *names, kind == "same"))
                folds.append(number)
                people.append((f"CFP {both[0]}", f"CFP {both[1]}"))
    about = {"files": tuple(files), "remark": _REPEATS if which == "FF" else ""}
    return PairList.of(path, pairs, folds=tuple(folds), people=tuple(people), **about)


def _images(path: Path) -> list[str]:
    """The names of a list of images, which are numbered from 1 in order."""
    check_file(path)
    names = list[str]()
    for number, text in numbered_lines(path):
        count, _, image = text.partition(" ")
        image = image.strip()
        while image.startswith("../"):
            image = image.removeprefix("../")
        if count != str(len(names) + 1) or image.count("/") < 2:
            raise ValueError(
                f"{path}: line {number}: {shown(text, 100)} where `{len(names) + 1} ../Data/Images/001/frontal/01.jpg` "
                "is due: its number, a person, a view and an image"
            )
        names.append(image)
    return names


def _pair(file: Path, line: int, text: str, images: Sequence[Sequence[str]]) -> tuple[str, str]:
    numbers = [number.strip() for number in text.split(",")]
    if len(numbers) != 2 or not all(map(is_count, numbers)):
        raise ValueError(f"{file}: line {line}: {shown(text, 100)} is not a pair of numbers, `5,1`")
    for number, names in zip(numbers, images, strict=True):
        if not 1 <= int(number) <= len(names):
            raise ValueError(f"{file}: line {line}: there is no image {number} among the {len(names)} listed, from 1")
    first, second = (names[int(number) - 1] for number, names in zip(numbers, images, strict=True))
    return first, second


CFP = Layout("CFP", "folder Split/FP or Split/FF", _looks, _read)
