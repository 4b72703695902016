"""The bench of a GPU: a rehearsal without one, parts that hang or die, the budget, the report."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton")

from engine.kernels.cuda.linear.dispatch import shape_of
from tests.support.places import ROOT
from tools.gpu_bench import __main__ as command
from tools.gpu_bench import models, parts, supervise
from tools.gpu_bench.supervise import MARK

PART = """
import json, os, sys, time
part, row = sys.argv[1], dict(table="Speeds", model=sys.argv[1], speed=(2.0, 1.0, 3.0), times={})
print("a library's line")
print("@bench " + json.dumps({"facts": {"name": "A GPU (fast)", "torch": "2.13"}}), flush=True)
print("@bench " + json.dumps({"row": row}), flush=True)
if part == "hangs":
    time.sleep(600)
if part == "dies":
    os._exit(7)
"""


def run(part: str, device: str) -> tuple[dict[str, str], list[dict[str, object]]]:
    """Run a part in a process of its own; return the facts and the rows."""
    done = subprocess.run(
        [sys.executable, "-m", "tools.gpu_bench", "--device", device, "--part", part],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    said = [json.loads(x[len(MARK) :]) for x in done.stdout.splitlines() if x.startswith(MARK)]
    return said[0]["facts"], [one["row"] for one in said[1:]]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)], ids=["rehearsal", "gpu"]
)
def test_a_part_measures_rounds_kernels_steps_and_bits(device: str) -> None:
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    facts, rows = run("bf16 tiny", device)
    assert "bandwidth" in facts and "triton" in facts
    tables: dict[object, list[dict[str, object]]] = {}
    for row in rows:
        tables.setdefault(row["table"], []).append(row)
    speeds = tables["Tokens a second"]
    assert [one["how"] for one in speeds] == [
        "plain", "draft of depth 5, 0.6 right", "draft of depth 5, 0.8 right"
    ]  # fmt: skip
    assert all(one["words"] == "right" for one in speeds)
    names = {one["kernel"] for one in tables["Kernels"]}
    assert names >= {"qkv", "output", "gate_up", "down", "head"} and len(names) > 5
    measured = [*tables["Kernels"], *tables["Whole steps"]]
    assert [one["rows that differ"] for one in measured] == [0] * len(measured)


def test_each_kernel_is_timed_with_its_own_weight() -> None:
    (sizes,) = models.TINY
    following = models.random_cycle(sizes.vocabulary, 1)
    weights = models.RandomWeights(sizes, following, 1, torch.device("cpu"))
    model = models.make(weights, "bf16")
    for name, shape in sizes.linear_layers().items():
        assert {shape_of(each.weight) for each in parts.products(model, name)} == {shape}


@pytest.mark.exhaustive
def test_transformers_says_the_same_text_of_the_same_weights() -> None:
    _, (row,) = run("transformers tiny", "cpu")
    assert row["engine"] == "transformers" and row["words"] == "right"


def test_a_part_that_hangs_or_dies_costs_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it told before is kept, and the reason is reported."""
    monkeypatch.setattr(supervise, "GRACE_S", 3.0)
    wanted = {"dies": 0.0, "hangs": 0.0, "works": 0.0, "too long": 600.0}
    found = supervise.supervise([sys.executable, "-c", PART], wanted, 5.0, tmp_path)
    assert [row["model"] for row in found.rows] == ["dies", "hangs", "works"]
    assert found.left_out.keys() == {"dies", "hangs", "too long"}
    assert found.left_out["dies"] == "its process ended with status 7"
    assert found.left_out["hangs"] == "it did not end within 3 s, and was ended"
    assert "(--minutes)" in found.left_out["too long"]
    page = (tmp_path / f"a-gpu-fast-{found.date}.md").read_text()
    assert "| works | 2.0 (1.0 - 3.0) |" in page and "not finished" not in page
    assert "- dies: its process ended with status 7." in page
    held = json.loads((tmp_path / f"a-gpu-fast-{found.date}.json").read_text())
    assert held["finished"] and len(held["rows"]) == 3


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_reason_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["--out", str(tmp_path / "out")]) == 2
    assert "There is no GPU to measure. " in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_default_run_has_all_formats_of_an_8b_first() -> None:
    first = list(parts.estimates("cuda"))[:4]
    assert first == [f"{kind} Llama-3.1-8B" for kind in ("nf4", "int8", "bf16", "transformers")]
    (sizes,) = (one for one in models.REAL if "8B" in one.name)
    each = {name: out * width for name, (out, width) in sizes.linear_layers().items()}
    assert 32 * sum(each.values()) - 31 * each["head"] == pytest.approx(7.5e9, rel=0.01)


def test_drafts_are_wrong_at_their_share_all_along_the_text() -> None:
    """With one seed for both, mistakes stood together: drafts were right always, or never."""
    following = models.random_cycle(10_000, 1)
    text = models.after(following, 0, 10_000)
    assert sorted(text) == list(range(10_000))
    wrong = (models.mistaken(following, 0.8, 1) != following)[torch.tensor(text)]
    assert int(wrong.sum()) == 2000
    assert all(0.15 < float(part.float().mean()) < 0.25 for part in wrong.split(1000))
