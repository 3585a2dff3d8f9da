"""`calibrate`: a threshold for two photographs, or for a gallery, with a promise about new people."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from verisphere.base.words import STATISTIC_NAMES, check_at_least, printable
from verisphere.cli.dry_run import add_cost, cost_of_rows
from verisphere.cli.evaluation_options import refuse_unread
from verisphere.cli.messages import progress
from verisphere.cli.parsing import (
    Verbs,
    add_detector,
    add_device,
    add_min_face,
    add_names,
    add_trust_code,
    new_verb,
    options_as,
)
from verisphere.cli.results import add_output, add_plot
from verisphere.cli.working import add_work

if TYPE_CHECKING:
    from verisphere.models.folder import Model
    from verisphere.ship.face_search import FindFaces
    from verisphere.ship.opened_gallery import OpenedGallery

_UNDER_A_GUARANTEE = ("cap", "factor", "frr", "fold")
_OF_PAIRS = ("far", "independent", "check", "replicates", "skip_empty", *_UNDER_A_GUARANTEE, "probability", "plot")
_OF_GALLERY = ("fpir", "probes", "rule", "cohort", "again", "model", "aligned", "detector", "min_face", "device")
_KEPT_BY_AGAIN = ("fpir", "guarantee", "rule", "seed", "unfound", "wrong")


def calibrate(options: argparse.Namespace) -> str:
    """Choose the threshold for a FAR on new people, or for an FPIR in a gallery, with a guarantee."""
    if options.review is None:
        refuse_unread(options, ("review_pairs", "faces"), "they are of the page that --review makes")
    if options.gallery is None:
        return _of_pairs(options)
    return _of_gallery(options)


def _check_far(options: argparse.Namespace) -> None:
    if options.gallery is None and not options.far:
        raise ValueError("name the FAR of a threshold for two photographs (--far 1e-3), or a --gallery and its --fpir")


def _of_pairs(options: argparse.Namespace) -> str:
    from verisphere.base.distributed import world
    from verisphere.report.calibration_tables import calibration_text
    from verisphere.report.plots import save_plot
    from verisphere.report.score_plots import reliability_plot
    from verisphere.ship.calibrate import calibrate as run
    from verisphere.ship.calibrate import review_pairs
    from verisphere.ship.review import Side, write_review

    refuse_unread(options, _OF_GALLERY, "it is for the threshold of a --gallery")
    _check_far(options)
    if options.probability is None:
        refuse_unread(options, ("plot",), "it draws how reliable a --probability is")
    count = _count(options)
    calibration = options_as(
        run,
        options,
        path=options.file,
        fars=options.far,
        guarantee=options.guarantee or "confident",
        checks=options.check or (),
        progress=progress(),
    )
    if not world().first:
        return ""
    if options.plot is not None:
        save_plot(reliability_plot(calibration), options.plot)
    calibration.write_json(options.out)
    lines = []
    if options.review is not None:
        pairs, rows = options_as(review_pairs, options, path=options.file, count=count, progress=progress())
        side = Side(options.file, rows)
        about = "These are the comparisons of people who are said to be different that score highest."
        lines.append(write_review(options.review, pairs, (side, side), about, options.faces, options.trust_code))
    out = printable(str(options.out))
    ship = f"{out}: to ship it, verisphere export RUN --calibration {out} ..."
    return "\n\n".join([calibration_text(calibration), ship, *lines])


def _of_gallery(options: argparse.Namespace) -> str:
    from verisphere.base.distributed import world
    from verisphere.decide.review import refuse_wrong
    from verisphere.files.gallery_calibration import check_fpirs, read_gallery_calibration
    from verisphere.files.verdicts import read_verdicts
    from verisphere.report.calibration_tables import gallery_calibration_text
    from verisphere.ship.calibrated_files import EmbeddingsSet
    from verisphere.ship.calibration_check import Accepted
    from verisphere.ship.gallery import StrangersInGallery, refuse_changed
    from verisphere.ship.notes import first_few
    from verisphere.ship.review import Side, write_review

    refuse_unread(options, _OF_PAIRS, "it is for a threshold for two photographs, and --gallery asks for another")
    before = None
    if options.again is not None:
        refuse_unread(options, _KEPT_BY_AGAIN, "--again takes it from the calibration before")
        before = read_gallery_calibration(options.again)
        refuse_changed(before, options.again, options.file, options.cohort)
    elif not options.fpir:
        raise ValueError("name the FPIR of the threshold of the gallery, such as --fpir 1e-2")
    else:
        check_fpirs(options.fpir, options.guarantee or "confident", "--")
    count, gallery = _count(options), _gallery(options)
    searched = StrangersInGallery(
        strangers=EmbeddingsSet.read(options.file),
        gallery=gallery,
        cohort=None if options.cohort is None else EmbeddingsSet.read(options.cohort),
        probes=None if options.probes is None else EmbeddingsSet.read(options.probes),
        statistic=(options.rule or "best") if before is None else before.statistic,
        seed=(options.seed or 0) if before is None else before.thresholds[0].seed or 0,
        accepted=Accepted(options.accept_implausible, options.accept_training_people, options.accept_unrecorded_pixels),
        progress=progress(),
    )
    verdicts = () if options.reviewed is None else searched.resolved(read_verdicts(options.reviewed), options.reviewed)
    if before is None:
        refuse_wrong(len(verdicts), options.wrong or 0)
        calibration = searched.calibration(
            options.fpir, options.guarantee or "confident", verdicts, options.unfound or 0, options.wrong or 0
        )
    else:
        calibration = searched.again(before, verdicts)
    if not world().first:
        return ""
    calibration.write_json(options.out)
    lines = first_few([f"{photo.name} ({photo.reason})" for photo in gallery.skipped], "Skipped in the gallery")
    lines += first_few(gallery.left_out, "Not enrolled, as none of their photographs can be used")
    known = calibration.verdicts
    if before is not None and (gone := len({one.seal for one in before.verdicts} - {one.seal for one in known})):
        lines.append(f"{gone:,} of {len(before.verdicts):,} verdicts are about photographs that left, and do not count")
    if options.review is not None:
        about = "These are the strangers whose numbers are highest, each with the enrolled photograph it is nearest to."
        sides = Side(options.file, searched.drawn), Side(options.gallery, searched.gallery.enrolled)
        pairs = [*searched.reviewed(known), *searched.suspicious(count, known)]
        lines.append(write_review(options.review, pairs, sides, about, options.faces, options.trust_code))
    out, named = printable(str(options.out)), printable(str(options.gallery))
    near = searched.suspicious(3, known)
    use = f"{out}: to use it, verisphere identify PROBE {named} --model MODEL --calibration {out}"
    return "\n\n".join([gallery_calibration_text(calibration, near), use, *lines])


def _gallery(options: argparse.Namespace) -> "OpenedGallery":
    from verisphere.ship.opened_gallery import is_embeddings, open_gallery

    if is_embeddings(options.gallery):
        refuse_unread(
            options, ("model", "aligned", "detector", "min_face", "device"), "the gallery is embedded already"
        )
        return open_gallery(options.gallery)
    if options.model is None:
        raise ValueError(f"{options.gallery}: photographs need the model that embeds them: name it by --model")
    return open_gallery(options.gallery, *model_and_faces(options, [options.gallery], others=False), progress())


def model_and_faces(
    options: argparse.Namespace, photographs: Sequence[Path], others: bool, files: bool = False
) -> "tuple[Model, FindFaces]":
    """The model of the options, and the function that finds its faces on photographs, on request also other faces."""
    from verisphere.ship.model_file import model_and_finder as run

    if not photographs:
        refuse_unread(options, ("aligned", "detector", "min_face"), "no photograph is given")
    if options.aligned:
        refuse_unread(options, ("detector", "min_face"), "--aligned looks for no face")
    return options_as(run, options, photographs=photographs, others=others, files=files, progress=progress())


def _count(options: argparse.Namespace) -> int:
    from verisphere.files.disk import check_writable, real_path
    from verisphere.models.described_faces import open_faces
    from verisphere.ship.review import PAIRS, refuse_verdicts

    if options.review is not None:
        refuse_verdicts(options.review)
        if not options.review.is_dir():
            check_writable(options.review)
        if real_path(options.out).is_relative_to(real_path(options.review)):
            raise ValueError(f"{options.out}: {options.review} holds the page alone; choose a name outside of it")
    count = PAIRS if options.review_pairs is None else options.review_pairs
    check_at_least("--review-pairs", count)
    if options.faces is not None:
        open_faces(options.faces, trust=options.trust_code)  # before any work
    return int(count)


def add_calibrate(verbs: Verbs) -> None:
    """Add `calibrate`."""
    verb = new_verb(
        verbs,
        "calibrate",
        calibrate,
        examples=(
            "verisphere calibrate others.npz --far 1e-2 --check test.npz --out thresholds.json",
            "verisphere calibrate strangers.npz --gallery people.npz --fpir 1e-2 --review page --out gallery.json",
        ),
    )
    add_names(verb)
    verb.add_argument("file", type=Path, help="embeddings file of people the model has not seen; or a scores file")
    add_output(verb, "--out", required=True, metavar="OUT.json", help="file for the thresholds")
    verb.add_argument("--far", action="append", metavar="F", help="target FAR of two photographs; repeat for several")
    verb.add_argument(
        "--guarantee",
        choices=("expected", "confident", "approximate", "capped", "tail", "convention", "worst-group"),
        help="confident: FAR on new people is at most F with 95 %% confidence; expected: FAR is at most F on average "
        "over calibrations, up to half of which lie above; approximate: an estimate from fewer people, without a "
        "promise; under an assumption about people, from far fewer: capped (they differ no more than --cap says), "
        "tail (the highest scores continue as fitted), convention (all pairs count as independent); worst-group: "
        "confident within every domain at once; all say how many people they need (confident)",
    )
    verb.add_argument(
        "--independent", action="store_const", const=True, help="of a scores file: no two comparisons share a person"
    )
    verb.add_argument("--check", type=Path, action="append", metavar="FILE", help="also measure the thresholds on this")
    verb.add_argument(
        "--cap",
        type=float,
        metavar="C",
        help="for capped: the mean square of people's own FARs is at most C times the square of the FAR",
    )
    verb.add_argument(
        "--factor", type=float, metavar="X", help="for worst-group: F is of everybody, and a domain's FAR at most X F"
    )
    verb.add_argument(
        "--frr",
        metavar="E",
        help="also promise that at most E of people are called different, at once: a second threshold, and the answer "
        "is unsure between the two",
    )
    verb.add_argument(
        "--fold",
        choices=("one", "median", "lowest"),
        help="the score of a person that --frr is about: of a random pair of images, or the median or lowest of all "
        "pairs (one)",
    )
    verb.add_argument("--replicates", type=int, help="of the bootstrap of approximate, tail and the checks (1000)")
    verb.add_argument("--seed", type=int, help="of the matching of people, of the draw of photographs (0)")
    verb.add_argument(
        "--skip-empty", action="store_const", const=True, help="exclude domains without impostors or genuine pairs"
    )
    verb.add_argument(
        "--probability", action="store_const", const=True, help="also map scores to log-likelihood ratios, for verify"
    )
    add_plot(verb, "how reliable the probability is, with bands over redrawn people")
    gallery = verb.add_argument_group("a threshold for a gallery (1:N)")
    gallery.add_argument(
        "--gallery",
        type=Path,
        help="the enrolled people: an embeddings file, or a folder or zip archive of a folder a person; FILE is then "
        "of strangers, none of whom is enrolled",
    )
    gallery.add_argument("--fpir", action="append", metavar="F", help="target FPIR; repeat for several")
    gallery.add_argument("--probes", type=Path, metavar="FILE", help="further photographs of enrolled people, for TPIR")
    gallery.add_argument(
        "--rule",
        choices=STATISTIC_NAMES,
        help="the number that decides a probe (best: its best score); see docs/galleries.md",
    )
    gallery.add_argument(
        "--cohort", type=Path, metavar="FILE", help="people neither enrolled nor strangers, for z and s"
    )
    gallery.add_argument(
        "--again", type=Path, metavar="OLD.json", help="the calibration of the gallery before it changed, to repeat"
    )
    gallery.add_argument("--model", type=Path, help="embeds the photographs of a gallery")
    gallery.add_argument(
        "--aligned", action="store_const", const=True, help="the photographs of the gallery are aligned crops"
    )
    add_detector(verb)
    add_min_face(verb)
    verb.set_defaults(min_face=None)
    add_device(verb)
    labels = verb.add_argument_group("wrong labels")
    add_output(
        verb, "--review", folder=True, metavar="PAGE", help="also make a page of the comparisons that cost the most"
    )
    labels.add_argument("--review-pairs", type=int, metavar="K", help="how many (20)")
    labels.add_argument("--faces", type=Path, metavar="SET", help="their images (where embed read them)")
    labels.add_argument("--reviewed", type=Path, metavar="FILE", help="the review.csv of that page, filled in")
    labels.add_argument("--unfound", type=int, metavar="E", help="allow for so many wrong labels that nobody found (0)")
    labels.add_argument("--wrong", type=int, metavar="W", help="allow for so many wrong verdicts 'same' (0)")
    verb.add_argument(
        "--accept-implausible",
        action="store_true",
        help="calibrate in spite of signs that labels belong to other rows, that scores are distances, or that many "
        "rows hold one vector; the output records them",
    )
    add_accept_training_people(verb)
    add_accept_unrecorded(verb, "check on files")
    add_trust_code(verb)
    add_work(verb)
    add_cost(verb, cost_of_rows("all-pairs", "file", _check_far))


def add_accept_training_people(verb: argparse.ArgumentParser) -> None:
    """Add `--accept-training-people`."""
    verb.add_argument(
        "--accept-training-people",
        action="store_true",
        help="accept people or images that the model was trained on, which promise nothing about new people",
    )


def add_accept_unrecorded(verb: argparse.ArgumentParser, what: str) -> None:
    """Add `--accept-unrecorded-pixels`."""
    verb.add_argument(
        "--accept-unrecorded-pixels",
        action="store_true",
        help=f"{what} of earlier versions, which did not record the pixels that a model took",
    )
