"""A report for finding faults: versions, machine, compiled step, pair, errors.

Nothing private: no chats, no key, and the home folder is written ``~``.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path

from app.web.recent_errors import LoggedError
from engine.api import Loaded
from engine.backends.native import build
from engine.errors import ForetokenError
from engine.machine import cgroups, compilers, devices, memory, processor, threads
from engine.values.units import format_bytes

LIBRARIES = (
    "torch", "transformers", "gradio", "tokenizers", "safetensors", "llguidance", "triton",
)  # fmt: skip
HIDDEN = "(hidden)"

Section = tuple[str, list[tuple[str, str]]]
"""A heading, and names with values."""


def report(
    loaded: Loaded | None,
    folders: dict[str, Path],
    complaints: Sequence[LoggedError] = (),
    *,
    chosen: Iterable[tuple[str, str]] = (),
    secrets: Iterable[str | None] = (),
) -> str:
    """Return the report as text. ``chosen``: more facts of the pair; ``HIDDEN`` replaces ``secrets``."""
    sections: list[Section] = [
        ("Foretoken", versions()),
        ("Machine", machine()),
        ("Compiled kernels", _compiled()),
        ("Pair", _pair(loaded, chosen)),
        ("Folders", [(name, str(path)) for name, path in folders.items()]),
    ]
    lines = [
        line
        for heading, rows in sections
        for line in ("", heading, *(f"  {name}: {value}" for name, value in rows))
    ]
    lines += ["", "Last warnings and errors", *(map(str, complaints) if complaints else ["none"])]
    text = "\n".join(lines)
    for secret in filter(None, secrets):
        text = text.replace(secret, HIDDEN)
    return shortened(text).strip() + "\n"


def gpu_here() -> str:
    """Return the GPU with its driver, Triton, torch and the kernels' version."""
    from engine.backends.cuda.trial import verdicts  # brings torch

    return verdicts.machine()


def gpu_trials() -> str:
    """Return what the trials of the GPU's kernels found on this machine, as tables for a bug report;
    empty if no model was tried."""
    from engine.backends.cuda.trial import verdicts  # brings torch

    lines = []
    for verdict in verdicts.kept():
        if verdict.machine != verdicts.machine():
            continue
        lines += ["", f"{verdict.model}, KV cache {verdict.cached}: {verdict.fault or 'right'}"]
        rows = [("kernel", "shape", "worst error", "ms", "result")]
        rows += [
            (each.kernel, each.shape, f"{each.error:.1e}", f"{each.ms:.2f}", each.result)
            for each in verdict.findings
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines += ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return shortened("\n".join(lines))


def why_no_trial() -> str | None:
    """Return why kernels cannot be tried on a GPU here, with what runs instead; None if they can."""
    reason = devices.why_no_gpu()
    if reason is not None:
        return f"No GPU can be tested here, so models run on the CPU. {reason}"
    device = devices.choose("cuda")
    return None if device.kernels else shortened(" ".join(device.notes))


def forget_trials() -> None:
    """Remove what the trials found, so that the next load of each model tries again."""
    from engine.backends.cuda.trial import verdicts

    verdicts.forget()


def devices_here() -> dict[str, str | None]:
    """Return every device with None, or with the reason why it is not available.

    Before torch is there, which takes seconds to import, nothing is known to be missing.
    """
    missing = devices.why_no_gpu() if "torch" in sys.modules else None
    return {name: missing if name == "cuda" else None for name in devices.DEVICES}


def thread_limits() -> tuple[int, int]:
    """Return the default and the largest number of threads."""
    return threads.default(), threads.largest()


def cache_folder() -> Path:
    """Return the folder of the compiled step and of a downloaded compiler."""
    return compilers.cache_folder()


def packed_weights() -> str:
    """Return in a sentence how large the part of ``cache_folder`` may become that a load fills."""
    from engine.backends.native import cache  # not for --help: it brings numpy

    return cache.bound()


def versions() -> list[tuple[str, str]]:
    """Return the versions of the app, of Python and of libraries."""
    rows = [("foretoken", _version("foretoken") or "?"), ("Python", platform.python_version())]
    return rows + [(name, found) for name in LIBRARIES if (found := _version(name))]


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def machine() -> list[tuple[str, str]]:
    """Return the system, processor, threads, memory and GPU."""
    default, most = thread_limits()
    share = cgroups.cpu_share()
    rows = [
        ("system", platform.platform()),
        ("processor", processor.name()),
        ("instructions", " ".join(processor.instructions()) or "unknown on this system"),
        ("threads", f"{default} by default, at most {most}"),
        (
            "memory",
            f"{format_bytes(memory.free_bytes())} of {format_bytes(memory.total_bytes())} free",
        ),
    ]
    if share is not None:
        rows.append(("container's share", f"{share:g} processors"))
    rows += [(name, os.environ[name]) for name in ("OMP_NUM_THREADS",) if name in os.environ]
    return [*rows, ("GPU", _gpu())]


def _gpu() -> str:
    """Describe the GPU, if torch is imported already, which takes seconds."""
    if "torch" not in sys.modules:
        return "not checked: nothing is loaded"
    facts = devices.look()
    if facts.count:
        capability = ".".join(map(str, facts.capability))
        return f"{facts.count} x {facts.name}, compute capability {capability}"
    return "none" + (f": {facts.problem}" if facts.problem else "")


def _compiled() -> list[tuple[str, str]]:
    found = compilers.found()
    rows = [("compilers", ", ".join(map(str, found)) or "none found")]
    if found:
        try:
            lines = found[0].version().decode(errors="replace").splitlines()
        except ForetokenError as error:
            lines = [str(error)]
        rows.append(("first one", lines[0] if lines else "?"))
    path = build.built()
    return [*rows, ("built", "not yet" if path is None else path.name)]


def _pair(loaded: Loaded | None, chosen: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    if loaded is None:
        return [("loaded", "nothing"), *chosen]
    request = loaded.request
    rows = [
        ("loaded", loaded.name),
        ("target", f"{loaded.target}, {loaded.quantization}, KV cache {loaded.kv_cache_dtype}"),
        ("draft", loaded.draft or "none"),
        ("heads", ", ".join(loaded.heads) or "none"),
        ("computed", f"on {loaded.device}{', compiled' if loaded.compiled else ', not compiled'}"),
        ("context", f"{loaded.context:,} tokens"),
        ("parameters", f"{loaded.parameters:,}"),
        ("asked for", f"device {request.device}, threads {request.threads or 'default'}, "
         f"weights {request.quantization}, compiled kernels {'on' if request.native else 'off'}"),
        ("drafts by", f"{loaded.capabilities.preferred}; has {', '.join(loaded.capabilities.names)}"),
    ]  # fmt: skip
    return [*rows, *(("note", note) for note in loaded.notes), *chosen]


def shortened(text: str) -> str:
    """Return ``text`` with the home folder as ``~`` and other users' names left out of paths."""
    home = str(Path.home())
    if home not in ("/", ""):
        text = text.replace(home, "~")
    return re.sub(r"(/home/|/Users/|[A-Za-z]:\\Users\\)[^/\\\s]+", r"\1(user)", text)
