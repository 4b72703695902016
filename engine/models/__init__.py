"""Models: architecture, checkpoints, sequence states and hidden states. Nothing here knows a backend."""
