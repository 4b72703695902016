"""Models of other programs: looked for and compared in the background, and loaded under their names."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import torch

from app import paths
from app.inventory import own_catalog
from app.inventory.model_folders import model_folders
from app.paths import catalog_file
from app.runtime import Runtime
from app.server.models import Models
from app.settings.defaults import Defaults, Winner
from app.ui.controls.pickers import Pickers
from app.ui.endpoints import View
from app.ui.pages.chat.pair import PairBackend
from app.ui.pages.models.backend import ModelsBackend
from engine.errors import ForetokenError, InvalidRequest
from engine.kernels.native.library import Library
from engine.loading.catalog import open_catalog
from engine.loading.discovery.system import System
from engine.machine import device_memory, devices
from engine.machine.devices import Device
from tests.support.checkpoints import write_random
from tests.support.fake_engine import FakeEngine
from tests.support.gguf_files import write_gguf


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Llama in a file, and a smaller one of the same vocabulary."""
    root = tmp_path_factory.mktemp("files")
    for name, layers in (("large", 2), ("small", 1)):
        write_random(root / name, num_hidden_layers=layers)
        write_gguf(root / name, root / f"{name}.gguf")
    return root


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    home = tmp_path / "home"
    system = System("linux", home, {}, root=home / "root")
    engine = FakeEngine()
    catalog = open_catalog(catalog_file())
    with closing(Runtime(engine, catalog, tmp_path, tmp_path / "models", system=system)) as made:
        engine.catalog = lambda: made.inventory.catalog
        yield made


def until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def look(runtime: Runtime) -> None:
    runtime.found.scan()
    until(lambda: not runtime.found.working)


def listed_of(backend: ModelsBackend, name: str) -> list[View]:
    return [row for row in backend.table()["rows"] if row["name"] == name]


def put(source: Path, target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    return target


def in_ollama(home: Path, source: Path, name: str) -> Path:
    folder, digest = home / ".ollama" / "models", "a" * 64
    manifest = folder / "manifests" / "registry.ollama.ai" / "library" / name / "latest"
    manifest.parent.mkdir(parents=True)
    layer = {"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{digest}"}
    manifest.write_text(json.dumps({"layers": [layer]}))
    return put(source, folder / "blobs" / f"sha256-{digest}")


def test_what_is_found_is_loaded_under_the_name_that_is_shown(
    runtime: Runtime, files: Path, tmp_path: Path
) -> None:
    """A file of Ollama is named by its hash: pickers, page and API say the model's name."""
    path = in_ollama(tmp_path / "home", files / "large.gguf", "tale")
    look(runtime)
    (shown,) = listed_of(ModelsBackend(runtime), "tale:latest")
    assert (shown["name"], shown["place"], shown["id"]) == ("tale:latest", "Ollama", str(path))
    assert (shown["architecture"], shown["type"]) == ("Llama", "F32")
    rows = PairBackend(Pickers(runtime)).pair_models()
    assert ("tale:latest", str(path)) in {(row["name"], row["id"]) for row in rows}
    assert ModelsBackend(runtime).open({"target": str(path)})
    until(lambda: not runtime.loader.working)
    (entry,) = Models(runtime).list()["data"]
    told = (entry["id"], entry["name"], entry["target"], entry["draft"])
    assert told == ("tale-latest", "tale:latest", "tale:latest", None)
    assert Models(runtime).find("tale:latest").target_id == str(path)


def test_fitting_drafts_are_known_behind_the_asking_and_stand_in_the_picker(
    runtime: Runtime, files: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "home" / ".cache" / "llama.cpp"
    large = put(files / "large.gguf", cache / "large.gguf")
    small = put(files / "small.gguf", cache / "small.gguf")
    look(runtime)
    backend, pickers = ModelsBackend(runtime), Pickers(runtime)
    backend.why_not({"target": str(large)})
    until(lambda: not backend.why_not({"target": str(large)})["pending"])
    drafts = {each["id"]: each for each in backend.why_not({"target": str(large)})["drafts"]}
    assert drafts[str(small)]["reason"] is None
    assert "not smaller" in drafts["pip"]["reason"]
    asked = {"target": str(large), "draft": str(small)}
    draft, _ = PairBackend(pickers).pair_choices(asked)["fields"]
    assert {"id": str(small), "label": "small · llama.cpp"} in draft["choices"]
    assert draft["value"] == str(small)
    assert backend.open({"target": str(large), "draft": str(small)})
    until(lambda: not runtime.loader.working)
    loaded = runtime.engine.loaded
    assert loaded is not None
    assert (loaded.name, loaded.draft_name) == ("large + small", "small")
    Defaults(runtime.data_dir).keep(loaded, Winner("draft", "auto", 0, 2.0, 4), {})
    (row,) = listed_of(ModelsBackend(runtime), "large")
    assert row["speed"] == 2.0, "with whatever draft it was measured"


def test_a_model_opened_by_path_is_listed_with_the_draft_that_load_takes_from_beside_it(
    runtime: Runtime, files: Path, tmp_path: Path
) -> None:
    """Row, details and the list behind the chip said "no draft", and counted its memory without."""
    own = tmp_path / "own"
    write_random(tmp_path / "long", num_hidden_layers=12)
    (own / "deeper").mkdir(parents=True)
    large, small = own / "large.gguf", put(files / "small.gguf", own / "small.gguf")
    write_gguf(tmp_path / "long", large)
    backend, pair = ModelsBackend(runtime), PairBackend(Pickers(runtime))
    assert backend.open({"folder": str(large)})
    until(lambda: not runtime.loader.working)
    loaded = runtime.engine.loaded
    assert loaded is not None and loaded.draft_id == str(small)
    alone = next(row for row in backend.rows.all() if row["id"] == "pip")["largest"]
    assert backend.open({"target": "pip", "draft": ""})
    until(lambda: not runtime.loader.working)
    backend.table()
    until(lambda: not runtime.found.working)
    (row,) = listed_of(backend, "large")
    assert row["draft"]["id"] == str(small) and alone
    with_draft, without = (
        backend.fit({"target": str(large), "draft": draft}) for draft in (str(small), "")
    )
    assert with_draft["needed"] != without["needed"]
    assert row["held"].startswith(with_draft["needed"])
    backend.why_not({"target": str(large)})
    until(lambda: not runtime.found.working)
    drafts = {
        each["id"]: each["reason"] for each in backend.why_not({"target": str(large)})["drafts"]
    }
    assert drafts[str(small)] is None
    (shown,) = (one for one in pair.pair_models() if one["id"] == str(large))
    assert "small" in shown["draft"]
    assert pair.pair_choices({"target": str(large)})["fields"][0]["value"] == str(small)
    assert listed_of(backend, "small") == [], "nobody opened it"
    assert backend.forget({"path": str(large)})
    until(lambda: not runtime.found.working)
    assert listed_of(backend, "large") == []


def test_folders_are_added_and_removed_and_a_bad_file_says_why(
    runtime: Runtime, files: Path, tmp_path: Path
) -> None:
    own = put(files / "large.gguf", tmp_path / "own" / "mine.gguf").parent
    (own / "cut.gguf").write_bytes((own / "mine.gguf").read_bytes()[:999])
    backend = ModelsBackend(runtime)
    assert backend.add_folder({"folder": f' "{own}" '})
    until(lambda: not runtime.found.working)
    found = backend.table()
    assert len(listed_of(backend, "mine")) == 1
    (broken,) = found["unusable"]
    assert broken["name"] == "cut"
    assert str(own / "cut.gguf") in broken["reason"]
    told = {"path": str(own), "there": True, "models": 1, "unusable": [broken]}
    assert found["folders"] == [told]
    assert backend.remove_folder({"folder": str(own)})
    until(lambda: not runtime.found.working)
    found = backend.table()
    assert (listed_of(backend, "mine"), found["unusable"], found["folders"]) == ([], [], [])
    with pytest.raises(ForetokenError, match="is not among the added folders"):
        backend.remove_folder({"folder": str(own)})
    (tmp_path / "empty").mkdir()
    with pytest.raises(ForetokenError, match="has no model"):
        backend.add_folder({"folder": str(tmp_path / "empty")})
    with pytest.raises(ForetokenError, match="There is no folder"):
        backend.add_folder({"folder": str(own / "none")})
    (own / "notes.txt").write_text("")
    with pytest.raises(ForetokenError, match="is a file"):
        backend.add_folder({"folder": str(own / "notes.txt")})
    if Path("/proc/self").is_dir():
        for pseudo in ("/proc", "/proc/self/fd", "/proc/self/root", "/sys", "/dev"):
            with pytest.raises(ForetokenError, match="processes and devices"):
                backend.add_folder({"folder": pseudo})
        assert model_folders(tmp_path) == ()
    with pytest.raises(InvalidRequest):
        runtime.found.remove(own)


def test_a_folder_that_is_a_model_itself_counts_as_one(runtime: Runtime, tmp_path: Path) -> None:
    """The page said that nothing was found in it, with the model in the table."""
    write_random(tmp_path / "mine", num_hidden_layers=1)
    backend = ModelsBackend(runtime)
    assert backend.add_folder({"folder": str(tmp_path / "mine")})
    until(lambda: not runtime.found.working)
    assert [folder["models"] for folder in backend.table()["folders"]] == [1]


def test_heads_that_lie_here_are_offered_for_the_target_they_were_made_for(
    runtime: Runtime, pair: tuple[Path, Path], pair_heads: tuple[Path, ...]
) -> None:
    """They were told to have no tokenizer, and a page had no way to load one."""
    backend = ModelsBackend(runtime)
    here = {str(folder) for folder in pair_heads if any(folder.glob("*.safetensors"))}
    assert backend.add_folder({"folder": str(pair_heads[0].parent)})
    until(lambda: not runtime.found.working)
    assert backend.table()["unusable"] == []
    for target, fitting in ((str(pair[0]), here), ("pip", set())):
        listed = backend.why_not({"target": target})["drafts"]
        assert here == {one["id"] for one in listed} & here
        assert fitting == {one["id"] for one in listed if one["reason"] is None} & here
    until(lambda: not runtime.found.working)
    head = next(folder for folder in here if folder.endswith("eagle3"))
    assert backend.open({"folder": str(pair[0]), "draft": head})
    until(lambda: not runtime.loader.working)
    loaded = runtime.engine.loaded
    assert loaded is not None and loaded.draft_name is None
    assert list(loaded.request.heads) == [head]


def test_a_head_that_was_trained_here_is_found_by_the_name_of_its_pair(
    runtime: Runtime, tmp_path: Path
) -> None:
    """Two lines said the same of the shipped head and of the one people had made themselves."""
    shipped = next(head for head in runtime.catalog.pair("pip").heads if head.name == "mlp")
    mine = shutil.copytree(shipped, tmp_path / "mlp")
    entry = {"id": "pip-mlp-1", "name": "Pip + mlp 1", "target": "pip", "heads": [str(mine)]}
    assert own_catalog.add(paths.own_catalog(tmp_path), catalog_file(), "pairs", entry)
    runtime.read_catalog_again()
    backend = ModelsBackend(runtime)
    listed = {one["id"]: one["name"] for one in backend.why_not({"target": "pip"})["drafts"]}
    assert (listed[str(shipped)], listed[str(mine)]) == (
        "MLP speculator",
        "MLP speculator (Pip + mlp 1)",
    )
    (row,) = (row for row in backend.table()["rows"] if row["id"] == "pip")
    assert "Pip + mlp 1" in row["pairs"]


def test_on_a_machine_with_a_gpu_the_page_says_what_is_on_it(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch, library: Library
) -> None:
    """It judged by main memory, whatever the GPU would do."""
    gpu = Device(torch.device("cuda"), kernels=True)
    monkeypatch.setattr(devices, "choose", lambda *_, **__: gpu)
    monkeypatch.setattr(devices, "has_driver", lambda: True)
    free = {"cuda": 11_500_000_000}
    monkeypatch.setattr(device_memory, "gpu_free_bytes", lambda device: free.get(device.type))
    monkeypatch.setattr(device_memory, "gpu_room", lambda: free["cuda"])
    backend = ModelsBackend(runtime)
    rows = {row["id"]: row for row in backend.rows.all()}
    here, whole, split = rows["pip"], rows["qwen3-14b"], rows["qwen3-30b-a3b"]
    assert here["held"].endswith(" on the GPU") and here["here"]
    assert here["fit"] == backend.fit({"pair": "pip"})["sentence"]
    assert "free on the GPU." in here["fit"]
    assert whole["held"].endswith(" in Q4_K_M on the GPU") and whole["fits"] == "part"
    assert re.search(r"with \d\d of 48 layers on the GPU$", split["held"])
    assert "on the CPU, because all do not fit on the GPU: a pass reads " in split["fit"]
    files = {each["key"]: each for each in backend.files({"target": "qwen3-14b"})["files"]}
    assert all("on the GPU" in each["fit"] for each in files.values()), "safetensors and GGUF alike"
    free["cuda"] = 80_000_000_000  # another program has ended
    rows = {row["id"]: row for row in backend.rows.all()}
    assert rows["qwen3-14b"]["fits"] == "yes"
    assert rows["qwen3-30b-a3b"]["held"].endswith(" on the GPU")
