"""Models that lie on the machine are found where programs keep them, and what is broken says why."""

from __future__ import annotations

import json
import os
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from engine.loading.catalog import Catalog, local_spec, open_catalog
from engine.loading.discovery.found import FoundModel
from engine.loading.discovery.listing import is_pseudo, models_under
from engine.loading.discovery.programs import HUGGING_FACE, LLAMA_CPP, LM_STUDIO, OLLAMA
from engine.loading.discovery.scan import BackgroundScan, scan
from engine.loading.discovery.system import System
from engine.loading.drafts import judge_draft
from engine.loading.inventory import Inventory
from engine.loading.planning.forecast import estimate
from engine.loading.request import LoadRequest
from engine.loading.specs import ModelSpec
from engine.machine import memory
from engine.models.checkpoints.checkpoint import inspect
from tests.support.checkpoints import write_random
from tests.support.gguf_files import write_gguf
from tests.support.heads import write_eagle3
from tests.support.places import ROOT


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Llama as a folder and as a file, and a smaller one."""
    root = tmp_path_factory.mktemp("models")
    write_random(root / "llama")
    write_random(root / "small", seed=2, num_hidden_layers=1)
    write_gguf(root / "llama", root / "llama.gguf")
    write_gguf(root / "small", root / "small.gguf")
    return root


def linux(home: Path, **environment: str) -> System:
    return System("linux", home, environment, root=home / "root")


def put(source: Path, target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    return target


def names(found: list[FoundModel]) -> dict[str, str]:
    return {one.name: one.place for one in found if one.reason is None}


def reasons(found: list[FoundModel]) -> dict[str, str]:
    return {one.name: one.reason for one in found if one.reason is not None}


def write_manifest(folder: Path, name: str, *layers: tuple[str, str]) -> Path:
    """``layers``: the last word of the media type, and the hash."""
    file = folder / "manifests" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    listed = [
        {"mediaType": f"application/vnd.ollama.image.{kind}", "digest": f"sha256:{value}"}
        for kind, value in layers
    ]
    file.write_text(json.dumps({"schemaVersion": 2, "layers": listed}))
    return file


def test_what_is_found_says_what_it_is(models: Path, tmp_path: Path) -> None:
    (found,) = scan(linux(tmp_path), [models / "llama"])
    assert (found.name, found.place) == ("llama", str(models / "llama"))
    assert found.architecture == "LlamaForCausalLM"
    assert found.type == "F32"
    assert found.spec is not None
    assert found.spec.path == models / "llama"
    assert found.spec.parameters > 0
    assert found.bytes == found.spec.bytes
    file = next(one for one in scan(linux(tmp_path), [models]) if one.path.suffix == ".gguf")
    assert (file.name, file.architecture, file.type) == ("llama", "LlamaForCausalLM", "F32")


def test_places_that_cannot_be_looked_up_end_no_scan(models: Path, tmp_path: Path) -> None:
    system = linux(tmp_path, HF_HOME="~nobody-at-all/cache", LLAMA_CACHE="~nobody-at-all")
    found = list(scan(system, [tmp_path / ("n" * 300), models / "llama"]))
    assert names(found) == {"llama": str(models / "llama")}
    assert "File name too long" in reasons(found)["n" * 300]


def test_lm_studios_folders_old_new_and_moved(models: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    put(models / "llama.gguf", home / ".lmstudio/models/someone/Llama-GGUF/llama-q4.gguf")
    put(models / "small.gguf", home / ".cache/lm-studio/models/someone/old/small.gguf")
    put(models / "small.gguf", tmp_path / "disk/else/where/moved.gguf")
    settings = home / ".lmstudio/settings.json"
    settings.write_text(json.dumps({"downloadsFolder": str(tmp_path / "disk")}))
    assert names(list(scan(linux(home)))) == {
        "someone/Llama-GGUF/llama-q4": "LM Studio",
        "someone/old/small": "LM Studio",
        "else/where/moved": "LM Studio",
    }
    (home / ".lmstudio-home-pointer").write_text(f"{tmp_path / 'pointed'}\n")
    assert tmp_path / "pointed" / "models" in LM_STUDIO.folders(linux(home))
    settings.write_text("{")
    (home / ".lmstudio-home-pointer").unlink()
    assert LM_STUDIO.folders(linux(home))[0] == home / ".lmstudio" / "models"


def test_ollamas_manifests_name_its_blobs(models: Path, tmp_path: Path) -> None:
    folder = tmp_path / ".ollama" / "models"
    put(models / "llama.gguf", folder / "blobs" / "sha256-abc1")
    put(models / "small.gguf", folder / "blobs" / "sha256-abc2")
    official = "registry.ollama.ai/library"
    write_manifest(folder, f"{official}/llama/1b", ("template", "ff"), ("model", "abc1"))
    write_manifest(folder, "registry.ollama.ai/someone/small/latest", ("model", "abc2"))
    write_manifest(folder, "hf.co/owner/repo/Q4_K_M", ("model", "gone"))
    write_manifest(folder, f"{official}/tuned/latest", ("model", "abc1"), ("adapter", "abc2"))
    write_manifest(folder, f"{official}/cloud/latest", ("template", "ff"))
    write_manifest(folder, f"{official}/evil/latest", ("model", "../../../etc/passwd"))
    (folder / "manifests" / official / "broken").mkdir()
    (folder / "manifests" / official / "broken" / "latest").write_text("[")
    listed = {one.name: one for one in OLLAMA.models(folder)}
    assert listed["llama:1b"].path == folder / "blobs" / "sha256-abc1"
    assert local_spec(listed["llama:1b"].path).name == "random"  # not the hash
    found = list(scan(linux(tmp_path)))
    assert names(found) == {"llama:1b": "Ollama", "someone/small:latest": "Ollama"}
    why = reasons(found)
    assert "sha256-gone" in why["hf.co/owner/repo:Q4_K_M"]
    assert "only Ollama" in why["cloud:latest"]
    assert "passwd" in why["evil:latest"]
    assert "Pull the model again" in why["broken:latest"]
    assert "adapter" in str(listed["tuned:latest"].reason)


def test_hugging_faces_cache_has_the_newest_snapshot(models: Path, tmp_path: Path) -> None:
    hub = tmp_path / ".cache" / "huggingface" / "hub"
    repository = hub / "models--owner--llama"
    shutil.copytree(models / "llama", repository / "snapshots" / "a1")
    shutil.copytree(models / "small", repository / "snapshots" / "b2")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("b2")
    files = hub / "models--owner--files-GGUF"
    put(models / "llama.gguf", files / "blobs" / "f00d")
    link = files / "snapshots" / "c3" / "Q4" / "llama-q4.gguf"
    link.parent.mkdir(parents=True)
    link.symlink_to(files / "blobs" / "f00d")
    (hub / "models--owner--empty").mkdir()
    found = {one.name: one for one in scan(linux(tmp_path))}
    assert found.keys() == {"owner/llama", "owner/files-GGUF/Q4/llama-q4"}
    assert found["owner/llama"].path == repository / "snapshots" / "b2"
    assert found["owner/files-GGUF/Q4/llama-q4"].path == link
    assert found["owner/files-GGUF/Q4/llama-q4"].reason is None
    assert local_spec(link).name == "llama-q4"


@pytest.mark.parametrize(
    ("platform", "environment", "expected"),
    [
        ("linux", {}, ".cache/llama.cpp"),
        ("linux", {"XDG_CACHE_HOME": "xdg"}, "xdg/llama.cpp"),
        ("darwin", {}, "Library/Caches/llama.cpp"),
        ("win32", {}, "AppData/Local/llama.cpp"),
        ("win32", {"LOCALAPPDATA": "local"}, "local/llama.cpp"),
        ("win32", {"LLAMA_CACHE": "chosen"}, "chosen"),
    ],
)
def test_llama_cpps_cache_on_each_system(
    models: Path, tmp_path: Path, platform: str, environment: dict[str, str], expected: str
) -> None:
    named = {key: str(tmp_path / value) for key, value in environment.items()}
    system = System(platform, tmp_path, named, root=tmp_path / "root")
    assert LLAMA_CPP.folders(system) == (tmp_path / expected,)
    put(models / "small.gguf", tmp_path / expected / "owner_repo_small.gguf")
    assert names(list(scan(system))) == {"owner_repo_small": "llama.cpp"}


def test_only_linux_has_folders_of_ollamas_service(tmp_path: Path) -> None:
    environment = {"OLLAMA_MODELS": str(tmp_path / "chosen")}
    for platform, count in (("linux", 5), ("darwin", 2), ("win32", 2)):
        folders = OLLAMA.folders(System(platform, tmp_path, environment))
        assert len(folders) == count
        assert folders[:2] == (tmp_path / "chosen", tmp_path / ".ollama" / "models")


def test_hugging_faces_variables_are_heeded(tmp_path: Path) -> None:
    for variable, expected in (
        ("HF_HUB_CACHE", "x"),
        ("HF_HOME", "x/hub"),
        ("XDG_CACHE_HOME", "x/huggingface/hub"),
    ):
        system = System("win32", tmp_path, {variable: str(tmp_path / "x")})
        assert HUGGING_FACE.folders(system) == (tmp_path / expected,)


def test_of_a_split_file_the_first_stands_for_all(models: Path, tmp_path: Path) -> None:
    for number in (1, 2, 3):
        put(models / "llama.gguf", tmp_path / f"big-0000{number}-of-00003.gguf")
    (listed,) = models_under(tmp_path)
    assert (listed.name, listed.path.name) == ("big", "big-00001-of-00003.gguf")
    (tmp_path / "big-00002-of-00003.gguf").unlink()
    (found,) = scan(linux(tmp_path / "home"), [tmp_path])
    assert "big-00002-of-00003.gguf" in str(found.reason)


def test_links_in_a_circle_hidden_and_deep_folders_are_left_out(
    models: Path, tmp_path: Path
) -> None:
    put(models / "small.gguf", tmp_path / "a" / "b" / "small.gguf")
    (tmp_path / "a" / "b" / "back").symlink_to(tmp_path / "a")
    put(models / "small.gguf", tmp_path / ".git" / "hidden.gguf")
    put(models / "small.gguf", tmp_path.joinpath(*"123456789") / "deep.gguf")
    assert [one.path for one in models_under(tmp_path)] == [tmp_path / "a" / "b" / "small.gguf"]


@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="Linux's")
def test_folders_of_processes_are_not_followed(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """/proc once listed models by every other process's folder: /proc/10/cwd/model.gguf."""
    put(models / "small.gguf", tmp_path / "here" / "small.gguf")
    monkeypatch.chdir(tmp_path / "here")
    assert not list(models_under(Path("/proc/self")))
    (tmp_path / "here" / "processes").symlink_to("/proc/self/task")
    assert [one.path.parent for one in models_under(tmp_path)] == [tmp_path / "here"]


@pytest.mark.parametrize(
    ("real", "pseudo"),
    [
        ("/proc", True), ("/proc/1/cwd", True), ("/sys/fs", True), ("/dev", True), ("/dev/fd", True),
        ("/dev/shm", False), ("/dev/shm/models", False), ("/dev/shmx", True), ("/process", False),
        ("/models/proc", False), ("/", False),
    ],
)  # fmt: skip
def test_file_systems_of_processes_and_devices_are_known(real: str, pseudo: bool) -> None:
    assert is_pseudo(real) is pseudo


def test_a_model_that_two_places_know_is_listed_once(models: Path, tmp_path: Path) -> None:
    file = put(models / "small.gguf", tmp_path / ".lmstudio/models/a/b/small.gguf")
    link = tmp_path / "own" / "linked.gguf"
    link.parent.mkdir()
    link.symlink_to(file)
    (found,) = scan(linux(tmp_path), [tmp_path / "own", tmp_path / "not there"])
    assert found.place == "LM Studio"


def test_what_is_broken_says_why_and_the_rest_goes_on(models: Path, tmp_path: Path) -> None:
    whole = (models / "llama.gguf").read_bytes()
    (tmp_path / "cut.gguf").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "empty.gguf").touch()
    (tmp_path / "text.gguf").write_text("no model at all")
    (tmp_path / "other-rule.gguf").write_bytes(whole.replace(b"gpt-2", b"gpt-9"))
    shutil.copytree(models / "small", tmp_path / "torn")
    (tmp_path / "torn" / "config.json").write_text("{}")
    shutil.copytree(models / "small", tmp_path / "reads")
    config = json.loads((tmp_path / "reads" / "config.json").read_text())
    config["architectures"] = ["BertModel"]
    (tmp_path / "reads" / "config.json").write_text(json.dumps(config))
    shutil.copytree(models / "small", tmp_path / "odd")
    (tmp_path / "odd" / "config.json").write_text(json.dumps(config | {"architectures": 5}))
    put(models / "small.gguf", tmp_path / "zzz.gguf")
    (tmp_path / "mmproj-zzz.gguf").symlink_to(tmp_path / "gone")  # it ended the whole scan
    found = list(scan(linux(tmp_path / "home"), [tmp_path]))
    assert names(found) == {"zzz": str(tmp_path)}
    why = reasons(found)
    assert "cut short" in why["cut"]
    assert why.keys() == {
        *("cut", "empty", "text", "other-rule", "torn", "reads", "odd", "mmproj-zzz")
    }
    assert "'gpt-9'" in why["other-rule"]
    assert "BertModel" in why["reads"]
    by_name = {one.name: one for one in found}
    assert by_name["other-rule"].architecture == "llama"
    assert by_name["cut"].bytes == len(whole) // 2


def test_a_file_that_was_mended_is_read_again(models: Path, tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF")
    (before,) = scan(linux(tmp_path / "home"), [tmp_path])
    put(models / "small.gguf", file)
    (after,) = scan(linux(tmp_path / "home"), [tmp_path])
    assert before.reason is not None
    assert after.reason is None


def test_drafts_that_fit_come_first_and_the_others_say_why(models: Path, tmp_path: Path) -> None:
    inventory = Inventory(Catalog((), ()), models, system=linux(tmp_path))
    found = list(inventory.scan())
    target = next(one.spec for one in found if one.path == models / "llama.gguf")
    assert target is not None
    choices, _ = inventory.drafts_here(target)
    assert {one.spec.path for one in choices} == {one.path for one in found} - {target.path}
    assert [one.spec.name for one in choices if one.fits] == ["small", "small"]
    assert choices[0].fits
    assert "not smaller" in str(choices[-1].reason)


def test_the_background_scan_tells_its_listener(models: Path, tmp_path: Path) -> None:
    told: list[FoundModel] = []
    done = threading.Event()
    running = BackgroundScan(
        linux(tmp_path), [models], on_found=told.append, on_done=lambda _: done.set()
    )
    found = running.wait(60)
    assert done.is_set()
    assert not running.running
    assert tuple(told) == found
    assert len(found) == 4


def test_a_cancelled_scan_is_quiet(models: Path, tmp_path: Path) -> None:
    first, go_on = threading.Event(), threading.Event()
    told: list[FoundModel] = []

    def hold(model: FoundModel) -> None:
        told.append(model)
        first.set()
        go_on.wait(60)

    running = BackgroundScan(
        linux(tmp_path), [models], on_found=hold, on_done=lambda _: told.clear()
    )
    assert first.wait(60)
    running.cancel()
    go_on.set()
    assert len(running.wait(60)) == 1
    assert len(told) == 1


def settled(request: LoadRequest, home: Path, *folders: Path) -> LoadRequest:
    inventory = Inventory(Catalog((), ()), home / "models", lambda: folders, linux(home))
    return inventory.with_best_draft(request)


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_a_target_alone_gets_the_best_draft_that_lies_beside_it(tmp_path: Path, kind: str) -> None:
    """It was loaded without, though the right one stood first in the list."""
    write_random(tmp_path / "m" / "large", num_hidden_layers=12)
    write_random(tmp_path / "m" / "small", seed=2, num_hidden_layers=1)
    target, draft = tmp_path / "m" / "large", tmp_path / "m" / "small"
    if kind == "file":
        (tmp_path / "f").mkdir()
        for one in (target, draft):
            write_gguf(one, tmp_path / "f" / f"{one.name}.gguf")
        target, draft = tmp_path / "f" / "large.gguf", tmp_path / "f" / "small.gguf"
    alone = LoadRequest(target=str(target))
    assert settled(alone, tmp_path / "home").draft == str(draft)
    none = replace(alone, draft="")
    assert settled(none, tmp_path / "home") == none  # a choice, and it is kept
    assert settled(LoadRequest(target=str(draft)), tmp_path / "home").draft == ""


def test_a_head_that_the_catalog_has_for_a_target_drafts_once_it_is_here(tmp_path: Path) -> None:
    """One of another target's size is left alone; the load would fail."""
    target, wide = tmp_path / "large", tmp_path / "wide"
    write_random(target, num_hidden_layers=12)
    write_random(wide, hidden_size=128)
    models = tmp_path / "models"
    heads = tuple(
        ModelSpec(id=f"x:{name}", name=name, repository=f"a/{name}", method="eagle3")
        for name in ("absent", "other", "own")
    )
    write_eagle3(models / "a--own", inspect(target))
    write_eagle3(models / "a--other", inspect(wide))
    spec = replace(local_spec(target), id="x", drafters=heads)
    inventory = Inventory(Catalog((spec,), ()), models, system=linux(tmp_path / "home"))
    found = inventory.with_best_draft(LoadRequest(target="x"))
    assert (found.draft, found.heads) == ("", (str(models / "a--own"),))
    own = replace(inventory, catalog=Catalog((replace(spec, mtp=True),), ()))
    assert own.with_best_draft(LoadRequest(target="x")).heads == ()


def test_no_draft_is_taken_for_which_there_is_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor one for which the target would be held in fewer bits."""
    write_random(tmp_path / "large", num_hidden_layers=40)
    write_random(tmp_path / "small", seed=2, num_hidden_layers=4)
    alone = LoadRequest(target=str(tmp_path / "large"))
    needs = estimate([local_spec(tmp_path / "large")]).memory_fit.needed
    for free, draft in ((2 * needs, str(tmp_path / "small")), (needs + 1000, "")):
        monkeypatch.setattr(memory, "free_bytes", lambda free=free: free)
        assert settled(alone, tmp_path / "home").draft == draft


@pytest.mark.skipif("FORETOKEN_REAL_MODELS" not in os.environ, reason="needs the real pair")
def test_the_real_target_gets_the_real_draft_and_not_pip(tmp_path: Path) -> None:
    folder = Path(os.environ["FORETOKEN_REAL_MODELS"])
    large = next(folder.glob("*1.5b*.gguf"))
    catalog = open_catalog(ROOT / "model_catalog.yaml")
    inventory = Inventory(catalog, tmp_path, system=linux(tmp_path))
    request = inventory.with_best_draft(LoadRequest(target=str(large)))
    assert "0.5b" in str(request.draft)
    pip = judge_draft(local_spec(large), catalog.model("pip"))
    assert not pip.fits and "4,096" in str(pip.reason)
