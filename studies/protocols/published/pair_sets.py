"""Small sets with lists of pairs, each in the layout of its publisher; people and images are drawn.

A fold has fewer pairs than the published lists have, which is stated by the list itself where its layout states it.
"""

import pickle
from pathlib import Path

from studies.protocols.published.pool import FOLDS, Pair, Pool, name_of, pairs_by_fold

EACH = 10  # pairs of a kind in a fold
FEWER = 5  # where each person has three images
LFW_PEOPLE = range(20)
CFP_PEOPLE = range(40, 60)
GROUPS = ("African", "Asian", "Caucasian", "Indian")


def write_lfw(pool: Pool, folder: Path) -> None:
    """LFW (Huang et al. 2007): `pairs.txt`, and images as `Name/Name_0001.jpg`."""
    _write_people(pool, folder / "lfw-deepfunneled")
    (folder / "pairs.txt").write_text(f"{FOLDS}\t{EACH}\n" + _lfw_lines(1))


def write_xqlfw(pool: Pool, folder: Path) -> None:
    """XQLFW (Knoche et al. 2021): as LFW, with pairs and images of its own; here the images are those of LFW."""
    _write_people(pool, folder / "xqlfw_aligned_112")
    (folder / "xqlfw_pairs.txt").write_text(f"{FOLDS}\t{EACH}\n" + _lfw_lines(2))


def write_sllfw(pool: Pool, folder: Path) -> None:
    """SLLFW (Deng et al. 2017): two lines a pair, no header, no label; the images are LFW's own."""
    folder.mkdir(parents=True)
    with open(folder / "pair_SLLFW.txt", "w") as file:
        for genuine, impostors in pairs_by_fold(LFW_PEOPLE, range(6), EACH, seed=3):
            for pair in genuine + impostors:
                file.writelines(f"{_lfw_image(*side)}\n" for side in pair)


def write_calfw(pool: Pool, folder: Path) -> None:
    """CALFW (Zheng et al. 2017): two lines a pair; genuine pairs first with their fold from 1, impostors with 0."""
    folds = pairs_by_fold(LFW_PEOPLE, range(6), EACH, seed=4)
    lines = [(pair, fold) for fold, (genuine, _) in enumerate(folds, 1) for pair in genuine]
    lines += [(pair, 0) for _, impostors in folds for pair in impostors]
    _write_two_lines(pool, folder, "pairs_CALFW.txt", lines, "{name}_{number:04d}.jpg", "\n")


def write_cplfw(pool: Pool, folder: Path) -> None:
    """CPLFW (Zheng and Deng 2018): two lines a pair with a label, genuine pairs first; lines end in CR LF."""
    folds = pairs_by_fold(LFW_PEOPLE, range(3), FEWER, seed=5)
    lines = [(pair, 1) for genuine, _ in folds for pair in genuine]
    lines += [(pair, 0) for _, impostors in folds for pair in impostors]
    _write_two_lines(pool, folder, "pairs_CPLFW.txt", lines, "{name}_{number}.jpg", "\r\n")


def write_agedb(pool: Pool, path: Path) -> None:
    """AgeDB-30 (Moschoglou et al. 2017) as InsightFace packs it: a pickle of 2n encoded images and n booleans."""
    pairs = [
        (pair, genuine)
        for folds in pairs_by_fold(LFW_PEOPLE, range(6), EACH, seed=6)
        for kind, genuine in zip(folds, (True, False), strict=True)
        for pair in kind
    ]
    images = [pool.encoded(*side) for pair, _ in pairs for side in pair]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps((images, [genuine for _, genuine in pairs]), protocol=2))


def write_cfp(pool: Pool, folder: Path) -> None:
    """CFP (Sengupta et al. 2016): numbered images, and a folder of folds for frontal-frontal and frontal-profile.

    As in the published list of FF, its first pair is listed a second time.
    """
    views = {"F": ("frontal", range(4)), "P": ("profile", range(4, 6))}
    number: dict[tuple[str, int, int], int] = {}
    protocol = folder / "Protocol"
    protocol.mkdir(parents=True)
    for view, (name, images) in views.items():
        lines: list[str] = []
        for place, person in enumerate(CFP_PEOPLE, 1):
            for position, image in enumerate(images, 1):
                path = f"Data/Images/{place:03d}/{name}/{position:02d}.jpg"
                pool.write(folder / path, person, image)
                number[view, person, image] = len(lines) + 1
                lines.append(f"{len(lines) + 1} ../{path}\n")
        (protocol / f"Pair_list_{view}.txt").write_text("".join(lines))
    for which, seed, right_images in (("FF", 7, None), ("FP", 8, views["P"][1])):
        for fold, kinds in enumerate(pairs_by_fold(CFP_PEOPLE, range(4), 5, seed, right_images), 1):
            split = protocol / "Split" / which / f"{fold:02d}"
            split.mkdir(parents=True)
            for kind, pairs in zip(("same", "diff"), kinds, strict=True):
                if (which, fold, kind) == ("FF", 1, "same"):
                    pairs[-1] = pairs[0]
                both = [(number["F", *left], number[which[1], *right]) for left, right in pairs]
                (split / f"{kind}.txt").write_text("".join(f"{left},{right}\n" for left, right in both))


def write_ytf(pool: Pool, folder: Path) -> None:
    """YouTube Faces (Wolf et al. 2011): `splits.txt`, and a folder of frames for each video.

    Images 0 to 2 of a person are the frames of video 0, images 3 to 5 those of video 1.
    """
    for person in CFP_PEOPLE:
        for image in range(6):
            video, frame = image // 3, 98 + image % 3  # 98, 99, 100: frame numbers are not padded
            place = folder / "aligned_images_DB" / name_of(person) / str(video)
            pool.write(place / f"aligned_detect_{video}.{frame}.jpg", person, image)
    lines = []
    for split, kinds in enumerate(pairs_by_fold(CFP_PEOPLE, range(2), 2, seed=9), 1):
        both = [(pair, 1) for pair in kinds[0]] + [(pair, 0) for pair in kinds[1]]
        for turn, (pair, same) in enumerate(both, 1):
            sides = ", ".join(f"{name_of(person)}/{video}" for person, video in pair)
            lines.append(f"{split}, {turn}, {sides}, {same}")
    (folder / "splits.txt").write_text("\r\n".join(lines), newline="")


def write_rfw(pool: Pool, folder: Path) -> None:
    """RFW (Wang et al. 2019): four groups, each with a list as LFW's without a header, and people by identifier."""
    for group, name in enumerate(GROUPS):
        people = range(10, 30) if group % 2 else range(20)  # as in RFW, one identifier can stand in two groups
        for person in people:
            for image in range(3):
                identifier = _identifier(person)
                path = folder / "test" / "data" / name / identifier / f"{identifier}_{image + 1:04d}.jpg"
                pool.write(path, person, (image + group) % 6)
        place = folder / "test" / "txts" / name
        place.mkdir(parents=True)
        lines = []
        for genuine, impostors in pairs_by_fold(people, range(3), FEWER, seed=10 + group):
            lines += [f"{_identifier(one)}\t{left + 1}\t{right + 1}\n" for (one, left), (_, right) in genuine]
            lines += [
                f"{_identifier(one)}\t{left + 1}\t{_identifier(two)}\t{right + 1}\n"
                for (one, left), (two, right) in impostors
            ]
        (place / f"{name}_pairs.txt").write_text("".join(lines))


def _identifier(person: int) -> str:
    return f"m.0{'abcdefghij'[person // 10]}{person % 10}_x"


def _lfw_image(person: int, image: int) -> str:
    return f"{name_of(person)}/{name_of(person)}_{image + 1:04d}.jpg"


def _write_people(pool: Pool, folder: Path) -> None:
    for person in LFW_PEOPLE:
        for image in range(6):
            pool.write(folder / _lfw_image(person, image), person, image)


def _lfw_lines(seed: int) -> str:
    lines = []
    for genuine, impostors in pairs_by_fold(LFW_PEOPLE, range(6), EACH, seed):
        lines += [f"{name_of(one)}\t{left + 1}\t{right + 1}\n" for (one, left), (_, right) in genuine]
        lines += [
            f"{name_of(one)}\t{left + 1}\t{name_of(two)}\t{right + 1}\n" for (one, left), (two, right) in impostors
        ]
    return "".join(lines)


def _write_two_lines(
    pool: Pool, folder: Path, list_name: str, pairs: list[tuple[Pair, int]], spelling: str, end: str
) -> None:
    """A list with two lines a pair, `image number`, and the images that it names in `aligned images`."""
    text = ""
    for pair, number in pairs:
        for person, image in pair:
            name = spelling.format(name=name_of(person), number=image + 1)
            pool.write(folder / "aligned images" / name, person, image)
            text += f"{name} {number}{end}"
    (folder / list_name).write_text(text, newline="")
