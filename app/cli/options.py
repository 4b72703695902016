"""Options that several commands share, so that a flag means the same everywhere."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from app.main import DEFAULT_PAIR
from engine.api import LoadRequest
from engine.errors import InvalidRequest
from engine.request import Control, controller_named
from engine.values import CHECKPOINT_MB
from engine.values.sampling import AcceptanceRule, Sampling

_LONGEST_KEY = 4096
_KEY_IS_SEEN = (
    "Every account of this machine can see the key of --api-key in the list of processes. Give it by "
    "--api-key-file FILE or the variable FORETOKEN_API_KEY instead."
)

PairOption = Annotated[
    str,
    typer.Option(
        "--pair",
        metavar="PAIR",
        help="pip, another pair of the catalog, or TARGET[::DRAFT], folders or GGUF files; TARGET alone "
        "gets the draft that suits it best here, TARGET:: none. A head is added as ::HEAD_PATH. Or a "
        "server: http://HOST:PORT[/v1][#MODEL].",
    ),
]
HeadOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--head",
        metavar="PATH",
        help="A head trained for the target, a folder or GGUF file, added to the pair. Repeatable.",
    ),
]
DataDirOption = Annotated[
    Path | None, typer.Option("--data-dir", help="Where chats and settings are kept.")
]
HostOption = Annotated[
    str, typer.Option(help="The address to listen on; 127.0.0.1 is this machine only.")
]
PortOption = Annotated[
    int,
    typer.Option(
        help="The port, which must be free. Left out, it is the next free one from here on."
    ),
]
ApiKeyOption = Annotated[
    str | None,
    typer.Option(
        "--api-key",
        envvar="FORETOKEN_API_KEY",
        help="The key that API clients must send and the pages ask for; needed beyond this machine. On "
        "the command line other accounts can see it: use --api-key-file or the variable.",
    ),
]
ApiKeyFileOption = Annotated[
    Path | None,
    typer.Option("--api-key-file", metavar="FILE", help="A file whose only line is the API key."),
]
OriginOption = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-origin", help="A website whose pages may use the API, as https://name. Repeatable."
    ),
]
QuantizationOption = Annotated[
    str,
    typer.Option(
        help="auto (what suits model and machine), fp32, bf16, int8, q4 (4 bits, on a CPU), nf4 (as "
        "bitsandbytes') or, for GGUF files, stored: multiplied as the file has them."
    ),
]
KVCacheOption = Annotated[
    str,
    typer.Option(
        "--kv-cache-dtype",
        help="auto (as the model computes), or fp8: half the memory, for the target on a CUDA GPU.",
    ),
]
ContextOption = Annotated[
    int | None,
    typer.Option(
        min=1, help="Tokens of context to take memory for. Default: the model's own, up to 32,768."
    ),
]
ThreadsOption = Annotated[
    int | None, typer.Option(help="Threads that compute. Default: one for each physical core.")
]
ParallelOption = Annotated[
    int | None,
    typer.Option(
        help="Requests that run at once, where the compiled step runs the model; each takes memory for "
        "a context. Default: up to 4, as memory allows."
    ),
]
CheckpointOption = Annotated[
    int,
    typer.Option(
        min=0,
        help="MB of each request's slot for earlier states of a model with recurrent layers, such as "
        "Qwen3.5: an edited chat goes on from there. Other models need none.",
    ),
]
AcceptanceOption = Annotated[
    str, typer.Option(help=f"How drafted tokens are judged: {', '.join(AcceptanceRule)}.")
]
ControllerOption = Annotated[
    str | None,
    typer.Option(
        help="Who decides how far to draft: auto (by measuring), fixed (always --depth) or off. "
        "Default: auto, or fixed where --depth is given."
    ),
]


NativeOption = Annotated[
    bool,
    typer.Option(
        "--native/--no-native",
        help="Whether models on a CPU run in the step that is compiled for this processor.",
    ),
]


IdleUnloadOption = Annotated[
    float | None,
    typer.Option(
        "--idle-unload",
        metavar="MINUTES",
        min=0.01,
        help="Free the models' memory after so long without a request; the next one loads them again.",
    ),
]


DeviceOption = Annotated[
    str, typer.Option(help="auto (a CUDA GPU if there is one that can), cpu or cuda.")
]
GraphsOption = Annotated[
    bool,
    typer.Option(
        "--cuda-graphs/--no-cuda-graphs",
        help="Whether rounds on a GPU are captured once and replayed.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line.")]


def stated(context: typer.Context) -> frozenset[str]:
    """Return the options that the user gave on the command line or by a variable."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return frozenset(n for n, s in sources.items() if s is not None and "DEFAULT" not in s.name)


def key_of(context: typer.Context, key: str | None, file: Path | None) -> str | None:
    """Return the API key; warn where others can read it. Raises InvalidRequest for a file without one."""
    source = context.get_parameter_source("api_key")
    typed = source is not None and source.name == "COMMANDLINE"
    if file is None:
        if typed:
            print(f"Note: {_KEY_IS_SEEN}", file=sys.stderr)
        return key
    try:
        with file.expanduser().open(encoding="utf-8") as opened:
            key = opened.read(_LONGEST_KEY + 1).strip()
            mode = os.fstat(opened.fileno()).st_mode
    except (OSError, ValueError) as error:
        raise InvalidRequest("api_key_file", f"{file} cannot be read: {error}.") from error
    if typed or not key.isprintable() or len(key.split()) != 1 or len(key) > _LONGEST_KEY:
        both = "Give --api-key or --api-key-file, not both."
        raise InvalidRequest("api_key_file", both if typed else f"{file} holds no key: one word.")
    if mode & 0o077 and os.name != "nt":
        print(f"Note: Other accounts may read the key in {file}: chmod 600 {file}", file=sys.stderr)
    return key


def control(text: str | None) -> Control | None:
    """Return the controller of that name, or None."""
    return None if text is None else controller_named(text)


def with_sampling(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the command's parameter ``sampling`` by one option per field of ``Sampling``.

    The command still receives one Sampling. Raises InvalidRequest for an invalid value.
    """
    kinds = get_type_hints(Sampling)
    own = [
        _option(
            each.name,
            each.default,
            Annotated[kinds[each.name], typer.Option(help=each.metadata["help"])],
        )
        for each in fields(Sampling)
    ]
    return _gathered(command, "sampling", own, Sampling)


def with_load(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the command's parameter ``load`` by the options of what is loaded, and how.

    The command still receives one LoadRequest. Raises InvalidRequest for an invalid value.
    """
    own = [
        _option("pair", DEFAULT_PAIR, PairOption),
        _option("head", None, HeadOption),
        _option("quantization", "auto", QuantizationOption),
        _option("kv_cache_dtype", "auto", KVCacheOption),
        _option("context", None, ContextOption),
        _option("native", True, NativeOption),
        _option("device", "auto", DeviceOption),
        _option("cuda_graphs", True, GraphsOption),
        _option("threads", None, ThreadsOption),
        _option("parallel", None, ParallelOption),
        _option("checkpoint_mb", CHECKPOINT_MB, CheckpointOption),
    ]

    def load(pair: str, head: list[Path] | None, **settings: Any) -> LoadRequest:
        return LoadRequest.parse(pair, head or (), **settings)

    return _gathered(command, "load", own, load)


def _option(name: str, default: object, kind: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=kind
    )


def _gathered(
    command: Callable[..., None],
    parameter: str,
    own: Sequence[inspect.Parameter],
    make: Callable[..., object],
) -> Callable[..., None]:
    """Replace ``parameter`` of ``command`` by the options ``own``; ``make`` builds it from their
    values."""

    @wraps(command)
    def wrapper(**values: Any) -> None:
        chosen = {each.name: values.pop(each.name) for each in own}
        command(**values, **{parameter: make(**chosen)})

    written = inspect.signature(command, eval_str=True)
    parameters: list[inspect.Parameter] = []
    for name, each in written.parameters.items():
        parameters += own if name == parameter else (each,)
    wrapper.__signature__ = written.replace(parameters=parameters)  # type: ignore[attr-defined]
    return wrapper
