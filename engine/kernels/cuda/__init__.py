"""Kernels for CUDA devices in Triton, each beside its torch reference. ``engine.backends.cuda`` calls
them. Importing this package needs neither Triton nor a device.

Products that stream a weight once for 1..16 rows:
    ``dispatch``            format and weight to a product: the kernel on CUDA, else the reference
    ``bulk_product``        the same for many rows of a prompt, through cuBLAS; NF4 by ``nf4_widen``
    ``fusion``              what is done with a product in the same launch: norm, bias, gate
    ``products``            launches
    ``norm``                a norm that no product follows; kernel in ``norm_kernel``
    ``product_reference``   what they mean in torch, for all three kinds
    ``product_tiles``       how the work is split
    ``float_product`` ``int8_product`` ``nf4_product``   kernels; ``product_parts`` is what they share

Attention over a cache whose length is on the device:
    ``attention``           launch and reference; kernels in ``attention_kernel``
    ``rotary``              launch and reference; kernel in ``rotary_kernel``
    ``kv_cache``            the cache itself

From logits to accepted tokens, in three launches a round (adjust, truncate, accept):
    ``state``               what a sequence keeps on the device between rounds
    ``arithmetic``          noise and exponentials, with their torch twins
    ``sampling``            penalties, mask, temperature: launches of the first two, and their kernel;
                            the reference of the penalties is ``engine.decoding.sampling``
    ``truncation``          top-k, top-p, min-p without a sort, with its reference
    ``acceptance``          launch of the third; kernel in ``acceptance_kernel``, its reference is
                            ``engine.decoding.acceptance``

``clock`` is the device's own, for how long the parts of a round take.
``availability`` says where kernels run.
``last_program`` tells which program of a launch comes last; products and sampling both need to know.

These need Triton when they are imported: ``products``, the kernels, ``last_program``, ``clock``, and of
sampling all but ``state``. The rest must not, at module level.
"""

from __future__ import annotations

STREAMED_ROWS = 64
"""Most rows of a prompt that the kernels compute: up to here, reading a weight takes longer than
multiplying by it."""
KV_SPLIT = 256
"""Positions of the KV cache that one program of the attention kernel reads."""
