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
        bool, typer.Option("--fetch", help="Download one if none works here: the wheel ziglang.")
    ] = False,
) -> None:
    """Show what compiles the step for this processor, which makes models on a CPU fast."""
    from engine.backends.native import build
    from engine.machine import compilers

    if fetch:
        _ensure_compiler()
    candidates = compilers.found()
    if not candidates:
        raise compilers.NoCompiler()
    print(f"Compilers, in the order in which they are tried: {', '.join(map(str, candidates))}.")
    path = build.built()
    print("The step is not compiled yet." if path is None else f"The step is in {path}.")


def _ensure_compiler() -> None:
    """Compile the step, with a downloaded compiler if there is no other. Raises BuildError."""
    from engine.machine import compilers

    try:
        _compile(compilers.found())
        print("Nothing was downloaded: a compiler is there.")
        return
    except compilers.NoCompiler:
        pass
    except compilers.BuildError as error:
        print(f"No compiler here will do: {error}")
    folder = compilers.folder()
    print(f"Downloading {compilers.WHEEL} ({compilers.SIZE}) into {folder} ...", flush=True)
    start = time.monotonic()
    fetched = compilers.fetch()
    print(f"Downloaded in {time.monotonic() - start:.0f} s. It has to stay there to be of use.")
    _compile([fetched])
    print(f"The compiler takes {_size(folder)}. To be rid of it, remove that folder.")


def _compile(candidates: Sequence[Compiler]) -> None:
    """Compile the step and check that it loads. Raises BuildError."""
    from app.cli.loading import Status
    from engine.backends.native import build
    from engine.machine import compilers

    start = time.monotonic()
    with Status() as status:
        status.say("Compiling the step; the first time up to some minutes ...")
        path = build.build(candidates=candidates)
        if build.load(path) is None:
            raise compilers.BuildError(f"{path} was compiled, and this system does not load it.")
    print(f"The step was ready in {time.monotonic() - start:.0f} s.")


def _size(folder: Path) -> str:
    from engine.values.units import format_bytes

    return format_bytes(sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()))
