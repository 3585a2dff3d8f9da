"""Embeddings made elsewhere, as tables: equal to the same in an embeddings file, or refused in one short line."""

import importlib.util
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from verisphere.base.vocabulary import Embeddings
from verisphere.files.embeddings import read_embeddings, write_embeddings
from verisphere.files.vectors import holds_vectors

ROWS = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
NAMES = [f"p{row // 2}/{row}.jpg" for row in range(6)]
PEOPLE = [f"p{row // 2}" for row in range(6)]
DOMAINS = ["day", "night"] * 3


def table(path: Path, separator: str = ",", domains: bool = False) -> Path:
    fields = ["name", *(["domain"] if domains else []), "identity", *(f"x{place}" for place in range(4))]
    lines = [separator.join(fields)]
    for name, domain, person, row in zip(NAMES, DOMAINS, PEOPLE, ROWS, strict=True):
        cells = [name, *([domain] if domains else []), person, *(repr(float(number)) for number in row)]
        lines.append(separator.join(cells))
    path.write_text("\n".join(lines) + "\n")
    return path


def check(path: Path, domains: bool = False) -> None:
    found = read_embeddings(path)
    assert np.array_equal(found.embeddings, ROWS)
    assert (found.names.tolist(), found.identities.tolist()) == (NAMES, PEOPLE)
    assert (None if found.domains is None else found.domains.tolist()) == (DOMAINS if domains else None)
    assert found.origin is None


@pytest.mark.parametrize(("suffix", "separator"), [(".csv", ","), (".tsv", "\t"), (".csv", "\t")])
@pytest.mark.parametrize("domains", [False, True])
def test_a_table(tmp_path: Path, suffix: str, separator: str, domains: bool):
    check(table(tmp_path / f"vectors{suffix}", separator, domains), domains)


@pytest.mark.parametrize("suffix", [".txt", ".csv", ".tsv", ".lst"])
@pytest.mark.parametrize("header", ["", "name\tidentity\n", "identity\tname\n"])
def test_an_array_with_a_list_beside_it(tmp_path: Path, suffix: str, header: str):
    np.save(tmp_path / "vectors.npy", ROWS)
    columns = zip(PEOPLE, NAMES, strict=True) if header.startswith("identity") else zip(NAMES, PEOPLE, strict=True)
    (tmp_path / f"vectors{suffix}").write_text(header + "\n".join("\t".join(row) for row in columns))
    check(tmp_path / "vectors.npy")


@pytest.mark.skipif(importlib.util.find_spec("pyarrow") is None, reason="no extra `data`")
@pytest.mark.parametrize("lists", [True, False])
def test_parquet(tmp_path: Path, lists: bool):
    import pyarrow
    import pyarrow.parquet as parquet

    numbers = {"embedding": ROWS.tolist()} if lists else {f"x{place}": ROWS[:, place] for place in range(4)}
    table = pyarrow.table({"name": NAMES, "identity": PEOPLE, **numbers})
    parquet.write_table(table, tmp_path / "vectors.parquet")
    check(tmp_path / "vectors.parquet")


POINTS = ["-1.0", "-1.", "0.0", "0.0", "7.0", "7.0"]


@pytest.mark.parametrize("suffix", [".csv", ".txt", ".parquet"])
def test_identities_that_are_numbers_with_a_point(tmp_path: Path, suffix: str):
    """Data frames write whole numbers so, beside a missing one; -1.0 is nobody."""

    def read(people: list[str]) -> list[str]:
        path = tmp_path / f"vectors{suffix}"
        if suffix == ".parquet":
            pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
            numbers = list(map(float, people))
            columns = {"name": NAMES, "identity": numbers, "embedding": ROWS.tolist()}
            parquet.write_table(pyarrow.table(columns), path)
        elif suffix == ".csv":
            lines = [f"{name},{person},{row[0]}\n" for name, person, row in zip(NAMES, people, ROWS, strict=True)]
            path.write_text("name,identity,x\n" + "".join(lines))
        else:
            path.write_text("".join(f"{name}\t{person}\n" for name, person in zip(NAMES, people, strict=True)))
            np.save(path := path.with_suffix(".npy"), ROWS)
        return read_embeddings(path).identities.tolist()

    assert read(POINTS) == ["-1", "-1", "0", "0", "7", "7"]
    if suffix == ".parquet":
        with pytest.raises(ValueError, match=r"not whole .* first in row 5, 'p2/5.jpg'"):
            read([*POINTS[:5], "7.5"])
    else:
        assert read([*POINTS[:5], "7.5"]) == ["-1", "-1", "0", "0", "7", "7.5"]
    with pytest.raises(ValueError, match=r"identities holds NaN .* in 1 of 6 rows|1 of 6 identities is .* a missing"):
        read([*POINTS[:5], "nan"])


def test_identities_of_a_table_that_are_no_whole_numbers_stay_as_written(tmp_path: Path):
    people = ["1.0", "2", "007", "p1.50", "p1.5", "1.5"]
    lines = [f"{name},{person},{row[0]}\n" for name, person, row in zip(NAMES, people, ROWS, strict=True)]
    (tmp_path / "v.csv").write_text("name,identity,x\n" + "".join(lines))
    assert read_embeddings(tmp_path / "v.csv").identities.tolist() == ["1", *people[1:]]


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("v.csv", "name,identity\na,b\n", "0 columns beside name, identity; an embedding has 1 to 65,536 numbers"),
        ("v.csv", "identity,x\nb,1\n", "no column name; .* this one has identity, x"),
        ("v.csv", "name,identiy,x\na,b,1\n", "no column identity; .* this one has name, identiy, x"),
        ("v.csv", "name;identity;x\na;b;1\n", "has name;identity;x; columns are separated by commas or tabs"),
        ("v.csv", ",name,identity,x\n0,a,b,1\n", r"column 1 has no name; .* to_csv\(path, index=False\)"),
        ("v.csv", "", "no column name and no column identity; .* this one has nothing"),
        ("v.csv", "name,identity,x\na,b\n", "line 2: 2 entries where the header has 3"),
        ("v.csv", "name,identity,x\na,b,1_0.5\n", "line 2: '1_0.5' in column 'x' is no number"),
        ("v.csv", "name,identity,x,x\na,b,1,2\n", "two columns are called 'x'"),
        ("v.csv", "name,identity,x\na,b,nan\n", "NaN"),
        ("v.csv", "name,identity,x\n", "it holds no embedding"),
    ],
)
def test_what_lacks_is_said_in_one_line(tmp_path: Path, name: str, content: str, line: str):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=line) as refused:
        read_embeddings(tmp_path / name)
    assert str(refused.value).startswith(str(tmp_path / name))
    assert "\n" not in str(refused.value)


def test_an_array_alone_or_with_another_list(tmp_path: Path):
    np.save(tmp_path / "v.npy", ROWS)
    with pytest.raises(FileNotFoundError, match=r"no list of its rows beside it \(v\.csv, v\.tsv, v\.txt, v\.lst\)"):
        read_embeddings(tmp_path / "v.npy")
    (tmp_path / "v.txt").write_text("a\tb\n")
    with pytest.raises(
        ValueError, match=r"v\.txt: 1 rows, but v\.npy has 6 embeddings; its first line counts as a row"
    ):
        read_embeddings(tmp_path / "v.npy")
    (tmp_path / "v.txt").write_text("name\tidentity\na\tb\n")
    with pytest.raises(ValueError, match=r"v\.txt: 1 rows, but v\.npy has 6 embeddings$"):
        read_embeddings(tmp_path / "v.npy")
    (tmp_path / "v.txt").write_text("only\n")
    with pytest.raises(ValueError, match="line 1: 1 entry; a row is name<TAB>identity"):
        read_embeddings(tmp_path / "v.npy")
    (tmp_path / "v.txt").write_text("")
    with pytest.raises(ValueError, match="it is empty; a row is name<TAB>identity"):
        read_embeddings(tmp_path / "v.npy")


def test_a_table_of_scores_is_told_from_one_of_embeddings(tmp_path: Path):
    for name, header, vectors in [
        *(("t.csv", "score,label", False), ("t.csv", "scor,label", False), ("t.csv", "identity,label,x", True)),
        *(("t.csv", "name,identiy,x", True), ("t.TSV", "name\tidentity", True), ("t.txt", "name,identity,x", False)),
    ]:
        (tmp_path / name).write_text(header + "\n")
        assert holds_vectors(tmp_path / name) == vectors
    write_embeddings(tmp_path / "set.npz", Embeddings(ROWS, np.array(NAMES), np.array(PEOPLE)))
    (tmp_path / "set.npz").rename(tmp_path / "set.csv")
    assert len(read_embeddings(tmp_path / "set.csv")) == 6  # by its content


def header(path: Path, *columns: str) -> Path:
    numbers = "".join(f"{name}," + ",".join(["1"] * len(columns)) + "\n" for name in ("a,p", "b,q"))
    path.write_text(",".join(["name", "identity", *columns]) + "\n" + numbers)
    return path


@pytest.mark.parametrize(
    ("columns", "odd"),
    [
        (["quality", "e0", "e1"], r"'quality' is not one .* such as e0, e1, \.\.\.; leave 'quality' out"),
        (["e0", "e1", "id"], r"'id' is not one .*; leave 'id' out"),
        (["age1", "e0", "e1"], r"'age1' is not one .*; leave 'age1' out"),
        (["0", "1", "e0", "e1", "e2"], r"'0' is not one .*; leave '0' out"),
        (["e0", "e1", "e10", "e2"], r"'e10' follows 'e1'; .* such as e0, e1, \.\.\.$"),
        (["e1", "e01"], r"'e01' follows 'e1'"),
        (["left", "right"], r"'left' is not one .* such as e0, e1, \.\.\.$"),
        (["e" + "9" * 5000, "e0"], r"'e0' is not one .* such as e0, e1, \.\.\.$"),
    ],
)
def test_a_column_that_is_not_of_the_embedding_is_refused(tmp_path: Path, columns: list[str], odd: str):
    with pytest.raises(ValueError, match=rf"v\.csv: column .*{odd}") as refused:
        read_embeddings(header(tmp_path / "v.csv", *columns))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "columns",
    [
        [str(place) for place in range(128)],
        [f"f_{place}" for place in range(1, 129)],
        [f"dim_{place:03}" for place in range(128)],
        [f"V{place}" for place in range(1, 12)],
        [f"facenet512_{place}" for place in range(12)],
        ["x"],
        ["x7"],
    ],
)
def test_columns_as_common_writers_name_them(tmp_path: Path, columns: list[str]):
    assert read_embeddings(header(tmp_path / "v.csv", *columns)).embeddings.shape == (2, len(columns))


def test_two_lists_beside_an_array_are_refused(tmp_path: Path):
    np.save(tmp_path / "v.npy", ROWS)
    for suffix in (".csv", ".txt"):
        (tmp_path / f"v{suffix}").write_text("\n".join(map("\t".join, zip(NAMES, PEOPLE, strict=True))))
    with pytest.raises(ValueError, match=r"v\.npy: 2 lists of its rows beside it, v\.csv and v\.txt; one is allowed"):
        read_embeddings(tmp_path / "v.npy")


@pytest.mark.parametrize("first", ["name\tperson", "File\tlabel", "filename,id", "path\tsubject", "IMAGE\tclass"])
def test_a_header_of_other_words_is_no_image(tmp_path: Path, first: str):
    np.save(tmp_path / "v.npy", np.concatenate([ROWS, ROWS[:1]]))
    lines = map(("\t" if "\t" in first else ",").join, zip(NAMES, PEOPLE, strict=True))
    (tmp_path / "v.txt").write_text("\n".join([first, *lines]))
    with pytest.raises(
        ValueError, match=r"v\.txt: line 1: .* look like a header; its columns are called name and ident"
    ):
        read_embeddings(tmp_path / "v.npy")


@pytest.mark.skipif(importlib.util.find_spec("pyarrow") is None, reason="no extra `data`")
@pytest.mark.parametrize(
    ("columns", "line"),
    [
        ({"embedding": ROWS.tolist(), "quality": ROWS[:, 0]}, "'quality' beside the lists .*, leave 'quality' out"),
        ({"x0": ROWS[:, 0], "x1": ROWS[:, 1], "quality": ROWS[:, 2]}, "'quality' is not one .*; leave 'quality' out"),
        ({"embedding": [["1_0"]] * 6}, "column 'embedding' holds no lists of numbers of one length"),
        (
            {"embedding": [[1.0], [1.0, 2.0, 3.0], [1.0, 2.0]] * 2},
            "column 'embedding' holds no lists of numbers of one",
        ),
        ({"embedding": [[1.0], None] * 3}, "column 'embedding' holds no lists of numbers of one length"),
        ({"x": ROWS[:, 0], "identity": [["p"], []] * 3}, "column 'identity' has not one value in each row"),
        ({"embedding": [1.0] * 6}, "column 'embedding' holds no lists of numbers of one length"),
        ({"x0": ROWS[:, 0], "__index_level_0__": ROWS[:, 1]}, r"'__index_level_0__' is the index .*index=False\)"),
        ({"Unnamed: 0": ROWS[:, 0], "x0": ROWS[:, 1]}, r"'Unnamed: 0' is the index .*index=False\)"),
        ({"x": ROWS[:, 0], "identity": ["p", None, "q", None, "r", "s"]}, "2 of 6"),
        ({"x": ROWS[:, 0], "identity": [1, None, 2, None, 3, 4]}, "2 of 6"),
    ],
)
def test_what_parquet_lacks_is_said_in_one_line(tmp_path: Path, columns: dict[str, object], line: str):
    import pyarrow
    import pyarrow.parquet as parquet

    parquet.write_table(pyarrow.table({"name": NAMES, "identity": PEOPLE} | columns), tmp_path / "v.parquet")
    with pytest.raises(ValueError, match=rf"v\.parquet: .*{line}") as refused:
        read_embeddings(tmp_path / "v.parquet")
    assert "\n" not in str(refused.value)


def test_an_array_of_objects_is_not_unpickled(tmp_path: Path):
    np.save(tmp_path / "v.npy", np.array([{}, None], object), allow_pickle=True)
    (tmp_path / "v.txt").write_text("a\tb\nc\td\n")
    with pytest.raises(ValueError, match="it holds Python objects, which are never loaded"):
        read_embeddings(tmp_path / "v.npy")


@pytest.mark.filterwarnings("error")
def test_a_number_too_large_for_float32_is_refused_by_its_row(tmp_path: Path):
    path = table(tmp_path / "vectors.csv")
    path.write_text(path.read_text().replace(repr(float(ROWS[2, 1])), "1e300"))
    with pytest.raises(ValueError, match=r"vectors\.csv: .*(infinit|finite).*"):
        read_embeddings(path)


@pytest.mark.skipif(importlib.util.find_spec("pyarrow") is None, reason="no extra `data`")
@pytest.mark.parametrize("kind", ["float16", "float64", "int32", "decimal", "fixed", "large", "columns"])
def test_parquet_of_any_type_in_several_row_groups(tmp_path: Path, kind: str):
    import pyarrow
    import pyarrow.parquet as parquet

    numbers = np.round(np.random.default_rng(1).normal(size=(9, 4)) * 64) + 0.5 * (kind not in ("int32", "decimal"))
    cell = {"float16": pyarrow.float16(), "int32": pyarrow.int32(), "decimal": pyarrow.decimal128(9, 2)}.get(
        kind, pyarrow.float64()
    )
    lists = {"fixed": pyarrow.list_(cell, 4), "large": pyarrow.large_list(cell)}.get(kind, pyarrow.list_(cell))
    rows = [[cell_of(number, kind) for number in row] for row in numbers]
    people = [f"p{row // 3}" for row in range(9)]
    columns = {"name": [str(row) for row in range(9)], "identity": pyarrow.array(people).dictionary_encode()}
    if kind == "columns":
        columns |= {f"x{place}": numbers[:, place] for place in range(4)}
    else:
        columns["embedding"] = pyarrow.array(rows, lists)
    parquet.write_table(pyarrow.table(columns), tmp_path / "v.parquet", row_group_size=4)
    read = read_embeddings(tmp_path / "v.parquet")
    assert read.embeddings.dtype == np.float32
    assert np.array_equal(read.embeddings, numbers.astype(np.float32))
    assert (read.names.tolist(), read.identities.tolist()) == (columns["name"], people)


@pytest.mark.skipif(importlib.util.find_spec("pyarrow") is None, reason="no extra `data`")
@pytest.mark.parametrize(("kind", "first"), [("float16", 3000), ("float32", 2**25), ("float64", 2**53)])
def test_parquet_identities_that_their_type_cannot_tell_apart_are_refused(tmp_path: Path, kind: str, first: int):
    import pyarrow
    import pyarrow.parquet as parquet

    people = pyarrow.array(np.arange(first, first + 9).astype(kind))
    rows = pyarrow.array(ROWS[:1].repeat(9, 0).tolist())
    parquet.write_table(
        pyarrow.table({"name": list("abcdefghi"), "identity": people, "embedding": rows}), tmp_path / "v.parquet"
    )
    with pytest.raises(ValueError, match=rf"v\.parquet: identities are {kind} numbers, .* too large to be distinct"):
        read_embeddings(tmp_path / "v.parquet")
    with_null = pyarrow.table({"name": ["a", "b"], "identity": pyarrow.array([1.0, None]), "embedding": rows[:2]})
    parquet.write_table(with_null, tmp_path / "v.parquet")
    with pytest.raises(ValueError, match=r"v\.parquet: identities holds NaN or infinity in 1 of 2 rows"):
        read_embeddings(tmp_path / "v.parquet")


def cell_of(number: float, kind: str) -> object:
    return {"float16": np.float16(number), "int32": int(number), "decimal": Decimal(int(number))}.get(kind, number)


@pytest.mark.skipif(importlib.util.find_spec("pyarrow") is None, reason="no extra `data`")
@pytest.mark.parametrize("numbers", ["lists", "columns"])
def test_a_small_parquet_that_unpacks_to_much_is_refused_before_anything_is_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, numbers: str
):
    import pyarrow
    import pyarrow.parquet as parquet

    monkeypatch.setattr("verisphere.files.npz._MOST_UNPACKED", 1 << 20)  # the limits of archives, lowered
    monkeypatch.setattr("verisphere.files.npz._MOST_COMPRESSION", 5)
    path, rows, size = tmp_path / "v.parquet", 2000, 100
    ones = np.ones(rows * size, np.float32)
    lists = pyarrow.ListArray.from_arrays(pyarrow.array(np.arange(rows + 1, dtype=np.int32) * size), ones)
    columns = {"embedding": lists} if numbers == "lists" else {f"x{place}": ones[:rows] for place in range(size)}
    names = {"name": [str(row) for row in range(rows)], "identity": ["p"] * rows}
    for compression in ("none", "zstd"):
        parquet.write_table(pyarrow.table(names | columns), path, compression=compression)
        assert path.stat().st_size < 100_000
        with monkeypatch.context() as patched:
            patched.setattr(parquet.ParquetFile, "iter_batches", None)  # to decode a batch would be another error
            with pytest.raises(
                ValueError, match=r"would unpack to 1,\d{3},\d{3} bytes; from a file of .* at most"
            ) as no:
                read_embeddings(path)
        assert str(no.value).startswith(f"{path}: ")
    parquet.write_table(pyarrow.table(names | columns), path, use_dictionary=False, compression="none")
    assert read_embeddings(path).embeddings.shape == (rows, size)  # as large as its file, and so within the limit


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".txt"])
def test_one_long_text_does_not_widen_every_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str):
    monkeypatch.setattr("verisphere.files.npz._MOST_UNPACKED", 1 << 20)
    rows, path = 2000, tmp_path / f"v{suffix}"
    names = ["x" * 20_000, *(str(row) for row in range(1, rows))]
    if suffix == ".parquet":
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        table = pyarrow.table({"name": names, "identity": ["p"] * rows, "x": np.ones(rows)})
        parquet.write_table(table, path, row_group_size=rows // 2)
    elif suffix == ".csv":
        path.write_text("name,identity,x\n" + "".join(f"{name},p,1\n" for name in names))
    else:
        path.write_text("".join(f"{name}\tp\n" for name in names))
        np.save(tmp_path / "v.npy", np.ones((rows, 1), np.float32))
    with pytest.raises(
        ValueError, match=r"longest text of column 'name' has 20,000 .* each of 2,000 rows .*160,000,000"
    ):
        read_embeddings(path.with_suffix(".npy") if suffix == ".txt" else path)
