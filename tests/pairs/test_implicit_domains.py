"""Self-made domains: eqs. 4 to 6 of OneFace by hand, their gradients, and what training them comes to."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from verisphere.base.vocabulary import check_word
from verisphere.pairs.implicit_domains import (
    CrossEntropy,
    ImplicitDomains,
    expectation_normalised,
    self_made_labels,
    self_made_loss,
)

#: Two rows that both lean to the first of two domains, one of them less than the other.
PROBABILITIES = torch.tensor([[0.7, 0.3], [0.9, 0.1]], dtype=torch.float64)


def test_eq_4_by_hand():
    division = ImplicitDomains(2, domains=2, hidden=2)
    with torch.no_grad():
        division.first.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, -1.0]]))
        division.first.bias.zero_()
        division.last.weight.copy_(torch.tensor([[1.0, 1.0], [2.0, 0.0]]))
        division.last.bias.copy_(torch.tensor([0.0, 1.0]))
    # at length sqrt(2) the row is (0.848528, 1.131371); the second number goes negative, and so to 0
    found = division(torch.tensor([[0.6, 0.8]]))
    torch.testing.assert_close(found, torch.tensor([[0.848528, 2.697056]]), rtol=1e-6, atol=0)


def test_eq_5_by_hand():
    # means 0.8 and 0.2; -0.1 / 2 + 1 / 2
    expected = torch.tensor([[0.45, 0.55], [0.55, 0.45]], dtype=torch.float64)
    torch.testing.assert_close(expectation_normalised(PROBABILITIES), expected)


def test_labels_are_evened_out_where_the_largest_probability_would_take_all():
    assert PROBABILITIES.argmax(1).tolist() == [0, 0]
    assert self_made_labels(PROBABILITIES.log()).tolist() == [1, 0]


@given(st.integers(1, 12), st.integers(2, 9), st.integers(0, 99))
def test_each_domain_s_mean_is_one_in_m(rows, domains, seed):
    logits = 5 * torch.randn(rows, domains, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    found = expectation_normalised(logits.softmax(1))
    torch.testing.assert_close(found.mean(0), torch.full((domains,), 1 / domains, dtype=torch.float64))
    torch.testing.assert_close(found.sum(1), torch.ones(rows, dtype=torch.float64))
    assert found.min() >= 0
    assert found.max() <= 1


def test_one_row_alone_is_of_the_first_domain():
    """Its probabilities are the means: nothing tells the domains apart."""
    assert self_made_labels(torch.tensor([[0.1, 2.0, -1.0]])).tolist() == [0]


def test_eq_6_by_hand():
    labels = self_made_labels(PROBABILITIES.log())
    # -(ln 0.3 + ln 0.9) / 2
    assert self_made_loss(PROBABILITIES.log(), labels).item() == pytest.approx(0.6546667, abs=1e-7)
    # as printed: (ln(1 + e^0.4) + ln(1 + e^-0.8)) / 2
    assert self_made_loss(PROBABILITIES.log(), labels, "as_printed").item() == pytest.approx(0.6420580, abs=1e-7)


@pytest.mark.parametrize("cross_entropy", ["logits", "as_printed"])
def test_eq_6_gradient(cross_entropy):
    logits = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    labels = self_made_labels(logits)
    assert torch.autograd.gradcheck(lambda rows: self_made_loss(rows, labels, cross_entropy), (logits,))


def test_as_printed_a_certain_and_right_answer_still_costs():
    certain = torch.full((1, 8), -50.0).index_fill(1, torch.tensor([2]), 50.0)
    assert self_made_loss(certain, torch.tensor([2])).item() == pytest.approx(0, abs=1e-9)
    assert self_made_loss(certain, torch.tensor([2]), "as_printed").item() == pytest.approx(math.log(1 + 7 / math.e))


def test_the_length_of_an_embedding_is_no_matter():
    torch.manual_seed(0)
    division, rows = ImplicitDomains(6, 3), torch.randn(4, 6)
    torch.testing.assert_close(division(F.normalize(rows)), division(F.normalize(7 * rows)))


def test_two_kinds_of_faces_become_two_domains():
    torch.manual_seed(0)
    kind = torch.arange(40) % 2
    units = F.normalize(torch.randn(2, 16)[kind] + 0.3 * torch.randn(40, 16))
    division = ImplicitDomains(16, domains=2)
    optimizer = torch.optim.SGD(division.parameters(), lr=0.1)
    first = None
    for _ in range(50):
        logits = division(units)
        loss = self_made_loss(logits, self_made_labels(logits))
        first = loss.item() if first is None else first
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    labels = self_made_labels(division(units))
    assert loss.item() < 0.1 * first
    assert torch.equal(labels == labels[0], kind == kind[0])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ImplicitDomains(0), "embedding_size is 0; it must be at least 1"),
        (lambda: ImplicitDomains(8, 1), "domains is 1; it must be at least 2"),
        (lambda: ImplicitDomains(8, hidden=0), "hidden is 0; it must be at least 1"),
        (
            lambda: check_word("cross_entropy", "printed", CrossEntropy),
            "cross_entropy is 'printed'; allowed are logits, as_printed",
        ),
    ],
)
def test_refusals(build, message):
    with pytest.raises(ValueError, match=message):
        build()
