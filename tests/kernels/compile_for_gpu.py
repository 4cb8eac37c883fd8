"""Compiles the variants of every kernel for compute capability 9.0 and prints what came out."""

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from service.kernels import json_parser, json_printer, triton_backend
from service.kernels._blocks_kernel import _block_sums_kernel
from service.kernels._json_parse_kernel import _quotes_kernel, _read_kernel, _sum_kernel, _survey_kernel
from service.kernels._json_print_kernel import _lengths_kernel, _places_kernel, _text_kernel
from service.kernels._plan_kernel import _plan_kernel
from service.kernels._scatter_kernel import _scatter_kernel

POINTERS = {
    "req_to_token_ptr": "*i32",
    "tokens_ptr": "*i32",
    "pool_out_ptr": "*i32",
    "verify_num_valid_ptr": "*i32",
    "verify_enable_ptr": "*i32",
    "write_num_valid_reqs_ptr": "*i32",
    "words_ptr": "*i32",
    "counts_ptr": "*i32",
    "lengths_ptr": "*i32",
    "first_rows_ptr": "*i32",
    "ends_ptr": "*i16",
    "text_ptr": "*u8",
}
"""Types of those that point to no int64."""
FLAGS = (False, True)


def variants() -> Iterator[tuple[Any, NamedTuple]]:
    """Every optional input with the middle shape, and every shape without any."""
    for lut, tokens, reports in itertools.product(FLAGS, FLAGS, FLAGS):
        yield _plan_kernel, triton_backend.PlanConstants(lut, tokens, reports, False, False, 256)
    for blocked, wide, batch_block in ((False, False, 32), (False, False, 1024), (True, False, 256), (True, True, 256)):
        yield _plan_kernel, triton_backend.PlanConstants(False, False, False, blocked, wide, batch_block, WAITS=blocked)
    yield _block_sums_kernel, triton_backend.SumsConstants(256, ADMITS=True)
    for starts in FLAGS:
        yield _scatter_kernel, triton_backend.ScatterConstants(starts)
    yield _quotes_kernel, json_parser.QuotesConstants(4096)
    yield _survey_kernel, json_parser.SurveyConstants(4096)
    yield _sum_kernel, json_parser.SumConstants()
    for digits in (10, 19):
        yield _read_kernel, json_parser.ReadConstants(digits, 4096)
    for kernel in (_lengths_kernel, _text_kernel):
        yield kernel, json_printer.PrintConstants(json_printer.TILE_ELEMENTS)
    yield _places_kernel, json_printer.PlacesConstants()


def signature_of(kernel: Any) -> dict[str, str]:
    """Type of every parameter. What would compile a kernel anew is an error: a size whose type or value matters, or a
    pointer whose alignment does.
    """
    types = {}
    for parameter in kernel.params:
        if parameter.is_constexpr:
            types[parameter.name] = "constexpr"
        elif parameter.name.endswith("_ptr"):
            assert parameter.do_not_specialize_on_alignment, parameter.name
            types[parameter.name] = POINTERS.get(parameter.name, "*i64")
        else:
            assert parameter.do_not_specialize, parameter.name
            assert parameter.annotation_type in ("i32", "i64"), parameter.name
            types[parameter.name] = parameter.annotation_type
    return types


def main() -> None:
    """Compile and report."""
    for kernel, constants in variants():
        # A launch without Triton's dispatch passes the constants last and in this order.
        assert tuple(kernel.arg_names[-len(constants) :]) == constants._fields
        constexprs = {(kernel.arg_names.index(name),): value for name, value in constants._asdict().items()}
        source = ASTSource(fn=kernel, signature=signature_of(kernel), constexprs=constexprs)
        compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32))
        made = [kind for kind in compiled.asm if kind == "cubin"]
        print(kernel.__name__, *constants, *made)  # noqa: T201


if __name__ == "__main__":
    main()
