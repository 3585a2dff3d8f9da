"""Template pairs in groups: by the million as by sorting every score of each group."""

import numpy as np
import pytest
import torch

from verisphere.base.vocabulary import RULES, Comparisons, Embeddings
from verisphere.decide import SortedScores, operating_point
from verisphere.decide.one_threshold import compare_domains
from verisphere.measure.protocols.ijb import template_pairs
from verisphere.score import listed, listing, pair_scores, unit_rows

random = np.random.default_rng(0)
ROWS = 60
PERSON = random.integers(0, 12, ROWS)
TEMPLATES = Embeddings(
    (random.normal(size=(12, 8))[PERSON] + random.normal(size=(ROWS, 8))).astype(np.float32), identities=PERSON
)
LEFT, RIGHT = (side.astype(np.int64) for side in np.triu_indices(ROWS, 1))
PAIRS = Comparisons(LEFT, RIGHT, PERSON[LEFT] == PERSON[RIGHT])
GROUPS = {"F": PERSON < 5, "M": (PERSON >= 5) & (PERSON < 11)}  # one person has no group


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("keys", [True, False])
def test_groups_are_those_of_every_score(rule: str, keys: bool, monkeypatch: pytest.MonkeyPatch):
    if keys:
        monkeypatch.setattr(listed, "PAIRS_WITHOUT_KEYS", 0)
        monkeypatch.setattr(listing, "PRODUCTS_A_GATHERED_SCORE", 1e9)
    score = pair_scores(unit_rows(TEMPLATES.embeddings), torch.from_numpy(LEFT), torch.from_numpy(RIGHT)).numpy()
    fars = ("1e-1", "1e-2", "1e-5")
    points, common = template_pairs(TEMPLATES, PAIRS, GROUPS, fars, rule)
    domains = {}
    for name, members in GROUPS.items():
        within = members[LEFT] & members[RIGHT]
        domains[name] = tuple(SortedScores(score[within & (PAIRS.genuine == kind)]) for kind in (True, False))
    impostor = SortedScores(score[~PAIRS.genuine])
    assert common == tuple(compare_domains(domains, impostor, far, rule) for far in fars)
    assert points == tuple(operating_point(score[PAIRS.genuine], impostor, far, rule) for far in fars)
    assert template_pairs(TEMPLATES, PAIRS, None, fars, rule) == (points, None)


def test_a_group_without_a_kind_of_pair_is_refused_or_skipped():
    groups = {**GROUPS, "alone": np.arange(ROWS) == 3}
    with pytest.raises(ValueError, match="domain 'alone' has no genuine and no impostor comparison"):
        template_pairs(TEMPLATES, PAIRS, groups, ["0.1"])
    _, common = template_pairs(TEMPLATES, PAIRS, groups, ["0.1"], skip_empty=True)
    assert common is not None
    assert common[0].skipped == ("alone",)
    assert list(common[0].domains) == ["F", "M"]
