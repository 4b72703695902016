"""Pairs as headings name them."""

from __future__ import annotations

import pytest

from app.ui.words.names import title, titles


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "qwen2.5-coder-1.5b-instruct-q4_k_m + qwen2.5-coder-0.5b-instruct-q4_k_m",
            "Qwen2.5 Coder 1.5B + 0.5B",
        ),
        ("Qwen/Qwen3-8B + Qwen/Qwen3-0.6B", "Qwen3 8B + 0.6B"),
        ("Llama 3.2 3B + 1B", "Llama 3.2 3B + 1B"),
        ("SmolLM2-1.7B-Instruct", "SmolLM2 1.7B"),
        ("llama-3b + llama-3b", "Llama 3B + 3B"),
        ("Pip", "Pip"),
        ("Pip on 127.0.0.1:8000", "Pip on 127.0.0.1:8000"),
        (
            "/models/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf on 127.0.0.1:8000",
            "Qwen2.5 Coder 1.5B on 127.0.0.1:8000",
        ),
        ("qwen3-8b-q4_k_m + qwen3-0.6b-q8_0 on host", "Qwen3 8B + 0.6B on host"),
        ("/models/some where/small.gguf on 127.0.0.1:8080", "small.gguf on 127.0.0.1:8080"),
        ("C:\\models\\small.gguf on [::1]:8080", "small.gguf on [::1]:8080"),
        ("org/small on gpu.office", "org/small on gpu.office"),
        ("my-model + small", "my-model + small"),
    ],
)
def test_a_title_is_short_and_says_the_sizes(name: str, told: str) -> None:
    assert title(name) == told


def test_two_files_of_one_model_keep_what_tells_them_apart() -> None:
    small, large = "qwen3-8b-q4_k_m", "qwen3-8b-q8_0"
    assert titles(small, large, "qwen3-4b-q8_0") == (small, large, "Qwen3 4B")
