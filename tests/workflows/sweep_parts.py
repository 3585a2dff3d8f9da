"""A set with domains for the tests of sweeps, named by its import path in plans."""

from own_parts import Noise


class Rooms(Noise):
    """Half of the people in a bright room, half in a dark one."""

    def __init__(self, people: int = 12, images: int = 3, side: int = 16) -> None:
        super().__init__(people, images, side)
        self.domains = tuple(("bright", "dark")[int(person[1:]) % 2] for person in self.identities)
