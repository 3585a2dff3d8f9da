"""Sets of images in any format: `data` and its verbs."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from verisphere.cli.images import add_render
from verisphere.cli.messages import progress
from verisphere.cli.parsing import (
    IMAGES,
    REFUSED,
    SET,
    Outcome,
    Parser,
    Run,
    Verbs,
    add_names,
    add_trust_code,
    new_verb,
    options_as,
)
from verisphere.cli.results import add_json, add_output, show_result

#: The formats that can be written, by `make reference`.
WRITABLE = "folder, zip, recordio, tar, parquet or lmdb"


def data_info(options: argparse.Namespace) -> Outcome:
    """Show format, images, identities and domains of a set of images, from its index alone."""
    from verisphere.measure.data import info

    _refuse_part(options.json, options.set)
    return info.data_info(options.set, options.trust_code)


def data_verify(options: argparse.Namespace) -> Outcome:
    """Find every fault of a set of images; exit code 2 where there is one."""
    from verisphere.measure.data import verify

    _refuse_part(options.json, options.set)
    result = verify.verify(options.set, options.workers, options.allow_single, progress())
    if not result.faults:
        return result
    show_result(options, result)
    raise SystemExit(2)


def data_convert(options: argparse.Namespace) -> Outcome:
    """Convert a set of images into another format, completely or not at all, with a manifest."""
    from verisphere.measure.data import convert

    return options_as(convert.convert, options, source=options.set, progress=progress())


def data_statistics(options: argparse.Namespace) -> Outcome:
    """Show the distributions of a set of images: images per identity, domains, and yaw from landmarks."""
    from verisphere.measure.data import statistics

    _refuse_part(options.json, options.set)
    figures = statistics.data_statistics(options.set, options.landmarks, options.trust_code)
    if options.out is not None:
        figures.write_folder(options.out)
    return figures


def _refuse_part(out: Path | None, source: Path) -> None:
    """Refuse to replace a file that belongs to a set: its manifest, or no JSON in its folder or beside it."""
    from verisphere.files.disk import real_path
    from verisphere.images.packs.manifest import manifest_path

    if out is None:
        return
    place, pack = real_path(out), real_path(source)
    inside = place.is_relative_to(pack) or (place.parent == pack.parent and place.stem == pack.stem)
    if place == real_path(manifest_path(source)) or (inside and place.is_file() and place.suffix.lower() != ".json"):
        raise FileExistsError(f"{out}: it belongs to {source}, which is read here; write to another name")


def add_data(verbs: Verbs) -> None:
    """Add `data` and its verbs."""
    text = "Look at, check, convert and draw sets of images."
    data = verbs.add_parser(
        "data",
        help=text,
        description=text,
        examples=("verisphere data info faces.zip", "verisphere data convert faces_emore/train.rec faces.parquet"),
    )
    kinds = data.add_subparsers(required=True, metavar="VERB", parser_class=Parser)
    verb = _verb(
        kinds,
        "info",
        data_info,
        ("verisphere data info faces.zip", "verisphere data info train.rec --json info.json"),
        SET,
    )
    add_json(verb)
    add_trust_code(verb)
    verb = _verb(
        kinds,
        "verify",
        data_verify,
        ("verisphere data verify faces.zip", "verisphere data verify train.rec --workers 4 --json faults.json"),
        IMAGES,
        names="such names are faults",
    )
    add_json(verb, "also write all faults and notes, of which the first 100 are printed, as JSON")
    verb.add_argument("--workers", type=int, default=0, help="processes that read and decode (0: this one)")
    verb.add_argument(
        "--allow-single", action="store_true", help="an identity of one image is no fault, as in a set for evaluation"
    )
    verb = _verb(
        kinds,
        "convert",
        data_convert,
        (
            "verisphere data convert faces.zip faces.rec",
            "verisphere data convert train.rec faces --min-images 10 --max-images 500",
        ),
        IMAGES,
        "SRC",
        "names are copied as they are written",
    )
    verb.add_argument(
        "out",
        type=Path,
        metavar="OUT",
        help="path to write, which must not exist; its suffix determines the format, and without one it is a folder",
    )
    verb.add_argument("--to", metavar="FORMAT", help=f"format to write, whose suffix OUT has: {WRITABLE}")
    verb.add_argument("--people", type=Path, metavar="LIST", help="convert only the people of this list")
    verb.add_argument("--min-images", type=int, default=1, metavar="N", help="exclude people with fewer images (1)")
    verb.add_argument("--max-images", type=int, metavar="N", help="the first N images of each person (all)")
    verb = _verb(
        kinds,
        "statistics",
        data_statistics,
        (
            "verisphere data statistics faces.zip",
            "verisphere data statistics aligned --landmarks aligned/align.csv --out figures",
        ),
        SET,
    )
    verb.add_argument("--landmarks", type=Path, metavar="FILE", help="five points a photo, JSON or CSV: adds yaw")
    add_output(verb, "--out", folder=True, metavar="FOLDER", help="also draw statistics.png, into a new folder")
    add_json(verb)
    add_trust_code(verb)
    add_render(kinds)


def _verb(
    kinds: Verbs,
    name: str,
    run: Run,
    examples: Sequence[str],
    help_of_set: str,
    metavar: str = "SET",
    names: str = REFUSED,
) -> argparse.ArgumentParser:
    verb = new_verb(kinds, name, run, examples=examples, threads=None)
    add_names(verb, names)
    verb.add_argument("set", type=Path, metavar=metavar, help=help_of_set)
    return verb
