"""One checkout under measurement: each figure comes from processes that run its code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any, Self

from engine.bench.prompts import first_of_each, read
from engine.bench.real import case as cases
from engine.bench.real.contest import Case, EncodedPrompt, Method, Setting, speed
from engine.bench.real.process import Worker
from engine.bench.real.summary import words
from engine.decoding.text.codec import TextCodec
from engine.errors import PeerFailed
from engine.loading.request import LoadRequest
from tools.gate import figures as names
from tools.running import ROOT

KEPT = Path(__file__).with_name("kept.txt")
PIP, PIP_TARGET = "pip", ROOT / "assets" / "pip" / "target"
SHIPPED = (".py", ".js", ".jsx", ".ts", ".tsx", ".css", ".h", ".cpp")
_CLOSENESS = Path(__file__).with_name("closeness.py")
_SETTINGS = {
    name: Setting(name, method)
    for name, method in (
        (names.PLAIN, Method.PLAIN),
        (names.DRAFT, Method.DRAFT),
        (names.BEST, Method.SEVERAL),
    )
}
_PATIENCE_S = 1200


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured: tokens of a reply and of the long prompt, prompts on which words are
    compared, where the first prompts of each kind are, and Pip's formats whose closeness is measured."""

    reply: int = 48
    prompt: int = 1000
    words: int = 3
    prompts: Path = cases.SHIPPED
    formats: tuple[str, ...] = names.PIP_FORMATS


@dataclass(frozen=True, slots=True)
class Task:
    """What each side is asked: short prompts, and one long one."""

    pair: str
    case: Case
    prompts: Sequence[EncodedPrompt]
    long: EncodedPrompt
    size: Size


def task(pair: str, size: Size) -> Task:
    """Read the pair once, and make its prompts. Raises ForetokenError."""
    held = first_of_each(read(size.prompts), 1)
    case, prompts = cases.make(LoadRequest.parse(pair), held, size.reply)
    kept = cases.encode(TextCodec(case.target), KEPT.read_text(encoding="utf-8") * 2)
    long = EncodedPrompt("long", kept[: size.prompt])
    room = len(long.tokens) + size.reply
    return Task(pair, replace(case, context=max(case.context, room)), prompts, long, size)


class Side:
    """A checkout whose pair is loaded, in a process of its own, once it is entered."""

    def __init__(self, root: Path, task: Task, folder: Path) -> None:
        """``folder`` is for its data and logs. ``differed`` counts replies whose words did, in speeds."""
        self.root, self.task, self.folder = root, task, folder
        self.differed = 0
        folder.mkdir()

    def __enter__(self) -> Self:
        """Start what is measured. The commands before it compile what this checkout has to compile."""
        for pair in (PIP, self.task.pair):
            self.first_token(pair)
        case = self.task.case
        load = {
            "target": str(case.target), "draft": str(case.draft or ""), "heads": [],
            "context": case.context, "threads": case.threads, "device": "cpu",
        }  # fmt: skip
        asked = {"load": load, "depths": [], "ignore_eos": not case.eos}
        log = self.folder / "worker.log"
        self._worker = Worker("foretoken", "own", asked, log, checkout=self.root)
        for setting in self._settings:
            self._worker.answer(setting, case.hello, 8)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._worker.close()

    @property
    def _settings(self) -> list[Setting]:
        return [one for one in _SETTINGS.values() if one in self._worker.settings]

    def steps(self) -> dict[str, float]:
        """Return the time of the target's step by rows."""
        times = self._worker.told("steps")
        return {f"T({rows})": 1e3 * seconds for rows, seconds in times.items()}

    def prompt(self) -> dict[str, float]:
        """Return the speed at which the target takes in the long prompt."""
        long = self._worker.answer(_SETTINGS[names.PLAIN], self.task.long.tokens, 1)
        return {names.PROMPT: long.prompt_tokens / long.prompt_s}

    def speeds(self) -> dict[str, float]:
        """Return the speed of each setting and the time of a drafted token, and count the replies that
        differ from plain decoding's."""
        found, said, case = {}, {}, self.task.case
        for setting in self._settings:
            replies = [
                self._worker.answer(setting, prompt.tokens, case.limit)
                for prompt in self.task.prompts
            ]
            found[setting.name] = speed(replies)
            said[setting] = [words(reply.tokens, case.eos) for reply in replies]
            drafted = sum(reply.drafted or 0 for reply in replies)
            if setting.method is Method.DRAFT and drafted:
                spent = sum(reply.draft_s or 0.0 for reply in replies)
                found[names.T_DRAFT] = 1e3 * spent / drafted
        plain = said[_SETTINGS[names.PLAIN]]
        pairs = (pair for one in said.values() for pair in zip(one, plain, strict=True))
        self.differed += sum(one != other for one, other in pairs)
        return found

    def starts(self) -> dict[str, float]:
        """Return the times of both first tokens."""
        pairs = {names.FIRST: self.task.pair, names.PIP_FIRST: PIP}
        return {name: self.first_token(pair) for name, pair in pairs.items()}

    def first_token(self, pair: str) -> float:
        """Return the seconds from the command to the first word on standard output."""
        began = perf_counter()
        command = ["app", "chat", "hi", "--pair", pair, "--max-tokens", "4"]
        with (self.folder / "chat.log").open("wb") as log, self._started(command, log) as process:
            assert process.stdout is not None
            first, seconds = process.stdout.read(1), perf_counter() - began
            process.stdout.read()
        if not first or process.returncode:
            raise PeerFailed(_failure(self.folder / "chat.log", command))
        return seconds

    def _started(self, command: Sequence[str], log: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", *command, "--data-dir", str(self.folder)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
            cwd=self.root, env=_environment(self.root), bufsize=0,
        )  # fmt: skip

    def differing(self, pair: str) -> int:
        """Return how many replies differ from plain decoding's, of every proposer that the pair offers,
        greedy and at a temperature."""
        count = str(self.task.size.words)
        old = (self.root / "app/cli/bench/lossless.py").is_file()  # before 26 November 2026
        command = ["bench", "lossless", "--pair", pair, "--prompts", count] if old else []
        command = command or ["verify", pair, "--count", count]
        command += ["--json", "--quantization", "auto", "--data-dir", str(self.folder)]
        said = _last_line(["-m", "app", *command], self.root, allowed=(0, 1))
        return sum(row["divergences" if old else "differ"] for row in json.loads(said)["results"])

    def peak(self) -> float:
        """Return the peak memory of the pair's process in MB."""
        return (self._worker.peak_bytes() or 0) / 1e6

    def closeness(self, model: Path, reference: Path, quantization: str) -> float:
        """Return the mean KL divergence of the model, as this checkout runs it, from ``reference``."""
        words = [str(model), str(KEPT), str(reference), quantization]
        said = _last_line(["-P", str(_CLOSENESS), *words], self.root)
        return float(json.loads(said)["kl"])


TIMED = (Side.steps, Side.prompt, Side.speeds, Side.starts)
"""What each repeat measures; sides take turns at each."""


def write_reference(model: Path, out: Path) -> Path:
    """Write the log probabilities of a model's own weights, computed by this checkout."""
    command = ["-m", "tools.gate.reference", str(model), str(KEPT), str(out)]
    _last_line(command, ROOT)
    return out


def lines(root: Path) -> int:
    """Return the lines of the tracked files that are shipped."""
    command = ["git", "-C", str(root), "ls-files", "-z", "app", "engine"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    files = [root / name for name in listed.split("\0") if name.endswith(SHIPPED)]
    return sum(file.read_bytes().count(b"\n") for file in files if file.is_file())


def _last_line(words: Sequence[str], root: Path, allowed: Container[int] = (0,)) -> str:
    """Run Python in a checkout and return the last line that it printed. Raises PeerFailed."""
    try:
        done = subprocess.run(
            [sys.executable, *words], cwd=root, env=_environment(root), timeout=_PATIENCE_S,
            capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        said = f"{' '.join(words[:4])} took more than {_PATIENCE_S} s. Is the machine busy?"
        raise PeerFailed(said) from error
    if done.returncode not in allowed:
        raise PeerFailed(f"{' '.join(words[:4])} failed in {root}: {done.stderr[-1500:]}")
    return (done.stdout.splitlines() or [""])[-1]


def _environment(root: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(root), "HF_HUB_OFFLINE": "1"}


def _failure(log: Path, command: Sequence[str]) -> str:
    said = log.read_text(encoding="utf-8", errors="replace")[-1500:]
    return f"{' '.join(command)} failed: {said}"
