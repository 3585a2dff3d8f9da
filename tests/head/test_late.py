"""Centers without a gradient, updated late: the recurrence, and the bound of how far they turn."""

import pytest
import torch

from verisphere.head import SGDStep
from verisphere.head.late import MOST_STEPS, LateCenters, step_matrix

STEPS = {
    "plain": SGDStep(0.1, 0.0, 0.01),
    "momentum": SGDStep(0.1, 0.9, 0.01),
    "nesterov": SGDStep(0.1, 0.9, 0.01, nesterov=True),
}


def stepped(rows: torch.Tensor, buffer: torch.Tensor | None, step: SGDStep) -> None:
    """A step of `torch.optim.SGD` without a gradient, made by torch itself."""
    parameter = torch.nn.Parameter(rows.clone())
    sgd = torch.optim.SGD([parameter], step.rate, step.momentum, 0.0, step.weight_decay, step.nesterov)
    if buffer is not None:
        sgd.state[parameter]["momentum_buffer"] = buffer.clone()
    parameter.grad = torch.zeros_like(rows)
    sgd.step()
    rows.copy_(parameter.detach())
    if buffer is not None:
        buffer.copy_(sgd.state[parameter]["momentum_buffer"])


def test_a_step_by_hand():
    # w = 2, v = 4, decay 1/4, momentum 1/2, rate 1/2: v' = 0.5 + 2 = 2.5, w' = 2 - 1.25 = 0.75
    matrix = torch.tensor(step_matrix(SGDStep(0.5, 0.5, 0.25)))
    assert (matrix @ torch.tensor([2.0, 4.0])).tolist() == [0.75, 2.5]
    # Nesterov looks ahead: w' = 2 - 0.5 * (0.5 + 0.5 * 2.5) = 1.125
    matrix = torch.tensor(step_matrix(SGDStep(0.5, 0.5, 0.25, nesterov=True)))
    assert (matrix @ torch.tensor([2.0, 4.0])).tolist() == [1.125, 2.5]


@pytest.mark.parametrize("kind", STEPS)
def test_rows_are_those_of_sgd(kind):
    """Whatever was written in between, and with a rate that changes."""
    torch.manual_seed(0)
    step, centers = STEPS[kind], torch.randn(7, 2, 3, dtype=torch.float64)
    buffer = torch.randn_like(centers) if step.momentum else None
    expected = centers.clone(), None if buffer is None else buffer.clone()
    late = LateCenters()
    late.of(centers)
    for number in range(40):
        now = SGDStep(0.1 / (1 + number), step.momentum, step.weight_decay, step.nesterov)
        stepped(*expected, now)
        written = torch.tensor([number % 7, (number + 3) % 7])
        late.attach(buffer)
        if number % 11 == 5:
            late.bring_up(torch.tensor([0, 6]))
        late.write(written, expected[0][written], None if buffer is None else expected[1][written], behind=0)
        late.advance(now)
        some = torch.tensor([1, 5])
        torch.testing.assert_close(late.current(some)[0], expected[0][some], rtol=1e-12, atol=1e-14)
        if number == 20:
            late.bring_up()
    late.bring_up()
    torch.testing.assert_close(centers, expected[0], rtol=1e-12, atol=1e-14)
    if buffer is not None:
        torch.testing.assert_close(buffer, expected[1], rtol=1e-12, atol=1e-14)


def test_thousands_of_steps_do_not_underflow():
    """0.5^2000 is no float64; the rows are brought up by themselves once there are too many steps."""
    step, centers = SGDStep(0.01, 0.5, 0.01), torch.ones(2, 1, 2, dtype=torch.float64)
    buffer = torch.full_like(centers, 3.0)
    expected = centers.clone(), buffer.clone()
    late = LateCenters()
    late.of(centers)
    for _ in range(MOST_STEPS + 50):
        stepped(*expected, step)
        late.attach(buffer)
        late.write(torch.tensor([0]), expected[0][:1], expected[1][:1], behind=0)
        late.advance(step)
    torch.testing.assert_close(late.current(torch.tensor([1]))[0], expected[0][1:], rtol=1e-11, atol=0)
    torch.testing.assert_close(late.current(torch.tensor([1]))[1], expected[1][1:], rtol=1e-11, atol=0)


@pytest.mark.parametrize("kind", ["momentum", "nesterov"])
def test_the_bound_of_a_turn_holds_and_is_near(kind):
    torch.manual_seed(1)
    centers = torch.randn(50, 1, 8, dtype=torch.float64)
    buffer = torch.randn_like(centers) * torch.logspace(-4, 0, 50, dtype=torch.float64)[:, None, None]
    before, late = torch.nn.functional.normalize(centers, dim=2), LateCenters()
    late.of(centers)
    for number in range(30):
        late.attach(buffer)
        late.write(torch.tensor([0]), *late.current(torch.tensor([0])), behind=0)
        late.advance(STEPS[kind])
        now = torch.nn.functional.normalize(late.current(torch.arange(50))[0], dim=2)
        turned = (now - before).norm(dim=2)[1:]
        bound = late.turned()[1:]
        assert (turned <= bound).all(), number
        small = bound < 0.1
        assert small.any()
        assert (bound[small] < 1.02 * turned[small] + 1e-6).all(), number


def test_a_foreign_change_is_noticed():
    centers, late = torch.ones(3, 1, 2), LateCenters()
    late.of(centers)
    late.attach(None)
    late.write(torch.tensor([0]), torch.zeros(1, 1, 2), None, behind=0)
    late.advance(STEPS["plain"])
    late.of(centers)
    centers.mul_(2.0)
    with pytest.raises(ValueError, match="lacked their last steps"):
        late.of(centers)


@pytest.mark.parametrize("nesterov", [False, True])
def test_rows_that_are_written_in_each_step_are_as_near_as_those_of_sgd(nesterov):
    """0.99995 is off by 8e-9 in float32: as a factor in 3,000 steps it would be 2.5e-5."""
    step, rows = SGDStep(0.1, 0.9, 5e-4, nesterov), torch.randn(20, 1, 32, generator=torch.Generator().manual_seed(1))
    exact = [rows.double(), torch.zeros(20, 1, 32, dtype=torch.float64)]
    dense, late = [rows.clone(), torch.zeros_like(rows)], LateCenters()
    late.of(rows)
    late.attach(torch.zeros_like(rows))
    for _ in range(3000):
        stepped(*exact, step)
        stepped(*dense, step)
        late.advance(step)
        late.bring_up()
    off, of_dense = ((one - exact[0]).abs().max() for one in (rows, dense[0]))
    assert off < 2 * of_dense


def test_a_step_that_turns_a_center_round_is_seen_without_momentum():
    late = LateCenters()
    late.of(torch.randn(4, 1, 8))
    late.attach(None)
    assert late.turned().max() == 0
    late.advance(SGDStep(rate=1.0, weight_decay=0.5))
    assert late.turned().max() == 0
    late.advance(SGDStep(rate=1.0, weight_decay=1.5))  # w' = -0.5 w
    assert late.turned().min() > 1e30
