"""Draws synthetic faces as soft masks that are painted in order, from the background to objects in front of the face.

Each feature is drawn on a fixed band of rows that contains it in all but the most extreme poses. Bands do not depend on
the batch: a face must be the same, whichever other faces are drawn with it.

Pixels are computed only by sums, products, quotients, square roots, clamps, `addcmul` and `lerp`. These round
identically at every position of a tensor, so a face has the same bits in any batch and on any number of threads; `exp`
and `sigmoid` do not, since their vectorised forms differ from the scalar forms at the end of a tensor.
"""

from dataclasses import dataclass, fields

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from verisphere.images.synthetic.identity import Columns, hair_colour, iris_colour, skin_colour

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
    """Pictures that are being drawn, and the position of each pixel on a head; a band of rows is a scene of views."""

    picture: Picture
    x: Plane  # upright coordinates in the picture's plane, in half frames, the middle of the head at 0
    y: Plane
    face_x: Plane  # the same coordinates in a frontal view, on the surface of the ellipsoid
    face_y: Plane
    away: Plane  # |face_x|; features in pairs are drawn once, by this distance from the middle
    bulge: Plane  # the surface's height towards the viewer: 0 at the outline, at most 1
    slope_x: Plane  # components of the surface normal beside `bulge`; bumps change them in place
    slope_y: Plane
    lit: Plane  # the share of the light that shadows do not absorb; shadows darken it in place

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


def muted(light: Number, hue: Number, strength: float) -> Colour:
    """The colour of a wall or of clothes: a lightness and a position on a ring of hues, both from standard draws."""
    level = 0.42 + light.clamp(-1.8, 1.8) * 0.19
    phases = torch.arange(3, device=hue.device)[:, None, None] / 3
    ring = (hue * 0.7)[:, None] + phases
    triangle = ((ring - ring.floor()) * 2 - 1).abs() * 2 - 1  # -1 to 1 and back, once round the ring
    return (level[:, None] * (1 + triangle * strength)).clamp(0.02, 1)


def draw_wall(scene: Scene, photo: Columns) -> None:
    """Two colours on the two sides of a line behind the head, with stripes of a random width and contrast."""
    first = muted(photo["wall_light"], photo["wall_hue"], 0.25)
    second = muted(photo["wall_light"] * 0.3 + photo["wall_other"], photo["wall_hue"] + photo["wall_bend"], 0.25)
    angle = photo["wall_angle"].clamp(-1, 1)
    along = (scene.x * angle).addcmul_(scene.y, (1 - angle * angle).sqrt())
    stripes = along * (photo["wall_pattern"] * 2.5)
    stripes.sub_(stripes.floor()).sub_(0.5).abs_().mul_(photo["wall_other"] * 0.7)
    mix = along.add_(photo["wall_bend"] * 0.4).mul_(photo["wall_pattern"] * 3).add_(0.5).add_(stripes).clamp_(0, 1)
    scene.picture.copy_(first.expand_as(scene.picture))
    paint(scene.picture, mix, second)


def draw_hair_behind(scene: Scene, person: Columns, photo: Columns, hair: Colour) -> Plane:
    """Hair behind the head: around the skull and, for some people, down to the shoulders. Returns its mask."""
    volume = (person["hair_volume"] + photo["hair_day"]).clamp(min=0.0)
    above = dome(scene.y, person["skull_top"] * 1.01 + volume * 1.1)
    below = scene.y.clamp(min=0).div_((person["hair_length"] + 0.30).clamp(0.12, 1.6))
    # below the middle a superellipse: long hair falls straight down before it ends
    below.mul_(below).mul_(below)
    wide = scene.x / (person["skull_width"] * 1.01 + volume)
    mask = cover(1 - wide.mul_(wide).add_(above).addcmul_(below, below), 9.0)
    paint(scene.picture, mask, hair * 0.75)
    return mask


def draw_body(scene: Scene, person: Columns, photo: Columns, skin: Colour) -> None:
    """Clothed shoulders, and the neck in the shadow of the chin."""
    scene = scene.rows(0.1, 1.0)
    half_width = person["skull_width"] * (0.60 + person["jaw_taper"] * -0.25)
    neck = cover((scene.y - 0.7).clamp_(min=0).mul_(0.6).sub_(scene.x.abs()).add_(half_width), 20.0)
    neck.mul_((scene.y * 12 - 2).clamp_(0, 1))
    paint(scene.picture, neck, skin * 0.93)
    from_collar = scene.y - (0.86 + photo["cloth_cut"].clamp(-2, 2) * 0.05)
    collar = spot(scene.x, from_collar, 0.34, 0.6).mul_(-0.12)
    clothed = cover(collar.add_(from_collar).addcmul_(scene.x, scene.x, value=-0.25), 22.0)
    paint(scene.picture, clothed, muted(photo["cloth_light"], photo["cloth_hue"], 0.4))
    chin_shadow = spot(scene.x + photo["light_x"] * 0.06, scene.y - (person["chin"] + 0.06), 0.50, 0.24)
    scene.shadow(chin_shadow.mul_(torch.maximum(neck, clothed)), 0.62)


def draw_ears(scene: Scene, person: Columns, photo: Columns, skin: Colour) -> None:
    """Two ears at the sides of the skull; a turn of the head hides one and shows more of the other."""
    scene = scene.rows(-0.5, 0.6)
    size, flare = person["ear_size"], person["ear_flare"].clamp(-0.03, 0.12)
    down = scene.y - person["ear_height"]
    across = (scene.x + photo["yaw"] * 0.22).abs_().sub_(person["skull_width"] * 0.97 + flare * 0.8)
    across.add_(down * 0.22)  # the upper half stands out further
    ear = disc(across, down, size * 0.42 + flare * 0.5, size, 0.16)
    paint(scene.picture, ear, skin * 0.97)
    shell = spot(across, down.add_(size * 0.12), size * 0.30 + flare * 0.3, size * 0.70)
    scene.shadow(shell.mul_(ear), 0.45)


def draw_skull(scene: Scene, person: Columns, photo: Columns, skin: Colour) -> Plane:
    """The skin of the face, darker towards its outline. Returns its mask."""
    inside = outline(scene, person, photo)
    face = cover(inside, 11.0)
    paint(scene.picture, face, skin)
    scene.shadow((1 - inside.mul_(4).clamp_(0, 1)).mul_(face), 0.22)
    return face


def draw_age(scene: Scene, person: Columns, photo: Columns) -> None:
    """Cheeks, the folds from nose to mouth, and lines on the forehead."""
    tip = person["eye_height"] + person["nose_length"]
    age, smile = person["age"].clamp(0, 1.1), photo["smile"].clamp(0, 0.8)
    lower = scene.rows(-0.42, 0.92)
    cheek_x, drop = lower.away - 0.30, lower.face_y - (tip - 0.02)
    lower.bump(cheek_x, drop + 0.03, 0.20, 0.17, person["cheekbones"].clamp(-0.08, 0.1) * 6 + 0.45)
    fold = line((lower.away - person["nose_width"] * 1.05).sub_(drop * 0.42), 0.026)
    reach = drop.sub_(0.14).div_(0.18)
    fade = (1 - reach.mul_(reach)).clamp_(min=0)
    lower.shadow(fold.mul_(fade), age * 0.35 + smile * 0.35)
    lined = chosen(age - 0.35)
    if len(lined):
        upper = scene.rows(-0.9, 0.2)
        away, bent, lit, old, eye_height = pick(lined, upper.away, upper.face_y, upper.lit, age, person["eye_height"])
        bent.addcmul_(away, away, value=0.12).sub_(eye_height)
        width = (0.30 - away).mul_(8).clamp_(0, 1).mul_((old - 0.25) * 0.40)
        for rise in (0.30, 0.37):
            lit.mul_(1 - line(bent + rise, 0.016).mul_(width))
        upper.lit.index_copy_(0, lined, lit)


def draw_marks(scene: Scene, person: Columns) -> None:
    """Up to two moles."""
    for mark in ("cheek_mark", "brow_mark"):
        marked = chosen(person[mark])
        if len(marked):
            across, down, lit, much, mark_x, mark_y = pick(
                marked, scene.face_x, scene.face_y, scene.lit, person[mark], person[mark + "_x"], person[mark + "_y"]
            )
            mole = disc(across.sub_(mark_x), down.sub_(mark_y), 0.024, 0.024, 0.8)
            lit.mul_(1 - mole.mul_((much * 2).clamp(max=0.65)))
            scene.lit.index_copy_(0, marked, lit)


def draw_nose(scene: Scene, person: Columns, photo: Columns) -> None:
    """The bridge and the tip of the nose, its wings and nostrils, and its shadow on the side away from the light."""
    scene = scene.rows(-0.60, 0.74)
    light_x, light_y, _ = light_direction(photo)
    # a nose protrudes from the ellipsoid, so a turn moves it further
    across = scene.face_x - photo["yaw"] * 0.11
    level = scene.face_y - (person["eye_height"] + person["nose_length"] + photo["pitch"] * 0.08)
    wing, middle = person["nose_width"], person["nose_length"] * 0.48
    scene.bump(across, level + middle, person["nose_bridge"] * 1.25, middle * 1.25, 1.5)
    scene.bump(across, level + 0.015, person["nose_tip"] * 1.35, person["nose_tip"] * 1.2, 1.5)
    mirrored = across.abs()
    scene.bump(mirrored - wing * 0.78, level, wing * 0.42, 0.052, 1.2)
    scene.shadow(spot(mirrored - wing * 0.50, level - 0.040, wing * 0.36, 0.024), 0.80)
    crease = line(spot(mirrored - wing * 0.70, level, wing * 0.45, 0.062).sub_(0.25), 0.25)
    scene.shadow(crease.mul_(cover(mirrored.sub_(wing * 0.80), 30.0)), 0.32)
    scene.shadow(
        spot(across + light_x * 0.13, level - 0.075, wing * 1.05, 0.060), (0.28 - light_y * 0.25).clamp(0, 0.55)
    )
    beside = spot(across.add_(light_x * 0.16), level.add_(middle * 0.9), person["nose_bridge"] * 0.9, middle)
    scene.shadow(beside, light_x.abs() * 0.34)


def draw_beard(scene: Scene, person: Columns, face: Plane, hair: Colour) -> None:
    """Stubble to full beard along the jaw, and a moustache, for people who have them."""
    bearded = chosen(torch.maximum(person["beard"], person["moustache"]))
    if not len(bearded):
        return
    lower = scene.rows(-0.2, 1.0)
    height = person["eye_height"] + person["nose_length"] + person["mouth_gap"]
    across, level, picture, inside = pick(
        bearded, lower.face_x, lower.face_y, lower.picture, face[:, -lower.x.shape[1] :]
    )
    lip, mouth_width, upper_lip, beard, moustache, colour = pick(
        bearded, height, person["mouth_width"], person["upper_lip"], person["beard"], person["moustache"], hair
    )
    level.sub_(lip)
    around = (1 - spot(across, level, mouth_width * 1.25, 0.15).mul_(2.2)).clamp_(0, 1)
    jaw = (level + 0.06).addcmul_(across, across, value=0.9).mul_(9).clamp_(0, 1)
    paint(picture, jaw.mul_(around).mul_(inside).mul_(beard.clamp(0, 0.85)), colour)
    above = disc(across, level.add_(upper_lip + 0.035), mouth_width * 0.95, 0.045, 0.9)
    paint(picture, above.mul_(moustache.clamp(0, 0.8)), colour)
    lower.picture.index_copy_(0, bearded, picture)


def draw_mouth(scene: Scene, person: Columns, photo: Columns, skin: Colour, lips: Colour) -> None:
    """Two lips along a line that a smile bends, open on some photographs, and the chin below them."""
    scene = scene.rows(-0.12, 1.0)
    smile, gape = photo["smile"].clamp(-0.3, 0.8), photo["mouth_open"].clamp(0, 0.09)
    upper, lower = person["upper_lip"].clamp(min=0.010), person["lower_lip"].clamp(min=0.014)
    half_width = person["mouth_width"] * photo["mouth_stretch"] + smile * 0.045
    height = person["eye_height"] + person["nose_length"] + person["mouth_gap"]
    across = scene.face_x - photo["yaw"] * 0.03
    along = across / half_width
    along.mul_(along)
    level = (scene.face_y - height).addcmul_(along, smile * 0.10).sub_(smile * 0.03)
    arch = 1 - along  # 1 in the middle of the mouth, 0 at its corners
    within = (arch * 4).add_(0.5).clamp_(0, 1)
    bow = line(across, 0.07).mul_(person["cupids_bow"] * -0.45).add_(1)
    top = bow.mul_(upper).mul_(arch).add_(level)
    bottom = (arch * (lower + gape)).sub_(level)
    paint(scene.picture, cover(torch.minimum(top, bottom), 32.0).mul_(within), lips)
    gaping = chosen(gape)
    if len(gaping):
        picture, above, room, inside, gap, gums = pick(gaping, scene.picture, level, arch, within, gape, skin)
        room.mul_(gap)
        hollow = cover(torch.minimum(above, room - above), 40.0).mul_(inside)
        paint(picture, hollow.mul_((gap * 60).clamp(max=1)), gums * 0.14)
        teeth = cover(torch.minimum(above, room.mul_(0.55).sub_(above)), 40.0).mul_(inside)
        paint(picture, teeth.mul_((gap * 40).clamp(max=1)), torch.full_like(gums, 0.80))
        scene.picture.index_copy_(0, gaping, picture)
    scene.shadow(line(level, 0.017).mul_(within), 0.62)
    scene.shadow(spot(across, level + upper * 0.5, half_width * 0.9, upper * 0.7), 0.20)
    scene.bump(across, level - lower * 0.55, half_width * 0.8, 0.055, 1.0)
    scene.shadow(spot(across, level - (lower + gape + 0.035), half_width * 0.60, 0.035), 0.38)
    scene.bump(across, scene.face_y - (person["chin"] - 0.11), 0.15, 0.11, 0.8)
    scene.shadow(spot(across, level.add_(person["mouth_gap"] * 0.55), 0.030, person["mouth_gap"] * 0.35), 0.18)


def draw_eyes(scene: Scene, person: Columns, photo: Columns, skin: Colour, hair: Colour) -> None:
    """Eye sockets, eyeballs between curved lids, irises with a direction of gaze, lid folds, lashes and brows."""
    scene = scene.rows(-0.70, 0.42)
    light_x, _, _ = light_direction(photo)
    width, opening = person["eye_width"], person["eye_opening"].clamp(min=0.02) * photo["lids"].clamp(0.12, 1.5)
    squint = photo["smile"].clamp(0, 0.6) * 0.018
    across = scene.away - person["eye_distance"]
    level = scene.face_y - person["eye_height"]
    scene.bump(across + 0.05, level + 0.04, width * 1.7, 0.14, person["eye_depth"] * -1.1)
    scene.shadow(
        spot(across + width * 0.35, level + 0.03, width * 1.5, 0.115), person["eye_depth"].clamp(0, 1.3) * 0.42
    )

    tilted = level.addcmul(across, person["eye_tilt"])
    arch = across / width
    arch = 1 - arch.mul_(arch)  # 1 in the middle of the eye, 0 at its corners
    from_upper = tilted.addcmul(arch, opening)
    from_lower = (arch * (opening * 0.62 - squint)).sub_(tilted)
    ball = cover(torch.minimum(from_upper, from_lower), 45.0)
    paint(scene.picture, ball, skin * 0.25 + 0.62)
    side = scene.face_x.sign()
    from_iris, iris_level = across.addcmul(side, photo["gaze_x"] * -1), tilted.sub_(photo["gaze_y"] - 0.006)
    radius = width * 0.30 + 0.022
    paint(scene.picture, disc(from_iris, iris_level, radius, radius, 0.5).mul_(ball), iris_colour(person["iris"]))
    pupil = disc(from_iris, iris_level, radius * 0.45, radius * 0.45, 0.7).mul_(ball)
    paint(scene.picture, pupil, torch.full_like(skin, 0.02))
    glint = spot(from_iris.addcmul_(side, light_x * -0.02), iris_level.add_(0.014), 0.016, 0.016).mul_(ball)
    paint(scene.picture, glint, torch.full_like(skin, 1.1))

    within = (arch * 3).add_(0.6).clamp_(0, 1)
    scene.shadow(line(from_upper + 0.004, 0.021).mul_(within), 0.88)
    scene.shadow(line(from_upper.add_(person["lid_fold"].clamp(min=0.008) + 0.012), 0.016).mul_(within), 0.34)
    scene.shadow(line(from_lower + 0.006, 0.016).mul_(within), 0.25)
    scene.shadow(line(from_lower.add_(0.052), 0.030).mul_(within), person["age"].clamp(0, 1) * 0.32)

    across.sub_(0.012)
    along = across / person["brow_width"]
    height = level.add_(person["brow_gap"] + photo["brow_raise"]).addcmul_(across, person["brow_tilt"])
    height.addcmul_(along * along, person["brow_arch"] * -1)
    ends = (1 - along * along).mul_(6).clamp_(0, 1)
    # thickest at the inner third, drawn out to a tip
    along.add_(0.3)
    thick = along.mul_(along).mul_(-0.6).add_(1).mul_(person["brow_thickness"].clamp(min=0.010))
    paint(scene.picture, cover(thick.sub_(height.abs_()), 40.0).mul_(ends.mul_(0.86)), hair * 0.55 + skin * 0.12)


def draw_hair_front(scene: Scene, person: Columns, photo: Columns, behind: Plane, hair: Colour) -> None:
    """Hair above the hairline, with a parting and strands, and its soft shadow on the forehead."""
    scene = scene.rows(-1.0, 0.5)
    behind = behind[:, : scene.x.shape[1]]
    offset = scene.face_x - person["parting"]
    edge = (offset * offset).mul_(person["hairline_bend"].clamp(-0.9, 1.6) * 0.8)
    # the sides extend down to the ears
    edge.add_((scene.away - person["skull_width"] * 0.80).clamp_(min=0).mul_(3.2))
    edge.sub_(person["hairline"] + photo["hair_day"]).sub_(scene.face_y)
    # the hair in front of the ears ends beside the cheeks; there is a notch at the parting
    ends = (0.12 - scene.face_y).mul_(8).clamp_(0, 1).mul_(behind)
    front = cover(edge.sub(line(offset, 0.10).mul_(0.05)), 16.0).mul_(ends)
    scene.shadow(cover(edge.add_(0.06), 7.0).mul_(ends), 0.30)
    strands = (scene.face_y * 23 + 17).mul_(offset).addcmul_(scene.face_y, scene.face_y, value=5)
    strands.sub_(strands.floor()).sub_(0.5).abs_().mul_(0.48).add_(0.88)
    paint(scene.picture, front, hair * strands[:, None])


def draw_glasses(scene: Scene, person: Columns, photo: Columns) -> None:
    """Glasses, some of them dark, on the photographs that have them."""
    wearing = chosen(photo["glasses"])
    if not len(wearing):
        return
    scene = scene.rows(-0.6, 0.42)
    away, level, picture, distance, eye_height = pick(
        wearing, scene.away, scene.face_y, scene.picture, person["eye_distance"], person["eye_height"]
    )
    wide, high, dark, shade = pick(
        wearing, photo["glasses_size"], photo["glasses_height"], photo["sunglasses"], photo["frame_shade"]
    )
    level.sub_(eye_height + 0.012)
    inside = spot(away - distance, level, wide * 1.15, high * 1.15)
    colour = shade.clamp(0.03, 0.6)[:, None].expand(-1, 3, -1, -1)
    paint(picture, (inside * 12).sub_(2).clamp_(0, 1).mul_(dark), colour * 0.4)
    bridge = line(level.add_(0.02), 0.022).mul_(cover((distance - wide + 0.02) - away, 30.0))
    paint(picture, torch.maximum(line(inside.sub_(0.24), 0.13), bridge).mul_(0.9), colour)
    scene.picture.index_copy_(0, wearing, picture)


def draw_cap(scene: Scene, person: Columns, photo: Columns) -> None:
    """A cap over the hairline, and its brim's shadow, on the photographs that have one."""
    wearing = chosen(photo["cap"])
    if not len(wearing):
        return
    scene = scene.rows(-1.0, 0.3)
    x, y, across, below = pick(wearing, scene.x, scene.y, scene.face_x, scene.face_y)
    hairline, width, top = pick(wearing, person["hairline"], person["skull_width"], person["skull_top"])
    picture, lit, hue, light = pick(wearing, scene.picture, scene.lit, photo["cloth_light"], photo["cloth_hue"])
    below.add_(hairline - 0.06)
    crown = spot(x, y, width + 0.05, top + 0.10).mul_(12).clamp_(max=1)
    above = cover((across * across).mul_(0.25).sub_(below), 25.0)
    paint(picture, above.mul_(crown), muted(light, hue, 0.4))
    lit.mul_(1 - spot(across, below.sub_(0.02), 0.6, 0.12).mul_(0.55))
    scene.picture.index_copy_(0, wearing, picture)
    scene.lit.index_copy_(0, wearing, lit)


def draw_cover(scene: Scene, photo: Columns) -> None:
    """Something held before the face: a soft-edged half plane that takes a corner or the lower part."""
    covered = chosen(photo["cover"])
    if not len(covered):
        return
    x, y, picture, angle, depth = pick(
        covered, scene.x, scene.y, scene.picture, photo["cover_angle"].clamp(-1, 1), photo["cover_depth"]
    )
    light, hue = pick(covered, photo["wall_hue"], photo["cloth_light"])
    reach = x.mul_(angle).addcmul_(y, (1 - angle * angle).sqrt())
    paint(picture, cover(reach.sub_(0.62 - depth.abs() * 0.12), 14.0), muted(light, hue, 0.4))
    scene.picture.index_copy_(0, covered, picture)


def warm(amount: Number, strength: Number) -> Colour:
    """Light of this strength, from bluish (negative amounts) to reddish."""
    return torch.stack((strength * (1 + amount), strength, strength * (1 - amount)), 1)


def illuminate(scene: Scene, photo: Columns, solid: Plane, face: Plane) -> None:
    """Converts reflectance to light: one lamp by Lambert's law, ambient light, and highlights on skin."""
    # a wall faces the viewer: only what is solid keeps its slopes
    scene.slope_x.mul_(solid)
    scene.slope_y.mul_(solid)
    cosine, gleam = shades(scene, photo)
    cosine.mul_(scene.lit)
    ambient = photo["ambient"].clamp(0.1, 0.8)
    light = cosine[:, None] * warm(photo["warmth"] * 0.5, 1.25 - ambient)
    scene.picture.mul_(light.addcmul_(scene.lit[:, None], warm(photo["fill_warmth"] * 0.5, ambient)))
    for _ in range(4):  # the sixteenth power: skin's dull gloss
        gleam.mul_(gleam)
    scene.picture.add_(gleam.mul_(scene.lit).mul_(face).mul_(0.14)[:, None])


def render(person: Columns, photo: Columns, size: int) -> Picture:
    """The faces in their light, before the camera: linear colour, from 0 to about 1.3.

    A row is a face, of the columns of `synthetic_identity.PERSON`, and of `synthetic_identity.PHOTO` and what is worn.
    """
    scene = stage(person, photo, size)
    blood = person["hemoglobin"] + photo["blush"]
    skin = skin_colour(person["melanin"], blood)
    lips = skin_colour(person["melanin"] * 0.8, blood + person["lip_blood"].clamp(min=0.1))
    hair = hair_colour(person["eumelanin"], person["pheomelanin"], person["grey"] + person["age"] * 0.6)
    draw_wall(scene, photo)
    behind = draw_hair_behind(scene, person, photo, hair)
    draw_body(scene, person, photo, skin)
    draw_ears(scene, person, photo, skin)
    face = draw_skull(scene, person, photo, skin)
    draw_age(scene, person, photo)
    draw_marks(scene, person)
    draw_nose(scene, person, photo)
    draw_beard(scene, person, face, hair)
    draw_mouth(scene, person, photo, skin, lips)
    draw_eyes(scene, person, photo, skin, hair)
    draw_hair_front(scene, person, photo, behind, hair)
    draw_glasses(scene, person, photo)
    draw_cap(scene, person, photo)
    illuminate(scene, photo, torch.maximum(behind, face), face)
    draw_cover(scene, photo)
    return scene.picture
