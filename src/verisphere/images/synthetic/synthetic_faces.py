"""Synthetic faces for demonstrations, tests and controlled experiments.

They show nothing about real people or groups of people: a rate that is measured here holds only for these drawings.
They provide a task with known truth, of any size, at a chosen difficulty, without a download. Identities are points of
a continuous space, so impostors range from clearly different people to look-alikes. Capture conditions differ in the
similarity of their people and in the quality of their images, so their thresholds at one FAR differ as well. Labels can
be wrong at a stated rate; the true identities are kept.

Image `i` of a person is the same, bit for bit, for any batch, order, worker and number of threads.

The camera works on luma and half-size chroma, as real ones do: exposure and contrast, blur, sensor noise, loss of
detail, and rounding. The lossy step quantises an 8 x 8 block transform like that of JPEG, with the integer transform of
H.264's High profile in place of the cosines: its products are sums of integers below 2^24, exact in float32, so a
matrix product gives the same bits in every order of summation.

Domains are capture conditions only: no domain represents a group of people.
"""

import csv
import hashlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files

import numpy as np
import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor

from verisphere.base.vocabulary import ImageSource, check_word
from verisphere.files.images_json import SYNTHETIC
from verisphere.images.faces import Faces
from verisphere.images.luma import LUMA
from verisphere.images.packs.columns import Coded, Texts, coded
from verisphere.images.synthetic.draws import GOLDEN, keys, noise, normals, scramble, uniforms
from verisphere.images.synthetic.identity import PERSON, PHOTO, Columns, scaled
from verisphere.images.synthetic.render import render

Plane = Float[Tensor, "faces height width"]

# ITU-T H.264, 8.5.13: rows are orthogonal, of squared lengths 512, 578, 320, 578, 512, 578, 320, 578
TRANSFORM = (
    (8, 8, 8, 8, 8, 8, 8, 8),
    (12, 10, 6, 3, -3, -6, -10, -12),
    (8, 4, -4, -8, -8, -4, 4, 8),
    (10, -3, -12, -6, 6, 12, 3, -10),
    (8, -8, -8, 8, 8, -8, -8, 8),
    (6, -12, 3, 10, -10, -3, 12, -6),
    (4, -8, 8, -4, -4, 8, -8, 4),
    (3, -6, 10, -12, 12, -10, 6, -3),
)


@cache
def _block_transform() -> tuple[Float[Tensor, "64 64"], Float[Tensor, " 64"], Float[Tensor, " 64"]]:
    """The transform of a flattened block, the squared lengths of its rows, and each row's higher frequency."""
    rows = torch.tensor(TRANSFORM, dtype=torch.float32)
    squares = (rows * rows).sum(1)
    frequency = torch.arange(8.0)
    highest = torch.maximum(frequency[:, None], frequency[None, :]).flatten()
    return torch.kron(rows, rows), torch.kron(squares, squares), highest


def quantise(
    plane: Float[Tensor, "faces height width"],
    step: Float[Tensor, " faces"],
    detail: Float[Tensor, " faces"],
    grow: int,
) -> Float[Tensor, "faces grown_height grown_width"]:
    """Rounds the 8 x 8 block spectra of a plane, and returns the result at `grow` times its size.

    Args:
        plane: whole numbers in [-256, 255]; height and width are multiples of 8.
        step: rounding step of the lowest frequency, in grey levels of an orthonormal transform; above 0.
        detail: frequencies at or above this number are dropped: 8 keeps all, 4 halves the resolution.
    """
    transform, squares, frequency = (table.to(plane.device) for table in _block_transform())
    faces, height, width = plane.shape
    blocks = plane.view(faces, height // 8, 8, width // 8, 8).transpose(2, 3).reshape(-1, 64)
    spectrum = (blocks @ transform.T).view(faces, -1, 64)  # exact: no sum exceeds 256 * 64 * 64 = 2^20
    # steps grow with frequency, as in JPEG's tables; their unit is that of the spectrum, which is not normalised
    steps = step[:, None] * (1 + frequency * 0.75) * squares.sqrt()
    kept = (frequency < detail[:, None]).float()
    # 2^-11 is the unit of the weights: sums below 2^13 of their products with whole numbers are exact as well
    weights = (steps * kept / squares * 2.0**11)[:, None]
    levels = spectrum.div_(steps[:, None]).round_().mul_(weights).round_().mul_(2.0**-11)
    grown = transform.view(64, 8, 8).repeat_interleave(grow, 1).repeat_interleave(grow, 2).reshape(64, -1)
    blocks = (levels.view(-1, 64) @ grown).view(faces, height // 8, width // 8, 8 * grow, 8 * grow)
    return blocks.transpose(2, 3).reshape(faces, height * grow, width * grow)


def blur(plane: Plane, across: Float[Tensor, " faces"], down: Float[Tensor, " faces"]) -> Plane:
    """Mixes each pixel with its neighbours by weights in [0, 1], horizontally, then vertically, in place."""
    for dimension, weight in ((2, across), (1, down)):
        size = plane.shape[dimension]
        middle = plane.narrow(dimension, 1, size - 2)
        around = plane.narrow(dimension, 0, size - 2) + plane.narrow(dimension, 2, size - 2)
        around.mul_(0.5).sub_(middle).mul_(weight[:, None, None] * 0.5)
        middle.add_(around)
    return plane


def halved(plane: Plane) -> Float[Tensor, "faces half_height half_width"]:
    """The mean of each block of 2 x 2 pixels."""
    rows = plane[:, ::2] + plane[:, 1::2]
    return (rows[:, :, ::2] + rows[:, :, 1::2]).mul_(0.25)


def expose(picture: Float[Tensor, "faces 3 height width"], photo: Columns) -> Float[Tensor, "faces 3 height width"]:
    """Exposure and a film-like curve, in place: v (1 + c) / (v + c), steep in the dark, and 1 at 1."""
    gain = 1 + photo["exposure"].clamp(-0.65, 1.5)
    curve = (1.5 + photo["contrast"] * 1.5).clamp(0.6, 4)[:, None]
    picture.mul_(torch.stack((gain, gain * (1 + photo["tint"]), gain), 1)).clamp_(0, 1.2)
    bend = picture + curve
    return picture.mul_(1 + curve).div_(bend)


def photograph(
    picture: Float[Tensor, "faces 3 height width"], photo: Columns, key: Int64[Tensor, " faces"]
) -> UInt8[Tensor, "faces 3 height width"]:
    """The picture as a camera of the photograph's quality stores it. The picture is overwritten."""
    faces, _, height, width = picture.shape
    red, green, blue = expose(picture, photo).unbind(1)
    luma = (red * LUMA[0]).add_(green * LUMA[1]).add_(blue * LUMA[2])
    chroma_blue = halved(blue.sub_(luma).mul_(0.564))
    chroma_red = halved(red.sub_(luma).mul_(0.713))
    across, down = photo["blur_x"].flatten(), photo["blur_y"].flatten()
    blur(luma, across, down)
    pixels = height * width
    grain = noise(key, pixels + pixels // 2)
    luma.add_((grain[:, :pixels].view(faces, height, width)).mul(photo["grain"]))
    chroma_grain = photo["grain"] * 0.7
    chroma_blue.add_(grain[:, pixels : pixels * 5 // 4].view_as(chroma_blue).mul(chroma_grain))
    chroma_red.add_(grain[:, pixels * 5 // 4 :].view_as(chroma_red).mul(chroma_grain))
    step, detail = photo["loss"].flatten(), photo["detail"].flatten()
    luma = quantise(luma.mul_(255).sub_(128).round_().clamp_(-256, 255), step, detail, 1)
    chroma = torch.cat((chroma_blue, chroma_red)).mul_(255).round_().clamp_(-256, 255)
    coarse = (step * 1.6).repeat(2)
    blue_excess, red_excess = quantise(chroma, coarse, detail.repeat(2), 2).chunk(2)
    stored = torch.empty_like(picture)
    luma.add_(128.5)  # half a level more, since the conversion to bytes truncates
    torch.add(luma, red_excess * 1.402, out=stored[:, 0])
    torch.sub(luma, red_excess.mul_(0.714), out=stored[:, 1])
    torch.add(luma, blue_excess * 1.772, out=stored[:, 2])
    stored[:, 1].sub_(blue_excess.mul_(0.344))
    return stored.clamp_(0, 255).to(torch.uint8)


@dataclass(frozen=True)
class Domain:
    """A capture condition, a row of `domains.csv`: how alike people are, and the quality of camera and light."""

    spread: float  # factor on the differences of people from the mean face
    kinship: float  # share of the variance of every trait that a few consecutive people have in common; in [0, 1]
    pose: float  # factor on turns and framing
    light: float  # factor on the variation of the light
    exposure: float  # value that is added to the exposure; 1 doubles the usual light
    blur: float  # largest weight of neighbouring pixels, in [0, 1]
    grain: float  # largest standard deviation of the sensor's noise, as a share of white
    loss: float  # largest rounding step of the lossy storage, in grey levels
    detail: float  # least number of the 8 frequencies in each direction that storage keeps
    worn: float  # probability of glasses; caps and objects in front of the face are proportionally rarer

    def __post_init__(self) -> None:
        for name in ("kinship", "blur", "worn"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} of a domain is {getattr(self, name)}; it is a share, 0 to 1")
        if not 1 <= self.detail <= 8:
            raise ValueError(f"detail of a domain is {self.detail}; 1 to 8 of 8 frequencies survive")
        if self.loss <= 0 or self.grain < 0:
            raise ValueError(f"loss and grain of a domain are {self.loss} and {self.grain}; above 0 and at least 0")


def _domains() -> dict[str, Domain]:
    table = (files("verisphere.images.synthetic") / "domains.csv").read_text(encoding="utf-8")
    names = [field.name for field in fields(Domain)]
    return {row["name"]: Domain(*(float(row[name]) for name in names)) for row in csv.DictReader(table.splitlines())}


DOMAINS = _domains()


@dataclass(frozen=True)
class Difficulty:
    """Factors on every domain: on the differences between people, and on those between their photographs."""

    spread: float
    nuisance: float


DIFFICULTIES: Mapping[str, Difficulty] = {
    "easy": Difficulty(spread=1.3, nuisance=0.55),
    "medium": Difficulty(spread=1.12, nuisance=1.0),
    "hard": Difficulty(spread=0.9, nuisance=1.3),
}

SCALED_BY_POSE = ("yaw", "pitch", "roll", "shift_x", "shift_y", "zoom")
SCALED_BY_LIGHT = ("light_x", "light_y", "warmth", "tint", "fill_warmth", "exposure", "contrast")

# objects that are worn at random, and settings of the camera, in addition to the columns of `PHOTO`
EXTRA = ("glasses", "sunglasses", "cap", "cover", "blur_x", "blur_y", "grain", "loss", "detail")


def domain_columns(names: Sequence[str]) -> Columns:
    """The numbers of these domains, one row for each domain."""
    fieldnames = tuple(field.name for field in fields(Domain))
    rows = [[float(getattr(DOMAINS[name], field)) for field in fieldnames] for name in names]
    return Columns(torch.tensor(rows), fieldnames)


def draw_person(
    own: Int64[Tensor, " faces"], family: Int64[Tensor, " faces"], domain: Columns, level: Difficulty
) -> Columns:
    """The traits of the people with these keys, of these families."""
    kinship, spread = domain["kinship"][:, 0], domain["spread"][:, 0] * level.spread
    mixed = normals(own, len(PERSON)) * (1 - kinship).sqrt() + normals(family, len(PERSON)) * kinship.sqrt()
    return scaled(mixed * spread, PERSON)


def draw_photo(key: Int64[Tensor, " faces"], domain: Columns, level: Difficulty) -> Columns:
    """The circumstances of the photographs with these keys: the columns of `PHOTO` and of `EXTRA`."""
    factors = dict.fromkeys(SCALED_BY_POSE, domain["pose"]) | dict.fromkeys(SCALED_BY_LIGHT, domain["light"])
    draws = normals(key, len(PHOTO))
    for name, factor in factors.items():
        draws[:, list(PHOTO).index(name)] *= factor.flatten() * level.nuisance
    usual = scaled(draws, PHOTO)
    usual.values[:, usual.names.index("exposure")] += domain["exposure"].flatten()
    extra = _extra(uniforms(keys(key, torch.full_like(key, -1)), len(EXTRA)), domain, level)
    return Columns(torch.cat([usual.values, extra], 1), usual.names + EXTRA)


def _extra(chance: Float[Tensor, "faces extras"], domain: Columns, level: Difficulty) -> Float[Tensor, "faces extras"]:
    """Objects that are worn (0 or 1) and settings of the camera, in the order of `EXTRA`, from uniform draws."""
    draw = dict(zip(EXTRA, chance.unbind(1), strict=True))
    worn, blur, grain, loss = (domain[name].flatten() * level.nuisance for name in ("worn", "blur", "grain", "loss"))
    lost = (8 - domain["detail"].flatten()) * level.nuisance
    columns = {
        "glasses": draw["glasses"] < worn,
        "sunglasses": draw["glasses"] < worn * 0.2,  # a fifth of the glasses are dark
        "cap": draw["cap"] < worn * 0.33,
        "cover": draw["cover"] < worn * 0.25,
        "blur_x": (draw["blur_x"] * blur).clamp(max=1),
        "blur_y": (draw["blur_y"] * blur).clamp(max=1),
        "grain": (draw["grain"] * 0.7 + 0.3) * grain,
        "loss": (draw["loss"] * 0.7 + 0.3) * loss,
        "detail": 8 - draw["detail"] * lost,
    }
    return torch.stack([columns[name].float() for name in EXTRA], 1)


FACES_AT_ONCE = 32  # enough to divide among threads, few enough for the cache
MOST_IMAGES = 10_000_000  # in a set; the name and the identity of each take about 200 bytes
FAMILY_SIZE = 6  # consecutive people who share a family's traits, to the extent of a domain's `kinship`


class SyntheticFaces(Faces):
    """Drawn faces of people who do not exist; equal arguments give equal images.

    Person `n` belongs to domain `n % len(domains)`. An image depends on the seed, the difficulty, the domains and the
    numbers of the person and the image, but not on the size of the set: a second set with the same seed and a
    `first_person` past the last person of the first set holds unseen people.

    >>> faces = SyntheticFaces(people=4, images=2, size=48)
    >>> faces.names[:2], faces.domains[::2]
    (('studio/p00000/i00000.png', 'studio/p00000/i00001.png'), ('studio', 'street', 'night', 'lookalike'))

    Args:
        people: number of identities.
        images: photographs of each person; at most `MOST_IMAGES` of all people together.
        seed: seed of the people.
        domains: names of capture conditions in `DOMAINS`.
        difficulty: easy, medium or hard, see `DIFFICULTIES`.
        label_noise: share of the images, in [0, 1), that carry the name of another person of their domain: exactly
            round(label_noise * people * images) images. `true_identities` and the images' names keep the truth.
        first_person: number of the first person.
        size: height and width in pixels, a multiple of 16 from 48 to 512.

    Attributes:
        true_identities: the person who is really on each image.
        domains: capture condition of each image.

    Raises:
        ValueError: an argument is outside its stated range.
    """

    domains: Coded

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
        _check_counts(people, images, seed, first_person, size)
        _check_conditions(domains, difficulty)
        self.seed, self.size, self.difficulty = seed, size, difficulty
        self.images_each, self.first_person = images, first_person
        self.domain_names = tuple(domains)
        numbers = range(first_person, first_person + people)
        conditions = Coded(self.domain_names, np.arange(first_person, numbers.stop) % len(self.domain_names))
        self.names = Texts.of(
            f"{condition}/p{number:05d}/i{image:05d}.png"
            for number, condition in zip(numbers, conditions, strict=True)
            for image in range(images)
        )
        persons = (f"{condition}-p{number:05d}" for number, condition in zip(numbers, conditions, strict=True))
        self.true_identities: Sequence[str] = coded(person for person in persons for _ in range(images))
        self.domains = coded(condition for condition in conditions for _ in range(images))
        self.identities = mislabelled(self.true_identities, self.domains, label_noise, seed)

    @property
    def source(self) -> ImageSource:
        """This class; its images are drawn."""
        return SYNTHETIC

    def contents(self, indices: Sequence[int]) -> bytes:
        """A digest of what the images at these positions are drawn by."""
        drawn_by = self.seed, self.size, self.difficulty, self.domain_names, self.images_each, self.first_person
        digest = hashlib.sha256(f"{drawn_by}".encode())
        for start in range(0, len(indices), FACES_AT_ONCE):
            digest.update(f"{[*indices[start : start + FACES_AT_ONCE]]}".encode())
        return digest.digest()

    def images(self, indices: Sequence[int]) -> UInt8[Tensor, "batch 3 height width"]:
        """Draws the images at these positions, in this order: RGB, [0, 255].

        Raises:
            IndexError: a position is not in the set.
        """
        outside = [index for index in indices if not 0 <= index < len(self)]
        if outside:
            raise IndexError(f"image {outside[0]} was asked for, but the set holds images 0 to {len(self) - 1}")
        drawn = torch.empty(len(indices), 3, self.size, self.size, dtype=torch.uint8)
        person, photo, key = self.parameters(indices)
        for start in range(0, len(indices), FACES_AT_ONCE):
            stop = min(start + FACES_AT_ONCE, len(indices))
            shown, circumstances = person.rows(start, stop), photo.rows(start, stop)
            picture = render(shown, circumstances, self.size)
            drawn[start:stop] = photograph(picture, circumstances, key[start:stop])
        return drawn

    def parameters(self, indices: Sequence[int]) -> tuple[Columns, Columns, Int64[Tensor, " batch"]]:
        """Parameters of the images at these positions: the person, the circumstances, and the key of the noise."""
        position = torch.as_tensor(indices, dtype=torch.int64)
        number = position // self.images_each + self.first_person
        condition = number % len(self.domain_names)
        level = DIFFICULTIES[self.difficulty]
        domain = domain_columns(self.domain_names).at(condition)
        salt = torch.tensor([zlib.crc32(name.encode()) for name in self.domain_names])[condition]
        root = keys(torch.full_like(number, self.seed), salt)
        person_key = keys(root, number)
        # person n of a domain belongs to its family n // FAMILY_SIZE; families count down from -1, people up from 0
        family_key = keys(root, -1 - number // len(self.domain_names) // FAMILY_SIZE)
        photo_key = keys(person_key, position % self.images_each)
        person = draw_person(person_key, family_key, domain, level)
        return person, draw_photo(photo_key, domain, level), photo_key


def mislabelled(identities: Sequence[str], domains: Sequence[str], rate: float, seed: int) -> Sequence[str]:
    """The identities, of which exactly round(rate * images), chosen by the seed, are replaced within their domain."""
    if not 0 <= rate < 1:
        raise ValueError(f"label_noise is {rate}; it is a share of the images, at least 0 and below 1")
    wrong = round(rate * len(identities))
    if not wrong:
        return identities
    members: dict[str, list[str]] = {}
    for identity, domain in dict(zip(identities, domains, strict=True)).items():
        members.setdefault(domain, []).append(identity)
    alone = [domain for domain, people in members.items() if len(people) < 2]
    if alone:
        raise ValueError(f"label_noise is {rate} but domain {alone[0]} has one person only; ask for more people")
    place = {identity: number for people in members.values() for number, identity in enumerate(people)}
    order = scramble(keys(torch.tensor(seed), torch.tensor(-1)) + torch.arange(len(identities)) * GOLDEN)
    given = list(identities)
    for index in order.argsort(stable=True)[:wrong].tolist():
        people = members[domains[index]]
        step = 1 + (int(order[index]) >> 8) % (len(people) - 1)
        given[index] = people[(place[identities[index]] + step) % len(people)]
    return tuple(given)


def _check_counts(people: int, images: int, seed: int, first_person: int, size: int) -> None:
    for name, value in (("people", people), ("images", images)):
        if value < 1:
            raise ValueError(f"{name} is {value}; a set has at least 1")
    if people * images > MOST_IMAGES:
        raise ValueError(f"people is {people:,} and images is {images:,}; a set has at most {MOST_IMAGES:,} images")
    if not 0 <= seed < 1 << 62:
        raise ValueError(f"seed is {seed}; it is at least 0 and below 2^62")
    if not 0 <= first_person < 1 << 62:
        raise ValueError(f"first_person is {first_person}; people are numbered from 0, and below 2^62")
    if size % 16 or not 48 <= size <= 512:
        raise ValueError(f"size is {size}; images are 48 to 512 pixels high and wide, in steps of 16")


def _check_conditions(domains: Sequence[str], difficulty: str) -> None:
    if isinstance(domains, str):
        raise ValueError(f"domains is the text {domains!r}; it is a list of names of {', '.join(DOMAINS)}")
    unknown = [name for name in domains if name not in DOMAINS]
    if unknown:
        raise ValueError(f"domains names {unknown[0]!r}; known are {', '.join(DOMAINS)}")
    if not domains or len(set(domains)) < len(domains):
        raise ValueError(f"domains is {list(domains)}; it names at least one, each once, of {', '.join(DOMAINS)}")
    check_word("difficulty", difficulty, DIFFICULTIES)


def contact_sheet(faces: Faces, people: int, images: int) -> UInt8[Tensor, "3 height width"]:
    """The first images of the first people in a grid: a row for each person, black where images are missing."""
    if not 1 <= people <= len(faces.people) or images < 1:
        raise ValueError(
            f"a sheet of {people} people x {images} images was asked for; the set has {len(faces.people)} people"
        )
    places: dict[str, list[int]] = {}
    for index, identity in enumerate(faces.identities):
        places.setdefault(identity, []).append(index)
    rows = []
    for person in list(places)[:people]:
        row = faces.images(places[person][:images])
        missing = row.new_zeros(images - len(row), *row.shape[1:])
        rows.append(torch.cat([row, missing]))
    sheet = torch.stack(rows)  # (people, images, 3, height, width)
    height, width = sheet.shape[-2:]
    return sheet.permute(2, 0, 3, 1, 4).reshape(3, people * height, images * width)
