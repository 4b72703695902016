"""What a model is: its architecture, checkpoints, cache and hidden states. It knows no backend."""
