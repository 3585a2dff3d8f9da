"""The nearest other classes of a batch: by hand, and the same for every chunk size."""

import pytest
import torch

from verisphere.head import nearest
from verisphere.head.nearest import nearest_others
from verisphere.head.subcenters import SubCenters

QUERY = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
CENTERS = torch.tensor([[[2.0, 0.0]], [[0.6, 0.8]], [[0.0, -1.0]], [[-0.8, 0.6]]])


def test_by_hand():
    found = nearest_others(QUERY, CENTERS, torch.tensor([0, 1]), 2, SubCenters(), "cosine")
    torch.testing.assert_close(found, torch.tensor([[0.6, 0.0], [0.6, 0.0]]))
    products = nearest_others(QUERY, CENTERS, torch.tensor([3, 3]), 1, SubCenters(), "product")
    torch.testing.assert_close(products, torch.tensor([[2.0], [0.8]]))


def test_no_more_than_there_are():
    labels = torch.tensor([0, 1])
    found = nearest_others(QUERY, CENTERS, labels, 9, SubCenters(), "cosine")
    assert found.shape == (2, 4)
    assert found.isinf().tolist() == [[False, False, False, True]] * 2
    own_elsewhere = nearest_others(QUERY, CENTERS[:1], torch.tensor([0, -1]), 9, SubCenters(), "cosine")
    torch.testing.assert_close(own_elsewhere, torch.tensor([[-torch.inf], [0.0]]))


def test_one_row_copies_no_more_centers_at_a_time(monkeypatch):
    looked_at = []
    monkeypatch.setattr(nearest, "compared_rows", lambda rows, _: looked_at.append(len(rows)) or rows)
    nearest_others(QUERY[:1], CENTERS, torch.tensor([0]), 1, SubCenters(), "product", at_once=4)
    assert looked_at == [2, 2]  # of 2 numbers each


@pytest.mark.parametrize("at_once", [1, 50, 97, 10**6])
@pytest.mark.parametrize("subcenters", [SubCenters(), SubCenters(3), SubCenters(3, pooling="softmax")])
def test_chunks_change_nothing(at_once, subcenters):
    generator = torch.Generator().manual_seed(0)
    query = torch.nn.functional.normalize(torch.randn(7, 4, generator=generator, dtype=torch.float64))
    centers = torch.randn(23, subcenters.count, 4, generator=generator, dtype=torch.float64).requires_grad_()
    labels = torch.randint(0, 23, (7,), generator=generator)
    found = nearest_others(query, centers, labels, 5, subcenters, "cosine", at_once)
    cosine = subcenters.pooled(torch.einsum("bd,nkd->bnk", query, torch.nn.functional.normalize(centers, dim=-1)))
    cosine[torch.arange(7), labels] = -2.0
    torch.testing.assert_close(found, cosine.detach().sort(dim=1, descending=True).values[:, :5])
    assert not found.requires_grad
