"""Launches a Triton kernel, past Triton's own dispatch once it is compiled: that costs more than the launch itself.

Knows no plan. Uses what ``JITFunction.run`` of Triton 3.6 and 3.7 does last: ``compiled.run``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from triton import knobs
from triton.runtime import driver

Constants = NamedTuple
"""Values of a kernel's constexpr parameters, named and ordered as those, which come last."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A kernel with its constants, compiled for a device and loaded; in the interpreter there is nothing compiled."""

    kernel: Any
    constants: Constants
    device_index: int | None
    compiled: Any

    def launch(self, programs: int, pointers: Sequence[torch.Tensor], sizes: Sequence[int]) -> None:
        """Enqueue ``programs`` programs on the current stream of the device, which must be the current one."""
        runtime, compiled = knobs.runtime, self.compiled
        if compiled is None or _is_heard(runtime.launch_enter_hook) or _is_heard(runtime.launch_exit_hook):
            self.kernel[(programs,)](*pointers, *sizes, **self.constants._asdict(), **_options(self.constants))
            return
        addresses = [tensor.data_ptr() for tensor in pointers]
        stream = driver.active.get_current_stream(self.device_index)
        grid_and_kernel = (programs, 1, 1, stream, compiled.function, compiled.packed_metadata)
        compiled.run(*grid_and_kernel, None, None, None, *addresses, *sizes, *self.constants)


@dataclass(slots=True)
class Launcher:
    """The variants of one kernel, which takes pointers, then sizes, then constants.

    The constants alone decide how it is compiled.
    WAITS: it may begin before the kernel ahead of it has ended, and waits for that by itself.
    """

    kernel: Any
    _variants: dict[tuple[int | None, Constants], Variant] = field(default_factory=dict)

    def variant(self, device: torch.device, constants: Constants) -> Variant | None:
        """The variant with these constants, if it is compiled."""
        return self._variants.get((device.index, constants))

    def compile(
        self,
        device: torch.device,
        pointers: Sequence[torch.Tensor],
        sizes: Sequence[int],
        all_constants: Sequence[Constants],
    ) -> Variant:
        """The first of several variants, all compiled; ``pointers`` and ``sizes`` are those of any launch.

        ``device`` must be the current one.
        """
        for constants in all_constants:
            named = constants._asdict() | _options(constants)
            compiled = self.kernel.warmup(*pointers, *sizes, grid=(1,), **named)
            if compiled is not None:
                _ = compiled.run  # loads it, which a stream that is being captured would not allow
            self._variants[device.index, constants] = Variant(self.kernel, constants, device.index, compiled)
        return self._variants[device.index, all_constants[0]]


def _options(constants: Constants) -> dict[str, bool]:
    """What else Triton has to know to compile and launch a kernel with these constants."""
    return {"launch_pdl": True} if getattr(constants, "WAITS", False) else {}


def _is_heard(hook: Any) -> bool:
    """Whether somebody, say a profiler, has to be told of launches, which Triton's own dispatch does."""
    return hook is not None and bool(getattr(hook, "calls", True))
