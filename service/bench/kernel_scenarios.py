"""Owns which plans are measured on a device, and how small each is made for the slow reference."""

from dataclasses import replace

from service.bench.batches import BatchShape

_REFERENCE_ENTRIES = 8192
"""About as many entries as the reference computes in a moment."""
_LONG = 128 * 1024
_SHORT_REQUESTS = 1000
_SHORT = 64


def _uniform(name: str, bs: int, prefix: int, extend: int = 1, window: int = 0) -> BatchShape:
    return BatchShape(name, (prefix,) * bs, bs + 1, prefix + extend, extend, window, tokens=True)


def _on_table(rows: int, cols: int) -> BatchShape:
    return BatchShape(f"table_{rows}x{cols}", (1024,) * 256, rows, cols, tokens=True)


def _spread(total: int, bs: int) -> tuple[int, ...]:
    """Lengths of requests that are as equal as they can be."""
    return tuple(total // bs + (r < total % bs) for r in range(bs))


TEN_SCENARIOS = (
    _uniform("smoke_decode_empty", 1, 0),
    _uniform("prefill_last", 1, 12288, 4096),
    _uniform("small_extend", 32, 4096, 128),
    _uniform("decode_mid", 128, 4096),
    _uniform("decode_steady", 256, 4096),
    _uniform("large_bs_short", 1024, 1024),
    _uniform("bs4096", 4096, 512),
    BatchShape("ragged", tuple(16384 * (r * 97 % 256) // 255 for r in range(256)), 257, 16385, tokens=True),
    _uniform("swa_long", 128, 10240, window=128),
    _uniform("swa_short", 256, 128, window=128),
)
LARGEST_BATCH = _uniform("bs65536", 65536, 16)
UNIFORM = BatchShape(
    "uniform",
    _spread(_LONG + _SHORT_REQUESTS * _SHORT, _SHORT_REQUESTS + 1),
    _SHORT_REQUESTS + 2,
    _LONG + 1,
    tokens=True,
)
ONE_LONG = replace(UNIFORM, name="one_long", prefix_lens=(_LONG,) + (_SHORT,) * _SHORT_REQUESTS)
SMALL_TABLE, LARGE_TABLE = _on_table(64, 1024), _on_table(4096, 8192)

KERNEL_SCENARIOS = (*TEN_SCENARIOS, LARGEST_BATCH, UNIFORM, ONE_LONG, SMALL_TABLE, LARGE_TABLE)
COMPARED = (
    (ONE_LONG, UNIFORM, "one request of 128 Ki tokens among 1,000 short ones, against as many entries spread evenly"),
    (LARGE_TABLE, SMALL_TABLE, "256 requests on a table of 4096 x 8192, against one of 64 x 1024"),
)
"""Pairs whose ratio tells something, and what."""


def for_the_reference(shape: BatchShape) -> BatchShape:
    """The same requests with lengths that the slow reference gets through; shorter than the window where there is one.

    The number of requests, which decides how kernels are launched, stays.
    """
    longest = max(_REFERENCE_ENTRIES // shape.bs, 1)
    lens = tuple(min(length, longest) for length in shape.prefix_lens)
    return replace(
        shape,
        prefix_lens=lens,
        rows=min(shape.rows, shape.bs + 1),
        cols=max(lens) + 1,
        window=min(shape.window, max(longest // 2, 1)),
    )
