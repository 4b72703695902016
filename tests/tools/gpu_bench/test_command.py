"""``python -m tools.gpu_bench``."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tools.gpu_bench.__main__ import main


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_why_and_what_can_be_tried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--out", str(tmp_path / "out")]) == 2
    captured = capsys.readouterr()
    assert not captured.out
    assert captured.err.startswith("foretoken: There is no GPU to measure.")
    assert "--device cpu" in captured.err
    assert not (tmp_path / "out").exists()
