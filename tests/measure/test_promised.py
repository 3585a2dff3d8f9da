"""What a promised threshold of a gallery does to probes, and what is said of the promise beside the figures."""

from dataclasses import replace

import numpy as np
import pytest

import verisphere
from verisphere.base.trained_on import SharedWithTraining
from verisphere.base.vocabulary import Embeddings
from verisphere.files.gallery_calibration import UNTIED
from verisphere.measure.identification import promised_rates, promised_text
from verisphere.models.gallery import Gallery

DRAWS = np.random.default_rng(0).normal(size=(60, 8)).astype(np.float32)
ENROLLED = Embeddings(DRAWS[:10], identities=[f"p{number}" for number in range(10)])
STRANGERS = Embeddings(DRAWS[10:], identities=[f"s{number}" for number in range(50)])
PROBES = Embeddings(DRAWS[:20] + np.float32(0.1), identities=[f"p{number}" for number in range(20)])


@pytest.mark.parametrize("people", [10, 4])
def test_an_unknown_model_and_a_part_of_the_gallery_are_said_before_the_rates(people):
    calibration = verisphere.calibrate(STRANGERS, gallery=ENROLLED, fpir="0.1", probes=PROBES.take(np.arange(10)))
    rates = promised_rates(PROBES, Gallery(ENROLLED.take(np.arange(people))), calibration, "probes.npz")
    text = promised_text("people", rates)
    assert rates[0].notes[0] == UNTIED
    assert text.index(UNTIED) < text.index("promised FPIR")
    part = f"this is a part of the gallery that the threshold is promised for ({people} of 10 people"
    assert (part in text) == (people < 10)
    assert rates[0].why_not == ""


@pytest.mark.parametrize(("weakness", "said"), [
    ({"in_training": SharedWithTraining(3, 0, 50, 50, True)}, "trained on 3 of the 50 people (by name), so it "),
    ({"implausible": "scores cannot be right: all are equal"}, "scores cannot be right: all are equal"),
])  # fmt: skip
def test_what_weakens_a_promise_is_said_before_the_rates_too(weakness, said):
    calibration = verisphere.calibrate(STRANGERS, gallery=ENROLLED, fpir="0.1")
    thresholds = tuple(replace(threshold, **weakness) for threshold in calibration.thresholds)
    reasons = ("all are equal",) if "implausible" in weakness else ()
    weakened = replace(calibration, thresholds=thresholds, implausible=reasons)
    rates = promised_rates(PROBES, Gallery(ENROLLED), weakened, "probes.npz")
    assert said in rates[0].notes[0]
    text = promised_text("people", rates)
    assert text.index(said) < text.index("promised FPIR")
