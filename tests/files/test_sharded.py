"""A folder of shards is an embeddings file to every reader; what is missing, changed or foreign gets one line."""

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from shard_writer import written
from verisphere.base.mapped import is_mapped
from verisphere.base.vocabulary import Embeddings, Origin
from verisphere.files.embeddings import columns_of, read_embeddings, read_known_people
from verisphere.files.sharded import (
    MANIFEST,
    Store,
    digest_of_embeddings,
    moved,
    shortened_rows,
    widened,
    write_shard,
)
from verisphere.files.streamed_rows import is_features, open_rows, open_templates
from verisphere.measure.data.convert import convert
from verisphere.measure.evaluate import Options, evaluate_one_threshold
from verisphere.score import pair_scores, unit_rows
from verisphere.ship.opened_gallery import is_embeddings
from verisphere.study.clean.same_person.overlap import open_people

MADE = Origin("a" * 64, False, "float32", "faces.zip", True, None)


def drawn(rows: int = 10, dim: int = 6, origin: Origin | None = MADE) -> Embeddings:
    numbers = np.random.default_rng(3).normal(size=(rows, dim)).astype(np.float32)
    names = [f"p{row // 2}/{row}.png" for row in range(rows)]
    return Embeddings(numbers, names, [f"p{row // 2}" for row in range(rows)], origin=origin)


def test_shards_are_read_as_the_embeddings_that_they_hold_and_mapped(tmp_path: Path) -> None:
    rows = drawn()
    for path in (written(tmp_path / "set", rows), tmp_path / "set" / MANIFEST):
        read = read_embeddings(path)
        assert is_mapped(read.embeddings)
        np.testing.assert_array_equal(read.embeddings, rows.embeddings)
        assert read.names.tolist() == rows.names.tolist()
        assert read.identities.tolist() == rows.identities.tolist()
        assert read.origin == MADE
    assert read_known_people(tmp_path / "set").names.tolist() == rows.names.tolist()


def test_readers_of_portions_and_of_templates_take_shards(tmp_path: Path) -> None:
    rows = drawn()
    path = written(tmp_path / "set", rows)
    assert not is_features(path)
    for opened in (open_rows(path, ("names", "identities")), open_templates(path)):
        np.testing.assert_array_equal(np.concatenate([part for _, part in opened.portions()]), rows.embeddings)
        assert opened.source.sha256 == digest_of_embeddings(path)
        assert opened.source.origin == MADE


@pytest.mark.parametrize("store", ["float16", "int8"])
def test_a_stored_row_is_float32_exactly_and_no_score_moves_further_than_stated(store: Store, tmp_path: Path) -> None:
    rows = drawn(40, 64)
    kept, units = shortened_rows(rows.embeddings, store)
    stored = widened(kept, units)
    if units is not None:  # the product of 7 and 16 bits has no more than float32 holds
        exact = kept.astype(np.float64) * units.astype(np.float64)[:, None]
        np.testing.assert_array_equal(exact, stored)
    np.testing.assert_array_equal(read_embeddings(written(tmp_path / "set", rows, store)).embeddings, stored)
    left, right = np.triu_indices(40, 1)
    pairs = torch.from_numpy(left), torch.from_numpy(right)
    apart = (pair_scores(unit_rows(rows.embeddings), *pairs) - pair_scores(unit_rows(stored), *pairs)).abs().max()
    stated = json.loads((tmp_path / "set" / MANIFEST).read_text())["moved"]
    assert 0 < float(apart) <= 2 * stated < {"float16": 2e-3, "int8": 4e-2}[store]


def test_a_row_of_one_large_number_is_stored_in_int8_to_a_bit() -> None:
    rows = np.array([[3.0e38, 0, 0], [1e-42, 0, 1e-42], [-127, 1, 63.5]], np.float32)
    kept, units = shortened_rows(rows, "int8")
    assert kept.min() >= -127
    assert kept.tolist()[0] == [127, 0, 0]
    assert units is not None
    np.testing.assert_array_equal(widened(kept, units), kept.astype(np.float64) * units.astype(np.float64)[:, None])


def test_rows_that_were_moved_by_a_known_angle_state_it() -> None:
    one, other = np.array([[2.0, 0.0]], np.float32), np.array([[0.0, 5.0]], np.float32)
    assert moved(one, other) == pytest.approx(np.sqrt(2), abs=1e-6)
    assert moved(one, 3 * one) == 0


def _manifest(change: Callable[[dict], object]) -> Callable[[Path], object]:
    def changed(folder: Path) -> None:
        fields = json.loads((folder / MANIFEST).read_text())
        change(fields)
        (folder / MANIFEST).write_text(json.dumps(fields))

    return changed


def _shape(folder: Path, content: np.ndarray) -> None:
    file = io.BytesIO()
    np.save(file, content)
    (folder / "rows-00000001.npy").write_bytes(file.getvalue())


def _of_another_model(folder: Path) -> None:
    other = drawn(origin=replace(MADE, model="b" * 64)).take(np.arange(4, 8))
    shard = write_shard(folder, 1, other.embeddings, columns_of(other), 0.0)
    fields = json.loads((folder / MANIFEST).read_text())
    fields["shards"][1] = {name: value.item() for name, value in shard.items() if name != "moved"}
    (folder / MANIFEST).write_text(json.dumps(fields))


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda folder: (folder / "rows-00000001.npy").unlink(), "rows-00000001.npy: a shard .* is missing"),
        (lambda folder: (folder / "rows-00000001.npz").unlink(), "rows-00000001.npz: a shard .* is missing"),
        (lambda folder: _shape(folder, np.ones((4, 6), np.float32)), "npy: not the file .* SHA-256; it was changed"),
        (lambda folder: (folder / "rows-00000000.npz").write_bytes(b"PK"), "npz: not the file .* it was changed"),
        (lambda folder: _shape(folder, np.ones((4, 7), np.float32)), r"float32 \(4, 7\), where float32 \(4, 6\)"),
        (lambda folder: _shape(folder, np.ones((4, 6))), r"holds float64 \(4, 6\), where float32"),
        (
            lambda folder: (folder / "rows-00000001.npy").write_bytes(
                (folder / "rows-00000001.npy").read_bytes()[:150]
            ),
            "takes 96 bytes, but 22 follow",
        ),
        (_of_another_model, "made by another model or from other images than manifest.json states"),
        (
            _manifest(lambda fields: fields["shards"][1].update(name="../../etc/passwd")),
            "a shard is called '../../etc/p",
        ),
        (_manifest(lambda fields: fields["shards"][1].update(name="rows-00000000")), "2 different shards have 10 rows"),
        (_manifest(lambda fields: fields["shards"][1].update(rows=10**15)), "have 1,000,000,000,000,006 rows"),
        (_manifest(lambda fields: fields.update(rows=10**15)), "it states 1,000,000,000,000,000"),
        (_manifest(lambda fields: fields.update(dim=10**12)), "dim is 1000000000000; allowed"),
        (_manifest(lambda fields: fields.update(store="int4")), "store must be"),
        (_manifest(lambda fields: fields.update(moved=-1.0)), "moved is -1.0"),
        (_manifest(lambda fields: fields.update(columns=["names"])), "names and identities are missing"),
        (_manifest(lambda fields: fields.update(columns=["names", "identities", "x"])), "its columns name 'x'"),
        (_manifest(lambda fields: fields.update(format=2)), "not the manifest of embeddings in shards, format 1"),
        (lambda folder: (folder / MANIFEST).write_text("{}"), "not the manifest of embeddings in shards"),
        (lambda folder: (folder / MANIFEST).write_text("[1]"), "not the manifest of embeddings in shards"),
    ],
)
def test_what_is_missing_changed_or_foreign_is_one_line(
    tmp_path: Path, harm: Callable[[Path], object], message: str
) -> None:
    harm(written(tmp_path / "set", drawn()))
    with pytest.raises((ValueError, OSError), match=message) as caught:
        read_embeddings(tmp_path / "set")
    assert "\n" not in str(caught.value)
    assert str(tmp_path / "set") in str(caught.value)


def test_rows_in_int8_without_their_units_are_refused(tmp_path: Path) -> None:
    folder = written(tmp_path / "set", drawn(), "int8")
    _manifest(lambda fields: fields["columns"].remove("units"))(folder)
    with pytest.raises(ValueError, match="rows in int8 have float32 units"):
        read_embeddings(folder)


def test_another_folder_is_no_set(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"it is a folder; verisphere embed MODEL FACES --out FILE\.npz"):
        read_embeddings(tmp_path)


@pytest.mark.parametrize("converted", ["faces", "faces.lmdb"])
def test_a_converted_set_of_images_which_has_a_manifest_too_holds_no_shards(tmp_path: Path, converted: str) -> None:
    for person in ("Ann", "Ben"):
        (tmp_path / "photos" / person).mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(tmp_path / "photos" / person / "1.png")
    convert(tmp_path / "photos", tmp_path / converted)
    assert (tmp_path / converted / MANIFEST).is_file()
    assert not is_embeddings(tmp_path / converted)
    assert [open_people(tmp_path / name).identities for name in (converted, "photos")] == [("Ann", "Ben")] * 2
    assert is_embeddings(written(tmp_path / "set", drawn()))
    (tmp_path / "set" / "rows-00000000.npy").unlink()
    (tmp_path / "set" / "rows-00000000.npz").unlink()
    assert is_embeddings(tmp_path / "set")  # by its manifest, so that what is missing is named


def test_manifests_that_are_named_themselves_are_called_as_their_folders(tmp_path: Path) -> None:
    first, second = (written(tmp_path / name, drawn(rows)) for name, rows in (("first", 24), ("second", 26)))
    result = evaluate_one_threshold([first / MANIFEST, second / MANIFEST], Options(["0.5"]))
    assert list(result.one_threshold[0].domains) == ["first", "second"]
