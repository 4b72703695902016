"""Which files say that a model is made for embeddings, and how."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.errors import ModelError
from engine.loading.pooling import CONFIG, MODULES, Pooling, pooling_of
from engine.local.engine import LocalEngine
from tests.support.checkpoints import write_random
from tests.support.gguf_files import write_gguf
from tests.support.loading import request_for


def stated(folder: Path, text: str | None) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / MODULES).write_text("[]")
    if text is not None:
        (folder / CONFIG).parent.mkdir(exist_ok=True)
        (folder / CONFIG).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("modes", "pooling"),
    [
        ({"pooling_mode_lasttoken": True, "pooling_mode_mean_tokens": False}, Pooling.LAST),
        ({"pooling_mode_mean_tokens": True}, Pooling.MEAN),
        ({"pooling_mode_cls_token": True}, None),
        ({"pooling_mode_mean_tokens": True, "pooling_mode_lasttoken": True}, None),
        ({"pooling_mode_mean_tokens": "yes"}, None),
        ([], None),
    ],
)
def test_a_folder_states_it_as_sentence_transformers_does(
    tmp_path: Path, modes: object, pooling: Pooling | None
) -> None:
    assert pooling_of(stated(tmp_path, json.dumps(modes))) is pooling


def test_other_folders_state_nothing_and_damaged_ones_say_what_to_do(tmp_path: Path) -> None:
    assert pooling_of(tmp_path) is None
    assert pooling_of(stated(tmp_path, None)) is None
    with pytest.raises(ModelError, match="Download the model again"):
        pooling_of(stated(tmp_path, "{"))


def test_a_gguf_file_states_it_by_number_and_gives_the_folders_vector(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    write_random(folder, "qwen3", head_dim=16)
    plain = write_gguf(folder, tmp_path / "plain.gguf")
    assert pooling_of(plain) is None
    rank = write_gguf(folder, tmp_path / "rank.gguf", values={"qwen3.pooling_type": 4})
    assert pooling_of(rank) is None
    last = write_gguf(folder, tmp_path / "last.gguf", values={"qwen3.pooling_type": 3})
    assert pooling_of(last) is Pooling.LAST
    stated(folder, json.dumps({"pooling_mode_lasttoken": True}))
    vectors = []
    for place in (folder, last):
        engine = LocalEngine()
        try:
            engine.load(request_for(place))
            vectors.append(engine.embed([40, 41, 42]))
        finally:
            engine.close()
    assert vectors[0] == pytest.approx(vectors[1], abs=1e-4)
    assert sum(value * value for value in vectors[0]) == pytest.approx(1, abs=1e-5)
