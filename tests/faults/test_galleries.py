"""A gallery that processes are killed over, whose file is locked, whose disk is full or may not be written."""

import errno
import shutil
import sqlite3
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from faults.verbs import Act, environment, said
from living_galleries import ENROLLED, people, promised, strangers
from small_disk import mounted
from verisphere.files.embeddings import write_embeddings
from verisphere.files.gallery_store.sqlite import SqliteStore
from verisphere.ship.living.gallery import LivingGallery, create_gallery
from verisphere.ship.living.records import NewPhotographs


def killed(place: str | Path, kills: int) -> None:
    create_gallery(place, strangers(), "1e-2").store.close()
    call = [sys.executable, "-m", "faults.enrolling", "kills", place, str(kills)]
    done = subprocess.run(call, env=environment(), capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    steps = list(map(int, done.stdout.split()))
    assert len(steps) == kills
    assert steps == sorted(steps)
    assert steps[-1] >= kills // 2


@pytest.mark.slow
def test_fifty_kills_while_a_gallery_changes_lose_double_and_halve_nothing(tmp_path: Path):
    killed(tmp_path / "door", 50)


@pytest.mark.slow
def test_ten_kills_while_a_gallery_in_postgresql_changes_lose_double_and_halve_nothing(server):
    with server.new_gallery() as place:
        killed(place, 10)


ENROL = ("gallery", "enrol", "door", "more.npz")


@pytest.fixture
def door(world: Path) -> Path:
    """A gallery with its people, and an embeddings file of others."""
    made = create_gallery(world / "door", strangers(), "1e-2")
    made.enrol(NewPhotographs.of(ENROLLED))
    made.store.close()
    write_embeddings(world / "more.npz", people("guest", 5, 2, seed=5))
    return world / "door"


def unchanged(folder: Path) -> LivingGallery:
    gallery = LivingGallery(folder)
    assert gallery.info().people == 30
    promised(gallery, ENROLLED)
    return gallery


def one_line(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert done.returncode == 2, done.stderr
    (line,) = said(done)
    assert [word for word in words if word not in line] == [], line


@pytest.mark.slow
def test_a_locked_gallery_is_searched_and_a_second_writer_gives_up_in_one_line(act: Act, door: Path):
    other = sqlite3.connect(door / "gallery.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    one_line(act(*ENROL), "door: another process has been writing to this gallery for 10 seconds; try again")
    assert act("gallery", "info", "door").returncode == 0
    other.execute("ROLLBACK")
    other.close()
    unchanged(door).store.close()
    assert act(*ENROL).returncode == 0


@pytest.mark.slow
def test_a_gallery_that_another_program_holds_alone_is_one_line(act: Act, door: Path):
    other = sqlite3.connect(door / "gallery.db", isolation_level=None)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    for words in (ENROL, ("gallery", "info", "door"), ("gallery", "compact", "door")):
        done = act(*words)
        assert done.returncode in (0, 2)
        if done.returncode:
            one_line(done, "door: another process has been writing to this gallery")
    other.close()
    unchanged(door).store.close()


@pytest.mark.slow
@pytest.mark.parametrize("room", [0, 40, 260])
def test_a_disk_that_fills_up_while_people_are_enrolled(act: Act, world: Path, room: int):
    many = people("guest", 2000, 1, seed=5)
    write_embeddings(world / "many.npz", many)
    with mounted(world / "disk", 4096) as disk:
        made = create_gallery(disk / "door", strangers(), "1e-2")
        made.enrol(NewPhotographs.of(ENROLLED))
        made.store.close()
        used = sum(file.stat().st_blocks for file in (disk / "door").iterdir()) // 2
        with suppress(OSError):  # what was in use may have become more
            (disk / "filler").write_bytes(bytes((4096 - used - room) * 1024))
        one_line(act("gallery", "enrol", disk / "door", "many.npz"), str(disk / "door"), "No space left on device")
        with suppress(OSError):  # a compaction may need less room than is left
            (disk / "rest").write_bytes(bytes(4096 * 1024))
        with pytest.raises(OSError, match=f"No space left on device.*{disk / 'door'}"):
            compacted(disk / "door")
        for name in ("filler", "rest"):
            (disk / name).unlink()
        gallery = unchanged(disk / "door")
        gallery.enrol(NewPhotographs.of(many))
        gallery.store.close()
        compacted(disk / "door")
        assert len(list((disk / "door").glob("*.f32"))) == 1


def compacted(folder: Path) -> None:
    gallery = LivingGallery(folder)
    try:
        gallery.store.compact()
    finally:
        gallery.store.close()


@pytest.mark.slow
def test_a_file_of_a_gallery_that_may_not_grow(act: Act, door: Path):
    done = act(*ENROL, disk=6000)
    one_line(done, "door")
    unchanged(door).store.close()
    assert act(*ENROL).returncode == 0


def found(folder: Path) -> LivingGallery:
    """The gallery, in which everybody of those who were enrolled at first is found."""
    gallery = LivingGallery(folder)
    searched = gallery.search(ENROLLED.embeddings)
    assert [gallery.people[one] for one in searched.persons[:, 0].tolist()] == ENROLLED.identities.tolist()
    assert gallery.listing().people[0].name
    assert gallery.info().threshold == gallery.threshold
    return gallery


def with_journal(folder: Path) -> None:
    """Copy a gallery while another person is enrolled in its journal alone."""
    with_it = LivingGallery(folder)
    with_it.enrol(NewPhotographs.of(people("late", 1, 1, seed=9)))
    assert (folder / "gallery.db-wal").stat().st_size
    shutil.copytree(folder, folder.parent / "copy")
    with_it.store.close()
    (folder.parent / "copy" / "gallery.db-shm").unlink()


@pytest.mark.slow
def test_a_gallery_on_a_disk_that_may_not_be_written_is_searched(act: Act, world: Path, door: Path):
    with_journal(door)
    with mounted(world / "disk", 4096) as disk:
        shutil.copytree(door, disk / "door")
        shutil.copytree(door.parent / "copy", disk / "copy")
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        for words in (("enrol", disk / "door", "more.npz"), ("compact", disk / "door")):
            one_line(act("gallery", *words), f"{disk / 'door'}", "Permission denied")
        assert act("gallery", "info", disk / "door").returncode == 0
        found(disk / "door").store.close()
        one_line(
            act("gallery", "info", disk / "copy"), f"{disk / 'copy'}", "Permission denied"
        )  # its journal holds more
        reader = found(disk / "door")
        subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
        reader.enrol(NewPhotographs.of(people("guest", 5, 2, seed=5)))  # now that it may be written
        assert reader.info().people == 36
        reader.store.close()
        late = found(disk / "copy")
        assert [one.name for one in late.listing().people if one.name.startswith("late")] == ["late000"]
        late.store.close()


@pytest.mark.slow
def test_a_gallery_on_a_full_disk_is_searched(act: Act, world: Path, door: Path):
    with mounted(world / "disk", 4096) as disk:
        shutil.copytree(door, disk / "door")
        with suppress(OSError):
            (disk / "filler").write_bytes(bytes(4096 * 1024))
        reader = found(disk / "door")
        one_line(act(*ENROL[:2], disk / "door", "more.npz"), "No space left on device")
        found(disk / "door").store.close()
        (disk / "filler").unlink()
        assert act(*ENROL[:2], disk / "door", "more.npz").returncode == 0
        with pytest.raises(ValueError, match="another process has been writing to this gallery meanwhile; try again"):
            reader.info()
        assert reader.info().people == 35
        reader.store.close()


def test_a_frozen_gallery_returns_nothing_that_another_process_has_changed(door: Path, monkeypatch):
    """Whatever a statement has found while a writer was at work, the reader does not return it."""
    without_journal = SqliteStore._connect

    def full(self, address: str) -> None:
        if "immutable" not in address:
            raise OSError(errno.ENOSPC, "No space left on device", str(door))
        without_journal(self, address)

    monkeypatch.setattr(SqliteStore, "_connect", full)
    reader = LivingGallery(door)
    assert reader.info().people == 30
    with pytest.raises(OSError, match="No space left on device"):
        reader.remove([ENROLLED.identities[0]])
    monkeypatch.undo()
    writer = LivingGallery(door)
    writer.enrol(NewPhotographs.of(people("guest", 5, 2, seed=5)))
    with pytest.raises(ValueError, match="another process has been writing to this gallery meanwhile; try again"):
        reader.listing()  # and the gallery is opened as it is now
    assert (len(reader.listing().people), reader.info().people) == (35, 35)
    writer.store.close()
    reader.store.close()
