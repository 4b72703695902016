"""The import order of the house, floor by floor, and what must not stand in tracked files."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.places import ROOT, python_files

FLOORS: tuple[tuple[str, ...], ...] = (
    ("engine.events", "engine.errors", "engine.files", "engine.yaml_text", "engine.thoughts"),
    ("engine.values",),
    ("engine.request", "engine.tool_calls"),
    ("engine.noise", "engine.stats", "engine.trace"),
    ("engine.reply",),
    ("engine.machine",),
    ("engine.kernels",),
    ("engine.models",),
    ("engine.vision",),
    ("engine.backends",),
    ("engine.grammar",),
    ("engine.decoding",),
    ("engine.drafting",),
    ("engine.loading",),
    ("engine.api", "engine.scheduler", "engine.wire"),
    ("engine.local", "engine.remote"),
    ("engine.switching",),
    ("engine.train", "engine.bench"),
    ("app.paths", "app.watchers"),
    ("app.settings",),
    ("app.web",),
    ("app.storage", "app.inventory"),
    ("app.documents",),
    ("app.mcp",),
    ("app.loading",),
    ("app.learning",),
    ("app.runtime",),
    ("app.deploy", "app.diagnostics", "app.measuring", "app.servers"),
    ("app.training",),
    ("app.stored_data",),
    ("app.server", "app.ui", "app.worker", "app.desktop"),
    ("app.main",),
    ("app.cli", "app.__main__"),
    ("tools",),
)
"""Each floor may import itself and those before it; see docs/architecture.md."""

OPEN_TO_THE_APP = (
    "engine.api",
    "engine.errors",
    "engine.events",
    "engine.files",
    "engine.yaml_text",
    "engine.loading.inventory",
    "engine.machine.event_loop",
    "engine.machine.memory",
    "engine.machine.secrets",
    "engine.reply",
    "engine.request",
    "engine.stats",
    "engine.thoughts",
    "engine.tool_calls",
    "engine.trace",
    "engine.values",
    "engine.vision.pictures",
    "engine.wire",
)
"""What pages, API and command line may know of the engine."""

FEATURES_OF = (
    "app.cli.",
    "app.training.",
    "app.measuring",
    "app.ui.pages.race.",
    "app.ui.pages.tune.",
)
"""Where training and benches are features that people start."""

BEHIND_THE_DOOR = {
    "app.main": ("engine.machine.device_memory",),  # imports Gradio as the engine imports torch
    "app.runtime": ("engine.switching",),  # chooses the engine
    "app.learning": (  # lets the loaded head learn between requests
        "engine.switching",
        "engine.local",
        "engine.drafting",
        "engine.train.learning",
        "engine.train.data",
        "engine.machine.threads",
    ),
    "app.cli.options": (  # refuses a GPU and heads that are not here before anything starts
        "engine.machine.devices",
        "engine.drafting.heads",
    ),
    "app.ui.pages.models.rows": ("engine.machine.device_memory",),  # for forecasts
    "app.servers": ("engine.remote",),  # asks who a server is, before anything is loaded
    "app.cli.loading": (
        "engine.switching",  # chooses the engine
        "engine.local.engine",  # measures more than its door shows
        "engine.loading.compile_first",  # says beforehand that something will be compiled
        "engine.drafting.proposers",  # which proposers and options there are, before anything is loaded
    ),
    "app.diagnostics": (  # says what there is to compute on
        "engine.machine",
        "engine.backends.native.build",
        "engine.backends.native.cache",
        "engine.backends.cuda.trial",
        "engine.machine.compilers",
    ),
    "app.documents.reading": ("engine.machine.worker_process",),  # reads strangers' files
    "app.cli.settings": (  # gets a compiler and tries it, and says if a stored GPU is not here
        "engine.machine.compilers",
        "engine.backends.native.build",
        "engine.machine.devices",
    ),
    # Before anything is loaded, only the registry knows which proposers and options there may be.
    "app.cli.chat": ("engine.drafting.proposers",),
    "app.cli.bench.sweep": ("engine.drafting.proposers",),
    "app.training.options": ("engine.drafting.heads",),  # whether what was trained is a head
    "app.cli.models": ("engine.models.checkpoints.checkpoint",),  # shows what a file holds
    "app.cli.models.found": ("engine.models.checkpoints.gguf",),  # writes a file
    "app.deploy.model": ("engine.models",),  # reads sizes of a model that is here
    "app.deploy.estimate.counting": (
        "engine.models",
    ),  # counts weights by the engine's descriptions
    "app.deploy.estimate.network": ("engine.models.sizes",),
    # Tells a frontend how to tokenize, from the files that the engine does it by.
    "app.worker.model_card": (
        "engine.models.checkpoints.checkpoint",
        "engine.models.checkpoints.tokenizer",
    ),
    "app.worker.dynamo": ("engine.local.engine",),  # tells routers what its caches hold
}
"""Modules of the app that look behind the door, what at, and why. The API is none of them."""

NEVER_IN_ENGINE = {"gradio", "fastapi", "starlette", "uvicorn", "typer", "app"}


def modules() -> list[Path]:
    """All Python files of the house."""
    return [path for room in ("engine", "app", "tools") for path in python_files(ROOT / room)]


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def imports_of(path: Path) -> tuple[str, ...]:
    """Every module that a file imports, wherever in the file; relative ones resolved."""
    found = list[str]()
    package = name_of(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *(node.module.split(".") if node.module else [])])
            # `from engine import hub` imports engine.loading.hub, not only engine.
            found += [f"{module}.{alias.name}" for alias in node.names]
    return tuple(found)


def floor_of(module: str) -> int | None:
    """The module's place in the order; None for the packages themselves and foreign modules."""
    for index, floor in enumerate(FLOORS):
        if any(module == name or module.startswith(name + ".") for name in floor):
            return index
    return None


PARSES_ITSELF = {
    "engine.files": "the one reader",
    "engine.yaml_text": "the one reader of YAML",
    "engine.grammar.bounds": "schemas of requests, where a RecursionError is a refusal",
    "app.web.request_log": "the app's own answers",
    "app.worker.model_card": "a tokenizer that is loaded",
    "engine.decoding.text.control_tokens": "a tokenizer that is loaded",
    "engine.machine.worker_main": "what the app's own process asks",
    "engine.machine.worker_process": "what the app's own process answers",
    "engine.models.checkpoints.tokenizer": "a tokenizer that was just built",
    "engine.values.tools": "what a model wrote, and schemas of requests",
    "engine.tool_calls.lark": "schemas of requests",
    "engine.remote.body": "schemas of requests",
    "engine.remote.ollama": "schemas of requests",
}
"""Who may call json.loads beside ``engine.files``, and of what: no file and no server's answer."""


def test_files_and_servers_answers_are_parsed_within_bounds() -> None:
    """json.loads of a deep text is a RecursionError, YAML's own loaders overflow the stack."""
    unbounded = re.compile(r"json\.loads?\(|\.json\(\)|yaml\.(safe_load|SafeLoader\b(?!\())")
    wrong = [
        name_of(path)
        for path in modules()
        if name_of(path).startswith(("app", "engine"))
        # Programs of their own, which speak with other engines' interpreters.
        and not name_of(path).startswith("engine.bench.real.")
        and unbounded.search(path.read_text(encoding="utf-8"))
    ]
    assert set(wrong) == set(PARSES_ITSELF)


def test_every_module_has_a_place_in_the_order() -> None:
    homeless = [
        name_of(path)
        for path in modules()
        if name_of(path) not in ("engine", "app", "tools") and floor_of(name_of(path)) is None
    ]
    assert not homeless, f"give these a floor in FLOORS: {homeless}"


def test_every_room_says_what_it_is_for() -> None:
    silent = []
    for folder in sorted({path.parent for path in modules()}):
        init = folder / "__init__.py"
        text = init.read_text(encoding="utf-8") if init.is_file() else ""
        if not ast.get_docstring(ast.parse(text)):
            silent.append(str(folder.relative_to(ROOT)))
    assert not silent, f"give these an __init__.py with a docstring: {silent}"


MOST_FILES = 15


def test_no_folder_has_many_files_side_by_side() -> None:
    folders = Counter(
        path.relative_to(ROOT).parent.as_posix()
        for path in tracked_files()
        if path.relative_to(ROOT).parts[0] in ("app", "engine") and path.is_file()
    )
    crowded = {folder: count for folder, count in folders.items() if count > MOST_FILES}
    assert not crowded, f"more than {MOST_FILES} files side by side: {crowded}"


def test_imports_go_one_way() -> None:
    wrong = []
    for path in modules():
        own = floor_of(name_of(path))
        if own is None:
            continue
        for imported in imports_of(path):
            other = floor_of(imported)
            if other is not None and other > own:
                wrong.append(f"{name_of(path)} imports {imported}")
    assert not wrong


CONCRETE = {
    "engine.backends": ("engine.backends",),
    "engine.drafting.proposers": ("engine.drafting",),
}
"""What is known by what it declares: whose classes nobody may ask for, but those who stand here."""


def asked_for(path: Path) -> Iterator[str]:
    """Every imported class or module that a file asks about, by isinstance or a case, in full."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    homes = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and not node.level
        for alias in node.names
    }
    for node in ast.walk(tree):
        match node:
            case ast.Call(ast.Name("isinstance" | "issubclass"), [_, asked]) | ast.MatchClass(
                asked
            ):
                pass
            case _:
                continue
        for part in ast.walk(asked):
            if isinstance(part, ast.Name) and part.id in homes:
                yield homes[part.id]


def test_nobody_above_asks_which_backend_or_proposer_it_has() -> None:
    wrong = [
        f"{name_of(path)} asks for {asked}"
        for path in modules()
        for asked in asked_for(path)
        for room, insiders in CONCRETE.items()
        if asked.startswith(f"{room}.") and not name_of(path).startswith((*insiders, "tools."))
    ]
    assert not wrong


def test_kernels_know_no_request() -> None:
    wrong = [
        f"{name_of(path)} imports {imported}"
        for path in (ROOT / "engine" / "kernels").rglob("*.py")
        for imported in imports_of(path)
        if imported.startswith(("engine.request", "engine.tool_calls"))
    ]
    assert not wrong


def test_nobody_above_the_backends_imports_the_compiled_kernels() -> None:
    wrong = [
        f"{name_of(path)} imports {imported}"
        for path in modules()
        for imported in imports_of(path)
        if imported.startswith("engine.kernels.native")
        and not name_of(path).startswith(("engine.kernels", "engine.backends", "tools."))
    ]
    assert not wrong


def test_what_is_asked_for_is_found() -> None:
    own = ROOT / "engine" / "backends" / "cuda" / "decoder.py"
    assert "engine.backends.cuda.state.DeviceState" in set(asked_for(own))


def test_no_two_modules_import_each_other() -> None:
    known = {name_of(path) for path in modules()}
    graph = {name_of(path): sorted(_targets(path, known)) for path in modules()}
    assert _cycle(graph) is None


def _targets(path: Path, known: set[str]) -> set[str]:
    found = set()
    for imported in imports_of(path):
        module = imported if imported in known else imported.rpartition(".")[0]
        if module in known and module != name_of(path):
            found.add(module)
    return found


def _cycle(graph: dict[str, list[str]]) -> list[str] | None:
    """One import cycle, if there is any."""
    done: set[str] = set()

    def visit(module: str, path: list[str]) -> list[str] | None:
        if module in path:
            return [*path[path.index(module) :], module]
        if module in done:
            return None
        for target in graph[module]:
            if found := visit(target, [*path, module]):
                return found
        done.add(module)
        return None

    return next((found for module in graph if (found := visit(module, []))), None)


def test_events_and_errors_import_nothing_of_ours() -> None:
    for name in ("events", "errors"):
        ours = [m for m in imports_of(ROOT / "engine" / f"{name}.py") if m.startswith("engine")]
        assert not ours


def test_the_app_uses_the_door_and_no_deep_paths() -> None:
    wrong = []
    for path in python_files(ROOT / "app"):
        name = name_of(path)
        rooms = (*OPEN_TO_THE_APP, *BEHIND_THE_DOOR.get(name, ()))
        if name.startswith(FEATURES_OF):
            rooms += ("engine.train", "engine.bench")
        wrong += [
            f"{name} imports {imported}"
            for imported in imports_of(path)
            if imported.startswith("engine.")
            and not any(imported == room or imported.startswith(room + ".") for room in rooms)
        ]
    assert not wrong


def test_the_engine_knows_no_pages_and_no_http() -> None:
    wrong = [
        f"{name_of(path)} imports {imported}"
        for path in sorted((ROOT / "engine").rglob("*.py"))
        for imported in imports_of(path)
        if imported.split(".")[0] in NEVER_IN_ENGINE
    ]
    assert not wrong


@pytest.mark.parametrize(
    "module",
    ["engine.events", "engine.errors", "engine.request", "engine.api", "app.loading", "app.cli"],
)
def test_what_must_be_quick_does_not_bring_torch(module: str) -> None:
    code = (
        f"import sys, {module}; "
        "print([m for m in ('torch', 'transformers', 'gradio') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "[]"


def tracked_files() -> list[Path]:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        pytest.skip("not a git checkout: what is tracked is unknown")
    return [ROOT / name for name in done.stdout.decode().split("\0") if name]


FORBIDDEN = re.compile(
    "|".join(
        (
            r"(?<![\w./])/(?:work|home|root|Users|mnt|opt)/\w",  # a path of one machine
            r"[A-Za-z]:\\\\?Users\\",
            r"(?:--|\b)(?:extra-)?index-url\b\s*[= ]",  # where packages are fetched from
            r"https?://[^\s\"')]*/simple\b",
        )
    )
)


def test_no_machine_path_and_no_index_address_is_in_tracked_files() -> None:
    found = []
    for path in tracked_files():
        if path == Path(__file__).resolve() or not path.is_file():
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # weights and pictures
        found += [
            f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, match.start()) + 1}: {match.group()}"
            for match in FORBIDDEN.finditer(text)
        ]
    assert not found


def test_assets_and_tracked_files_stay_small() -> None:
    """They come with every copy of the app, and with every clone."""
    assets = [path for path in (ROOT / "assets").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in assets) < 45_000_000
    tracked = [path for path in tracked_files() if path.is_file()]
    assert sum(path.stat().st_size for path in tracked) < 70_000_000
