"""Synthetic faces for demonstrations, tests and controlled experiments.

They show nothing about real people or groups of people: a rate that is measured here holds only for these drawings.
They provide a task with known truth, of any size, at a chosen difficulty, without a download. Identities are points of
a continuous space, so impostors range from clearly different people to look-alikes. Capture conditions differ in the
similarity of their people and in the quality of their images, so their thresholds at one FAR differ as well. Labels can
be wrong at a stated rate; the true identities are kept.

Image `i` of a person is the same, bit for bit, for any batch, order, worker and number of threads.
"""

import hashlib
import zlib
from collections.abc import Sequence

import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from verisphere.base.vocabulary import ImageSource, check_word
from verisphere.files.images_json import SYNTHETIC
from verisphere.images.faces import Faces
from verisphere.images.synthetic.camera import photograph
from verisphere.images.synthetic.conditions import DIFFICULTIES, DOMAINS, domain_columns, draw_person, draw_photo
from verisphere.images.synthetic.draws import GOLDEN, keys, scramble
from verisphere.images.synthetic.identity import Columns
from verisphere.images.synthetic.render import render

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
        _check_counts(people, images, seed, first_person, size)
        _check_conditions(domains, difficulty)
        self.seed, self.size, self.difficulty = seed, size, difficulty
        self.images_each, self.first_person = images, first_person
        self.domain_names = tuple(domains)
        numbers = range(first_person, first_person + people)
        conditions = [self.domain_names[number % len(self.domain_names)] for number in numbers]
        persons = [f"{condition}-p{number:05d}" for number, condition in zip(numbers, conditions, strict=True)]
        self.names = tuple(
            f"{condition}/p{number:05d}/i{image:05d}.png"
            for number, condition in zip(numbers, conditions, strict=True)
            for image in range(images)
        )
        self.domains = tuple(condition for condition in conditions for _ in range(images))
        self.true_identities: tuple[str, ...] = tuple(person for person in persons for _ in range(images))
        self.identities = mislabelled(self.true_identities, self.domains, label_noise, seed)

    @property
    def source(self) -> ImageSource:
        """This class; its images are drawn."""
        return SYNTHETIC

    def contents(self, indices: Sequence[int]) -> bytes:
        """A digest of what the images at these positions are drawn by."""
        drawn_by = self.seed, self.size, self.difficulty, self.domain_names, self.images_each, self.first_person
        return hashlib.sha256(f"{drawn_by} {[*indices]}".encode()).digest()

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


def mislabelled(identities: Sequence[str], domains: Sequence[str], rate: float, seed: int) -> tuple[str, ...]:
    """The identities, of which exactly round(rate * images), chosen by the seed, are replaced within their domain."""
    if not 0 <= rate < 1:
        raise ValueError(f"label_noise is {rate}; it is a share of the images, at least 0 and below 1")
    wrong = round(rate * len(identities))
    if not wrong:
        return tuple(identities)
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
