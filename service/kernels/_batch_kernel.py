"""Device functions over the requests of a batch: lens, owners of flat indices, seeds, totals. Jit bodies only.

Operands travel in tuples: ``batch`` is (req_pool_indices_ptr, prefix_lens_ptr, bs, window), ``table`` is
(req_to_token_ptr, rows, cols), ``lut`` is (lut_ptr, lut_len).
"""

import triton
import triton.language as tl

NO_FAULT = tl.constexpr(2**63 - 1)
_INT32_MAX = tl.constexpr(2**31 - 1)
_LONGEST = tl.constexpr(2**40)
"""Bound on one unjudged length: above any real one, and low enough that a million of them add up within int64."""
FARTHEST = tl.constexpr(2**62)
"""Where sums of unjudged lengths stay: above any capacity, and low enough that a million lengths can be added."""


@triton.jit
def _cached_tokens(prefix):
    """Cached tokens of a request: its prefix length within bounds."""
    return tl.minimum(tl.maximum(prefix, 0), _LONGEST)


@triton.jit
def _window_start(prefix, window):
    """First verified position: max(0, prefix - window) for a window above 0, else 0."""
    return tl.where(window > 0, tl.maximum(prefix - window, 0), 0)


@triton.jit
def _read_requests(batch, lanes):
    """Row, cached tokens and verify lens of requests; an inactive one, and one beyond the batch, has none of either."""
    req_pool_indices_ptr, prefix_lens_ptr, bs, window = batch
    row = tl.load(req_pool_indices_ptr + lanes, mask=lanes < bs, other=0)
    prefix = _cached_tokens(tl.load(prefix_lens_ptr + lanes, mask=lanes < bs, other=0))
    prefix = tl.where(row != 0, prefix, 0)
    return row, prefix, prefix - _window_start(prefix, window)


@triton.jit
def _read_request(batch, request):
    """Row, verify lens and first verified position of one request, 0 <= request < bs."""
    req_pool_indices_ptr, prefix_lens_ptr, _, window = batch
    row = tl.load(req_pool_indices_ptr + request)
    prefix = _cached_tokens(tl.load(prefix_lens_ptr + request))
    first_position = _window_start(prefix, window)
    return row, tl.where(row != 0, prefix - first_position, 0), first_position


@triton.jit
def _read_extend_lens(extend_seq_lens_ptr, lanes, bs, row):
    """New tokens of requests; an inactive one, and one beyond the batch, has none."""
    extend = tl.load(extend_seq_lens_ptr + lanes, mask=lanes < bs, other=0)
    return tl.where(row != 0, tl.maximum(extend, 0), 0)


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


@triton.jit
def _translate(slots, lut):
    """Slots through the look-up table: negative ones stay, those outside become -1."""
    lut_ptr, lut_len = lut
    # Bounded by the look-up table: 0 <= slot < lut_len, or nothing is read.
    translated = tl.load(lut_ptr + slots, mask=(slots >= 0) & (slots < lut_len), other=-1)
    return tl.where(slots < 0, slots, translated)


@triton.jit
def _store_seeds(
    lanes, bs, row, prefix, extend, table, lut, seeds_ptr, faults_ptr, HAS_LUT: tl.constexpr, REPORTS: tl.constexpr
):
    """Store the seed of each request: the slot of its last cached token, -1 without one or with nothing to write."""
    req_to_token_ptr, rows, cols = table
    # Bounded by the table: 0 <= row < rows and 0 <= prefix - 1 < cols, or nothing is read.
    readable = (extend > 0) & (prefix > 0) & (row >= 0) & (row < rows) & (prefix <= cols)
    seed = tl.load(req_to_token_ptr + row * cols + prefix - 1, mask=readable, other=-1).to(tl.int64)
    if HAS_LUT:
        if REPORTS:
            _, lut_len = lut
            first_fault = tl.min(tl.where(seed >= lut_len, lanes, NO_FAULT), 0)
            if first_fault != NO_FAULT:
                tl.atomic_min(faults_ptr + 1, first_fault)
        seed = _translate(seed, lut)
    tl.store(seeds_ptr + lanes, seed, mask=lanes < bs)


@triton.jit
def _store_offsets(requests, bs, lens, extend, verify_before, write_before, outputs):
    """Store the offsets of requests, before which there are so many verify entries and new tokens."""
    verify_offsets_ptr, _, _, write_offsets_ptr, _ = outputs
    in_batch = requests < bs
    tl.store(verify_offsets_ptr + requests, verify_before + tl.cumsum(lens, 0) - lens, mask=in_batch)
    tl.store(write_offsets_ptr + requests, write_before + tl.cumsum(extend, 0) - extend, mask=in_batch)


@triton.jit
def _store_totals(verify_total, write_total, bs, verify_capacity, write_offsets_len, outputs, BLOCK: tl.constexpr):
    """Store both totals, the overflow flag and the counts, and zero the write offsets beyond the batch."""
    verify_offsets_ptr, verify_num_valid_ptr, verify_enable_ptr, write_offsets_ptr, write_num_valid_reqs_ptr = outputs
    tl.store(verify_offsets_ptr + bs, verify_total)
    tl.store(write_offsets_ptr + bs, write_total)
    for start in range(bs + 1, write_offsets_len, BLOCK):
        tail = start + tl.arange(0, BLOCK).to(tl.int64)
        tl.store(write_offsets_ptr + tail, tl.zeros((BLOCK,), tl.int64), mask=tail < write_offsets_len)
    num_valid = tl.minimum(tl.minimum(verify_total, verify_capacity), _INT32_MAX)
    tl.store(verify_num_valid_ptr, num_valid.to(tl.int32))
    tl.store(verify_enable_ptr, (verify_total <= verify_capacity).to(tl.int32))
    tl.store(write_num_valid_reqs_ptr, bs.to(tl.int32))
