"""The own decoder on a CUDA device, and whole rounds there.

``layers``      a checkpoint's tensors as products of the kernels, with what is fused with them
``state``       a sequence's state, whose length host and device know
``decoder``     the model itself
``failures``    what CUDA says when it cannot go on, as the engine's errors
``round``       one round as device operations alone: draft, verify, judge, next inputs
``graphs``      rounds captured once and replayed, and their results on the host

Importing this package needs neither Triton nor a device; ``round`` and ``graphs`` need Triton.
"""
