"""The eager executor in torch: the reference, which runs everywhere."""
