"""Triton kernels for NVIDIA GPUs, each beside its plain torch reference; imported only where used."""
