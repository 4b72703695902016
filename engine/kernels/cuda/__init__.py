"""Kernels for CUDA devices in Triton. ``engine.backends.cuda`` calls them.

Importing this package needs neither Triton nor a device.

Linear layers, in ``linear``, that stream a weight once for 1 to 64 rows:
    ``dispatch``            choose the kernel for a weight's format, or the torch reference off CUDA
    ``bulk``                the same for many rows of a prompt, through cuBLAS; NF4 by ``nf4_widen``
    ``fusion``              what a launch does besides the product (norm, bias, gate), and the norm alone
    ``streamed``            launches
    ``reference``           the same in torch, for all three formats
    ``tiles``               how the work is split
    ``float_weights`` ``int8`` ``nf4``   kernels; ``parts`` is what they share

Attention over a cache whose length is on the device:
    ``attention``           launch; kernels in ``attention_kernel``
    ``rotary``              launch; kernel in ``rotary_kernel``
    ``kv_cache``            the cache itself

From logits to accepted tokens, in three launches a round (adjust, truncate, accept):
    ``state``               what a sequence keeps on the device between rounds
    ``arithmetic``          noise and exponentials, with their torch twins
    ``sampling``            penalties, mask, temperature: launches of the first two, and their kernel;
                            the reference of the penalties is ``engine.decoding.sampling``
    ``truncation``          top-k, top-p, min-p without a sort, with its reference
    ``acceptance``          launch of the third; kernel in ``acceptance_kernel``, its reference is
                            ``engine.decoding.acceptance``

``clock`` stamps the device's time, to measure the parts of a round.
``availability`` says where kernels run.
``last_program`` tells a program that it is the last of its launch; linear and sampling kernels use it.

Importing these needs Triton: ``linear.streamed``, the kernels, ``last_program``, ``clock``, and
``sampling`` except ``sampling.state``. The other modules must not import it at module level.
"""

from __future__ import annotations

STREAMED_ROWS = 64
"""Most rows that the kernels compute at once: up to here, reading a weight takes longer than multiplying
by it."""
KV_SPLIT = 256
"""Positions of the KV cache that one program of the attention kernel reads."""
