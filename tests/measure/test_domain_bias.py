"""The bias of domains to an anchor: by hand, over redrawn people, and what has none."""

import math

import numpy as np
import pytest

from verisphere.base.vocabulary import Embeddings, Redrawing
from verisphere.decide.bootstrap import draws_of
from verisphere.measure.domain_bias import bias_of_domains, check_anchor, domain_people


def at(*degrees: float) -> list[list[float]]:
    """Vectors in a plane at these angles, of different lengths."""
    lengths = range(1, len(degrees) + 1)
    return [
        [length * math.cos(math.radians(degree)), length * math.sin(math.radians(degree))]
        for length, degree in zip(lengths, degrees, strict=True)
    ]


def two_domains() -> Embeddings:
    """Two images at 20 degrees from the mean for Ann, 0 for Bea; a day later 10 for Cem and one image of Dov."""
    return Embeddings(
        at(0, 40, 80, 80, 0, 20, 70),
        identities=["Ann", "Ann", "Bea", "Bea", "Cem", "Cem", "Dov"],
        domains=["day"] * 4 + ["night"] * 3,
    )


def cosine(degrees: float) -> float:
    return math.cos(math.radians(degrees))


def test_people_by_hand():
    domains, everyone = domain_people(two_domains())
    assert everyone == 4
    assert domains["day"].intra.tolist() == pytest.approx([cosine(20), 1.0])
    assert domains["day"].inter.tolist() == pytest.approx([cosine(60)] * 2)  # means at 20 and 80 degrees
    assert domains["night"].intra.tolist() == pytest.approx([cosine(10), math.nan], nan_ok=True)
    assert domains["night"].inter.tolist() == pytest.approx([cosine(60)] * 2)  # at 10 and 70
    assert domains["night"].people.tolist() == [2, 3]


def test_the_figure_by_hand():
    # intra 0.9698463 and 0.9848078, inter 0.5 in both
    found = bias_of_domains(two_domains(), "day", Redrawing(10, 0))
    assert found.value == pytest.approx(0.0149615, abs=1e-7)
    assert found.spread
    assert found.value == bias_of_domains(two_domains(), "night", Redrawing(10, 0)).value


def test_the_nearest_other_person_of_the_same_domain():
    # means at 0, 30 and 100 degrees by day, Dov at 101 in another domain: 30, 30 and 70 degrees apart
    embeddings = Embeddings(
        at(0, 0, 30, 100, 101, 101, 101),
        identities=["Ann", "Ann", "Bea", "Cem", "Dov", "Dov", "Eva"],
        domains=["day"] * 4 + ["night"] * 3,
    )
    domains, _ = domain_people(embeddings)
    assert domains["day"].inter.tolist() == pytest.approx([cosine(30), cosine(30), cosine(70)])
    # intra 1 in both; inter (2 * 0.8660254 + 0.3420201) / 3 = 0.6913569, and 1
    assert bias_of_domains(embeddings, "day", Redrawing(2, 0)).value == pytest.approx(0.3086431, abs=1e-7)


def test_a_replicate_weighs_people_as_they_were_drawn():
    redrawing = Redrawing(200, 3)
    found = bias_of_domains(two_domains(), "day", redrawing).replicates
    drawn = np.concatenate(list(draws_of(4, redrawing)))
    for value, (ann, bea, cem, _) in zip(found, drawn, strict=True):
        if cem and ann + bea:  # inter is 0.5 in every domain
            intra = (ann * cosine(20) + bea) / (ann + bea)
            assert value == pytest.approx(abs(cosine(10) - intra), abs=1e-6)
        else:
            assert math.isnan(value)
    assert np.isnan(found).any()


def test_alike_domains_have_no_bias():
    vectors = at(0, 40, 80, 80)
    embeddings = Embeddings(vectors + vectors, identities=list("AABBCCDD"), domains=["day"] * 4 + ["night"] * 4)
    assert bias_of_domains(embeddings, "night", Redrawing(2, 0)).value == 0.0


def test_a_person_in_two_domains_is_drawn_once():
    embeddings = Embeddings(at(0, 40, 80, 0, 20, 70), identities=list("AABAAC"), domains=["day"] * 3 + ["night"] * 3)
    domains, everyone = domain_people(embeddings)
    assert everyone == 3
    assert [of_domain.people.tolist() for of_domain in domains.values()] == [[0, 1], [0, 2]]


def test_what_has_no_bias():
    whole = two_domains()
    with pytest.raises(ValueError, match=r"^the embeddings have no domains$"):
        domain_people(Embeddings(whole.embeddings, identities=whole.identities))
    with pytest.raises(ValueError, match=r"^domain night needs two people, and two images of one of them$"):
        domain_people(Embeddings(at(0, 1, 2, 3, 4), identities=list("AABCC"), domains=["day"] * 3 + ["night"] * 2))
    with pytest.raises(ValueError, match=r"^anchor is 'dusk'; the domains are day, night$"):
        bias_of_domains(whole, "dusk", Redrawing(2, 0))
    with pytest.raises(ValueError, match=r"^day is the only domain; a bias needs another one beside the anchor$"):
        check_anchor("day", ("day",))
