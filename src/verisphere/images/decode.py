"""From the bytes of an image file to RGB pixels; images that are too large or broken are refused."""

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageOps, UnidentifiedImageError
from PIL.JpegImagePlugin import JpegImageFile

from verisphere.files.image_suffixes import INSTALL_HEIF, MAX_PIXELS, SAVE_ANEW

# Formats that Pillow decodes itself or by a maintained library; EPS would run Ghostscript, and the many rare ones only
# widen what a hostile file can reach.
_FORMATS = ("JPEG", "PNG", "PPM", "BMP", "WEBP", "TIFF")
_JPEG = b"\xff\xd8\xff"  # the first bytes of every JPEG
_ORIENTATION = 0x0112  # EXIF tag
_HOLDERS_OF_ORIENTATION = frozenset({"exif", "xmp", "XML:com.adobe.xmp", "Raw profile type exif"})  # in a JPEG's info
_SIXTEEN_BIT = ("I;16", "I;16L", "I;16B", "I;16N")
_NO_RANGE = ("I", "F")  # 32 bits per pixel: the value of white is not stated


def decode(data: bytes, name: str, *, max_pixels: int = MAX_PIXELS) -> UInt8[np.ndarray, "height width 3"]:
    """The pixels of an encoded image: RGB, [0, 255], upright.

    JPEG, PNG, PPM / PGM, BMP, WebP and TIFF, and HEIC where the extra `heif` is installed; of several frames the first
    is decoded (for HEIC the primary one). The content determines the format, not the name. Grey, palette and CMYK
    images become RGB, 16-bit grey keeps its upper 8 bits, transparency is discarded. The EXIF orientation is applied;
    an EXIF block that cannot be read counts as absent. HEIC states its rotation outside of EXIF; that rotation is
    applied. An image whose header states more than `max_pixels` is refused before decoding.
    """
    with quiet_decoders():
        return decode_quietly(data, name, max_pixels=max_pixels)


@contextmanager
def quiet_decoders() -> Iterator[None]:
    """Silences Pillow's warnings about large images, refused here, and odd metadata, which changes no pixel."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL\.")
        yield


def decode_quietly(data: bytes, name: str, *, max_pixels: int = MAX_PIXELS) -> UInt8[np.ndarray, "height width 3"]:
    """Decode as `decode` does, for many images inside one `quiet_decoders`."""
    try:
        image = _opened(data)
        if image.width * image.height <= max_pixels:
            upright = _rgb(_upright(image))
            return np.frombuffer(upright.tobytes(), np.uint8).reshape(upright.height, upright.width, 3)
    except Image.DecompressionBombError:  # Pillow's own limit, which is higher, comes first
        reason = f"more than the {max_pixels} pixels allowed"
    except UnidentifiedImageError:
        if not (reason := _why_unidentified(data)):
            why = "the file's first bytes match no known format" if data else "the file is empty"
            raise ValueError(f"{name}: not an image: {why}") from None
    except Exception as error:  # a decoder may raise anything on hostile bytes, and every error means the same
        reason = next(iter(str(error).splitlines()), "").strip() or type(error).__name__
    else:
        reason = f"{image.width} x {image.height} pixels, more than the {max_pixels} allowed"
    raise ValueError(f"{name}: not an image that can be decoded ({reason})")


def _opened(data: bytes) -> Image.Image:
    """The image, of which only the header has been read; for a JPEG without a search for the format."""
    if data.startswith(_JPEG):
        try:
            return JpegImageFile(io.BytesIO(data))
        except Exception:  # the search below reports the fault
            pass
    return Image.open(io.BytesIO(data), formats=_formats(data))


def _formats(data: bytes) -> tuple[str, ...]:
    """The formats whose decoders get these bytes: the decoder of HEIC gets only HEIC."""
    return ("HEIF",) if _other_format(data) == "HEIC" and _register_heif() else _FORMATS


@cache
def _register_heif() -> bool:
    """Registers HEIC with Pillow; False where the extra is not installed."""
    try:
        import pillow_heif
    except ImportError:
        return False
    # One thread, as every other decoder here; images beside the primary one are not used.
    pillow_heif.register_heif_opener(decode_threads=1, thumbnails=False, depth_images=False, aux_images=False)
    return True


def _other_format(data: bytes) -> str:
    """The format outside `_FORMATS` by the first bytes; empty where it is not a known one."""
    if data[4:8] == b"ftyp":  # a container that lists its brands: the major brand, a version, then all others
        brands = data[8 : min(int.from_bytes(data[:4], "big"), 256)]
        if b"avif" in brands or b"avis" in brands:
            return "AVIF"
        if any(brand in brands for brand in (b"heic", b"heix", b"heim", b"heis", b"mif1", b"msf1")):
            return "HEIC"
    return next((kind for beginning, kind in _BEGINNINGS.items() if data.startswith(beginning)), "")


def _why_unidentified(data: bytes) -> str:
    """The reason why bytes of a known format give no image; empty for other bytes."""
    for known in _FORMATS:
        accepts = Image.OPEN[known][1]
        if accepts is not None and accepts(data[:16]):
            return f"it begins as {known} does, but its {len(data)} bytes end in the header, or the header is damaged"
    kind = _other_format(data)
    if kind == "HEIC":
        return (
            "it begins as HEIC does but is damaged or cut short" if _register_heif() else f"it is HEIC; {INSTALL_HEIF}"
        )
    return kind and f"it is {kind}, which is not read; {SAVE_ANEW}"


_BEGINNINGS = {
    b"GIF87a": "GIF",
    b"GIF89a": "GIF",
    b"\x00\x00\x00\x0cjP  ": "JPEG 2000",
    b"\xff\x4f\xff\x51": "JPEG 2000",
    b"\x00\x00\x00\x0cJXL ": "JPEG XL",
    b"\xff\x0a": "JPEG XL",
    b"8BPS": "a Photoshop file",
}


def _upright(image: Image.Image) -> Image.Image:
    if isinstance(image, JpegImageFile) and _HOLDERS_OF_ORIENTATION.isdisjoint(image.info):
        return image
    try:
        orientation = image.getexif().get(_ORIENTATION, 1)
    except Exception:  # broken metadata around intact pixels is common; viewers ignore it
        return image
    return image if orientation == 1 else ImageOps.exif_transpose(image)


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode == "RGB":
        return image
    if image.mode in _SIXTEEN_BIT or (image.mode == "I" and image.format == "PPM"):  # 16-bit PGM is widened to "I"
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8)).convert("RGB")
    if image.mode in _NO_RANGE:
        raise ValueError(f"pixels of mode {image.mode} have no stated range; save it with 8 bits a channel")
    if image.mode in ("P", "PA"):
        image = image.convert("RGBA")  # straight to RGB, Pillow warns about the transparency that is dropped here
    return image.convert("RGB")
