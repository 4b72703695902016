"""Opening a pair in the background, one at a time, with cancel; any page may watch it."""

from __future__ import annotations

import logging
import threading

from app.runtime import OpeningState, OpeningStatus, Runtime, open_pair
from app.ui.words import Words
from engine.errors import ForetokenError, InvalidRequest
from engine.loading import hub
from engine.loading.hub import Progress
from engine.models.checkpoints.checkpoint import AUTO

logger = logging.getLogger(__name__)


class Opener:
    """Starts and cancels openings; ``runtime.opening`` tells how they go."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lock = threading.Lock()
        self._cancelled = threading.Event()

    def start(self, text: str, quantization: str = AUTO, kv_cache_dtype: str = AUTO) -> None:
        """Open ``text`` (see ``Catalog.resolve``). Raises ``ForetokenError`` for what can be known
        at once; everything later is told by the status."""
        pairing = self._runtime.catalog.resolve(text, hub.locate)
        with self._lock:
            if self._runtime.opening.status.state is OpeningState.WORKING:
                raise InvalidRequest("pair", Words.OPENING_BUSY)
            self._cancelled = threading.Event()
            self._tell(OpeningState.WORKING, text, pairing.name, Words.LOADING)
        arguments = (text, pairing.name, quantization, kv_cache_dtype, self._cancelled)
        threading.Thread(target=self._work, args=arguments, name="open-pair", daemon=True).start()

    def cancel(self) -> None:
        """Stop a download; what is already there is kept for the next try."""
        self._cancelled.set()

    def _work(
        self,
        text: str,
        name: str,
        quantization: str,
        kv_cache_dtype: str,
        cancelled: threading.Event,
    ) -> None:
        def on_progress(progress: Progress) -> None:
            self._tell(OpeningState.WORKING, text, name, Words.DOWNLOADING, progress)

        runtime = self._runtime
        try:
            loaded = open_pair(
                runtime.service,
                runtime.catalog,
                text,
                on_progress,
                cancelled.is_set,
                dtype=quantization,
                kv_cache_dtype=kv_cache_dtype,
            )
        except ForetokenError as error:
            if cancelled.is_set():
                self._tell(OpeningState.IDLE, text, name, "")
            else:
                self._tell(OpeningState.FAILED, text, name, str(error))
        except Exception as error:  # a thread's error would otherwise vanish, and "Loading" stay
            logger.exception("%s could not be opened", text)
            self._tell(OpeningState.FAILED, text, name, Words.open_failed(name, error))
        else:
            self._tell(OpeningState.READY, text, loaded.name, "")

    def _tell(
        self,
        state: OpeningState,
        pair: str,
        name: str,
        message: str,
        progress: Progress | None = None,
    ) -> None:
        self._runtime.opening.tell(OpeningStatus(state, pair, message, progress, name))
