"""Decode an image's file within bounds of bytes, pixels and formats.

A file is whatever a stranger sends: its header is read first, and nothing larger is decoded. A small one
can still take hours (a progressive JPEG of countless scans, a GIF of countless comments), so a worker
process with limits decodes. Pillow is imported when the first image comes.
"""

from __future__ import annotations

import io
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import DiskError, InvalidRequest, what_failed
from engine.machine.worker_process import LimitExceeded, Limits, WorkerPool, WorkFailed
from engine.values.messages import MAX_IMAGE_BYTES

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

FORMATS = "PNG", "JPEG", "WEBP", "GIF"
"""Formats that are read; of animations the first picture."""
MOST_PIXELS = 40_000_000
"""Pixels of an image, at most: 120 MB in RGB."""
LONGEST_SIDES = 100
"""How many times longer than the other an image's side may be."""
_WORKERS = WorkerPool(
    "engine.vision.pictures:write_pixels",
    Limits(seconds=15, memory=1 << 30, answer=1 << 10),
    waiting=64,
)


def decode(data: bytes, name: str = "image") -> Picture:
    """Return the image in RGB, turned as its EXIF data say. ``name`` is its name in errors.

    What is transparent becomes white. Raises InvalidRequest, DiskError, TooBusy and NoWorker.
    """
    if len(data) > MAX_IMAGE_BYTES:
        raise InvalidRequest(
            "messages",
            f"The {name} has {len(data) >> 20} MB (at most {MAX_IMAGE_BYTES >> 20}). Make "
            "it smaller first.",
        )
    from PIL import Image

    try:
        with tempfile.TemporaryDirectory(prefix="foretoken-") as folder:
            file = Path(folder) / "image"
            file.write_bytes(data)
            size = _WORKERS.call({"path": str(file), "name": name})
            return Image.frombytes("RGB", tuple(size), file.read_bytes())
    except OSError as error:
        raise DiskError.at(Path(tempfile.gettempdir()), error) from error
    except LimitExceeded as limit:
        raise InvalidRequest(
            "messages", f"The {name} could not be read: decoding it {limit}. Save it again."
        ) from limit
    except WorkFailed as error:
        if error.kind == InvalidRequest.__name__:
            raise InvalidRequest("messages", str(error)) from error
        raise DiskError.at(Path(tempfile.gettempdir()), error) from error


def write_pixels(asked: dict[str, str]) -> tuple[int, int]:
    """Replace the file at ``path`` by its image's pixels, in RGB, and return the size; runs in a worker
    process. Raises InvalidRequest and OSError."""
    path = Path(asked["path"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of EXIF data, and of sizes that are checked here
        picture = _decoded(path.read_bytes(), asked["name"])
    path.write_bytes(picture.tobytes())
    return picture.size


def _decoded(data: bytes, name: str) -> Picture:
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        opened: Any = Image.open(io.BytesIO(data), formats=FORMATS)
        width, height = opened.size
        _check(width, height, name)
        ImageOps.exif_transpose(opened, in_place=True)
        return _on_white(opened)
    except UnidentifiedImageError as error:
        raise InvalidRequest(
            "messages",
            f"The {name} is not a PNG, JPEG, WebP or GIF file. Convert it to one of these.",
        ) from error
    except Image.DecompressionBombError as error:  # Pillow has a bound of its own
        raise InvalidRequest(
            "messages",
            f"The {name} has more than {MOST_PIXELS // 1000000} million pixels. Make it smaller first.",
        ) from error
    except (InvalidRequest, MemoryError):
        raise
    except Exception as error:  # Pillow raises what its decoders raise
        raise InvalidRequest(
            "messages",
            f"The {name} is damaged and cannot be read: {what_failed(error)}. Save it again.",
        ) from error


def _check(width: int, height: int, name: str) -> None:
    if width * height > MOST_PIXELS:
        raise InvalidRequest(
            "messages",
            f"The {name} has {width:,} x {height:,} pixels (at most "
            f"{MOST_PIXELS // 1000000} million). Make it smaller first.",
        )
    if max(width, height) > LONGEST_SIDES * min(width, height):
        raise InvalidRequest(
            "messages",
            f"The {name} has {width:,} x {height:,} pixels: one side is more than {LONGEST_SIDES} times "
            "the other. Cut it into parts.",
        )


def _on_white(picture: Picture) -> Picture:
    from PIL import Image

    if picture.mode == "RGB":
        picture.load()
        return picture
    if "A" not in picture.getbands() and "transparency" not in picture.info:
        return picture.convert("RGB")
    clear = picture.convert("RGBA")
    white = Image.new("RGBA", clear.size, "white")
    return Image.alpha_composite(white, clear).convert("RGB")
