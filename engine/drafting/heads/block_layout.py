"""The files of block drafters.

DFlash's (z-lab): a Qwen3 config.json with ``dflash_config``, whose keys may also be outside it.
DSpark's (DeepSpec): the same keys outside, the architecture ``...DSparkModel``, ``markov_head.*`` and
``confidence_head.*``. Its embedding and output head are copies of the target's, which DeepSpec's trainers
freeze, and are not read. (SGLang treats them as the draft's own weights; names cannot tell, and frozen
copies make both the same.)
DFlash2's: DFlash's with convolutions in each layer (``attention_conv``, ``mlp_conv``) and a
``candidate_selector``, whose sizes are in ``dflash_config``. Speculators' layout has the layer's
configuration under ``transformer_layer_config`` and names hidden states by what they enter.
Sources of the last two: vLLM 0.32's qwen3_dflash.py, qwen3_dflash2.py and configs/speculators/algos.py;
SGLang 0.5.23's dflash.py; speculators 0.9's models/dflash2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.drafting.heads.base import TargetShape, check_fits, count_parameters, other_target
from engine.drafting.heads.layers import read_layers, refuse_relatives
from engine.drafting.heads.stored import MOST, Stored
from engine.errors import ModelError
from engine.models.architecture import Architecture, LayerSpec
from engine.models.hidden_states import NORMED, AuxLayer
from engine.models.tensor_shapes import layer_shapes

MARKOV = "markov_head.markov_w1.weight", "markov_head.markov_w2.weight"
_SCALES = "output_multiplier", "input_embedding_scale", "attention_value_scale"
SELECTOR = tuple(
    f"candidate_selector.{name}"
    for name in ("predecessor_codebook", "successor_codebook", "hidden_projection.weight")
)
CONVOLUTIONS = "attention_conv.", "mlp_conv."
_SLIDING = "sliding_attention"
CONFIDENCE = "confidence_head.proj.weight", "confidence_head.proj.bias"


@dataclass(frozen=True, slots=True)
class BlockShape:
    """What a block drafter computes.

    ``block``: rows of one pass; ``first``: the first that predicts a token. ``mask``: the token for
    positions not drafted yet. ``read``: the aux layers in the order ``fc`` takes them. ``rank``: the
    Markov head's, 0 without one. ``confidence``: inputs of the confidence head, 0 without one. ``taps``:
    rows that a convolution joins, by factors for ``group`` columns each. ``kept``: tokens that the
    selector chooses among. Both are 0 without.
    """

    architecture: Architecture
    read: tuple[AuxLayer, ...]
    block: int
    first: int
    mask: int
    rank: int
    confidence: int
    taps: int = 0
    group: int = 0
    kept: int = 0
    selector_rank: int = 0

    @property
    def depth(self) -> int:
        """Tokens drafted in one pass."""
        return self.block - self.first


def read_shape(stored: Stored, target: TargetShape) -> BlockShape:
    """Return what the head in ``stored`` computes. Raises ModelError or IncompatiblePair."""
    flat = replace(stored, config=_flat(stored.config))
    config = flat.config
    _check_plain(flat)
    read = _aux_layers(flat, target)
    hidden, joint = flat.matrix("fc.weight")
    if joint != len(read) * hidden:
        raise ModelError(
            f"In {flat.folder}, fc.weight has shape {(hidden, joint)}; config.json lists "
            f"{len(read)} hidden states, so it should be {(hidden, len(read) * hidden)}. "
            "Download the head again."
        )
    vocabulary = flat.size("vocab_size", target.vocabulary)
    check_fits(flat, target, hidden=hidden, vocabulary=vocabulary)
    a = read_layers(
        flat,
        "layers.0.",
        count=flat.size("num_hidden_layers", most=MOST),
        hidden=hidden,
        vocabulary=vocabulary,
        qk_norm=True,
    )
    taps = flat.size("conv_kernel_size") if config.get("conv_kernel_size") else 0
    kept = flat.size("selector_top_k") if config.get("selector_rank") else 0
    shape = BlockShape(
        architecture=replace(a, layers=_seeing(flat, a.layers)),
        read=read,
        block=flat.size("block_size", most=MOST),
        first=0 if _predicts_from_pending(config) else 1,
        mask=_mask(flat, vocabulary),
        rank=flat.matrix(MARKOV[0])[1] if int(config.get("markov_rank") or 0) else 0,
        confidence=flat.matrix(CONFIDENCE[0])[1] if config.get("enable_confidence_head") else 0,
        taps=taps,
        group=flat.size("conv_group_size") if taps else 0,
        kept=min(kept, vocabulary),
        selector_rank=flat.size("selector_rank") if kept else 0,
    )
    if taps and hidden % shape.group:
        raise flat.wrong_key("conv_group_size", f"a divisor of {hidden:,}, the hidden size")
    if shape.depth < 1:
        raise ModelError(
            f"{flat.config_file}: block_size is {shape.block}, so nothing would be drafted. "
            "Use the config.json that was published with the head."
        )
    flat.expect(expected(shape))
    return shape


def expected(shape: BlockShape) -> dict[str, tuple[int, ...]]:
    """Return the tensors that are read, and the shapes they must have."""
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
    if shape.taps:
        factors = 2 * shape.taps * a.hidden // shape.group
        for layer in range(len(a.layers)):
            for name in CONVOLUTIONS:
                prefix = f"layers.{layer}.{name}"
                shapes[f"{prefix}base_kernel"] = (2, shape.taps, a.hidden)
                shapes[f"{prefix}kernel_projection.weight"] = (factors, a.hidden)
    if shape.kept:
        shapes |= dict.fromkeys(SELECTOR[:2], (a.vocabulary, shape.selector_rank))
        shapes[SELECTOR[2]] = (shape.selector_rank, a.hidden)
    if shape.confidence:
        shapes |= {CONFIDENCE[0]: (1, _confidence_width(shape)), CONFIDENCE[1]: (1,)}
    return shapes


def parameters(shape: BlockShape) -> int:
    """Return the parameters in memory: those of keys and values are there twice."""
    a = shape.architecture
    keys_values = sum(2 * each.kv_heads * each.head_dim * a.hidden for each in a.attentions)
    return keys_values + count_parameters(expected(shape))


def _confidence_width(shape: BlockShape) -> int:
    """Return the inputs of the confidence head: a row's state, perhaps beside the Markov head's row."""
    a = shape.architecture
    with_markov = shape.rank and shape.confidence != a.hidden
    return a.hidden + shape.rank if with_markov else a.hidden


def _predicts_from_pending(config: Mapping[str, Any]) -> bool:
    """Return True if the pending token's row predicts the next token, as in DeepSpec.

    In DFlash a row predicts the token at its own position, so that row predicts none. vLLM's key
    decides where it is given.
    """
    return bool(config.get("sample_from_anchor", "DSpark" in str(config.get("architectures"))))


def _check_plain(stored: Stored) -> None:
    """Raise ModelError for relatives that compute something else."""
    get = stored.config.get
    rank = int(get("markov_rank") or 0)
    reasons = {
        "a Markov head and a candidate selector": rank and get("selector_rank"),
        "an output head that ignores later rows": get("causal_head"),
        "its own vocabulary": "d2t" in stored.shapes,
        "attention sinks": any("self_attn.sink" in name for name in stored.shapes),
        "latent attention": get("attention_mode") == "mla",
        f"a Markov head of type {get('markov_head_type')!r}": rank
        and get("markov_head_type", "vanilla") != "vanilla",
        "scaled embeddings, values or logits": get("final_logit_softcapping")
        or any(get(key) not in (None, 1.0) for key in _SCALES),
        "Gemma's layers": "gemma" in str(get("model_type")),
    }
    refuse_relatives(stored, "DFlash or DSpark", reasons)


def _flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys that are nested, beside the others."""
    inner, own = config.get("transformer_layer_config"), config.get("dflash_config") or {}
    if not isinstance(inner, Mapping):
        return {**config, **own}
    layers = config.get("aux_hidden_state_layer_ids")
    return {
        "sample_from_anchor": False,
        "causal": not config.get("sliding_window_non_causal", True),
        **inner,
        **config,
        "target_layer_ids": layers and [layer - 1 for layer in layers],
    }


def _seeing(stored: Stored, layers: Sequence[LayerSpec]) -> tuple[LayerSpec, ...]:
    """Return the layers with what their rows see, by vLLM's rules.

    Rows of sliding layers see no later ones unless a key says so.
    """
    config, types = stored.config, stored.config.get("layer_types") or ()
    if types and len(types) != len(layers):
        raise stored.wrong_key("layer_types", f"a list of {len(layers)}")
    sliding = [kind == _SLIDING for kind in types] or [False] * len(layers)
    causal = next(
        (config[key] for key in ("is_causal", "causal") if config.get(key) is not None), None
    )
    sees_back = sliding if causal is None else [bool(causal)] * len(layers)
    if config.get("use_swa") and not any(sliding):
        sliding = [True] * len(layers)
    window = None
    if any(sliding):
        key = "swa_window_size" if config.get("swa_window_size") is not None else "sliding_window"
        window = stored.size(key)
    return tuple(
        replace(spec, mixer=replace(spec.attention, window=window if slides else None, causal=back))
        for spec, slides, back in zip(layers, sliding, sees_back, strict=True)
    )


def _aux_layers(stored: Stored, target: TargetShape) -> tuple[AuxLayer, ...]:
    """Return the layers: config.json names a layer by its output, -1 is the embedding.

    The last is ``NORMED``, as in transformers' ``hidden_states``, which z-lab's code reads.
    """
    layers = stored.config.get("target_layer_ids")
    if not isinstance(layers, list) or not layers or not all(type(n) is int for n in layers):
        raise stored.wrong_key("target_layer_ids", "a list of layers")
    if not all(-1 <= layer < target.layers for layer in layers):
        read = ", ".join(map(str, layers))
        raise other_target(
            stored, target, f"reads layers {read}; {target.path.name} has {target.layers}"
        )
    return tuple(NORMED if layer + 1 == target.layers else AuxLayer(layer + 1) for layer in layers)


def _mask(stored: Stored, vocabulary: int) -> int:
    mask = stored.config.get("mask_token_id")
    if isinstance(mask, int) and 0 <= mask < vocabulary:
        return mask
    raise stored.wrong_key("mask_token_id", f"one of the {vocabulary:,} tokens")
