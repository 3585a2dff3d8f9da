"""From the bytes of an image file to RGB pixels, refusing what is too large or broken."""

import io
import warnings

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageOps, UnidentifiedImageError

MAX_PIXELS = 64_000_000
"""Pixels, width times height, above which an image is refused before any of them is decoded."""

MAX_BYTES = 4 * MAX_PIXELS
"""Size above which a file is refused unread: an uncompressed image of `MAX_PIXELS` with four channels."""

SUFFIXES = (".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".pnm", ".ppm", ".tif", ".tiff", ".webp")
"""Endings, in lower case, by which image files are told from others."""

# Formats that Pillow decodes itself or by a maintained library; EPS would run Ghostscript, and the many rare ones only
# widen what a hostile file can reach.
_FORMATS = ("JPEG", "PNG", "PPM", "BMP", "WEBP", "TIFF")
_ORIENTATION = 0x0112  # EXIF tag
_SIXTEEN_BIT = ("I;16", "I;16L", "I;16B", "I;16N")
_NO_RANGE = ("I", "F")  # 32 bits a pixel: nothing says which value is white


def decode(data: bytes, name: str, *, max_pixels: int = MAX_PIXELS) -> UInt8[np.ndarray, "height width 3"]:
    """The pixels of an encoded image: RGB, [0, 255], upright.

    JPEG, PNG, PPM / PGM, BMP, WebP and TIFF; of several frames the first. Grey, palette and CMYK images become RGB,
    16-bit grey keeps its upper 8 bits, transparency is dropped. The EXIF orientation is applied; an EXIF block that
    cannot be read counts as absent.

    Args:
        data: the file's content.
        name: what to call the image in an error.
        max_pixels: refuse more pixels than this, going by the header, before decoding.

    Raises:
        ValueError: the bytes are not a whole image of these formats, or it has too many pixels.
    """
    with warnings.catch_warnings():
        # Pillow warns of large images, which are refused here, and of odd metadata, which changes no pixel.
        warnings.filterwarnings("ignore", module=r"PIL\.")
        try:
            image = Image.open(io.BytesIO(data), formats=_FORMATS)
            if image.width * image.height <= max_pixels:
                return np.asarray(_rgb(_upright(image)))
        except Image.DecompressionBombError:  # Pillow's own limit, which is higher, comes first
            reason = f"more than the {max_pixels} pixels allowed"
        except UnidentifiedImageError:
            reason = f"its {len(data)} bytes do not begin as a file of {', '.join(_FORMATS)} does, or end in its header"
        except Exception as error:  # a decoder may raise anything on hostile bytes, and all of it means the same
            reason = next(iter(str(error).splitlines()), "").strip() or type(error).__name__
        else:
            reason = f"{image.width} x {image.height} pixels, more than the {max_pixels} allowed"
    raise ValueError(f"{name}: not an image that can be decoded ({reason})")


def _upright(image: Image.Image) -> Image.Image:
    try:
        orientation = image.getexif().get(_ORIENTATION, 1)
    except Exception:  # broken metadata around whole pixels is common, and every viewer shows such an image as it lies
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
