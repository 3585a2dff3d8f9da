"""Files of a data set with label noise: a list of labels, or a description that draws the same noise again."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from verisphere.files.disk import write_text
from verisphere.files.label_lists import LabelList, write_labels
from verisphere.images.label_noise import LabelNoise
from verisphere.models.described_faces import HOUSE, describe_faces, open_faces
from verisphere.study.clean.truth import noisy_labels

DESCRIPTIONS = (".yaml", ".yml")


@dataclass(frozen=True)
class NoisySet:
    """A data set with `LabelNoise`, described by files; `outside` is the set of the images of open-set noise."""

    path: Path
    rate: float
    open_share: float = 0.0
    outside: Path | None = None
    seed: int = 0
    trust: bool = False

    def faces(self) -> LabelNoise:
        """The set with its noise."""
        outside = None if self.outside is None else open_faces(self.outside, trust=self.trust)
        return LabelNoise(open_faces(self.path, trust=self.trust), self.rate, self.open_share, outside, self.seed)

    def description(self) -> dict[str, Any]:
        """The description of the set with its noise for a recipe; paths of packs are absolute."""
        arguments: dict[str, Any] = {"faces": describe_faces(self.path), "rate": self.rate, "seed": self.seed}
        if self.outside is not None:
            arguments |= {"open_share": self.open_share, "outside": describe_faces(self.outside)}
        return {"class_path": f"{HOUSE}LabelNoise", "init_args": arguments}

    def write(self, out: Path) -> str:
        """Write a YAML description if the name ends so, else a list of labels; returns the counts as text."""
        described = out.suffix.lower() in DESCRIPTIONS
        if self.outside is not None and not described:
            raise ValueError(
                f"{out}: a list of labels cannot carry images of another set; name a YAML file (--out noisy.yaml), "
                "which describes the data set with its noise"
            )
        faces = self.faces()
        if described:
            text = yaml.safe_dump(self.description(), sort_keys=False, allow_unicode=True)
            write_text(out, text)
        else:
            write_labels(out, LabelList(faces.names, faces.identities, faces.domains, faces.true_identities))
        return _text(faces, out)


def _text(faces: LabelNoise, out: Path) -> str:
    truth = faces.true_identities
    assert truth is not None
    wrong = noisy_labels(faces.identities, truth)
    people = set(faces.faces.people)  # with the noise a person may have no image left
    from_outside = sum(true not in people for true, bad in zip(truth, wrong.tolist(), strict=True) if bad)
    lines = [
        f"{out}: {int(wrong.sum()):,} of {len(faces):,} labels wrong ({wrong.mean():.1%}): "
        f"{int(wrong.sum()) - from_outside:,} with the identity of another person, {from_outside:,} images of people "
        "from outside"
    ]
    untouched = len(people) - len(
        {name for name, bad in zip(faces.faces.identities, wrong.tolist(), strict=True) if bad}
    )
    if untouched and faces.wrong.any():
        lines.append(
            f"  {untouched:,} of {len(people):,} people have no wrong label: the rate of their few images rounds to 0"
        )
    return "\n".join(lines)
