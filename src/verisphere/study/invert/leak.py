"""A test of leakage: faces recovered from parts of a model that an attacker may have, matched by a second model.

There are three attackers: one has only the network (`folder`), one also has its class centers (`head`), and one has the
network and embeddings of photographs (`embeddings`). For each of them inversions are made; the judge compares each face
with one photograph of the person that was not its target, at the threshold of a FAR. A fourth has embeddings without
the network, and translates them to the judge.

An attack has worked if its faces reach, under the attacked model itself, at least the mean cosine that two photographs
of one person have there, or if the judge surely takes them for their people. Where it has not, its figures are in the
files, and no claim is made of them.

Who translates a stolen gallery uses a network of their own. Of some people this attacker knows photographs that both
networks have embedded. On these a map is fitted from the rows of one to those of the other (`verisphere.score.bridge`),
and photographs of other people by the attacker's network are compared with the stolen rows, carried over.
"""

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64

from verisphere import __version__
from verisphere.base.seeds import numpy_generator
from verisphere.base.trained_on import SharedWithTraining
from verisphere.base.vocabulary import OperatingPoint, Progress, quietly
from verisphere.decide import Far, operating_point
from verisphere.files.disk import real_path, write_text
from verisphere.files.documents import read_json_file
from verisphere.files.errors import errors_naming
from verisphere.files.json_values import from_json
from verisphere.files.leak_figures import FORMAT, UNTRAINED, LeakFigures, LeakRow
from verisphere.files.lock import alone_in
from verisphere.files.work import begun_before, changed_values
from verisphere.images.faces import Faces
from verisphere.models.described_faces import open_faces
from verisphere.models.embed import EmbeddingModel, open_model
from verisphere.models.model_json import LEAK
from verisphere.report.tables import number, table
from verisphere.score.bridge import fit_map
from verisphere.study.invert.findings import InversionFindings
from verisphere.study.invert.inversion import Inversion
from verisphere.study.invert.likeness import JUDGE
from verisphere.study.invert.photographs import photograph_digests, unit_embeddings
from verisphere.study.invert.run import INVERSION_JSON, InversionSettings, Prepared, prepare, run_inversion

log = logging.getLogger(__name__)

#: How many people are known, in turn, where there are twice as many with two photographs.
KNOWN = (50, 200, 500)
_MOST_OTHERS = 1_000


def pairs_to_translate(faces: Faces, content: Int64[np.ndarray, " images"]) -> Int64[np.ndarray, "people 2"]:
    """Positions of two photographs of each person, the stolen one first, in the order in which people become known.

    The content is that of `photograph_digests`; photographs of equal content are one.
    """
    label, draw = faces.labels.numpy(), numpy_generator(0)
    order = draw.permutation(np.flatnonzero(label >= 0))
    order = order[np.argsort(label[order], kind="stable")]  # each person's photographs side by side, in random order
    pairs = np.stack([order[:-1], order[1:]], axis=1)
    two = np.diff(content[pairs], axis=1)[:, 0] != 0
    pairs = pairs[(label[pairs[:, 0]] == label[pairs[:, 1]]) & two]
    return draw.permutation(pairs[np.unique(label[pairs[:, 0]], return_index=True)[1]])[: KNOWN[-1] + _MOST_OTHERS]


def translations(
    faces: Faces,
    pairs: Int64[np.ndarray, "people 2"],
    stolen: EmbeddingModel,
    own: EmbeddingModel,
    fars: Sequence[Far],
    progress: Progress = quietly,
) -> Iterator[LeakRow]:
    """How well people whom the attacker does not know match their stolen rows, for each number of known people."""
    counts = [known for known in KNOWN if 2 * known <= len(pairs)]
    if not counts:
        return
    sides = []
    for model in (stolen, own):
        rows = [unit_embeddings(model, faces.images(pair.tolist())) for pair in _parts(pairs, progress)]
        sides.append(np.concatenate([part.numpy() for part in rows]).astype(np.float32).reshape(*pairs.shape, -1))
    for known in counts:
        (old, old_rest), (new, new_rest) = ((side[:known], side[known:]) for side in sides)
        try:
            person = np.repeat(np.arange(known), 2)
            found = fit_map(old.reshape(2 * known, -1), new.reshape(2 * known, -1), person)
        except ValueError as error:
            log.info("no translation by %d known people: %s", known, error)
            continue
        scores = (new_rest[:, 1] @ found.apply(old_rest[:, 0]).T).astype(np.float64)
        own_scores, others = scores.diagonal(), scores[~np.eye(len(scores), dtype=bool)]
        points = tuple(operating_point(own_scores, others, far) for far in fars)
        yield LeakRow("bridge", float(own_scores.mean()), float(others.mean()), points, known=known)


def _parts(pairs: np.ndarray, progress: Progress) -> Iterator[np.ndarray]:
    flat = pairs.reshape(-1)
    starts = range(0, len(flat), 256)
    for start in progress(starts, "embedding for a translation", len(starts)):
        yield flat[start : start + 256]


_ASKED, _PHOTOGRAPHS, _TRANSLATED = "asked.json", "photographs", "translated.json"
_FORMAT_ASKED = 3  # of asked.json: a folder of version 0.2, which counted faces in another way, is not continued
_SOURCES = {
    "photographs": "photographs themselves",
    "embeddings": "embeddings of photographs",
    "head": "the head's centers",
    "folder": "the network alone",
    "bridge": "embeddings alone, {} people known",
}
_VERDICTS = {True: "worked", False: "failed", None: "not known"}
_NOBODY = "{}: nobody has a second photograph, of other pixels, to compare with; give photographs of more people"


@dataclass(frozen=True)
class LeakAsked:
    """The settings of a test."""

    model: Path
    judge: Path
    settings: Inversion
    faces: Path
    people: Path | None = None
    head: Path | None = None  # the run whose class centers are attacked, or `model` itself; None tests none
    trained: Path | None = None  # photographs of the people whom the model was trained on
    count: int = 16  # faces recovered from each source
    fars: tuple[str, ...] = ("1e-1", "1e-2")
    trust: bool = False

    def __post_init__(self) -> None:
        if (self.head is None) != (self.trained is None):
            raise ValueError("--head and --trained belong together: centers, and photographs of their people")
        self.attacks()  # refuses what an inversion refuses

    def attacks(self) -> dict[str, InversionSettings]:
        """The inversion of each source."""
        common = InversionSettings(
            self.model, self.settings, self.faces, self.people, judge=self.judge, count=self.count, fars=self.fars,
            trust=self.trust,
        )  # fmt: skip
        attacks = {"embeddings": common}
        if self.head is not None:
            attacks["head"] = replace(common, model=self.head, faces=self.trained, people=None, centers=True)
        return attacks | {"folder": replace(common, directions=True)}


def run_leak(asked: LeakAsked, out: Path, device: torch.device, progress: Progress = quietly) -> LeakFigures:
    """Make the inversions, each in a separate folder, and write `leak.json` and the photographs of the translation."""
    model, judge = (open_model(path, device, asked.trust) for path in (asked.model, asked.judge))
    if model.sha256 is None:
        raise ValueError(f"{asked.model}: an untrained network reveals nobody; name a run or a model folder")
    opened = {asked.model: model, asked.judge: judge}
    if asked.head is not None:
        opened[asked.head] = open_model(asked.head, device, asked.trust)
        if opened[asked.head].sha256 != model.sha256:
            raise ValueError(
                f"--head {asked.head}: has other weights than {asked.model}; name the run that it came from"
            )
    described = _described(asked, model, judge)
    if out.exists():
        _check_same(out, described)
    attacks = asked.attacks()
    prepared = {source: _prepared(source, attack, opened, device, progress) for source, attack in attacks.items()}
    faces = open_faces(asked.faces, asked.people, model.backbone.input_size, asked.trust)
    content = photograph_digests(faces, range(len(faces)), progress)
    described[_PHOTOGRAPHS] = _digest_of_photographs(faces, range(len(faces)), content)
    if "head" in prepared:  # runs of a network that is not trained further differ in their centers alone
        described["centers"] = prepared["head"].digest
        if (used := prepared["head"].photographs) is not None:
            places = sorted({*used.given, *chain.from_iterable(used.own), *used.others})
            trained = _digest_of_photographs(used.faces, places, photograph_digests(used.faces, places))
            described["photographs of the training"] = trained
    with alone_in(out):
        if not (out / _ASKED).is_file():
            write_text(out / _ASKED, json.dumps(described, indent=2) + "\n")
        _check_same(out, described)
        found = {}
        for source, attack in attacks.items():
            if not (out / source / INVERSION_JSON).is_file():
                log.info("faces from %s: %s", _SOURCES[source], prepared[source].plan.text())
                run_inversion(attack, prepared.pop(source), out / source, device, save_every=50, progress=progress)
            found[source] = _findings(out / source / INVERSION_JSON)
        pairs = pairs_to_translate(faces, content)
        rows = [*_rows(found), *translations(faces, pairs, model, judge, asked.fars, progress)]
        named = [[faces.names[place] for place in pair] for pair in pairs.tolist()]
        write_text(out / _TRANSLATED, json.dumps(named, indent=1) + "\n")
        result = LeakFigures(
            FORMAT,
            asked.model.name,
            model.sha256,
            asked.judge.name,
            judge.sha256,
            tuple(rows),
            asdict(asked.settings),
            __version__,
            model.preprocessing,
            faces.names_rule,
            _shared_with_training(model, faces, content),
        )
        result.write_json(out / LEAK)
    return result


def _described(asked: LeakAsked, model: EmbeddingModel, judge: EmbeddingModel) -> dict[str, Any]:
    """The inputs of the faces and figures of a test, as JSON values."""
    paths = {name: getattr(asked, name) for name in ("faces", "people", "trained")}
    return {
        "format": _FORMAT_ASKED,
        **model.made_by,
        **{"judge" if name == "model" else f"judge's {name}": value for name, value in judge.made_by.items()},
        "judge file": str(real_path(asked.judge)),
        **{name: None if path is None else str(real_path(path)) for name, path in paths.items()},
        "settings": asdict(asked.settings),
        "count": asked.count,
        "far": list(asked.fars),
    }


def _shared_with_training(
    model: EmbeddingModel, faces: Faces, content: Int64[np.ndarray, " images"]
) -> SharedWithTraining | None:
    """The people and images of the photographs that the model was trained on."""
    if model.trained_on is None:
        return None
    people = np.array(faces.identities)
    return model.trained_on.rows(people, content, faces.names_rule).shared(people)


def _digest_of_photographs(faces: Faces, places: Sequence[int], content: Int64[np.ndarray, " places"]) -> str:
    """The digest of the names, people and pixels of photographs of a test."""
    named = [(faces.names[place], faces.identities[place]) for place in places]
    digest = hashlib.sha256(json.dumps([faces.names_rule, named]).encode())
    digest.update(content.tobytes())
    return digest.hexdigest()


def _check_same(out: Path, described: dict[str, Any]) -> None:
    """Refuse to continue another test in its folder, or to write into a folder that holds anything else."""

    def differing() -> list[str]:
        before = read_json_file(out / _ASKED)
        known = before if isinstance(before, dict) else {}
        if known.get("format") != _FORMAT_ASKED:
            return ["an earlier version began it, which counted faces in another way"]
        return changed_values("the test", {name: known.get(name) for name in described}, described)

    begun_before(out / _ASKED, "test of leaks", differing)


def _prepared(
    source: str,
    attack: InversionSettings,
    opened: Mapping[Path, EmbeddingModel],
    device: torch.device,
    progress: Progress,
) -> Prepared:
    """An inversion before its first step, refused if its faces could be compared with nobody."""
    prepared = prepare(attack, device, progress, opened)
    photographs = prepared.photographs
    assert photographs is not None, "every attack has photographs"
    if len(photographs.faces.people) < 2 or not any(len(own) > (not photographs.open_set) for own in photographs.own):
        raise ValueError(_NOBODY.format(_SOURCES[source]))
    return prepared


def _findings(path: Path) -> InversionFindings:
    with errors_naming(path):
        return from_json(InversionFindings, read_json_file(path))


def _rows(found: dict[str, InversionFindings]) -> Sequence[LeakRow]:
    """The rows, real photographs first."""
    rows = []
    for source, findings in found.items():
        judged = next(entry for entry in findings.likeness if entry.model == JUDGE)
        if judged.same_person is None or judged.others is None or not judged.points:
            continue  # `unjudged` says it
        if source == "embeddings" and judged.real_same_person is not None and judged.real_others is not None:
            rows.append(
                LeakRow("photographs", judged.real_same_person.mean, judged.real_others.mean, judged.real_points)
            )
        rows.append(
            LeakRow(
                source,
                judged.same_person.mean,
                judged.others.mean,
                judged.points,
                findings.reached,
                findings.needed,
                judged.stranger_points,
                other_people=judged.other_points,
            )
        )
    return rows


def leak_text(figures: LeakFigures) -> str:
    """The figures as a table, without those of attacks that have failed."""
    fars = [point.far_target for point in figures.rows[-1].points]
    header = ["recovered from", "cosine, target", "attack", "cosine, own", "cosine, others"]
    header += [f"TAR at FAR {far}, 95 %" for far in fars]
    rows = []
    for row in figures.rows:
        real = row.source in ("photographs", "bridge")
        reached = "-" if row.reached is None else number(row.reached, 3)
        if row.needed is not None:
            reached += f" (needed {number(row.needed, 3)})"
        verdict = "-" if real else _VERDICTS[row.worked]
        shares = _shares(row.points if real or row.worked else (), len(fars))
        rows.append(
            [
                _SOURCES[row.source].format(row.known),
                reached,
                verdict,
                number(row.mean, 3),
                number(row.others, 3),
                *shares,
            ]
        )
        if row.worked:
            # without bounds, since the comparisons share faces and people
            passing = [f"{number(point.tar, 3)}{'*' * point.below_resolution}" for point in row.other_people]
            rows.append(["the same faces, as other people", *"----", *(passing or _shares((), len(fars)))])
        if row.strangers:
            rows.append(["strangers' photographs, chosen likewise", *"----", *_shares(row.strangers, len(fars))])
    steps = figures.settings.get("steps")
    told = (
        f"by {figures.judge} (steps: {steps}); an attack worked if the attacked model finds its faces as similar "
        f"to their targets as two photographs of one person, or half as similar and {figures.judge} surely recognises "
        "them at one FAR; faces given to one person by the choice of the most similar count as one.\n"
        "by chance, a face whose person was fixed before passes as often as it does as other people, and a stranger's "
        "photograph at the FAR itself; where the most similar person was chosen, strangers' photographs, chosen "
        "likewise, show what chance gives"
    )
    if any(point.below_resolution for row in figures.rows for point in (*row.points, *row.strangers)):
        told += "\na TAR with * is at a FAR below what so few pairs of two people resolve"
    if figures.judge_sha256 is None:
        told += f"\n{figures.judge} {UNTRAINED}"
    if any(row.worked is False for row in figures.rows):
        told += "\nan attack that failed says nothing on what can be recovered: raise --steps, or change --rate"
    told += "".join(f"\n{said}" for said in (figures.no_proof(), figures.unjudged()) if said)
    first = f"{known}\n" if (known := figures.of_training()) else ""
    return f"{first}{table(header, rows)}\n{told}"


def _shares(points: Sequence[OperatingPoint], count: int) -> list[str]:
    """A cell for each FAR; dashes without points, as where nobody has two of the photographs."""
    cells = [
        f"{number(point.tar, 3)}{'*' * point.below_resolution} ({number(point.tar_lower_95, 3)} .. "
        f"{number(point.tar_upper_95, 3)})"
        for point in points
    ]
    return cells or ["-"] * count
