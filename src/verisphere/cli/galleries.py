"""`gallery`: a gallery that people are enrolled in, removed from, and searched in."""

import argparse
import functools
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verisphere.base.words import counted, printable
from verisphere.cli.calibrating import add_accept_training_people, add_accept_unrecorded, model_and_faces
from verisphere.cli.evaluation_options import refuse_unread
from verisphere.cli.messages import progress, show
from verisphere.cli.parsing import (
    SET,
    Outcome,
    Parser,
    Run,
    Verbs,
    add_device,
    add_names,
    add_photographs,
    add_trust_code,
    new_verb,
    options_as,
)
from verisphere.cli.results import add_input, add_json, add_output
from verisphere.cli.shipping import add_probe, add_use, identify, shown

if TYPE_CHECKING:
    from verisphere.models.folder import Model
    from verisphere.ship.face_search import FindFaces
    from verisphere.ship.living.gallery import LivingGallery


def bridge(options: argparse.Namespace) -> Outcome:
    """Fit a map from an old model's embeddings to a new one's, with a promise, on photographs that both embedded."""
    from verisphere.ship.bridge import make_bridge
    from verisphere.ship.calibration_check import Accepted

    accepted = Accepted(options.accept_implausible, options.accept_training_people, options.accept_unrecorded_pixels)
    made = make_bridge(options.old, options.new, options.far, options.guarantee, options.seed, accepted)
    made.write_json(options.out)
    return made


def add_bridge(verbs: Verbs) -> None:
    """Add `bridge`."""
    call = "verisphere bridge old.npz new.npz --far 1e-2"
    examples = (f"{call} --out bridge.json", f"{call} --guarantee expected --out bridge.json")
    verb = new_verb(verbs, "bridge", bridge, examples=examples)
    add_names(verb)
    add_input(verb, "old", "embeddings by the old model, of people who need not be enrolled", metavar=None)
    add_input(verb, "new", "embeddings of the same photographs by the new model, under the same names", metavar=None)
    add_output(verb, "--out", required=True, metavar="BRIDGE.json", help="file for the bridge")
    verb.add_argument("--far", required=True, metavar="F", help="target FAR of new photographs against carried rows")
    what = "confident: FAR is at most F with 95 %% confidence; expected: on average over bridges (confident)"
    verb.add_argument("--guarantee", choices=("confident", "expected"), default="confident", help=what)
    verb.add_argument("--seed", type=int, default=0, help="of the split of people into those of map and promise (0)")
    verb.add_argument("--accept-implausible", action="store_true", help="accept signs that labels belong to other rows")
    add_accept_training_people(verb)
    add_accept_unrecorded(verb, "take files")


def gate_fit(options: argparse.Namespace) -> Outcome:
    """Choose what a gallery asks of photographs, on aligned faces of people who will not be enrolled."""
    from verisphere.ship.calibration_check import Accepted
    from verisphere.ship.gate import fit

    accepted = Accepted(options.accept_implausible, options.accept_training_people)
    gate = options_as(fit, options, accepted=accepted, progress=progress())
    gate.write_json(options.out)
    return gate


def add_gate(verbs: Verbs) -> None:
    """Add `gate` and its verb."""
    text = "Refuse photographs that would spoil a gallery."
    examples = (
        "verisphere gate fit others.zip --model model --out gate.json",
        "verisphere gate fit others.zip --model model --good 1e-2 --measure detail --measure length --out gate.json",
    )
    gate = verbs.add_parser("gate", help=text, description=text, examples=examples)
    kinds = gate.add_subparsers(required=True, metavar="VERB", parser_class=Parser)
    verb = new_verb(kinds, "fit", gate_fit, examples=examples)
    add_names(verb)
    add_input(verb, "faces", SET, metavar=None)
    verb.add_argument("--model", type=Path, required=True, help="run, checkpoint or model folder that embeds")
    verb.add_argument("--landmarks", type=Path, metavar="FILE", help="points in the photographs, for size and pose")
    add_device(verb)
    add_trust_code(verb)
    add_output(verb, "--out", required=True, metavar="GATE.json", help="file for the gate")
    what = "choose the share of good photographs that may be refused by its effect on strangers at this FPIR (1e-2)"
    verb.add_argument("--fpir", metavar="F", help=what)
    verb.add_argument("--good", metavar="F", help="most good photographs that may be refused, by your own choice")
    what = "ask for this alone; repeat for several (detail, and size with --landmarks)"
    verb.add_argument("--measure", dest="measures", action="append", metavar="NAME", help=what)
    verb.add_argument("--accept-implausible", action="store_true", help="see verisphere calibrate")
    add_accept_training_people(verb)


_EXAMPLES = {
    "create": ("--strangers strangers.npz --fpir 1e-2", "--strangers strangers.npz --fpir 1e-3 --guarantee expected"),
    "strangers": ("more.npz", "more.npz --fpir 1e-3"),
    "enrol": ("people/ --model model", "ann.jpg --person Ann --model model"),
    "migrate": ("--model new --strangers new.npz --bridge bridge.json", "--model new --strangers new.npz --drop"),
    "remove": ("--name Ann --name Ben", "--expired"),
    "identify": ("unknown.jpg --model model", "day/ --model model --each found.csv"),
    "verify": ("door.jpg --person Ann --model model", "ann/ --person Ann --model model --json"),
    "list": ("", "--json people.json"),
    "info": ("", "--json door.json"),
    "audit": ("queries.npz answers.csv", "queries.npz hnsw.csv --json audit.json"),
    "compact": ("", "--threads 1"),
}
_FOLDED = ("enrol", "remove", "verify")  # enrolled people, whom no spellings of one name distinguish


def gallery_create(options: argparse.Namespace) -> str:
    """Make an empty gallery with a promise about strangers."""
    from verisphere.ship.living.gallery import create_gallery

    if options.fpir is None:
        raise ValueError("name the FPIR that the gallery is to promise, such as --fpir 1e-2")
    about = _of_strangers(options)
    gallery = options_as(create_gallery, options, folder=options.gallery, **about)
    terms, name = gallery.promise.terms, printable(gallery.store.name)
    strangers = counted(len(about["strangers"].people), "stranger")
    what = f"{name}: an empty gallery, {terms.guarantee} at FPIR {terms.fpir} by {strangers}."
    what += f" To enrol people: verisphere gallery enrol {name} PEOPLE --model MODEL"
    return "\n".join([*gallery.info().promised()[1:], what])


def gallery_strangers(options: argparse.Namespace, gallery: "LivingGallery") -> str:
    """Give a gallery other strangers, or another FPIR, and find its threshold anew."""
    from verisphere.ship.living.promise import KeptPromise, omitted

    fitted = options_as(KeptPromise.set_strangers, options, self=gallery.promise, **_of_strangers(options))
    lines = [f"{omitted(fitted)}."] if fitted else []
    return "\n".join([*lines, gallery.info().text()])


def gallery_enrol(options: argparse.Namespace, gallery: "LivingGallery") -> str:
    """Enrol photographs of people, or rows of an embeddings file."""
    from verisphere.files.gate import read_gate
    from verisphere.ship.living.enrolment import new_photographs, new_rows
    from verisphere.ship.living.gallery import LivingGallery
    from verisphere.ship.notes import first_few
    from verisphere.ship.opened_gallery import is_embeddings

    if not is_embeddings(options.people):
        refuse_unread(options, ("clusters", "cluster"), "clusters are of the rows of an embeddings file")
        if options.accept_unrecorded_pixels:
            raise ValueError("--accept-unrecorded-pixels does nothing here: photographs are embedded now; omit it")
        model, find = _model(options, options.people)
        about = {"path": options.people, "gallery": gallery, "model": model, "find": find, "progress": progress()}
        new, skipped = options_as(new_photographs, options, **about)
    else:
        names = ("model", "aligned", "detector", "min_face", "device", "keep_images", "gate")
        unread = (*names, "person", "cluster") if options.clusters is None else names
        refuse_unread(options, unread, "the rows are embedded already, have names, and show no image")
        about = {"path": options.people, "gallery": gallery, "accept_unrecorded": options.accept_unrecorded_pixels}
        new, skipped = options_as(new_rows, options, **about), ()
    margin = 0.0 if options.gate is None else read_gate(options.gate).margin
    expires = None if options.expires is None else _date(options.expires)
    about = {"self": gallery, "photographs": new, "margin": margin, "expires": expires, "progress": progress()}
    done = options_as(LivingGallery.enrol, options, **about)
    people = counted(done.people, "person")
    what = f"Enrolled {counted(done.photographs, 'photograph')}; {people} new to this gallery."
    lines = [what, f"{done.known:,} were enrolled before."] if done.known else [what]
    lines += [f"Consent or expiry is another now for {counted(done.renewed, 'person')}."] if done.renewed else []
    lines += [f"Not enrolled: {alarm}." for alarm in done.stopped]
    lines += first_few(done.strangers_left, "Strangers no longer, for they are enrolled now")
    lines += first_few([f"{photo.name} ({photo.reason})" for photo in skipped], "Skipped")
    return "\n".join([*lines, gallery.info().text()])


def gallery_migrate(options: argparse.Namespace, gallery: "LivingGallery") -> Outcome:
    """Change the model of a gallery, with all of its rows, and renew the promise."""
    from verisphere.base.device import choose_device
    from verisphere.files.bridge import read_bridge
    from verisphere.models.folder import load
    from verisphere.ship.living.migrate import LeftBehindError, migrate

    model = load(options.model, choose_device(options.device), options.trust_code)
    bridge = None if options.bridge is None else read_bridge(options.bridge)
    about = {"gallery": gallery, "model": model, "bridge": bridge, "progress": progress(), **_of_strangers(options)}
    try:
        return options_as(migrate, options, **about)
    except LeftBehindError as error:
        if error.people:
            show("\n".join(["Nothing of these people can be carried over:", *map(printable, error.people)]))
        raise


def gallery_remove(options: argparse.Namespace, gallery: "LivingGallery") -> str:
    """Remove people from a gallery with all of their photographs."""
    if bool(options.name) == options.expired:
        raise ValueError("name the people to remove by --name, or say --expired for those whose consent has expired")
    operator = options.operator
    gone = gallery.remove_expired(operator) if options.expired else gallery.remove(options.name, operator)
    again = f"verisphere gallery compact {printable(gallery.store.name)} removes their last traces from the disk."
    return f"Removed {counted(gone, 'photograph')}. {again}\n{gallery.info().text()}"


def gallery_identify(options: argparse.Namespace, gallery: "LivingGallery") -> Outcome:
    """Find the person of a gallery whom a photograph shows, or nobody."""
    return identify(options)  # which opens the gallery as it opens every other


def gallery_verify(options: argparse.Namespace, gallery: "LivingGallery") -> Outcome:
    """Decide whether a photograph shows the person whom it is said to show."""
    from verisphere.ship.living.enrolment import verify_claim

    model, find = _model(options, options.probe)
    about = {"gallery": gallery, "model": model, "find": find, "accept_drawn": options.accept_drawn_model}
    return shown(options_as(verify_claim, options, **about, progress=progress()), options)


def gallery_list(options: argparse.Namespace, gallery: "LivingGallery") -> Outcome:
    """List everybody who is enrolled."""
    return gallery.listing()


def gallery_info(options: argparse.Namespace, gallery: "LivingGallery") -> Outcome:
    """Say what a gallery holds and promises, and how many enrolled people are missed, by their own photographs."""
    return gallery.info(found=True)


def gallery_compact(options: argparse.Namespace, gallery: "LivingGallery") -> str:
    """Remove every trace of removed people from the files of a gallery."""
    before = gallery.store.size()
    gallery.store.compact()
    return f"Compacted: {before:,} bytes before, {gallery.store.size():,} now."


def gallery_audit(options: argparse.Namespace, gallery: "LivingGallery") -> Outcome:
    """Say what another program's index over a gallery costs, by its answers to queries."""
    from verisphere.ship.living.audit import audit_index

    return audit_index(gallery, options.probes, options.answers)


def _of_strangers(options: argparse.Namespace) -> dict[str, Any]:
    from verisphere.ship.calibrated_files import EmbeddingsSet
    from verisphere.ship.calibration_check import Accepted

    accepted = Accepted(options.accept_implausible, options.accept_training_people, options.accept_unrecorded_pixels)
    return {"strangers": EmbeddingsSet.read(options.strangers), "accepted": accepted}


def _model(options: argparse.Namespace, path: Path) -> "tuple[Model, FindFaces]":
    if options.model is None:
        raise ValueError(f"{path}: photographs need the model that embeds them: name it by --model")
    return model_and_faces(options, [path], others=False)


def _date(text: str) -> date:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"--expires: {text!r} is no date such as 2027-12-31") from None
    if day <= date.today():
        raise ValueError(f"--expires: {text} is not after today, so these people would never be found")
    return day


def add_gallery(verbs: Verbs) -> None:
    """Add `gallery` and its verbs."""
    text = "Keep a gallery: enrol people, find them, remove them, under a promise about strangers."
    examples = [f"verisphere gallery {name} door {_EXAMPLES[name][0]}" for name in ("create", "enrol")]
    gallery = verbs.add_parser("gallery", help=text, description=text, examples=examples)
    kinds = gallery.add_subparsers(required=True, metavar="VERB", parser_class=Parser)
    verb = _verb(kinds, "create", gallery_create)
    _add_strangers(verb, "--strangers", required=True)
    verb = _verb(kinds, "strangers", _opened(gallery_strangers))
    _add_strangers(verb, "strangers")
    verb = _verb(kinds, "enrol", _opened(gallery_enrol))
    people = "folder or zip archive: a folder a person; or an embeddings file; with --person photographs of one person"
    add_input(verb, "people", people, "PEOPLE")
    verb.add_argument("--person", metavar="NAME", help="the person whom all of these photographs show")
    add_input(verb, "--clusters", "take the confirmed faces of this folder of verisphere cluster", metavar="FOLDER")
    verb.add_argument("--cluster", metavar="N", help="take all faces of this cluster instead, as those of --person")
    verb.add_argument("--consent", metavar="TEXT", help="what the people have agreed to, or where it is written down")
    verb.add_argument("--expires", metavar="DATE", help="the day from which they are not found, such as 2027-12-31")
    verb.add_argument("--keep-images", action="store_const", const=True, help="also keep the aligned crops")
    add_input(verb, "--gate", "skip photographs that this gate refuses, from gate fit")
    verb.add_argument(
        "--accept-alarms",
        action="store_const",
        const=True,
        help="also enrol photographs that look like another person's than their own; else these are named and skipped",
    )
    add_accept_unrecorded(verb, "enrol rows of a file")
    _add_operator(verb)
    add_input(verb, "--model", "exported model folder that embeds the photographs", None)
    add_photographs(verb)
    verb = _verb(kinds, "migrate", _opened(gallery_migrate))
    verb.add_argument("--model", type=Path, required=True, help="exported model folder, the new one")
    _add_strangers(verb, "--strangers", required=True)
    add_input(verb, "--bridge", "carries over rows without a kept image, from bridge")
    verb.add_argument("--drop", action="store_true", help="remove people who cannot be carried over")
    add_trust_code(verb)
    add_device(verb)
    verb = _verb(kinds, "remove", _opened(gallery_remove))
    verb.add_argument("--name", action="append", metavar="NAME", help="a person to remove; repeat for several")
    verb.add_argument("--expired", action="store_true", help="remove everybody whose consent has expired")
    _add_operator(verb)
    verb = _verb(kinds, "identify", _opened(gallery_identify))
    add_probe(verb)
    verb.set_defaults(far=None, fpir=None, calibration=None, cohort=None, accept_pair_threshold=False)
    add_use(verb)
    verb = _verb(kinds, "verify", _opened(gallery_verify))
    add_input(verb, "probe", "photograph, or folder or archive of one person's", "PROBE")
    verb.add_argument("--person", required=True, metavar="NAME", help="the person whom it is said to show")
    add_use(verb)
    add_json(_verb(kinds, "list", _opened(gallery_list), names=False), "also write it as JSON")
    add_json(_verb(kinds, "info", _opened(gallery_info), names=False))
    verb = _verb(kinds, "audit", _opened(gallery_audit))
    add_input(verb, "probes", "embeddings file of the queries; those whose person is enrolled are mated", "PROBES")
    add_input(verb, "answers", "CSV of the index's answers, best first: query,answer,score (a cosine)", "ANSWERS")
    add_json(verb)
    _verb(kinds, "compact", _opened(gallery_compact), names=False)


def _opened(run: "Callable[[argparse.Namespace, LivingGallery], Outcome]") -> Run:
    @functools.wraps(run)
    def run_so(options: argparse.Namespace) -> Outcome:
        from verisphere.ship.living.gallery import LivingGallery

        return run(options, LivingGallery(options.gallery))

    return run_so


def _verb(kinds: Verbs, name: str, run: Run, names: bool = True) -> argparse.ArgumentParser:
    examples = [f"verisphere gallery {name} door {each}".strip() for each in _EXAMPLES[name]]
    verb = new_verb(kinds, name, run, examples=examples)
    if names:
        add_names(verb, exact=name not in _FOLDED)
    add_input(verb, "gallery", "folder, or postgresql://USER@HOST/DATABASE#NAME", "GALLERY")
    return verb


def _add_strangers(verb: argparse.ArgumentParser, name: str, **settings: Any) -> None:
    what = "embeddings file of people who are not enrolled, one photograph of each of whom is drawn"
    verb.add_argument(name, type=Path, metavar="FILE", help=what, **settings)
    verb.add_argument("--fpir", metavar="F", help="at most so many strangers are found, such as 1e-2")
    verb.add_argument("--guarantee", choices=("confident", "expected"), help="see verisphere calibrate (confident)")
    verb.add_argument("--seed", type=int, help="of the draw of a photograph of each stranger (0)")
    verb.add_argument("--accept-implausible", action="store_true", help="see verisphere calibrate")
    add_accept_training_people(verb)
    add_accept_unrecorded(verb, "take files")


def _add_operator(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--operator", metavar="NAME", help="who does this, for the gallery's records (the user's name)")
