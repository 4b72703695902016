"""Kernels for CUDA devices, each beside its torch reference.

Modules that end in ``_kernel`` need Triton; all others import without it and without a device.
"""
