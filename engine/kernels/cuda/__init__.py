"""Kernels for CUDA devices in Triton. ``engine.backends.cuda`` calls them.

Importing this package needs neither Triton nor a device.

Linear layers, in ``linear``, that read a weight once for 1 to 64 rows:
    ``dispatch``            chooses the kernel for a weight's format, or the torch reference off CUDA
    ``streamed``            launches the kernels
    ``bulk``                any number of rows: the kernel for few; cuBLAS for many, then ``bulk_kernel``
    ``fusion``              what comes with a product: a norm before it, bias, gate and residual in it
    ``tiles``               how the work is split
    ``float_weights`` ``int8`` ``nf4`` ``blocks``   kernels; ``parts`` is what they share
    ``experts``             a layer of experts, each row multiplied by its own's weight

Attention over a cache whose length is on the device:
    ``attention``           launch; kernels in ``attention_kernel``
    ``rotary``              launch; kernel in ``rotary_kernel``
    ``kv_cache``            the cache itself

Recurrent layers, whose states take in rows once they are certain:
    ``recurrence``          launch and what is kept; kernel in ``recurrence_kernel``

From logits to accepted tokens, in ``sampling``:
    ``state``               a sequence's sampling state on the device
    ``distribution``        bias, penalties, mask, temperature, top-k, top-p, min-p: operations of torch
    ``acceptance``          the races that draw tokens, and the acceptance rules: two kernels
    ``arithmetic``          their noise

``references`` has linear layers, attention, rope and norms in torch.
``intrinsics`` finds the last program of a launch, and stamps the device's time.

Importing these needs Triton: ``linear.streamed``, the kernels, ``intrinsics``, ``sampling.acceptance``
and ``sampling.arithmetic``. The other modules must not import it at module level.
"""

from __future__ import annotations

STREAMED_ROWS = 64
"""Most rows that the kernels compute at once: up to here, reading a weight takes longer than multiplying
by it."""
KV_SPLIT = 256
"""Positions of the KV cache that a program of the attention kernel reads at once."""
_KV_PROGRAMS = 512
"""Programs of all KV heads together, at most: four on each of 128 multiprocessors."""


def kv_parts(kv_heads: int) -> int:
    """Return the most parts in which attention sums the splits of a KV cache, one program a part."""
    return max(_KV_PROGRAMS // kv_heads, 1)
