"""CUDA kernels in Triton that stream a weight once for 1..16 rows, each beside its torch reference.

``choose`` is where a weight becomes a product. Without CUDA or without Triton it gives the reference,
so that importing this package needs neither: only ``products`` and what it imports name Triton.
"""
