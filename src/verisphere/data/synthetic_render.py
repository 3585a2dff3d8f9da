"""Draws synthetic faces: a head as an ellipsoid under a turn and a light, features as soft masks painted in order.

Only sums, products, quotients, square roots and clamps touch pixels, one a torch call. IEEE 754 rounds each of them
alike everywhere, so a face has the same bits in any batch, on any number of threads and on a GPU.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from verisphere.data.synthetic_identity import Columns, hair_colour, iris_colour, skin_colour

Number = Float[Tensor, "faces 1 1"]
Plane = Float[Tensor, "faces height width"]
Colour = Float[Tensor, "faces 3 1 1"]
Picture = Float[Tensor, "faces 3 height width"]

DEPTH = 0.55  # the head's half depth, in half frames


@dataclass(frozen=True)
class Head:
    """Where each pixel lies on a head.

    Attributes:
        x, y: upright coordinates in the picture's plane, in half frames, the middle of the head at 0.
        face_x, face_y: the same as seen from straight ahead, on the ellipsoid's surface.
        away: |face_x|: features that come in pairs are drawn once.
        side: the sign of face_x.
        bulge: the surface's height towards the viewer, 0 at the outline, at most 1.
    """

    x: Plane
    y: Plane
    face_x: Plane
    face_y: Plane
    away: Plane
    side: Plane
    bulge: Plane

    def band(self, top: int, bottom: int) -> "Head":
        """The pixel rows from `top` up to `bottom`, as views."""
        return Head(*(plane[:, top:bottom] for plane in vars(self).values()))


def cover(inside: Plane, sharpness: float | Number) -> Plane:
    """A soft mask in [0, 1]: 1/2 where `inside` is 0, rising with it."""
    return inside.mul(sharpness).add_(0.5).clamp_(0, 1)


def spot(across: Plane, down: Plane, half_width: float | Number, half_height: float | Number) -> Plane:
    """1 - r^2 inside an ellipse about 0, 0 outside: a bump, a blush or a soft shadow."""
    wide, high = across / half_width, down / half_height
    return wide.mul_(wide).add_(high.mul_(high)).neg_().add_(1).clamp_(min=0)


def disc(across: Plane, down: Plane, half_width: float | Number, half_height: float | Number, edge: float) -> Plane:
    """A filled ellipse about 0 whose rim is soft over `edge` of its radius squared."""
    wide, high = across / half_width, down / half_height
    return wide.mul_(wide).add_(high.mul_(high)).neg_().add_(1).mul_(1 / edge).add_(0.5).clamp_(0, 1)


def line(distance: Plane, half_width: float | Number) -> Plane:
    """A soft stroke: 1 where `distance` is 0, 0 from `half_width` on."""
    return distance.abs().div_(half_width).neg_().add_(1).clamp_(min=0)


def paint(picture: Picture, mask: Plane, colour: Colour | Float[Tensor, "faces 3 height width"]) -> None:
    """Lay a colour over the picture, in place, as thick as the mask says."""
    picture.add_((colour - picture).mul_(mask[:, None]))


def place(person: Columns, photo: Columns, size: int) -> Head:
    """Undo framing, roll and turn for every pixel."""
    steps = (torch.arange(size, device=person.values.device) * 2 + (1 - size)).float() / size
    shift_x, shift_y, zoom, roll = photo["shift_x"], photo["shift_y"], photo["zoom"], photo["roll"].clamp(-0.6, 0.6)
    across = (steps[None, None, :] - shift_x) / zoom
    down = (steps[None, :, None] - shift_y) / zoom
    upright = (1 - roll * roll).sqrt()
    x = upright * across + roll * down
    y = upright * down - roll * across
    yaw, pitch = photo["yaw"].clamp(-0.65, 0.65), photo["pitch"].clamp(-0.4, 0.4)
    reach = torch.where(y < 0, 1 / person["skull_top"], 1 / person["chin"])
    wide, high = x / person["skull_width"], y * reach
    bulge = wide.mul_(wide).add_(high.mul_(high)).mul_(-0.85).add_(1).clamp_(min=0).sqrt_()
    face_x = (1 - yaw * yaw).sqrt() * x
    face_x -= bulge * (yaw * DEPTH)
    face_y = (1 - pitch * pitch).sqrt() * y
    face_y -= bulge * (pitch * DEPTH)
    return Head(x, y, face_x, face_y, face_x.abs(), face_x.sign(), bulge)


def outline(head: Head, person: Columns, photo: Columns) -> Plane:
    """1 - r^2 for the head's outline: an egg that narrows to the chin, which swings with the turn."""
    low = (head.y / person["chin"]).clamp_(0, 1)
    low_squared = low * low
    narrow = low_squared * low_squared
    narrow.mul_(person["chin_point"].clamp(0, 0.8) * 0.5).add_(low_squared * person["jaw_taper"].clamp(0.08, 0.6))
    cheek = (head.y - 0.16).div_(0.22)
    cheek = cheek.mul_(cheek).neg_().add_(1).clamp_(min=0).mul_(person["cheekbones"])
    half_width = (1 - narrow).add_(cheek).mul_(person["skull_width"])
    wide = (head.x - low * (photo["yaw"] * 0.20)).div_(half_width)
    high = head.y * torch.where(head.y < 0, 1 / person["skull_top"], 1 / person["chin"])
    return wide.mul_(wide).add_(high.mul_(high)).neg_().add_(1)


class Light:
    """The light on a picture: a surface normal that features bend, and a plane of shadow that they darken."""

    def __init__(self, head: Head, person: Columns, photo: Columns) -> None:
        self.slope_x = head.x / (person["skull_width"] * 1.05)
        self.slope_y = head.y * 0.9
        self.lit = torch.ones_like(head.x)
        x, y = photo["light_x"].clamp(-1.4, 1.4), photo["light_y"].clamp(-1.2, 0.8)
        length = (x * x + y * y + 1).sqrt()
        self.x, self.y, self.z = x / length, y / length, 1 / length
        self.photo = photo

    def raise_bump(
        self, rows: slice, across: Plane, down: Plane, width: float | Number, height: float | Number, much: float | Number
    ) -> None:
        """Tilt the surface as a bump (a pit where `much` < 0) of height (1 - r^2)^2 does."""
        slope = spot(across, down, width, height).mul_(much)
        self.slope_x[:, rows].add_(across.div(width).mul_(slope))
        self.slope_y[:, rows].add_(down.div(height).mul_(slope))

    def shadow(self, rows: slice, mask: Plane, much: float | Number) -> None:
        """Take away the share `much * mask` of the light."""
        self.lit[:, rows].mul_(mask.mul(much).neg_().add_(1))

    def shades(self, bulge: Plane) -> tuple[Plane, Plane]:
        """Lambert's cosine times the shadows, and the cosine with the half-way vector for highlights."""
        upright = bulge.clamp(min=0.12)
        length = (self.slope_x * self.slope_x).add_(self.slope_y * self.slope_y).add_(upright * upright).sqrt_()
        cosine = (self.slope_x * self.x).add_(self.slope_y * self.y).add_(upright * self.z).div_(length)
        # the half-way vector between light and viewer (0, 0, 1)
        half = (self.x * self.x + self.y * self.y + (self.z + 1) * (self.z + 1)).sqrt()
        gleam = (self.slope_x * (self.x / half)).add_(self.slope_y * (self.y / half))
        gleam.add_(upright * ((self.z + 1) / half)).div_(length).clamp_(min=0)
        return cosine.clamp_(min=0).mul_(self.lit), gleam


def rows_between(top: float, bottom: float, size: int) -> slice:
    """The pixel rows from height `top` to height `bottom`, in half frames."""
    return slice(max(0, int((top + 1) * size / 2)), min(size, int((bottom + 1) * size / 2) + 1))


def muted(light: Number, hue: Number, strength: float) -> Colour:
    """A colour of a wall or of cloth: a lightness and a position on a ring of hues, both from standard draws."""
    level = 0.42 + light.clamp(-1.8, 1.8) * 0.19
    turn = hue * 0.7
    channels = []
    for phase in (0.0, 1 / 3, 2 / 3):
        ring = turn + phase
        channels.append(((ring - ring.floor()) * 2 - 1).abs() * 2 - 1)  # a triangle wave: -1 to 1
    return (level[:, None] * (1 + torch.stack(channels, 1) * strength)).clamp(0.02, 1)


def draw_wall(head: Head, photo: Columns) -> Picture:
    """Two colours that meet along a line somewhere behind the head, with stripes of a random width and depth."""
    first = muted(photo["wall_light"], photo["wall_hue"], 0.25)
    second = muted(photo["wall_light"] * 0.3 + photo["wall_other"], photo["wall_hue"] + photo["wall_bend"], 0.25)
    angle = photo["wall_angle"].clamp(-1, 1)
    along = head.x * angle + head.y * (1 - angle * angle).sqrt()
    stripes = along * (photo["wall_pattern"] * 2.5) + photo["wall_bend"]
    stripes.sub_(stripes.floor()).mul_(2).sub_(1).abs_()
    stripes.mul_(photo["wall_other"] * 0.35)
    mix = along.add_(photo["wall_bend"] * 0.4).mul_(photo["wall_pattern"] * 3).add_(0.5).add_(stripes).clamp_(0, 1)
    return first + (second - first) * mix[:, None]


def draw_body(picture: Picture, head: Head, person: Columns, photo: Columns, skin: Colour, light: Light) -> None:
    """Shoulders in cloth and a neck in the chin's shadow."""
    rows = rows_between(0.1, 1, picture.shape[-1])
    below = head.band(rows.start, rows.stop)
    view = picture[:, :, rows]
    width = person["skull_width"] * (0.60 + person["jaw_taper"] * -0.25)
    neck = cover(width - below.x.abs() + (below.y - 0.7).clamp_(min=0) * 0.6, 20)
    neck.mul_((below.y * 12 - 2).clamp_(0, 1))
    paint(view, neck, skin * 0.93)
    cloth = muted(photo["cloth_light"], photo["cloth_hue"], 0.4)
    neckline = 0.86 + photo["cloth_cut"].clamp(-2, 2) * 0.05
    slope = (below.x * below.x).mul_(0.25).add_(spot(below.x, below.y - neckline, 0.34, 0.6).mul_(0.12))
    clothed = cover(below.y - neckline - slope, 22)
    paint(view, clothed, cloth)
    chin_shadow = spot(below.x - photo["light_x"] * -0.06, below.y - (person["chin"] + 0.06), 0.50, 0.24).mul_(torch.maximum(neck, clothed))
    light.shadow(rows, chin_shadow, 0.62)


def draw_hair_behind(picture: Picture, head: Head, person: Columns, photo: Columns, hair: Colour) -> Plane:
    """The hair that the head covers: a cap around the skull and, on some, lengths that reach the shoulders."""
    volume = (person["hair_volume"] + photo["hair_day"]).clamp(min=0.0)
    width = person["skull_width"] * 1.01 + volume
    top = person["skull_top"] * 1.01 + volume * 1.1
    length = (person["hair_length"] + 0.30).clamp(0.12, 1.6)
    reach = torch.where(head.y < 0, 1 / top, 1 / length)
    high = (head.y * reach).square_()
    # below the middle a superellipse: long hair falls straight down before it ends
    high = torch.where(head.y < 0, high, high * high)
    mask = cover((head.x / width).square_().add_(high).neg_().add_(1), 9)
    paint(picture, mask, hair * 0.75)
    return mask


def draw_ears(picture: Picture, head: Head, person: Columns, photo: Columns, skin: Colour, light: Light) -> None:
    """Two ears at the sides of the skull; a turn hides one and shows more of the other."""
    rows = rows_between(-0.5, 0.6, picture.shape[-1])
    band = head.band(rows.start, rows.stop)
    size, flare = person["ear_size"], person["ear_flare"].clamp(-0.03, 0.12)
    swing = photo["yaw"] * 0.22
    across = (band.x + swing).abs_().sub_(person["skull_width"] * 0.97 + flare * 0.8)
    down = band.y - person["ear_height"]
    across.add_(down * 0.22)  # the upper half stands out further
    ear = disc(across, down, size * 0.42 + flare * 0.5, size, 0.16)
    paint(picture[:, :, rows], ear, skin * 0.97)
    shell = spot(across, down + size * 0.12, size * 0.30 + flare * 0.3, size * 0.70)
    light.shadow(rows, shell.mul_(ear), 0.45)


def draw_eyes(
    picture: Picture, head: Head, person: Columns, photo: Columns, colours: dict[str, Colour], light: Light
) -> None:
    """Sockets, eyeballs between curved lids, irises that look somewhere, the fold of the lid, lashes and brows."""
    size = picture.shape[-1]
    rows = rows_between(-0.72, 0.42, size)
    band = head.band(rows.start, rows.stop)
    view = picture[:, :, rows]
    width, opening = person["eye_width"], person["eye_opening"].clamp(min=0.02) * photo["lids"].clamp(0.12, 1.5)
    squint = photo["smile"].clamp(0, 0.6) * 0.018
    across = band.away - person["eye_distance"]
    level = band.face_y - person["eye_height"]
    tilted = level + across * person["eye_tilt"]
    light.raise_bump(rows, across + 0.05, level + 0.04, width * 1.7, 0.14, person["eye_depth"] * -1.1)
    socket = spot(across + width * 0.35, level + 0.03, width * 1.5, 0.115)
    light.shadow(rows, socket, person["eye_depth"].clamp(0, 1.3) * 0.42)

    curve = (across / width).square_().neg_().add_(1)  # 1 at the middle of the eye, 0 at its corners
    from_upper = tilted + curve * opening
    from_lower = (curve * (opening * 0.62 - squint)).sub_(tilted)
    ball = cover(torch.minimum(from_upper, from_lower), 45)
    paint(view, ball, colours["white"])
    from_iris = across - band.side * photo["gaze_x"]
    iris_y = tilted - photo["gaze_y"] + 0.006
    radius = person["eye_width"] * 0.30 + 0.022
    iris = disc(from_iris, iris_y, radius, radius, 0.5).mul_(ball)
    paint(view, iris, colours["iris"])
    pupil = disc(from_iris, iris_y, radius * 0.45, radius * 0.45, 0.7).mul_(ball)
    paint(view, pupil, colours["black"])
    glint = spot(from_iris - band.side * (light.x * 0.02), iris_y + 0.014, 0.016, 0.016).mul_(ball)
    paint(view, glint, colours["glint"])

    inside = (curve * 3 + 0.6).clamp_(0, 1)
    lashes = line(from_upper + 0.004, 0.021).mul_(inside)
    fold = line(from_upper + person["lid_fold"].clamp(min=0.008) + 0.012, 0.016).mul_(inside)
    under = line(from_lower + 0.006, 0.016).mul_(inside)
    light.shadow(rows, lashes, 0.88)
    light.shadow(rows, fold, 0.34)
    light.shadow(rows, under, 0.25)
    bag = line(from_lower + 0.052, 0.030).mul_(inside)
    light.shadow(rows, bag, person["age"].clamp(0, 1) * 0.32)

    across = across.sub_(0.012)
    along = across / person["brow_width"]
    height = level + person["brow_gap"] + photo["brow_raise"]
    height.add_(across * person["brow_tilt"]).sub_((along * along).mul_(person["brow_arch"]))
    # thickest at the inner third, drawn out to a tip
    thick = (along + 0.3).square_().mul_(-0.6).add_(1).mul_(person["brow_thickness"].clamp(min=0.010))
    ends = (1 - along * along).mul_(6).clamp_(0, 1)
    brow = cover(thick - height.abs(), 40).mul_(ends)
    paint(view, brow.mul_(0.86), colours["brow"])


def draw_nose(picture: Picture, head: Head, person: Columns, photo: Columns, light: Light) -> None:
    """A bridge and a tip that stand out, wings, nostrils, and the shadow that it casts away from the light."""
    rows = rows_between(-0.62, 0.72, picture.shape[-1])
    band = head.band(rows.start, rows.stop)
    root = person["eye_height"]
    tip = root + person["nose_length"]
    # a nose stands out of the ellipsoid, so a turn carries it further
    across = band.face_x - photo["yaw"] * 0.11
    level = band.face_y - tip - photo["pitch"] * 0.08
    wing = person["nose_width"]
    middle = person["nose_length"] * 0.48
    light.raise_bump(rows, across, level + middle, person["nose_bridge"] * 1.25, middle * 1.25, 1.5)
    light.raise_bump(rows, across, level + 0.015, person["nose_tip"] * 1.35, person["nose_tip"] * 1.2, 1.5)
    mirrored = across.abs()
    light.raise_bump(rows, mirrored - wing * 0.78, level - 0.005, wing * 0.42, 0.052, 1.2)
    nostril = spot(mirrored - wing * 0.50, level - 0.040, wing * 0.36, 0.024)
    light.shadow(rows, nostril, 0.80)
    wing_line = line(spot(mirrored - wing * 0.70, level, wing * 0.45, 0.062) - 0.25, 0.25)
    light.shadow(rows, wing_line.mul_(cover(mirrored - wing * 0.80, 30)), 0.32)
    fallen = spot(across + light.x * 0.13, level - 0.075, wing * 1.05, 0.060)
    light.shadow(rows, fallen, (0.28 - light.y * 0.25).clamp(0, 0.55))
    beside = spot(across + light.x * 0.16, level + middle * 0.9, person["nose_bridge"] * 0.9, middle)
    light.shadow(rows, beside, light.x.abs() * 0.34)


def draw_mouth(
    picture: Picture, head: Head, person: Columns, photo: Columns, colours: dict[str, Colour], light: Light
) -> None:
    """Two lips along a line that a smile bends, parted on some photographs, and the chin below."""
    rows = rows_between(-0.05, 1, picture.shape[-1])
    band = head.band(rows.start, rows.stop)
    view = picture[:, :, rows]
    smile = photo["smile"].clamp(-0.3, 0.8)
    open_by = photo["mouth_open"].clamp(0, 0.09)
    width = person["mouth_width"] * photo["mouth_stretch"] + smile * 0.045
    height = person["eye_height"] + person["nose_length"] + person["mouth_gap"]
    across = band.face_x - photo["yaw"] * 0.03
    along = (across / width).square_()
    curve = (1 - along).clamp_(min=-0.2)
    level = (band.face_y - height).add_((along * 0.10 - 0.03).mul_(smile))
    bow = line(across, 0.07).mul_(person["cupids_bow"] * -0.45).add_(1)
    top = (curve * (person["upper_lip"].clamp(min=0.010))).mul_(bow).add_(level)
    bottom = (curve * (person["lower_lip"].clamp(min=0.014) + open_by)).sub_(level)
    within = (curve * 4 + 0.5).clamp_(0, 1)
    lips = cover(torch.minimum(top, bottom), 32).mul_(within)
    paint(view, lips, colours["lips"])
    gap = cover(torch.minimum(level + 0.003, curve * open_by - level), 40).mul_((open_by * 60).clamp(0, 1)).mul_(within)
    paint(view, gap, colours["mouth"])
    teeth = cover(torch.minimum(level, curve * (open_by * 0.55) - level), 40).mul_((open_by * 40).clamp(0, 1)).mul_(within)
    paint(view, teeth, colours["teeth"])
    light.shadow(rows, line(level, 0.017).mul_(within), 0.62)
    light.shadow(rows, spot(across, level + person["upper_lip"] * 0.5, width * 0.9, person["upper_lip"] * 0.7), 0.20)
    light.raise_bump(rows, across, level - person["lower_lip"] * 0.55, width * 0.8, 0.055, 1.0)
    light.shadow(rows, spot(across, level - person["lower_lip"] - open_by - 0.035, width * 0.60, 0.035), 0.38)
    chin = person["chin"] - 0.11
    light.raise_bump(rows, across, band.face_y - chin, 0.15, 0.11, 0.8)
    light.shadow(rows, spot(across, level + person["mouth_gap"] * 0.55, 0.030, person["mouth_gap"] * 0.35), 0.18)


def draw_age(picture: Picture, head: Head, person: Columns, photo: Columns, light: Light) -> None:
    """Cheeks, the folds from nose to mouth, lines on the forehead and two marks."""
    rows = rows_between(-0.8, 0.85, picture.shape[-1])
    band = head.band(rows.start, rows.stop)
    smile = photo["smile"].clamp(0, 0.8)
    tip = person["eye_height"] + person["nose_length"]
    cheek_x, cheek_y = band.away - 0.30, band.face_y - (tip - 0.05)
    light.raise_bump(rows, cheek_x, cheek_y, 0.20, 0.17, person["cheekbones"].clamp(-0.08, 0.1) * 6 + 0.45)
    age = person["age"].clamp(0, 1.1)
    start = person["nose_width"] * 1.05
    drop = band.face_y - (tip - 0.02)
    fold = line(band.away - start - drop * 0.42, 0.026)
    fold.mul_(spot(drop - 0.14, drop - 0.14, 0.25, 0.25))
    light.shadow(rows, fold, age * 0.35 + smile * 0.35)
    for rise in (0.30, 0.37):
        level = band.face_y - (person["eye_height"] - rise) + (band.away * band.away).mul_(0.12)
        crease = line(level, 0.016).mul_((0.30 - band.away).mul_(8).clamp_(0, 1))
        light.shadow(rows, crease, (age - 0.25).clamp(min=0) * 0.40)
    for mark in ("cheek_mark", "brow_mark"):
        mole = disc(
            band.face_x - person[mark + "_x"] * 1.0,
            band.face_y - person[mark + "_y"],
            0.026,
            0.026,
            0.8,
        )
        light.shadow(rows, mole, (person[mark] * 2).clamp(0, 0.72))


def draw_beard(picture: Picture, head: Head, person: Columns, face: Plane, hair: Colour) -> None:
    """Stubble to full beard along the jaw, and a moustache, on those who have them."""
    rows = rows_between(-0.15, 1, picture.shape[-1])
    band = head.band(rows.start, rows.stop)
    view, inside = picture[:, :, rows], face[:, rows]
    lip = person["eye_height"] + person["nose_length"] + person["mouth_gap"]
    across = band.face_x
    mouth = spot(across, band.face_y - lip, person["mouth_width"] * 1.25, 0.15)
    lower = (band.face_y - lip + 0.06).add_((band.away * band.away).mul_(0.9)).mul_(9).clamp_(0, 1)
    jaw = lower.mul_((1 - mouth * 2.2).clamp_(0, 1)).mul_(inside).mul_(person["beard"].clamp(0, 0.85))
    paint(view, jaw, hair)
    above = disc(across, band.face_y - lip + person["upper_lip"] + 0.035, person["mouth_width"] * 0.95, 0.045, 0.9)
    paint(view, above.mul_(person["moustache"].clamp(0, 0.8)), hair)


def draw_hair_front(
    picture: Picture, head: Head, person: Columns, photo: Columns, behind: Plane, hair: Colour, light: Light
) -> None:
    """Hair above the hairline, parted somewhere, with strands, and the soft shadow it throws on the forehead."""
    rows = rows_between(-1, 0.3, picture.shape[-1])
    band = head.band(rows.start, rows.stop)
    offset = band.face_x - person["parting"]
    bend = (offset * offset).mul_(person["hairline_bend"].clamp(-0.9, 1.6) * 0.8)
    # the sides come down to the ears
    temple = (band.away - person["skull_width"] * 0.80).clamp_(min=0).mul_(3.2)
    edge = (bend + temple).sub_(person["hairline"] + photo["hair_day"]).sub_(band.face_y)
    # a parting: strands fall to both sides, more on the wider one
    notch = line(offset, 0.10).mul_(0.05)
    front = cover(edge.sub_(notch), 16).mul_(behind[:, rows])
    shade = cover(edge + 0.06, 7).mul_(behind[:, rows])
    light.shadow(rows, shade, 0.30)
    strands = (offset * 17 + band.face_y * offset * 23).add_(band.face_y * band.face_y * 5)
    strands.sub_(strands.floor()).mul_(2).sub_(1).abs_().mul_(0.24).add_(0.88)
    paint(picture[:, :, rows], front, hair * strands[:, None])


def draw_worn(picture: Picture, head: Head, person: Columns, photo: Columns, light: Light) -> None:
    """Glasses, sunglasses and caps, on the photographs that have them."""
    size = picture.shape[-1]
    rows = rows_between(-0.6, 0.42, size)
    band = head.band(rows.start, rows.stop)
    across = band.away - person["eye_distance"]
    level = band.face_y - person["eye_height"] - 0.012
    wide, high = photo["glasses_size"], photo["glasses_height"]
    rounded = spot(across, level, wide * 1.15, high * 1.15)
    lens = (rounded * 12 - 2).clamp_(0, 1)
    rim = line(rounded - 0.24, 0.13)
    bridge = line(level + 0.02, 0.022).mul_(cover(person["eye_distance"] - wide - band.away + 0.02, 30))
    frame = torch.maximum(rim, bridge).mul_(photo["glasses"])
    shade = photo["frame_shade"].clamp(0.03, 0.6)[:, None].expand(-1, 3, -1, -1)
    view = picture[:, :, rows]
    paint(view, lens.mul_(photo["sunglasses"]), shade * 0.4)
    paint(view, frame.mul_(0.9), shade)
    rows = rows_between(-1, 0.05, size)
    band = head.band(rows.start, rows.stop)
    line_y = -person["hairline"] + 0.06
    cloth = muted(photo["cloth_hue"], photo["cloth_light"], 0.4)
    grown = spot(band.x, band.y, person["skull_width"] + 0.05, person["skull_top"] + 0.10).mul_(12).clamp_(0, 1)
    above = cover(line_y - band.face_y + band.face_x * band.face_x * 0.25, 25)
    paint(picture[:, :, rows], above.mul_(grown).mul_(photo["cap"]), cloth)
    brim = spot(band.face_x, band.face_y - line_y - 0.02, 0.6, 0.12).mul_(photo["cap"])
    light.shadow(rows, brim, 0.55)


def draw_cover(picture: Picture, head: Head, photo: Columns) -> None:
    """Something held before the face: a soft-edged half plane that takes a corner or the lower part."""
    angle = photo["cover_angle"].clamp(-1, 1)
    reach = head.x * angle + head.y * (1 - angle * angle).sqrt()
    mask = cover(reach - (0.62 - photo["cover_depth"].abs() * 0.12), 14).mul_(photo["cover"])
    paint(picture, mask, muted(photo["wall_hue"], photo["cloth_light"], 0.4))


def render(person: Columns, photo: Columns, size: int) -> Picture:
    """The faces under their light, before any camera: linear colour, about [0, 1.3]."""
    head = place(person, photo, size)
    light = Light(head, person, photo)
    blush = photo["blush"]
    skin = skin_colour(person["melanin"], person["hemoglobin"] + blush)
    hair = hair_colour(person["eumelanin"], person["pheomelanin"], person["grey"] + person["age"] * 0.6)
    colours = {
        "white": skin * 0.25 + 0.62,
        "iris": iris_colour(person["iris"]),
        "black": torch.full_like(skin, 0.02),
        "glint": torch.full_like(skin, 1.1),
        "brow": hair * 0.55 + skin * 0.12,
        "lips": skin_colour(person["melanin"] * 0.8, person["hemoglobin"] + person["lip_blood"].clamp(min=0.1) + blush),
        "mouth": skin * skin.new_tensor((0.22, 0.08, 0.08))[:, None, None],
        "teeth": torch.full_like(skin, 0.86),
    }
    picture = draw_wall(head, photo)
    behind = draw_hair_behind(picture, head, person, photo, hair)
    draw_body(picture, head, person, photo, skin, light)
    draw_ears(picture, head, person, photo, skin, light)
    inside = outline(head, person, photo)
    face = cover(inside, 11)
    paint(picture, face, skin)
    light.shadow(slice(0, size), (1 - inside.clamp_(0, 0.25) * 4).mul_(face), 0.22)
    draw_age(picture, head, person, photo, light)
    draw_nose(picture, head, person, photo, light)
    draw_beard(picture, head, person, face, hair)
    draw_mouth(picture, head, person, photo, colours, light)
    draw_eyes(picture, head, person, photo, colours, light)
    draw_hair_front(picture, head, person, photo, behind, hair, light)
    draw_worn(picture, head, person, photo, light)
    person_mask = torch.maximum(behind, face)
    light.slope_x.mul_(person_mask)
    light.slope_y.mul_(person_mask)
    cosine, gleam = light.shades(head.bulge)
    ambient = photo["ambient"].clamp(0.1, 0.8)
    warm = photo["warmth"] * 0.5
    key = torch.stack((1 + warm, torch.ones_like(warm), 1 - warm), 1)
    cool = photo["fill_warmth"] * 0.5
    fill = torch.stack((1 + cool, torch.ones_like(cool), 1 - cool), 1)
    picture.mul_(cosine[:, None] * (key * (1.25 - ambient)[:, None]) + light.lit[:, None] * (fill * ambient[:, None]))
    gleam = gleam.mul_(gleam)
    gleam.mul_(gleam)
    gleam.mul_(gleam)
    gleam.mul_(gleam)
    picture.add_((gleam.mul_(light.lit).mul_(face) * 0.14)[:, None])
    draw_cover(picture, head, photo)
    return picture
