"""``foretoken compiler``: what compiles the step, and a compiler for a machine that has none."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from engine.machine.compilers import Compiler


def compiler(
    fetch: Annotated[
        bool, typer.Option("--fetch", help="Download a compiler (package ziglang) if none works.")
    ] = False,
) -> None:
    """Show which C++ compiler builds the kernels that make models fast on a CPU."""
    from engine.backends.native import build
    from engine.machine import compilers

    if fetch:
        _ensure_compiler()
    candidates = compilers.found()
    if not candidates:
        raise compilers.NoCompiler()
    print(f"Compilers, in the order they are tried: {', '.join(map(str, candidates))}.")
    path = build.built()
    print(
        "The kernels have not been compiled yet."
        if path is None
        else f"The compiled kernels are in {path}."
    )


def _ensure_compiler() -> None:
    """Compile the step, with a downloaded compiler if there is no other. Raises BuildError."""
    from engine.machine import compilers

    try:
        _compile(compilers.found())
        print("Nothing to download: a compiler is installed.")
        return
    except compilers.NoCompiler:
        pass
    except compilers.BuildError as error:
        print(f"No compiler works: {error}")
    folder = compilers.folder()
    print(f"Downloading {compilers.WHEEL} ({compilers.SIZE}) into {folder} ...", flush=True)
    start = time.monotonic()
    fetched = compilers.fetch()
    print(
        f"Downloaded in {time.monotonic() - start:.0f} s. Keep it: it is needed again "
        "after updates."
    )
    _compile([fetched])
    print(f"The compiler takes {_size(folder)}. To remove it, delete that folder.")


def _compile(candidates: Sequence[Compiler]) -> None:
    """Compile the step and check that it loads. Raises BuildError."""
    from app.cli.loading import Status
    from engine.backends.native import build
    from engine.machine import compilers

    start = time.monotonic()
    with Status() as status:
        status.say("Compiling the kernels; the first time may take minutes ...")
        path = build.build(candidates=candidates)
        if build.load(path) is None:
            raise compilers.BuildError(f"{path} was built, but cannot be loaded on this system.")
    print(f"The compiled kernels were ready in {time.monotonic() - start:.0f} s.")


def _size(folder: Path) -> str:
    from engine.values.units import format_bytes

    return format_bytes(sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()))
