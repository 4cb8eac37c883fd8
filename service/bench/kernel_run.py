"""Measures plans on a device: equality first, then graph replays in rounds that take the scenarios in turn."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Protocol

import torch

from service.bench.batches import BatchShape, draw_batch
from service.bench.equality import expected_plan, require_same_plan
from service.bench.kernel_scenarios import for_the_reference
from service.plan import PlanInputs, VerifyPlan, WritePlan, launch_canary_plan_kernels

Launch = Callable[[], object]

COPY = "copy"


class Timer(Protocol):
    """How launches are timed on a device."""

    def capture(self, launch: Launch) -> Callable[[], float]:
        """What replays the launch, without the host's part in it, and returns the seconds of one."""

    def host_seconds(self, launch: Launch) -> float:
        """How long the host is busy with one launch."""


@dataclass(frozen=True, slots=True)
class KernelOptions:
    """How much is measured: rounds that medians are taken of, bytes that the copy reads."""

    rounds: int
    copy_bytes: int


@dataclass(frozen=True, slots=True)
class KernelCell:
    """What one scenario took: the median of its rounds."""

    name: str
    bs: int
    entries: int
    replay_seconds: float
    host_seconds: float
    moved_bytes: int
    """Least that must be read and written: of each request its row, lens, offset and seed, of each entry its slot and
    token and what the plan says of it."""


@dataclass(frozen=True, slots=True)
class KernelResults:
    """The scenarios' cells, and the bytes per second, read and written together, of a copy in the same run."""

    cells: tuple[KernelCell, ...]
    copy_bytes_per_second: float

    def seconds(self, shape: BatchShape) -> float:
        """What a scenario took."""
        return next(cell.replay_seconds for cell in self.cells if cell.name == shape.name)

    def share_of_copy(self, cell: KernelCell) -> float:
        """How near a scenario comes to the bandwidth of a copy."""
        return cell.moved_bytes / cell.replay_seconds / self.copy_bytes_per_second


@dataclass(frozen=True, slots=True)
class BoundPlan:
    """A batch on its device and the buffers of its plan."""

    inputs: PlanInputs
    verify: VerifyPlan
    write: WritePlan
    arguments: Mapping[str, Any]
    """All of it as the API takes it."""

    def launch(self) -> None:
        """Enqueue the plan, by the API that engines use."""
        launch_canary_plan_kernels(**self.arguments)

    def answer(self) -> dict[str, object]:
        """The plan by the names that the service answers with."""
        verify, write = self.verify, self.write
        count = int(verify.verify_num_valid)
        return {
            "verify_num_valid": count,
            "verify_enable": bool(verify.enable),
            "verify_slot_indices": verify.verify_slot_indices[:count].tolist(),
            "verify_expected_tokens": verify.verify_expected_tokens[:count].tolist(),
            "verify_expected_positions": verify.verify_expected_positions[:count].tolist(),
            "verify_prev_slot_indices": verify.verify_prev_slot_indices[:count].tolist(),
            "write_offsets": write.write_offsets.tolist(),
            "write_seed_slot_indices": write.write_seed_slot_indices.tolist(),
            "write_num_valid_reqs": int(write.write_num_valid_reqs),
        }


def bind(inputs: PlanInputs, entries: int) -> BoundPlan:
    """A plan of a batch with as many entries as it has, on the batch's device."""
    device = inputs.req_pool_indices.device
    verify = VerifyPlan.allocate(verify_capacity=max(entries, 1), device=device)
    write = WritePlan.allocate(write_req_capacity=inputs.bs, device=device)
    arguments: dict[str, Any] = {spec.name: tensor for tensor, spec in inputs.tensors()}
    arguments |= {"verify_plan_out": verify.zero_for_testing_(), "write_plan_out": write.zero_for_testing_()}
    arguments |= {"swa_window_size": inputs.swa_window_size, "verify_capacity": max(entries, 1)}
    return BoundPlan(inputs, verify, write, arguments)


def require_right_plan(shape: BatchShape, device: torch.device) -> BoundPlan:
    """The scenario's plan on the device, once it is proved; raises ``DifferentAnswer``.

    With short lengths it equals the slow reference, and so does the host backend; as it is it equals the host backend.
    """
    small = for_the_reference(shape)
    batch = draw_batch(small)
    reference = expected_plan(batch)
    for place in (device, torch.device("cpu")):
        answer = _computed(_moved(batch, place), small).answer()
        require_same_plan(f"{shape.name}, short, on {place}", answer, {name: reference[name] for name in answer})
    plan = _computed(draw_batch(shape, device), shape)
    require_same_plan(f"{shape.name} on {device}", plan.answer(), _computed(plan.inputs.on_host(), shape).answer())
    return plan


def measure_kernels(
    plans: Mapping[BatchShape, BoundPlan], timer: Timer, options: KernelOptions, begin: Callable[[str], None]
) -> KernelResults:
    """The results of proved plans, all on one device; ``begin`` is told of every round."""
    device = next(iter(plans.values())).inputs.req_pool_indices.device
    source = torch.zeros(options.copy_bytes, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    replays = {shape.name: timer.capture(plan.launch) for shape, plan in plans.items()}
    replays[COPY] = timer.capture(lambda: target.copy_(source))
    seconds: dict[str, list[float]] = {name: [] for name in replays}
    for number in range(options.rounds):
        begin(f"round {number + 1} of {options.rounds}")
        for name, replay in replays.items():
            seconds[name].append(replay())
    cells = (
        KernelCell(
            name=shape.name,
            bs=shape.bs,
            entries=shape.entries,
            replay_seconds=median(seconds[shape.name]),
            host_seconds=timer.host_seconds(plan.launch),
            moved_bytes=_moved_bytes(shape),
        )
        for shape, plan in plans.items()
    )
    return KernelResults(tuple(cells), 2 * options.copy_bytes / median(seconds[COPY]))


def _computed(inputs: PlanInputs, shape: BatchShape) -> BoundPlan:
    plan = bind(inputs, shape.entries)
    plan.launch()
    return plan


def _moved(inputs: PlanInputs, device: torch.device) -> PlanInputs:
    moved: dict[str, Any] = {spec.name: tensor.to(device) for tensor, spec in inputs.tensors()}
    return replace(inputs, **moved)


def _moved_bytes(shape: BatchShape) -> int:
    read = 4 + (8 if shape.window > 0 else 0) + (4 if shape.tokens else 0)
    per_request = 4 * 8 + 2 * 8
    return shape.entries * (read + 4 * 8) + shape.bs * per_request
