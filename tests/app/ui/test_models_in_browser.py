"""The Models page in a real browser: found, filtered, paired, loaded, downloaded, and deleted."""

from __future__ import annotations

import re
import shutil
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest
from playwright.sync_api import expect

from app.settings.preferences import LoadOptions
from app.ui.controls.pickers import Pickers
from engine.errors import ModelError
from engine.loading.hub import errors
from engine.loading.progress import LoadProgress, Stage
from engine.machine.secrets import HUB_TOKEN_FILE, hub_token
from engine.models.checkpoints.checkpoint import inspect
from tests.app.ui.chatting import ask, load_options, open_pair
from tests.app.ui.conftest import App
from tests.support.checkpoints import write_random
from tests.support.folders import model_files
from tests.support.gguf_files import write_gguf
from tests.support.heads import write_eagle3
from tests.support.hub_server import HostedRepository, HubServer

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("default")]
OWN_APP = True
LOAD = re.compile("^Load")
"""Not Download."""


HALF = LoadProgress(Stage.TARGET, 300_000_000, 600_000_000)
SMOL, GEMMA = "HuggingFaceTB/SmolLM2-135M-Instruct", "ggml-org/gemma-3-270m-it-qat-GGUF"


@pytest.fixture
def page(same_page):
    return same_page


@pytest.fixture(scope="module")
def hosted(app: App) -> Iterator[HubServer]:
    """A hub that this file's app downloads from, a small block at a time."""
    with HubServer({}) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_ENDPOINT", server.url)
        patch.delenv("HF_TOKEN", raising=False)
        patch.setenv(HUB_TOKEN_FILE, str(app.data_dir / "own" / "token"))
        patch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
        patch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(app.data_dir / "login"))
        patch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(app.data_dir / "cache"))
        patch.setattr(errors, "BACKOFF_S", 0.01)
        yield server


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
def models(page, app: App, lying_here: Path, hosted: HubServer) -> Iterator[object]:
    """The Models page, everything found; what is loaded afterwards is what was before."""
    before = app.engine.loaded
    page.get_by_role("link", name="Models", exact=True).click()
    tab(page, "all")
    page.wait_for_selector("tr.model-row:has-text('large')")
    page.wait_for_selector(".models-section:not(:has-text('scanning'))")
    yield page
    app.engine.stages, app.engine.load_error, app.engine.loaded = (), None, before


def tab(page, name: str) -> None:
    page.click(f"#tab-models-{name}")


def row(page, name: str):
    return page.locator(
        "tr.model-row", has=page.locator(".model-name", has_text=re.compile(f"{name}$"))
    )


def under(page, identity: str):
    """What stands below the row of the model of this id: its downloads, and its card."""
    return page.locator(f"tr.under[data-target='{identity}']")


def card(page, name: str):
    """The card of a row, opened."""
    button = row(page, name).get_by_role("button", name="Details of")
    if button.get_attribute("aria-expanded") == "false":
        button.click()
    return under(page, row(page, name).get_attribute("data-target")).locator(".card")


def add_folder(page, folder: Path) -> None:
    tab(page, "open")
    page.fill(".add-place input", str(folder))
    page.click(".add-place button")


def card_of(page, name: str):
    """The card of a row that is open."""
    return under(page, row(page, name).get_attribute("data-target")).locator(".card")


def unfold(opened) -> None:
    """The drafters that do not fit."""
    if not opened.locator(".others details[open]").count():
        opened.locator(".others summary").click()


def names(page) -> list[str]:
    return page.locator("tr.model-row .model-name").all_inner_texts()


class Held:
    """A load that stands still once half is read."""

    def __init__(self) -> None:
        self.go_on = threading.Event()

    def __iter__(self) -> Iterator[LoadProgress]:
        yield LoadProgress(Stage.CHECKING)
        yield HALF
        assert self.go_on.wait(60)
        yield HALF


def test_what_lies_here_is_listed_with_what_it_is_and_what_is_damaged_says_why(models, lying_here):
    for part in ("maker/Tale-GGUF/", "LM Studio", "F32", "fits"):
        expect(row(models, "large")).to_contain_text(part)  # what else is here is compared yet
    facts = card(models, "large").locator(".facts").inner_text()
    takes = row(models, "large").locator("td.fits").inner_text().split(" in ")[0].strip()
    expect(card(models, "large").locator(".memory")).to_contain_text(f"{takes} needed")
    for part in ("Llama", "parameters", "on this machine", str(lying_here / "large.gguf")):
        assert part in facts
    row(models, "large").get_by_role("button", name="Details of").click()
    tab(models, "storage")
    models.locator(".unusable summary").click()
    reason = models.inner_text(".unusable li")
    assert "cut (llama.cpp)" in reason
    assert "cut.gguf" in reason


def test_the_table_is_filtered_and_sorted(models):
    everything = names(models)
    models.fill("[name=search]", "qwen3 14b")
    assert names(models) == ["Qwen3 14B"]
    expect(models.locator(".counted [role=status]")).to_have_text(f"1 of {len(everything)} models")
    models.get_by_role("button", name="Clear filters").click()
    models.select_option("[name=where]", "here")
    assert {"Pip", "maker/Tale-GGUF/large"} <= set(names(models)) < set(everything)
    models.get_by_label("Has a draft").check()
    expect(row(models, "Pip").first).to_be_visible()
    expect(row(models, "large")).to_have_count(0)  # small is too big for it to pay
    models.get_by_role("button", name="Clear filters").click()
    models.fill("[name=search]", "llama3.2")
    models.select_option("[name=size]", "1")
    assert names(models) == ["Llama 3.2 1B Instruct"]
    models.get_by_role("button", name="Clear filters").click()
    sort = models.get_by_role("button", name="Size")
    sort.press("Enter")
    expect(models.get_by_role("columnheader", name="Size")).to_have_attribute(
        "aria-sort", "ascending"
    )
    smallest = names(models)
    sort.press("Enter")  # it kept the focus
    assert names(models)[0] == "Qwen3 235B-A22B Instruct 2507"
    assert set(names(models)[:3]).isdisjoint(smallest[:3])
    sort.press("Enter")
    assert names(models) == everything


def test_a_fitting_draft_is_named_and_the_pair_is_loaded(models, app):
    large = card(models, "large")
    fitting = large.locator("li.yes", has_text="small")
    fitting.wait_for()
    told = fitting.inner_text()
    assert "Compatible: same vocabulary" in told
    assert "not measured yet" in told
    assert re.search(r"break-even \d+ % accepted", told)
    unfold(large)
    assert "not smaller" in large.locator("li.no", has_text="Pip").first.inner_text()
    fitting.get_by_role("button", name="Load with this draft").click()
    models.wait_for_selector(".now-name:has-text('large + maker/Tale-GGUF/small')")
    expect(row(models, "large")).to_have_class(re.compile("loaded"))
    models.get_by_role("link", name="Chat", exact=True).click()
    models.wait_for_selector(".badge:has-text('large')")
    assert app.engine.loaded.draft_name.endswith("small")
    ask(models, "What is it?")
    models.get_by_role("link", name="Models", exact=True).click()
    models.locator("#models-page .now").scroll_into_view_if_needed()  # it was left further down
    expect(fitting).to_contain_text(re.compile(r"\d\.\dx in 1 reply here"))


def heads_of(app: App) -> list[str]:
    """Of what is loaded."""
    loaded = app.engine.loaded
    return [] if loaded is None else [Path(each).name for each in loaded.request.heads]


def test_heads_are_offered_for_their_own_target_and_say_why_for_others(models, app):
    pip = card(models, "Pip")
    head = pip.locator("li.yes", has_text="EAGLE-3 head not measured yet")
    head.get_by_role("button", name="Load with this draft").click()
    while heads_of(app) != ["eagle3"]:
        models.wait_for_timeout(50)  # the test's own limit ends it
    models.wait_for_selector(".ft-models .news .loading", state="detached")
    large = card(models, "large")
    unfold(large)
    reason = large.locator("li.no", has_text="EAGLE-3 head")
    reason.wait_for()
    assert len(reason.inner_text()) > 20


def test_the_memory_is_a_bar_whose_context_slides(models):
    memory = card(models, "Pip").locator(".memory")
    bar = memory.get_by_role("img")
    expect(bar).to_have_attribute(
        "aria-label", re.compile("target weights .*target KV cache .*free")
    )
    slider = memory.get_by_role("slider")
    before = memory.locator("[role=status]").inner_text()
    longest = slider.get_attribute("max")
    expect(slider).to_have_value(longest)
    slider.press("Home")
    expect(memory.locator("output")).to_have_text("256 tokens")
    expect(memory.locator("[role=status]")).not_to_have_text(before)
    expect(memory.locator("p.fit")).to_contain_text("with a context of 256 tokens")
    expect(slider).to_be_focused()
    kinds = [each.get_attribute("class") for each in memory.locator(".fitbar .part").all()]
    assert {
        "part weights target",
        "part weights draft",
        "part kv target",
        "part weights head",
    } <= set(kinds)


def test_a_number_that_is_typed_stays_though_the_page_is_drawn_again(models):
    models.reload()
    models.evaluate("Foretoken.refresh()")  # what is loaded, on which the options depend
    tab(models, "all")
    opened = card(models, "large")
    opened.locator("summary", has_text="Load options").click()
    threads = opened.get_by_label("CPU threads")
    threads.fill("1")
    asked: list[str] = []
    models.on("request", lambda request: asked.append(request.post_data or ""))
    for _ in range(2):
        models.evaluate("Foretoken.refresh()")
        with models.expect_response(lambda answer: '"table"' in (answer.request.post_data or "")):
            models.evaluate("document.querySelector('[data-action=again]').click()")
    expect(models.locator(".counted")).not_to_contain_text("scanning")
    assert not any('"load_options"' in each for each in asked)
    expect(threads).to_have_value("1")
    threads.fill("")
    opened.locator("summary", has_text="Load options").click()


def test_the_pickers_offer_what_was_found_and_the_drafts_that_fit(models, app, lying_here):
    models.get_by_role("link", name="Chat", exact=True).click()
    load_options(models, str(lying_here / "large.gguf"))
    expect(models.locator("#draft select")).to_have_value("")
    models.locator("#draft select").select_option(label="small · LM Studio")
    models.click("#load-pair")
    while app.engine.loaded.target_id != str(lying_here / "large.gguf"):
        models.wait_for_timeout(50)  # the test's own limit ends it
    assert app.engine.loaded.draft_id == str(lying_here / "small.gguf")


def test_beside_a_gpu_the_place_of_draft_and_layers_is_chosen_on_both_pages(
    models, app, lying_here, monkeypatch
):
    monkeypatch.setattr(Pickers, "uses_gpu", lambda _: True)
    models.reload()  # a card that was opened keeps its options
    tab(models, "all")
    large = str(lying_here / "large.gguf")
    opened = card(models, "large")
    opened.locator("summary", has_text="Load options").click()
    opened.get_by_label("Draft runs on").select_option(label="CPU")
    expect(opened.get_by_label("Draft runs on")).to_have_value("cpu")
    opened.get_by_label("Layers on the GPU").fill("1")
    opened.get_by_label("Layers on the GPU").press("Tab")
    expect(opened.get_by_label("Layers on the GPU")).to_have_value("1")
    models.get_by_role("link", name="Chat", exact=True).click()
    options = load_options(models, large)
    expect(options.get_by_label("Layers on the GPU")).to_have_value("1")
    options.get_by_label("Draft runs on").select_option(label="GPU")
    models.click("#load-pair")
    models.wait_for_selector(".badge:has-text('large')")
    asked = app.engine.loaded.request
    assert (asked.draft_device, asked.gpu_layers) == ("cuda", 1)
    app.runtime.load_options.keep(large, LoadOptions())


@pytest.mark.parametrize("where", ["Models", "Chat"])
def test_a_load_shows_how_far_it_is_and_is_cancelled_and_the_loaded_pair_stays(models, app, where):
    app.engine.stages = held = Held()
    before = app.engine.loaded
    row(models, "large").get_by_role("button", name=LOAD).first.click()
    models.get_by_role("link", name=where, exact=True).click()
    loading = models.locator("#models-page .news .loading")
    if where == "Chat":
        loading = open_pair(models).locator(".loading")
    loading.locator("progress[value='0.5']").wait_for()
    assert "reading the target's weights, 300 MB of 600 MB" in loading.inner_text()
    loading.get_by_role("button", name="Cancel").click()
    loading.get_by_text(re.compile("(next|current) step")).wait_for()
    held.go_on.set()
    loading.wait_for(state="hidden")
    assert app.engine.loaded is before
    assert not models.locator(".ft-error:visible").count()


def test_a_load_that_fails_says_why_in_sight_of_what_was_pressed(models, app, monkeypatch):
    app.engine.load_error = ModelError("Its weights are damaged. Download it again.")
    button = row(models, "small").get_by_role("button", name=LOAD).first
    button.scroll_into_view_if_needed()
    button.click()
    told = models.locator(".news .ft-error:has-text('Its weights are damaged')")
    told.wait_for()
    top = told.bounding_box()["y"]
    assert 0 < top < 800
    told.get_by_role("button").click()
    assert not told.is_visible()
    monkeypatch.setattr(app.runtime.loader, "start", Mock(side_effect=ModelError("It is gone.")))
    button.click()
    told = models.locator(".news .ft-error:has-text('It is gone.')")
    told.get_by_role("button").click()
    told.wait_for(state="hidden")


def test_folders_are_added_and_removed(models, tmp_path, lying_here):
    shutil.copy(lying_here / "small.gguf", tmp_path / "mine.gguf")
    add_folder(models, tmp_path / "none")
    models.wait_for_selector(".places .ft-error:has-text('There is no folder')")
    add_folder(models, tmp_path)
    models.wait_for_selector(f".places [role=status]:has-text('1 model found in {tmp_path}')")
    row(models, "mine").wait_for(state="attached")
    models.locator(".own-folders button").click()
    row(models, "mine").wait_for(state="detached")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "cut.gguf").write_bytes((tmp_path / "mine.gguf").read_bytes()[:500])
    add_folder(models, tmp_path / "bad")
    told = models.locator(".places [role=status]")
    expect(told).to_contain_text(f"No model found in {tmp_path / 'bad'}. 1 not supported:")
    expect(told).to_contain_text(f"cut: {tmp_path / 'bad' / 'cut.gguf'}")
    models.locator(".own-folders button").click()
    expect(models.locator(".own-folders li")).to_have_count(0)


def test_load_takes_the_best_draft_and_the_chosen_context_and_leads_to_the_chat(
    models, app, tmp_path
):
    """It loaded the target alone, with its whole context, and left people where they were."""
    for name, layers in (("vast", 60), ("slim", 4)):
        write_random(tmp_path / "pair" / name, num_hidden_layers=layers)
    add_folder(models, tmp_path / "pair")
    models.wait_for_selector(".places [role=status]:has-text('2 models found')")
    tab(models, "all")
    vast = row(models, "vast")
    expect(vast.locator("td.draft")).to_have_text("slim")
    slider = card(models, "vast").locator(".memory").get_by_role("slider")
    expect(card_of(models, "vast").locator(".fit-legend")).to_contain_text("draft weights")
    slider.press("Home")
    expect(card_of(models, "vast").locator("output")).to_have_text("256 tokens")
    vast.get_by_role("button", name=LOAD).click()
    done = models.locator(".news .done")
    expect(done).to_contain_text("vast + slim is loaded.")
    request = app.engine.loaded.request
    assert (request.draft, request.context) == (str(tmp_path / "pair" / "slim"), 256)
    expect(vast.get_by_role("button", name=LOAD)).to_be_hidden()
    expect(vast.get_by_role("link", name="Chat")).to_be_visible()
    with_it = card_of(models, "vast").locator("li.yes", has_text="slim")
    expect(with_it.get_by_role("button", name="Load with this draft")).to_be_hidden()
    card_of(models, "vast").get_by_role("button", name="Load without a draft").click()
    expect(done).to_contain_text("vast is loaded, without a draft.")
    assert app.engine.loaded.request.draft == ""
    done.get_by_role("link", name="Chat").click()
    expect(models.locator(".badge")).to_contain_text("vast, no draft")
    vast = str(tmp_path / "pair" / "vast")
    for model, draft in ((vast, ""), ("pip", "pip-draft")):
        load_options(models, model)
        expect(models.locator("#draft select")).to_have_value(draft)


def test_what_cannot_be_opened_is_told_at_the_field(models):
    tab(models, "open")
    form = models.locator(".folder")
    form.locator("[name=folder]").fill("/nowhere/x.gguf")
    form.get_by_role("button", name="Open", exact=True).click()
    expect(form.locator(".ft-error")).to_contain_text("/nowhere/x.gguf")
    expect(models.locator(".news .ft-error")).to_be_hidden()


def test_a_model_s_files_are_offered_the_four_bit_one_first(models, app, hosted, lying_here):
    """The catalog offered bf16 alone, three times the size of what people run."""
    weights = (lying_here / "small.gguf").read_bytes()
    repository = "unsloth/Qwen3.5-0.8B-MTP-GGUF"
    files = {f"Qwen3.5-0.8B-{kind}.gguf": weights for kind in ("Q4_K_M", "Q4_0")}
    hosted.repositories[repository] = HostedRepository(files)
    qwen = row(models, "Qwen3.5 0.8B")
    expect(qwen).to_contain_text("Q4_K_M")
    expect(qwen.locator("td.draft")).to_have_text("MTP included")
    first = card(models, "Qwen3.5 0.8B").locator(".drafts li").first
    expect(first).to_have_text(re.compile("MTP built in, used by default"))
    bar = card_of(models, "Qwen3.5 0.8B").locator(".memory").get_by_role("img")
    expect(bar).to_have_attribute("aria-label", re.compile("target KV cache .*target checkpoints"))
    listed = card(models, "Qwen3.5 0.8B").locator(".model-files li")
    expect(listed).to_have_count(3)
    expect(listed.filter(has_text="Q4_K_M")).to_contain_text("default download")
    expect(listed.last).to_contain_text("safetensors")
    listed.filter(has_text="Q4_0").get_by_role("button", name="Download").click()
    expect(listed.filter(has_text="Q4_0")).to_contain_text("default")
    expect(qwen).to_contain_text("Q4_0")
    qwen.get_by_role("button", name=LOAD).click()
    models.wait_for_selector(".now-name:has-text('Qwen3.5 0.8B')")
    place = app.data_dir / "models" / repository.replace("/", "--")
    assert app.engine.loaded.request.target == "qwen3.5-0.8b"
    assert [one.name for one in place.glob("*.gguf")] == ["Qwen3.5-0.8B-Q4_0.gguf"]
    expect(card_of(models, "Llama 3.1 8B Instruct")).to_have_count(0)
    heads = card(models, "Llama 3.1 8B Instruct").locator(".model-files li")
    expect(heads.filter(has_text="EAGLE-3 head")).to_be_visible()


def test_one_click_downloads_a_model_at_four_bits_and_its_drafter(
    models, app, hosted, lying_here, tmp_path
):
    small = lying_here / "small.gguf"
    head = write_eagle3(tmp_path / "head", inspect(small))
    gguf, drafter = "unsloth/Qwen3-1.7B-GGUF", "AngelSlim/Qwen3-1.7B_eagle3"
    hosted.repositories |= {
        gguf: HostedRepository({"Qwen3-1.7B-Q4_K_M.gguf": small.read_bytes()}),
        drafter: HostedRepository({one.name: one.read_bytes() for one in head.iterdir()}),
    }
    qwen = row(models, "Qwen3 1.7B")
    expect(qwen.locator("td.draft")).to_have_text("EAGLE-3 head")
    whole = qwen.get_by_role("button", name="Download").inner_text().removeprefix("Download ")
    files = card(models, "Qwen3 1.7B").locator(".model-files")
    expect(files).to_contain_text(f"default download, {whole} with its drafter")
    qwen.get_by_role("button", name="Download").click()
    load = qwen.get_by_role("button", name=LOAD)
    tab(models, "storage")
    expect(models.locator(".kept li", has_text=drafter)).to_be_visible()
    tab(models, "all")
    expect(qwen.locator("td.draft")).to_have_text("EAGLE-3 head")
    load.click()
    models.wait_for_selector(".now-name:has-text('Qwen3 1.7B')")
    assert heads_of(app) == [drafter.replace("/", "--")]
    shutil.rmtree(app.data_dir / "models" / drafter.replace("/", "--"))
    models.get_by_role("button", name="Rescan").click()
    expect(qwen.locator("td.draft")).not_to_have_text("EAGLE-3 head")
    expect(qwen.get_by_role("button", name=re.compile("^Download"))).to_have_count(0)


def test_what_is_not_here_is_not_offered_to_be_loaded(models):
    away = card(models, "Qwen3 8B")
    away.locator("li.yes", has_text="N-gram and Suffix").wait_for()
    assert not away.get_by_role("button", name="Load without a draft").count()


def test_a_failed_download_is_told_once(models, hosted):
    """It stood below each model that the failed one could draft for, too."""
    hosted.repositories.pop(SMOL, None)
    row(models, "SmolLM2 135M Instruct").get_by_role("button", name="Download").click()
    card(models, "SmolLM2 1.7B Instruct").locator("li.yes", has_text="135M").wait_for()
    models.wait_for_selector(".transfer[data-state=failed]")
    expect(models.locator(".transfer", has_text="SmolLM2 135M Instruct")).to_have_count(1)
    expect(
        row(models, "SmolLM2 135M Instruct").get_by_role("button", name="Download")
    ).to_be_hidden()
    models.locator(".transfer").get_by_role("button", name="Dismiss").click()  # nothing arrived
    expect(
        row(models, "SmolLM2 135M Instruct").get_by_role("button", name="Download")
    ).to_be_visible()


def test_a_file_is_browsed_for_or_dropped_opened_and_remembered(models, app, lying_here):
    home = app.data_dir / "home"
    (home / "Downloads").mkdir(exist_ok=True)
    shutil.copy(lying_here / "large.gguf", home / "Downloads" / "dropped.gguf")
    tab(models, "open")
    models.get_by_role("button", name="Browse for Model").click()
    browser = models.locator(".browser")
    expect(browser).to_contain_text(str(home))
    browser.get_by_role("button", name="Downloads").click()
    browser.get_by_role("button", name="dropped.gguf").click()
    chosen = models.locator(".folder [name=folder]")
    expect(chosen).to_have_value(str(home / "Downloads" / "dropped.gguf"))
    expect(browser).to_have_count(0)
    expect(chosen).to_be_focused()
    drop = """([node, name, size]) => {
      const data = new DataTransfer();
      data.items.add(new File([new Uint8Array(size)], name));
      node.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
    }"""
    chosen.fill("")
    size = (home / "Downloads" / "dropped.gguf").stat().st_size
    models.evaluate(drop, [chosen.element_handle(), "dropped.gguf", size])
    expect(chosen).to_have_value(str(home / "Downloads" / "dropped.gguf"))
    models.evaluate(drop, [chosen.element_handle(), "nowhere.gguf", 5])
    models.wait_for_selector(
        ".folder .ft-error:has-text('nowhere.gguf is not in the usual folders')"
    )
    models.locator(".folder").get_by_role("button", name="Open", exact=True).click()
    tab(models, "all")
    opened = row(models, "dropped")
    expect(opened).to_contain_text("recent")
    card(models, "dropped").get_by_role("button", name="Remove from list").click()
    opened.wait_for(state="detached")
    assert (home / "Downloads" / "dropped.gguf").is_file()


def test_a_download_is_paused_resumed_and_then_loaded_and_deleted(models, app, hosted):
    files = model_files(vocabulary=2048, hidden=32)  # it takes half a minute, unless it goes on
    tiny = hosted.repositories[SMOL] = HostedRepository(files, pause_s=0.2, block=2048)
    smol = under(models, "smollm2-135m")
    row(models, "SmolLM2 135M Instruct").get_by_role("button", name="Download").click()
    moving = smol.locator(".transfer")
    figures = moving.locator(".figures")
    expect(figures).to_contain_text(re.compile(r"kB of \d+ kB, \d.*/s"))
    asked = re.compile("/component_server/|/health")
    models.route(asked, lambda route: route.fulfill(body="gone"))
    models.locator(".away", has_text="Lost connection").wait_for()
    models.unroute(asked)
    models.locator(".away", has_text="Connected again").wait_for()
    expect(figures).not_to_have_text(figures.inner_text())  # it stood still from then on
    moving.get_by_role("button", name="Pause").click()
    expect(moving).to_have_attribute("data-state", "paused")
    assert moving.locator("progress").bounding_box()["height"] == 8, "the bar was a block"
    tiny.pause_s = 0.0
    hosted.seen.clear()
    moving.get_by_role("button", name="Resume").click()
    moving.wait_for(state="detached")
    row(models, "SmolLM2 135M Instruct").get_by_role("button", name=re.compile("^Load")).wait_for()
    assert (app.data_dir / "models" / SMOL.replace("/", "--") / "model.safetensors").is_file()
    tab(models, "storage")
    gone = models.locator(f".kept li[data-kept='{SMOL}']")
    gone.get_by_role("button", name="Delete").click()
    expect(gone.get_by_role("button", name="Cancel")).to_be_focused()
    models.keyboard.press("Enter")
    expect(gone.get_by_role("button", name="Delete")).to_be_focused()
    gone.get_by_role("button", name="Delete").click()
    gone.get_by_role("button", name=re.compile("Delete .*\\?")).click()
    gone.wait_for(state="detached")
    tab(models, "all")
    row(models, "SmolLM2 135M Instruct").get_by_role("button", name="Download").wait_for()
    assert not (app.data_dir / "models" / SMOL.replace("/", "--")).exists()


def test_a_failed_download_tells_so_where_it_was_pressed_and_goes_on(models, hosted):
    """It was told at the top of the page, out of sight of the card."""
    hosted.repositories[SMOL] = HostedRepository(model_files(), damage=True)
    place = row(models, "SmolLM2 135M Instruct")
    place.get_by_role("button", name="Download").click()
    failed = under(models, "smollm2-135m").locator(".transfer[data-state=failed]")
    expect(failed.locator(".ft-error")).to_contain_text("SHA-256")
    assert abs(failed.bounding_box()["y"] - place.bounding_box()["y"]) < 200
    hosted.repositories[SMOL].damage = False
    failed.get_by_role("button", name="Try again").click()
    row(models, "SmolLM2 135M Instruct").get_by_role("button", name=re.compile("^Load")).wait_for()


def test_a_gated_model_asks_for_a_token_there_and_keeps_it(models, app, hosted, lying_here):
    files = {"gemma-3-270m-it-qat-Q4_0.gguf": (lying_here / "small.gguf").read_bytes()}
    gated = hosted.repositories[GEMMA] = HostedRepository(files, gated=True)
    row(models, "Gemma 3 270M").get_by_role("button", name="Download").click()
    asking = under(models, "gemma-3-270m").locator(".transfer[data-state=failed]")
    expect(asking.locator(".ft-error")).to_contain_text("needs an access token")
    asking.get_by_label("Access token").fill(gated.token)
    asking.get_by_role("button", name="Save token and retry").click()
    row(models, "Gemma 3 270M").get_by_role("button", name=re.compile("^Load")).wait_for()
    kept = hub_token().file
    assert kept.read_text() == gated.token
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    tab(models, "storage")
    expect(models.locator(".disk")).to_contain_text("readable only by you")
    models.get_by_role("button", name="Delete token").click()
    expect(models.locator(".disk")).to_contain_text("No access token is stored")
    assert not kept.exists()


def test_a_file_that_is_damaged_on_the_hub_says_so_where_it_was_pressed(models, hosted, lying_here):
    cut = (lying_here / "small.gguf").read_bytes()[:500]
    hosted.repositories["maker/Torn"] = HostedRepository({"Torn-F32.gguf": cut})
    tab(models, "hub")
    form = models.locator(".hub")
    form.get_by_label("Model or repository").fill("maker/Torn")
    form.get_by_role("button", name="Search").click()
    form.locator("li", has_text="Torn-F32").get_by_role("button", name="Download").click()
    failed = form.locator(".transfer[data-state=failed]")
    expect(failed).to_contain_text("maker/Torn")
    expect(failed.locator(".ft-error")).to_contain_text("is cut short")
    failed.get_by_role("button", name="Download again").wait_for()
    failed.get_by_role("button", name="Delete").click()
    failed.wait_for(state="detached")
    tab(models, "storage")
    expect(models.locator(".kept li", has_text="Torn")).to_have_count(0)


def test_a_repository_is_looked_up_once_the_app_is_back(models, hosted, lying_here):
    """It said "Searching …" for good."""
    files = {"Back-F32.gguf": (lying_here / "small.gguf").read_bytes()}
    hosted.repositories["maker/Back"] = HostedRepository(files)
    tab(models, "hub")
    form = models.locator(".hub")
    asked = re.compile("/component_server/|/health")
    models.route(asked, lambda route: route.fulfill(body="gone"))
    form.get_by_label("Model or repository").fill("maker/Back")
    form.get_by_role("button", name="Search").click()
    models.locator(".away", has_text="Lost connection").wait_for()
    models.unroute(asked)
    expect(form.locator("li", has_text="Back-F32")).to_be_visible()


def test_any_repository_is_looked_up_downloaded_and_loaded(models, app, hosted, lying_here):
    tab(models, "hub")
    form = models.locator(".hub")
    field = form.get_by_label("Model or repository")
    field.fill("maker/Late")
    field.press("Enter")
    form.locator(".ft-error").wait_for()
    hosted.repositories["maker/Late"] = HostedRepository(model_files())
    field.press("Enter")  # nothing came of it
    expect(form.locator(".looked-up")).to_contain_text("In maker/Late")
    field.fill("no such model")
    form.get_by_role("button", name="Search").click()
    expect(form.locator(".looked-up")).to_contain_text("No matches")
    files = {"Fable-F32.gguf": (lying_here / "small.gguf").read_bytes()}
    hosted.repositories["maker/Fable"] = HostedRepository(files, downloads=1234, likes=5)
    field.fill("fable")
    field.press("Enter")
    hit = form.locator("li[data-repository='maker/Fable']")
    expect(hit).to_contain_text("1.23 K downloads")
    expect(hit).to_contain_text("5 likes")
    hit.get_by_role("button", name="Files of maker/Fable").click()
    choice = hit.locator("li", has_text="Fable-F32")
    expect(choice).to_contain_text("fits")
    choice.get_by_role("button", name="Download").click()
    tab(models, "all")
    found = row(models, "Fable-F32")
    found.wait_for()
    assert "downloads" in found.inner_text()
    found.get_by_role("button", name=LOAD).click()
    models.wait_for_selector(".now-name:has-text('Fable-F32')")
    tab(models, "storage")
    expect(models.locator(".kept li", has_text="Fable-F32").get_by_role("button")).to_be_disabled()
    tab(models, "hub")
    hosted.repositories["maker/Fable"].refusals[""] = [(404, None)]
    field.fill("https://huggingface.co/maker/Fable")
    form.get_by_role("button", name="Search").click()
    expect(form.locator(".ft-error")).to_contain_text("404")
