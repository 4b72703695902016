"""Measure one GPU: how near decoding comes to its memory's bandwidth, and other engines in comparison.

``supervise``   the run in a process of its own, and in another one if that ends early
``run``         the parts in their order, within a budget of time
``state``       results and the current part, in a file between those processes
``budget``      what still fits; the rest is reported
``report``      results as a page and as JSON, written after every part
``expected``    what this engine is meant to reach
``device``      the device, or why there is none
``clock``       seconds, by CUDA's events; graphs
``shapes``      sizes of real models
``weights``     random weights on the device, for which a draft is right at a set rate
``engines``     builds this engine for a device
``kernels``     T(M) of linear layers and attention
``steps``       T(M) of whole steps; whether bits are equal
``speed``       tokens/s: engines in turns on the same weights
``contest``     one model in one format, and the engines that run it
``rounds``      this engine's captured rounds as a contender
``rivals``      transformers, torch.compile, bitsandbytes
"""
