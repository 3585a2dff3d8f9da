"""The geometry in which synthetic faces are drawn: soft masks, paint, and a turned head under a light.

Pixels are computed only by sums, products, quotients, square roots, clamps, `addcmul` and `lerp`. These round
identically at every position of a tensor, so a face has the same bits in any batch and on any number of threads; `exp`
and `sigmoid` do not, since their vectorised forms differ from the scalar forms at the end of a tensor.
"""

from dataclasses import dataclass, fields

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from verisphere.images.synthetic.identity import Columns

Number = Float[Tensor, "faces 1 1"]
Plane = Float[Tensor, "faces height width"]
Colour = Float[Tensor, "faces 3 1 1"]
Picture = Float[Tensor, "faces 3 height width"]

DEPTH = 0.55  # the head's half depth, in half frames


def cover(inside: Plane, sharpness: float) -> Plane:
    """A soft mask in [0, 1]: 1/2 where `inside` is 0, rising with it."""
    return inside.mul(sharpness).add_(0.5).clamp_(0, 1)


def spot(across: Plane, down: Plane, half_width: float | Number, half_height: float | Number) -> Plane:
    """1 - r^2 inside an ellipse around 0, and 0 outside: a blush or a soft shadow."""
    wide, high = across / half_width, down / half_height
    return (1 - wide.mul_(wide).addcmul_(high, high)).clamp_(min=0)


def disc(across: Plane, down: Plane, half_width: float | Number, half_height: float | Number, rim: float) -> Plane:
    """A filled ellipse around 0 that fades over the share `rim` of its squared radius."""
    wide, high = across / half_width, down / half_height
    return wide.mul_(wide).addcmul_(high, high).mul_(-1 / rim).add_(1 / rim + 0.5).clamp_(0, 1)


def line(distance: Plane, half_width: float | Number) -> Plane:
    """A soft stroke: 1 where `distance` is 0, and 0 where it is `half_width` or more."""
    return (1 - distance.abs().div_(half_width)).clamp_(min=0)


def paint(picture: Picture, mask: Plane, colour: Colour | Picture) -> None:
    """Paints a colour over the picture, in place, with the mask as its opacity."""
    picture.lerp_(colour, mask[:, None])


def chosen(amount: Number) -> Int64[Tensor, " some"]:
    """Positions of the faces where the amount is positive; a rare feature is drawn for these alone."""
    return (amount.flatten() > 0).nonzero().flatten()


def pick(faces: Int64[Tensor, " some"], *tensors: Float[Tensor, "faces ..."]) -> tuple[Float[Tensor, "some ..."], ...]:
    """Copies of the rows of these faces, of each tensor."""
    return tuple(tensor.index_select(0, faces) for tensor in tensors)


@dataclass(frozen=True)
class Scene:
    """Pictures that are being drawn, and the position of each pixel on a head; a band of rows is a scene of views.

    Attributes:
        picture: the reflectance that has been painted, in place.
        x, y: upright coordinates in the picture's plane, in half frames, the middle of the head at 0.
        face_x, face_y: the same coordinates in a frontal view, on the surface of the ellipsoid.
        away: |face_x|; features in pairs are drawn once, by this distance from the middle.
        bulge: the surface's height towards the viewer: 0 at the outline, at most 1.
        slope_x, slope_y: the components of the surface normal beside `bulge`; bumps change them in place.
        lit: the share of the light that shadows do not absorb; shadows darken it in place.
    """

    picture: Picture
    x: Plane
    y: Plane
    face_x: Plane
    face_y: Plane
    away: Plane
    bulge: Plane
    slope_x: Plane
    slope_y: Plane
    lit: Plane

    def rows(self, top: float, bottom: float) -> "Scene":
        """The rows from height `top` to height `bottom`, both in half frames, as views."""
        size = self.picture.shape[-1]
        start = max(0, int((top + 1) * size / 2))
        stop = min(size, int((bottom + 1) * size / 2) + 1)
        return Scene(*(getattr(self, field.name)[..., start:stop, :] for field in fields(self)))

    def shadow(self, mask: Plane, much: float | Number) -> None:
        """Removes the share `much * mask` of the light. The mask is overwritten."""
        self.lit.addcmul_(self.lit, mask.mul_(much), value=-1)

    def bump(
        self, across: Plane, down: Plane, half_width: float | Number, half_height: float | Number, much: float | Number
    ) -> None:
        """Adds a bump of profile (1 - r^2)^2 to the surface, or a pit where `much` < 0."""
        wide, high = across / half_width, down / half_height
        slope = (1 - (wide * wide).addcmul_(high, high)).clamp_(min=0).mul_(much)
        self.slope_x.addcmul_(wide, slope)
        self.slope_y.addcmul_(high, slope)


def egg_height(y: Plane, person: Columns) -> Plane:
    """|y| as a share of the height of the head: that of the skull above the middle, that of the chin below."""
    return torch.maximum(y / person["chin"], y / (person["skull_top"] * -1))


def dome(y: Plane, top: Number) -> Plane:
    """The squared relative height on a skull, 0 below the middle; flatter at the top than an ellipse."""
    square = y.clamp(max=0).div_(top)
    square.mul_(square)
    return square.addcmul_(square, square).mul_(0.5)


def stage(person: Columns, photo: Columns, size: int) -> Scene:
    """An empty scene: every pixel with framing, roll and turn removed, in full light, on the plain ellipsoid."""
    steps = (torch.arange(size, device=person.values.device) * 2 + (1 - size)).float() / size
    roll, zoom = photo["roll"].clamp(-0.6, 0.6), photo["zoom"].clamp(min=0.5)
    across = (steps[None, None, :] - photo["shift_x"]) / zoom
    down = (steps[None, :, None] - photo["shift_y"]) / zoom
    upright = (1 - roll * roll).sqrt()
    x = upright * across + roll * down
    y = upright * down - roll * across
    wide, high = x / person["skull_width"], egg_height(y, person)
    bulge = wide.mul_(wide).addcmul_(high, high).mul_(-0.85).add_(1).clamp_(min=0).sqrt_()
    yaw, pitch = photo["yaw"].clamp(-0.65, 0.65), photo["pitch"].clamp(-0.4, 0.4)
    # these two terms of the rotation move the features over the surface
    face_x = (x * (1 - yaw * yaw).sqrt()).addcmul_(bulge, yaw * -DEPTH)
    face_y = (y * (1 - pitch * pitch).sqrt()).addcmul_(bulge, pitch * -DEPTH)
    return Scene(
        picture=x.new_empty(len(x), 3, size, size),
        x=x,
        y=y,
        face_x=face_x,
        face_y=face_y,
        away=face_x.abs(),
        bulge=bulge,
        slope_x=x / (person["skull_width"] * 1.05),
        slope_y=y * 0.9,
        lit=torch.ones_like(x),
    )


def outline(scene: Scene, person: Columns, photo: Columns) -> Plane:
    """1 - r^2 for the outline of the head: an egg that narrows to the chin, which moves with the turn."""
    low = (scene.y / person["chin"]).clamp_(0, 1)
    low_squared = low * low
    narrow = low_squared * person["jaw_taper"].clamp(0.08, 0.6)
    narrow.addcmul_(low_squared.mul_(low_squared), person["chin_point"].clamp(0, 0.8) * 0.5)
    cheek = (scene.y - 0.16).div_(0.22)
    cheek = (1 - cheek.mul_(cheek)).clamp_(min=0)
    half_width = (1 - narrow).addcmul_(cheek, person["cheekbones"]).mul_(person["skull_width"])
    wide = (scene.x - low.mul_(photo["yaw"] * 0.20)).div_(half_width)
    below = scene.y.clamp(min=0).div_(person["chin"])
    return 1 - wide.mul_(wide).addcmul_(below, below).add_(dome(scene.y, person["skull_top"]))


def light_direction(photo: Columns) -> tuple[Number, Number, Number]:
    """The unit vector towards the light; its axes point right, down, and towards the viewer."""
    x, y = photo["light_x"].clamp(-1.4, 1.4), photo["light_y"].clamp(-1.2, 0.8)
    length = (x * x + y * y + 1).sqrt()
    return x / length, y / length, 1 / length


def shades(scene: Scene, photo: Columns) -> tuple[Plane, Plane]:
    """Lambert's cosine to the light, and the cosine to the half-way vector for highlights; both are at least 0."""
    light_x, light_y, light_z = light_direction(photo)
    toward = light_z + 1  # the half-way vector between the light and the viewer, (0, 0, 1), before its length
    half_length = (light_x * light_x + light_y * light_y + toward * toward).sqrt()
    upright = scene.bulge.clamp(min=0.12)
    length = (upright * upright).addcmul_(scene.slope_x, scene.slope_x).addcmul_(scene.slope_y, scene.slope_y).sqrt_()
    gleam = (upright * (toward / half_length)).addcmul_(scene.slope_x, light_x / half_length)
    gleam.addcmul_(scene.slope_y, light_y / half_length)
    cosine = upright.mul_(light_z).addcmul_(scene.slope_x, light_x).addcmul_(scene.slope_y, light_y)
    return cosine.div_(length).clamp_(min=0), gleam.div_(length).clamp_(min=0)
