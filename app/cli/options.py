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
from engine.errors import InvalidRequest, what_failed
from engine.request import Control, controller_named
from engine.values import CHECKPOINT_MB
from engine.values.sampling import AcceptanceRule, Sampling

_LONGEST_KEY = 4096
_KEY_IS_SEEN = (
    "Other accounts on this machine can see --api-key in the process list. Use "
    "--api-key-file FILE or the variable FORETOKEN_API_KEY instead."
)

PairOption = Annotated[
    str,
    typer.Option(
        "--pair",
        metavar="PAIR",
        help="pip, another pair of the catalog, or TARGET[::DRAFT] with folders or GGUF "
        "files. TARGET alone gets the best draft on this machine, TARGET:: none. Add a "
        "head with ::HEAD_PATH. Or a server: http://HOST:PORT[/v1][#MODEL].",
    ),
]
HeadOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--head",
        metavar="PATH",
        help="A head for the target, folder or GGUF file. Repeatable.",
    ),
]
DataDirOption = Annotated[
    Path | None, typer.Option("--data-dir", help="Folder of chats and settings.")
]
HostOption = Annotated[
    str, typer.Option(help="Address to listen on; 127.0.0.1 = this machine only.")
]
PortOption = Annotated[
    int,
    typer.Option(
        help="Port to listen on. Without this option: the first free one from the default on."
    ),
]
ApiKeyOption = Annotated[
    str | None,
    typer.Option(
        "--api-key",
        envvar="FORETOKEN_API_KEY",
        help="Key for the API and the pages; required if other machines can connect. Other "
        "accounts can see it on the command line: prefer --api-key-file or the "
        "environment variable.",
    ),
]
ApiKeyFileOption = Annotated[
    Path | None,
    typer.Option("--api-key-file", metavar="FILE", help="A file with the API key on one line."),
]
OriginOption = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-origin",
        help="A website whose pages may use the API, such as https://name. Repeatable.",
    ),
]
TlsCertOption = Annotated[
    Path | None,
    typer.Option(
        "--tls-cert",
        metavar="FILE",
        help="Serve HTTPS with this certificate (PEM); needs --tls-key.",
    ),
]
TlsKeyOption = Annotated[
    Path | None, typer.Option("--tls-key", metavar="FILE", help="The certificate's private key.")
]
QuantizationOption = Annotated[
    str,
    typer.Option(
        help="auto (best for the model and machine), fp32, bf16, int8, q4 (4 bits, CPU), "
        "nf4 (4 bits, as bitsandbytes) or stored (GGUF: as in the file)."
    ),
]
KVCacheOption = Annotated[
    str,
    typer.Option(
        "--kv-cache-dtype",
        help="auto (same as the model) or fp8 (half the memory; CUDA GPUs).",
    ),
]
ContextOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Context in tokens. Default: the model's own, at most 32,768, as far as it fits.",
    ),
]
ThreadsOption = Annotated[
    int | None, typer.Option(help="CPU threads. Default: one per physical core.")
]
LlamaCppOption = Annotated[
    Path | None,
    typer.Option(envvar="FORETOKEN_LLAMA_CPP", help="Folder of a llama.cpp build, to compare."),
]
IkLlamaCppOption = Annotated[
    Path | None,
    typer.Option(
        envvar="FORETOKEN_IK_LLAMA_CPP", help="Folder of an ik_llama.cpp build, to compare."
    ),
]
MistralRsOption = Annotated[
    Path | None,
    typer.Option(envvar="FORETOKEN_MISTRALRS", help="Virtual environment with mistral.rs."),
]
OpenVinoOption = Annotated[
    Path | None,
    typer.Option(envvar="FORETOKEN_OPENVINO", help="Virtual environment with OpenVINO GenAI."),
]
OpenVinoModelsOption = Annotated[
    Path | None,
    typer.Option(envvar="FORETOKEN_OPENVINO_MODELS", help="Folder of models converted for it."),
]
ParallelOption = Annotated[
    int | None,
    typer.Option(
        help="Parallel requests (compiled kernels only); each needs memory for its context. "
        "Default: up to 4, as memory allows."
    ),
]
CheckpointOption = Annotated[
    int,
    typer.Option(
        min=0,
        help="MB per request for checkpoints of recurrent models such as Qwen3.5; an edited "
        "chat continues from them.",
    ),
]
AcceptanceOption = Annotated[
    str, typer.Option(help=f"Acceptance rule: {', '.join(AcceptanceRule)} (block verification).")
]
ControllerOption = Annotated[
    str | None,
    typer.Option(
        help="auto (adapts the depth), fixed (always --depth) or off. Default: auto, or "
        "fixed with --depth."
    ),
]


NativeOption = Annotated[
    bool,
    typer.Option(
        "--native/--no-native",
        help="Use the compiled kernels on a CPU (fast), or PyTorch.",
    ),
]


IdleUnloadOption = Annotated[
    float | None,
    typer.Option(
        "--idle-unload",
        metavar="MINUTES",
        min=0.01,
        help="Unload a model after this time without a request for it; the next request loads "
        "it again.",
    ),
]


ModelsMaxOption = Annotated[
    int,
    typer.Option(
        "--models-max",
        metavar="N",
        min=1,
        max=16,
        help="Keep up to N models in memory, if they fit. Of the idle ones the least recently used is "
        "unloaded first.",
    ),
]


DeviceOption = Annotated[
    str, typer.Option(help="auto (a supported CUDA GPU, else the CPU), cpu or cuda.")
]
GraphsOption = Annotated[
    bool,
    typer.Option(
        "--cuda-graphs/--no-cuda-graphs",
        help="Capture GPU rounds as CUDA graphs.",
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
        raise InvalidRequest(
            "api_key_file", f"{file} cannot be read: {what_failed(error)}."
        ) from error
    if typed or not key.isprintable() or len(key.split()) != 1 or len(key) > _LONGEST_KEY:
        both = "Give --api-key or --api-key-file, not both."
        raise InvalidRequest(
            "api_key_file", both if typed else f"{file} does not hold a key (one word)."
        )
    if mode & 0o077 and os.name != "nt":
        print(
            f"Note: other accounts may be able to read {file}. Run: chmod 600 {file}",
            file=sys.stderr,
        )
    return key


def certificate_of(certificate: Path | None, key: Path | None) -> tuple[Path, Path] | None:
    """Return both files, or None if neither is given. Raises InvalidRequest for one alone."""
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise InvalidRequest("tls_cert", "HTTPS needs both --tls-cert FILE and --tls-key FILE.")
    return certificate.expanduser(), key.expanduser()


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
    """Replace the command's parameter ``load`` by the options of what is loaded, and how, but those that
    are parameters of its own.

    The command still receives one LoadRequest. Raises InvalidRequest for an invalid value.
    """
    every = [
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

    def load(
        pair: str = DEFAULT_PAIR, head: list[Path] | None = None, **settings: Any
    ) -> LoadRequest:
        return LoadRequest.parse(pair, head or (), **settings)

    named = inspect.signature(command).parameters
    return _gathered(command, "load", [one for one in every if one.name not in named], load)


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
