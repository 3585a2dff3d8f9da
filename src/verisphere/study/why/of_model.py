"""Why figures of a model on a set disagree: what is recorded and stored, what labels say, who was trained on."""

import numpy as np
import torch
from jaxtyping import Float64, Int64

from verisphere.base.identity import names_taken
from verisphere.base.provenance import UNRECORDED, unrecorded
from verisphere.base.trained_on import is_name
from verisphere.base.vocabulary import NOBODY, Origin
from verisphere.decide import exact_rate
from verisphere.decide.bounds import binomial_bounds, mean_bounds
from verisphere.decide.guarantee import disjoint_pairs
from verisphere.files.calibration import read_calibration
from verisphere.images.photos import Photos
from verisphere.measure.data.verify import verify
from verisphere.measure.protocols.plausible import implausible_set, repeated_vectors
from verisphere.score import pair_scores, unit_rows
from verisphere.ship.probe import FEWEST_PEOPLE
from verisphere.study.why.answer import FALSE_ALARM, Cause, Seen
from verisphere.study.why.case import IMAGES, ModelCase, runs_of_neighbours
from verisphere.study.why.of_pixels import UNRELATED, standing_out
from verisphere.study.why.of_rows import rows as rows_of_images
from verisphere.study.why.of_rows import unit
from verisphere.study.why.pixels import TURNED, embedded

#: Share of labels that may contradict each other, as corrected labels of a noisy set do.
CONTRADICTIONS = 0.02
#: People up to which labels in another order than those that are tried leave scores above chance: `evaluate` is silent.
_MIXED = 40
#: Images up to which every one is decoded.
_DECODED = 20_000
#: Rows whose scores are compared all with all.
_COMPARED = 2_000
#: What a setting in which two origins differ is called; the first one that differs is named.
_SETTINGS = {
    "precision": "precision",
    "colour": "colour order",
    "mean": "mean and scale",
    "scale": "mean and scale",
    "flip": "flip",
    "template": "alignment or crop",
    "detector": "alignment or crop",
    "weights": "another model",
}


def _differing(theirs: Origin | None, ours: Origin | None, but: tuple[str, ...] = ()) -> tuple[str, str] | None:
    """Name of the first setting by which two origins differ, and all differences in words."""
    if theirs is None or ours is None or not (differences := theirs.differences(ours, but)):
        return None
    named = next((name for word, name in _SETTINGS.items() if any(d.startswith(f"{word} ") for d in differences)), "")
    return named or "pixels", ", ".join(differences)


def origin(case: ModelCase) -> Cause | Seen:
    """Whether the rows say that this model made them, in this way."""
    try:
        rows = case.rows
    except ValueError as error:
        return Cause("rows that cannot be", str(error))
    if rows is None:
        return Seen("no --embeddings", "not asked")
    size = case.opened.backbone.embedding_size
    if rows.embeddings.shape[1] != size:
        return Cause("another model", f"{rows.embeddings.shape[1]} numbers a row, and the model gives {size}")
    if rows.origin is None or case.origin is None:
        return Seen("the rows do not say which model made them", "too few to tell")
    if found := _differing(rows.origin, case.origin, ("flip",) if case.opened.flip is None else ()):
        evidence = f"the rows were made otherwise than by the model: {found[1]}"
        return Seen(f"{evidence}; yet they are its rows") if _read_otherwise(case) else Cause(found[0], evidence)
    if unrecorded(rows.origin):
        return Seen(f"the rows name this model, but they were {UNRECORDED}", "too few to tell")
    return Seen("the rows say that they were made by this model in this way")


def _read_otherwise(case: ModelCase) -> bool:
    """Whether rows that name other weights are the model's all the same: one network, read from a file in two ways."""
    found = _differing(case.rows.origin if case.rows else None, case.origin)
    if found is None or found[0] != "another model":
        return False
    same = rows_of_images(case)
    return isinstance(same, Seen) and same.told == "well"


def calibration(case: ModelCase) -> Cause | Seen:
    """Whether the thresholds are for scores of this model, made in this way."""
    if case.calibration is None:
        return Seen("no --calibration", "not asked")
    calibration = read_calibration(case.calibration)
    of_model = case.rows.origin if case.rows and _read_otherwise(case) else case.origin
    for what, made in (("the model", of_model), ("the rows", case.rows.origin if case.rows else None)):
        if found := _differing(calibration.origin, made):
            return Cause("calibration of another model", f"its scores were made otherwise than {what}: {found[1]}")
    if calibration.implausible:
        return Cause("calibration on wrong scores", calibration.implausible[0])
    if calibration.origin is None or case.origin is None:
        return Seen("the calibration does not say whose scores it holds for", "too few to tell")
    if unrecorded(calibration.origin):
        return Seen(f"the calibration names this model, but it was {UNRECORDED}", "too few to tell")
    return Seen("the thresholds are for scores of this model")


def numbers(case: ModelCase) -> Cause | Seen:
    """Whether the rows have numbers as a network gives them."""
    if case.rows is None:
        return Seen("no --embeddings", "not asked")
    rows = case.rows.embeddings
    person = np.unique(case.rows.identities, return_inverse=True)[1].astype(np.int64)
    if repeated := repeated_vectors(rows, person):
        return Cause("embeddings collapsed", repeated[0])
    part = np.ascontiguousarray(rows[:: -(-len(rows) // 512)])
    if still := int((np.ptp(rows, axis=0) == 0).sum()):
        return Cause("embeddings collapsed", f"{still} of {rows.shape[1]} numbers are the same in all rows")
    if not (part.view(np.uint32) & 0xFFFF).any():
        return Cause("precision", f"all numbers of {len(part)} rows are those of bfloat16")
    lengths = np.linalg.norm(part, axis=1)
    return Seen(f"{len(rows):,} rows of {rows.shape[1]} numbers, lengths {lengths.min():.3g} to {lengths.max():.3g}")


def people(case: ModelCase) -> Cause | Seen:
    """Whether rows, list of labels and set give each image the same person, however the people are called."""
    if case.rows is None and case.identities is None:
        return Seen("no --embeddings and no --identities", "not asked")
    own = np.array(case.faces.identities)
    place, given = (np.arange(len(own)), case.people) if case.rows is None else (case.place, case.rows.identities)
    known = place >= 0
    place, given = place[known], given[known]
    both = (own[place] != NOBODY) & (given != NOBODY)
    if both.sum() < 2:
        return Seen(f"{int(both.sum())} images have a person on both sides", "too few to tell")

    def contradictions(labels: np.ndarray) -> int:
        pairs, count = np.unique(np.stack([labels[place], given], 1)[both], axis=0, return_counts=True)
        most = [np.zeros(len(pairs)), np.zeros(len(pairs))]
        for side, largest in enumerate(most):
            np.maximum.at(largest, np.unique(pairs[:, side], return_inverse=True)[1], count)
        return int(both.sum() - min(largest.sum() for largest in most))

    allowed, wrong = max(CONTRADICTIONS * both.sum(), 1), contradictions(own)
    if wrong <= allowed:
        return Seen(f"{both.sum() - wrong:,} of {both.sum():,} images have the person of the set")
    evidence = f"{wrong:,} of {both.sum():,} images are under another person than in the set"
    mend = (
        "" if case.identities is None else f"write {case.identities} anew, the identity of each image beside its name"
    )
    for by in (-2, -1, 1, 2):
        if contradictions(np.roll(own, by)) <= allowed:
            return Cause("label shift", f"{evidence}, and {contradictions(np.roll(own, by)):,} with the set moved by "
                         f"{by:+d}", mend)  # fmt: skip
    return Cause("label shift", f"{evidence}; they are not moved by one or two rows", mend)


def files(case: ModelCase) -> Cause | Seen:
    """The faults that `data verify` finds, of sets that are not too large to be decoded here."""
    faces = case.faces  # a list or pack that cannot be read is an error, and no cause
    try:
        faces.images([0])
    except ValueError as error:
        return Cause("alignment or crop", str(error), f"verisphere align PHOTOS ALIGNED --template {case.template}")
    if not isinstance(faces, Photos) or len(faces) > _DECODED:
        return Seen(f"verisphere data verify looks at sets of files; {len(faces):,} images", "not asked")
    with names_taken(faces.names_rule):
        found = verify(faces.path, allow_single=True, described=faces.pack)
    if len(found.faults) > CONTRADICTIONS / 4 * len(faces):
        evidence = f"{len(found.faults):,} faults of {found.images or 0:,} images, first {found.faults[0]}"
        return Cause("damaged or repeated images", evidence, f"verisphere data verify {faces.path}")
    return Seen(f"{len(found.faults)} faults of {found.images:,} images, by verisphere data verify")


def labels(case: ModelCase) -> Cause | Seen:
    """Whether labels in another order, or of other people, fit the scores better; or labels are of other images."""
    rows, at = case.embedded, np.array(runs_of_neighbours(len(case.faces), IMAGES))
    numbered = np.where(case.people == NOBODY, -1, np.unique(case.people, return_inverse=True)[1])
    if case.rows is not None:
        order = np.argsort(case.place, kind="stable")[runs_of_neighbours(len(case.place), IMAGES)]
        chosen = order[case.place[order] >= 0]
        rows, at = case.rows.take(chosen), case.place[chosen]
    found = _of_order(rows.embeddings.astype(np.float64), at, numbered)
    known = case.embedded.take(case.embedded.identities != NOBODY)
    place = np.unique(known.identities, return_inverse=True)[1]
    several = np.flatnonzero(np.bincount(place, minlength=1)[place] > 1)[:_COMPARED]
    people = len(np.unique(place[several]))
    if isinstance(found, Cause) and found.name == "wrong labels":
        return _turned(case, rows.embeddings.astype(np.float64), at, numbered) or found
    if isinstance(found, Cause) or people < 2:
        return found
    if reasons := implausible_set(known):
        specific = [reason for reason in reasons if "no higher than impostor" not in reason]
        vector = any("vector stands" in reason or "scores are equal" in reason for reason in specific[:1])
        name = "embeddings collapsed" if vector else "label shift"
        name = name if specific else "labels of other rows, or a model that knows nobody"
        return Cause(name, (specific or [*reasons])[0])
    own = standing_out(known.embeddings[several].astype(np.float64), place[several])
    if people >= FEWEST_PEOPLE and mean_bounds(own.tolist(), 1 - 2 * FALSE_ALARM)[1] < UNRELATED:
        evidence = f"own scores of {people} people lie {own.mean():.2f} standard deviations above those of strangers"
        return Cause("label shift", f"{evidence}, less than by a network without training")
    return found if people >= _MIXED else Seen(f"{found.figures}; {people} people have two", "too few to tell")


def _of_order(
    rows: Float64[np.ndarray, "rows dim"], at: Int64[np.ndarray, " rows"], people: np.ndarray
) -> Cause | Seen:
    """Whether more images are nearest to their own person if the labels are moved, or some are clearly another's."""
    scores = unit(rows) @ unit(rows).T

    def nearest(by: int) -> tuple[np.ndarray, np.ndarray]:
        """Own and other scores with the labels moved."""
        moved = at + by
        known = (moved >= 0) & (moved < len(people))
        return _nearest(scores, np.where(known, people[moved.clip(0, len(people) - 1)], -1))

    own, other = nearest(0)
    right, known = own > other, ~np.isnan(own)
    if known.sum() < 20 or len(np.unique(people[at])) < 3:
        return Seen(f"{int(known.sum())} images have another one of their person beside them", "too few to tell")
    evidence = f"{int(right[known].sum())} of {int(known.sum())} images are nearer to their own person than to others"
    strong = np.median(own[known & right]) if (known & right).any() else np.inf
    clearly, by_chance = known & (other >= strong) & (own < np.median(other[known])), known & right & (other >= strong)
    clearly &= by_chance.mean() < CONTRADICTIONS / 2
    clearly = max(clearly, _clearly_anothers(scores, people[at]), key=np.sum)
    share = binomial_bounds(int(clearly.sum()), int(known.sum()), 1 - 2 * FALSE_ALARM)[0]
    some = share > CONTRADICTIONS and right[known].mean() > 0.5
    longest = min(int(np.bincount(people[people >= 0]).max(initial=1)), 64)
    best = (max(0.5, right[known].mean() + 0.03), "")
    for by in sorted(range(-longest, longest + 1), key=abs)[1:]:
        moved, rival = nearest(by)
        both, fits = known & ~np.isnan(moved), moved > rival
        better, changed = int((fits & ~right & both).sum()), int(((fits != right) & both).sum())
        sure = better and binomial_bounds(better, changed, 1 - FALSE_ALARM / longest)[0] > 0.5
        if fits[both].sum() > best[0] * both.sum() and (sure or (some and fits[both].mean() > 0.95)):
            more = f"{int(fits[both].sum())} of {int(both.sum())} with all labels moved by {by:+d} images"
            best = (float(fits[both].mean()), more)
    if best[1]:
        return Cause("label shift", f"{evidence}, and {best[1]}")
    if some:
        return Cause("wrong labels", f"{evidence}; {int(clearly.sum())} are as near to another person as others are to "
                     "their own, and far from their own")  # fmt: skip
    return Seen(evidence, "well" if right[known].mean() > 0.8 else "too few to tell")


def _nearest(scores: np.ndarray, person: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean score with the other images of an image's person, and the largest with another; NaN where unknown."""
    every, (names, place) = np.arange(len(person)), np.unique(person, return_inverse=True)
    member = np.eye(len(names))[place] * (person >= 0)[:, None]
    sums, count = scores @ member - member * np.diag(scores)[:, None], member.sum(0) - member
    means = np.where(count > 0, sums / np.maximum(count, 1), np.nan)
    own = means[every, place]
    means[every, place] = -2
    return own, np.nan_to_num(means, nan=-2).max(1)


def _clearly_anothers(scores: np.ndarray, person: np.ndarray) -> np.ndarray:
    """Images as near to one image of another person as most are to one of their own, and to none of their own more
    than strangers are; of few images under a name a wrong one moves the mean too far."""
    both = np.logical_and.outer(person >= 0, person >= 0)
    same, strangers = (np.equal.outer(person, person) & both), (np.not_equal.outer(person, person) & both)
    np.fill_diagonal(same, False)
    own, other = (np.where(among, scores, -2).max(1) for among in (same, strangers))
    known = own > -2
    if (own > other)[known].sum() <= known.sum() / 2 or not strangers.any():  # a weak network, which mistakes people
        return np.zeros(len(person), bool)
    return (
        known & (own < np.quantile(scores[strangers], 0.95)) & (other >= np.quantile(own[known & (own > other)], 0.25))
    )


def _turned(
    case: ModelCase, rows: Float64[np.ndarray, "rows dim"], at: Int64[np.ndarray, " rows"], people: np.ndarray
) -> Cause | None:
    """Whether most images that are not nearest to their own person are once they are turned, as no wrong label is."""
    own, other = _nearest(unit(rows) @ unit(rows).T, people[at])
    wrong, known = np.flatnonzero(own <= other), int((~np.isnan(own)).sum())
    images, right = case.faces.images(at[wrong].tolist()), np.zeros(len(wrong), bool)
    flip = bool(case.opened.flip) and not case.opened.fixed
    for way in TURNED:
        turned = unit(rows)
        turned[wrong] = unit(np.sum(embedded(case.opened.backbone, images, way, flip), 0))
        own, other = _nearest(turned @ turned.T, people[at])
        right |= own[wrong] > other[wrong]
    evidence = f"{known - len(wrong)} of {known} images are nearest to their own person, and {int(right.sum())} of "
    evidence += f"the other {len(wrong)} once they are turned by 90 or 180 degrees"
    mend = f"turn these images upright; then verisphere align PHOTOS ALIGNED --template {case.template}"
    return Cause("alignment or crop", evidence, mend) if right.sum() > len(wrong) / 2 else None


def promise(case: ModelCase) -> Cause | Seen:
    """Whether the rates of the set are those that the calibration promises."""
    if case.calibration is None:
        return Seen("no --calibration", "not asked")
    rows = case.embedded.take(case.embedded.identities != NOBODY)
    person = np.unique(rows.identities, return_inverse=True)[1].astype(np.int64)
    pairs = torch.from_numpy(disjoint_pairs(person, 0))
    scores = pair_scores(unit_rows(rows.embeddings), pairs[:, 0], pairs[:, 1]).numpy()
    said = []
    for promised in read_calibration(case.calibration).thresholds:
        passed, target = int((scores > promised.threshold).sum()), float(exact_rate(promised.far_target))
        said.append(f"{passed} of {len(scores)} at FAR {promised.far_target}")
        if len(scores) and binomial_bounds(passed, len(scores), 1 - 2 * FALSE_ALARM)[0] > target:
            return Cause(
                "calibration of another model",
                f"{passed} of {len(scores)} comparisons of different people that share nobody pass at "
                f"{promised.threshold:.4f}, promised for FAR {promised.far_target}",
            )
    return Seen(f"different people that pass: {', '.join(said)}")


def training(case: ModelCase) -> Cause | Seen:
    """Whether the model was trained on people of the set."""
    known = case.opened.trained_on
    if known is None or not len(known.people):
        return Seen("nothing is recorded of the people that the model was trained on", "too few to tell")
    names = [name for name in case.faces.people if is_name(name)]
    nothing = np.zeros(len(names), np.int64)
    shared = int(known.rows(np.array(names, str), nothing, case.faces.names_rule).people.sum())
    if shared:
        evidence = f"the model was trained on {shared:,} of the {len(case.faces.people):,} people, by name"
        return Cause("people of the training", evidence)
    return Seen(f"none of {len(names):,} names is of a person of the training")
