"""1:1 verification of template pairs by the million (IJB-B, IJB-C): operating points, and groups at one threshold.

The list is screened once (`ListedPairs`); a group's scores are the pairs of that list between two templates of the
group, so that no list is copied. The one threshold t_c is that of all pairs, those across groups and those of templates
without a group included (OneFace, Liu et al. 2022, table 3: the gender split of IJB-B).
"""

from collections.abc import Mapping, Sequence

import numpy as np

from verisphere.base.vocabulary import FARS, Comparisons, Embeddings, OperatingPoint, Progress, Rule, quietly
from verisphere.decide import Far, OneThreshold, Ordered, operating_point
from verisphere.decide.one_threshold import compare_domains
from verisphere.measure.protocols.listed_pairs import listed_order, prepare


def template_pairs(
    templates: Embeddings,
    comparisons: Comparisons,
    groups: Mapping[str, np.ndarray] | None = None,
    fars: Sequence[Far] = FARS,
    rule: Rule = "at_most",
    progress: Progress = quietly,
    keep_repeated: bool = False,
    skip_empty: bool = False,
) -> tuple[tuple[OperatingPoint, ...], tuple[OneThreshold, ...] | None]:
    """Operating points of all listed pairs, and, where there are groups, each group at their threshold and its own."""
    pairs, genuine, impostor = listed_order(templates, comparisons, fars, progress, keep_repeated)
    points = tuple(operating_point(genuine, impostor, far, rule) for far in fars)
    if groups is None:
        return points, None
    domains: dict[str, tuple[Ordered, Ordered]] = {}
    for name, members in groups.items():
        others = pairs.scores(genuine=False, only=members)
        prepare(others, fars)
        domains[name] = pairs.scores(genuine=True, only=members), others
    return points, tuple(compare_domains(domains, impostor, far, rule, skip_empty=skip_empty) for far in fars)
