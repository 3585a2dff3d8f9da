"""How often a watch raises a false alarm, and how soon it notices a change.

    python benchmarks/monitoring.py [--full] [--part-of K] [--tables]

Each part goes to monitoring_quick.csv, or with --full to monitoring.csv, the source of the figures in
docs/monitoring.md, when it is finished; a stopped run continues (`cells.py`). Seeds are fixed. A stream is a sequence
of comparisons; delays are numbers of comparisons that count, and of these times the promised rate: the false accepts
that the promise expected meanwhile.
"""

import bisect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from cells import Size as Cells
from cells import Table, parser

from verisphere.decide.watch import ALARM, RateTest, anytime_bounds, reference_test
from verisphere.report.tables import table

RATES = (1e-1, 1e-2, 1e-3)
JUMP = 0.01  # chance with which the simple jumper changes its bet at each step (Vovk 2021, arXiv:2105.08669, uses it)


@dataclass(frozen=True)
class Row:
    """A figure.

    Attributes:
        part: which question it answers.
        case: what is varied.
        rate: promised rate; None for scores without labels.
        figure: what was measured.
        value: the figure; infinite for a delay that more than half (or a tenth) of the streams exceed.
        streams: number of streams.
        run: the part of the benchmark that made it.
    """

    part: str
    case: str
    rate: float | None
    figure: str
    value: float
    streams: int
    run: str = ""


@dataclass(frozen=True)
class Size:
    """How many streams are simulated, and how long they are.

    Attributes:
        streams: streams whose false alarms are counted.
        steps: comparisons in them.
        delays: streams whose delays are measured.
        scores: streams of scores without labels.
        jumpers: streams for changed scores, and for the conformal martingale.
    """

    streams: int = 2_000
    steps: int = 20_000
    delays: int = 500
    scores: int = 250
    jumpers: int = 100


QUICK = Size(100, 500, 20, 50, 10)


class OnceOnly(RateTest):
    """The same test without later beginnings: all bets are made from the first event on."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.wealth = 2 * self.wealth

    def _waiting(self, events: int) -> np.ndarray:
        return np.zeros(self.limits.shape)


def first_alarms(test: RateTest, draw: Callable[[int], np.ndarray], steps: int) -> np.ndarray:
    """The event at which each stream raises its alarm, from 1; infinite for none."""
    found = np.full(test.limits.shape[0], np.inf)
    for event in range(steps):
        test.add(draw(event))
        found = np.where(np.isinf(found) & (test.by_limit.mean(-1) >= ALARM), event + 1, found)
    return found


def of_rates(random: np.random.Generator, streams: int, rate: Callable[[int], float]) -> Callable[[int], np.ndarray]:
    """Events of independent comparisons, whose rate may change with their number."""
    return lambda event: random.random((streams, 1)) < rate(event)


def delays(part: str, case: str, rate: float | None, found: np.ndarray, scale: float) -> Iterator[Row]:
    """The median and the 90 % quantile of delays, also times a scale."""
    for figure, share in (("median delay", 0.5), ("90 % of delays", 0.9)):
        value = float(np.quantile(found, share, method="higher"))
        yield Row(part, case, rate, figure, value, len(found))
        if rate is not None:
            yield Row(part, case, rate, f"{figure}, x f", value * scale, len(found))


def false_alarms(size: Size) -> Iterator[Row]:
    """At a rate of exactly f, and of half of it; and how often the bounds of the mean rate ever fail."""
    for rate in RATES:
        for share in (1.0, 0.5):
            random, limits = np.random.default_rng(1), np.full((size.streams, 1), rate)
            found = first_alarms(
                RateTest(limits), of_rates(random, size.streams, lambda _, at=rate * share: at), size.steps
            )
            yield Row("false alarms", f"{share:g} f", rate, "alarms", float(np.isfinite(found).mean()), size.streams)
    looks = np.unique(np.geomspace(10, size.steps, 20).astype(int))
    for rate in RATES:
        random, failed = np.random.default_rng(2), 0
        for _ in range(size.delays):
            passed = np.cumsum(random.random(size.steps) < rate)
            bounds = [anytime_bounds(int(passed[look - 1]), int(look)) for look in looks]
            failed += any(not low <= rate <= high for low, high in bounds)
        yield Row("bounds", "20 looks", rate, "ever outside", failed / size.delays, size.delays)


def repeats(size: Size) -> Iterator[Row]:
    """People come again and again, and each has a FAR of his own; the mean FAR of two people is exactly f.

    The popularity of a person follows Zipf's law. A person's likeness to others is 0 or 1; both must be 1 to pass, and
    then one comparison in two does: a fifth of the people are like others at f = 0.02.
    """
    rate, people, streams = 0.02, 20_000, max(size.streams // 4, 1)
    random = np.random.default_rng(3)
    popular = 1 / np.arange(1, people + 1)
    popular /= popular.sum()
    events: dict[str, list[np.ndarray]] = {"as they come": [], "first of a person alone": []}
    for _ in range(streams):
        alike = random.random(people) < np.sqrt(2 * rate)
        pairs = random.choice(people, (size.steps, 2), p=popular)
        pairs = pairs[pairs[:, 0] != pairs[:, 1]]
        passed = alike[pairs].all(1) & (random.random(len(pairs)) < 0.5)
        first = np.full(people, len(pairs))
        np.minimum.at(first, pairs.ravel(), np.repeat(np.arange(len(pairs)), 2))
        new = (first[pairs] == np.arange(len(pairs))[:, None]).all(1)
        events["as they come"].append(passed)
        events["first of a person alone"].append(passed[new])
    for name, some in events.items():
        shortest = min(map(len, some))
        passed = np.stack([stream[:shortest] for stream in some])
        found = first_alarms(RateTest(np.full((streams, 1), rate)), lambda at, x=passed: x[:, at, None], shortest)
        yield Row("repeats", name, rate, "alarms", float(np.isfinite(found).mean()), streams)
        yield Row("repeats", name, rate, "comparisons that count", shortest, streams)


def domains(size: Size) -> Iterator[Row]:
    """Five domains at exactly f, together with all by the weights of `Monitor`; and one of five at 2 f or 5 f."""
    rate, number = 1e-2, 5
    weights = [0.5, *(0.5 / (n * (n + 1)) for n in range(1, number + 1))]
    for times, last in ((1.0, size.steps), (2.0, size.steps), (5.0, size.steps)):
        streams = size.streams if times == 1 else size.delays
        random, tests = np.random.default_rng(4), [RateTest(np.full((streams, 1), rate)) for _ in weights]
        found = np.full(streams, np.inf)
        for event in range(last):
            domain = event % number
            passed = random.random((streams, 1)) < rate * (times if domain == number - 1 else 1.0)
            tests[0].add(passed)
            tests[1 + domain].add(passed)
            joined = 1 + sum(weight * (test.by_limit[:, 0] - 1) for weight, test in zip(weights, tests, strict=True))
            found = np.where(np.isinf(found) & (joined >= ALARM), event + 1, found)
        if times == 1:
            yield Row("domains", "all at f", rate, "alarms", float(np.isfinite(found).mean()), streams)
        else:
            yield from delays("domains", f"the last of five at {times:g} f", rate, found, rate)


def noticed(size: Size) -> Iterator[Row]:
    """From the first comparison on; and after 50 / f comparisons at half of f, where bets had time to be lost."""
    for rate in RATES:
        for times in (1.5, 2.0, 3.0):
            steps = int((80 if times == 1.5 else 40) / rate)
            random, limits = np.random.default_rng(5), np.full((size.delays, 1), rate)
            draw = of_rates(random, size.delays, lambda _, at=rate * times: at)
            yield from delays("from the first", f"{times:g} f", rate, first_alarms(RateTest(limits), draw, steps), rate)
    for rate in RATES[:2]:
        before, after = int(50 / rate), int(120 / rate)
        for kind, name in ((RateTest, "later beginnings too"), (OnceOnly, "from the first event alone")):
            random, limits = np.random.default_rng(6), np.full((size.delays, 1), rate)
            draw = of_rates(random, size.delays, lambda at, f=rate, change=before: 0.5 * f if at < change else 2 * f)
            found = first_alarms(kind(limits), draw, before + after) - before
            yield from delays("2 f after 50 / f", name, rate, np.where(found > 0, found, np.inf), rate)


class Scores:
    """Streams of scores below the cut of their references: standard normal, and genuine ones of another mean.

    Args:
        random: the generator.
        streams: number of streams.
        reference: number of reference scores of different people; there are 1,000 genuine ones.
        mean: mean of genuine scores; at 2.5, a tenth of them are below the cut.
        share: the largest share of genuine pairs that is allowed for.
    """

    def __init__(
        self, random: np.random.Generator, streams: int, reference: int, mean: float = 3.5, share: float = 0.5
    ) -> None:
        self.random, self.mean = random, mean
        self.reference = random.standard_normal((streams, reference))
        self.limits = [
            reference_test(row, np.inf, mean + random.standard_normal(1_000), share) for row in self.reference
        ]
        self.cuts = np.array([known.cut for known in self.limits])

    def counted(self, steps: int, shift: float = 0.0, spread: float = 1.0, genuine: float = 0.0) -> np.ndarray:
        """So many scores of each stream that lie below its cut, in order."""
        found = np.zeros((len(self.cuts), steps))
        for row, cut in enumerate(self.cuts):
            kept = np.zeros(0)
            while len(kept) < steps:
                same = self.random.random(steps) < genuine
                draws = np.where(same, self.mean, shift) + np.where(same, 1.0, spread) * self.random.standard_normal(
                    steps
                )
                kept = np.concatenate([kept, draws[draws < cut]])
            found[row] = kept[:steps]
        return found

    def alarms(self, scores: np.ndarray) -> np.ndarray:
        """When the watch alarms."""
        levels = np.stack([known.levels for known in self.limits])
        slack = np.array([[known.slack] for known in self.limits])
        test = RateTest(np.stack([known.limits for known in self.limits]), self.limits[0].size, slack)

        def draw(event: int) -> np.ndarray:
            score = scores[:, event, None]
            return np.concatenate([score > levels, score < levels], 1)

        return first_alarms(test, draw, scores.shape[1])

    def jumper_alarms(self, scores: np.ndarray) -> np.ndarray:
        """When the simple jumper conformal test martingale does, over ranks in the reference and the stream so far."""
        ranks = np.zeros(scores.shape)
        for row, (known, cut) in enumerate(zip(self.reference, self.cuts, strict=True)):
            before = sorted(known[known < cut].tolist())
            for event, score in enumerate(scores[row].tolist()):
                below = bisect.bisect_left(before, score)
                ranks[row, event] = (below + self.random.random()) / (len(before) + 1)
                before.insert(below, score)
        bets, found = np.full((len(ranks), 3), 1 / 3), np.full(len(ranks), np.inf)
        for event in range(ranks.shape[1]):
            bets = (1 - JUMP) * bets + JUMP * bets.mean(1, keepdims=True)
            bets = bets * (1 + np.array([-1.0, 0.0, 1.0]) * (ranks[:, event, None] - 0.5))
            found = np.where(np.isinf(found) & (bets.sum(1) >= ALARM), event + 1, found)
        return found


def scores(size: Size) -> Iterator[Row]:
    """False alarms, also where the genuine share grows from 5 % to 50 %; delays of a shifted or wider distribution."""
    half = size.steps // 2
    for reference in (300, 3_000):
        for case in ("no genuine pair", "genuine share from 5 % to 50 %"):
            world = Scores(np.random.default_rng((7, reference)), size.scores, reference)
            genuine = (0.0, 0.0) if case == "no genuine pair" else (0.05, 0.5)
            seen = np.concatenate([world.counted(half, genuine=share) for share in genuine], 1)
            label = f"{case}, reference of {reference:,}"
            for figure, found in (("alarms", world.alarms(seen)), ("alarms, simple jumper", world.jumper_alarms(seen))):
                yield Row("scores", label, None, figure, float(np.isfinite(found).mean()), len(found))
    changes = {"shift 0.1": (0.1, 1.0), "shift 0.2": (0.2, 1.0), "shift 0.5": (0.5, 1.0), "spread 1.2": (0.0, 1.2)}
    for reference in (300, 3_000):
        for case, (shift, spread) in changes.items():
            for name, before in (("from the first", 0), ("after 2,000", min(2_000, half)))[: 1 + (reference > 300)]:
                world = Scores(np.random.default_rng((8, reference)), size.jumpers, reference)
                seen = np.concatenate([world.counted(before), world.counted(half // 2, shift, spread)], 1)
                label = f"{case}, reference of {reference:,}"
                for watch, alarms in (("", world.alarms(seen)), (", simple jumper", world.jumper_alarms(seen))):
                    late = np.where(alarms > before, alarms - before, np.inf)
                    yield from delays(f"scores change {name}{watch}", label, None, late, 1.0)


def genuine(size: Size) -> Iterator[Row]:
    """A weak model, of whose genuine scores many are below the cut; and streams without any (--genuine 0)."""
    world = Scores(np.random.default_rng(9), size.scores, 3_000, mean=2.5)
    seen = np.concatenate([world.counted(size.steps // 2, genuine=share) for share in (0.05, 0.5)], 1)
    for figure, found in (("alarms", world.alarms(seen)), ("alarms, simple jumper", world.jumper_alarms(seen))):
        label = "weak model, genuine share from 5 % to 50 %, reference of 3,000"
        yield Row("scores", label, None, figure, float(np.isfinite(found).mean()), len(found))
    for reference in (300, 3_000):
        for case, (shift, spread) in {
            "shift 0.2": (0.2, 1.0),
            "shift 0.5": (0.5, 1.0),
            "spread 1.2": (0.0, 1.2),
        }.items():
            world = Scores(np.random.default_rng((8, reference)), size.jumpers, reference, share=0.0)
            found = world.alarms(world.counted(size.steps // 4, shift, spread))
            label = f"{case}, reference of {reference:,}"
            yield from delays("scores change from the first, --genuine 0", label, None, found, 1.0)


PARTS = {
    "false alarms": false_alarms,
    "repeats": repeats,
    "domains": domains,
    "noticed": noticed,
    "scores": scores,
    "genuine": genuine,
}


def tables(rows: list[Row]) -> str:
    """The tables of docs/monitoring.md: shares of streams, then delays."""
    rare = [
        [f"{row.part}: {row.case}", "" if row.rate is None else f"{row.rate:g}", row.figure, f"{100 * row.value:.1f} %"]
        for row in rows
        if row.figure.startswith(("alarms", "ever outside"))
    ]
    known = {(row.part, row.case, row.rate, row.figure): row.value for row in rows}
    late = []
    for (part, case, rate, figure), median in known.items():
        if figure == "median delay":
            both = median, known[part, case, rate, "90 % of delays"]
            cells = ["never" if np.isinf(value) else f"{value:,.0f}" for value in both]
            cells += ["" if rate is None or np.isinf(value) else f"{value * rate:.1f}" for value in both]
            late.append([f"{part}: {case}", "" if rate is None else f"{rate:g}", *cells])
    header = ["change", "f", "median delay", "90 % of delays", "median x f", "90 % x f"]
    return f"{table(['stream', 'f', 'figure', 'share of streams'], rare)}\n\n{table(header, late)}\n"


def table_in(path: Path) -> Table:
    """The table in a file."""
    return Table(path, Row, ("run",))


def read_rows(path: Path) -> list[Row]:
    """The rows of a file, by parts."""
    rows = [
        Row(
            line["part"], line["case"], float(line["rate"]) if line["rate"] else None, line["figure"],
            float(line["value"]), int(line["streams"]), line["run"],
        )
        for line in table_in(path).rows()
    ]  # fmt: skip
    return sorted(rows, key=lambda row: (row.part, tuple(PARTS).index(row.run)))


def main() -> None:
    made = parser(__doc__, "more and longer streams")
    made.add_argument("--tables", action="store_true", help="only print the tables of docs/monitoring.md")
    options = made.parse_args()
    if options.tables:
        print(tables(read_rows(Path(__file__).with_suffix(".csv"))), end="")
        return
    table = table_in(Cells.of(options).path("monitoring"))
    size = Size() if options.full else QUICK
    table.fill([replace(row, run=name) for row in run(size)] for name, run in PARTS.items() if not table.has(name))


if __name__ == "__main__":
    main()
