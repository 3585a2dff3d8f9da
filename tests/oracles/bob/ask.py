"""Ask bob.measure what it makes of our cases; its answers are committed as answers.json beside this file.

bob.measure pins an older numpy, so it gets an environment of its own, which never sees verisphere:

    python tests/oracles/cases.py cases.json
    python3.11 -m venv bob && bob/bin/pip install -r tests/oracles/bob/requirements.txt
    bob/bin/python tests/oracles/bob/ask.py cases.json tests/oracles/bob/answers.json

The answers hold the versions, the SHA-256 of the cases, and:

- `points`: for each case, for each target, the threshold of `far_threshold` and how many impostor and genuine scores
  `farfrr` accepts there; null with fewer than two impostors, which bob.measure refuses;
- `galleries`: for each search `cmc` over its mated probes, and the counts behind `false_alarm_rate` and
  `detection_identification_rate` (rank 1) at each distinct score, ascending, and just above it;
- `bounds`: for totals 1 to 12 and every count those of `confidence_for_indicator_variable`.
"""

import hashlib
import json
import sys
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np


def points(case):
    """[threshold, impostors accepted, genuine accepted] for each target."""
    from bob.measure import far_threshold, farfrr  # here, since test runs import this file where bob.measure is not

    genuine, impostor = np.array(case["genuine"]), np.array(case["impostor"])
    if len(impostor) < 2:
        return None
    found = []
    for far in case["fars"]:
        threshold = float(far_threshold(impostor, genuine, float(far)))
        false_accepts, false_rejects = farfrr(impostor, genuine, threshold)
        passed, rejected = round(false_accepts * len(impostor)), round(false_rejects * len(genuine))
        found.append([threshold, passed, len(genuine) - rejected])
    return found


def gallery(search):
    """What `cmc`, `false_alarm_rate` and `detection_identification_rate` make of one search, as counts."""
    from bob.measure import cmc, detection_identification_rate, false_alarm_rate

    probes = [
        (np.array(others), np.array(mates)) for mates, others in zip(search["mates"], search["others"], strict=True)
    ]
    mated = [probe for probe in probes if len(probe[1])]
    scores = sorted({score for probe in probes for part in probe for score in part.tolist()})
    cuts = [cut for score in scores for cut in (score, float(np.nextafter(score, np.inf)))]
    return {
        "cmc": [round(rate * len(mated)) for rate in cmc(mated)],
        "false_alarms": [round(false_alarm_rate(probes, cut) * (len(probes) - len(mated))) for cut in cuts],
        "identified": [round(detection_identification_rate(probes, cut) * len(mated)) for cut in cuts],
    }


def bounds(totals):
    from bob.measure.utils import confidence_for_indicator_variable

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scipy on Beta(0, n + 1), whose NaN bob.measure turns into 0 or 1
        return [
            [[float(side) for side in confidence_for_indicator_variable(count, total)] for count in range(total + 1)]
            for total in totals
        ]


def main(cases_file, answers_file):
    text = Path(cases_file).read_text()
    asked = json.loads(text)
    answers = {
        "versions": {name: version(name) for name in ("bob.measure", "numpy", "numba", "scipy")},
        "cases_sha256": hashlib.sha256(text.encode()).hexdigest(),
        "points": [points(case) for case in asked["cases"]],
        "galleries": [gallery(search) for search in asked["galleries"]],
        "bounds": bounds(range(1, 13)),
    }
    Path(answers_file).write_text(json.dumps(answers, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
