"""One GPU, measured: how near decoding comes to its memory's bandwidth, and others beside it.

``supervise``   the run in a process of its own, and another one where that ends early
``run``         the parts in their order, under a budget of time
``state``       what was found and what is under way, in a file between those processes
``budget``      what still fits; what does not is reported
``report``      results as a page and as JSON, written after every part
``expected``    what this engine is meant to reach
``device``      which device it is, or why there is none
``clock``       seconds, by CUDA's events; graphs
``shapes``      sizes of real models
``weights``     random ones, on the device, which make drafts right at a set rate
``engines``     the one place that knows how this engine is built for a device
``products``    T(M) of matrix products and attention
``steps``       T(M) of whole steps; whether bits are equal
``speed``       tokens/s: engines in turns on the same weights
``contest``     one model in one format: who takes part in that
``rounds``      this engine's captured rounds as one who does
``rivals``      transformers, torch.compile, bitsandbytes
"""
