"""Kernels for CUDA devices, each beside its torch reference.

``choose`` is where a weight becomes a product. Without CUDA or without Triton it gives the reference.
"""
