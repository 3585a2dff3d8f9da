"""Synthetic faces for demonstrations, tests and controlled experiments.

They say nothing about real people or groups of people: a rate measured here holds for these drawings and nowhere else.
What they are good for is a task with known truth, of any size, at a chosen difficulty, that needs no download: identities
are points of a continuous space, so impostors reach from plainly different to look-alikes; capture conditions differ
in how alike their people are and in how good their images are, so their thresholds at one FAR differ as well; labels can
be wrong at a stated rate while the truth is kept.

Image `i` of a person is the same, bit for bit, for any batch, order, worker and number of threads.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor

from verisphere.data import synthetic_random
from verisphere.data.faces import Faces
from verisphere.data.synthetic_camera import photograph
from verisphere.data.synthetic_identity import PERSON, PHOTO, Columns, scaled
from verisphere.data.synthetic_render import render

TOGETHER = 8  # images drawn at a time: their planes stay in a core's cache
FAMILY = 6  # people in a row who share a family's traits, as far as a domain's `kinship` says


@dataclass(frozen=True)
class Domain:
    """A capture condition: who stands before the camera and how good the camera and its light are.

    Attributes:
        spread: how far people differ; 1 is the spread of `synthetic_identity.PERSON`.
        kinship: share of a trait's variance that six people in a row have in common.
        pose: factor on the turns and the framing.
        light: factor on the light's direction, colour and strength.
        wall: factor on how colourful walls are.
        exposure: added to the exposure, in units of the usual light.
        blur: largest weight of the neighbours.
        grain: largest standard deviation of the sensor noise, in units of full scale.
        loss: largest rounding step, in grey levels.
        detail: lowest number of the eight frequencies a direction that survive.
        worn: chance of glasses; sunglasses and caps are a third as likely, something held before the face a quarter.
    """

    spread: float
    kinship: float
    pose: float
    light: float
    exposure: float
    blur: float
    grain: float
    loss: float
    detail: float
    worn: float


DOMAINS = {
    "studio": Domain(1.10, 0.0, 0.8, 0.8, 0.05, 0.35, 0.012, 8, 7, 0.10),
    "street": Domain(1.00, 0.0, 1.1, 1.2, 0.10, 0.70, 0.025, 16, 6, 0.25),
    "night": Domain(1.00, 0.0, 1.0, 1.1, -0.30, 0.95, 0.045, 24, 4, 0.10),
    "lookalike": Domain(0.80, 0.5, 0.8, 0.9, 0.0, 0.60, 0.020, 12, 6, 0.10),
}


@dataclass(frozen=True)
class Difficulty:
    """Factors on every domain: how far people differ, and how far their photographs do."""

    spread: float
    nuisance: float


DIFFICULTIES = {"easy": Difficulty(1.25, 0.55), "medium": Difficulty(1.0, 1.0), "hard": Difficulty(0.8, 1.3)}


class SyntheticFaces(Faces):
    """Drawn faces of people who do not exist: as many as asked for, the same for the same arguments.

    Person `n` belongs to domain `n % len(domains)`. A person's face and photographs depend on the seed, the domain's
    name, the person's and the photograph's number, and the difficulty, but not on how many others there are; so a second
    set with the same seed and a `first_person` past the first set's last holds unseen people.

    Args:
        people: how many identities.
        images: photographs of each.
        seed: another seed, other people.
        domains: names of capture conditions, from `DOMAINS`.
        difficulty: a name from `DIFFICULTIES`.
        label_noise: share of the images, in [0, 1), that carry the identity of someone else of their domain; exactly
            round(label_noise * people * images) do. `true_identities` keeps the truth, and so do the names.
        first_person: number of the first person.
        size: height and width in pixels, a multiple of 16; 112 is what the tuning was done at.

    Attributes:
        true_identities: who is on each image.
    """

    domains: tuple[str, ...]

    def __init__(
        self,
        people: int = 200,
        images: int = 10,
        seed: int = 0,
        domains: Sequence[str] = tuple(DOMAINS),
        difficulty: str = "medium",
        label_noise: float = 0.0,
        first_person: int = 0,
        size: int = 112,
    ) -> None:
        _check(people, images, domains, difficulty, label_noise, first_person, size)
        self.seed, self.size, self.difficulty = seed, size, difficulty
        self.images_each, self.first_person = images, first_person
        self.domain_names = tuple(domains)
        of_person = [self.domain_names[(first_person + n) % len(self.domain_names)] for n in range(people)]
        person_names = [f"{domain}-p{first_person + n:05d}" for n, domain in enumerate(of_person)]
        self.domains = tuple(domain for domain in of_person for _ in range(images))
        self.true_identities = tuple(name for name in person_names for _ in range(images))
        self.names = tuple(
            f"{domain}/p{first_person + n:05d}/i{i:05d}.png" for n, domain in enumerate(of_person) for i in range(images)
        )
        self.identities = self.true_identities

    def images(self, indices: Sequence[int]) -> UInt8[Tensor, "batch 3 height width"]:
        """Draw these images: RGB, [0, 255]."""
        drawn = torch.empty(len(indices), 3, self.size, self.size, dtype=torch.uint8)
        for start in range(0, len(indices), TOGETHER):
            some = torch.tensor(indices[start : start + TOGETHER], dtype=torch.int64)
            person, photo, key = self.parameters(some)
            drawn[start : start + len(some)] = photograph(render(person, photo, self.size), photo, key)
        return drawn

    def parameters(self, indices: Int64[Tensor, " batch"]) -> tuple[Columns, Columns, Int64[Tensor, " batch"]]:
        """The people, the circumstances and the noise keys of these images."""
        number = indices // self.images_each
        taken = indices % self.images_each
        which = (number + self.first_person) % len(self.domain_names)
        number = number + self.first_person
        domain_keys = torch.tensor([zlib.crc32(name.encode()) for name in self.domain_names])
        domain_table = torch.tensor(
            [[getattr(DOMAINS[name], field.name) for field in fields(Domain)] for name in self.domain_names]
        )
        domain = Columns(domain_table[which], tuple(field.name for field in fields(Domain)))
        level = DIFFICULTIES[self.difficulty]
        root = synthetic_random.keys(torch.tensor(self.seed), torch.tensor(0)) + domain_keys[which]
        family_key = synthetic_random.keys(root, -1 - number // (len(self.domain_names) * FAMILY))
        person_key = synthetic_random.keys(root, number)
        photo_key = synthetic_random.keys(person_key, taken)
        own = synthetic_random.normals(person_key, len(PERSON))
        family = synthetic_random.normals(family_key, len(PERSON))
        kinship = domain["kinship"][:, 0]
        draws = (own * (1 - kinship).sqrt() + family * kinship.sqrt()) * domain["spread"][:, 0] * level.spread
        person = scaled(draws, PERSON)
        photo = self._photo(synthetic_random.keys(photo_key, torch.ones_like(photo_key)), domain, level)
        return person, photo, photo_key

    def _photo(self, key, domain, level):
        draws = synthetic_random.normals(key, len(PHOTO))
        chance = synthetic_random.uniforms(synthetic_random.keys(key, torch.ones_like(key)), 9)
        names = tuple(PHOTO)
        factor = torch.ones_like(draws)
        for group, what in ((POSE, "pose"), (LIGHT, "light")):
            for name in group:
                factor[:, names.index(name)] *= domain[what][:, 0, 0] * level.nuisance
        photo = scaled(draws * factor, PHOTO)
        d = {f.name: domain[f.name][:, 0, 0] for f in fields(Domain)}
        n = level.nuisance
        photo.values[:, names.index("exposure")] += d["exposure"]
        extra = {
            "glasses": chance[:, 0] < d["worn"] * n,
            "sunglasses": chance[:, 0] < d["worn"] * n / 3 * 0.6,
            "cap": chance[:, 1] < d["worn"] * n / 3,
            "cover": chance[:, 2] < d["worn"] * n / 4,
            "blur_x": (chance[:, 3] * d["blur"] * n).clamp(0, 1),
            "blur_y": (chance[:, 4] * d["blur"] * n).clamp(0, 1),
            "grain": (chance[:, 5] * 0.7 + 0.3) * d["grain"] * n,
            "loss": (chance[:, 6] * 0.7 + 0.3) * d["loss"] * n,
            "detail": 8 - chance[:, 7] * (8 - d["detail"]) * n,
        }
        return Columns(
            torch.cat([photo.values, torch.stack([v.float() for v in extra.values()], 1)], 1), names + tuple(extra)
        )


POSE = ("yaw", "pitch", "roll", "shift_x", "shift_y")
LIGHT = ("light_x", "light_y", "warmth", "tint", "fill_warmth", "exposure", "contrast")


def _check(people, images, domains, difficulty, label_noise, first_person, size):
    pass


def contact_sheet(faces: Faces, people: int, images: int) -> UInt8[Tensor, "3 height width"]:
    drawn = faces.images([p * (len(faces) // len(faces.people)) + i for p in range(people) for i in range(images)])
    n, c, h, w = drawn.shape
    return drawn.view(people, images, 3, h, w).permute(2, 0, 3, 1, 4).reshape(3, people * h, images * w)
