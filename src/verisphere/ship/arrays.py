"""A threshold with a guarantee, from arrays in memory."""

from collections.abc import Sequence
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any, overload

from verisphere.base.vocabulary import Embeddings, Progress, Redrawing, check_set, check_whole, check_word, quietly
from verisphere.base.words import Names
from verisphere.decide import Far, Guarantee
from verisphere.decide.both_errors import Fold
from verisphere.decide.review import refuse_wrong
from verisphere.files.calibration import Calibration
from verisphere.files.gallery_calibration import GalleryCalibration, check_fpirs
from verisphere.files.verdicts import Verdict
from verisphere.measure.arrays import set_of
from verisphere.models.gallery import Gallery
from verisphere.ship.calibrate import calibrate_set, digest_of_rows
from verisphere.ship.calibrated_files import AskedThresholds, EmbeddingsSet, Labels
from verisphere.ship.calibration_check import Accepted
from verisphere.ship.gallery import StrangersInGallery
from verisphere.ship.opened_gallery import OpenedGallery


@overload
def calibrate(
    embeddings: Any, identities: Any = None, *, gallery: Embeddings, **options: Any
) -> GalleryCalibration: ...


@overload
def calibrate(
    embeddings: Any,
    identities: Any = None,
    far: Far | list[Far] | tuple[Far, ...] | None = None,
    guarantee: Guarantee = "confident",
    *,
    gallery: None = None,
    **options: Any,
) -> Calibration: ...


def calibrate(
    embeddings: Any,
    identities: Any = None,
    far: Far | list[Far] | tuple[Far, ...] | None = None,
    guarantee: Guarantee = "confident",
    *,
    seed: int = 0,
    replicates: int | None = None,
    cap: float | None = None,
    factor: float | None = None,
    frr: Far | None = None,
    fold: Fold | None = None,
    probability: bool = False,
    accept_implausible: bool = False,
    accept_training_people: bool = False,
    names: Names | None = None,
    progress: Progress = quietly,
    gallery: Embeddings | None = None,
    **of_gallery: Any,
) -> Calibration | GalleryCalibration:
    """A threshold with a guarantee about people who are not in the set: for two photographs, or for a gallery.

    >>> import numpy as np
    >>> draws = np.random.default_rng(0).normal(size=(2, 600, 16))
    >>> images = (draws[:1] + 0.5 * draws).reshape(1200, 16)  # each person's direction, in two images
    >>> calibration = calibrate(images, np.arange(1200) % 600, far="1e-2")
    >>> promise = calibration.thresholds[0]
    >>> promise.threshold == calibration.threshold, promise.people, promise.comparisons, promise.confidence
    (True, 600, 300, 0.95)
    >>> print(calibration)  # doctest: +ELLIPSIS
    Same person: score above 0.6... We are 95 % confident that at most 1 in 100 pairs of strangers pass; ...
    >>> enrolled = Embeddings(np.random.default_rng(1).normal(size=(50, 16)), identities=np.arange(50).astype(str))
    >>> print(calibrate(images, np.arange(1200) % 600 + 50, gallery=enrolled))  # doctest: +ELLIPSIS
    Found: the best score above 0.7... We are 95 % confident that at most 1 in 100 strangers are found in this ...

    Args:
        embeddings: embeddings, as in `evaluate`, of people whom the model was not trained on.
        identities: the person of each row.
        far: target FAR, or several, all different (1e-2).
        guarantee: `confident` (FAR at most the target with 95 % confidence), `expected` (on average over calibrations)
            or `approximate` (an estimate, for fewer people); see `verisphere.decide.guarantee`. Under an assumption,
            from far fewer people: `capped`, `tail` or `convention`; see `verisphere.decide.assumption`. Within every
            domain at once: `worst-group`, which takes `Embeddings` with domains; see `verisphere.decide.worst_group`.
        seed: seed of the random matching of people. Choosing among several seeds breaks the guarantee.
        replicates: redrawings of the people, for `approximate` and `tail` (1000).
        factor: for `worst-group`: how many times the target the FAR within a domain may be.
        frr: an FRR to promise at once, beside `confident` or `expected`: photographs whose score lies below a lower
            threshold are called different, and between the two thresholds the answer is unsure; see
            `verisphere.decide.both_errors`.
        fold: the number of each person that the FRR is about: the score of a random pair of their images (`one`, the
            default), or the lower median (`median`) or lowest (`lowest`) of all their pairs.
        cap: for `capped`: how many times the square of the FAR the mean square of people's own FARs is, at most.
        probability: whether to map scores to log-likelihood ratios too; then `.probability.at(score, prior=0.5)` of the
            calibration is the probability of one person.
        accept_implausible: calibrate also where the embeddings cannot be those of a working model with these people:
            their labels belong to other rows, or many rows are equal. The calibration then records the reasons.
        accept_training_people: accept `Embeddings` that state that the model was trained on their people or images.
        names: see `evaluate`.
        progress: reports the progress over passes and replicates.
        gallery: enrolled people, for a threshold of this gallery; the set is then of strangers, none of whom is
            enrolled, and of several photographs of a stranger one is drawn.
        of_gallery: `fpir`, target FPIR, or several (1e-2), for a `guarantee` that is `confident` or `expected`; `rule`,
            name of the statistic that decides a probe (see `verisphere.decide.statistics`), and `cohort`, people who
            are neither enrolled nor strangers, for those that need them; `probes`, further photographs of enrolled
            people, to measure TPIR on; `verdicts`, a review of strangers and enrolled people, by which those found to
            be the same person are removed; `unfound` and `wrong`, wrong labels, and wrong verdicts `same`, that are
            allowed for (`verisphere.decide.review`); and `accept_unrecorded_pixels`, to accept embeddings of versions
            that did not record the pixels that the model took.

    Returns:
        The thresholds with their guarantees, and the rates over all pairs of the set. `write_json` writes it for
        `verisphere export`.

    Raises:
        TooFewComparisonsError: too few people for this guarantee at this FAR or FPIR; states what they are enough for.
        TypeError: identities are missing.
        ValueError: the arrays do not fit together, all rows show one person, no guarantee can be about a FAR, or the
            embeddings are implausible, or the model was trained on people or images of the set; or a stranger is
            enrolled, or sets were made by different models or in different ways.
    """
    check_word("guarantee", guarantee, Guarantee)
    check_whole("seed", seed)
    accepted = Accepted(accept_implausible, accept_training_people)
    if gallery is not None:
        if probability or not (far is replicates is cap is factor is frr is fold is None):
            raise TypeError(
                "far, replicates, cap, factor, frr, fold and probability are for two photographs; a gallery takes fpir="
            )
        strangers = set_of(embeddings, identities, names)
        taken = signature(_of_gallery).parameters
        if unknown := [name for name in of_gallery if name not in taken]:
            raise TypeError(f"no argument is called {unknown[0]!r}; for a gallery see {', '.join([*taken][2:])}")
        about = {"guarantee": guarantee, "seed": seed, "names": names, "progress": progress, "accepted": accepted}
        return _of_gallery(strangers, gallery, **(about | of_gallery))
    if "domains" in of_gallery:
        raise TypeError("domains belong to the set: give Embeddings(rows, identities=people, domains=domains)")
    if of_gallery:
        raise TypeError(
            f"{next(iter(of_gallery))} is for a threshold of a gallery; give the enrolled people as gallery="
        )
    fars = list(far) if isinstance(far, list | tuple) else ["1e-2" if far is None else far]
    people = set_of(embeddings, identities, names)
    redrawing = Redrawing(1000 if replicates is None else replicates, seed)
    asked = AskedThresholds(fars, guarantee, redrawing, False, Labels(), cap, factor, frr, fold, probability)
    return calibrate_set(people, "embeddings", asked, accepted, progress)


def _of_gallery(
    strangers: Embeddings,
    gallery: Embeddings,
    fpir: Far | list[Far] | tuple[Far, ...] = "1e-2",
    *,
    guarantee: Guarantee,
    seed: int,
    names: Names | None,
    progress: Progress,
    accepted: Accepted,
    accept_unrecorded_pixels: bool = False,
    rule: str = "best",
    cohort: Embeddings | None = None,
    probes: Embeddings | None = None,
    verdicts: Sequence[Verdict] = (),
    unfound: int = 0,
    wrong: int = 0,
) -> GalleryCalibration:
    fpirs = list(fpir) if isinstance(fpir, list | tuple) else [fpir]
    check_fpirs(fpirs, guarantee)
    for name, number in (("unfound", unfound), ("wrong", wrong)):
        check_whole(name, number)
    if not (isinstance(verdicts, Sequence) and all(isinstance(verdict, Verdict) for verdict in verdicts)):
        raise TypeError("verdicts must be a list of Verdict, as verisphere.files.verdicts.read_verdicts(path) gives it")
    sets = {"strangers": strangers, "gallery": gallery, "cohort": cohort, "probes": probes}
    named = {
        name: EmbeddingsSet(known, Path(name), digest_of_rows(known))
        for name, rows in sets.items()
        if rows is not None
        for known in [set_of(check_set(name, rows), names=names)]
    }
    searched = StrangersInGallery(
        named["strangers"],
        OpenedGallery(Path("gallery"), Gallery(named["gallery"].embeddings)),
        statistic=rule,
        cohort=named.get("cohort"),
        probes=named.get("probes"),
        seed=seed,
        accepted=replace(accepted, unrecorded_pixels=accept_unrecorded_pixels),
        progress=progress,
    )
    known = searched.resolved(verdicts, Path("verdicts"))
    refuse_wrong(len(known), wrong)
    return searched.calibration(fpirs, guarantee, known, unfound, wrong)
