"""A watch over a promise in use: an alarm once what is seen is too unlikely while the promise holds.

However long and often one looks, a false alarm has a chance of at most 5 % in each watch, all its domains together
(`verisphere.decide.watch`). A promise is about comparisons that share no person, so an event counts only where none of
its people occurred in any line before: also, nobody is tried again until he passes.
"""

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import torch

from verisphere.base.identity import MISSING, NOBODY, decided, folded, form_of, is_missing, names_taken
from verisphere.base.vocabulary import Progress, Scores, quietly
from verisphere.base.words import Names, printable, share
from verisphere.decide import Far, GuaranteedThreshold, disjoint_pairs, exact_rate
from verisphere.decide.each_domain import EVERYBODY
from verisphere.decide.watch import ALARM, FALSE_ALARMS, RateTest, anytime_bounds, reference_test
from verisphere.files.calibration import Calibration, Source
from verisphere.files.embeddings import read_known_people
from verisphere.files.errors import errors_naming
from verisphere.files.gallery_calibration import GalleryCalibration
from verisphere.files.growing import Place, growing_rows
from verisphere.files.json_values import shown
from verisphere.files.results import Result
from verisphere.files.scores import read_scores
from verisphere.files.sharded import digest_of_embeddings
from verisphere.files.text import as_number, table_rows
from verisphere.files.work import SealedFile, changed_values
from verisphere.report.tables import rate_text
from verisphere.score import pair_scores, unit_rows


class Monitor(Result):
    """A watch over one promise, for the loop of a service: `add` each event, and look at `since`.

    Attributes:
        lines: number of comparisons or probes that were added.
        folded: how many of these do not count, since a person was in an earlier one.
        names_rule: how names that are equal once folded are taken; one person's where it is None.
        since: when the evidence against the promise first reached 20, which is an alarm; empty while it stands.
    """

    def __init__(
        self,
        calibration: Calibration | GalleryCalibration,
        rate: Far | None = None,
        *,
        reference: Path | None = None,
        genuine: float = 0.5,
        domains: bool = False,
        names: Names | None = None,
    ) -> None:
        """Begin a watch.

        Args:
            rate: FAR or FPIR of the promise; needed where there are several.
            reference: the file calibrated on; with it, scores of any two people are watched for being like its scores.
            genuine: the largest share of genuine pairs among these, at least 0 and below 1.
            names: `merge` takes names that are equal but for their spelling as one person, `exact` as people; without
                it, the calibration decides, and where it does not, they are one person.
        """
        if not 0 <= genuine < 1:
            raise ValueError(f"genuine must be at least 0 and below 1, got {genuine}")
        targets = {found.far_target if isinstance(found, GuaranteedThreshold) else found.fpir_target: found
                   for found in calibration.thresholds}  # fmt: skip
        rates = [target for target in targets if rate is None or exact_rate(target) == exact_rate(rate)]
        if len(rates) != 1:
            raise ValueError(f"name the promise by its rate, one of {', '.join(targets)}; got {rate}")
        self._rate, self._threshold, self._genuine, self._domains = rates[0], targets[rates[0]], genuine, domains
        self._reference: Scores | None = None
        within = self._threshold.domains if isinstance(self._threshold, GuaranteedThreshold) else ()
        self._within = {one.name: one.far for one in within if reference is None}
        self._needs_domain = domains or (bool(self._within) and EVERYBODY not in self._within)
        pairs = isinstance(calibration, Calibration)
        source = calibration.source if isinstance(calibration, Calibration) else calibration.gallery
        about = calibration.source if isinstance(calibration, Calibration) else calibration.strangers
        with names_taken(names):
            self.names_rule = decided() or about.names_rule
        self._form = form_of(self.names_rule)
        self.promise, self._people = f"{'FAR' if pairs else 'FPIR'} of at most {rates[0]}", 1 + pairs
        if reference is not None:
            if not isinstance(source, Source):
                raise ValueError(f"{reference}: a reference is for two photographs, this calibration for a gallery")
            self._reference = reference_scores(reference, source, self._threshold.seed or 0)
        self._about = {"promise": self.promise, "threshold": self._threshold.threshold, "calibrated on": source.sha256,
                       "reference": reference is not None, "genuine": genuine, "domains": domains,
                       "names": "exact" if self.names_rule == "exact" else "merge"}  # fmt: skip
        self.lines, self.folded, self.since = 0, 0, ""
        self._seen: set[int] = set()
        self._parts: dict[str, tuple[float, RateTest]] = {}
        test = self._part("")
        if reference is not None:
            mixed = f"(at most {share(float(test.slack), 'upper')} of them genuine)"
            self.promise = f"Scores below the cut of {test.cut:.6g} {mixed} like those calibrated on"

    @property
    def evidence(self) -> float:
        """The evidence against the promise: that of all parts, by weights that sum to 1, which is an e-process again.

        See Vovk and Wang 2021 (arXiv:1912.06116). With a reference, it is the largest, as parts see different ranks.
        """
        each = [(weight, float(test.by_limit.mean())) for weight, test in self._parts.values()]
        if self._reference is not None:
            return max(weight * evidence for weight, evidence in each)
        return 1 + sum(weight * (evidence - 1) for weight, evidence in each)

    def add(self, score: float, people: Sequence[str] = (), domain: str = "", when: str = "") -> None:
        """Take a comparison of two different people, a stranger's probe or, with a reference, any score into account.

        Args:
            score: the score, or the number by which a probe is decided.
            people: lasting names of the people; needed without a reference.
            domain: the domain of both; empty or the text of a missing value for none, of which a promise within domains
                alone says nothing.
            when: what an alarm calls this moment; by default the number of the event.
        """
        if score != score:
            raise ValueError("score must be a number, got NaN")
        domain = "" if is_missing(domain) else domain
        if self._needs_domain and self._within and domain not in self._within:
            of = f"domain {shown(domain)}, which was not calibrated on" if domain else "comparisons without a domain"
            raise ValueError(
                f"nothing is promised of {of}: the promise is within {', '.join(filter(None, self._within))}"
            )
        names = list(map(folded, people))
        forms = [self._form(name).encode("utf-8", "surrogatepass") for name in people]
        found = {int.from_bytes(blake2b(form, digest_size=8).digest()) for form in forms}
        if not {*MISSING, NOBODY}.isdisjoint(names) or (self._reference is None and len(found) != self._people):
            spelled = " in two spellings; --names exact takes them as two" if len(set(people)) > len(found) else ""
            raise ValueError(
                f"an event needs {self._people} different people with names, got {shown(list(people))}{spelled}"
            )
        tests = [self._part(name) for name in ("", *([domain] if domain and self._domains else []))]
        known = not self._seen.isdisjoint(found)
        self._seen |= found
        self.lines, self.folded = self.lines + 1, self.folded + known
        for test in tests:
            if not known and (passed := test.passed(score)) is not None:
                test.add(passed)
        if not self.since and self.evidence >= ALARM:
            self.since = when or f"event {self.lines:,}"

    def _part(self, domain: str) -> RateTest:
        """The test of all, or of a domain, begun at its first event; the n-th domain has the weight 1 / 2 n (n + 1)."""
        if domain not in self._parts:
            number, promised = len(self._parts), self._within.get(domain, self._rate)
            test = RateTest(np.array([float(exact_rate(promised))]), levels=np.array([self._threshold.threshold]))
            weight = 0.5 / (number * (number + 1)) if number else 0.5 if self._domains else 1.0
            if self._reference is not None:
                with errors_naming(f"domain {shown(domain)}" if domain else "reference"):
                    test = self._of_reference(self._reference, domain)
            self._parts[domain] = weight, test
        return self._parts[domain][1]

    def _of_reference(self, reference: Scores, domain: str) -> RateTest:
        rows = np.full(len(reference.score), True) if not domain else reference.domains == np.array(domain)
        threshold, genuine = self._threshold, reference.score[rows & reference.genuine]
        measured = threshold.genuine if isinstance(threshold, GuaranteedThreshold) else None
        counts = (0, 1) if measured is None else (measured.total - measured.accepted, measured.total)
        if not len(genuine) and measured is None and self._genuine:
            raise ValueError("no genuine pair says how many score below the cut; where there are none say --genuine 0")
        impostor, among = reference.score[rows & ~reference.genuine], genuine if len(genuine) else counts
        return reference_test(impostor, threshold.threshold, among, self._genuine)

    def parts(self) -> list[dict[str, Any]]:
        """What was seen of all (an empty `domain`), and of each domain that has begun.

        `counted` events, `passed` of them at a `score` whose rate is at most `promised`, by the promise; `lower_95` and
        `upper_95` of the mean rate so far, which hold at all times at once; the `evidence`, before it is weighted. With
        a reference, the score is the one with the most evidence.
        """
        found = []
        for domain, (_, test) in self._parts.items():
            at, evidence = int(test.by_limit.argmax()), float(test.by_limit.mean())
            passed, counted, promised = int(test.hits[at]), test.events, float(test.limits_now[at])
            lower, upper = anytime_bounds(passed, counted)
            found.append({"domain": domain, "counted": counted, "score": test.in_words(at), "passed": passed,
                          "rate": passed / max(counted, 1), "lower_95": lower, "upper_95": upper,
                          "promised": promised, "evidence": evidence})  # fmt: skip
        return found

    def fields(self) -> dict[str, Any]:
        """The values of the JSON."""
        names = "promise", "lines", "folded", "since", "evidence", "names_rule"
        return {name: getattr(self, name) for name in names} | {"parts": self.parts()}

    def text(self) -> str:
        """How many count, the rates with their bounds, and whether the promise still stands."""
        parts, stands = self.parts(), f"no longer stands, since {self.since}" if self.since else "stands"
        promised = self._threshold.guarantee not in ("approximate", "tail", "convention")
        counted = parts[0]["counted"]
        beyond = f", {self.lines - self.folded - counted:,} are not below the cut" if self._reference else ""
        folded = f"{self.folded:,} name people of earlier lines{beyond}"
        count = f"{self.promise}: {counted:,} of {self.lines:,} lines count; {folded}."
        lines = [*filter(None, [self._threshold.warning()]), count]
        for part in parts:
            rate, lower, upper, most = (rate_text(part[name]) for name in ("rate", "lower_95", "upper_95", "promised"))
            lines.append(
                f"{part['domain'] or 'All'}: {part['passed']:,} of {part['counted']:,} score {part['score']}, a rate "
                f"of {rate} (with 95 % confidence between {lower} and {upper}, at all times at once); at most {most} "
                f"is {'promised' if promised else 'estimated'}. Evidence: {part['evidence']:.3g}."
            )
        lines.append(
            f"The {'promise' if promised else 'estimate'} {stands}. The evidence against it is {self.evidence:.3g}; an "
            f"alarm takes {ALARM:.0f}, which by chance at most {100 * FALSE_ALARMS:.0f} % of watches ever reach."
        )
        return printable("\n".join(lines), keep="\n")

    def follow(self, scores: Path, state: Path | None = None, progress: Progress = quietly) -> "Monitor":
        """Add the lines of a table that others are still writing.

        Args:
            scores: CSV with the columns `score`, `person` and, for two photographs, `other_person`, which a reference
                does not need; optionally with `domain`, which a promise within domains alone needs, and with `time`,
                which an alarm names. `-` is standard input.
            state: the file to continue from, written completely or not at all; people are in it as digests of names.
        """
        store, place = None if state is None else SealedFile(state, "the state of a watch"), Place()
        if store is not None and (before := store.load()) is not None:
            with errors_naming(store.path):
                place = self._resume(before)
        people = ("person", "other_person")[: self._people]
        needed = ["score", *(people if self._reference is None else ()), *["domain"] * self._needs_domain]
        wanted = needed, [name for name in ("time", *people) if name not in needed]
        columns, rows = table_rows(scores, *wanted, "see docs/monitoring.md", growing_rows(scores, place))
        for line, cells in progress(rows, "watching"):
            of = {name: cell.strip() for name, cell in zip(columns, cells, strict=True)}
            when = f"line {line:,}" + (f" ({of['time']})" if of.get("time") else "")
            with errors_naming(f"{scores}: line {line}"):
                named = [of[name] for name in people if name in of]
                self.add(as_number(of["score"], "score"), named, of.get("domain", ""), when)
        if store is not None:
            parts = {domain: [test.events, test.hits.tolist(), test.wealth.tolist()]
                     for domain, (_, test) in self._parts.items()}  # fmt: skip
            words = json.dumps([self._about, vars(place), self.lines, self.folded, self.since, parts])
            store.save({"words": np.array([words]), "seen": np.sort(np.array([*self._seen], np.uint64))})
        return self

    def _resume(self, state: Mapping[str, np.ndarray]) -> Place:
        about, place, self.lines, self.folded, self.since, parts = json.loads(str(state["words"][0]))
        about = {"names": "merge", **about}  # as version 0.2 took them, which does not say so
        if differing := changed_values("the watch", about, self._about):
            raise ValueError(f"the state of another watch: {'; '.join(differing)}; name another file")
        self._seen = set(state["seen"].tolist())
        for domain, (events, hits, wealth) in parts.items():
            test = self._part(domain)
            test.events, test.hits, test.wealth = events, np.array(hits), np.array(wealth)
        return Place(**place)


def reference_scores(path: Path, source: Source, seed: int) -> Scores:
    """Scores of comparisons that share no person, of the file calibrated on.

    Of embeddings, these are the impostor scores that a threshold with this seed was chosen from, and a genuine score of
    each person with several images.
    """
    if digest_of_embeddings(path) != source.sha256:
        raise ValueError(f"{path}: not the file calibrated on ({source.file}, SHA-256 {source.sha256[:12]}...)")
    if source.kind == "scores":
        return read_scores(path)
    with names_taken(source.names_rule):
        rows = read_known_people(path)
    _, person, images = np.unique(rows.identities, return_inverse=True, return_counts=True)
    first, by_person = (np.cumsum(images) - images)[images > 1], np.argsort(person, kind="stable")
    same = np.stack([by_person[first], by_person[first + 1]], 1)
    pairs = torch.from_numpy(np.concatenate([same, disjoint_pairs(person, seed)]))
    score = pair_scores(unit_rows(rows.embeddings), pairs[:, 0], pairs[:, 1]).numpy().astype(np.float64)
    left, right = np.full(len(rows), "")[pairs].T if rows.domains is None else rows.domains[pairs].T
    return Scores(score, np.arange(len(pairs)) < len(same), np.where(left == right, left, ""))
