"""Files of images, decoded by Pillow for models that ask for it."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np

from tensorsmith.errors import EvaluationError

Array: TypeAlias = np.ndarray[Any, Any]

FORMATS: Final = ("BMP", "JPEG", "JPEG2000", "TIFF", "PNG", "WEBP", "PPM")
"""What is read, by Pillow's names."""


def decode(data: Array, *, grey: bool, reverse: bool) -> Array:
    """(height, width, channels) of the image that the bytes of a file hold, channels red first.

    Without elements for what is no image. grey: with one channel. reverse: blue first.
    Raises EvaluationError where Pillow is missing, or an image is too large for it.
    """
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise EvaluationError(
            "Pillow is not installed, which decodes images",
            try_="pip install 'tensorsmith[images]'",
        ) from None
    try:
        with Image.open(io.BytesIO(data.tobytes()), formats=FORMATS) as image:
            pixels = np.asarray(image.convert("L" if grey else "RGB"))
    except Image.DecompressionBombError as error:
        raise EvaluationError("an image is too large", because=str(error)) from None
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError):
        return np.zeros((0, 0, 1 if grey else 3), np.uint8)
    if grey:
        return pixels[:, :, None]
    return np.ascontiguousarray(pixels[:, :, ::-1]) if reverse else pixels


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType({"images.decode": decode})
"""Every function, by the name that models call it by."""
