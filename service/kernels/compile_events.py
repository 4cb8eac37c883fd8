"""Owns the count of kernels that Triton compiled in this process, ours and everybody else's. Knows no kernel."""

from collections.abc import Callable
from typing import Any


class _Counter:
    """A hook that counts compilations and hands each on to the hook that was there before."""

    def __init__(self) -> None:
        self.count = 0
        self.watches = False
        self.earlier_hook: Callable[..., Any] | None = None

    def __call__(self, **event: Any) -> Any:
        self.count += 1
        return None if self.earlier_hook is None else self.earlier_hook(**event)


_counter = _Counter()


def watch() -> None:
    """Count compilations from now on; a second call changes nothing. Needs Triton."""
    if _counter.watches:
        return
    from triton import knobs

    _counter.watches = True
    _counter.earlier_hook = knobs.runtime.jit_post_compile_hook
    knobs.runtime.jit_post_compile_hook = _counter


def compiled_kernels() -> int:
    """How many variants of kernels were compiled, or taken from Triton's cache on disk, since the watch began.

    0 where the kernels never ran: with the host backend, without Triton and in Triton's interpreter.
    """
    return _counter.count
