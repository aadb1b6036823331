"""Safe decoding of one picture to a new PNG and to the brightness of its pixels."""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, BinaryIO

import numpy as np

from ocelad._typing import Floats
from ocelad.service.items.upload_limits import MAX_FULL_SIDE, MAX_PICTURE_SIDE, MAX_PIXELS, ItemsError

#: The only decoders that are used; other decoders of Pillow run programs or are rarely maintained.
FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP")
THUMBNAIL_SIDE = 16
#: If all pictures have one size of at most this many pixels, every pixel is a feature.
MAX_SMALL_PIXELS = 28 * 28
# Of pictures in their own size: a larger PNG becomes a JPEG of this quality.
_MAX_PNG_BYTES, _JPEG_QUALITY = 2 << 20, 88


@dataclass(frozen=True)
class Picture:
    """A decoded picture.

    Attributes
    ----------
    png : bytes
        For display: at most 256 pixels wide and high, rotated as its metadata say, and without metadata.
    thumbnail : array of shape (16, 16)
        The brightness of a grid of cells, from 0 to 1.
    small : array of shape (height, width), or None
        The brightness of each pixel, if the picture is small.
    full : bytes
        A PNG or JPEG in the picture's own size, at most 2048 pixels wide and high, and without metadata; empty if
        ``png`` has this size.
    """

    png: bytes
    thumbnail: Floats
    small: Floats | None
    full: bytes = b""


@cache
def pillow() -> Any:
    """Return ``PIL.Image``; Pillow is an optional dependency and imported at first use."""
    try:
        return import_module("PIL.Image")
    except ImportError:
        raise ItemsError("pictures need Pillow; install it with: pip install 'ocelad[serve]'") from None


def read_picture(file: BinaryIO, name: str) -> Picture:
    """Read a picture from a file; of an animation, the first frame."""
    image = _open(file, name)
    side = max(MAX_PICTURE_SIDE, THUMBNAIL_SIDE)
    is_large = max(image.size) > side
    image = _decode(image, name, side)
    grey = image.convert("L")
    small = brightness(grey) if grey.width * grey.height <= MAX_SMALL_PIXELS else None
    shape = (THUMBNAIL_SIDE, THUMBNAIL_SIDE)
    thumbnail = brightness(grey.resize(shape, pillow().Resampling.BOX))
    image.thumbnail((side, side))
    if not is_large:
        return Picture(encode_png(image), thumbnail, small)
    # Decoded again: what is displayed and learned from comes from the reduced size, which is many times faster.
    file.seek(0)
    return Picture(encode_png(image), thumbnail, small, _encode_full(_open(file, name), name))


def _decode(image: Any, name: str, side: int) -> Any:
    """Decode an opened picture, where its format can at a reduced size that is not below ``side``."""
    try:
        image.draft("RGB", (side, side))
        image.load()
        return _convert(import_module("PIL.ImageOps").exif_transpose(image))
    except Exception as error:  # decoders raise many types of errors for damaged files
        raise ItemsError(f"{name} is damaged or truncated: {_first_line(error)}") from None


def _encode_full(image: Any, name: str) -> bytes:
    """Return a picture of at most 2048 x 2048 pixels: a JPEG if it was one or if a PNG would be large."""
    is_photograph = image.format in ("JPEG", "WEBP")
    image = _decode(image, name, MAX_FULL_SIDE)
    image.thumbnail((MAX_FULL_SIDE, MAX_FULL_SIDE))
    png = b"" if is_photograph else encode_png(image)
    return png if png and len(png) <= _MAX_PNG_BYTES else _encode_jpeg(image)


def _encode_jpeg(image: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, "JPEG", quality=_JPEG_QUALITY)
    return out.getvalue()


def brightness(grey: Any) -> Floats:
    """Return the brightness of the pixels of a grey picture, from 0 to 1."""
    return np.asarray(grey, dtype=np.float64) / 255


def encode_png(image: Any) -> bytes:
    """Return a picture as a PNG file."""
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def _open(file: BinaryIO, name: str) -> Any:
    accepted = f"accepted: {', '.join(FORMATS)}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            image = pillow().open(file, formats=FORMATS)
    except (pillow().DecompressionBombWarning, pillow().DecompressionBombError):
        raise ItemsError(f"{name} has too many pixels; at most {MAX_PIXELS:,} are accepted") from None
    except import_module("PIL").UnidentifiedImageError:  # its message contains the address of an object
        raise ItemsError(f"{name} is not a readable picture; {accepted}") from None
    except Exception as error:
        raise ItemsError(f"{name} is not a readable picture ({_first_line(error)}); {accepted}") from None
    if image.width * image.height > MAX_PIXELS:
        raise ItemsError(f"{name} has {image.width} x {image.height} pixels; at most {MAX_PIXELS:,} are accepted")
    return image


def _convert(image: Any) -> Any:
    """Convert to 8-bit RGB or grey, with a white background for transparent pictures."""
    if image.mode.startswith("I"):
        return pillow().fromarray((np.asarray(image).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8))
    if image.mode in ("1", "L", "RGB"):
        return image.convert("RGB") if image.mode == "RGB" else image.convert("L")
    if "A" not in image.mode and "transparency" not in image.info:
        return image.convert("RGB")
    rgba = image.convert("RGBA")
    background = pillow().new("RGBA", rgba.size, "white")
    return pillow().alpha_composite(background, rgba).convert("RGB")


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0][:200]
