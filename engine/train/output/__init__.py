"""The folder that a run writes: checkpoints, weights and model card."""
