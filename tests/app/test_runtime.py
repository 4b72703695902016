"""Opening pairs, at once and in the background."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.runtime import OpeningState, Runtime, create_runtime, open_in_background, open_pair
from engine.errors import CatalogError, ModelError
from engine.events import Finished
from engine.loading.catalog import Catalog, ModelSpec, Pairing
from engine.request import Request, Speculation
from tests.support.places import ROOT

MODELS = ROOT.parent / "shared" / "models"
STORIES = MODELS / "stories260K"
needs_model = pytest.mark.skipif(
    not STORIES.is_dir(), reason="the small model ../shared/models/stories260K is not here"
)


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    with contextlib.closing(create_runtime(tmp_path)) as made:
        yield made


@needs_model
def test_a_folder_is_opened_and_generates(runtime: Runtime) -> None:
    loaded = open_pair(runtime.service, runtime.catalog, str(STORIES))
    assert loaded.name == "stories260K"
    assert runtime.service.loaded == loaded
    request = Request(prompt="Once", max_tokens=3, speculation=Speculation(proposer="ngram"))
    last = list(runtime.service.submit(request))[-1]
    assert isinstance(last, Finished)
    assert len(last.token_ids) == 3


@needs_model
def test_a_failing_pair_leaves_the_old_one_in_place(runtime: Runtime, tmp_path: Path) -> None:
    loaded = open_pair(runtime.service, runtime.catalog, str(STORIES))
    for text, error in (("no-such-pair", CatalogError), (str(tmp_path), ModelError)):
        with pytest.raises(error):
            open_pair(runtime.service, runtime.catalog, text)
    assert runtime.service.loaded == loaded


@needs_model
def test_the_catalog_may_say_how_a_model_is_loaded(runtime: Runtime) -> None:
    """Unless somebody asks for another quantisation."""
    spec = ModelSpec(id="small", name="Small", path=STORIES, quantization="int8")
    catalog = Catalog((spec,), (Pairing(id="small", name="Small", target=spec),))
    assert open_pair(runtime.service, catalog, "small").dtype == "int8"
    assert open_pair(runtime.service, catalog, "small", dtype="fp32").dtype == "fp32"


@needs_model
def test_a_cache_that_the_catalog_wants_narrow_is_so_where_the_machine_has_it(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One catalog serves all machines; who asks for it on the command line is told why not."""
    spec = ModelSpec(id="small", name="Small", path=STORIES, kv_cache_dtype="fp8")
    catalog = Catalog((spec,), (Pairing(id="small", name="Small", target=spec),))
    wished: list[str] = []
    load = runtime.service.load

    def note(*folders: Path | None, kv_cache_dtype: str, **options: object) -> object:
        wished.append(kv_cache_dtype)
        return load(*folders, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(runtime.service, "load", note)
    assert open_pair(runtime.service, catalog, "small").kv_cache_dtype != "fp8"
    monkeypatch.setattr("engine.loading.plan.why_no_fp8_cache", lambda *_: None)
    open_pair(runtime.service, catalog, "small")
    assert wished == ["auto", "fp8"]


@needs_model
def test_opening_in_the_background_ends_ready(runtime: Runtime) -> None:
    assert runtime.opening.status.state is OpeningState.IDLE
    thread = open_in_background(runtime, str(STORIES))
    assert runtime.opening.status.state is not OpeningState.IDLE
    thread.join(timeout=60)
    assert runtime.opening.status.state is OpeningState.READY
    assert runtime.service.loaded is not None


def test_a_failure_in_the_background_is_told_in_words(
    runtime: Runtime, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    open_in_background(runtime, str(tmp_path)).join(timeout=60)
    status = runtime.opening.status
    assert status.state is OpeningState.FAILED
    assert str(tmp_path) in status.message
    assert status.message in caplog.text
    assert "Traceback" not in caplog.text


def test_a_bug_in_the_background_is_told_too(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An error nobody expected once left the page at "Loading" for ever."""

    def broken(*arguments: object, **options: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("app.runtime.open_pair", broken)
    open_in_background(runtime, "pip").join(timeout=60)
    assert runtime.opening.status.state is OpeningState.FAILED
    assert "ZeroDivisionError" in runtime.opening.status.message
    assert "Traceback" in caplog.text
