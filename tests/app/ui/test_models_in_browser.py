"""Models of other programs in a real browser: found, paired, loaded, and a load that is watched."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from engine.errors import ModelError
from engine.loading.watching import LoadProgress, Stage
from tests.app.ui.conftest import App
from tests.support.checkpoints import write_random
from tests.support.gguf_files import write_gguf

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("default")]

HALF = LoadProgress(Stage.TARGET, 300_000_000, 600_000_000)


@pytest.fixture(scope="module")
def lying_here(app: App, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """LM Studio keeps a model and a smaller one, llama.cpp a damaged file; the folder of the first."""
    home, made = app.data_dir / "home", tmp_path_factory.mktemp("made")
    folder = home / ".lmstudio" / "models" / "maker" / "Tale-GGUF"
    folder.mkdir(parents=True)
    for name, layers in (("large", 2), ("small", 1)):
        write_random(made / name, num_hidden_layers=layers)
        write_gguf(made / name, folder / f"{name}.gguf")
    cache = home / ".cache" / "llama.cpp"
    cache.mkdir(parents=True)
    (cache / "cut.gguf").write_bytes((folder / "large.gguf").read_bytes()[:500])
    return folder


@pytest.fixture
def models(page, app: App, lying_here: Path) -> Iterator[object]:
    """The Models page, everything found; what is loaded afterwards is what was before."""
    before = app.engine.loaded
    page.get_by_role("tab", name="Models").click()
    page.wait_for_selector(".found-row:has-text('large')")
    page.wait_for_selector(".found-section:not(:has-text('still looking'))")
    yield page
    app.engine.stages, app.engine.load_error, app.engine.loaded = (), None, before


def row(page, name: str):
    return page.locator(".found-row", has=page.locator("h3", has_text=name))


class Held:
    """A load that stands still once half is read."""

    def __init__(self) -> None:
        self.go_on = threading.Event()

    def __iter__(self) -> Iterator[LoadProgress]:
        yield LoadProgress(Stage.CHECKING)
        yield HALF
        assert self.go_on.wait(60)
        yield HALF


def test_what_lies_here_is_listed_with_what_it_is_and_what_is_damaged_says_why(models):
    told = row(models, "large").inner_text()
    for part in ("maker/Tale-GGUF/", "LM Studio", "Llama", "F32", "parameters", "large.gguf"):
        assert part in told
    models.locator(".unusable summary").click()
    reason = models.inner_text(".unusable li")
    assert "cut (llama.cpp)" in reason
    assert "cut.gguf" in reason


def test_a_fitting_draft_is_named_and_the_pair_is_loaded(models, app):
    row(models, "large").locator("summary").click()
    fitting = row(models, "large").locator(".why li.yes", has_text="small")
    fitting.wait_for()
    assert "not smaller" in row(models, "large").locator(".why li.no").first.inner_text()
    fitting.get_by_role("button").click()
    models.wait_for_selector(".now-name:has-text('large + maker/Tale-GGUF/small')")
    assert "loaded" in row(models, "large").get_attribute("class").split()
    models.get_by_role("tab", name="Chat").click()
    models.wait_for_selector(".badge:has-text('large')")
    assert app.engine.loaded.draft_name.endswith("small")


def test_the_pickers_offer_what_was_found_and_the_drafts_that_fit(models, app, lying_here):
    models.get_by_role("tab", name="Chat").click()
    models.locator("#target input").click()
    models.locator("#target").get_by_role("option", name="large · LM Studio").click()
    expect(models.locator("#draft input")).to_have_value("No draft")  # of the new target
    models.locator("#draft input").click()
    models.locator("#draft").get_by_role("option", name="small · LM Studio").click()
    models.click("#load-pair")
    models.wait_for_selector(".badge:has-text('large')")
    assert app.engine.loaded.target_id == str(lying_here / "large.gguf")
    assert app.engine.loaded.draft_id == str(lying_here / "small.gguf")


@pytest.mark.parametrize("where", ["Models", "Chat"])
def test_a_load_shows_how_far_it_is_and_is_cancelled_and_the_loaded_pair_stays(models, app, where):
    app.engine.stages = held = Held()
    before = app.engine.loaded
    row(models, "large").get_by_role("button", name="Load").first.click()
    models.get_by_role("tab", name=where).click()
    loading = models.locator(".loading:visible")
    loading.locator("progress[value='0.5']").wait_for()
    assert "reading and packing the target's weights, 300 MB of 600 MB" in loading.inner_text()
    loading.get_by_role("button", name="Cancel").click()
    loading.get_by_text("ending at the next step").wait_for()
    held.go_on.set()
    loading.wait_for(state="hidden")
    assert app.engine.loaded is before
    assert not models.locator(".ft-error:visible").count()


def test_a_load_that_fails_says_why_in_sight_of_what_was_pressed(models, app):
    app.engine.load_error = ModelError("Its weights are damaged. Download it again.")
    button = row(models, "small").get_by_role("button", name="Load").first
    button.scroll_into_view_if_needed()
    button.click()
    told = models.locator(".news .ft-error:has-text('Its weights are damaged')")
    told.wait_for()
    top = told.bounding_box()["y"]
    assert 0 < top < 800
    told.get_by_role("button").click()
    assert not told.is_visible()


def test_folders_are_added_and_removed(models, tmp_path, lying_here):
    shutil.copy(lying_here / "small.gguf", tmp_path / "mine.gguf")
    models.fill(".add-place input", str(tmp_path / "none"))
    models.click(".add-place button")
    models.wait_for_selector(".add-place .ft-error:has-text('There is no folder')")
    models.fill(".add-place input", str(tmp_path))
    models.click(".add-place button")
    row(models, "mine").wait_for()
    models.locator(".own-folders button").click()
    row(models, "mine").wait_for(state="detached")
