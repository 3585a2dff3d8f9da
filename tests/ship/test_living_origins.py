"""A gallery that changes takes photographs that were embedded in one way, whatever it knows of its strangers."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from living_galleries import DIM, ENROLLED, STRANGE, people, strangers
from verisphere.backbones.backbone import Backbone
from verisphere.base.provenance import Origin, Preprocessing
from verisphere.base.vocabulary import Embeddings, ImageSource
from verisphere.cli.start import main
from verisphere.files.bridge import Bridge
from verisphere.files.calibration import Source
from verisphere.files.embeddings import write_embeddings
from verisphere.models.folder import Model
from verisphere.ship.calibration_check import Accepted
from verisphere.ship.face_search import FaceOfPhotograph, aligned_faces
from verisphere.ship.living.enrolment import png
from verisphere.ship.living.gallery import LivingGallery, create_gallery
from verisphere.ship.living.migrate import migrate
from verisphere.ship.living.records import NewPhotographs
from verisphere.ship.notes import notes_on_model

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


class Sums(Backbone):
    """An embedding of the sums of pixels over colours, about their middle."""

    input_size = (4, 4)
    mean, scale = 127.5, 128.0

    def embed(self, images):
        return images.sum(1).flatten(1)


class Turned(Bridge):
    """A map that writes the numbers of a row in the opposite order."""

    def __init__(self, old: Origin, new: Origin) -> None:
        sources = {side: Source(f"{side}.npz", "0" * 64, "embeddings", 1, 1) for side in ("old_source", "new_source")}
        vars(self).update(old=old, new=new, fitted=(), **sources)

    def apply(self, rows):
        return np.ascontiguousarray(rows[:, ::-1])


def model_for(template: str) -> Model:
    return Model(Path("model"), "tiny", Sums(DIM).eval(), "0" * 64, False, template, ())


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


def test_rows_cross_a_bridge_to_a_model_that_takes_other_crops(tmp_path):
    gallery, model = gallery_of(tmp_path / "door", OURS), model_for("sphereface_112x96")
    their = model.origin(ImageSource("new", None, "sphereface_112x96 by MTCNN"))
    bridge = Turned(OURS, their)
    before = LivingGallery(gallery.path)
    with pytest.raises(ValueError, match=r"^the bridge from old_source.npz to new_source.npz: not made as .*weights"):
        migrate(gallery, model, strangers(replace(STRANGE, origin=their)), Turned(OTHERS["weights"], their))
    done = migrate(gallery, model, strangers(replace(STRANGE, origin=their)), bridge)
    assert (done.carried, gallery.origin.source.template) == (90, "sphereface_112x96")
    with pytest.raises(ValueError, match="detector"):
        gallery.enrol(made(people("guest", 2), replace(their, alignment="sphereface_112x96 by YuNet")))
    with pytest.raises(ValueError, match="it was carried over to another model meanwhile"):
        before.person("person003")
    with pytest.raises(ValueError, match="it was carried over to another model meanwhile"):
        migrate(before, model_for("mine"), strangers(replace(STRANGE, origin=None)))
    assert LivingGallery(gallery.path).threshold.people == 30


def test_strangers_of_the_old_model_are_refused_as_other_than_the_new_one_makes_them(tmp_path):
    gallery, model = gallery_of(tmp_path / "door", OURS), model_for("arcface_112x112")
    with pytest.raises(ValueError, match=r"not made as model embeds \(weights abab.*; embed with the new model"):
        migrate(gallery, model, strangers(replace(STRANGE, origin=OURS)), drop=True)
    assert (gallery.origin, gallery.threshold.people) == (OURS, 30)


def test_kept_crops_are_not_embedded_by_a_model_that_takes_others(tmp_path):
    gallery = create_gallery(tmp_path / "door", strangers(), "1e-2")
    crop = png(FaceOfPhotograph(np.zeros((4, 4, 3), np.uint8)))
    gallery.enrol(replace(made(ENROLLED, OURS), images=[crop] * len(ENROLLED)))
    with pytest.raises(ValueError, match="its kept crops are aligned to arcface_112x112, and model takes mine"):
        migrate(gallery, model_for("mine"), strangers())


def test_an_empty_gallery_forgets_how_its_people_were_embedded(tmp_path):
    gallery = gallery_of(tmp_path / "door", None)
    gallery.remove(sorted(set(ENROLLED.identities.tolist())))
    gallery.enrol(made(ENROLLED, OTHERS["weights"]))
    assert gallery.threshold.people == 30


def test_new_strangers_decide_what_is_recorded_of_strangers(tmp_path):
    gallery = gallery_of(tmp_path / "door", NOTHING_RECORDED)
    gallery.promise.set_strangers(strangers(replace(STRANGE, origin=replace(OURS, alignment=None))), "1e-2")
    assert gallery.origin == OURS


@pytest.mark.usefixtures("process_as_it_was")
def test_rows_of_unrecorded_pixels_are_enrolled_only_if_that_is_accepted(tmp_path, capsys):
    gallery = create_gallery(tmp_path / "door", strangers(replace(STRANGE, origin=OURS)), "1e-2")
    write_embeddings(tmp_path / "old.npz", replace(ENROLLED, origin=NOTHING_RECORDED))
    enrol = ["--default-allocator", "gallery", "enrol", str(gallery.path), str(tmp_path / "old.npz")]
    assert main(enrol) == 2
    assert "which did not record the pixels" in capsys.readouterr().err
    assert main([*enrol, "--accept-unrecorded-pixels"]) == 0
    assert "Some of its rows or strangers were made by an earlier version, which did not" in gallery.info().text()
    assert [origin.preprocessing for origin in gallery.promise.origins] == [PIXELS, None]
    assert main([*enrol[:-1], str(tmp_path), "--accept-unrecorded-pixels"]) == 2
    assert "photographs are embedded now" in capsys.readouterr().err


def test_strangers_of_an_unknown_model_leave_the_threshold_tied_to_none(tmp_path):
    """The origin of the strangers before them stayed, and so no answer said that the new threshold is of any model."""
    gallery = gallery_of(tmp_path / "door", OURS)
    assert "nothing ties" not in gallery.info().text().lower()
    gallery.promise.set_strangers(strangers(replace(STRANGE, origin=None)), "1e-2")
    assert gallery.origin is None
    assert "Nothing ties the threshold to this model" in gallery.info().text()
    with pytest.raises(ValueError, match="weights"):  # the enrolled photographs still say what others have to be
        gallery.enrol(made(people("guest", 2), OTHERS["weights"]))


def test_rows_that_say_nothing_of_their_model_are_said_to_be_taken_on_trust(tmp_path):
    model = model_for("arcface_112x112")
    ours = model.origin(ImageSource("here", None, None))
    gallery = create_gallery(tmp_path / "door", strangers(replace(STRANGE, origin=ours)), "1e-2")
    gallery.enrol(made(ENROLLED, ours))

    def notes() -> tuple[str, ...]:
        promise = gallery.promise
        return notes_on_model(
            model, gallery.threshold, True, aligned_faces((4, 4)), gallery.path, promise.origin, *promise.enrolled
        )

    assert "on trust" not in f"{notes()}{gallery.info().text()}"
    gallery.enrol(made(people("guest", 2), None))
    gallery.enrol(made(people("late", 2), ours))
    said = "Nothing in the gallery says which model made some of its rows: that it was this one is taken on trust."
    assert said in notes()
    assert said in gallery.info().text()


@pytest.mark.parametrize("unknown", ["old", "new", "rows", ""])
def test_rows_across_a_bridge_that_says_nothing_of_a_model_are_taken_on_trust(tmp_path, unknown):
    gallery, model = gallery_of(tmp_path / "door", OURS), model_for("arcface_112x112")
    their = model.origin(ImageSource("new", None, "arcface_112x112 by MTCNN"))
    if unknown == "rows":
        gallery.enrol(made(people("guest", 2), None))
    bridge = Turned(*(None if unknown == side else origin for side, origin in (("old", OURS), ("new", their))))
    done = migrate(gallery, model, strangers(replace(STRANGE, origin=their)), bridge)
    assert done.info.trusted == bool(unknown)
    assert ("on trust" in done.text()) == bool(unknown)


@pytest.mark.parametrize("unrecorded", ["bridge", "rows", ""])
def test_rows_of_unrecorded_pixels_are_still_said_to_be_so_across_a_bridge(tmp_path, unrecorded):
    gallery, model = gallery_of(tmp_path / "door", OURS), model_for("arcface_112x112")
    their = model.origin(ImageSource("new", None, "arcface_112x112 by MTCNN"))
    if unrecorded == "rows":
        gallery.enrol(made(people("guest", 2), NOTHING_RECORDED))
    bridge, accepted = (
        Turned(NOTHING_RECORDED if unrecorded == "bridge" else OURS, their),
        Accepted(unrecorded_pixels=True),
    )
    done = migrate(gallery, model, strangers(replace(STRANGE, origin=their)), bridge, accepted=accepted)
    assert ("which did not record the pixels" in done.text()) == bool(unrecorded)
    about = (
        gallery.threshold,
        False,
        aligned_faces(model.backbone.input_size),
        gallery.path,
        gallery.origin,
        *gallery.promise.enrolled,
    )
    assert ("which did not record the pixels" in " ".join(notes_on_model(model, *about))) == bool(unrecorded)


def test_the_origin_is_that_of_the_gallery_as_it_is_now(tmp_path):
    gallery = gallery_of(tmp_path / "door", OURS)
    other = LivingGallery(gallery.path)
    with other.store.writing():
        other.store.set_fact("origin", OTHERS["weights"])
    assert gallery.origin == OTHERS["weights"]
    with pytest.raises(ValueError, match="weights"):
        gallery.enrol(made(people("guest", 2), OURS))
    assert np.array_equal(gallery.person("person003")[1], other.person("person003")[1])
