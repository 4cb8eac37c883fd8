"""Launches a Triton kernel, past Triton's own dispatch once it is compiled: that costs more than the launch itself.

Knows no plan. Uses what ``JITFunction.run`` of Triton 3.6 and 3.7 does last: ``compiled.run``.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from triton import knobs
from triton.runtime import driver

Arguments = Sequence[torch.Tensor | int]
Constants = NamedTuple
"""Values of a kernel's constexpr parameters, named and ordered as those, which come last."""


@dataclass(slots=True)
class Launcher:
    """One kernel, whose arguments but for its constants decide nothing about how it is compiled."""

    kernel: Any
    _compiled: dict[tuple[int | None, Constants], Any] = field(default_factory=dict)

    def is_compiled(self, device: torch.device, constants: Constants) -> bool:
        """Whether a launch with these constants compiles nothing."""
        return (device.index, constants) in self._compiled

    def compile(self, device: torch.device, arguments: Arguments, variants: Iterable[Constants]) -> None:
        """Compile and load variants for the current device; ``arguments`` are those of any launch."""
        for constants in variants:
            compiled = self.kernel.warmup(*arguments, grid=(1,), **constants._asdict())
            if compiled is not None:  # as it is in the interpreter
                _ = compiled.run  # loads it, which a stream that is being captured would not allow
            self._compiled[device.index, constants] = compiled

    def launch(self, device: torch.device, programs: int, arguments: Arguments, constants: Constants) -> None:
        """Enqueue ``programs`` programs on the current stream of the current device, for which they are compiled."""
        compiled = self._compiled[device.index, constants]
        if compiled is None or _somebody_follows_launches():
            self.kernel[(programs,)](*arguments, **constants._asdict())
            return
        values = [argument if type(argument) is int else argument.data_ptr() for argument in arguments]  # type: ignore[union-attr]
        stream = driver.active.get_current_stream(device.index)
        compiled.run(
            programs, 1, 1, stream, compiled.function, compiled.packed_metadata, None, None, None, *values, *constants
        )


def _somebody_follows_launches() -> bool:
    """Whether a profiler has to be told of launches, which Triton's own dispatch does."""
    runtime = knobs.runtime
    hooks = (runtime.launch_enter_hook, runtime.launch_exit_hook)
    return any(hook is not None and getattr(hook, "calls", True) for hook in hooks)
