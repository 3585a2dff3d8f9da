"""Rows that are wrong before they are pooled into templates, whose means hide it; and healthy templates."""

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import verisphere
from verisphere.base.vocabulary import NOBODY, Comparisons, Embeddings
from verisphere.files.embeddings import write_embeddings
from verisphere.files.ijb import IjbFiles
from verisphere.measure.evaluate import Options, evaluate_all_pairs, evaluate_one_threshold
from verisphere.measure.identification import IdentificationOptions, evaluate_galleries, evaluate_split
from verisphere.measure.ijb import IjbOptions, evaluate_ijb
from verisphere.measure.protocols.plausible import implausible_pairs, implausible_set, implausible_sides
from verisphere.measure.two_sets import evaluate_two_sets
from verisphere.score.templates import kept_rows, templates_of
from verisphere.ship.calibrate import calibrate

POOLED = "before the rows of a template are pooled, "
OPTIONS = Options(["1e-1"])
PEOPLE, IMAGES = 80, 8


def rows_of(people: int = PEOPLE, noise: float = 0.5, dim: int = 32, images: int = IMAGES) -> np.ndarray:
    random = np.random.default_rng(0)
    centers = random.normal(size=(people, dim))
    return (np.repeat(centers, images, 0) + noise * random.normal(size=(people * images, dim))).astype(np.float32)


def of_templates(rows: np.ndarray, each: int, kind: str = "templates") -> Embeddings:
    """Rows with the names, people and templates, or media, of their place; each template has so many rows."""
    place = np.arange(len(rows))
    groups = np.array([f"t{number}" for number in place // each])
    return Embeddings(rows, identities=place // IMAGES, **{kind: groups})


def constant(rows: np.ndarray) -> np.ndarray:
    """One vector in every second row."""
    return np.where(np.arange(len(rows))[:, None] % 2, rows, rows[:1])


@pytest.mark.parametrize(("each", "by"), [(2, 1), (2, -1), (4, 1), (4, 2)])
@pytest.mark.parametrize("kind", ["templates", "media"])
def test_labels_that_are_shifted_before_they_are_pooled(each: int, by: int, kind: str):
    pooled = templates_of(of_templates(np.roll(rows_of(), by, 0), each, kind))
    (found,) = implausible_set(pooled)
    assert found.startswith(f"{POOLED}with all labels moved by one row")
    assert found.endswith("the row after" if by > 0 else "the row before")
    assert implausible_set(templates_of(of_templates(rows_of(), each, kind))) == ()


def test_one_domain_that_is_shifted_before_it_is_pooled():
    rows = rows_of()
    night = np.arange(len(rows)) % IMAGES >= IMAGES // 2  # half of each person's rows
    wrong = rows.copy()
    wrong[night] = np.roll(rows[night], 1, 0)
    domains = np.where(night, "night", "day")
    made = [replace(of_templates(one, 2), domains=domains) for one in (rows, wrong)]
    assert implausible_set(templates_of(made[0])) == ()
    (found,) = implausible_set(templates_of(made[1]))
    assert found.startswith(f"{POOLED}domain night: with all labels moved by one row")


@pytest.mark.parametrize("each", [2, 4])
def test_one_vector_in_half_of_the_rows(each: int):
    found, *_ = implausible_set(templates_of(of_templates(constant(rows_of()), each)))
    assert found.startswith(f"{POOLED}one vector stands in")
    assert found.endswith(f"under {PEOPLE} people")


def test_equal_frames_of_one_template_are_no_alarm():
    """Twelve of 240 rows are more than the share in which one vector may stand."""
    rows, place = rows_of(20, images=12), np.arange(240)
    rows[:12] = rows[0]
    frames = Embeddings(rows, identities=place // 12, media=place // 12)
    assert implausible_set(frames) == ("one vector stands in 12 of 240 rows, under 1 person",)
    assert implausible_set(templates_of(frames)) == ()


def test_weak_models_and_rows_of_another_person_are_no_alarm():
    for noise in (2.0, 4.0, 6.0):
        for each in (2, 4):
            assert implausible_set(templates_of(of_templates(rows_of(300, noise), each))) == ()
    wrong = np.random.default_rng(1).permutation(PEOPLE * IMAGES)[: PEOPLE * IMAGES // 10]
    rows = rows_of()
    rows[wrong] = rows[np.roll(wrong, 1)]
    assert implausible_set(templates_of(of_templates(rows, 4))) == ()


def test_a_part_of_the_templates_keeps_the_rows_of_its_own():
    healthy, broken = rows_of(), np.roll(rows_of(), 1, 0)
    half = len(healthy) // 2
    pooled = templates_of(of_templates(np.concatenate([healthy[:half], broken[half:]]), 2))
    assert implausible_set(pooled.take(np.arange(half // 2))) == ()
    (found,) = implausible_set(pooled.take(np.arange(half // 2, half)))
    assert found.startswith(POOLED)
    pooled = templates_of(of_templates(broken, 2))
    other = replace(pooled, identities=np.char.add("p", pooled.identities))
    assert implausible_set(other) == implausible_set(pooled) != ()


def test_a_sample_of_a_large_set_is_kept():
    assert kept_rows(5).tolist() == [0, 1, 2, 3, 4]
    rows = kept_rows(10_000_000)
    assert len(np.unique(rows)) == len(rows) == 1 << 15
    assert (rows[0], rows[-1], (np.diff(rows) == 1).sum()) == (0, 9_999_999, 64 * 511)
    vectors = rows_of(6000, dim=8)
    assert implausible_set(templates_of(of_templates(vectors, 2))) == ()
    pooled = templates_of(of_templates(np.roll(vectors, 1, 0), 2))
    assert pooled.pooled_from is not None
    assert len(pooled.pooled_from) == 1 << 15
    (found,) = implausible_set(pooled)
    assert found.startswith(POOLED)
    assert templates_of(of_templates(vectors, 1)).pooled_from is None  # a row each


def test_a_list_of_templates_by_the_templates_alone():
    """The list and the identities may name different people; the rows of a template are one person all the same."""
    pairs = np.arange(0, PEOPLE * 4, 4)
    comparisons = Comparisons(
        np.concatenate([pairs, pairs]), np.concatenate([pairs + 1, np.roll(pairs, 7)]), np.arange(2 * PEOPLE) < PEOPLE
    )
    days = np.random.default_rng(0).permutation(PEOPLE * 4)
    for moved in (0, 1):
        pooled = templates_of(of_templates(np.roll(rows_of(), moved, 0), 2))
        for people in (pooled.identities, np.full(len(pooled), NOBODY), days):
            found = implausible_pairs(replace(pooled, identities=people), comparisons)
            assert {reason[: len(POOLED)] for reason in found} == ({POOLED} if moved else set())


def files(folder: Path, moved: int) -> tuple[Path, Path, Path]:
    """A file, and the same templates in two files."""
    whole = of_templates(np.roll(rows_of(), moved, 0), 2)
    odd = np.arange(len(whole)) // 2 % 2 == 1
    for name, part in (("whole.npz", whole), ("left.npz", whole.take(~odd)), ("right.npz", whole.take(odd))):
        write_embeddings(folder / name, part)
    return folder / "whole.npz", folder / "left.npz", folder / "right.npz"


def of_ijb(folder: Path, moved: int) -> tuple[Path, IjbFiles]:
    """Templates of two images, with the column of the images moved by some lines."""
    np.savez(folder / "rows.npz", embeddings=rows_of()[::-1], names=np.arange(PEOPLE * IMAGES)[::-1].astype(str))
    images = np.roll(np.arange(PEOPLE * IMAGES), moved)
    (folder / "meta.txt").write_text("".join(f"{image} {line // 2} {line}\n" for line, image in enumerate(images)))
    count = PEOPLE * 4
    pairs = [(a, b, int(a // 4 == b // 4)) for a in range(count) for b in range(a + 1, count, 3)]
    (folder / "pairs.txt").write_text("".join(f"{a} {b} {same}\n" for a, b, same in pairs))
    for name, of in (("gallery.csv", range(0, count, 4)), ("probes.csv", [t for t in range(count) if t % 4])):
        (folder / name).write_text("TEMPLATE_ID,SUBJECT_ID\n" + "".join(f"{t},{t // 4}\n" for t in of))
    sides = {"galleries": (folder / "gallery.csv",), "probes": folder / "probes.csv"}
    return folder / "rows.npz", IjbFiles(folder / "meta.txt", folder / "pairs.txt", **sides)


@pytest.mark.parametrize("moved", [0, 1])
def test_every_evaluation_says_it(tmp_path: Path, moved: int):
    whole, left, right = files(tmp_path, moved)
    rows, ijb = of_ijb(tmp_path, moved)
    asked = IdentificationOptions(fpirs=())
    results = [
        evaluate_all_pairs(whole, OPTIONS),
        evaluate_one_threshold([left, right], OPTIONS),
        evaluate_two_sets(left, right, OPTIONS),
        evaluate_galleries(left, [right], asked),
        evaluate_split(whole, asked),
        evaluate_ijb(rows, ijb, IjbOptions(["1e-1"], fpirs=())),
        evaluate_ijb(rows, IjbFiles(ijb.meta, ijb.pairs), IjbOptions(["1e-1"])),
        evaluate_ijb(rows, replace(ijb, pairs=None), IjbOptions(fpirs=())),
    ]
    for result in results:
        assert bool(result.implausible) == bool(moved)
        assert all(POOLED in reason for reason in result.implausible)
        assert (POOLED in result.text()) == bool(moved)


def test_calibrate_refuses_and_python_warns(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    whole, *_ = files(tmp_path, 1)
    with pytest.raises(ValueError, match=POOLED):
        calibrate(whole, ["1e-1"])
    healthy = tmp_path / "healthy"
    healthy.mkdir()
    calibrate(files(healthy, 0)[0], ["1e-1"])
    with caplog.at_level(logging.WARNING):
        verisphere.evaluate(of_templates(rows_of(), 2), far="1e-1")
        assert POOLED not in caplog.text
        verisphere.evaluate(of_templates(np.roll(rows_of(), 1, 0), 2), far="1e-1")
        assert POOLED in caplog.text


def test_sides_name_the_side():
    pooled = templates_of(of_templates(rows_of(), 2))
    broken = templates_of(of_templates(np.roll(rows_of(), 1, 0), 2))
    (found,) = implausible_sides(pooled, broken, ("probes", "gallery"))
    assert found.startswith(f"gallery: {POOLED}")
