"""A gallery that is changed again and again by processes that are killed, and looked at after each kill.

`python -m faults.enrolling people GALLERY PREFIX BATCHES` enrols some batches of four people. `python -m
faults.enrolling kills GALLERY KILLS` kills forked copies of itself while they enrol, remove and compact, and prints a
line for each kill: a number of finished steps. Every second copy kills itself before or after a call of the store; the
others are killed from outside at a random time.
"""

import hashlib
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np

from living_galleries import people, promised
from verisphere.base.vocabulary import Embeddings
from verisphere.files.gallery_store.postgres import PostgresStore
from verisphere.files.gallery_store.sqlite import SqliteStore
from verisphere.ship.living.gallery import LivingGallery
from verisphere.ship.living.records import NewPhotographs

CALLS = ("select", "change", "add_rows")


def batch(prefix: str, number: int) -> Embeddings:
    return people(f"{prefix}-{number}-", 4, 2, seed=1000 * sum(prefix.encode()) + number)


def act(gallery: LivingGallery, step: int) -> None:
    """The change that a step makes: mostly an enrolment, every fifth a removal, every seventh a compaction before."""
    if step % 7 == 6:
        gallery.store.compact()
    if step % 5 == 4:
        gallery.remove([f"kill-{step - 2}-001", f"kill-{step - 3}-003"])
    else:
        gallery.enrol(NewPhotographs.of(batch("kill", step)), accept_alarms=True)


def after(steps: int) -> Embeddings:
    """Who is enrolled after so many steps."""
    gone = {name for step in range(4, steps, 5) for name in (f"kill-{step - 2}-001", f"kill-{step - 3}-003")}
    sets = [batch("kill", step) for step in range(steps) if step % 5 != 4]
    rows, names = np.concatenate([one.embeddings for one in sets]), [n for one in sets for n in one.identities.tolist()]
    return Embeddings(rows, identities=names).take(~np.isin(names, sorted(gone)))


def check(place: str, done: int) -> int:
    """The number of steps that a gallery shows, which is the number of those that were finished, or one more."""
    gallery = LivingGallery(place)
    with gallery.store.reading():
        held = gallery.store.select(
            "SELECT p.name, f.digest, f.slot FROM photographs f JOIN people p USING (person) ORDER BY p.name, f.slot"
        )
        rows = gallery.store.rows(np.array([slot for *_, slot in held], np.int64))
    digests = [hashlib.sha256(row.astype("<f4").tobytes()).hexdigest() for row in rows]
    assert digests == [digest for _, digest, _ in held]  # no row is another's, or half
    names = [name for name, *_ in held]
    for steps in (done + 1, done):
        if steps and names == sorted(after(steps).identities.tolist()):
            promised(gallery, after(steps))
            gallery.store.close()
            return steps
    raise AssertionError(f"after {done} steps: {names}")


def dying(calls: int, later: bool) -> None:
    """Let the process die at one of its next calls of a store."""
    left = [calls]

    def counted(original):
        def call(*words):
            left[0] -= 1
            if left[0] <= 0 and not later:
                os.kill(os.getpid(), signal.SIGKILL)
            result = original(*words)
            if left[0] <= 0:  # not always 0: calls are nested
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return call

    for kind in (SqliteStore, PostgresStore):
        for name in CALLS:
            setattr(kind, name, counted(getattr(kind, name)))


def kills(place: str, count: int) -> None:
    chance = random.Random(0)
    done = 0
    for number in range(count):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            if number % 2:
                dying(chance.randrange(1, 80), chance.random() < 0.5)
            gallery = LivingGallery(place)
            for step in range(done, done + 10_000):
                act(gallery, step)
                os.write(writer, b".")
        os.close(writer)
        if number % 2 == 0:
            finished = os.read(reader, 1)
            time.sleep(chance.uniform(0, 0.3))
            os.kill(child, signal.SIGKILL)
        else:
            finished = b""
        chance.randrange(1, 80), chance.random()  # as the child has drawn
        _, status = os.waitpid(child, 0)
        assert os.WTERMSIG(status) == signal.SIGKILL
        while more := os.read(reader, 1000):
            finished += more
        os.close(reader)
        done = check(place, done + len(finished))
        print(done, flush=True)
    gallery = LivingGallery(place)
    act(gallery, done)
    gallery.store.compact()
    check(place, done + 1)
    if Path(place).is_dir():
        gallery.store.close()
        assert len(list(Path(place).glob("rows-*"))) == 1


if __name__ == "__main__":
    what, place, *words = sys.argv[1:]
    if what == "people":
        gallery = LivingGallery(place)
        for number in range(int(words[1])):
            gallery.enrol(NewPhotographs.of(batch(words[0], number)), accept_alarms=True)
        gallery.store.close()
    else:
        kills(place, int(words[0]))
