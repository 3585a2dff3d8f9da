"""A gallery that processes are killed over, whose file is locked, whose disk is full or may not be written."""

import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from faults.verbs import Act, environment, said
from living_galleries import ENROLLED, people, promised, strangers
from small_disk import mounted
from verisphere.files.embeddings import write_embeddings
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
@pytest.mark.parametrize("room", [0, 8, 40, 120, 260])
def test_a_disk_that_fills_up_while_people_are_enrolled(act: Act, world: Path, room: int):
    with mounted(world / "disk", 4096) as disk:
        made = create_gallery(disk / "door", strangers(), "1e-2")
        made.enrol(NewPhotographs.of(ENROLLED))
        made.store.close()
        write_embeddings(world / "many.npz", people("guest", 2000, 1, seed=5))
        used = sum(file.stat().st_blocks for file in (disk / "door").iterdir()) // 2
        (disk / "filler").write_bytes(bytes((4096 - used - room) * 1024))
        one_line(act("gallery", "enrol", disk / "door", "many.npz"), str(disk / "door"), "No space left on device")
        done = act("gallery", "info", disk / "door")
        if done.returncode:
            one_line(done, str(disk / "door"), "No space left on device")
        done = act("gallery", "compact", disk / "door")
        if done.returncode:
            one_line(done, str(disk / "door"), "No space left on device")
        (disk / "filler").unlink()
        gallery = unchanged(disk / "door")
        gallery.store.close()
        assert act("gallery", "enrol", disk / "door", "many.npz").returncode == 0
        assert act("gallery", "compact", disk / "door").returncode == 0
        assert {file.name for file in (disk / "door").iterdir() if file.suffix == ".f32"} == {"rows-2.f32"}


@pytest.mark.slow
def test_a_file_of_a_gallery_that_may_not_grow(act: Act, door: Path):
    done = act(*ENROL, disk=6000)
    one_line(done, "door")
    unchanged(door).store.close()
    assert act(*ENROL).returncode == 0


@pytest.mark.slow
def test_a_gallery_on_a_disk_that_may_not_be_written(act: Act, world: Path, door: Path):
    with mounted(world / "disk", 4096) as disk:
        shutil.copytree(door, disk / "door")
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        for words in (("enrol", disk / "door", "more.npz"), ("compact", disk / "door"), ("info", disk / "door")):
            one_line(act("gallery", *words), f"{disk / 'door'}", "Permission denied")
        subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
        unchanged(disk / "door").store.close()
