"""A gallery that changes: who is found in it, and which threshold follows from its strangers, after every change."""

import getpass
import io
import os
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from living_galleries import DIM, ENROLLED, STRANGE, people, promised, strangers, without
from verisphere.base.identity import names_taken
from verisphere.base.vocabulary import Embeddings
from verisphere.base.words import Names
from verisphere.decide import TooFewComparisonsError, one_probe_each
from verisphere.files.embeddings import write_embeddings
from verisphere.files.gallery_store import open_store
from verisphere.models.gallery import Gallery
from verisphere.score import unit_rows
from verisphere.ship.calibrated_files import EmbeddingsSet
from verisphere.ship.living.gallery import LivingGallery, create_gallery
from verisphere.ship.living.records import NewPhotographs


@pytest.fixture(params=["sqlite", "postgres"])
def door(request, tmp_path) -> Iterator[str | Path]:
    """A place for a gallery in each kind of store."""
    if request.param == "sqlite":
        yield tmp_path / "door"
        return
    with request.getfixturevalue("server").new_gallery() as place:
        yield place


@pytest.fixture
def folder(tmp_path) -> Path:
    """The folder of a gallery."""
    made = create_gallery(tmp_path / "door", strangers(), "1e-2")
    made.enrol(NewPhotographs.of(ENROLLED))
    made.store.close()
    return tmp_path / "door"


@pytest.fixture
def gallery(door):
    made = create_gallery(door, strangers(), "1e-2")
    made.enrol(NewPhotographs.of(ENROLLED))
    yield made
    made.store.close()


def test_the_promise_is_that_of_the_same_gallery_made_at_once_after_every_change(gallery):
    promised(gallery, ENROLLED)
    gallery.remove(["person003", "person017"])
    left = without(["person003", "person017"])
    promised(gallery, left)
    gallery.store.compact()
    promised(gallery, left)
    more = people("guest", 9, 1, seed=5)
    gallery.enrol(NewPhotographs.of(more))
    both = Embeddings(
        np.concatenate([left.embeddings, more.embeddings]),
        identities=[*left.identities.tolist(), *more.identities.tolist()],
    )
    promised(gallery, both)


def test_finds_the_people_that_a_gallery_made_at_once_finds(gallery):
    probes = ENROLLED.embeddings + 0.2 * np.random.default_rng(3).standard_normal((90, DIM)).astype(np.float32)
    whole = Gallery(ENROLLED).search(probes)
    found = gallery.search(probes)
    assert found.statistic.tolist() == whole.statistic.tolist()
    names = [gallery.people[person] for person in found.person]
    assert names == Gallery(ENROLLED).people[whole.person].tolist()


def test_enrolling_again_changes_nothing(gallery):
    before = gallery.info()
    done = gallery.enrol(NewPhotographs.of(ENROLLED))
    assert (done.photographs, done.people, done.known) == (0, 0, 90)
    after = gallery.info()
    assert (after.people, after.photographs, after.threshold) == (before.people, before.photographs, before.threshold)


def crop(side: int, seed: int) -> bytes:
    """An aligned crop of noise as PNG."""
    file = io.BytesIO()
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (side, side, 3), np.uint8)).save(file, "PNG")
    return file.getvalue()


def pieces(image: bytes) -> list[bytes]:
    """Bytes of an image from its beginning, middle and end; a longer part may lie on two pages of a database."""
    return [image[place : place + 32] for place in (40, len(image) // 2, len(image) - 60)]


def test_a_removed_person_is_not_found_and_leaves_no_trace(request, door, gallery):
    row = ENROLLED.embeddings[:1]
    with_crops = NewPhotographs.of(ENROLLED)
    gone = with_crops.rows[0].astype("<f4").tobytes()
    crops = [crop(side, seed=number) for number, side in enumerate((8, 24, 112) * 30)]
    gallery.enrol(replace(with_crops, images=crops))
    traces = [b"person000", ENROLLED.names[0].encode(), with_crops.digests[0].encode(), gone, gone[:64]]
    traces += [part for image in crops[:3] for part in pieces(image)]

    def held() -> bytes:
        if isinstance(door, Path):
            return b"".join(file.read_bytes() for file in door.iterdir())
        return bytes(request.getfixturevalue("server").tables())

    assert [trace for trace in traces if trace not in held()] == []
    assert gallery.people[gallery.search(row).person[0]] == "person000"
    gallery.remove(["person000"], operator="Olga")
    assert gallery.people[gallery.search(row).person[0]] != "person000"
    assert gallery.info().removed == 3
    gallery.store.compact()
    assert gallery.info().removed == 0
    left = held()
    assert b"person001" in left
    assert pieces(crops[3])[0] in left
    assert [trace for trace in traces if trace in left] == []
    entries = gallery.store.select("SELECT operator, action, photographs, code FROM audit WHERE operator = 'Olga'")
    assert entries[0][:3] == ("Olga", "remove", 3)
    assert gallery.store.select("SELECT count(*) FROM audit WHERE code = ?", entries[0][3]) == [(2,)]


def test_a_compaction_that_a_reader_hinders_leaves_what_was_removed_recorded(folder, monkeypatch):
    monkeypatch.setattr("verisphere.files.gallery_store.sqlite._WAIT_S", 0.1)
    gallery, other = LivingGallery(folder), LivingGallery(folder)
    with other.store.reading():
        gallery.remove(["person000"])
        with pytest.raises(ValueError, match=r"door: another process reads this gallery, .* compact it again later"):
            gallery.store.compact()
        assert gallery.info().removed == 3
        assert b"person000" in b"".join(file.read_bytes() for file in folder.iterdir())
        gallery.remove(["person007"])
        promised(gallery, without(["person000", "person007"]))
        with pytest.raises(ValueError, match="compact it again later"):
            gallery.store.compact()
        gallery.enrol(NewPhotographs.of(people("guest", 4, 2, seed=9)))
        assert gallery.info().removed == 6
    gallery.store.compact()
    assert gallery.info().removed == 0
    held = b"".join(file.read_bytes() for file in folder.iterdir())
    assert b"person001" in held
    assert b"person000" not in held
    assert b"person007" not in held
    assert other.people[other.search(people("guest", 4, 2, seed=9).embeddings[6:7]).person[0]] == "guest003"
    for store in (gallery.store, other.store):
        store.close()


def test_of_two_compactions_the_later_one_ends_what_waits(folder, monkeypatch):
    gallery, other, vacuum = LivingGallery(folder), LivingGallery(folder), []
    select = gallery.store.select

    def selecting(sql, *values):
        if sql == "VACUUM" and not vacuum:
            vacuum.append(sql)
            other.remove(["person007"])  # too late for the one under way
            with other.store.writing():
                other.store.rewrite(lambda slots, rows: rows, DIM)  # and the other is killed
        return select(sql, *values)

    gallery.remove(["person000"])
    monkeypatch.setattr(gallery.store, "select", selecting)
    gallery.store.compact()
    assert gallery.info().removed == 6
    gallery.store.compact()
    assert gallery.info().removed == 0
    for store in (gallery.store, other.store):
        store.close()


def test_another_reader_sees_changes_and_survives_a_compaction(door, gallery):
    other = LivingGallery(door)
    row = ENROLLED.embeddings[15:16]
    assert other.people[other.search(row).person[0]] == "person005"
    gallery.remove(["person005"])
    gallery.store.compact()
    gallery.enrol(NewPhotographs.of(people("guest", 4, 2, seed=9)))
    assert other.people[other.search(row).person[0]] != "person005"
    guest = people("guest", 4, 2, seed=9).embeddings[6:7]
    assert other.people[other.search(guest).person[0]] == "guest003"
    assert other.threshold == gallery.threshold
    other.store.close()


def test_a_stranger_who_is_enrolled_is_a_stranger_no_longer_while_the_promise_lasts(gallery):
    done = gallery.enrol(NewPhotographs.of(STRANGE.take(np.arange(40))))  # 20 people
    assert len(done.strangers_left) == 20
    assert gallery.threshold.strangers == 300
    before = replace(gallery.info(), size=0)
    with pytest.raises(TooFewComparisonsError, match=r"needs 299 strangers.*got 298: add 1"):
        gallery.enrol(NewPhotographs.of(STRANGE.take(np.arange(40, 44))))
    assert replace(gallery.info(), size=0) == before
    gallery.search(ENROLLED.embeddings[:1])  # finding people never ends


def test_where_all_strangers_are_enrolled_the_number_that_is_needed_is_stated(gallery):
    with pytest.raises(TooFewComparisonsError, match=r"needs 299 strangers.*got 0: add 299.*nobody who is enrolled is"):
        gallery.enrol(NewPhotographs.of(STRANGE), accept_alarms=True)
    assert gallery.threshold.strangers == 320


def test_other_strangers_change_the_promise(gallery):
    more = people("other", 1000, 1, seed=8)
    gallery.promise.set_strangers(strangers(more), "5e-3", "expected", seed=4)
    assert (gallery.threshold.strangers, gallery.threshold.fpir_target) == (1000, "5e-3")
    numbers = np.concatenate([more.embeddings, ENROLLED.embeddings[:1]])
    both = Embeddings(numbers, identities=[*more.identities.tolist(), "person000"])
    with pytest.raises(ValueError, match=r"1 of its people are enrolled in .*, such as 'person000'"):
        gallery.promise.set_strangers(strangers(both), "1e-2")
    assert gallery.threshold.strangers == 1000


@pytest.mark.parametrize(("rule", "count"), [("merge", 340), ("exact", 341)])
def test_how_names_of_strangers_were_taken_is_recorded(gallery, tmp_path, rule: Names, count: int):
    assert gallery.info().names_rule is None
    more = people("other", 340, 2, seed=8)
    more.identities[0] = more.identities[0].upper()
    write_embeddings(tmp_path / "more.npz", more)
    with names_taken(rule):
        gallery.promise.set_strangers(EmbeddingsSet.read(tmp_path / "more.npz"))
    assert (gallery.info().names_rule, gallery.threshold.strangers) == (rule, count)


def test_too_few_strangers_make_no_gallery(tmp_path, door):
    with pytest.raises(TooFewComparisonsError, match=r"strangers\.npz: guarantee 'confident' at FPIR 1e-3 needs 2,995"):
        create_gallery(door, strangers(), "1e-3")
    assert not list(tmp_path.iterdir())
    with pytest.raises(FileNotFoundError, match="no gallery that `verisphere gallery create` made"):
        LivingGallery(door)


def test_a_spelling_of_a_name_is_refused_unless_it_is_to_be_merged(gallery):
    other = Embeddings(ENROLLED.embeddings[:1] + 0.1, identities=["PERSON000"])
    with pytest.raises(ValueError, match=f"{re.escape(gallery.store.name)}: 'PERSON000' is 'person000' but for case"):
        gallery.enrol(NewPhotographs.of(other))
    with names_taken("merge"):
        gallery.enrol(NewPhotographs.of(other))
    assert gallery.info().people == 30
    with pytest.raises(ValueError, match=r"'Person000' is not enrolled \(but 'person000' is\)"):
        gallery.remove(["Person000"])
    gallery.enrol(NewPhotographs.of(Embeddings(people("guest", 1).embeddings[:1], identities=["3.0"])))
    with pytest.raises(ValueError, match="'03' is not enrolled"):
        gallery.remove(["03"])
    assert gallery.remove(["+3"]) == 1  # a whole number has one spelling


def test_a_whole_number_is_one_person_in_every_spelling(gallery):
    """A photograph by itself is enrolled under the name that was given, which no reader has read."""
    guest = NewPhotographs.of(people("guest", 1, 3))
    for row, name in enumerate(("60.0", "60", "+60")):
        gallery.enrol(replace(guest.take([row]), people=[name]))
    assert next((one.name, one.photographs) for one in gallery.listing().people) == ("60", 3)
    assert gallery.person("60.0")[0] == "60"
    gallery.store.change("UPDATE people SET name = ? WHERE name = ?", [("60.0", "60")])  # as enrolled by others before
    assert gallery.person("60")[0] == "60.0"
    gallery.enrol(replace(NewPhotographs.of(people("more", 1, seed=5)), people=["60"]), accept_alarms=True)
    assert gallery.remove(["60"]) == 4


@pytest.mark.parametrize("name", ["-1", "-1.0", " -1\u200b", "-1e0", "N/A", "\u200b"])
def test_nobody_is_enrolled_in_no_spelling(folder, name):
    guest = people("guest", 1)
    rows = replace(NewPhotographs.of(guest), people=[name] * len(guest))
    with pytest.raises(ValueError, match="is no name of a person"):
        LivingGallery(folder).enrol(rows)


def test_people_whose_consent_has_expired_are_not_found(gallery):
    guest = people("guest", 1, 2, seed=11)
    gallery.enrol(NewPhotographs.of(guest), consent="form 7", expires=date(2020, 1, 1), operator="Olga")
    gallery.enrol(NewPhotographs.of(people("later", 1, 2, seed=12)), expires=date(2999, 1, 1))
    assert gallery.people[gallery.search(guest.embeddings[:1]).person[0]] != "guest000"
    with pytest.raises(ValueError, match="the consent of 'guest000' has expired on 2020-01-01"):
        gallery.person("guest000")
    assert gallery.info().expired == 1
    assert {(one.consent, one.operator) for one in gallery.listing().people if one.name == "guest000"} == {
        ("form 7", "Olga")
    }
    assert gallery.remove_expired() == 2
    assert gallery.info().expired == 0


def test_an_alarm_names_nobody_whose_consent_has_expired(gallery):
    guest = people("guest", 1, 3, seed=11)
    gallery.enrol(NewPhotographs.of(guest.take(np.arange(1))), expires=date(2020, 1, 1))
    second = replace(NewPhotographs.of(guest.take(np.arange(1, 2))), people=["Second"])
    assert gallery.enrol(second).stopped == ()
    (alarm,) = gallery.enrol(replace(NewPhotographs.of(guest.take(np.arange(2, 3))), people=["Third"])).stopped
    assert alarm.other == "Second"
    own = replace(NewPhotographs.of(ENROLLED.take(np.arange(1))), people=["guest000"], digests=["new"])
    assert [alarm.other for alarm in gallery.enrol(own).stopped] == ["person000"]


def test_an_enrolment_of_somebody_enrolled_renews_consent_and_expiry_and_keeps_the_image(gallery):
    guest = NewPhotographs.of(people("guest", 1, 2, seed=11))
    gallery.enrol(guest, consent="form 7", expires=date(2020, 1, 1))
    done = gallery.enrol(replace(guest, images=[b"first", None]), expires=date(2999, 1, 1), operator="Olga")
    assert (done.photographs, done.known, done.renewed, gallery.info().expired) == (0, 2, 1, 0)
    gallery.enrol(replace(guest, images=[b"other", b"second"]))  # says nothing of the consent, and has an image
    (listed,) = [one for one in gallery.listing().people if one.name == "guest000"]
    assert (listed.consent, listed.expires) == ("form 7", "2999-01-01")
    images = gallery.store.select("SELECT image FROM photographs WHERE image IS NOT NULL ORDER BY slot")
    assert images == [(b"first",), (b"second",)]
    renewals = "SELECT a.operator, a.photographs FROM audit a JOIN people USING (code) WHERE action = 'consent'"
    assert gallery.store.select(renewals) == [("Olga", 0)]


def test_a_reader_that_has_begun_survives_a_compaction_and_the_end_of_others(folder, monkeypatch):
    monkeypatch.setattr("verisphere.files.gallery_store.sqlite._WAIT_S", 0.1)
    reader, other = LivingGallery(folder), LivingGallery(folder)
    listed = type(folder).iterdir
    with reader.store.reading():
        other.remove(["person001"])
        with pytest.raises(ValueError, match="compact it again later"):
            other.store.compact()
        assert len(reader.store.rows(np.arange(90))) == 90
    files = [*listed(folder), folder / "rows-0.f32"]  # of which the last is gone when its size is asked for
    monkeypatch.setattr(type(folder), "iterdir", lambda path: iter(files))
    assert reader.info().size == sum(file.stat().st_size for file in files[:-1])


def test_who_has_no_name_on_this_machine_is_recorded_by_number(folder, monkeypatch):
    def nameless():
        raise KeyError("getpwuid(): uid not found: 12345")

    monkeypatch.setattr(getpass, "getuser", nameless)
    gallery = LivingGallery(folder)
    gallery.remove(["person001"])
    assert gallery.store.select("SELECT operator FROM audit WHERE action = 'remove'") == [(f"user {os.getuid()}",)]


def test_rows_of_a_writer_that_was_killed_before_its_commit_do_not_count(folder):
    gallery = LivingGallery(folder)
    rows = folder / "rows-1.f32"
    with rows.open("ab") as file:
        file.write(b"\x01" * 4 * DIM * 3 + b"half a row")
    (folder / "rows-2.f32").write_bytes(b"of a compaction that was killed")
    assert gallery.info().photographs == 90
    gallery.enrol(NewPhotographs.of(people("guest", 2, 1, seed=13)))
    promised_rows = gallery.store.rows(np.arange(92))
    assert np.allclose(np.linalg.norm(promised_rows, axis=1), 1, atol=1e-6)
    assert rows.stat().st_size == 92 * 4 * DIM
    assert not (folder / "rows-2.f32").exists()


def test_a_second_writer_waits_and_then_says_so(folder):
    gallery = LivingGallery(folder)
    other = sqlite3.connect(folder / "gallery.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    gallery.store.select("PRAGMA busy_timeout = 50")
    with pytest.raises(ValueError, match="another process has been writing to this gallery"):
        gallery.remove(["person001"])
    assert gallery.people[gallery.search(ENROLLED.embeddings[3:4]).person[0]] == "person001"
    other.execute("ROLLBACK")
    gallery.remove(["person001"])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "rows-1.f32").write_bytes(b"12"), "2 bytes, but 90 rows of 16 numbers take 5,760"),
        (lambda folder: (folder / "rows-1.f32").unlink(), r"No such file .*rows-1\.f32"),
        (lambda folder: (folder / "gallery.db").write_bytes(b"no database" * 100), "is not the database of a gallery"),
        (lambda folder: (folder / "gallery.db").unlink(), "no gallery that `verisphere gallery create` made"),
    ],
)
def test_a_damaged_gallery_is_refused_in_one_line(folder, damage, message):
    for file in folder.glob("gallery.db-*"):
        file.unlink()
    damage(folder)
    with pytest.raises((ValueError, OSError), match=message):
        LivingGallery(folder).search(ENROLLED.embeddings[:1])


def carried_over(door: str | Path) -> None:
    """Another process changes the model of a gallery."""
    other = LivingGallery(door)
    with other.store.writing():
        other.store.rewrite(lambda slots, rows: np.ascontiguousarray(-rows), DIM)
        other.store.set_fact("migrations", 1)
    other.store.close()


def test_rows_of_the_model_before_are_refused_after_another_process_has_changed_it(door, gallery, monkeypatch):
    old = NewPhotographs.of(people("guest", 1, seed=5))
    monkeypatch.setattr(EmbeddingsSet, "implausible", lambda _: carried_over(door) or ())
    changes = [
        lambda: gallery.promise.set_strangers(strangers(), "1e-2"),
        lambda: gallery.enrol(old),
        lambda: gallery.search(old.rows),
        lambda: gallery.person("person000"),
    ]
    for take in changes:
        with pytest.raises(ValueError, match="it was carried over to another model meanwhile"):
            take()
    assert gallery.info().people == 30
    gallery = LivingGallery(door)
    gallery.enrol(old)
    for take in (gallery.enrol, lambda new: gallery.search(new.rows)):
        with pytest.raises(ValueError, match=f"15 numbers a row, and .* has {DIM}"):
            take(replace(old, rows=old.rows[:, 1:]))


def test_another_format_is_refused(door, gallery):
    gallery.store.change("UPDATE facts SET value = 'verisphere gallery 9' WHERE name = 'format'")
    with pytest.raises(ValueError, match="format 'verisphere gallery 9', and this version reads"):
        open_store(door)


def test_a_photograph_that_looks_like_another_person_is_stopped_and_shown(gallery):
    before = gallery.threshold
    near = ENROLLED.embeddings[[0, 3, 6]] + 0.01
    wrong = Embeddings(near, ["a.png", "b.png", "c.png"], ["person009", "newcomer", "person002"])
    done = gallery.enrol(NewPhotographs.of(wrong))
    assert (done.photographs, done.people) == (1, 0)
    assert [(alarm.photograph, alarm.person, alarm.other) for alarm in done.stopped] == [
        ("b.png", "newcomer", "person001"),
        ("a.png", "person009", "person000"),
    ]
    assert "b.png: the first of newcomer, and it is found as person001" in str(done.stopped[0])
    assert "a.png: nearer to person000 (0.9999) than to person009" in str(done.stopped[1])
    assert gallery.info().photographs == 91
    assert gallery.threshold.people == before.people
    done = gallery.enrol(NewPhotographs.of(wrong), accept_alarms=True)
    assert (done.photographs, done.people, done.stopped) == (2, 1, ())


def test_photographs_of_one_batch_are_compared_with_each_other(tmp_path):
    empty = create_gallery(tmp_path / "door", strangers(), "1e-2")
    mixed = ENROLLED.identities.copy()
    mixed[0] = "person001"  # one of three photographs under the name of another
    done = empty.enrol(NewPhotographs.of(Embeddings(ENROLLED.embeddings, ENROLLED.names, mixed)))
    assert [alarm.photograph for alarm in done.stopped] == [ENROLLED.names[0]]
    assert done.photographs == 89
    promised(empty, ENROLLED.take(np.arange(1, 90)))


def test_where_every_photograph_is_stopped_an_empty_gallery_stays_empty(tmp_path):
    empty = create_gallery(tmp_path / "door", strangers(), "1e-2")
    twice = Embeddings(ENROLLED.embeddings[[0, 0]], ["a.png", "b.png"], ["Ann", "Ben"])
    done = empty.enrol(NewPhotographs.of(twice))
    assert (done.photographs, len(done.stopped)) == (0, 2)
    assert empty.info().people == 0


def test_a_margin_lets_photographs_pass_that_are_hardly_nearer_to_another_person(gallery):
    both = (ENROLLED.embeddings[0] / np.linalg.norm(ENROLLED.embeddings[0])) + 0.95 * (
        ENROLLED.embeddings[3] / np.linalg.norm(ENROLLED.embeddings[3])
    )
    new = NewPhotographs.of(Embeddings(both[None], ["between.png"], ["person001"]))
    assert gallery.enrol(new).stopped
    assert gallery.enrol(new, margin=0.2).photographs == 1


def test_misses_are_measured_by_photographs_of_enrolled_people_each_looked_for_without_itself(gallery):
    two_faces = Embeddings(np.eye(DIM, dtype=np.float32)[:2], identities=["two faces", "two faces"])
    twin = Embeddings(ENROLLED.embeddings[:2] + 0.01, identities=["twin", "twin"])  # nearer to person000 than to itself
    single = people("single", 5, 1, seed=6)
    for others in (two_faces, twin, single):
        gallery.enrol(NewPhotographs.of(others), accept_alarms=True)
    gallery.enrol(NewPhotographs.of(people("gone", 2, 3, seed=7)), expires=date(2020, 1, 1))
    whole = [ENROLLED, two_faces, twin, single]
    units = unit_rows(np.concatenate([part.embeddings for part in whole])).double().numpy()
    person = np.unique([name for part in whole for name in part.identities], return_inverse=True)[1]
    scores, threshold = units @ units.T, gallery.threshold.threshold
    np.fill_diagonal(scores, -np.inf)
    rows = one_probe_each(np.repeat(np.arange(32), [3] * 30 + [2] * 2), seed=0)  # of people with two, as enrolled
    own, other = ([scores[row][(person == person[row]) == same].max() for row in rows] for same in (True, False))
    found = [mate > max(threshold, near) for mate, near in zip(own, other, strict=True)]
    assert (found[30], found[31], own[31] > threshold) == (False, False, True)
    assert gallery.info().threshold == gallery.threshold  # a search is made on request alone
    rate = gallery.info(found=True).threshold.identified
    assert (rate.identified, rate.total) == (sum(found), 32)
    assert str(rate) in gallery.info(found=True).text()


def test_no_misses_are_measured_by_rows_that_may_have_crossed_a_bridge(gallery):
    gallery.store.set_fact("migrations", 1)
    assert gallery.info(found=True).threshold == gallery.threshold
    gallery.store.change("UPDATE photographs SET image = ?", [(b"kept, and so embedded anew",)])
    assert gallery.info(found=True).threshold.identified.total == 30


def test_where_nobody_has_two_photographs_no_misses_are_measured(tmp_path):
    empty = create_gallery(tmp_path / "door", strangers(), "1e-2")
    assert empty.info(found=True).threshold is None
    empty.enrol(NewPhotographs.of(people("single", 5, 1, seed=6)))
    assert empty.info(found=True).threshold == empty.threshold


def test_everybody_can_leave(gallery):
    gallery.remove([f"person{number:03}" for number in range(30)])
    assert gallery.info().text().startswith("Nobody is enrolled yet.")
    with pytest.raises(ValueError, match="nobody is enrolled, so there is nobody to find"):
        gallery.search(ENROLLED.embeddings[:1])
    gallery.enrol(NewPhotographs.of(ENROLLED))
    promised(gallery, ENROLLED)
