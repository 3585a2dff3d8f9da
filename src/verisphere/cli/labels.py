"""Labels that are wrong or changed: `clean duplicates`, `overlap`, `noise` and `relabel`."""

import argparse
from pathlib import Path

from verisphere.cli.dry_run import add_cost, cost_of_rows
from verisphere.cli.evaluation_options import refuse_unread
from verisphere.cli.messages import progress
from verisphere.cli.parsing import SET, Outcome, Verbs, add_names, add_trust_code, new_verb, options_as
from verisphere.cli.results import add_output
from verisphere.cli.working import add_work

THRESHOLD = 0.5  # of overlap; see docs/lab/cleaning.md for how it was chosen


def clean_noise(options: argparse.Namespace) -> str:
    """Put label noise into a set of images at a stated rate, the same in each class, and keep the truth."""
    from verisphere.study.clean.noise import NoisySet

    if (options.open_share > 0) != (options.outside is not None):
        raise ValueError(
            "open-set noise takes both --open-share, a share above 0 of the noise, and --outside, the set of its images"
        )
    return options_as(NoisySet, options, path=options.set, trust=options.trust_code).write(options.out)


def clean_duplicates(options: argparse.Namespace) -> Outcome:
    """Propose identities that may be one person and images that may be one picture; merge identities on request."""
    from verisphere.base.distributed import world
    from verisphere.files.disk import check_writable, refuse_overwriting
    from verisphere.files.label_lists import LabelList, write_labels
    from verisphere.files.streamed_rows import open_rows
    from verisphere.models.described_faces import open_faces
    from verisphere.study.clean.same_person.duplicates import MERGED, find_duplicates, merged_labels, read_pairs

    refuse_overwriting(options.out, [options.embeddings, options.faces])
    faces = None if options.faces is None else open_faces(options.faces, trust=options.trust_code)
    if faces is None:
        refuse_unread(options, ("workers",), "no --faces are read")
    if options.merge is not None:
        unread = "threshold", "image_threshold", "no_images", "workers"
        refuse_unread(options, unread, "--merge compares nothing")
        pairs, out = read_pairs(options.merge), options.out / MERGED
        refuse_overwriting(out, [options.merge])
        if faces is not None:
            labels = LabelList(faces.names, faces.identities, faces.domains, faces.true_identities)
        else:
            rows = open_rows(options.embeddings, ("names", "identities"))
            assert rows.identities is not None
            labels = LabelList(rows.names.tolist(), rows.identities.tolist())
        merged = merged_labels(labels, pairs)
        write_labels(out, merged)
        before, after = len(set(labels.identities)), len(set(merged.identities))
        return f"{out}: {before:,} identities became {after:,} by {len(pairs):,} pairs of {options.merge}"
    check_writable(options.out / MERGED)
    duplicates = options_as(
        find_duplicates,
        options,
        path=options.embeddings,
        faces=faces,
        progress=progress(),
        **_images(options),
    )
    page = None
    if faces is not None:
        from verisphere.study.clean.same_person.duplicates import duplicates_page

        page = duplicates_page(duplicates, faces)
    if world().first:
        duplicates.write(options.out, page)
    return duplicates


def _check_thresholds(options: argparse.Namespace) -> None:
    from verisphere.study.clean.same_person.duplicates import check_thresholds

    options_as(check_thresholds, options, **_images(options))


def _images(options: argparse.Namespace) -> dict[str, None]:
    """No threshold of images where none are compared."""
    return {"image_threshold": None} if options.no_images else {}


def clean_overlap(options: argparse.Namespace) -> Outcome:
    """Find the people of a training set who are in a test set, by name, id and embedding, and list who is left."""
    from verisphere.base.identity import names_taken

    with names_taken("exact"):  # each spelling of a name is matched by itself
        return _overlap(options)


def _overlap(options: argparse.Namespace) -> Outcome:
    from verisphere.base.distributed import world
    from verisphere.files.disk import check_writable
    from verisphere.files.people_lists import read_ids
    from verisphere.study.clean.same_person.overlap import KEPT, find_overlap, open_people

    check_writable(options.out / KEPT)
    ids: dict[str, tuple[str, ...]] = {}
    for path in options.ids:
        for identity, names in read_ids(path).items():
            ids[identity] = (*ids.get(identity, ()), *names)
    train, test = (open_people(path, options.trust_code) for path in (options.train, options.test))
    embeddings = options.embeddings
    if embeddings is None and train.is_embeddings and test.is_embeddings:
        embeddings = options.train, options.test
    if embeddings is None and options.threshold is not None:
        raise ValueError("--threshold is one of embeddings; name those of both sets by --embeddings")
    threshold = THRESHOLD if options.threshold is None else options.threshold
    overlap = options_as(
        find_overlap,
        options,
        train=train,
        test=test,
        ids=ids,
        embeddings=None if embeddings is None else tuple(embeddings),
        threshold=threshold,
        progress=progress(),
    )
    if world().first:
        overlap.write(options.out)
    return overlap


def _cost_of_overlap(options: argparse.Namespace) -> Outcome:
    from verisphere.files.sharded import holds_embeddings
    from verisphere.measure.cost import cost_of

    train, test = options.embeddings or (options.train, options.test)
    if not (holds_embeddings(train) and holds_embeddings(test)):
        raise ValueError("--dry-run counts pairs of embeddings: name those of both sets by --embeddings")
    return cost_of("overlap", [train], [test])


def clean_relabel(options: argparse.Namespace) -> str:
    """Give embeddings the labels of a list, and exclude rows, to measure what wrong labels cost."""
    from verisphere.study.clean.relabel import relabel_file

    return relabel_file(options.embeddings, options.out, options.labels, options.without)


def add_labels(kinds: Verbs) -> None:
    """Add `duplicates`, `overlap`, `noise` and `relabel` to the verbs of `clean`."""
    _add_duplicates(kinds)
    _add_overlap(kinds)
    _add_noise(kinds)
    _add_relabel(kinds)


def _add_noise(kinds: Verbs) -> None:
    verb = new_verb(
        kinds,
        "noise",
        clean_noise,
        examples=(
            "verisphere clean noise faces.zip --rate 0.4 --out noisy.csv",
            "verisphere clean noise faces.zip --rate 0.4 --open-share 0.5 --outside others.zip --out noisy.yaml",
        ),
        threads=None,
    )
    add_names(verb)
    verb.add_argument("set", type=Path, metavar="SET", help=SET)
    verb.add_argument("--rate", type=float, required=True, help="share of each person's images that get a wrong label")
    verb.add_argument(
        "--open-share",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="share of the noise that is of people outside (0)",
    )
    verb.add_argument("--outside", type=Path, metavar="SET", help=f"where images of people outside come from: {SET}")
    verb.add_argument("--seed", type=int, default=0, help="another seed draws other noise (0)")
    add_output(
        verb,
        "--out",
        required=True,
        metavar="FILE",
        help="list of labels (.csv), or description of the set with its noise (.yaml), which --outside needs",
    )
    add_trust_code(verb)


def _add_duplicates(kinds: Verbs) -> None:
    verb = new_verb(
        kinds,
        "duplicates",
        clean_duplicates,
        examples=(
            "verisphere clean duplicates faces.npz --faces faces.zip --out twice",
            "verisphere clean duplicates faces.npz --merge twice/pairs.csv --out twice",
        ),
    )
    add_names(verb)
    verb.add_argument("embeddings", type=Path, metavar="EMBEDDINGS", help="embeddings file of the set")
    verb.add_argument("--faces", type=Path, metavar="SET", help=f"also compare pixels, and make a page: {SET}")
    verb.add_argument(
        "--threshold",
        type=float,
        help="propose to merge identities whose centers score this or more (0.6)",
    )
    images = verb.add_mutually_exclusive_group()
    images.add_argument("--image-threshold", type=float, help="report images that score this or more (0.85)")
    images.add_argument(
        "--no-images", action="store_const", const=True, help="compare centers alone, in less time and memory"
    )
    verb.add_argument(
        "--merge",
        type=Path,
        metavar="PAIRS",
        help="merge the pairs of this list, as pairs.csv has them: writes merged.csv",
    )
    verb.add_argument("--workers", type=int, help="processes that read images (0: this one)")
    verb.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="folder to write; new unless --merge")
    add_trust_code(verb)
    add_work(verb, merge=False)
    add_cost(verb, cost_of_rows("duplicates", check=_check_thresholds))


def _add_overlap(kinds: Verbs) -> None:
    verb = new_verb(
        kinds,
        "overlap",
        clean_overlap,
        examples=(
            "verisphere clean overlap train.zip lfw.zip --out overlap",
            "verisphere clean overlap train.rec lfw.zip --embeddings train.npz lfw.npz --out overlap",
        ),
    )
    people = f"{SET}; or a list of people (.txt), list of labels (.csv) or embeddings file (.npz)"
    verb.add_argument("train", type=Path, metavar="TRAIN", help=f"training set: {people}")
    verb.add_argument("test", type=Path, metavar="TEST", help=f"test set: {people}")
    verb.add_argument(
        "--names",
        choices=("none", "equal", "words", "initials", "loose"),
        default="equal",
        help="remove people whose names are equal but for accents, case and signs (equal); also those of the same "
        "words in another order (words), with initials (initials), or alike in first and last word (loose). All are "
        "listed",
    )
    verb.add_argument(
        "--ids",
        type=Path,
        nargs="+",
        default=[],
        metavar="LIST",
        help="names of ids: CASIA-WebFace, MS-Celeb-1M, VGGFace2",
    )
    verb.add_argument("--same-ids", action="store_true", help="equal identities are one person, numbers, too")
    verb.add_argument(
        "--embeddings", type=Path, nargs=2, metavar=("TRAIN", "TEST"), help="embeddings of both sets, by one model"
    )
    verb.add_argument(
        "--threshold", type=float, help=f"remove people whose embeddings score this or more ({THRESHOLD})"
    )
    add_output(verb, "--out", folder=True, required=True, metavar="FOLDER", help="new folder to write")
    add_trust_code(verb)
    add_work(verb)
    add_cost(verb, _cost_of_overlap)


def _add_relabel(kinds: Verbs) -> None:
    verb = new_verb(
        kinds,
        "relabel",
        clean_relabel,
        examples=(
            "verisphere clean relabel faces.npz --labels twice/merged.csv --out merged.npz",
            "verisphere clean relabel faces.npz --without wrong.txt --out right.npz",
        ),
    )
    add_names(verb)
    verb.add_argument("embeddings", type=Path, metavar="EMBEDDINGS", help="embeddings file")
    verb.add_argument("--labels", type=Path, metavar="LIST", help="list of labels: only its rows, with its identities")
    verb.add_argument("--without", type=Path, metavar="NAMES", help="names of rows to exclude, one a line")
    verb.add_argument("--out", type=Path, required=True, metavar="OUT", help="embeddings file to write (.npz)")
