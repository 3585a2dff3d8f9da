"""The threshold consistency penalty: thresholds, weights and rules by hand, against `decide/`, and in a training."""

import logging
import math
from collections import deque
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from verisphere.backbones.backbone import Backbone
from verisphere.decide import one_threshold, operating_point, short_far
from verisphere.files.definitions import read_based
from verisphere.files.packaged_recipes import FOLDER
from verisphere.head.head import Head
from verisphere.losses.margin import ArcFace
from verisphere.pairs import GlobalBatch, Step, ThresholdConsistency, Training
from verisphere.pairs.threshold_consistency import DomainThresholds
from verisphere.score.pairs import pair_scores
from verisphere.train.objective import Objective, Position
from verisphere.train.optimizer import Optimizer

#: Four people. Cosines: 0-1 0.6, 0-2 0.8, 0-3 0, 1-2 0.96, 1-3 0.8, 2-3 0.6; each twice, once from either side.
ROWS = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.8, 0.6], [0.0, 1.0]])
LABELS = torch.arange(4)
OUTER_AND_INNER = torch.tensor([0, 1, 1, 0])


def known(names: int = 2, rows: int = 4, dim: int = 2, **options: Any) -> ThresholdConsistency:
    term = ThresholdConsistency(**{"domains": "known", "batches": 1, **options})
    term.prepare(Training(9, dim, rows, tuple("abcdefgh"[:names])))
    return term


def implicit(rows: int = 4, dim: int = 2, **options: Any) -> ThresholdConsistency:
    torch.manual_seed(0)
    term = ThresholdConsistency(**{"batches": 1, "domain_count": 2, **options})
    term.prepare(Training(9, dim, rows))
    return term


def step_of(
    rows: Tensor = ROWS, labels: Tensor = LABELS, domains: Tensor | None = None, number: int = 0, epoch: float = 0.0
) -> Step:
    return Step(GlobalBatch.of(rows, labels), rows, labels, number, epoch, domains)


# --- by hand ---


def test_a_domain_above_the_rest_weighs_more():
    """FAR 0.25: 3 of 12 may pass, t_c 0.8; of a domain's 6 one may: 0.8 and 0.96, and 0.96 / 0.8 = 1.2."""
    given = known(far="0.25")(step_of(domains=OUTER_AND_INNER))
    assert given.weights.tolist() == pytest.approx([1.0, 1.2, 1.2, 1.0])
    assert given.loss is None
    assert given.figures == {
        "tcp_threshold_at_far_2.5e-1": pytest.approx(0.8),
        "tcp_threshold_of_a": pytest.approx(0.8),
        "tcp_threshold_of_b": pytest.approx(0.96),
        "tcp_weight_of_a": pytest.approx(1.0),
        "tcp_weight_of_b": pytest.approx(1.2),
        "tcp_share_of_a": 0.5,
        "tcp_share_of_b": 0.5,
        "tcp_gamma": pytest.approx(0.16 / math.sqrt(2)),
        "tcp_capped": 0.0,
        "tcp_queue_fill": 1.0,
    }


def test_a_domain_below_the_rest_weighs_less():
    """FAR 0.34: 4 of 12 may pass, t_c 0.8; of 6 two may: 0.6 and 0.8."""
    given = known(far="0.34")(step_of(domains=OUTER_AND_INNER))
    assert given.weights.tolist() == pytest.approx([0.75, 1.0, 1.0, 0.75])
    assert given.figures["tcp_gamma"] == pytest.approx(0.2 / math.sqrt(2))


@pytest.mark.parametrize(
    ("options", "weights"),
    [
        ({"far": "0.25", "highest": 1.1}, [1.0, 1.1, 1.1, 1.0]),
        ({"far": "0.34", "lowest": 0.9}, [0.9, 1.0, 1.0, 0.9]),
    ],
)
def test_a_ratio_beyond_the_cap_is_cut_off(options, weights):
    given = known(**options)(step_of(domains=OUTER_AND_INNER))
    assert given.weights.tolist() == pytest.approx(weights)
    assert given.figures["tcp_capped"] == 0.5


def test_a_domain_with_too_few_pairs_weighs_1():
    """Of one row's 3 pairs FAR 0.25 lets none pass; t_c 0.8 and the two others' 0.96 are as before."""
    given = known(far="0.25", names=3)(step_of(domains=torch.tensor([0, 1, 1, 2])))
    assert given.weights.tolist() == pytest.approx([1.0, 1.2, 1.2, 1.0])
    assert {name for name in given.figures if name.startswith("tcp_threshold_of")} == {"tcp_threshold_of_b"}
    assert given.figures["tcp_gamma"] == pytest.approx(0.16)


def test_a_domain_without_rows_logs_its_share_alone():
    given = known(far="0.25", names=4)(step_of(domains=2 * OUTER_AND_INNER))
    assert given.weights.tolist() == pytest.approx([1.0, 1.2, 1.2, 1.0])
    named = {domain: {name for name in given.figures if name.endswith(f"_of_{domain}")} for domain in "abcd"}
    assert named["b"] == {"tcp_share_of_b"}
    assert named["d"] == {"tcp_share_of_d"}
    assert named["c"] == {"tcp_share_of_c", "tcp_weight_of_c", "tcp_threshold_of_c"}
    assert given.figures["tcp_share_of_b"] == 0


def test_too_few_pairs_in_all_is_said_once_and_weighs_nothing(caplog):
    term = known(far="1e-4")
    with caplog.at_level(logging.WARNING, logger="verisphere"):
        for number in range(2):
            given = term(step_of(domains=OUTER_AND_INNER, number=number))
    assert given.weights.tolist() == [1.0] * 4
    assert not any("threshold" in name or "gamma" in name for name in given.figures)
    assert caplog.messages == [
        "step 1: 12 impostor pairs are too few for FAR 1e-4; until there are more, all weights are 1"
    ]


def test_thresholds_that_are_not_positive_weigh_1():
    """Two people opposite each other: every pair has -1."""
    rows = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
    given = known(far="0.5")(step_of(rows, torch.tensor([0, 1, 0, 1]), OUTER_AND_INNER))
    assert given.weights.tolist() == [1.0] * 4
    assert given.figures["tcp_threshold_at_far_5e-1"] == -1
    assert given.figures["tcp_capped"] == 0


@pytest.mark.parametrize(
    ("common", "own", "ratio"),
    [
        (0.5, 0.25, 0.5),
        (0.25, 0.5, 2.0),
        (0.5, None, 1.0),
        (None, 0.5, 1.0),
        (0.0, 0.5, 1.0),
        (-0.1, 0.5, 1.0),
        (0.5, 0.0, 1.0),
        (0.5, -0.1, 1.0),
        (-0.2, -0.1, 1.0),
    ],
)
def test_the_rules_of_a_ratio(common, own, ratio):
    assert DomainThresholds(9, common, {} if own is None else {3: own}).ratio(3) == ratio


def test_before_its_time_it_weighs_nothing_but_looks():
    term = known(far="0.25", after=2.0)
    before = term(step_of(domains=OUTER_AND_INNER, epoch=1.99))
    assert before.weights.tolist() == [1.0] * 4
    assert before.figures["tcp_threshold_of_b"] == pytest.approx(0.96)
    assert before.figures["tcp_weight_of_b"] == 1
    later = term(step_of(domains=OUTER_AND_INNER, epoch=2.0))
    assert later.weights.tolist() == pytest.approx([1.0, 1.2, 1.2, 1.0])


# --- queue ---


def test_the_queue_keeps_the_last_batches_whatever_their_size():
    """Three batches of 4 places, of which parts of a batch may fill fewer: 3, 4, 2, 4, 1 rows, the last 12 stay."""
    term = known(batches=3, dim=1)
    given, number = [], 0
    for count in (3, 4, 2, 4, 1):
        labels = torch.arange(number, number + count)
        rows = torch.where(labels % 2 == 0, 1.0, -1.0)[:, None]
        term(step_of(rows, labels, torch.zeros_like(labels)))
        given += labels.tolist()
        number += count
        assert term.queue.fill() == pytest.approx(min(number / 12, 1))
    assert sorted(term.queue.labels.tolist()) == given[-12:]
    # each row lies beside its own label
    assert torch.equal(term.queue.features[:, 0] > 0, term.queue.labels % 2 == 0)


def test_what_lies_in_the_queue_is_compared():
    """A second batch of opposite faces: with the first one's rows at cosine -1, and its own."""
    term = known(far="0.5", batches=2, rows=2, dim=1)
    rows, labels, domains = torch.tensor([[1.0], [1.0]]), torch.tensor([0, 1]), torch.tensor([0, 1])
    assert term(step_of(rows, labels, domains)).figures["tcp_threshold_at_far_5e-1"] == 1
    # against labels 0 to 3, own ones left out: 2 x 1 and 4 x -1; the 4th largest
    assert term(step_of(-rows, labels + 2, domains)).figures["tcp_threshold_at_far_5e-1"] == -1


@pytest.mark.parametrize("storage", ["float32", "bfloat16"])
@pytest.mark.parametrize("far", ["1e-3", "0.02", "0.3"])
def test_thresholds_are_decide_s_over_the_same_pairs_bit_for_bit(far, storage):
    """Batches with unknown people, groups of any size, and a queue that wraps round."""
    draw = torch.Generator().manual_seed(7)
    term = known(far=far, names=4, rows=40, dim=12, batches=3, storage=storage)
    seen: deque[tuple[Tensor, Tensor]] = deque(maxlen=3)
    for _ in range(6):
        labels = torch.randint(-1, 9, (40,), generator=draw)
        rows = torch.randn(10, 12, generator=torch.Generator().manual_seed(0))[labels] + torch.randn(
            40, 12, generator=draw
        )
        domains = torch.randint(0, 4, (40,), generator=draw).clamp(max=2)
        step = step_of(rows, labels, domains)
        given = term(step)
        seen.append((step.batch.units, labels))
        stored = torch.cat([units for units, _ in seen]).to(getattr(torch, storage)).float()
        others = torch.cat([some for _, some in seen])
        left, right = (labels[:, None] != others[None, :]).nonzero().T
        scores = pair_scores(step.batch.units, left, right, stored)
        assert given.figures[f"tcp_threshold_at_far_{short_far(far)}"] == at(scores, far)
        own = {domain: scores[domains[left] == domain] for domain in range(3)}
        for domain, some in own.items():
            if float(far) * len(some) >= 1:
                assert given.figures[f"tcp_threshold_of_{'abcd'[domain]}"] == at(some, far)
            else:
                assert f"tcp_threshold_of_{'abcd'[domain]}" not in given.figures
        if all(float(far) * len(some) >= 1 for some in own.values()):
            split = {str(domain): (torch.ones(1), some) for domain, some in own.items()}
            assert given.figures["tcp_gamma"] == one_threshold(split, far).gamma


@pytest.mark.parametrize("far", ["1e-2", "0.2"])
def test_within_domains_thresholds_are_those_of_evaluation_over_the_same_pairs(far):
    """The rows of a domain with stored rows of that domain; t_c as ever."""
    draw = torch.Generator().manual_seed(11)
    terms = [known(far=far, names=3, rows=40, dim=12, batches=2, compare=one) for one in ("domain", "queue")]
    seen: deque[tuple[Tensor, Tensor, Tensor]] = deque(maxlen=2)
    for _ in range(4):
        labels = torch.randint(-1, 9, (40,), generator=draw)
        domains = torch.randint(0, 3, (40,), generator=draw)
        step = step_of(torch.randn(40, 12, generator=draw), labels, domains)
        within, whole = (term(step).figures for term in terms)
        seen.append((step.batch.units, labels, domains))
        stored, others, of = (torch.cat(column) for column in zip(*seen, strict=True))
        left, right = (labels[:, None] != others[None, :]).nonzero().T
        scores = pair_scores(step.batch.units, left, right, stored)
        for domain, name in enumerate("abc"):
            inside = (domains[left] == domain) & (of[right] == domain)
            if float(far) * int(inside.sum()) >= 1:
                assert within[f"tcp_threshold_of_{name}"] == at(scores[inside], far)
            else:
                assert f"tcp_threshold_of_{name}" not in within
        assert within[f"tcp_threshold_at_far_{short_far(far)}"] == whole[f"tcp_threshold_at_far_{short_far(far)}"]
    assert within["tcp_gamma"] != whole["tcp_gamma"]


def test_a_power_makes_ratios_felt():
    """1.2 squared is 1.44, which counts; to the tenth it is 6.19, which is cut off at 2."""
    for power, weight in ((1.0, 1.2), (2.0, 1.44), (10.0, 2.0), (0.0, 1.0)):
        given = known(far="0.25", power=power)(step_of(domains=OUTER_AND_INNER))
        assert given.weights.tolist() == pytest.approx([1.0, weight, weight, 1.0])


def at(scores: Tensor, far: str) -> float:
    return operating_point([1.0], scores, far).threshold


def test_one_pass_over_the_queue_is_enough_once_the_hints_are_good():
    draw = torch.Generator().manual_seed(3)
    term = known(far="0.05", names=4, rows=64, dim=16, batches=8)
    for number in range(12):
        if number == 8:
            before = term.hints.passes
        rows, labels = torch.randn(64, 16, generator=draw), torch.randint(0, 20, (64,), generator=draw)
        term(step_of(rows, labels, torch.arange(64) % 4))
    assert term.hints.passes - before <= 6  # 4 steps of one pass, and chance


# --- implicit domains ---


def test_implicit_domains_weigh_as_known_ones_of_the_same_division():
    draw = torch.Generator().manual_seed(1)
    ours, theirs = implicit(rows=30, dim=8, far="0.05", batches=2), known(rows=30, dim=8, far="0.05", batches=2)
    for number in range(3):
        rows, labels = torch.randn(30, 8, generator=draw), torch.randint(0, 9, (30,), generator=draw)
        given = ours(step_of(rows, labels, number=number))
        probabilities = ours.division(step_of(rows, labels).batch.units).softmax(1)
        domains = (probabilities - probabilities.mean(0)).argmax(1)
        same = theirs(step_of(rows, labels, domains, number))
        assert torch.equal(given.weights, same.weights)
        renamed = {name.replace("_of_a", "_of_0").replace("_of_b", "_of_1"): one for name, one in same.figures.items()}
        loss = given.figures.pop("tcp_domain_loss")
        assert given.figures == renamed
        expected = nn.functional.cross_entropy(probabilities.log(), domains)
        assert loss == pytest.approx(expected.item())
        assert given.loss.item() == pytest.approx(0.05 * expected.item())


@pytest.mark.parametrize("detach", [False, True])
@pytest.mark.parametrize("cross_entropy", ["logits", "as_printed"])
def test_the_domain_loss_trains_its_network_and_the_backbone(cross_entropy, detach):
    term = implicit(rows=6, dim=4, cross_entropy=cross_entropy, detach=detach)
    rows = torch.randn(6, 4, generator=torch.Generator().manual_seed(2), requires_grad=True)
    given = term(step_of(rows, torch.arange(6)))
    assert not given.weights.requires_grad
    given.loss.backward()
    for name, parameter in term.division.named_parameters():
        assert parameter.grad.abs().max() > 0, name
    assert rows.grad is None if detach else bool(rows.grad.abs().max() > 0)


def test_as_printed_is_another_loss():
    logits, printed = (
        implicit(cross_entropy=one)(step_of()).figures["tcp_domain_loss"] for one in ("logits", "as_printed")
    )
    assert logits != pytest.approx(printed)


def test_what_is_kept_goes_into_checkpoints_and_what_is_learned_to_the_optimizer():
    term = implicit()
    names = {"queue.features", "queue.labels", "queue.domains", "queue.entered"}
    layers = {f"division.{layer}.{what}" for layer in ("first", "last") for what in ("weight", "bias")}
    assert set(term.state_dict()) == names | layers
    assert term.held() == {f"queue.{name}": range(4) for name in ("features", "labels", "domains")}
    objective = Objective(Line(), Head(ArcFace(), 4, 2), terms=[term])
    optimizer = Optimizer(rate=0.1).build(objective, objective.head)
    trained = {id(one) for group in optimizer.param_groups for one in group["params"]}
    assert {id(one) for one in term.division.parameters()} <= trained


# --- in a training ---


class Line(Backbone):
    """One matrix, of numbers above 0: of such images no two embeddings point away from each other."""

    input_size = (2, 2)

    def __init__(self, embedding_size: int = 2) -> None:
        super().__init__(embedding_size)
        self.project = nn.Linear(12, embedding_size, bias=False)
        nn.init.uniform_(self.project.weight)

    def embed(self, images: Tensor) -> Tensor:
        return self.project(images.flatten(1))


@pytest.mark.parametrize("build", [known, implicit])
def test_weights_reach_the_class_center_loss_as_in_eqs_7_and_8(build):
    torch.manual_seed(0)
    backbone, head = Line(8), Head(ArcFace(0.5, 8.0), 8, 8)
    images, labels, domains = torch.rand(16, 3, 2, 2), torch.arange(16) % 8, torch.arange(16) // 8
    output = Objective(backbone, head, terms=[build(rows=16, dim=8, far="0.1")])(
        images, labels, None, Position(), domains
    )
    weights = build(rows=16, dim=8, far="0.1")(step_of(backbone(images), labels, domains)).weights
    assert weights.unique().numel() == 2
    expected = (weights * output.per_sample).sum() / 16 + 0.05 * output.figures.get("tcp_domain_loss", 0.0)
    assert output.loss.item() == pytest.approx(expected.item(), rel=1e-6)
    output.loss.backward()
    centers, head.centers.grad = head.centers.grad, None
    embeddings = backbone(images)
    sum(weights[row] / 16 * head(embeddings[[row]], labels[[row]]).loss for row in range(16)).backward()
    torch.testing.assert_close(centers, head.centers.grad, rtol=1e-4, atol=1e-7)


# --- recipes and refusals ---


@pytest.mark.parametrize("name", ["arcface", "cosface"])
def test_its_recipes_have_the_paper_s_numbers(name):
    settings = read_based(FOLDER / "oneface" / f"{name}.yaml").content
    (term,) = settings["pair_terms"]
    assert term["init_args"] == {
        "far": "1e-4",
        "batches": 1000,
        "domains": "implicit",
        "domain_count": 8,
        "domain_loss_weight": 0.05,
    }
    assert (settings["batch_size"], settings["unit"]) == (512, "steps")
    assert [*settings["schedule"]["milestones"], settings["steps"]] == [55_000, 88_000, 99_000, 110_000]


@pytest.mark.parametrize(("far", "name"), [("1e-4", "1e-4"), (0.0001, "1e-4"), ("0.10", "1e-1"), (2.5e-05, "2.5e-5")])
def test_a_far_has_one_name(far, name):
    assert short_far(far) == name


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"far": "0"}, "far is 0; it must lie between 0 and 1"),
        ({"far": "1"}, "far is 1; it must lie between 0 and 1"),
        ({"far": "few"}, "a FAR must be a decimal number such as 1e-4, got 'few'"),
        ({"batches": 0}, "batches is 0; it must be at least 1"),
        ({"domains": "all"}, "domains is 'all'; allowed are implicit, known"),
        ({"domain_count": 1}, "domain_count is 1; it must be at least 2"),
        ({"cross_entropy": "printed"}, "cross_entropy is 'printed'; allowed are logits, as_printed"),
        ({"domain_loss_weight": -1.0}, "domain_loss_weight is -1.0; it must be a finite number >= 0"),
        ({"after": math.nan}, "after is nan; it must be a finite number >= 0"),
        ({"lowest": 0.0}, "lowest is 0.0 and highest 2.0; they must satisfy 0 < lowest <= 1 <= highest"),
        ({"highest": 0.9}, "lowest is 0.5 and highest 0.9; they must satisfy"),
        ({"compare": "all"}, "compare is 'all'; allowed are queue, domain"),
        ({"power": -1.0}, "power is -1.0; it must be a finite number >= 0"),
    ],
)
def test_refusals_name_the_argument(arguments, message):
    kind = ThresholdConsistency
    bare = getattr(kind.__init__, "__wrapped__", kind.__init__)  # past the type checks of the test run
    with pytest.raises(ValueError, match=message):
        bare(kind.__new__(kind), **arguments)


@pytest.mark.parametrize(
    ("domains", "found"), [(None, "has no domains"), (("studio",), "has the single domain 'studio'")]
)
def test_known_domains_must_be_known(domains, found):
    with pytest.raises(ValueError, match=f"domains is 'known' but the data {found}; use data with at least 2 domains"):
        ThresholdConsistency(domains="known").prepare(Training(3, 4, 2, domains))


def test_known_domains_must_come_with_a_step():
    with pytest.raises(ValueError, match="a step has no domains for its rows"):
        known()(step_of())
