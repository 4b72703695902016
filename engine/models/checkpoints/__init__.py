"""Read model files: headers as a ``Checkpoint``, tensors one at a time."""
