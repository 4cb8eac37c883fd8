"""Device function shared by the kernels over ragged data: which segment owns a flat index. Jit bodies only."""

import triton
import triton.language as tl


@triton.jit
def _owner_of(offsets_ptr, flat, low, high):
    """Segment of each flat index: the largest r in [low, high) with offsets[r] <= flat, or low if there is none.

    ``flat`` [BLOCK] or scalar int64; ``low`` and ``high`` scalar int64, 0 <= low < high <= number of segments.
    Every address read lies in [low, high). A lane that is done repeats its last step, which changes nothing.
    """
    lower = flat * 0 + low
    upper = flat * 0 + high
    span = high - low
    while span > 1:
        middle = (lower + upper) // 2
        at_or_below = tl.load(offsets_ptr + middle) <= flat
        lower = tl.where(at_or_below, middle, lower)
        upper = tl.where(at_or_below, upper, middle)
        span = (span + 1) // 2
    return lower
