"""A run whose process crashes, hangs or loses its GPU goes on in another one."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from engine.errors import ForetokenError
from tests.tools.gpu_bench.test_report import report
from tools.gpu_bench import supervise as module
from tools.gpu_bench.run import REST, Options
from tools.gpu_bench.state import State, report_of
from tools.gpu_bench.supervise import PROCESSES, supervise

PROCESS = """
import json, os, sys, time
file, first, does = sys.argv[1:]
with open(file if os.path.exists(file) else first) as read:
    held = json.load(read)
report = held["report"]

def keep(part):
    held["part"] = part
    with open(file + ".new", "w") as new:
        json.dump(held, new)
    os.replace(file + ".new", file)

for name in "abc":
    if name not in report["done"]:
        keep({"name": name, "estimate": 0.0})
        if name == "b":
            exec(does)
        report["done"].append(name)
        keep(None)
report["finished"] = True
keep(None)
"""
"""Three parts. No torch: it starts at once."""
LOSES = f"""
report["left_out"] += [dict(part="b", reason="it failed"), dict(part="{REST}", reason="gone")]
report["done"].append("b")
keep(None)
sys.exit(3)
"""


@pytest.fixture
def options(tmp_path: Path) -> Options:
    return Options(minutes=1.0, folder=tmp_path / "out", device="cpu")


@pytest.fixture(autouse=True)
def _quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOOK_S", 0.02)


def jumping(monkeypatch: pytest.MonkeyPatch, seconds: float) -> Callable[[str], None]:
    """A clock that stands still, but for a jump of ``seconds`` when part b is said to begin."""
    now = [0.0]
    monkeypatch.setattr(module, "monotonic", lambda: now[0])

    def say(part: str) -> None:
        now[0] += seconds * (part == "b")

    return say


def doing(tmp_path: Path, does: str) -> module.Command:
    found = report()
    found.left_out, found.done = [], []
    first = tmp_path / "first.json"
    first.write_text(json.dumps({"report": found.as_json(), "part": None}))

    def command(options: Options, state: Path) -> Sequence[str]:
        return [sys.executable, "-c", PROCESS, str(state), str(first), does]

    return command


@pytest.mark.parametrize(
    ("does", "reason"),
    [
        ("os._exit(7)", "its process ended with status 7"),
        ("os.kill(os.getpid(), 9)", "its process was ended by signal 9"),
        ("time.sleep(60)", "it did not end within"),
        (LOSES, "it failed"),
    ],
    ids=["ends", "killed", "hangs", "loses"],
)
def test_a_part_that_ends_its_process_costs_no_other(
    options: Options, tmp_path: Path, does: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PART_GRACE_S", 20.0)
    hangs = does.startswith("time.sleep")
    say = jumping(monkeypatch, 30.0) if hangs else lambda part: None
    found = supervise(options, say, doing(tmp_path, does))
    assert found.done == ["a", "b", "c"] and found.finished
    ((part, told),) = [(one.part, one.reason) for one in found.left_out]
    assert part == "b" and told.startswith(reason)
    assert found.steps == report().steps and found.minutes == 1.0
    assert "**The run was not finished.**" not in found.file(options.folder).read_text()


def test_parts_are_said_as_they_begin(options: Options, tmp_path: Path) -> None:
    """It ends once that is said."""
    until_said = f"while not os.path.exists({str(tmp_path / 'b')!r}): time.sleep(0.01)"
    supervise(options, lambda part: (tmp_path / part).touch(), doing(tmp_path, until_said))
    assert (tmp_path / "b").exists()


def test_when_the_time_is_over_what_runs_is_ended(
    options: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    say = jumping(monkeypatch, 60 + module.GRACE_S + 1)
    found = supervise(options, say, doing(tmp_path, "time.sleep(60)"))
    assert not found.finished and found.done == ["a", "b"]
    assert [one.reason for one in found.left_out] == ["the time was over before it ended"]


def test_a_gpu_that_is_gone_for_good_is_not_asked_for_ever(
    options: Options, tmp_path: Path
) -> None:
    """It is lost between parts, each time; what was found is kept."""
    command, started = doing(tmp_path, "keep(None); sys.exit(3)"), []

    def counted(options: Options, state: Path) -> Sequence[str]:
        started.append(state)
        return command(options, state)

    found = supervise(options, command=counted)
    assert len(started) == PROCESSES and not found.finished and found.done == ["a"]
    started.clear()
    command = doing(tmp_path, "keep(None); sys.exit(1)")
    found = supervise(options, command=counted)
    assert len(started) == 1
    assert [(one.part, one.reason) for one in found.left_out] == [
        (REST, "its process ended with status 1")
    ]


def test_a_report_is_read_as_it_was_written() -> None:
    whole = report()
    assert report_of(json.loads(json.dumps(whole.as_json()))) == whole


def test_the_process_is_this_benchs_own_and_its_refusal_is_told(options: Options) -> None:
    with pytest.raises(ForetokenError, match="known here are tiny-llama, tiny-qwen"):
        supervise(Options(1.0, options.folder, "cpu", models=("Qwen3-8B",)))


def test_a_state_that_is_not_there_yet_is_empty(tmp_path: Path) -> None:
    state = State(tmp_path / "none.json")
    assert (state.report(), state.part(), state.error()) == (None, None, None)
