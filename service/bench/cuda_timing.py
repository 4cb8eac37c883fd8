"""Times launches on a CUDA device: graph replays between events, and the host's part by its own clock."""

import time
from collections.abc import Callable
from statistics import median

import torch

_LAUNCHES_PER_GRAPH = 20
"""Enough that the start of a graph does not count."""
_REPLAYS = 10
_HOST_BATCHES = 20
_HOST_CALLS = 10
"""Calls in a row before the device is waited for, so that its queue never fills."""


class CudaTimer:
    """Times launches on the current CUDA device."""

    def capture(self, launch: Callable[[], object]) -> Callable[[], float]:
        """What replays a graph of the launch many times and returns the device's seconds of one launch."""
        launch()  # compiles what must not be compiled during a capture
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(_LAUNCHES_PER_GRAPH):
                launch()
        graph.replay()
        torch.cuda.synchronize()

        def replay() -> float:
            began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            began.record()
            for _ in range(_REPLAYS):
                graph.replay()
            ended.record()
            ended.synchronize()
            milliseconds: float = began.elapsed_time(ended)
            return milliseconds / 1e3 / (_REPLAYS * _LAUNCHES_PER_GRAPH)

        return replay

    def host_seconds(self, launch: Callable[[], object]) -> float:
        """The median time until a launch returns."""
        seconds = []
        for _ in range(_HOST_BATCHES):
            torch.cuda.synchronize()
            for _ in range(_HOST_CALLS):
                began = time.perf_counter()
                launch()
                seconds.append(time.perf_counter() - began)
        torch.cuda.synchronize()
        return median(seconds)
