"""Random checkpoints that the engine's tests share, made once for each run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from engine.backends.native import build
from engine.backends.native.build import load
from engine.kernels.native.library import Library
from engine.machine import compilers
from engine.models.checkpoints.gguf.write import export
from tests.support.checkpoints import write_pair, write_random
from tests.support.heads import write_heads
from tests.support.places import beside
from tests.support.vocabularies import relabel, write_sentencepiece


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Folders of a random target and its draft, which often agrees with it."""
    root = tmp_path_factory.mktemp("pair")
    write_pair(root / "target", root / "draft")
    return root / "target", root / "draft"


@pytest.fixture(scope="session")
def gguf_pair(
    pair: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path]:
    """The pair as two GGUF files."""
    root = tmp_path_factory.mktemp("gguf")
    target, draft = (export(each, root / f"{each.name}.gguf", "q8_0").file for each in pair)
    return target, draft


@pytest.fixture(scope="session")
def pair_heads(
    pair: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, ...]:
    """Folders of a random head of every kind for that target."""
    return write_heads(tmp_path_factory.mktemp("heads"), pair[0])


@pytest.fixture(scope="session")
def adapted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model of an architecture that only transformers computes."""
    folder = tmp_path_factory.mktemp("adapted")
    write_random(folder, "gpt_neox", tie_word_embeddings=False)
    return folder


@pytest.fixture(scope="session")
def strangers(
    pair: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path]:
    """The pair's target, and its draft with other numbers for the same tokens."""
    draft = tmp_path_factory.mktemp("strangers") / "draft"
    shutil.copytree(pair[1], draft)
    relabel(draft)
    return pair[0], draft


@pytest.fixture(scope="session")
def pieces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model, smaller than the pair's target, that splits text in SentencePiece's way."""
    folder = tmp_path_factory.mktemp("pieces")
    write_random(
        folder, seed=4, vocab_size=400, num_hidden_layers=1, bos_token_id=1, eos_token_id=2
    )
    write_sentencepiece(folder)
    return folder


@pytest.fixture(scope="session")
def stories() -> Path:
    """A trained Llama of 260 thousand parameters that lies beside the repository."""
    return beside("stories260K")


@pytest.fixture(scope="session")
def gptneo() -> Path:
    """A trained GPT-Neo that lies beside the repository; it needs the adapter."""
    return beside("tiny-chat-gptneo")


@pytest.fixture(scope="session")
def library() -> Library:
    """The compiled step of this machine."""
    try:
        found = load(build.build())
    except compilers.BuildError as error:
        pytest.skip(str(error))
    assert found is not None
    return found
