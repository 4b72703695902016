"""Trainer of an EAGLE-3 head: one layer that drafts from the target's hidden states, then from its own.

The loss is the KL divergence from the target's distribution at every step of the training-time test,
weighted 0.8 per step as in SafeAILab's training. The vocabulary is trimmed to the most frequent tokens of
the recorded replies; both distributions are over these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.drafting.heads.stored import Stored
from engine.models.hidden_states import NORMED, entering
from engine.train.data.batches import Batch
from engine.train.data.recording import Recording
from engine.train.device import compute_dtype
from engine.train.heads.eagle3_layer import EPSILON, Layer, Starts
from engine.train.loop import Loss
from engine.train.losses import HEAD_ROWS, CachedTeacher, head_loss
from engine.train.progress import report
from engine.train.schema import need, need_sizes
from engine.train.trainer import TargetView, copy_weights, write_head

_DECAY = 0.8
_CONTINUED_STEPS = 5
_SAMPLE = 64  # replies that hidden states are scaled by
_FITTED, _RIDGE = 32_768, 0.03  # positions that ``fc`` is fitted to; the penalty's share
_LAYER, _PUBLISHED = "layers.0.", "midlayer."


@dataclass(frozen=True, slots=True)
class Eagle3Shape:
    """``steps`` of the unrolled layer; ``layers`` of the target whose input is read.

    ``draft_vocabulary``: the most tokens that it drafts. By default ``layers`` are 2, L / 2 and L - 3.
    Sizes of 0 follow from the target's width, see ``sized``.
    ``learn_head``: whether the output matrix learns too, or stays the target's own rows.
    ``hidden_weight``: share of the distance from the target's own states (EAGLE's regression, arXiv
    2401.15077) that is added to the loss: it teaches more from little text.
    ``fitted``: whether ``fc`` begins as the least squares fit of the target's next state.
    """

    steps: int = 4
    draft_vocabulary: int = 1024
    heads: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    intermediate_size: int = 0
    rope_theta: float = 10000.0
    layers: tuple[int, ...] = ()
    learn_head: bool = True
    hidden_weight: float = 0.0
    fitted: bool = False

    def __post_init__(self) -> None:
        """Raise RecipeError for no steps or no tokens."""
        need_sizes(self, "steps", "draft_vocabulary")


def sized(shape: Eagle3Shape, width: int) -> Eagle3Shape:
    """Fill in sizes of 0 for a target of ``width``: heads that fill it, half as many KV heads, and a
    feed-forward layer a third wider, in steps of 64.

    There are more KV heads than usual: only they carry the last token's embedding. Raises RecipeError
    for sizes that do not fit one another.
    """
    dim = shape.head_dim or (128 if width >= 1024 else 64)
    heads = shape.heads or max(2, width // dim)
    shared = max(count for count in range(1, max(heads // 2, 1) + 1) if heads % count == 0)
    inner = max(1, width * 4 // 3 // 64) * 64
    kv_heads = shape.kv_heads or shared
    need(
        heads % kv_heads == 0 and dim % 2 == 0,
        "shape.heads",
        "must be a multiple of kv_heads, and head_dim must be even",
    )
    return replace(
        shape,
        head_dim=dim,
        heads=heads,
        kv_heads=kv_heads,
        intermediate_size=shape.intermediate_size or inner,
    )


class Eagle3(nn.Module):
    """Parameters under their published names, but for ``layers.0.`` instead of ``midlayer.``."""

    targets: Tensor  # (draft vocabulary,) int64, rising: the target's numbers of the draft's tokens
    offsets: Tensor  # published as d2t
    marked: Tensor  # published as t2d

    def __init__(self, shape: Eagle3Shape, count: int, target: TargetView) -> None:
        super().__init__()
        width, tokens = target.hidden, min(shape.draft_vocabulary, target.vocabulary)
        self.fc = nn.Linear(count * width, width, bias=False)
        self.layers = nn.ModuleList(
            [Layer(width, shape.intermediate_size, shape.heads, shape.kv_heads, shape.head_dim)]
        )
        self.norm = nn.RMSNorm(width, EPSILON)
        self.lm_head = nn.Linear(width, tokens, bias=False)
        self.register_buffer("targets", torch.arange(tokens))
        for name, size in (("offsets", tokens), ("marked", target.vocabulary)):  # in the files
            dtype = torch.bool if name == "marked" else torch.int64
            self.register_buffer(name, torch.zeros(size, dtype=dtype), persistent=False)
        with torch.no_grad():
            # fc begins by passing on the last of the states that it reads.
            self.fc.weight.normal_(std=0.1 * width**-0.5)
            self.fc.weight[:, -width:] += torch.eye(width)
        self.lm_head.weight.requires_grad_(shape.learn_head)

    @property
    def layer(self) -> Layer:
        (layer,) = self.layers
        assert isinstance(layer, Layer)
        return layer

    @torch.no_grad()
    def fit_sizes(self, read: Sequence[float], normed: Tensor) -> None:
        """Scale the inputs of ``fc`` by 1 / ``read`` and the output to ``normed``.

        ``normed`` (width,): root mean square of the inputs of the target's output head.
        """
        for columns, size in zip(self.fc.weight.chunk(len(read), dim=1), read, strict=True):
            columns.div_(max(size, 1e-6))
        self.norm.weight.copy_(normed)

    @torch.no_grad()
    def trim_vocabulary(self, targets: Tensor, rows: Tensor) -> None:
        """Trim the vocabulary to ``targets``, with ``rows`` of the target's output head."""
        self.targets.copy_(targets)
        self.lm_head.weight.copy_(rows)


class Eagle3Trainer:
    """See ``Trainer`` and ``Surveyor``."""

    Shape = Eagle3Shape

    def __init__(self, shape: Eagle3Shape, target: TargetView) -> None:
        """Raises RecipeError for what does not fit the target."""
        shape = sized(shape, target.hidden)
        self._shape, self._target = shape, target
        last = target.info.layers
        self._layers = shape.layers or (min(2, last), last // 2, max(last - 3, 0))
        need(
            max(self._layers) <= last, "shape.layers", f"must be layers of the target, 0 to {last}"
        )
        self.aux_layers, self.depth = entering(*dict.fromkeys(self._layers)), shape.steps
        device = target.device
        self.module = Eagle3(shape, len(self._layers), target).to(device)
        self.dtype = compute_dtype(device)
        self._head_rows = self.module.lm_head.weight.detach().clone()  # see ``survey``

    def survey(self, recording: Recording) -> None:
        """Trim the vocabulary to the most frequent tokens of the replies.

        Scale inputs and outputs by the recorded states: norms learn their scale slowly.
        """
        times = torch.zeros(self._target.vocabulary, dtype=torch.int64)
        for reply in recording.replies:
            answer = recording.tokens(reply)[reply.start :].long()
            times += torch.bincount(answer, minlength=len(times))
        network = self.module
        # A stable order, so that a run that goes on finds the same tokens.
        common = times.sort(descending=True, stable=True).indices[: len(network.targets)]
        self._head_rows = self._target.head_rows(common.sort().values)
        network.trim_vocabulary(common.sort().values, self._head_rows)
        self._fit_sizes(recording)
        if self._shape.fitted:
            self._fit_states(recording)
        share = int(times[common].sum()) / max(1, int(times.sum()))
        report(f"the head can draft {len(common)} tokens: {share:.2%} of the target's text")

    def _fit_sizes(self, recording: Recording) -> None:
        replies = recording.replies[:_SAMPLE]
        sizes = []
        for aux_layer in entering(*self._layers):
            rows = torch.cat([recording.states(aux_layer, reply)[:-1].float() for reply in replies])
            # Not the mean: of a text's first token many models make far larger states (arXiv 2402.17762).
            sizes.append(float(rows.square().mean(1).median().sqrt()))
        normed = torch.cat([recording.states(NORMED, reply)[:-1].float() for reply in replies])
        self.module.fit_sizes(sizes, normed.square().mean(0).sqrt())

    def _fit_states(self, recording: Recording) -> None:
        """Fit ``fc`` to the target's next state by ridge regression; the layer adds zero at first."""
        network = self.module
        width = len(self._layers) * self._target.hidden
        gram = torch.zeros(width, width, device=self._target.device)
        product = torch.zeros(width, self._target.hidden, device=self._target.device)
        count = 0
        for reply in recording.replies:
            # From behind the first token, see ``_fit_sizes``.
            parts = [
                recording.states(aux_layer, reply)[1:-2] for aux_layer in entering(*self._layers)
            ]
            joint = torch.cat(parts, dim=1).to(gram)
            goal = recording.states(NORMED, reply)[2:-1].to(gram) / network.norm.weight.detach()
            gram.addmm_(joint.T, joint)
            product.addmm_(joint.T, goal)
            count += len(joint)
            if count >= _FITTED:
                break
        # Parts of very different size: each number's own share of the penalty is as large as itself.
        ridge = _RIDGE * gram.diagonal()
        with torch.no_grad():
            network.fc.weight.copy_(torch.linalg.solve(gram + ridge.diag(), product).T)
            network.layer.self_attn.o_proj.weight.zero_()
            network.layer.mlp.down_proj.weight.zero_()

    def unroll(self, batch: Batch, starts: Starts) -> Iterator[Tensor]:
        """Yield the states behind the norm at each step: (starts, hidden)."""
        network, steps = self.module, self._shape.steps
        tokens = F.pad(batch.tokens[:, 1:], (0, steps))
        embedded = self._target.embedded(tokens)
        joint = torch.cat([batch.states[aux_layer] for aux_layer in entering(*self._layers)], dim=2)
        fused = F.linear(joint.to(self.dtype), network.fc.weight.to(self.dtype))
        for state in network.layer.unroll(embedded, fused, starts, steps, self._shape.rope_theta):
            yield network.norm(state.float()).to(self.dtype)

    def loss(self, batch: Batch) -> Loss:
        network, drafted = self.module, self._drafted()
        output = network.lm_head.weight.to(self.dtype)
        total, count = batch.states[NORMED].new_zeros(()), 0
        # Drafts start where the pending token was sampled: it has no hidden states yet.
        sources = batch.pairs(ahead=1).sources
        if not len(sources):  # gradients of zero, for every weight to have one
            return Loss(0 * torch.stack([one.sum() for one in network.parameters()]).sum(), 0)
        number = sources.new_full((batch.positions,), -1)
        number[sources] = torch.arange(len(sources), device=sources.device)
        starts = Starts.where((number >= 0).view_as(batch.tokens))
        normed = batch.states[NORMED].flatten(0, 1)
        log_p = self._log_p(normed)
        for step, states in enumerate(self.unroll(batch, starts)):
            pairs = batch.pairs(ahead=step + 1)
            at, labels = number[pairs.sources], drafted[pairs.labels]
            used = (at >= 0) & (labels >= 0)
            goals = pairs.goals[used]
            goal = CachedTeacher(
                normed, self._head_rows, labels[used], self._target.hard_weight, log_p, goals
            )
            loss = head_loss(states[at[used]], output, goal)
            if self._shape.hidden_weight:
                loss = loss + self._shape.hidden_weight * self._distance(
                    states[at[used]], normed[goals]
                )
            total = total + _DECAY**step * loss
            count += len(goal.labels)
        return Loss(total, count)

    def _log_p(self, normed: Tensor) -> Tensor:
        """Return the target's log p over the trimmed vocabulary: (positions, draft vocabulary)."""
        return torch.cat(
            [
                torch.log_softmax(F.linear(part, self._head_rows), -1)
                for part in normed.split(HEAD_ROWS)
            ]
        )

    def _distance(self, states: Tensor, normed: Tensor) -> Tensor:
        """Return the summed distance of states from the target's, relative to their scale."""
        scale = self._target.scale
        distance = F.smooth_l1_loss(states.float() / scale, normed / scale, reduction="none")
        return distance.mean(1).sum()

    def export(self, folder: Path) -> None:
        """Write SafeAILab's layout; the embedding is the target's."""
        network = self.module
        network.offsets.copy_(network.targets - torch.arange(len(network.targets)))
        network.marked.copy_(self._drafted() >= 0)
        write_head(folder, self._config(), self.tensors())

    def tensors(self) -> Mapping[str, Tensor]:
        network = self.module
        named = {
            name.replace(_LAYER, _PUBLISHED): value for name, value in network.named_parameters()
        }
        return {**named, "d2t": network.offsets, "t2d": network.marked}

    @classmethod
    def shape_of(cls, config: Mapping[str, Any]) -> Eagle3Shape:
        """See ``Continuing``; it unrolls as many steps as are mostly drafted."""
        if config.get("norm_before_residual") or not config.get("head_dim"):
            raise ValueError("it is of another make")
        return Eagle3Shape(
            steps=_CONTINUED_STEPS,
            draft_vocabulary=config["draft_vocab_size"],
            heads=config["num_attention_heads"],
            kv_heads=config["num_key_value_heads"],
            head_dim=config["head_dim"],
            intermediate_size=config["intermediate_size"],
            rope_theta=config["rope_theta"],
            layers=tuple(config["eagle_aux_hidden_state_layer_ids"]),
        )

    def restore(self, head: Stored) -> None:
        network = self.module
        copy_weights(self.tensors(), head)
        network.targets.copy_(network.offsets + torch.arange(len(network.targets)))
        self._head_rows = self._target.head_rows(network.targets)

    def _drafted(self) -> Tensor:
        """Return the draft's number of each of the target's tokens, -1 without one: (vocabulary,)."""
        targets = self.module.targets
        result = targets.new_full((self._target.vocabulary,), -1)
        result[targets] = torch.arange(len(targets), device=targets.device)
        return result

    def _config(self) -> dict[str, Any]:
        shape, target = self._shape, self._target
        return {
            "architectures": ["LlamaForCausalLMEagle3"],
            "model_type": "llama",
            "hidden_size": target.hidden,
            "intermediate_size": shape.intermediate_size,
            "num_hidden_layers": 1,
            "num_attention_heads": shape.heads,
            "num_key_value_heads": shape.kv_heads,
            "head_dim": shape.head_dim,
            "hidden_act": "silu",
            "rms_norm_eps": EPSILON,
            "rope_theta": shape.rope_theta,
            "max_position_embeddings": target.info.context,
            "vocab_size": target.vocabulary,
            "draft_vocab_size": len(self.module.targets),
            "tie_word_embeddings": False,
            "norm_before_residual": False,
            "eagle_aux_hidden_state_layer_ids": list(self._layers),
        }
