"""Files on disk, read as one Checkpoint: headers first, tensors when they are asked for."""
