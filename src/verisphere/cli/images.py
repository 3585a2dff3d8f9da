"""Images: drawn, cut out of photographs, embedded."""

import argparse
from pathlib import Path
from typing import Any

from verisphere.cli.dry_run import add_cost, cost_of_images
from verisphere.cli.messages import progress
from verisphere.cli.parsing import (
    SET,
    Outcome,
    Verbs,
    add_detector,
    add_device,
    add_min_face,
    add_names,
    add_template,
    add_trust_code,
    new_verb,
    options_as,
)
from verisphere.cli.working import add_work


def render(options: argparse.Namespace) -> str:
    """Render synthetic faces into a zip archive."""
    from verisphere.images.synthetic.synthetic_faces import DOMAINS, SyntheticFaces
    from verisphere.measure.render import render_zip

    faces = options_as(SyntheticFaces, options, domains=tuple(options.domain or DOMAINS))
    return render_zip(faces, options.out, options.sheet, progress())


def add_render(kinds: Verbs) -> None:
    """Add `data render`."""
    verb = new_verb(
        kinds,
        "render",
        render,
        examples=(
            "verisphere data render faces.zip --people 500 --images 8",
            "verisphere data render dark.zip --domain night --sheet dark.png",
        ),
    )
    verb.add_argument("out", type=Path, metavar="OUT.zip", help="archive to write, one folder a person")
    verb.add_argument("--people", type=int, default=200, help="how many people (200)")
    verb.add_argument("--images", type=int, default=10, help="images of each (10)")
    verb.add_argument("--seed", type=int, default=0, help="another seed, other people of the same names (0)")
    verb.add_argument("--first-person", type=int, default=0, help="number of the first person (0)")
    verb.add_argument("--domain", action="append", help="capture condition; repeat for several (all)")
    verb.add_argument("--difficulty", default="medium", help="easy, medium or hard (medium)")
    verb.add_argument("--label-noise", type=float, default=0.0, help="share of images under a wrong name (0)")
    verb.add_argument("--sheet", type=Path, help="also write a contact sheet, a PNG")


def align(options: argparse.Namespace) -> Outcome:
    """Find the face on each photograph and cut it out, aligned for a model (extra: detect)."""
    from verisphere.ship.align import align_photos

    return options_as(align_photos, options, image_format=options.format, progress=progress())


def add_align(verbs: Verbs) -> None:
    """Add `align`."""
    verb = new_verb(
        verbs,
        "align",
        align,
        examples=(
            "verisphere align photos aligned",
            "verisphere align photos aligned.zip --detector face_detection_yunet_2023mar.onnx --format jpg",
        ),
    )
    verb.add_argument("source", type=Path, metavar="SRC", help="folder or zip archive of photographs, at any depth")
    verb.add_argument(
        "out",
        type=Path,
        metavar="DST",
        help="folder, or .zip archive, for the crops: the photographs' paths, with the suffix of --format",
    )
    add_template(verb)
    verb.add_argument(
        "--landmarks", type=Path, metavar="FILE", help="five points a face, JSON or CSV, instead of a detector"
    )
    what = "crop all faces of a photograph, as NAME_1, NAME_2, ...; photographs.csv says which are on one"
    verb.add_argument("--every-face", action="store_true", help=what)
    verb.add_argument("--format", choices=("png", "jpg"), default="png", help="of the crops (png)")
    add_detector(verb)
    add_min_face(verb)
    _add_for_far(verb)
    add_trust_code(verb)
    add_device(verb)
    add_work(verb)
    add_cost(verb, cost_of_images("source", align, held=False))


def _add_for_far(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--for-far",
        metavar="F",
        help="first say how many people a confident threshold at FAR F needs, and how many there are",
    )


def embed(options: argparse.Namespace) -> str:
    """Embed aligned images with a trained model, or an untrained one."""
    from verisphere.models.embed import embed_faces

    how = embedding_options(options) | {"merge": options.merge_parts, "progress": progress()}
    return options_as(embed_faces, options, **how)


def _embed_one_file(options: argparse.Namespace) -> str:
    """Embed into a file, also where a folder of shards is asked for, whose pieces are shards."""
    from verisphere.models.embed import is_one_file

    if not is_one_file(options.out, options.shards, options.store):
        options.out, options.shards, options.store = options.out.with_suffix(".npz"), None, "float32"
    return embed(options)


def add_embed(verbs: Verbs) -> None:
    """Add `embed`."""
    verb = new_verb(
        verbs,
        "embed",
        embed,
        less_memory="lower --batch-size or --workers",
        examples=(
            "verisphere embed runs/first faces.zip --out embeddings.npz",
            "verisphere embed model aligned --out embedded --store int8 --flip --workers 4",
        ),
    )
    add_names(verb)
    verb.add_argument(
        "model",
        type=Path,
        help="folder of a run, checkpoint or model, or the model.onnx of an exported run; or a recipe, by file or "
        "name, for its untrained network",
    )
    verb.add_argument("faces", type=Path, help=SET)
    out = "embeddings file to write (.npz), or, without a suffix, a folder of shards, which a stopped run continues"
    verb.add_argument("--out", type=Path, required=True, metavar="OUT", help=out)
    shards = "rows of a shard, whole batches; the memory that is taken grows with them, not with the set (32768)"
    verb.add_argument("--shards", type=int, metavar="ROWS", help=shards)
    stored = "of a folder of shards: numbers of the stored rows; how far scores move is printed (float32)"
    verb.add_argument("--store", choices=("float32", "float16", "int8"), default="float32", help=stored)
    verb.add_argument("--people", type=Path, help="embed only the people of this list")
    _add_for_far(verb)
    add_embedding_options(verb)
    add_work(verb, itself=lambda options: not options.out.suffix)
    add_cost(verb, cost_of_images("faces", _embed_one_file))


def add_embedding_options(verb: argparse.ArgumentParser) -> None:
    """The options for embedding images, which `embedding_options` reads."""
    verb.add_argument(
        "--flip",
        action=argparse.BooleanOptionalAction,
        help="add the embedding of the mirror image (as an exported model was calibrated; else not)",
    )
    verb.add_argument("--batch-size", type=int, help="images at a time (128)")
    verb.add_argument("--workers", type=int, default=1, help="processes that read images (1)")
    verb.add_argument("--bfloat16", action="store_const", const=True, help="run the network in bfloat16")
    add_trust_code(verb)
    add_device(verb)


def embedding_options(options: argparse.Namespace) -> dict[str, Any]:
    """Options for embedding images whose arguments in `embed_faces` and `run_suite` have other names or types."""
    import torch

    from verisphere.base.device import choose_device

    return {
        "precision": torch.bfloat16 if options.bfloat16 else torch.float32,
        "device": choose_device(options.device),
        "trust": options.trust_code,
    }
