"""Prompts that need no file."""

from __future__ import annotations

import pytest

from engine.train.data import general_prompts
from engine.train.data.general_prompts import general


def test_general_prompts_are_many_different_and_half_of_them_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # All of Python's library takes seconds; these are more functions than the prompts that are asked for.
    monkeypatch.setattr(general_prompts, "_PACKAGES", general_prompts._PACKAGES[1:])
    functions = list(general_prompts._functions())
    monkeypatch.setattr(general_prompts, "_functions", lambda: functions)
    prompts = general(1)
    texts = [prompt[0].content for prompt in prompts]
    assert len(set(texts)) > 2000
    assert all(len(prompt) == 1 and prompt[0].role == "user" for prompt in prompts)
    about_code = sum("```python" in text or "Python function" in text for text in texts[:1000])
    assert 400 < about_code < 600
    assert max(map(len, texts)) < 2000
    assert general(2)[:20] != prompts[:20]
