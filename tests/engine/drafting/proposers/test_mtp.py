"""The layer that a checkpoint brings drafts as vLLM's does, and no word depends on it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine.backends.linear_factory import LinearFactory
from engine.decoding.context import Context
from engine.decoding.sampling import Sampler
from engine.decoding.target import Target
from engine.drafting import heads, proposers, vocabulary_trimmer
from engine.drafting.heads.base import HeadPlan
from engine.drafting.heads.mtp import MtpHead
from engine.drafting.proposers import eagle3
from engine.drafting.resources import Resources
from engine.errors import InvalidRequest, ModelError
from engine.events import Budget
from engine.loading.catalog import Catalog, local_spec
from engine.loading.inventory import Inventory
from engine.loading.request import LoadRequest
from engine.loading.specs import Pairing
from engine.models.checkpoints.checkpoint import inspect
from engine.models.hidden_states import NORMED
from engine.request import Control, Request, Speculation
from engine.values.grammar import Grammar, GrammarKind
from engine.values.messages import Message
from engine.values.sampling import AcceptanceRule, Sampling
from tests.engine.local.session.test_batch import Client, run
from tests.support.checkpoints import open_session
from tests.support.families import write_family
from tests.support.gguf_files import write_gguf
from tests.support.heads import MTP_PARTS, in_torch, mtp_prefixes, write_mtp
from tests.support.loading import load_model
from tests.support.lossless import COUPLED, GREEDY, Pair, answer
from tests.support.lossless import PLAIN as PLAIN_DECODING
from tests.support.places import TINY_QWEN

PLAIN = LinearFactory("fp32", torch.device("cpu"))
TEXT = tuple(range(5, 160, 3))
ANIMALS = Grammar(GrammarKind.REGEX, r"(The|A) [a-z]{3,9}( and the [a-z]{3,9}){0,3}\.")
FIXED = Speculation(proposer="mtp", depth=5, controller=Control.FIXED)
QUESTION = (Message("user", "Tell me a short tale about a fox."),)


@dataclass(frozen=True)
class Kind:
    """A family, and how it names its layers for multi-token prediction."""

    family: str
    root: str = "mtp."
    count: int = 1
    architecture: str = ""


DENSE = Kind("qwen3.5")
KINDS = {
    "dense": DENSE,
    "mixture": Kind("qwen3.5-moe"),
    "chain": Kind("glm4-moe", "model.layers.", 3),
    "mimo": Kind("qwen2", "model.mtp_layers.", 1, "MiMoForCausalLM"),
}
ALL = pytest.mark.parametrize("folder", KINDS, indirect=True)


@pytest.fixture(scope="module")
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    kind = KINDS[getattr(request, "param", "dense")]
    folder = tmp_path_factory.mktemp("model")
    sizes = {"head_dim": 32} if kind.root == "model.layers." else {}
    write_family(folder, kind.family, hidden_size=64, intermediate_size=96, **sizes)
    write_mtp(folder, root=kind.root, count=kind.count)
    if kind.architecture:
        set_config(folder, architectures=[kind.architecture])
    return folder


def set_config(folder: Path, **values: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | values))


class Published:
    """The layers of the checkpoint in ``folder``, computed by transformers' layer of its family.

    Their order is vLLM's in qwen3_5_mtp.py, glm4_moe_mtp.py and mimo_mtp.py; that of a chain DeepSeek's
    (arXiv 2412.19437), where row i of the k-th layer is here at position i + k.
    """

    def __init__(self, folder: Path, work: Path) -> None:
        tensors, config = load_file(folder / "model.safetensors"), inspect(folder).config
        self.root = next(
            root for root, (fc, *_) in MTP_PARTS.items()
            if any(name.startswith(root) and f"{fc}.weight" in name for name in tensors)
        )  # fmt: skip
        self.centred = "qwen3_5" in config["model_type"]
        layers, self.layers = config["num_hidden_layers"], []
        for index in range(config["num_nextn_predict_layers"]):
            layer, own = mtp_prefixes(self.root, layers, index)
            self.layers.append(self._layer(tensors, layer, own, folder, work / str(index)))
        self.table = tensors["model.embed_tokens.weight"]

    def _layer(
        self, tensors: dict[str, Tensor], layer: str, own: str, folder: Path, work: Path
    ) -> tuple[Any, list[Tensor]]:
        """transformers' model whose last layer this is, and the layer's own tensors."""
        shutil.copytree(folder, work)
        last = f"model.layers.{inspect(folder).layers - 1}."
        mine = {
            name: tensors[layer + name.removeprefix(last)] if name.startswith(last) else each
            for name, each in tensors.items()
        }
        whole = {name: each.clone() for name, each in mine.items()}
        save_file(whole, work / "model.safetensors", metadata={"format": "pt"})
        if self.root == "model.mtp_layers.":
            set_config(work, architectures=["Qwen2ForCausalLM"])
        model = transformers.AutoModelForCausalLM.from_pretrained(
            work, attn_implementation="eager", dtype=torch.float32
        )
        return model.model.eval(), [tensors[f"{own}{name}.weight"] for name in MTP_PARTS[self.root]]

    def _norm(self, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        scale = (x.square().mean(-1, keepdim=True) + epsilon).rsqrt()
        return x * scale * (1 + weight if self.centred else weight)

    def outputs(self, index: int, states: Tensor, behind: Sequence[int]) -> Tensor:
        """What the layer puts out for rows of ``states`` and the tokens ``behind``."""
        model, (fc, *weights) = self.layers[index]
        epsilon = model.config.rms_norm_eps
        both = [
            self._norm(x, weight, epsilon)
            for x, weight in zip((self.table[list(behind)], states), weights, strict=False)
        ]
        if self.root == "model.mtp_layers.":
            both.reverse()
        x = torch.cat(both, -1) @ fc.T
        rows = len(x)
        mask = torch.full((rows, rows), float("-inf")).triu(1)[None, None]
        around = model.rotary_emb(x[None], torch.arange(rows)[None])
        hidden = model.layers[-1](x[None], position_embeddings=around, attention_mask=mask)
        return self._norm(hidden.view(rows, -1), weights[2], epsilon)

    @torch.inference_mode()
    def logits(self, states: Tensor, tokens: Sequence[int], depth: int) -> list[Tensor]:
        """Those of each drafted token.

        ``states (rows, hidden)`` are the target's, normed; row i goes with ``tokens[i + 1]``.
        """
        behind, found, made = list(tokens[1:]), list[Tensor](), states
        for step in range(depth):
            if 0 < step < len(self.layers):
                states = torch.cat([torch.zeros(1, states.shape[1]), made])
            elif step:
                states = torch.cat([states, made[-1:]])
            made = self.outputs(min(step, len(self.layers) - 1), states, behind)
            found.append((made[-1:] @ self.table.T)[0])
            behind.append(int(found[-1].argmax()))
        return found


@pytest.fixture(scope="module")
def trained() -> Pair:
    return Pair(TINY_QWEN)


class Bench:
    """A proposer behind a target, and a text that grows."""

    def __init__(self, path: Path, linears: LinearFactory = PLAIN, *, eager: bool = True) -> None:
        checkpoint = inspect(path)
        model = load_model(path, quantization="fp32", native=not eager)
        plan = heads.inside(checkpoint)
        assert isinstance(plan, HeadPlan)
        head = heads.load(plan, linears)
        assert isinstance(head, MtpHead)
        self.target = Target(model, head.aux_layers)
        resources = Resources(heads={"mtp": head}, backbone=self.target)
        self.proposer: Any = proposers.create("mtp", {}, resources)

    def begin(self, text: Sequence[int], sampling: Sampling = GREEDY) -> Bench:
        self.context = Context(tuple(text))
        self.target.extend(text[self.target.reuse(text[:-1]) : -1])
        rule = AcceptanceRule.COUPLED if sampling.temperature else AcceptanceRule.GREEDY
        self.proposer.begin(self.context, Sampler(sampling, rule, 4, self.context, 4096))
        for _ in self.proposer.prepare(self.context):
            pass
        return self

    def draft(self, depth: int = 5) -> Any:
        return self.proposer.propose(self.context, Budget(depth, depth))

    def take(self, tokens: Sequence[int]) -> None:
        self.context.tokens += tokens
        self.target.extend(self.context.tokens[self.target.length : -1])


@ALL
def test_drafts_are_those_of_the_published_layers(folder: Path, tmp_path: Path) -> None:
    """Behind a prompt, and behind rounds of which a part was accepted."""
    bench, published = Bench(folder).begin(TEXT), Published(folder, tmp_path)
    for accepted in (0, 2, 5):
        states = bench.target.aux_hidden_states(NORMED, 0, bench.target.length)
        expected = published.logits(states, bench.context.tokens, 5)
        proposal = bench.draft()
        assert list(proposal.tree.tokens) == [int(each.argmax()) for each in expected]
        q = [float(torch.softmax(each, -1).max()) for each in expected]
        assert proposal.chosen_q == pytest.approx(q, rel=1e-3)
        bench.take([*proposal.tree.tokens[:accepted], 77])


@pytest.mark.parametrize("folder", ["dense", "mixture", "chain"], indirect=True)
def test_a_gguf_files_layers_are_the_same(folder: Path, tmp_path: Path) -> None:
    file = write_gguf(folder, tmp_path / "model.gguf")
    assert inspect(file).layers == inspect(folder).layers
    found, expected = Bench(file).begin(TEXT).draft(), Bench(folder).begin(TEXT).draft()
    assert found.tree == expected.tree
    assert found.chosen_q == pytest.approx(expected.chosen_q, rel=1e-3)


@pytest.mark.parametrize("whole", [True, False], ids=["with embedding", "without"])
def test_a_file_beside_the_models_drafts_for_it(folder: Path, tmp_path: Path, whole: bool) -> None:
    """As llama.cpp's converter writes both: the model without the layer, and the layer alone."""
    layers = inspect(folder).layers
    drafting = f"blk.{layers}."

    def write(name: str, wanted: Callable[[str], bool], **values: Any) -> Path:
        def edit(tensors: dict[str, Any]) -> None:
            for each in [each for each in tensors if not wanted(each)]:
                del tensors[each]

        own = {f"qwen35.{key}": value for key, value in values.items()}
        return write_gguf(folder, tmp_path / "a--tale" / f"{name}.gguf", values=own, edit=edit)

    place = tmp_path / "a--tale"
    place.mkdir()
    model = write(
        "Tale-9B-Q4_K_M",
        lambda name: not name.startswith(drafting),
        block_count=layers,
        nextn_predict_layers=None,
    )
    assert not local_spec(model).mtp
    layer = write(
        "mtp-Tale-9B-Q8_0",
        lambda name: name.startswith(drafting) or (whole and not name.startswith("blk.")),
    )
    assert local_spec(model).mtp
    with pytest.raises(ModelError, match=r"only an MTP layer"):
        inspect(layer)
    with pytest.raises(ModelError, match=r"Name it mtp-NAME\.gguf"):
        heads.check(layer)
    found, expected = Bench(model).begin(TEXT).draft(), Bench(folder).begin(TEXT).draft()
    assert found.tree == expected.tree
    of_catalog = replace(local_spec(model), path=None, repository="a/tale", mtp=False)
    drafter = replace(of_catalog, id="tale:mtp", file=layer.name, method="mtp")
    spec = replace(of_catalog, id="tale", file=model.name, drafters=(drafter,))
    assert spec.companions == (drafter,)
    inventory = Inventory(Catalog((spec,), ()), tmp_path)
    assert inventory.own_head(spec) is drafter
    request = inventory.with_best_draft(LoadRequest(target="tale"))
    assert (request.draft, request.heads) == ("", ())
    layer.rename(place / "mtp-Other-9B-Q8_0.gguf")
    assert heads.inside(inspect(model)) is None and inventory.own_head(spec) is None

    def another(tensors: dict[str, Any]) -> None:
        for each in [each for each in tensors if not each.startswith(drafting)]:
            del tensors[each]
        tensors[f"{drafting}nextn.enorm.weight"] = np.ones(8, dtype=np.float32)

    write_gguf(folder, layer, edit=another)
    unused = Pairing(name="tale", target=local_spec(model)).unused_inside()
    assert unused.startswith(f"{layer.name}, beside the model, cannot draft for it.")
    with pytest.raises(InvalidRequest, match=r"It is damaged or belongs to another model"):
        proposers.check_needs("mtp", frozenset(), unused)


def test_layers_of_a_model_that_only_transformers_computes_are_left_out_and_said(
    folder: Path,
) -> None:
    checkpoint = replace(inspect(folder), architecture="DeepseekV3ForCausalLM")
    assert "DeepseekV3ForCausalLM runs through transformers" in str(heads.inside(checkpoint))


@pytest.mark.parametrize(
    ("folder", "sampling", "trimmed"),
    [
        *(("dense", sampling, False) for sampling in (GREEDY, COUPLED[0], COUPLED[3])),
        ("dense", COUPLED[0], True),
        ("mixture", GREEDY, False),
        ("chain", COUPLED[3], True),
    ],
    indirect=["folder"],
    ids=["greedy", "drawn", "cut", "trimmed", "mixture", "chain"],
)
def test_the_compiled_step_drafts_what_torch_drafts(
    folder: Path, library: Any, sampling: Sampling, trimmed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also among frequent tokens and those of the text, and among all once too many others are in it."""
    if trimmed:
        monkeypatch.setattr(eagle3, "frequent_tokens", lambda vocabulary: 128)
        monkeypatch.setattr(vocabulary_trimmer, "MISSES", 2)
    compiled = Bench(folder, LinearFactory("fp32", PLAIN.device, library), eager=False)
    with in_torch():
        eager = Bench(folder, LinearFactory("fp32", PLAIN.device, library), eager=False)
    assert compiled.proposer.drafts.draft.draws and not eager.proposer.drafts.draft.draws
    for text in (TEXT, (7, 290, 3)):
        both = [bench.begin(text, sampling) for bench in (compiled, eager)]
        for extra in (9, 300, 200, 250, 170):
            found, expected = (bench.draft() for bench in both)
            assert found.tree == expected.tree
            assert found.chosen_q == pytest.approx(expected.chosen_q, rel=2e-3, abs=1e-6)
            for bench in both:
                bench.take([*expected.tree.tokens[:2], extra])
    assert compiled.proposer.candidates is None or not compiled.proposer.candidates.trimmed


@pytest.mark.parametrize(
    ("folder", "compiled"),
    [("dense", True), ("mixture", True), ("chain", True), ("mixture", False)],
    indirect=["folder"],
    ids=["dense", "mixture", "chain", "mixture in torch"],
)
def test_no_word_depends_on_it(folder: Path, compiled: bool) -> None:
    pair = Pair(folder, dtype="fp32", compiled=compiled)
    assert {"mtp", "best"} <= set(pair.proposers)
    for name in ("mtp", "best"):
        for sampling in (GREEDY, COUPLED[0], COUPLED[7]) if compiled else (COUPLED[0],):
            for control, depth in ((Control.FIXED, 5), (Control.AUTO, 4)):
                wanted = Speculation(proposer=name, depth=depth, controller=control)
                pair.check(TEXT, sampling, wanted, 24)


@pytest.mark.parametrize("grammar", [None, ANIMALS, Grammar(GrammarKind.JSON_OBJECT)])
def test_no_word_depends_on_it_under_grammars_and_in_trees(
    trained: Pair, grammar: Grammar | None
) -> None:
    for sampling in (GREEDY, COUPLED[0]):
        request = Request(messages=QUESTION, sampling=sampling, max_tokens=40, grammar=grammar)
        plain = answer(trained.plain, replace(request, speculation=PLAIN_DECODING))
        for nodes in (0, 8):
            wanted = replace(FIXED, options={"tree_nodes": nodes})
            found = answer(trained.speculative, replace(request, speculation=wanted))
            assert found.tokens == plain.tokens
            assert grammar or found.accepted
            assert grammar or nodes == 0 or not all(one.tree.is_chain for one in found.rounds)


def test_requests_at_once_say_what_each_says_alone(trained: Pair) -> None:
    samplings = (GREEDY, COUPLED[0], COUPLED[5], GREEDY)
    wanted = Speculation(proposer="mtp", depth=4, controller=Control.AUTO)
    clients = [
        Client(
            Request(messages=QUESTION, sampling=sampling, max_tokens=40, speculation=wanted),
            arrives=arrives,
        )
        for arrives, sampling in enumerate(samplings)
    ]
    run(open_session(TINY_QWEN, dtype="auto", parallel=4), clients)
    for client in clients:
        assert client.error is None
        assert client.finished.token_ids == answer(trained.plain, client.request).tokens


def test_the_pair_is_known_to_have_it_before_it_is_loaded(folder: Path) -> None:
    assert "mtp" in Pairing(name="own", target=local_spec(folder)).proposers


def test_a_wrong_configuration_is_said_by_loading_and_stops_no_scan(
    folder: Path, tmp_path: Path
) -> None:
    damaged = Path(shutil.copytree(folder, tmp_path / "damaged"))
    config = json.loads((damaged / "config.json").read_text())
    (damaged / "config.json").write_text(json.dumps(config | {"linear_num_key_heads": "two"}))
    assert heads.inside(inspect(damaged)) is None
    assert not local_spec(damaged).mtp
    with pytest.raises(ModelError, match="has an invalid value"):
        load_model(damaged)


def test_a_layer_of_another_width_is_refused(folder: Path, tmp_path: Path) -> None:
    damaged = Path(shutil.copytree(folder, tmp_path / "damaged"))
    tensors = load_file(folder / "model.safetensors")
    tensors["mtp.fc.weight"] = tensors["mtp.fc.weight"][:, :64].contiguous()
    save_file(tensors, damaged / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"mtp\.fc\.weight has shape"):
        heads.inside(inspect(damaged))
