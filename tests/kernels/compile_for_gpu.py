"""Compiles every variant of every kernel for compute capability 9.0 and prints what came out."""

import itertools
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from service.kernels._entries_kernel import _entries_kernel
from service.kernels._offsets_kernel import _offsets_kernel
from service.kernels._scatter_kernel import _scatter_kernel
from service.kernels.operands import INT32_MAX, INT64_MAX

INT32_POINTERS = {
    "req_to_token_ptr",
    "tokens_ptr",
    "pool_out_ptr",
    "verify_num_valid_ptr",
    "verify_enable_ptr",
    "write_num_valid_reqs_ptr",
}
CONSTANTS = {"LONGEST": 2**40, "FARTHEST": 2**62, "NO_FAULT": INT64_MAX, "INT32_MAX": INT32_MAX, "BLOCK": 1024}


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
    for kernel in (_offsets_kernel, _entries_kernel, _scatter_kernel):
        flags = [name for name in kernel.arg_names if name.startswith("HAS_")]
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
