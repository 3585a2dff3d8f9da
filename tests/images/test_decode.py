"""Image bytes become upright RGB pixels, or an error that names the image."""

import io
import struct
import sys
import zlib
from collections.abc import Iterator

import numpy as np
import pytest
from PIL import Image

from verisphere.base.words import install_extra
from verisphere.files.image_suffixes import why_unread
from verisphere.images import decode as decoding
from verisphere.images.decode import decode

RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)


def encode(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def two_pixels() -> Image.Image:
    """Red on the left, blue on the right."""
    return Image.fromarray(np.array([[RED, BLUE]], np.uint8))


@pytest.mark.parametrize("kind", ["PNG", "PPM", "BMP", "TIFF"])
def test_lossless_formats_give_the_same_pixels(kind: str):
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)
    assert np.array_equal(decode(encode(Image.fromarray(pixels), kind), "a"), pixels)


@pytest.mark.parametrize("kind", ["JPEG", "WEBP"])
def test_lossy_formats_keep_the_colour(kind: str):
    pixels = decode(encode(Image.new("RGB", (16, 16), (200, 100, 50)), kind), "a")
    assert np.abs(pixels.astype(int) - (200, 100, 50)).max() <= 3


def test_grey_becomes_three_equal_channels():
    assert decode(b"P5 2 1 255 \x07\xc8", "a.pgm").tolist() == [[[7] * 3, [200] * 3]]


def test_sixteen_bit_grey_keeps_the_upper_eight():
    assert decode(b"P5 2 1 65535 \x07\xff\xc8\x00", "a.pgm").tolist() == [[[7] * 3, [200] * 3]]
    deep = Image.fromarray(np.array([[0x07FF, 0xC800]], np.uint16))
    assert decode(encode(deep), "a.png").tolist() == [[[7] * 3, [200] * 3]]


def test_palettes_and_transparency_become_rgb():
    palette = two_pixels().convert("P", palette=Image.Palette.ADAPTIVE, colors=2)
    assert decode(encode(palette), "a").tolist() == [[list(RED), list(BLUE)]]
    assert decode(encode(palette, transparency=b"\x00\x80"), "a").tolist() == [[list(RED), list(BLUE)]]
    assert decode(encode(Image.new("RGBA", (1, 1), (1, 2, 3, 0))), "a").tolist() == [[[1, 2, 3]]]


def test_pixels_without_a_stated_range_are_refused():
    with pytest.raises(ValueError, match=r"^a\.tif: not an image that can be decoded \(pixels of mode F"):
        decode(encode(Image.new("F", (1, 1)), "TIFF"), "a.tif")


def test_the_exif_orientation_is_applied():
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: the image's left side is its top
    data = encode(two_pixels(), exif=exif)
    assert decode(data, "a").tolist() == [[list(RED)], [list(BLUE)]]


def test_a_broken_exif_block_counts_as_none():
    whole = encode(Image.new("RGB", (8, 8), (90, 90, 90)), "JPEG")
    broken = b"Exif\x00\x00MM\x00\x2a\xff\xff\xff\xff"
    data = whole[:2] + b"\xff\xe1" + struct.pack(">H", len(broken) + 2) + broken + whole[2:]
    assert np.array_equal(decode(data, "a"), decode(whole, "a"))


def png_header(width: int, height: int) -> bytes:
    """A PNG file that ends where its pixels should begin, so that decoding it cannot succeed."""
    body = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    header = struct.pack(">I", 13) + body + struct.pack(">I", zlib.crc32(body))
    return b"\x89PNG\r\n\x1a\n" + header + struct.pack(">I", 1000) + b"IDAT"


@pytest.mark.parametrize("side", [8_001, 9_500, 20_000])  # above our limit; where Pillow warns; where it refuses
def test_too_many_pixels_are_refused_by_the_header(side: int):
    with pytest.raises(ValueError, match=r"^a\.png: .*more than the 64,?000,?000"):
        decode(png_header(side, side), "a.png")


def test_the_limit_can_be_set():
    data = encode(Image.new("RGB", (10, 10)))
    assert decode(data, "a", max_pixels=100).shape == (10, 10, 3)
    with pytest.raises(ValueError, match="10 x 10 pixels, more than the 99 allowed"):
        decode(data, "a", max_pixels=99)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "BMP", "TIFF", "WEBP", "PPM"])
def test_a_truncated_image_is_refused(kind: str):
    pixels = np.random.default_rng(2).integers(0, 256, (40, 40, 3), np.uint8)
    data = encode(Image.fromarray(pixels), kind)
    with pytest.raises(ValueError, match=r"^photos/a: not an image that can be decoded \(.+\)$"):
        decode(data[: len(data) * 2 // 3], "photos/a")


@pytest.mark.parametrize("data", [b"hello", b"\xff\xd8", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n"])
def test_what_is_no_image_is_refused_in_one_line(data: bytes):
    with pytest.raises(ValueError, match=r"^photos/a: not an image: the file's first bytes match no known format$"):
        decode(data, "photos/a")


def test_an_empty_file_is_refused():
    with pytest.raises(ValueError, match=r"^a\.jpg: not an image: the file is empty$"):
        decode(b"", "a.jpg")


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "BMP", "TIFF", "PPM"])
def test_an_image_that_ends_in_its_header_is_told_from_what_is_no_image(kind: str):
    """Its first bytes do match, so it is said that it is cut short."""
    data = encode(two_pixels(), kind)[:9]
    with pytest.raises(ValueError, match=r"^a: not an image that can be decoded \([^\n]+\)$"):
        decode(data, "a")


def test_a_format_that_is_not_allowed_is_refused():
    with pytest.raises(ValueError, match="not an image"):
        decode(encode(two_pixels().convert("P"), "GIF"), "a.gif")


def test_random_damage_never_escapes_as_another_error():
    whole = np.frombuffer(encode(Image.fromarray(np.full((24, 24, 3), 90, np.uint8)), "JPEG"), np.uint8)
    random = np.random.default_rng(3)
    for _ in range(200):
        damaged = whole.copy()
        damaged[random.integers(0, len(whole), 8)] = random.integers(0, 256, 8)
        try:
            pixels = decode(damaged.tobytes(), "a")
        except ValueError as error:
            assert str(error).startswith("a: ")  # noqa: PT017 - both outcomes are right, no other one is
        else:
            assert pixels.dtype == np.uint8


# --- HEIC, and formats that are not read ---


@pytest.fixture
def heif() -> None:
    """HEIC can be read and, to make images, written."""
    pillow_heif = pytest.importorskip("pillow_heif", reason="the extra `heif` is not installed")
    pillow_heif.register_heif_opener()


@pytest.fixture
def no_heif(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The extra `heif` is not installed."""
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    decoding._register_heif.cache_clear()
    yield
    decoding._register_heif.cache_clear()


HEIC_BEGINNING = b"\x00\x00\x00\x1cftypheic\x00\x00\x00\x00mif1heicmiaf"


def halves() -> Image.Image:
    """Red on the left, blue on the right; twice as wide as high."""
    pixels = np.zeros((64, 128, 3), np.uint8)
    pixels[:, :64], pixels[:, 64:] = RED, BLUE
    return Image.fromarray(pixels)


@pytest.mark.usefixtures("heif")
def test_heic_is_read_whatever_its_name():
    pixels = decode(encode(halves(), "HEIF"), "a.jpg")
    assert pixels.shape == (64, 128, 3)
    assert np.abs(pixels[32, 20].astype(int) - RED).max() <= 8
    assert np.abs(pixels[32, 100].astype(int) - BLUE).max() <= 8


@pytest.mark.usefixtures("heif")
def test_the_rotation_of_a_heic_is_applied_once():
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: the image's left side is its top
    turned = Image.open(io.BytesIO(encode(halves(), "JPEG", exif=exif)))
    data = encode(turned, "HEIF")  # as phones do, it states the rotation in EXIF and outside of it
    assert b"irot" in data
    pixels = decode(data, "a.heic")
    assert pixels.shape == (128, 64, 3)
    assert np.abs(pixels[20, 32].astype(int) - RED).max() <= 8
    assert np.abs(pixels[100, 32].astype(int) - BLUE).max() <= 8


@pytest.mark.usefixtures("heif")
def test_a_heic_with_too_many_pixels_is_refused_by_its_header():
    with pytest.raises(ValueError, match=r"^a\.heic: .*\(128 x 64 pixels, more than the 8191 allowed\)"):
        decode(encode(halves(), "HEIF"), "a.heic", max_pixels=8191)


@pytest.mark.usefixtures("heif")
def test_a_heic_whose_header_states_fewer_pixels_than_it_has_is_refused():
    data = encode(Image.new("RGB", (1024, 1024)), "HEIF")
    at = data.index(b"ispe") + 8
    with pytest.raises(ValueError, match=r"^a\.heic: not an image that can be decoded \(.+\)$"):
        decode(data[:at] + struct.pack(">II", 64, 64) + data[at + 8 :], "a.heic")


@pytest.mark.usefixtures("heif")
def test_a_damaged_heic_is_refused_in_one_line():
    whole = encode(halves(), "HEIF")
    with pytest.raises(ValueError, match=r"^a\.heic: .*\(it begins as HEIC does but is damaged or cut short\)$"):
        decode(whole[:200], "a.heic")
    random = np.random.default_rng(4)
    for _ in range(100):
        damaged = np.frombuffer(whole, np.uint8).copy()
        damaged[random.integers(0, len(whole), 8)] = random.integers(0, 256, 8)
        try:
            decode(damaged.tobytes(), "a")
        except ValueError as error:
            assert str(error).startswith("a: ")  # noqa: PT017 - both outcomes are right, no other one is


@pytest.mark.usefixtures("heif")
@pytest.mark.parametrize("kind", ["GIF", "TGA", "PCX", "ICO", "SGI", "DDS", "PDF", "AVIF"])
def test_once_heic_can_be_read_no_other_format_is_reachable(kind: str):
    decode(encode(halves(), "HEIF"), "a.heic")
    with pytest.raises(ValueError, match=r"not an image: the file's|not an image that can be decoded \(it is "):
        decode(encode(halves(), kind), "a.png")


@pytest.mark.usefixtures("heif")
def test_heic_s_decoder_is_handed_nothing_else(monkeypatch: pytest.MonkeyPatch):
    opened = []
    whole = Image.open
    monkeypatch.setattr(Image, "open", lambda file, formats: (opened.append(formats), whole(file, formats=formats))[1])
    decode(encode(halves(), "HEIF"), "a")
    decode(encode(halves(), "PNG"), "a")
    assert opened == [("HEIF",), ("JPEG", "PNG", "PPM", "BMP", "WEBP", "TIFF")]


@pytest.mark.usefixtures("no_heif")
def test_without_the_extra_a_heic_is_called_what_it_is():
    with pytest.raises(ValueError, match=r"^a\.jpg: .*\(it is HEIC; HEIC needs .* pip install '\.\[heif\]'.*\)$"):
        decode(HEIC_BEGINNING, "a.jpg")


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"GIF89a\x01\x00\x01\x00", "GIF"),
        (b"\x00\x00\x00\x1cftypavif\x00\x00\x00\x00mif1avifmiaf", "AVIF"),
        (b"\x00\x00\x00\x1cftypmif1\x00\x00\x00\x00mif1avifmiaf", "AVIF"),
        (b"\x00\x00\x00\x0cJXL \r\n\x87\n", "JPEG XL"),
        (b"\x00\x00\x00\x0cjP  \r\n\x87\n", "JPEG 2000"),
    ],
)
def test_a_photograph_under_a_wrong_name_is_called_what_it_is(data: bytes, kind: str):
    with pytest.raises(ValueError, match=rf"\(it is {kind}, which is not read; save it as PNG or JPEG\)$"):
        decode(data, "a.jpg")


def test_names_of_photographs_that_are_not_read():
    assert [why_unread(name) for name in ("a.jpg", "A.PNG", "a.jfif", "notes.txt", "heic", "a/b")] == [""] * 6
    assert why_unread("A/1.GIF") == ".gif is not read; save it as PNG or JPEG"
    assert why_unread("a.dng").startswith(".dng is not read")


def test_a_heic_is_read_by_its_name_exactly_where_the_extra_is(no_heif: None):
    assert why_unread("a.HEIC") == f"HEIC needs pillow-heif, not installed here; {install_extra('heif')}"


@pytest.mark.usefixtures("heif")
def test_a_heic_is_no_unread_photograph_where_the_extra_is():
    assert why_unread("a.HEIC") == ""
