"""A gallery in PostgreSQL: what is particular to a server, beside the tests that both kinds of store share."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import psycopg
import pytest
import torch

from faults.enrolling import batch
from faults.verbs import environment
from living_galleries import DIM, ENROLLED, people, promised, strangers
from verisphere.base.vocabulary import Embeddings
from verisphere.cli.start import main
from verisphere.files.gallery_store import Store, create_store, is_gallery, open_store
from verisphere.files.gallery_store.postgres import PostgresStore
from verisphere.score import unit_rows
from verisphere.ship.living.gallery import LivingGallery, create_gallery
from verisphere.ship.living.records import NewPhotographs


@pytest.fixture
def door(server) -> Iterator[str]:
    with server.new_gallery() as place:
        yield place


@pytest.fixture
def gallery(door) -> Iterator[LivingGallery]:
    made = create_gallery(door, strangers(), "1e-2")
    made.enrol(NewPhotographs.of(ENROLLED))
    yield made
    made.store.close()


def add_people(store: Store, names: list[str]) -> None:
    columns = "name, folded, code, consent, expires, enrolled, operator"
    people = [(name, name, name, "", None, "", "") for name in names]
    store.change(f"INSERT INTO people ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", people)


def test_scores_persons_and_slots_are_those_of_the_other_store_to_the_bit(tmp_path, door):
    """Also among rows that are equal, or differ by less than float32 products resolve."""
    random = np.random.default_rng(0)
    base = random.standard_normal((6, 64)).astype(np.float32)
    near = np.repeat(base, 40, 0) * (1 + 3e-8 * random.standard_normal((240, 64)).astype(np.float32))
    rows = unit_rows(np.concatenate([near, base, base, random.standard_normal((100, 64), np.float32)])).numpy()
    owner = random.integers(1, 90, len(rows))
    probes = unit_rows(np.concatenate([base, base + 0.01, random.standard_normal((20, 64), np.float32)]))

    def fill(store: Store) -> None:
        with store.writing():
            add_people(store, [f"{one}" for one in range(1, 91)])
            assert store.select("SELECT person FROM people ORDER BY person") == [(one,) for one in range(1, 91)]
            values = [(slot, int(one), "", f"{slot}", None, "", "") for slot, one in enumerate(owner)]
            store.change("INSERT INTO photographs VALUES (?, ?, ?, ?, ?, ?, ?)", values)
            store.add_rows(0, rows)

    found = []
    for place in (tmp_path / "folder", door):
        create_store(place, {"dim": "64"}, fill)
        store = open_store(place)
        assert store.next_slot() == len(rows)
        assert (store.rows(np.array([7, 3, 200])) == rows[[7, 3, 200]]).all()
        searches = [store.nearest(probes, 5), store.nearest(probes, 90, [3, 7])]
        searches += [
            store.nearest(probe[None], count, gone) for probe in probes for count, gone in ((1, []), (9, [5, 6]))
        ]
        found.append(searches)
        store.close()
    for ours, theirs in zip(*found, strict=True):
        for column, other in zip(ours, theirs, strict=True):
            assert column.tolist() == other.tolist()


def test_nobody_is_found_where_nobody_is_left(door, gallery):
    scores, persons, slots = gallery.store.nearest(torch.eye(DIM)[:2], 3, list(range(1, 31)))
    assert (np.isneginf(scores) & (persons == -1) & (slots == -1)).all()
    assert gallery.store.nearest(torch.eye(DIM)[:0], 3)[0].shape == (0, 3)


def test_several_processes_enrol_at_once_and_the_promise_is_that_of_all(door):
    create_gallery(door, strangers(), "1e-2").store.close()
    call = [sys.executable, "-m", "faults.enrolling", "people", door]
    running = [subprocess.Popen([*call, f"door{number}", "6"], env=environment()) for number in range(3)]
    assert [process.wait(300) for process in running] == [0, 0, 0]
    sets = [batch(f"door{number}", part) for number in range(3) for part in range(6)]
    everybody = Embeddings(
        np.concatenate([one.embeddings for one in sets]),
        identities=[name for one in sets for name in one.identities.tolist()],
    )
    gallery = LivingGallery(door)
    assert sorted(row.name for row in gallery.listing().people) == sorted(set(everybody.identities.tolist()))
    assert gallery.info().photographs == len(everybody.embeddings)
    slots = [slot for (slot,) in gallery.store.select("SELECT slot FROM photographs ORDER BY slot")]
    assert slots == list(range(len(slots)))
    promised(gallery, everybody)
    gallery.store.close()


def test_a_writer_waits_for_another_and_builds_on_what_it_has_committed(door, gallery):
    other = LivingGallery(door)
    thread = threading.Thread(target=other.enrol, args=(NewPhotographs.of(people("guest", 5, 2, seed=5)),))
    with gallery.store.writing():
        thread.start()
        thread.join(0.3)
        assert thread.is_alive()
        gallery.enrol(NewPhotographs.of(people("early", 5, 2, seed=6)))
    thread.join()
    both = [ENROLLED, people("early", 5, 2, seed=6), people("guest", 5, 2, seed=5)]
    rows, names = np.concatenate([one.embeddings for one in both]), [n for one in both for n in one.identities.tolist()]
    promised(gallery, Embeddings(rows, identities=names))
    other.store.close()


def test_a_reader_sees_one_moment_while_others_write(door, gallery):
    other = LivingGallery(door)
    with other.store.reading():
        before = (other.threshold, other.store.nearest(torch.eye(DIM), 30)[0].tolist())
        gallery.remove(["person001", "person002"])
        gallery.enrol(NewPhotographs.of(people("guest", 5, 2, seed=5)))
        assert (other.threshold, other.store.nearest(torch.eye(DIM), 30)[0].tolist()) == before
    assert other.threshold == gallery.threshold != before[0]
    other.store.close()


def test_a_change_that_fails_leaves_nothing(door, gallery):
    before = gallery.info()

    def half() -> None:
        with gallery.store.writing():
            gallery.enrol(NewPhotographs.of(people("guest", 5, 2, seed=5)))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        half()
    assert gallery.info().people == before.people
    promised(gallery, ENROLLED)


def test_no_statistics_of_the_server_keep_a_name(server, door, gallery):
    server.run(f"ANALYZE {door.partition('#')[2]}.people, {door.partition('#')[2]}.embeddings")
    assert server.run("SELECT count(*) FROM pg_stats WHERE most_common_vals::text LIKE '%person0%'") == [(0,)]
    schema = door.partition("#")[2]
    kept = f"SELECT tablename, attname FROM pg_stats WHERE schemaname = '{schema}' AND attname IN ('name', 'folded')"
    assert server.run(kept) == []


def test_compaction_says_that_another_transaction_keeps_removed_rows(server, door, gallery):
    with psycopg.connect(server.address) as other:
        other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        other.execute("SELECT 1")  # a moment before the removal
        gallery.remove(["person000"])
        with pytest.raises(ValueError, match=r"another transaction of this server .* end it, and compact again"):
            gallery.store.compact()
        assert gallery.info().removed == 3
    gallery.store.compact()
    assert gallery.info().removed == 0
    assert b"person000" not in server.tables()


def test_a_lost_connection_is_one_line_and_then_made_anew(server, door, gallery):
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
    server.run(f"{end} AND backend_type = 'client backend'")
    with pytest.raises(ValueError, match=rf"#{door.partition('#')[2]}: .*terminat"):
        gallery.info()
    assert gallery.info().people == 30

    def interrupted() -> None:
        with gallery.store.writing():
            server.run(f"{end} AND backend_type = 'client backend'")
            with suppress(ValueError):
                gallery.remove(["person000"])
            gallery.remove(["person000"])

    with pytest.raises(ValueError, match="closed"):
        interrupted()
    assert gallery.info().people == 30


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://h/d",
        "postgresql://h/d#",
        "postgresql://h/d#Door",
        "postgresql://h/d#pg_door",
        'postgresql://h/d#door"; DROP SCHEMA public',
        "postgresql://h#door",
        "postgresql://olga:se/cret@h/d#door",
        "postgresql://olga:se@cret@h/d#door",
        "postgresql://olga:se#cret@h/d#door",
        "postgresql://h/d?password=secret#door",
        "postgresql://olga:secret@h:port/d#door",
    ],
)
def test_a_wrong_address_is_refused_without_repeating_it(address):
    assert is_gallery(address)
    with pytest.raises(ValueError, match=r"postgresql://USER@HOST/DATABASE#NAME|port") as refused:
        open_store(Path(address))
    assert "cret" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_password_is_neither_shown_nor_kept(server, capsys, tmp_path, process_as_it_was):
    server.run(
        "DROP ROLE IF EXISTS olga",
        "CREATE ROLE olga LOGIN PASSWORD 'hush-hush' IN ROLE pg_read_all_data",
        "GRANT CREATE ON DATABASE postgres TO olga",
    )
    base = server.address.replace("postgres:@", "olga:hush-hush@")
    with server.new_gallery() as place:
        name = place.partition("#")[2]
        made = create_gallery(f"{base}#{name}", strangers(), "1e-2")
        made.enrol(NewPhotographs.of(ENROLLED))
        assert made.store.name == f"{server.address.replace('postgres:@', 'olga@')}#{name}"
        made.store.close()
        assert main(["gallery", "info", f"{base}#{name}", "--json", str(tmp_path / "info.json")]) == 0
        assert main(["gallery", "remove", f"{base}#{name}", "--name", "person001"]) == 0
        assert main(["gallery", "list", f"{base}#{name}"]) == 0
        assert main(["gallery", "info", f"{base}#{name}_2"]) == 2
        out = capsys.readouterr()
        assert "hush" not in out.out + out.err + (tmp_path / "info.json").read_text()
        assert f"#{name}_2: no gallery that `verisphere gallery create` made" in out.err
        assert b"hush-hush" not in server.tables()
    server.run("DROP OWNED BY olga CASCADE", "DROP ROLE olga")


def test_a_server_that_is_not_there_is_one_line():
    with pytest.raises(ValueError, match=r"^postgresql://olga@127\.0\.0\.1:1/d#door: connection .*refused") as refused:
        open_store("postgresql://olga:secret@127.0.0.1:1/d#door")
    assert "secret" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_gallery_is_not_made_twice(door, gallery):
    with pytest.raises(ValueError, match="already exists"):
        create_gallery(door, strangers(), "1e-2")
    assert gallery.info().people == 30


def test_rows_are_rewritten_to_another_size_all_at_once(door, gallery):
    other = LivingGallery(door)
    gallery.remove(["person002"])
    slots = np.array([slot for (slot,) in gallery.store.select("SELECT slot FROM photographs ORDER BY slot")])
    before = gallery.store.rows(slots)

    def halved(of: np.ndarray, rows: np.ndarray) -> np.ndarray:
        assert of.tolist() == slots.tolist()
        assert (rows == before).all()
        return unit_rows(rows[:, : DIM // 2].copy()).numpy()

    def failing() -> None:
        with gallery.store.writing():
            gallery.store.rewrite(halved, DIM // 2)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        failing()
    assert (gallery.store.rows(slots) == before).all()
    with gallery.store.writing():
        gallery.store.rewrite(halved, DIM // 2)
    assert (other.store.rows(slots) == halved(slots, before)).all()
    assert other.store.dim == DIM // 2
    gallery.store.compact()
    other.store.close()


def test_long_rows_are_kept(door):
    """Longer than a page of the server."""
    create_store(door, {"dim": "3000"}, lambda store: None)
    store = PostgresStore(door)
    rows = unit_rows(np.random.default_rng(0).standard_normal((3, 3000), np.float32)).numpy()
    with store.writing():
        add_people(store, ["ann"])
        values = [(slot, 1, "", f"{slot}", None, "", "") for slot in range(3)]
        store.change("INSERT INTO photographs VALUES (?, ?, ?, ?, ?, ?, ?)", values)
        store.add_rows(0, rows)
    assert (store.rows(np.arange(3)) == rows).all()
    assert store.nearest(torch.from_numpy(rows[2:]), 1)[2].tolist() == [[2]]
    store.close()
