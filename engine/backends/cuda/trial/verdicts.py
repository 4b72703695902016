"""Keep what the trials found for this GPU, driver, compiler, code and model: later loads skip them."""

from __future__ import annotations

import atexit
import functools
import hashlib
import json
import logging
import subprocess
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path

import torch

from engine.backends.cuda.trial.findings import Finding
from engine.errors import DiskError, ForetokenError, KernelsFailed
from engine.files import read_json, write_private
from engine.kernels.formats import AS_STORED
from engine.machine import compilers
from engine.machine.devices import is_of_cuda, loses_gpu, nvidia_smi, ran_out
from engine.models.architecture import Architecture

log = logging.getLogger(__name__)

MOST_KEPT = 64
"""Verdicts in the file; the oldest go first."""
_MOST_BYTES = 4 << 20
_MOST_BEGUN = 2
"""Trials that began and never ended, after which they are taken for what ended the process."""
_CODE = ("engine/kernels/cuda", "engine/backends/cuda", "engine/kernels/formats")
_TRITON = ("triton", "pytorch-triton", "triton-windows")
"""Packages of Triton: its own, that of torch's nightly builds, and one for Windows."""
_ROOT = Path(__file__).parents[4]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found for a model on a machine.

    ``shape``: a hash of its architecture and quantisation. ``cached``: the dtype of its KV cache, and
    whether it is a target, whose sampling is tried too. ``begun``: how many trials did not end.
    """

    machine: str
    model: str
    shape: str
    cached: str
    findings: tuple[Finding, ...] = ()
    begun: int = 0

    @property
    def fault(self) -> str | None:
        """Return what is wrong with the kernels, as a sentence; None if nothing, or nothing is known."""
        for each in self.findings:
            if each.why:
                named = f"{each.kernel} ({each.shape})"
                return f"On this GPU, the kernel {named} failed its trial: {each.why}."
        if self.begun >= _MOST_BEGUN:
            return f"On this GPU, {self.begun} trials of the kernels ended the program."
        return None

    @property
    def passed(self) -> bool:
        return bool(self.findings) and self.fault is None

    def begin(self) -> Verdict:
        """Return and keep the verdict that counts if the trial ends this process; not if a user does."""
        begun = replace(self, findings=(), begun=self.begun + 1)
        keep(begun)
        atexit.register(forget, begun)
        return begun

    def end(self, findings: tuple[Finding, ...]) -> Verdict:
        """Return and keep the verdict of a trial that ended."""
        atexit.unregister(forget)
        ended = replace(self, findings=findings, begun=0)
        keep(ended)
        return ended


def known(
    architecture: Architecture,
    quantization: str,
    cached: str,
    model: str,
    blocks: Collection[str] = (),
) -> Verdict:
    """Return what is known of a model on this machine, whose name for people is ``model``.

    ``blocks``: see ``Support.why_not``.
    """
    empty = Verdict(machine(), model, shape_of(architecture, quantization, blocks), cached)
    return next((each for each in kept() if _same(each, empty)), empty)


def why_not(
    architecture: Architecture, quantization: str, blocks: Collection[str] = ()
) -> str | None:
    """Return why the kernels are not used for a model on this machine, as sentences, or None."""
    shape = shape_of(architecture, quantization, blocks)
    for each in kept():
        if (each.machine, each.shape) == (machine(), shape) and each.fault:
            return f"{each.fault} `foretoken diagnostics --gpu` prints all results."
    return None


def shape_of(architecture: Architecture, quantization: str, blocks: Collection[str] = ()) -> str:
    """Return ``Verdict.shape``; ``blocks`` count only if they are multiplied as they are stored."""
    formats = sorted(blocks) if quantization == AS_STORED else []
    text = repr((architecture, quantization, formats))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@contextmanager
def kernel_errors(verdict: Verdict | None) -> Iterator[None]:
    """Raise KernelsFailed for an error of the compiler or a launch, after which the GPU still works.

    The next load then runs without the kernels. Other errors pass: expected ones, full memory, and a
    GPU that is lost, which is for ``device_errors``.
    """
    try:
        yield
    except ForetokenError:
        raise
    except Exception as error:  # Triton raises what it likes
        of_triton = "triton" in type(error).__module__
        if ran_out(error) or loses_gpu(error) or not (of_triton or is_of_cuda(error)):
            raise
        log.exception("A kernel failed")
        why = f"it does not run ({type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]})"
        if verdict is not None:
            verdict.end((*verdict.findings, Finding("of a reply", verdict.cached, 0.0, 0.0, why)))
        raise KernelsFailed(
            f"A kernel failed on the GPU: {why}. What was written is kept. Load the model again: it then "
            "runs with PyTorch operations."
        ) from error


_unwritten: list[Verdict] = []
"""Verdicts of this process alone: the disk did not take them, or what they found may pass."""


def kept() -> list[Verdict]:
    """Return all verdicts that are stored, the newest first; none that cannot be read."""
    from pydantic import TypeAdapter  # which takes a tenth of a second

    stored = list[Verdict]()
    try:
        found = read_json(_file(), _MOST_BYTES)
        stored = TypeAdapter(list[Verdict]).validate_python(found)[:MOST_KEPT]
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        log.warning("The results of kernel trials in %s cannot be read: %s", _file(), error)
    return [
        *_unwritten,
        *(each for each in stored if not any(_same(each, own) for own in _unwritten)),
    ]


def keep(verdict: Verdict) -> None:
    """Store a verdict in place of an earlier one of the same trial."""
    _store([verdict, *(each for each in kept() if not _same(each, verdict))])


def forget(verdict: Verdict | None = None) -> None:
    """Remove a verdict, or all of them: then trials run again."""
    atexit.unregister(forget)
    _store([] if verdict is None else [each for each in kept() if not _same(each, verdict)])


def _store(verdicts: list[Verdict]) -> None:
    """Keep these verdicts and no others."""
    passing = [each for each in verdicts if any(one.passing for one in each.findings)]
    lasting = [asdict(each) for each in verdicts if each not in passing]
    try:
        write_private(_file(), json.dumps(lasting[:MOST_KEPT]))
        _unwritten[:] = passing
    except DiskError as error:
        log.warning("The results of kernel trials could not be stored: %s", error)
        _unwritten[:] = verdicts


def _same(one: Verdict, other: Verdict) -> bool:
    return (one.machine, one.shape, one.cached) == (other.machine, other.shape, other.cached)


def _file() -> Path:
    return compilers.cache_folder() / "gpu-trials.json"


@functools.cache
def machine() -> str:
    """Name all that a kernel's results depend on beside the model: GPU, driver, compilers and code."""
    gpu = f"No GPU that PyTorch can use, driver {_driver()}"
    if torch.cuda.is_available():
        major, minor = torch.cuda.get_device_capability()
        gpu = f"{torch.cuda.get_device_name()} ({major}.{minor}), driver {_driver()}"
    for name in _TRITON:
        with suppress(metadata.PackageNotFoundError):
            gpu += f", Triton {metadata.version(name)}"
    return f"{gpu}, torch {torch.__version__}, kernels {_code_version()}"


def _driver() -> str:
    """Return the driver's version as nvidia-smi tells it, since WSL has no file of it; else that of CUDA
    which the driver has, or "none"."""
    command = [nvidia_smi() or "nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        told = subprocess.run(
            command, capture_output=True, text=True, timeout=20, check=True,
            creationflags=compilers.QUIETLY,
        ).stdout  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        told = ""
    cuda = getattr(torch._C, "_cuda_getDriverVersion", int)()  # 0 without a driver
    return (told.split() or [f"of CUDA {cuda}" if cuda else "none"])[0]


def _code_version() -> str:
    """Return a hash of the source that computes on a GPU."""
    digest = hashlib.sha256()
    for folder in _CODE:
        for path in sorted((_ROOT / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:8]
