"""The registry of heads, and files that are not what they should be."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.drafting import heads, proposers
from engine.errors import IncompatiblePair, ModelError
from engine.loading.discovery.found import examine
from engine.loading.discovery.listing import Listed
from engine.models.checkpoints import checkpoint
from tests.support.folders import write_model
from tests.support.gguf_files import all_in
from tests.support.gguf_heads import write_gguf_head
from tests.support.heads import PICKLE, WRITERS, FakeShape, medusa, write_head
from tests.support.places import ROOT

TARGET = FakeShape(hidden=32, vocabulary=50, layers=6)


def test_every_head_of_a_file_is_registered_has_a_proposer_and_a_writer() -> None:
    folder = Path(heads.__file__).parent
    texts = (path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
    kinds = {
        kind for text in texts for kind in re.findall(r'kind: ClassVar\[str\] = "(\w+)"', text)
    }
    assert kinds == {*heads.INSIDE, *heads.kinds()} <= set(proposers.names())
    assert set(heads.kinds()) == set(WRITERS)


@pytest.mark.parametrize("kind", heads.kinds())
def test_a_folder_is_known_by_its_configuration(kind: str, tmp_path: Path) -> None:
    folder = WRITERS[kind](tmp_path, TARGET)
    assert heads.kind_in(folder) == kind
    assert heads.check(folder) == kind == heads.inspect(folder, TARGET).kind


ODD: tuple[Any, ...] = (None, True, -1, 0.5, 10**12, "odd", [], [5], ["odd"], {}, {"odd": 5})


@pytest.mark.parametrize("kind", heads.kinds())
def test_whatever_a_configuration_says_is_judged(kind: str, tmp_path: Path) -> None:
    """A number of architectures ended the scan for models, and 10**12 layers filled the memory."""
    folder = WRITERS[kind](tmp_path, TARGET)
    file = folder / "config.json"
    whole = json.loads(file.read_text())
    inner = [each for each in whole.values() if isinstance(each, dict)]
    for settings in (whole, *inner):
        for key in [*settings, "architectures", "eagle_config", "rope_scaling", "layer_types"]:
            kept = settings.get(key)
            for odd in ODD:
                settings[key] = odd
                file.write_text(json.dumps(whole))
                heads.kind_in(folder)
                with contextlib.suppress(ModelError, IncompatiblePair):
                    heads.inspect(folder, TARGET)
            settings[key] = kept


@pytest.mark.parametrize("kind", ["eagle3", "block", "assistant"])
def test_a_gguf_file_is_known_by_its_architecture(kind: str, tmp_path: Path) -> None:
    folder = WRITERS[kind](tmp_path / "folder", TARGET)
    file = write_gguf_head(folder, tmp_path / "head.gguf", TARGET.layers, all_in("F16"))
    plan = heads.inspect(file, TARGET)
    assert heads.kind_in(file) == heads.check(file) == kind == plan.kind
    assert (plan.name, examine(Listed(file, "head"), "").head) == ("head", kind)
    with pytest.raises(ModelError, match=r"head\.gguf is a head .* Load it with its target\."):
        checkpoint.inspect(file)
    with pytest.raises(IncompatiblePair, match=r"head was made .* 32; fake has width 64"):
        heads.inspect(file, replace(TARGET, hidden=64))


def test_gguf_files_that_cannot_draft_say_why(tmp_path: Path) -> None:
    file = write_gguf_head(
        WRITERS["block"](tmp_path / "head", TARGET), tmp_path / "head.gguf", TARGET.layers
    )
    data = file.read_bytes()
    for found, written, reason in (
        (
            b"blk.1.ffn_norm",
            b"blk.1.fan_norm",
            r"tensor blk\.1\.fan_norm\.weight, which is not supported for dflash",
        ),
        (
            b"dflash",
            b"llamas",
            "not a supported head.* a language model. Supported .* eagle3, dflash",
        ),
        (b"dflash.target_layers", b"dflash.target_livers", "target_layers is missing"),
        (b"enc.output_norm", b"dec.output_norm", r"dec\.output_norm"),
    ):
        file.write_bytes(data.replace(found, written))
        with pytest.raises(ModelError, match=reason):
            heads.inspect(file, TARGET)


def test_a_model_is_no_head(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model")
    assert heads.kind_in(folder) is None
    assert heads.kind_in(tmp_path / "nowhere") is None
    with pytest.raises(ModelError, match=r"not a supported head.* names LlamaForCausalLM.*medusa"):
        heads.inspect(folder, TARGET)


def test_names_come_without_torch() -> None:
    code = (
        "import sys, engine.drafting.heads, engine.loading.catalog; print('torch' in sys.modules)"
    )
    root = ROOT
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root
    )
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("pickle", [PICKLE, ""], ids=["pickle", "safetensors"])
@pytest.mark.parametrize("kept", [0.0, 0.3, 0.99])
def test_a_truncated_file_is_told(tmp_path: Path, pickle: str, kept: float) -> None:
    folder = write_head(tmp_path, *medusa(TARGET), pickle)
    file = folder / (pickle or "model.safetensors")
    os.truncate(file, int(kept * file.stat().st_size))
    with pytest.raises(ModelError, match=file.name) as caught:
        heads.inspect(folder, TARGET)
    assert "ownload" in str(caught.value) or "copy" in str(caught.value)


class Harmful:
    """Would run when it is unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("harm",)


def test_a_pickle_that_would_run_code_is_refused_and_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config, tensors = medusa(TARGET)
    folder = write_head(tmp_path / "head", config, tensors)
    (folder / "model.safetensors").unlink()
    torch.save({**tensors, "more": Harmful()}, folder / PICKLE)
    with pytest.raises(ModelError, match=r"more than tensors.*safetensors version"):
        heads.inspect(folder, TARGET)
    assert not (tmp_path / "harm").exists()


def test_a_pickle_from_before_torch_1_6_is_read(tmp_path: Path) -> None:
    config, tensors = medusa(TARGET)
    folder = write_head(tmp_path, config, tensors, PICKLE)
    torch.save(tensors, folder / PICKLE, _use_new_zipfile_serialization=False)
    stored = heads.inspect(folder, TARGET).stored
    assert all(torch.equal(stored(name), tensor) for name, tensor in tensors.items())


def test_what_a_trainer_left_beside_the_weights_is_not_read(tmp_path: Path) -> None:
    folder = write_head(tmp_path, *medusa(TARGET), PICKLE)
    torch.save(Harmful(), folder / "training_args.bin")
    assert "training_args" not in (heads.inspect(folder, TARGET).note or "")


def test_a_pickle_of_something_else_is_told(tmp_path: Path) -> None:
    folder = write_head(tmp_path, *medusa(TARGET), PICKLE)
    for content in ([1, 2], {"a": 3}, {}):
        torch.save(content, folder / PICKLE)
        with pytest.raises(ModelError, match="no named tensors"):
            heads.inspect(folder, TARGET)


def test_safetensors_are_preferred_and_shards_are_read_together(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    config, tensors = medusa(TARGET)
    folder = write_head(tmp_path, config, {"0": torch.zeros(1)}, PICKLE)
    names = sorted(tensors)
    save_file({name: tensors[name] for name in names[::2]}, folder / "a.safetensors")
    save_file({name: tensors[name] for name in names[1::2]}, folder / "b.safetensors")
    stored = heads.inspect(folder, TARGET).stored
    assert stored.note is None
    assert all(torch.equal(stored(name), tensor) for name, tensor in tensors.items())


def test_a_folder_without_weights_is_told(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"medusa_num_heads": 2}))
    with pytest.raises(ModelError, match="no weights"):
        heads.inspect(tmp_path, TARGET)
