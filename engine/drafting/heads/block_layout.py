"""The files of block drafters: what their config.json and their tensors' shapes say.

DFlash's (z-lab): a Qwen3 config.json with ``dflash_config``, whose keys may as well stand outside it.
DSpark's (DeepSpec): the same keys outside, the architecture ``...DSparkModel``, ``markov_head.*`` and
``confidence_head.*``; the embedding and output head in it are copies of the target's, which DeepSpec's
trainers freeze, and are not read. (SGLang takes them for weights of the draft's own. It cannot be told
from the names; with frozen copies both are the same.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from engine.drafting.heads.base import TargetShape, check_fits
from engine.drafting.heads.layers import read_layers
from engine.drafting.heads.stored import Stored
from engine.errors import IncompatiblePair, ModelError
from engine.models.architecture import Architecture
from engine.models.hidden_states import NORMED, AuxLayer
from engine.models.weights import layer_shapes

MARKOV = "markov_head.markov_w1.weight", "markov_head.markov_w2.weight"
CONFIDENCE = "confidence_head.proj.weight", "confidence_head.proj.bias"


@dataclass(frozen=True, slots=True)
class BlockShape:
    """What a block drafter computes.

    ``block`` rows go through it at once; row ``first`` is the first that names a token. ``mask`` is
    the token that stands where none is known yet. ``read`` are the aux layers in the order ``fc`` takes
    them. ``rank`` is the Markov head's, 0 without one. ``confidence`` is how many numbers the
    confidence head takes, 0 without one.
    """

    architecture: Architecture
    read: tuple[AuxLayer, ...]
    block: int
    first: int
    mask: int
    rank: int
    confidence: int

    @property
    def depth(self) -> int:
        """Tokens drafted in one pass."""
        return self.block - self.first


def read_shape(stored: Stored, target: TargetShape) -> BlockShape:
    """Checks names, shapes and sizes. Raises ModelError or IncompatiblePair."""
    flat = replace(stored, config={**stored.config, **(stored.config.get("dflash_config") or {})})
    config = flat.config
    _refuse_others(flat)
    read = _aux_layers(flat, target)
    hidden, joint = flat.matrix("fc.weight")
    if joint != len(read) * hidden:
        raise ModelError(
            f"In {flat.folder}, fc.weight has the shape {(hidden, joint)}; for the {len(read)} hidden "
            f"states that config.json has it read, it should be {(hidden, len(read) * hidden)}. "
            "Download the head again."
        )
    vocabulary = flat.size("vocab_size", target.vocabulary)
    check_fits(flat, target, hidden=hidden, vocabulary=vocabulary)
    shape = BlockShape(
        architecture=read_layers(
            flat,
            "layers.0.",
            count=flat.size("num_hidden_layers"),
            hidden=hidden,
            vocabulary=vocabulary,
            qk_norm=True,
        ),
        read=read,
        block=flat.size("block_size"),
        first=0 if _names_from_pending(config) else 1,
        mask=_mask(flat, vocabulary),
        rank=flat.matrix(MARKOV[0])[1] if int(config.get("markov_rank") or 0) else 0,
        confidence=flat.matrix(CONFIDENCE[0])[1] if config.get("enable_confidence_head") else 0,
    )
    if shape.depth < 1:
        raise ModelError(
            f"{flat.folder / 'config.json'}: with block_size {shape.block} nothing is drafted. Use the "
            "config.json that was published with the head."
        )
    flat.expect(expected(shape))
    return shape


def expected(shape: BlockShape) -> dict[str, tuple[int, ...]]:
    """All tensors that are read, and the shapes they must have."""
    a = shape.architecture
    shapes = {
        f"layers.{layer}.{name}": size
        for layer, spec in enumerate(a.layers)
        for name, size in layer_shapes(a, spec).items()
    }
    shapes["fc.weight"] = (a.hidden, len(shape.read) * a.hidden)
    shapes |= {"hidden_norm.weight": (a.hidden,), "norm.weight": (a.hidden,)}
    if shape.rank:
        shapes |= dict.fromkeys(MARKOV, (a.vocabulary, shape.rank))
    if shape.confidence:
        shapes |= {CONFIDENCE[0]: (1, _confidence_width(shape)), CONFIDENCE[1]: (1,)}
    return shapes


def parameters(shape: BlockShape) -> int:
    """Numbers that are held: all that is read, keys' and values' weights twice."""
    a = shape.architecture
    again = sum(2 * each.kv_heads * each.head_dim * a.hidden for each in a.attentions)
    return again + sum(math.prod(size) for size in expected(shape).values())


def _confidence_width(shape: BlockShape) -> int:
    """It takes a row's state, or that and the Markov head's row of the token before."""
    a = shape.architecture
    with_markov = shape.rank and shape.confidence != a.hidden
    return a.hidden + shape.rank if with_markov else a.hidden


def _names_from_pending(config: Mapping[str, Any]) -> bool:
    """Whether the pending token's row names the one behind it, as in DeepSpec.

    In DFlash every row names the token that belongs in its own place, so that row names none. vLLM's
    key tells where it is there.
    """
    named = " ".join(map(str, config.get("architectures") or ()))
    return bool(config.get("sample_from_anchor", "DSpark" in named))


def _refuse_others(stored: Stored) -> None:
    """Raises ModelError for relatives that compute something else."""
    config, get = stored.config, stored.config.get
    layer_types = get("layer_types") or ()
    rank = int(get("markov_rank") or 0)
    reasons = {
        "convolutions and a candidate selector (DFlash 2)": get("selector_rank")
        or get("conv_kernel_size"),
        # z-lab's code has windowed layers look back only, within a block too; vLLM's has a switch.
        "layers with a sliding window": any(kind != "full_attention" for kind in layer_types),
        "rows that do not see later ones": get("is_causal") or get("causal_head"),
        "a vocabulary of its own": "d2t" in stored.shapes,
        "latent attention": get("attention_mode") == "mla",
        f"a Markov head of type {get('markov_head_type')!r}": rank
        and get("markov_head_type", "vanilla") != "vanilla",
        "scaled embeddings or logits": get("final_logit_softcapping")
        or any(get(key, 1.0) != 1.0 for key in ("output_multiplier", "input_embedding_scale")),
        "Gemma's layers": "gemma" in str(get("model_type")),
        "speculators' layout": "transformer_layer_config" in config,
    }
    for reason, given in reasons.items():
        if given:
            raise ModelError(
                f"{stored.folder} is no plain DFlash or DSpark head: it has {reason}, which is not "
                "computed here. Choose another head for this target."
            )


def _aux_layers(stored: Stored, target: TargetShape) -> tuple[AuxLayer, ...]:
    """Layers are named by what leaves them, -1 is the embedding.

    z-lab's code takes transformers' ``hidden_states``, whose last is behind the final norm.
    """
    layers = stored.config.get("target_layer_ids")
    if not isinstance(layers, list) or not layers or not all(type(n) is int for n in layers):
        raise ModelError(
            f"{stored.folder / 'config.json'}: key 'target_layer_ids' is {layers!r}; it must be a list "
            "of layers. Use the config.json that was published with the head."
        )
    if not all(-1 <= layer < target.layers for layer in layers):
        raise IncompatiblePair(
            f"The head {stored.folder.name} was made for another target: it reads layers "
            f"{', '.join(map(str, layers))}, {target.path.name} has {target.layers}. Choose a head "
            f"that was trained for {target.path.name}."
        )
    return tuple(NORMED if layer + 1 == target.layers else AuxLayer(layer + 1) for layer in layers)


def _mask(stored: Stored, vocabulary: int) -> int:
    mask = stored.config.get("mask_token_id")
    if isinstance(mask, int) and 0 <= mask < vocabulary:
        return mask
    raise ModelError(
        f"{stored.folder / 'config.json'}: key 'mask_token_id' is {mask!r}; it must be one of the "
        f"{vocabulary:,} tokens. Use the config.json that was published with the head."
    )
