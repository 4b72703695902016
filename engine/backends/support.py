"""What a backend declares that it computes. What it does not list, it does not get."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from engine.kernels.formats import AS_STORED
from engine.models.architecture import Architecture, features

ATTENTION = frozenset(
    {
        "layers.mixer=Attention", "layers.mixer.rope", "layers.mixer.rope.magnitude",
        "layers.mixer.window", "tied", "qkv_bias", "output_bias", "mlp_bias", "joined", "qk_norm",
        "centred_norms", "sandwich_norms", "embedding_scale", "score_cap", "logit_cap",
    }
)  # fmt: skip
"""What every executor computes of decoders that attend in each layer, beside their activations."""


@dataclass(frozen=True, slots=True)
class Support:
    """``features`` by the names of ``engine.models.architecture.features``, ``formats`` of the weights.

    ``backend`` stands in sentences: "The compiled step". ``blocks``: the formats of a GGUF file's blocks
    that it multiplies as the file has them, where ``formats`` has ``AS_STORED``; ``rounded``: those that
    it then takes too, but holds in int8.
    """

    backend: str
    features: frozenset[str]
    formats: tuple[str, ...]
    blocks: frozenset[str] = frozenset()
    rounded: frozenset[str] = frozenset()

    def why_not(
        self, architecture: Architecture, weights: str, blocks: Collection[str] = ()
    ) -> str | None:
        """Why the backend cannot run such a model with ``weights`` so; None where it lists all of it.

        ``blocks``: the formats that are meant where ``weights`` is ``AS_STORED``. A sentence for people.
        What it says of sizes is the backend's own affair.
        """
        unlisted = sorted(features(architecture) - self.features)
        if unlisted:
            return f"{self.backend} cannot compute {', '.join(unlisted)}, which the model needs."
        if weights not in self.formats:
            known = ", ".join(self.formats)
            return f"{self.backend} cannot take weights in {weights}, only in {known}."
        unknown = sorted(set(blocks) - self.blocks - self.rounded) if weights == AS_STORED else ()
        if unknown:
            return f"{self.backend} cannot take blocks of {', '.join(unknown).upper()}."
        return None
