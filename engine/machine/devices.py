"""Choose the device of models: CUDA if a GPU is usable, else the CPU; explain the choice to people.

Imports torch only when it is asked.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import DeviceLost, InvalidRequest, OutOfMemory
from engine.values import require

if TYPE_CHECKING:
    import torch

DEVICES = ("auto", "cpu", "cuda")
LEAST_CAPABILITY = (8, 0)
"""Ampere: from here on tensor cores take bf16."""
FP8_CAPABILITY = (8, 9)
"""Ada: from here on a GPU converts e4m3."""

_NO_MEMORY = ("out of memory", "can't allocate memory", "alloc_failed", "cublas_status_not_init")
"""Texts in the messages of CUDA and Triton, of torch's CPU allocator, and of cuBLAS, whose handle is the
first to find no room on a full GPU."""
_CUDA = (
    "CUDA error", "CUDA driver error", "cudaError", "Triton Error [CUDA]", "CUBLAS_STATUS", "CUDNN_STATUS"
)  # fmt: skip
"""Texts in RuntimeErrors of torch, Triton and CUDA's libraries that quote the driver."""
_REFUSED = {
    1: "invalid argument", 9: "invalid configuration argument", 98: "invalid device function",
    200: "device kernel image is invalid", 218: "a PTX JIT compilation failed",
    209: "no kernel image is available for execution on the device",
    222: "the provided PTX was compiled with an unsupported toolchain",
    701: "too many resources requested for launch", 801: "operation not supported",
}  # fmt: skip
"""Errors of a launch that did not begin, by CUDA's numbers (driver_types.h): the GPU still works. Any
other one may be of a kernel that ran, after which CUDA refuses every call."""
_CAPTURING = range(900, 909)
"""Errors of a capture, in which nothing runs."""
_HAS_NONE = ("STATUS_NOT_SUPPORTED", "STATUS_INVALID_VALUE", "STATUS_BAD_PARAM")
"""cuBLAS and cuDNN have no operation of such sizes: they launched nothing."""

_LEAST_DRIVERS = {11: 450, 12: 525, 13: 580}
"""Of each CUDA, the oldest driver that its programs run on (NVIDIA's CUDA Compatibility)."""

_WSL = "/usr/lib/wsl/lib"
"""Where WSL puts the driver's libraries and programs."""

_lost: set[str] = set()


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts from torch and the system. ``problem``: why a torch built with CUDA has none.

    ``built_for``: what it has code for, as sm_90 or compute_120; empty where that is not known.
    ``missing``: what Triton lacks to build its launchers with, if anything.
    """

    built_with_cuda: bool
    has_driver: bool
    count: int = 0
    name: str = ""
    capability: tuple[int, int] = (0, 0)
    triton: bool = False
    problem: str = ""
    lost: bool = False
    built_for: tuple[str, ...] = ()
    missing: str = ""


@dataclass(frozen=True, slots=True)
class Device:
    """A device for models. ``notes`` are sentences for people.

    ``kernels``: whether Triton's run there; ``bf16``: whether it multiplies bf16 itself; ``fp8``:
    whether it converts e4m3. ``native``: whether the step that is compiled for a CPU may be used;
    ``cuda_graphs``: whether rounds on a GPU may be captured. ``threads`` that compute on the CPU; None
    is one for each physical core. ``lacks``: why a GPU has no kernels, as a clause.
    """

    torch_device: torch.device
    kernels: bool = False
    bf16: bool = True
    fp8: bool = True
    notes: tuple[str, ...] = ()
    native: bool = True
    cuda_graphs: bool = True
    threads: int | None = None
    lacks: str = ""

    @property
    def is_gpu(self) -> bool:
        """True for a GPU, and for a CPU that interprets a GPU's kernels."""
        return self.kernels or self.torch_device.type == "cuda"

    @property
    def cpu(self) -> Device:
        """The CPU of this machine, with the same settings."""
        import torch

        return Device(
            torch.device("cpu"),
            native=self.native,
            cuda_graphs=self.cuda_graphs,
            threads=self.threads,
        )


def choose(
    wanted: str = "auto",
    *,
    native: bool = True,
    cuda_graphs: bool = True,
    threads: int | None = None,
) -> Device:
    """Return the device for ``wanted``: auto, cpu or cuda. The other parameters are as in ``Device``.

    Raises InvalidRequest for an unknown one, and for cuda where there is none, with the reason.
    """
    import torch

    cpu = check(wanted) == "cpu"
    device = Device(torch.device("cpu")) if cpu else decide(wanted, look())
    return replace(device, native=native, cuda_graphs=cuda_graphs, threads=threads)


def check(wanted: str) -> str:
    """Return ``wanted`` if it names a device. Raises InvalidRequest."""
    require(wanted in DEVICES, "device", f"is {wanted!r}; it must be one of {', '.join(DEVICES)}.")
    return wanted


def ran_out(error: BaseException) -> bool:
    """Return True if ``error`` is an out-of-memory error of any library."""
    import torch

    if isinstance(error, OutOfMemory | torch.OutOfMemoryError | MemoryError):
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and any(words in text for words in _NO_MEMORY)


def is_of_cuda(error: BaseException) -> bool:
    """Return True if the driver, or a library of CUDA's, reported ``error``."""
    import torch

    text = str(error)
    of_torch = isinstance(error, torch.AcceleratorError)
    return of_torch or (isinstance(error, RuntimeError) and any(words in text for words in _CUDA))


def loses_gpu(error: BaseException) -> bool:
    """Return True if this process has no GPU any more after ``error``."""
    if not is_of_cuda(error) or ran_out(error):
        return False
    line = (str(error).splitlines() or [""])[0].rstrip(" .")
    code = getattr(error, "error_code", None)  # of torch's errors on a GPU
    if code is not None:
        return code not in _REFUSED and code not in _CAPTURING
    refused = line.endswith(tuple(_REFUSED.values())) or "captur" in line
    return not (refused or any(words in line for words in _HAS_NONE))


def is_lost(kind: str) -> bool:
    """Return True if a device of this kind, such as ``cuda``, failed in this process."""
    return kind in _lost


@contextmanager
def device_errors(device: torch.device) -> Iterator[None]:
    """Raise DeviceLost for an error after which this process has no GPU any more.

    Other errors pass, among them memory that runs out (see ``engine.machine.device_memory``).
    """
    try:
        yield
    except RuntimeError as error:
        if not loses_gpu(error):
            raise
        _lost.add(device.type)  # CUDA refuses every call from now on
        raise DeviceLost(
            f"The GPU stopped responding ({str(error).splitlines()[0]}). Its memory is "
            "lost; your chats are kept. Load the model again: it then runs on the CPU. To "
            "use the GPU again, restart Foretoken, and the machine if nvidia-smi does not "
            "find the GPU."
        ) from error


def look() -> Facts:
    """Query torch and the system; this takes some milliseconds."""
    import torch

    built, lost = torch.version.cuda is not None, is_lost("cuda")
    driver, problem = has_driver(), ""
    # The driver's words: as warnings from a torch that is not asked to use it, else as an error.
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            if torch.cuda.is_available():
                return Facts(
                    built,
                    driver,
                    torch.cuda.device_count(),
                    torch.cuda.get_device_name(),
                    torch.cuda.get_device_capability(),
                    has_triton(),
                    lost=lost,
                    built_for=tuple(torch.cuda.get_arch_list()),
                    missing=lacks_to_build(),
                )
        except RuntimeError as error:
            problem = str(error).splitlines()[0]
    if said and not problem:
        problem = " ".join(str(said[-1].message).split())
    return Facts(built, driver, problem=problem, lost=lost)


def has_driver() -> bool:
    """Return whether NVIDIA's driver is here, without torch."""
    return nvidia_smi() is not None or Path("/proc/driver/nvidia/version").exists()


def nvidia_smi() -> str | None:
    """Return the driver's program, which in WSL often is not on PATH; None without a driver."""
    return shutil.which("nvidia-smi") or shutil.which("nvidia-smi", path=_WSL)


@lru_cache
def kernels_bytes() -> int:
    """Return the memory of the first GPU that loads would use with the kernels, without torch; 0 without
    one, and for a part of one (MIG). Numbers are nvidia-smi's, as CUDA_DEVICE_ORDER=PCI_BUS_ID."""
    asked = "--query-gpu=index,uuid,memory.total,compute_cap,driver_version"
    wanted = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()
    try:
        if not (wanted and has_triton() and (cuda := _cuda_of_torch())) or lacks_to_build():
            return 0
        query = [nvidia_smi() or "", asked, "--format=csv,noheader,nounits"]
        said = subprocess.run(query, capture_output=True, text=True, timeout=3, check=True)
        found = (line.split(", ") for line in said.stdout.splitlines())
        size, has, driver = next(
            rest for index, uuid, *rest in found if wanted == index or uuid.startswith(wanted)
        )
        capable = tuple(map(int, has.split("."))) >= LEAST_CAPABILITY
        recent = int(driver.split(".")[0]) >= _LEAST_DRIVERS.get(cuda, 0)
        return int(size) << 20 if capable and recent else 0
    except (OSError, subprocess.SubprocessError, ValueError, StopIteration):
        return 0


def _cuda_of_torch() -> int:
    """Return the major version of the CUDA that torch is built with, by its file of versions; 0 for a
    build without. Raises OSError or ValueError if it is not here."""
    found = importlib.util.find_spec("torch")
    version = Path((found and found.origin) or "").with_name("version.py")
    told = re.search(r"^cuda\b.*= ['\"](\d+)", version.read_text(encoding="utf-8"), re.MULTILINE)
    return int(told[1]) if told else 0


def why_no_gpu() -> str | None:
    """Return why no GPU can be used here, with the remedy; None if one can. Asks torch, as ``look``."""
    return _why_no_gpu(look())


def decide(wanted: str, facts: Facts) -> Device:
    """Return the device for ``wanted`` (auto or cuda). Raises InvalidRequest as ``choose``."""
    import torch

    reason = _why_no_gpu(facts)
    if reason is None:
        # Whoever chose another GPU with CUDA_VISIBLE_DEVICES finds it as the first one here.
        lacks = _what_lacks(facts)
        slower = (
            f"{lacks}, so the model runs with PyTorch operations: slower, and in fp32 or bf16 only."
        )
        has = facts.capability
        return Device(
            torch.device("cuda"),
            kernels=not lacks,
            bf16=has >= LEAST_CAPABILITY,
            fp8=has >= FP8_CAPABILITY,
            notes=(*_which(facts), slower) if lacks else _which(facts),
            lacks=lacks,
        )
    if wanted == "cuda":
        raise InvalidRequest(
            "device", f"device is 'cuda', which is not available. {reason} Or choose 'cpu'."
        )
    worth_telling = facts.has_driver or facts.lost
    return Device(torch.device("cpu"), notes=(reason,) if worth_telling else ())


def _why_no_gpu(facts: Facts) -> str | None:
    """Return why CUDA cannot be used at all, with the remedy; None if it can."""
    if facts.lost:
        return "The GPU failed earlier in this process. Restart Foretoken to use it again."
    if facts.count:
        return _why_no_code(facts)
    if not facts.built_with_cuda and not facts.has_driver:
        return (
            "There is no NVIDIA driver here, so PyTorch can use no GPU. Install the driver if this "
            "machine has an NVIDIA GPU."
        )
    if not facts.built_with_cuda:
        return (
            "This installation of PyTorch has no CUDA support. Install the CUDA build "
            "(pytorch.org, Get Started)."
        )
    if facts.problem:
        return (
            f"PyTorch cannot use the GPU: {facts.problem.rstrip('.')}. Update the driver, "
            "or install a build of PyTorch for it."
        )
    return "PyTorch finds no CUDA device. Check nvidia-smi and CUDA_VISIBLE_DEVICES."


def _why_no_code(facts: Facts) -> str | None:
    """Return why this torch has no code for the GPU, whose driver works; None if it has."""
    if not facts.built_for or any(_runs_on(one, facts.capability) for one in facts.built_for):
        return None
    has = ".".join(map(str, facts.capability))
    return (
        f"{facts.name} has compute capability {has}, and this PyTorch is built only for "
        f"{', '.join(facts.built_for)}. Install a build that supports it."
    )


def _runs_on(built_for: str, capability: tuple[int, int]) -> bool:
    """Return True if torch has code for the GPU. Machine code runs on later minors of its
    generation, PTX on any later GPU."""
    kind, _, number = built_for.partition("_")
    exactly = number.endswith(("a", "f"))
    if not number.rstrip("af").isdecimal():
        return True  # no NVIDIA name: nothing is known of it
    built = divmod(int(number.rstrip("af")), 10)
    if exactly:
        return built == capability
    return built <= capability and (kind == "compute" or built[0] == capability[0])


def _which(facts: Facts) -> tuple[str, ...]:
    """Name the GPU that is used, if there are several."""
    if facts.count < 2:
        return ()
    return (
        f"One of {facts.count} GPUs is used: {facts.name}. Choose another one with "
        "CUDA_VISIBLE_DEVICES. For models that need several GPUs, use vLLM or SGLang.",
    )


def _what_lacks(facts: Facts) -> str:
    """Return why the kernels do not run on the GPU, as a clause; "" if they do."""
    if not facts.built_with_cuda:
        return f"{facts.name} is no NVIDIA GPU, and the kernels are for CUDA only"
    if facts.capability < LEAST_CAPABILITY:
        has = ".".join(map(str, facts.capability))
        return f"{facts.name} has compute capability {has}, and the kernels need 8.0"
    if not facts.triton:
        package = "triton-windows" if sys.platform == "win32" else "triton"
        install = f"{sys.executable} -m pip install {package}"
        return f"Triton is not installed ({install})"
    if facts.missing:
        return f"Triton needs a C compiler, but {facts.missing}"
    return ""


def has_triton() -> bool:
    """Return True if Triton is installed."""
    return importlib.util.find_spec("triton") is not None


def lacks_to_build() -> str:
    """Return what Triton lacks to build its launchers, which are C code; "" if nothing."""
    has_compiler = os.environ.get("CC") or any(map(shutil.which, ("gcc", "clang", "cc")))
    if not has_compiler and sys.platform != "win32":  # triton-windows brings one
        return "none was found (install gcc, or set CC)"
    scheme = sysconfig.get_default_scheme().replace("posix_local", "posix_prefix")
    headers = Path(sysconfig.get_paths(scheme=scheme)["include"])
    if not (headers / "Python.h").is_file():
        return f"Python's headers are not in {headers} (install python3-dev)"
    return ""
