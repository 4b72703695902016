"""Routes that take files from the page: attachments of messages, and chats to import."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyio import CapacityLimiter, fail_after, open_file, to_thread
from fastapi import APIRouter
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from app.documents.reading import LARGEST
from app.storage.imports.importing import LARGEST as MOST_IMPORTED
from app.storage.pictures import media_type
from app.ui.endpoints import View, refusal
from app.ui.pages.chat.composer.attachments import Attachments, one_line
from app.web.connections import leave_body_to_route
from engine.errors import DiskError, InvalidRequest

ATTACH = "/attachments"
"""``POST`` with a file as body and its ``name`` in the query: stores it for a message."""
IMPORT = "/chats/import"
"""``POST`` with a file of chats as body and its ``name`` in the query: stores the chats."""
_HELD, _READ = 16, 2
"""Files of one route that are on the disk, and that are read, at once; others wait."""
_SILENCE_S = 30.0
"""Seconds without a byte after which an upload has failed."""
_SLOWEST = 16 << 10
"""Bytes per second that an upload must have on average, ``_SILENCE_S`` aside."""
_FOLDERS = "upload-"


def clear_uploads(folder: Path) -> None:
    """Delete what was being received when an app was killed."""
    for left in folder.glob(f"{_FOLDERS}*"):
        shutil.rmtree(left, ignore_errors=True)


def uploads(
    folder: Path, attachments: Attachments, take_chats: Callable[[Path, str], View]
) -> APIRouter:
    """Return the routes, which receive files into ``folder``. They answer as the pages' endpoints do."""
    router = APIRouter()
    files, chats = (
        _Route(folder, most, CapacityLimiter(_HELD), CapacityLimiter(_READ))
        for most in (LARGEST, MOST_IMPORTED)
    )

    @router.post(ATTACH)
    async def attach(request: Request) -> Response:
        name = request.query_params.get("name", "")
        return await files.answer(request, lambda path: attachments.add_file(path, name))

    @router.get(ATTACH + "/{number}")
    def picture(number: int) -> Response:
        found = attachments.picture(number)
        if found is None:
            return Response(status_code=404)
        # Another data folder has the same numbers, and a browser must keep nothing that was deleted.
        headers = {"Cache-Control": "no-store"}
        return Response(found, media_type=media_type(found), headers=headers)

    @router.post(IMPORT)
    async def import_chats(request: Request) -> Response:
        name = one_line(request.query_params.get("name", ""))
        return await chats.answer(request, lambda path: take_chats(path, name))

    return router


@dataclass(frozen=True, slots=True)
class _Route:
    """A route for files of ``most`` bytes, received into ``folder``.

    A file gets one of the few ``readers`` only when all of it is there, so that a slow client delays
    nobody who has sent a file.
    """

    folder: Path
    most: int
    held: CapacityLimiter
    readers: CapacityLimiter

    async def answer(self, request: Request, use: Callable[[Path], Any]) -> Response:
        """Receive the body into a file and answer with what ``use`` makes of it, on a thread."""
        leave_body_to_route(request)
        try:
            async with self.held:
                with tempfile.TemporaryDirectory(prefix=_FOLDERS, dir=self.folder) as own:
                    path = Path(own) / "upload"
                    await _receive(request, path, self.most)
                    return JSONResponse(await to_thread.run_sync(use, path, limiter=self.readers))
        except ClientDisconnect:
            return Response(status_code=400)
        except TimeoutError:
            late = InvalidRequest(
                "files",
                f"The upload stopped: nothing arrived for {_SILENCE_S:.0f} s, or too little. Check the "
                "connection and add the file again.",
            )
            return JSONResponse(refusal(late), headers={"Connection": "close"})
        except OSError as error:
            return JSONResponse(refusal(DiskError.at(self.folder, error)))
        except Exception as error:
            return JSONResponse(refusal(error))


async def _receive(request: Request, path: Path, most: int) -> None:
    """Write the body into a new file. Raises InvalidRequest if it is larger than ``most`` bytes, and
    TimeoutError if it comes too slowly."""
    too_large = InvalidRequest(
        "files", f"This file is larger than {most >> 20} MB. Choose a smaller one, or a part of it."
    )
    if int(request.headers.get("content-length", 0)) > most:
        raise too_large
    parts, began, size = aiter(request.stream()), time.monotonic(), 0
    async with await open_file(path, "xb") as file:
        while True:
            spare = began + size / _SLOWEST - time.monotonic()
            with fail_after(_SILENCE_S + min(spare, 0)):
                part = await anext(parts, None)
            if part is None:
                return
            size += len(part)
            if size > most:
                raise too_large
            await file.write(part)
