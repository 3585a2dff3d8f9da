"""The true answers of published sets from their files and embeddings files alone, by an independent implementation.

Nothing of verisphere is imported, and nothing is shared with it but the positions below; what it reads, pools, compares
and counts is written here a second time, as simply as possible and slowly. `make study OF=protocols` compares both.

    python independent.py FOLDER EMBEDDINGS [FAR ...]

prints the figures of every set as JSON.

Positions, each as docs/evaluation.md states them:

- A row is divided by its Euclidean length in float64 and rounded to float32; a score is the sum of the products of two
  such rows, in float64.
- A comparison is accepted iff score > threshold. The threshold at FAR f over n impostor scores is the one of place
  floor(f n) + 1 from the largest down, with f n exact; minus infinity where floor(f n) = n.
- A rate that allows less than one of the comparisons has no figure.
- Accuracy: each fold is decided at the cut that is best on all other folds. Cuts are minus infinity and every distinct
  score; of equally good ones the lower middle one counts. The figure is the mean over folds, as an exact fraction; its
  standard deviation is that of a sample (folds - 1).
- A list without folds has ten: fold i holds the i-th tenth of the genuine and the i-th tenth of the impostor pairs.
- Several lists make one ('combined'): fold i holds the i-th folds of all lists.
- A template is the mean of its media, and a medium the mean of its rows, each row multiplied by the score of the
  detector where there is one; rows are pooled as they are. The sum is rounded to float32.
- 1:N: the score of a person is the best of that person's images. The rank of a mated probe is 1 + the number of other
  people whose score is equal to its mate's or higher (ties lose). TPIR at FPIR f: mated probes of rank 1 whose mate's
  score > the threshold at f over the best scores of the non-mated probes. Galleries are decided one by one, and their
  rates averaged.
- Distractors join the gallery as people of their own, one each.
- MegaFace: each image of a person is searched with each other image of that person as its mate, put alone among all
  distractors; a mate is of rank 1 iff its score > that of every distractor. Verification: genuine are the pairs of
  images of one probe person, impostors all pairs of a probe and a distractor. Noisy images of both lists are dropped.
- All pairs by group: each group at its own threshold, and at the one of all pairs, those across groups included.
"""

import csv
import json
import math
import pickletools
import sys
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np

Figures = dict[str, float]
Rows = dict[str, np.ndarray]  # float32 row of length 1 by name
Listed = list[tuple[str, str, bool, int]]  # left, right, genuine, fold from 0
FARS = ("1e-1", "1e-2")
FPIRS = ("1e-1", "1e-2")
RANKS = (1, 5, 10)
LFW_FAMILY = ("lfw", "agedb_30", "calfw", "cplfw")


# --- rows, scores, thresholds ---


def unit(row: np.ndarray) -> np.ndarray:
    """The row divided by its length, rounded to float32."""
    length = math.sqrt(math.fsum(float(value) ** 2 for value in row))
    return np.array([float(value) / length for value in row], np.float32)


def cosine(left: np.ndarray, right: np.ndarray) -> float:
    """The score of two rows of length 1."""
    return math.fsum(float(x) * float(y) for x, y in zip(left, right, strict=True))


def mean(rows: Sequence[np.ndarray]) -> np.ndarray:
    """The mean of rows in float64."""
    return np.array([math.fsum(column) / len(rows) for column in np.array(rows, np.float64).T])


def columns(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an embeddings file."""
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def read_rows(path: Path) -> Rows:
    """The rows of length 1 of an embeddings file, by name; where it has templates, those, each the mean of its rows."""
    arrays = columns(path)
    if "templates" not in arrays:
        return {str(name): unit(row) for name, row in zip(arrays["names"], arrays["embeddings"], strict=True)}
    members: dict[str, list[np.ndarray]] = {}
    for template, row in zip(arrays["templates"], arrays["embeddings"], strict=True):
        members.setdefault(str(template), []).append(row)
    return {template: unit(mean(rows).astype(np.float32)) for template, rows in members.items()}


def threshold(impostors: Sequence[float], far: str) -> float:
    """The (floor(far n) + 1)-th largest impostor score."""
    allowed = math.floor(Fraction(far) * len(impostors))
    return -math.inf if allowed >= len(impostors) else sorted(impostors, reverse=True)[allowed]


def shows(far: str, comparisons: int) -> bool:
    """Whether so many comparisons can show a rate: the rate allows one of them or more."""
    return Fraction(far) * comparisons >= 1


def share_above(scores: Sequence[float], cut: float) -> float:
    """The share of scores that are accepted."""
    return sum(score > cut for score in scores) / len(scores)


def at_fars(genuine: Sequence[float], impostors: Sequence[float], fars: Sequence[str], whose: str = "") -> Figures:
    """TAR, FAR and threshold at each target FAR that the impostors are enough to show."""
    figures = {}
    for far in (far for far in fars if shows(far, len(impostors))):
        cut = threshold(impostors, far)
        figures[f"{whose}TAR at FAR {far}"] = share_above(genuine, cut)
        figures[f"{whose}FAR at FAR {far}"] = share_above(impostors, cut)
        figures[f"{whose}threshold at FAR {far}"] = cut
    return figures


# --- lists of pairs ---


def lines_of(path: Path) -> list[str]:
    """The lines of a text file that are not blank."""
    return [line.strip() for line in path.read_text().splitlines() if line.strip()]


def numbered(name: str, number: str) -> str:
    """An image of LFW."""
    return f"{name}/{name}_{int(number):04d}.jpg"


def name_and_number(line: str) -> tuple[str, str, bool]:
    """A line of LFW's layout: `name i j`, genuine, or `name i other j`."""
    cells = line.split("\t")
    other = cells[0] if len(cells) == 3 else cells[2]
    return numbered(cells[0], cells[1]), numbered(other, cells[-1]), len(cells) == 3


def in_tenths(pairs: Sequence[tuple[str, str, bool]]) -> Listed:
    """The folds of a list that names none."""
    total = {kind: sum(genuine == kind for _, _, genuine in pairs) for kind in (True, False)}
    before, listed = {True: 0, False: 0}, []
    for left, right, genuine in pairs:
        listed.append((left, right, genuine, before[genuine] * 10 // total[genuine]))
        before[genuine] += 1
    return listed


def lfw(path: Path) -> Listed:
    """A header `folds<TAB>pairs of a kind in a fold`, then the folds, genuine pairs before impostors."""
    header, *lines = lines_of(path)
    each = int(header.split()[1])
    return [(*name_and_number(line), place // (2 * each)) for place, line in enumerate(lines)]


def sllfw(path: Path) -> Listed:
    """An image a line, two lines a pair; genuine where both lie in one folder."""
    lines = lines_of(path)
    pairs = zip(lines[::2], lines[1::2], strict=True)
    return in_tenths([(left, right, left.split("/")[0] == right.split("/")[0]) for left, right in pairs])


def two_lines(path: Path) -> Listed:
    """`image number`, two lines a pair; impostors have 0 (CALFW writes the fold of genuine pairs, CPLFW 1)."""
    cells = [line.rsplit(" ", 1) for line in lines_of(path)]
    pairs = zip(cells[::2], cells[1::2], strict=True)
    return in_tenths([(left, right, number != "0") for (left, number), (right, _) in pairs])


def packed(path: Path) -> Listed:
    """A verification set of InsightFace: the booleans of the pickle, without unpickling it."""
    opcodes = pickletools.genops(path.read_bytes())
    genuine = [code.name == "NEWTRUE" for code, _, _ in opcodes if code.name in ("NEWTRUE", "NEWFALSE")]
    return in_tenths([(f"{pair:04d}/left", f"{pair:04d}/right", same) for pair, same in enumerate(genuine)])


def cfp(protocol: Path, kind: str) -> Listed:
    """Numbers of images, a file for each fold and kind of pair; on the right FP has profiles."""
    images = {}
    for view in "FP":
        cells = [line.split() for line in lines_of(protocol / f"Pair_list_{view}.txt")]
        images[view] = {number: path.removeprefix("../") for number, path in cells}
    listed: Listed = []
    for fold, place in enumerate(sorted((protocol / "Split" / kind).iterdir())):
        for name in ("same", "diff"):
            for line in lines_of(place / f"{name}.txt"):
                left, right = line.split(",")
                listed.append((images["F"][left], images[kind[1]][right], name == "same", fold))
    return listed


def ytf(path: Path) -> Listed:
    """`split, number, video, video, label`."""
    cells = [[cell.strip() for cell in line.split(",")] for line in lines_of(path)]
    return [(left, right, label == "1", int(split) - 1) for split, _, left, right, label in cells]


def rfw(folder: Path) -> Listed:
    """LFW's lines without a header; an image is named with its group, since one identifier can stand in two."""
    pairs = [name_and_number(line) for line in lines_of(folder / f"{folder.name}_pairs.txt")]
    return in_tenths([(f"{folder.name}/{left}", f"{folder.name}/{right}", same) for left, right, same in pairs])


# --- figures of listed pairs ---

Scored = list[tuple[float, bool, int]]


def scored(listed: Listed, rows: Rows) -> Scored:
    """Score, kind and fold of each pair."""
    return [(cosine(rows[left], rows[right]), genuine, fold) for left, right, genuine, fold in listed]


def best_cut(pairs: Scored) -> float:
    """The most accurate cut; the lower middle one of several."""
    accepted = sorted(pairs)
    cuts = [-math.inf, *sorted({score for score, _, _ in pairs})]
    right, place, count = [], 0, sum(genuine for _, genuine, _ in pairs)
    for cut in cuts:
        while place < len(accepted) and accepted[place][0] <= cut:
            count += -1 if accepted[place][1] else 1
            place += 1
        right.append(count)
    best = [cut for cut, number in zip(cuts, right, strict=True) if number == max(right)]
    return best[(len(best) - 1) // 2]


def of_pairs(pairs: Scored, fars: Sequence[str]) -> Figures:
    """Accuracy over folds, and TAR at each FAR."""
    shares = []
    for fold in sorted({fold for _, _, fold in pairs}):
        cut = best_cut([pair for pair in pairs if pair[2] != fold])
        inside = [(score > cut) == genuine for score, genuine, where in pairs if where == fold]
        shares.append(Fraction(sum(inside), len(inside)))
    accuracy = sum(shares, Fraction()) / len(shares)
    variance = sum(((share - accuracy) ** 2 for share in shares), Fraction()) / (len(shares) - 1)
    genuine = [score for score, same, _ in pairs if same]
    impostors = [score for score, same, _ in pairs if not same]
    spread = {"accuracy": float(accuracy), "standard deviation": math.sqrt(variance)}
    return spread | at_fars(genuine, impostors, fars)


# --- 1:N ---

Person = tuple[str, np.ndarray]  # identity and row of length 1


def searched(
    probes: Sequence[Person], gallery: Sequence[Person], distractors: Sequence[np.ndarray]
) -> tuple[list[tuple[float, int]], list[float]]:
    """Mate's score and rank of each mated probe, and the best score of each non-mated one."""
    mated, nonmated = [], []
    for person, probe in probes:
        best: dict[str, float] = {}
        for enrolled, row in gallery:
            best[enrolled] = max(best.get(enrolled, -math.inf), cosine(probe, row))
        others = [score for enrolled, score in best.items() if enrolled != person]
        others += [cosine(probe, row) for row in distractors]
        if person in best:
            mated.append((best[person], 1 + sum(score >= best[person] for score in others)))
        else:
            nonmated.append(max(others))
    return mated, nonmated


def of_galleries(
    results: Sequence[tuple[list[tuple[float, int]], list[float]]], fpirs: Sequence[str], ranks: Sequence[int]
) -> Figures:
    """Rank and TPIR figures averaged over galleries."""
    figures = {}
    for rank in ranks:
        rates = [sum(place <= rank for _, place in mated) / len(mated) for mated, _ in results]
        figures[f"rank {rank}"] = math.fsum(rates) / len(rates)
    for fpir in (fpir for fpir in fpirs if all(shows(fpir, len(nonmated)) for _, nonmated in results)):
        rates = []
        for mated, nonmated in results:
            cut = threshold(nonmated, fpir)
            rates.append(sum(score > cut and place == 1 for score, place in mated) / len(mated))
        figures[f"TPIR at FPIR {fpir}"] = math.fsum(rates) / len(rates)
    return figures


def people(path: Path) -> list[Person]:
    """Identity and row of length 1 of each row of an embeddings file."""
    arrays = columns(path)
    return [(str(who), unit(row)) for who, row in zip(arrays["identities"], arrays["embeddings"], strict=True)]


def tinyface(embeddings: Path) -> Figures:
    """Ranks of the probes in the gallery of their people and the distractors."""
    probes, gallery, distractors = (
        people(embeddings / f"tinyface-{part}.npz") for part in ("probes", "gallery", "distractors")
    )
    return of_galleries([searched(probes, gallery, [row for _, row in distractors])], (), (1, 5, 10, 20))


def ijb(folder: Path, embeddings: Path, prefix: str, fars: Sequence[str]) -> Figures:
    """1:1 over the listed pairs, and 1:N over both galleries."""
    meta, arrays = folder / "meta", columns(embeddings / f"{folder.name}.npz")
    row = {str(name): value for name, value in zip(arrays["names"], arrays["embeddings"], strict=True)}
    detector = [float(line.split()[-1]) for line in lines_of(meta / f"{prefix}_name_5pts_score.txt")]
    members: dict[str, dict[str, list[np.ndarray]]] = {}
    for line, weight in zip(lines_of(meta / f"{prefix}_face_tid_mid.txt"), detector, strict=True):
        image, template, medium = line.split()
        members.setdefault(template, {}).setdefault(medium, []).append(row[image].astype(np.float64) * weight)
    pooled = {
        template: unit(mean([mean(rows) for rows in media.values()]).astype(np.float32))
        for template, media in members.items()
    }
    genuine: list[float] = []
    impostors: list[float] = []
    for line in lines_of(meta / f"{prefix}_template_pair_label.txt"):
        left, right, label = line.split()
        (genuine if label == "1" else impostors).append(cosine(pooled[left], pooled[right]))
    sides = {}
    for name in ("gallery_G1", "gallery_G2", "probe_mixed"):
        with open(meta / f"{prefix}_1N_{name}.csv", newline="") as file:
            cells = {cell["TEMPLATE_ID"]: cell["SUBJECT_ID"] for cell in csv.DictReader(file)}
        sides[name] = [(subject, pooled[template]) for template, subject in cells.items()]
    results = [searched(sides["probe_mixed"], sides[name], []) for name in ("gallery_G1", "gallery_G2")]
    return at_fars(genuine, impostors, fars) | of_galleries(results, FPIRS, RANKS)


def megaface(folder: Path, embeddings: Path, fars: Sequence[str]) -> Figures:
    """Rank 1 and rank 10 of every ordered pair of images of one person, and TAR against all distractors."""
    noisy = {
        side: {line for line in lines_of(folder / f"{side}_noises.txt") if not line.startswith("#")}
        for side in ("facescrub", "megaface")
    }
    probe_rows, distractor_rows = (read_rows(embeddings / f"megaface-{part}.npz") for part in ("probes", "distractors"))
    probes = [
        (name.split("/")[0], probe_rows[name])
        for name in lines_of(folder / "facescrub_lst")
        if name.split("/")[-1] not in noisy["facescrub"]
    ]
    distractors = [distractor_rows[name] for name in lines_of(folder / "megaface_lst") if name not in noisy["megaface"]]
    against = [[cosine(row, distractor) for distractor in distractors] for _, row in probes]
    genuine, ranks = [], []
    for probe, (person, row) in enumerate(probes):
        for other, (who, mate) in enumerate(probes):
            if who == person and probe != other:
                score = cosine(row, mate)
                ranks.append(1 + sum(rival >= score for rival in against[probe]))
                if probe < other:
                    genuine.append(score)
    figures = {f"rank {rank}": sum(place <= rank for place in ranks) / len(ranks) for rank in (1, 10)}
    return figures | at_fars(genuine, [score for scores in against for score in scores], fars)


def groups(path: Path, fars: Sequence[str]) -> Figures:
    """All pairs together at one threshold, and each group there and at its own."""
    arrays = columns(path)
    rows = [unit(row) for row in arrays["embeddings"]]
    who, where = ([str(value) for value in arrays[name]] for name in ("identities", "domains"))
    within: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in sorted(set(where))}
    every: tuple[list[float], list[float]] = [], []
    for image in range(len(rows)):
        for other in range(image):
            score, kind = cosine(rows[image], rows[other]), int(who[image] != who[other])
            every[kind].append(score)
            if where[image] == where[other]:
                within[where[image]][kind].append(score)
    figures = at_fars(*every, fars)
    for name, (genuine, impostors) in within.items():
        for far in fars:
            common = threshold(every[1], far)
            figures[f"{name} at the one threshold: TAR at FAR {far}"] = share_above(genuine, common)
            figures[f"{name} at the one threshold: FAR at FAR {far}"] = share_above(impostors, common)
            if shows(far, len(impostors)):
                own = share_above(genuine, threshold(impostors, far))
                figures[f"{name} at its own threshold: TAR at FAR {far}"] = own
    return figures


def answers(folder: Path, embeddings: Path, fars: Sequence[str] = FARS) -> dict[str, Figures]:
    """The figures of every set, by the name of the set and of the figure.

    Args:
        folder: the small sets, as `make study OF=protocols` writes them.
        embeddings: folder of their embeddings files.
        fars: target FARs, decimal numbers.
    """
    protocol = folder / "cfp" / "Protocol"
    lists = {
        "lfw": lfw(folder / "lfw" / "pairs.txt"),
        "sllfw": sllfw(folder / "sllfw" / "pair_SLLFW.txt"),
        "calfw": two_lines(folder / "calfw" / "pairs_CALFW.txt"),
        "cplfw": two_lines(folder / "cplfw" / "pairs_CPLFW.txt"),
        "agedb_30": packed(folder / "agedb_30.bin"),
        "cfp_ff": cfp(protocol, "FF"),
        "cfp_fp": cfp(protocol, "FP"),
        "xqlfw": lfw(folder / "xqlfw" / "xqlfw_pairs.txt"),
        "ytf": ytf(folder / "ytf" / "splits.txt"),
    }
    pairs = {name: scored(listed, read_rows(embeddings / f"{name}.npz")) for name, listed in lists.items()}
    rows = read_rows(embeddings / "rfw.npz")
    of_groups = {path.name: scored(rfw(path), rows) for path in sorted((folder / "rfw" / "test" / "txts").iterdir())}
    pairs["rfw"] = [pair for scores in of_groups.values() for pair in scores]
    pairs["combined"] = [pair for name in LFW_FAMILY for pair in pairs[name]]
    figures = {name: of_pairs(scores, fars) for name, scores in pairs.items()}
    for name, scores in of_groups.items():
        figures["rfw"][f"{name}: accuracy"] = of_pairs(scores, fars)["accuracy"]
    figures["tinyface"] = tinyface(embeddings)
    figures["ijbc"] = ijb(folder / "ijbc", embeddings, "ijbc", fars)
    figures["megaface"] = megaface(folder / "megaface", embeddings, fars)
    figures["groups"] = groups(embeddings / "groups.npz", fars)
    return figures


if __name__ == "__main__":
    figures = answers(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:] or FARS)
    sys.stdout.write(json.dumps(figures, indent=2) + "\n")
