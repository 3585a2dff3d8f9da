"""Templates: means within a medium, then over media, worked out by hand; any order of rows, any portions."""

import numpy as np
import pytest

from verisphere.base.vocabulary import Embeddings
from verisphere.base.words import FEATURE_NORMS
from verisphere.score import templates as module
from verisphere.score.templates import Membership, pool_rows, templates_of

# A video of two frames and a still make template 0; one still makes template 1.
ROWS = np.array([[2, 0], [4, 0], [0, 1], [3, 4]], np.float32)
TEMPLATE, MEDIUM = np.array([0, 0, 0, 1]), np.array([7, 7, 8, 7])


def member(row=(0, 1, 2, 3), template=TEMPLATE, medium=MEDIUM, weight=None) -> Membership:
    return Membership(
        np.array(row, np.int64), np.array(template, np.int64), np.array(medium, np.int64),
        None if weight is None else np.array(weight, np.float64),
    )  # fmt: skip


def test_a_medium_is_averaged_before_the_template():
    # the video: (2 + 4) / 2 = 3; with the still: ((3, 0) + (0, 1)) / 2. Medium 7 of template 1 is another medium.
    assert member().coefficients().tolist() == [0.25, 0.25, 0.5, 1.0]
    assert pool_rows([ROWS], member(), 2).tolist() == [[1.5, 0.5], [3, 4]]


def test_dropped_lengths_are_dropped_before_any_mean():
    # unit rows (1, 0), (1, 0), (0, 1), (0.6, 0.8)
    assert pool_rows([ROWS], member(), 2, "drop") == pytest.approx(np.array([[0.5, 0.5], [0.6, 0.8]]), abs=1e-7)


def test_weights_multiply_rows_and_do_not_divide_the_mean():
    # the video: (0.5 * 2 + 1 * 4) / 2 = 2.5, where a weighted mean would be 5 / 1.5; template 1: 0.5 * (3, 4)
    pooled = pool_rows([ROWS], member(weight=[0.5, 1, 1, 0.5]), 2)
    assert pooled.tolist() == [[1.25, 0.5], [1.5, 2]]


def test_a_weight_of_zero_counts_in_its_medium():
    # the video: (0 * 2 + 1 * 4) / 2 = 2
    assert pool_rows([ROWS], member(weight=[0, 1, 1, 1]), 2)[0].tolist() == [1, 0.5]


def test_a_row_of_two_templates_counts_in_both_and_others_in_none():
    entries = member(row=[1, 3, 1], template=[0, 0, 2], medium=[1, 2, 1])
    assert pool_rows([ROWS], entries, 3).tolist() == [[3.5, 2], [0, 0], [4, 0]]


@pytest.mark.parametrize("order", ["together", "together, descending", "shuffled"])
@pytest.mark.parametrize("feature_norm", FEATURE_NORMS)
def test_any_order_of_rows_in_any_portions(order: str, feature_norm: str, monkeypatch: pytest.MonkeyPatch):
    """Against means over the rows of each medium and template, one after the other."""
    random = np.random.default_rng(0)
    rows = random.normal(size=(200, 5)).astype(np.float32)
    template = np.sort(random.integers(0, 23, 200))
    template = {"together": template, "together, descending": 22 - template}.get(order, random.permutation(template))
    medium, weight = random.integers(0, 4, 200), random.uniform(0, 1, 200)
    shuffle = random.permutation(200) if order == "shuffled" else np.arange(200)
    entries = member(np.arange(200)[shuffle], template[shuffle], medium[shuffle], weight[shuffle])
    held = rows.astype(np.float64)
    held = weight[:, None] * (held / np.linalg.norm(held, axis=1, keepdims=True) if feature_norm == "drop" else held)
    expected = np.zeros((24, 5))  # template 23 has no row
    for number in np.unique(template):
        mine = template == number
        media = [held[mine & (medium == one)].mean(0) for one in np.unique(medium[mine])]
        expected[number] = np.mean(media, 0)
    for step, at_once in ((200, 1024), (7, 3), (64, 64)):
        monkeypatch.setattr(module, "ROWS_AT_ONCE", at_once)
        portions = (rows[start : start + step] for start in range(0, 200, step))
        assert np.allclose(pool_rows(portions, entries, 24, feature_norm), expected, atol=1e-7)


def test_a_template_of_rows_that_never_come_is_refused():
    with pytest.raises(ValueError, match="row 3 belongs to a template, but there are 3 rows"):
        pool_rows([ROWS[:2], ROWS[2:3]], member(), 2)
    with pytest.raises(ValueError, match="there are 0 rows"):
        pool_rows([], member(), 2)


def test_what_float32_cannot_hold_is_infinite_without_a_warning():
    rows = np.full((2, 2), 3e38, np.float32)
    for template in ([0, 0], [0, 1]):
        entries = member(row=[0, 1], template=template, medium=[0, 0], weight=[4, 4])
        assert np.isinf(pool_rows([rows], entries, 2)[0]).all()


# --- sets with templates or media ------------------------------------------------------------------------------------


def people(**columns) -> Embeddings:
    return Embeddings(ROWS, names=list("abcd"), **{"identities": ["Ann", "Ann", "Ann", "Ben"], **columns})


def test_templates_and_media_of_a_set():
    pooled = templates_of(people(templates=["t", "t", "t", "s"], media=["v", "v", "w", "v"], domains=["x"] * 4))
    assert pooled.embeddings.tolist() == [[1.5, 0.5], [3, 4]]
    assert (pooled.names.tolist(), pooled.identities.tolist()) == (["t", "s"], ["Ann", "Ben"])
    assert (pooled.media, pooled.templates, pooled.domains.tolist()) == (None, None, ["x", "x"])


def test_without_media_each_row_is_one_and_without_templates_each_medium_is_one():
    # template t: (2 + 4 + 0) / 3 and (0 + 0 + 1) / 3
    pooled = templates_of(people(templates=["t", "t", "t", "s"]))
    assert pooled.embeddings == pytest.approx(np.array([[2, 1 / 3], [3, 4]]), abs=1e-7)
    pooled = templates_of(people(media=["v", "v", "w", "x"]))
    assert (pooled.names.tolist(), pooled.embeddings.tolist()) == (["v", "w", "x"], [[3, 0], [0, 1], [3, 4]])


def test_a_set_without_either_is_returned_as_it_is():
    plain = people()
    assert templates_of(plain) is plain


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"templates": ["t", "t", "s", "s"]}, "template 's' has rows of two identities, 'Ann' and 'Ben' \\(row 3\\)"),
        ({"media": ["v"] * 4, "identities": ["Ann"] * 3 + ["Ben"]}, "template 'v' has rows of two identities"),
        (
            {"templates": list("ttss"), "identities": ["Ann"] * 4, "domains": list("xyxx")},
            "of two domains, 'x' and 'y'",
        ),
    ],
)
def test_a_template_of_two_people_or_domains_is_refused(columns: dict, says: str):
    with pytest.raises(ValueError, match=says):
        templates_of(people(**columns))


def test_a_template_whose_rows_cancel_is_refused():
    rows = Embeddings([[1.0, 2.0], [-1.0, -2.0]], identities=["Ann", "Ann"], templates=["t", "t"])
    with pytest.raises(ValueError, match="length zero, the first is 't'"):
        templates_of(rows)
