"""A gallery that changes takes photographs that were embedded in one way, whatever it knows of its strangers."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from living_galleries import ENROLLED, STRANGE, people, strangers
from verisphere.base.provenance import Origin, Preprocessing
from verisphere.base.vocabulary import Embeddings
from verisphere.cli.start import main
from verisphere.files.embeddings import write_embeddings
from verisphere.ship.calibration_check import Accepted
from verisphere.ship.living.gallery import LivingGallery, create_gallery
from verisphere.ship.living.records import NewPhotographs

PIXELS = Preprocessing((112, 112), "RGB", "NCHW", 0.0, 1.0)
OURS = Origin("ab" * 32, False, "float32", "here", None, "arcface_112x112 by MTCNN", PIXELS)
NOTHING_RECORDED = replace(OURS, preprocessing=None)
OTHERS = {
    "weights": replace(OURS, model="cd" * 32),
    "mean": replace(OURS, preprocessing=replace(PIXELS, mean=127.5)),
    "flip": replace(OURS, flip=True),
    "template": replace(OURS, alignment="sphereface_112x96 by MTCNN"),
    "detector": replace(OURS, alignment="arcface_112x112 by YuNet"),
}


def made(rows: Embeddings, origin: Origin | None) -> NewPhotographs:
    return NewPhotographs.of(replace(rows, origin=origin))


def gallery_of(folder: Path, origin: Origin | None) -> LivingGallery:
    """A gallery whose strangers were embedded so, with people who were embedded in our way."""
    accepted = Accepted(unrecorded_pixels=True)
    gallery = create_gallery(folder, strangers(replace(STRANGE, origin=origin)), "1e-2", accepted=accepted)
    gallery.enrol(made(ENROLLED, OURS))
    return gallery


@pytest.mark.parametrize(
    "origin", [None, NOTHING_RECORDED, replace(OURS, alignment=None)], ids=["nothing", "no pixels", "no alignment"]
)
def test_photographs_are_compared_with_those_enrolled_where_nothing_is_known_of_the_strangers(tmp_path, origin):
    gallery = gallery_of(tmp_path / "door", origin)
    known = [] if origin is None else origin.differences
    for name, other in OTHERS.items():
        if known and known(other):
            continue
        with pytest.raises(ValueError, match=f"not made as .*door was .*{name}"):
            gallery.enrol(made(people("guest", 2), other))
        with pytest.raises(ValueError, match=f"not made as .*door was .*{name}"):
            gallery.promise.set_strangers(strangers(replace(STRANGE, origin=other)), "1e-2")
    assert gallery.threshold.people == 30
    gallery.enrol(made(people("guest", 2), replace(OURS, images="elsewhere")))
    assert len(LivingGallery(gallery.path).people) == 32
    assert gallery.promise.origins[origin is not None :] == (replace(OURS, images=""),)


def test_an_empty_gallery_forgets_how_its_people_were_embedded(tmp_path):
    gallery = gallery_of(tmp_path / "door", None)
    gallery.remove(sorted(set(ENROLLED.identities.tolist())))
    gallery.enrol(made(ENROLLED, OTHERS["weights"]))
    assert gallery.threshold.people == 30


def test_new_strangers_decide_what_is_recorded_of_strangers(tmp_path):
    gallery = gallery_of(tmp_path / "door", NOTHING_RECORDED)
    gallery.promise.set_strangers(strangers(replace(STRANGE, origin=replace(OURS, alignment=None))), "1e-2")
    assert gallery.origin == OURS


def test_rows_of_unrecorded_pixels_are_enrolled_only_if_that_is_accepted(tmp_path, capsys):
    gallery = create_gallery(tmp_path / "door", strangers(replace(STRANGE, origin=OURS)), "1e-2")
    write_embeddings(tmp_path / "old.npz", replace(ENROLLED, origin=NOTHING_RECORDED))
    enrol = ["--default-allocator", "gallery", "enrol", str(gallery.path), str(tmp_path / "old.npz")]
    assert main(enrol) == 2
    assert "which did not record the pixels" in capsys.readouterr().err
    assert main([*enrol, "--accept-unrecorded-pixels"]) == 0
    assert [origin.preprocessing for origin in gallery.promise.origins] == [PIXELS, None]
    assert main([*enrol[:-1], str(tmp_path), "--accept-unrecorded-pixels"]) == 2
    assert "photographs are embedded now" in capsys.readouterr().err


def test_the_origin_is_that_of_the_gallery_as_it_is_now(tmp_path):
    gallery = gallery_of(tmp_path / "door", OURS)
    other = LivingGallery(gallery.path)
    with other.store.writing():
        other.store.set_fact("origin", OTHERS["weights"])
    assert gallery.origin == OTHERS["weights"]
    with pytest.raises(ValueError, match="weights"):
        gallery.enrol(made(people("guest", 2), OURS))
    assert np.array_equal(gallery.person("person003")[1], other.person("person003")[1])
