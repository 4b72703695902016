"""Pictures of messages: made small, stored once, sent with every branch, exported and imported."""

from __future__ import annotations

import io
import json
import threading
import time
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from PIL import Image as Pillow

from app.storage import chat_files, pictures
from app.storage.store import Store
from engine.errors import InvalidRequest
from engine.machine.worker_process import Limits, WorkerPool
from engine.vision import pictures as decoding
from engine.vision.pictures import decode
from tests.support.seeing import picture


def test_a_picture_goes_with_its_message_into_a_file_and_back(tmp_path: Path) -> None:
    data = picture()
    with closing(Store(tmp_path)) as store:
        added = store.add_attachment(pictures.read_picture(data, "key.png"))
        chat = store.new_chat()
        store.begin_turn(chat, "What is it?", keep=None, files=[added])
        plain = store.messages(chat)[0]
        assert plain.files[0].data == b"" and plain.files[0].unit == "70x50"
        (message, _) = store.with_pictures(store.messages(chat))
        assert [image.data for image in message.turn[0].images] == [data]
        assert message.turn[0].content == "What is it?"
        text = chat_files.written(store, chat, "json")["text"]
        again = store.with_pictures(store.messages(chat_files.take(store, json.loads(text))))
        assert again[0].files[0].data == data and again[0].files[0].id != added.id
        spoilt = json.loads(text)
        spoilt["messages"][0]["files"][0]["text"] = "bm90aGluZw=="
        taken = chat_files.take(store, spoilt)
        assert store.messages(taken)[0].files == ()


def test_a_large_picture_is_made_small_and_turned_as_its_camera_says() -> None:
    exif = Pillow.Exif()
    exif[0x0112] = 6  # it lies on its side
    stored = pictures.read_picture(picture(3000, 1000, format="JPEG", exif=exif), "photo.jpg")
    with Pillow.open(io.BytesIO(stored.data)) as opened:
        assert opened.size == (683, 2048) and stored.unit == "683x2048"
    assert pictures.tokens_of(stored) == 1024
    assert len(stored.data) < pictures.LARGEST_KEPT


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x89PNG and nothing else", "PNG, JPEG, WebP or GIF"),
        (picture()[:300], "damaged"),
        (picture(2000, 10), "more than 100 times"),
    ],
)
def test_what_cannot_be_a_picture_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why):
        decode(data)


def test_a_small_file_of_many_pixels_is_not_decoded() -> None:
    """A header that promises 64 gigapixels costs nothing."""
    header = bytearray(picture())
    header[16:24] = (65_535).to_bytes(4, "big") * 2
    header[29:33] = zlib.crc32(header[12:29]).to_bytes(4, "big")
    with pytest.raises(InvalidRequest, match="more than 40 million pixels"):
        decode(bytes(header))


def test_what_is_transparent_becomes_white() -> None:
    file = io.BytesIO()
    Pillow.new("RGBA", (4, 4), (0, 0, 0, 0)).save(file, "PNG")
    assert decode(file.getvalue()).getpixel((0, 0)) == (255, 255, 255)


def _countless_scans() -> bytes:
    """A progressive JPEG whose last scan, of a few bytes, is repeated."""
    file = io.BytesIO()
    Pillow.new("RGB", (2000, 2000)).save(file, "JPEG", progressive=True)
    data = file.getvalue()
    start = data.rindex(b"\xff\xda")
    return data[:start] + data[start:-2] * 50_000 + data[-2:]


def _countless_comments() -> bytes:
    """A GIF whose comment comes byte by byte: Pillow copies all that it has for each."""
    data = picture(format="GIF")
    start = data.index(b"\x2c", 13 + 3 * 256)
    return data[:start] + b"\x21\xfe" + b"\x01a" * 1_000_000 + b"\0" + data[start:]


@pytest.mark.parametrize("hostile", [_countless_scans, _countless_comments])
def test_a_hostile_picture_ends_in_time_and_keeps_no_other_waiting(
    hostile: Callable[[], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of 3.4 MB held the lock of all pictures for minutes."""
    pool = WorkerPool(
        "engine.vision.pictures:write_pixels", Limits(0.9, memory=1 << 30, answer=1 << 10)
    )
    monkeypatch.setattr(decoding, "_WORKERS", pool)
    data, told = hostile(), []
    assert len(data) < decoding.MAX_IMAGE_BYTES

    def attack() -> None:
        with pytest.raises(InvalidRequest) as caught:
            decode(data)
        told.append(str(caught.value))

    thread = threading.Thread(target=attack)
    thread.start()
    while not pool._callers:
        time.sleep(0.001)
    assert decode(picture()).size == (70, 50) and not told
    thread.join()
    pool.close()
    assert told == ["The image could not be read: decoding it took more than 0.9 s. Save it again."]
