"""The screen of the centers: no pair above a floor is missed, whatever the type, and bounds are bounds."""

import time

import pytest
import torch
import torch.nn.functional as F

from verisphere.head.screened import CenterScreen, Undecided, rounded_rows
from verisphere.score import batch_pairs
from verisphere.score.exact.screen import exact_int8

TYPES = [torch.float32, torch.bfloat16, torch.int8, torch.float64]


def screened(dtype: torch.dtype, centers: torch.Tensor) -> CenterScreen:
    if dtype == torch.int8 and not exact_int8(centers.shape[2]):
        pytest.skip("products in int8 are not exact on this CPU")
    return CenterScreen(centers, dtype)


def drawn(classes: int, subcenters: int, size: int, batch: int, dtype: torch.dtype = torch.float32):
    generator = torch.Generator().manual_seed(classes)
    centers = torch.randn(classes, subcenters, size, generator=generator).to(dtype) * 0.3
    query = F.normalize(torch.randn(batch, size, generator=generator), dim=1).to(dtype)
    labels = torch.randint(0, classes, (batch,), generator=generator)
    labels[0] = -1
    query[1] = F.normalize(centers[labels[1], 0], dim=0)  # at its own center, which is excluded
    return centers, query, labels


def still(centers: torch.Tensor) -> torch.Tensor:
    """No center has turned."""
    return torch.zeros(centers.shape[:2])


def below_best(centers: torch.Tensor, query: torch.Tensor, share: float):
    """A floor below the cosine to the center that is known to be near; where none is known, below all."""
    cosine = query @ F.normalize(centers.flatten(0, 1), dim=1).T
    return lambda leader: cosine.gather(1, leader.clamp(min=0)[:, None])[:, 0].where(leader >= 0, -2.0) - share


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize(("classes", "subcenters", "size", "batch"), [(1000, 1, 32, 5), (333, 3, 16, 4), (5, 1, 3, 9)])
def test_no_pair_is_missed(dtype, classes, subcenters, size, batch, monkeypatch):
    monkeypatch.setitem(__import__("verisphere.head.screened").head.screened.PRODUCTS, "cpu", 1024)
    kind = torch.float64 if dtype == torch.float64 else torch.float32
    centers, query, labels = drawn(classes, subcenters, size, batch, kind)
    near = screened(dtype, centers).near(query, labels, still(centers), below_best(centers, query, 0.1), 10**6)
    cosine = query.double() @ F.normalize(centers.flatten(0, 1).double(), dim=1).T
    known = labels >= 0
    for number in range(subcenters):
        cosine[known, labels[known] * subcenters + number] = -torch.inf
    wanted = (cosine > cosine.amax(1, keepdim=True) - 0.1).nonzero().tolist()
    found = set(zip(near.row.tolist(), near.center.tolist(), strict=True))
    assert len(found) == len(near.row)
    assert {tuple(pair) for pair in wanted} <= found
    exact = cosine[near.row, near.center]
    assert (near.at_most >= exact).all()
    assert (near.at_most - exact).max() < 0.2


def test_few_pairs_remain():
    centers, query, labels = drawn(5000, 1, 64, 8)
    near = screened(torch.float32, centers).near(query, labels, still(centers), below_best(centers, query, 0.05), 10**6)
    assert len(near.row) < 8 * 50


def test_a_turned_center_is_found_within_its_bound():
    centers, query, labels = drawn(400, 1, 16, 3)
    screen = screened(torch.bfloat16, centers)
    moved = centers.clone()
    moved[7, 0] += 0.2 * query[2] * centers[7, 0].norm()
    turned = torch.zeros(400, 1)
    turned[7] = (F.normalize(moved[7, 0], dim=0) - F.normalize(centers[7, 0], dim=0)).norm() * 1.001
    cosine = query @ F.normalize(moved[:, 0], dim=1).T
    near = screen.near(query, labels, turned, below_best(moved, query, 2.0), 10**6)
    mine = (near.row == 2) & (near.center == 7)
    assert mine.sum() == 1
    assert cosine[2, 7] <= near.at_most[mine] < cosine[2, 7] + 0.5
    centers.copy_(moved)
    screen.renew(torch.tensor([7]))
    again = screen.near(query, labels, still(centers), below_best(centers, query, 2.0), 10**6)
    value = again.at_most[(again.row == 2) & (again.center == 7)]
    assert cosine[2, 7] <= value < cosine[2, 7] + 0.03


@pytest.mark.parametrize("count", [3, 32], ids=["a few", "some"])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_no_turned_center_is_missed_and_it_opens_no_pairs_of_others(dtype, count):
    drawn_centers, query, labels = drawn(400, 1, 64, 8, torch.float64 if dtype == torch.float64 else torch.float32)
    near_row = query[torch.arange(400) % 8]
    across = F.normalize(drawn_centers[:, 0] - (drawn_centers[:, 0] * near_row).sum(1, keepdim=True) * near_row, dim=1)

    def at(cosine: torch.Tensor) -> torch.Tensor:
        return (cosine[:, None] * near_row + (1 - cosine**2).sqrt()[:, None] * across)[:, None]

    cosines = torch.full((400,), 0.58, dtype=query.dtype)
    cosines[:8] = 0.7
    cosines[8 : 8 + count] = 0.55
    cosines[48:50] = 0.54
    centers = at(cosines)
    screen = screened(dtype, centers)
    cosines[8 : 8 + count], cosines[48:50] = 0.66, 0.42
    centers.copy_(at(cosines))
    turned = torch.zeros(400, 1)
    turned[8 : 8 + count] = turned[48:50] = 0.14  # acos(0.55) - acos(0.66) = 0.1375
    labels[:] = -1
    labels[2] = 2
    near = screen.near(query, labels, turned, below_best(centers, query, 0.05), 18 + count)
    exact = (query.double() @ centers[:, 0].double().T)[near.row, near.center]
    assert (near.at_most >= exact).all()
    wanted = {(number % 8, number) for number in range(8 + count) if number != 2}
    assert wanted <= set(zip(near.row.tolist(), near.center.tolist(), strict=True))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_a_turned_center_is_found_where_all_products_beside_it_are_negative(dtype):
    query = F.normalize(torch.randn(4, 64, dtype=torch.float64 if dtype == torch.float64 else torch.float32), dim=1)
    across = F.normalize(torch.randn(256, 64).to(query) - query.mean(0), dim=1)
    centers = F.normalize(across - query.sum(0), dim=1)[:, None].clone()  # away from all rows
    centers[9, 0] = F.normalize(centers[9, 0] - (centers[9, 0] @ query[1] + 0.02) * query[1], dim=0)
    assert (query @ centers[:, 0].T).max() < 0
    screen, turned = screened(dtype, centers), torch.zeros(256, 1)
    turned[9] = 0.2
    near = screen.near(query, torch.full((4,), -1), turned, lambda leader: query.new_full((4,), 0.1), 10**6)
    assert (1, 9) in set(zip(near.row.tolist(), near.center.tolist(), strict=True))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("subcenters", [1, 2])
def test_an_own_class_alone_in_its_run_leads_no_row(dtype, subcenters):
    """Its mark is raised as a turned center's product is, where all others point away from the row."""
    kind = torch.float64 if dtype == torch.float64 else torch.float32
    query = F.normalize(torch.ones(2, 16, dtype=kind), dim=1)
    classes = 64 // subcenters + 1
    centers = -torch.rand(classes, subcenters, 16, generator=torch.Generator().manual_seed(0)).to(kind)
    turned = still(centers)
    turned[-1], leaders = 0.2, []

    def floor(leader: torch.Tensor) -> torch.Tensor:
        leaders.append(leader.clone())
        return query.new_full((2,), -1.1)

    near = screened(dtype, centers).near(query, torch.tensor([classes - 1, 0]), turned, floor, 10**6)
    assert (torch.stack(leaders)[:, 0] < 64).all()
    assert (near.row == 0).sum() == 64


def test_a_row_without_direction_cannot_be_decided():
    centers, query, labels = drawn(50, 1, 8, 3)
    centers[4] = 0.0
    with pytest.raises(Undecided, match="off by inf"):
        screened(torch.bfloat16, centers).near(query, labels, still(centers), below_best(centers, query, 0.1), 10**6)
    centers, query, labels = drawn(500, 1, 8, 3)
    with pytest.raises(Undecided, match="more than 10 pairs"):
        screened(torch.float32, centers).near(query, labels, still(centers), below_best(centers, query, 1.0), 10)


def test_what_a_row_has_lost_is_bounded():
    units = F.normalize(torch.randn(64, 32, generator=torch.Generator().manual_seed(0)), dim=1)
    for dtype, unit in ((torch.int8, 0.004), (torch.bfloat16, 1.0)):
        rounded, lost = rounded_rows(units, dtype, unit)
        off = (units.double() - rounded.double() * unit).norm(dim=1)
        assert (off <= lost).all()
        assert (lost < 1.01 * off + 1e-5).all()


@pytest.mark.parametrize("fast", TYPES[:3], ids=str)
def test_the_screen_has_the_type_that_takes_the_least_time(fast, monkeypatch):
    """On a CPU without instructions for int8 too; rows that are rounded in each product are not rounded to int8."""

    def products(left: torch.Tensor, right: torch.Tensor, room: torch.Tensor | None = None) -> None:
        time.sleep(0.0 if left.dtype == fast else 0.05)

    monkeypatch.setattr(batch_pairs, "products", products)
    monkeypatch.delattr(torch.cpu, "_is_vnni_supported", raising=False)  # not every torch has it
    offered = fast != torch.int8 or exact_int8(32)
    assert (batch_pairs.fastest.__wrapped__("cpu", 32, None) == str(fast)[6:]) == offered
    assert batch_pairs.fastest.__wrapped__("cpu", 32, torch.float32) != "int8"
    wrong = not exact_int8(1)  # torch gets these products wrong on some CPUs
    assert (batch_pairs.fastest.__wrapped__("cpu", 1, None) == "int8") == (fast == torch.int8 and not wrong)
    assert batch_pairs.fastest("cuda", 32, None) == "bfloat16"
