"""One picture: read with care, shown as a PNG of our own making, and seen as numbers."""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, BinaryIO

import numpy as np

from ocelad._typing import Floats
from ocelad.service.items.upload_limits import MOST_PIXELS, PICTURE_SIDE, ItemsError

#: The only decoders that are tried; others that Pillow has run programs, or are seldom looked after.
FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP")
THUMBNAIL_SIDE = 16
#: Pictures of at most so many pixels, all of one size, are seen pixel by pixel.
SMALL_PIXELS = 28 * 28


@dataclass(frozen=True)
class Picture:
    """A picture.

    Attributes
    ----------
    png : bytes
        As it is shown: at most 256 pixels wide and high, turned as its camera was held, with nothing but pixels in it.
    thumbnail : array of shape (16, 16)
        Brightness from 0 to 1.
    small : array of shape (height, width), or None
        The brightness of each pixel, where there are few.
    """

    png: bytes
    thumbnail: Floats
    small: Floats | None


@cache
def pillow() -> Any:
    """``PIL.Image``; Pillow is an extra and is imported when first needed."""
    try:
        return import_module("PIL.Image")
    except ImportError:
        raise ItemsError("pictures need Pillow; install it with: pip install 'ocelad[serve]'") from None


def read_picture(file: BinaryIO, name: str) -> Picture:
    """A picture from a file; of an animated one the first frame."""
    image = _opened(file, name)
    side = max(PICTURE_SIDE, THUMBNAIL_SIDE)
    try:
        image.draft("RGB", (side, side))  # a JPEG can be read at a fraction of its size at once
        image.load()
        image = _plain(import_module("PIL.ImageOps").exif_transpose(image))
    except Exception as error:  # decoders raise whatever comes to their mind about damaged files
        raise ItemsError(f"{name} is damaged or not whole: {_sentence(error)}") from None
    grey = image.convert("L")
    small = brightness(grey) if grey.width * grey.height <= SMALL_PIXELS else None
    shape = (THUMBNAIL_SIDE, THUMBNAIL_SIDE)
    thumbnail = brightness(grey.resize(shape, pillow().Resampling.BOX))
    image.thumbnail((side, side))
    return Picture(png(image), thumbnail, small)


def brightness(grey: Any) -> Floats:
    """The brightness of the pixels of a grey picture, from 0 to 1."""
    return np.asarray(grey, dtype=np.float64) / 255


def png(image: Any) -> bytes:
    """A picture as a PNG file."""
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def _opened(file: BinaryIO, name: str) -> Any:
    accepted = f"accepted: {', '.join(FORMATS)}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            image = pillow().open(file, formats=FORMATS)
    except (pillow().DecompressionBombWarning, pillow().DecompressionBombError):
        raise ItemsError(f"{name} has more than {MOST_PIXELS:,} pixels, which is the most that is accepted") from None
    except import_module("PIL").UnidentifiedImageError:  # which would tell of objects in memory
        raise ItemsError(f"{name} is not a picture that can be read; {accepted}") from None
    except Exception as error:
        raise ItemsError(f"{name} is not a picture that can be read ({_sentence(error)}); {accepted}") from None
    if image.width * image.height > MOST_PIXELS:
        raise ItemsError(f"{name} has {image.width} x {image.height} pixels; at most {MOST_PIXELS:,} are accepted")
    return image


def _plain(image: Any) -> Any:
    """In red, green and blue or in grey, on white where it is transparent, with 8 bits."""
    if image.mode.startswith("I"):
        return pillow().fromarray((np.asarray(image).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8))
    if image.mode in ("1", "L", "RGB"):
        return image.convert("RGB") if image.mode == "RGB" else image.convert("L")
    if "A" not in image.mode and "transparency" not in image.info:
        return image.convert("RGB")
    seen = image.convert("RGBA")
    paper = pillow().new("RGBA", seen.size, "white")
    return pillow().alpha_composite(paper, seen).convert("RGB")


def _sentence(error: Exception) -> str:
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0][:200]
