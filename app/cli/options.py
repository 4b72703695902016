"""Options that several commands share, so that a flag means the same everywhere."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from typer import Option

from app.main import DEFAULT_PAIR
from engine.api import LoadRequest
from engine.errors import ForetokenError, InvalidRequest
from engine.files import expanded
from engine.machine import devices
from engine.request import Control, controller_named
from engine.values import CHECKPOINT_MB, require
from engine.values.sampling import AcceptanceRule, Sampling

PairOption = Annotated[
    str,
    Option(
        "--pair",
        metavar="PAIR",
        help="pip, another pair of the catalog, or TARGET[::DRAFT] with folders or GGUF "
        "files. TARGET alone gets the best draft on this machine, TARGET:: none. Add a "
        "head with ::HEAD_PATH. Or a server: http://HOST:PORT[/v1][#MODEL].",
    ),
]
DataDirOption = Annotated[Path | None, Option("--data-dir", help="Folder of chats and settings.")]
PortOption = Annotated[
    int,
    Option(help="Port to listen on. Without this option: the first free one from the default on."),
]
QuantizationOption = Annotated[
    str,
    Option(
        help="auto (best for the model and machine), fp32, bf16, int8, q4 (4 bits, CPU), "
        "nf4 (4 bits, as bitsandbytes) or stored (GGUF: as in the file)."
    ),
]
ThreadsOption = Annotated[
    int | None,
    Option(help="CPU threads. Default: one per physical core, one for up to 32 MB of weights."),
]
LlamaCppOption = Annotated[
    Path | None,
    Option(envvar="FORETOKEN_LLAMA_CPP", help="Folder of a llama.cpp build, to compare."),
]
OpenVinoOption = Annotated[
    Path | None,
    Option(envvar="FORETOKEN_OPENVINO", help="Virtual environment with OpenVINO GenAI."),
]
OpenVinoModelsOption = Annotated[
    Path | None,
    Option(envvar="FORETOKEN_OPENVINO_MODELS", help="Folder of models converted for it."),
]
AcceptanceOption = Annotated[
    str, Option(help=f"Acceptance rule: {', '.join(AcceptanceRule)} (block verification).")
]
ControllerOption = Annotated[
    str | None,
    Option(
        help="auto (adapts the depth), fixed (always --depth) or off. Default: auto, or "
        "fixed with --depth."
    ),
]
NativeOption = Annotated[
    bool,
    Option("--native/--no-native", help="Use the compiled kernels on a CPU (fast), or PyTorch."),
]
DeviceOption = Annotated[
    str, Option(help="auto (a supported CUDA GPU, else the CPU), cpu or cuda.")
]
GraphsOption = Annotated[
    bool, Option("--cuda-graphs/--no-cuda-graphs", help="Capture GPU rounds as CUDA graphs.")
]
JsonOption = Annotated[bool, Option("--json", help="Print one JSON object as the last line.")]


def stated(context: typer.Context) -> frozenset[str]:
    """Return the options that the user gave on the command line or by a variable."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return frozenset(n for n, s in sources.items() if s is not None and "DEFAULT" not in s.name)


def no_use(option: str, given: object, *, without: str) -> None:
    """Raise InvalidRequest if an option was ``given`` that means nothing ``without`` another."""
    if given:
        raise InvalidRequest(
            option, f"{option} has no use without {without}. Add {without}, or leave it out."
        )


def check_gpu(option: str, value: object, *, needs: bool) -> None:
    """Raise InvalidRequest if the value of an option ``needs`` a GPU and there is none."""
    none = f"is {value}, but there is no NVIDIA driver here. Leave it out."
    require(not needs or devices.has_driver(), option, none)


@contextmanager
def about(option: str, field: str = "") -> Iterator[None]:
    """Raise errors of this block as errors of ``option``; with ``field``, only errors of that field."""
    try:
        yield
    except ForetokenError as error:
        if field and getattr(error, "field", "") != field:
            raise
        raise InvalidRequest(option, str(error)) from error


def control(text: str | None) -> Control | None:
    """Return the controller of that name, or None."""
    return None if text is None else controller_named(text)


def with_sampling(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the command's parameter ``sampling`` by one option per field of ``Sampling``.

    The command still receives one Sampling. Raises InvalidRequest for an invalid value.
    """
    return gathered(command, "sampling", Sampling, of_fields(Sampling))


def of_fields(kind: type[Any], **own: Any) -> list[inspect.Parameter]:
    """Return the fields of a dataclass, with their helps, as options; ``own`` has others in their
    place."""
    kinds = get_type_hints(kind)
    return [
        inspect.Parameter(
            each.name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=own.get(each.name) or Option(each.default, help=each.metadata["help"]),
            annotation=kinds[each.name],
        )
        for each in fields(kind)
    ]


def with_load(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the command's parameter ``load`` by the options of what is loaded, and how, but those that
    are parameters of its own.

    The command still receives one LoadRequest. Raises InvalidRequest for an invalid value.
    """
    named = inspect.signature(command).parameters
    every = inspect.signature(_options_of_load, eval_str=True).parameters.values()
    return gathered(command, "load", _parsed, [one for one in every if one.name not in named])


def _parsed(
    pair: str = DEFAULT_PAIR, head: Sequence[Path] | None = None, **settings: Any
) -> LoadRequest:
    from engine.drafting.heads import check

    with about("head"):
        for each in head or ():
            check(expanded(each))
    return LoadRequest.parse(pair, head or (), **settings)


def _options_of_load(
    pair: PairOption = DEFAULT_PAIR,
    head: list[Path] | None = Option(
        None, metavar="PATH", help="A head for the target, folder or GGUF file. Repeatable."
    ),
    quantization: QuantizationOption = "auto",
    kv_cache_dtype: str = Option(
        "auto", help="auto (same as the model) or fp8 (half the memory; CUDA GPUs)."
    ),
    context: int | None = Option(
        None,
        help="Context in tokens, 32 or more. Default: the model's own, at most 32,768, as far as it "
        "fits.",
    ),
    native: NativeOption = True,
    device: DeviceOption = "auto",
    draft_device: str = Option(
        "auto",
        help="Device of the draft model: auto (the target's; the CPU if both do not fit on the GPU), "
        "cpu or cuda.",
    ),
    gpu_layers: int | None = Option(
        None,
        min=1,
        help="Layers of the target on the GPU, the last ones; the CPU computes the others. Default: as "
        "many as fit.",
    ),
    cuda_graphs: GraphsOption = True,
    threads: ThreadsOption = None,
    parallel: int | None = Option(
        None,
        help="Parallel requests (compiled and CUDA kernels only); each needs memory for its context. "
        "Default: up to 4, as memory allows; 1 on a CUDA device.",
    ),
    checkpoint_mb: int = Option(
        CHECKPOINT_MB,
        min=0,
        help="MB per request for checkpoints of recurrent models such as Qwen3.5; an edited chat "
        "continues from them.",
    ),
) -> None:
    """Have the options of a load as parameters."""


def gathered(
    command: Callable[..., None],
    parameter: str,
    make: Callable[..., object],
    own: Sequence[inspect.Parameter] | None = None,
) -> Callable[..., None]:
    """Replace ``parameter`` of ``command`` by the options ``own``, else those of ``make``, which builds
    it from their values."""
    if own is None:
        own = [*inspect.signature(make, eval_str=True).parameters.values()]

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
