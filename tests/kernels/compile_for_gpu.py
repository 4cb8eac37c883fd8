"""Compiles every variant of every kernel for compute capability 9.0 and prints what came out."""

import itertools
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from service.kernels._entries_kernel import _entries_kernel
from service.kernels._offsets_kernel import _block_sums_kernel, _offsets_kernel
from service.kernels._plan_kernel import _plan_kernel
from service.kernels._scatter_kernel import _scatter_kernel

INT32_POINTERS = {
    "req_to_token_ptr",
    "tokens_ptr",
    "pool_out_ptr",
    "verify_num_valid_ptr",
    "verify_enable_ptr",
    "write_num_valid_reqs_ptr",
}
CONSTANTS = {"BATCH_BLOCK": 256, "BLOCK": 256}
KERNELS = (_plan_kernel, _block_sums_kernel, _offsets_kernel, _entries_kernel, _scatter_kernel)


def signature_of(kernel: Any) -> dict[str, str]:
    """Type of every parameter; a size without a fixed type would compile anew for large values, so it is an error."""
    types = {}
    for parameter in kernel.params:
        if parameter.is_constexpr:
            types[parameter.name] = "constexpr"
        elif parameter.name.endswith("_ptr"):
            types[parameter.name] = "*i32" if parameter.name in INT32_POINTERS else "*i64"
        else:
            types[parameter.name] = {"i64": "i64"}[parameter.annotation_type]
    return types


def main() -> None:
    """Compile and report."""
    for kernel in KERNELS:
        flags = [p.name for p in kernel.params if p.is_constexpr and p.name not in CONSTANTS]
        for values in itertools.product((False, True), repeat=len(flags)):
            constants = CONSTANTS | dict(zip(flags, values, strict=True))
            constexprs = {
                (index,): constants[name]
                for index, name in enumerate(kernel.arg_names)
                if kernel.params[index].is_constexpr
            }
            source = ASTSource(fn=kernel, signature=signature_of(kernel), constexprs=constexprs)
            compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32))
            made = [kind for kind in compiled.asm if kind == "cubin"]
            print(kernel.__name__, *values, *made)  # noqa: T201


if __name__ == "__main__":
    main()
