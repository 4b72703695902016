"""What a backend declares that it computes. What it does not list, it does not get."""

from __future__ import annotations

from dataclasses import dataclass

from engine.models.architecture import Architecture, features


@dataclass(frozen=True, slots=True)
class Support:
    """``features`` by the names of ``engine.models.architecture.features``, ``formats`` of the weights.

    ``backend`` stands in sentences: "The compiled step".
    """

    backend: str
    features: frozenset[str]
    formats: tuple[str, ...]

    def why_not(self, architecture: Architecture, weights: str) -> str | None:
        """Why the backend cannot run such a model with ``weights`` so; None where it lists all of it.

        A sentence for people. What it says of sizes is the backend's own affair.
        """
        unlisted = sorted(features(architecture) - self.features)
        if unlisted:
            return f"{self.backend} cannot compute {', '.join(unlisted)}, which the model needs."
        if weights not in self.formats:
            known = ", ".join(self.formats)
            return f"{self.backend} cannot take weights in {weights}, only in {known}."
        return None
