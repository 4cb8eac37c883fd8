"""Owns the single rules on tensors: each ``require_*`` accepts, or raises the contract's error."""

from collections.abc import Iterable
from types import NoneType

import numpy as np
import torch

from service.errors import refusal
from service.kernels.host_batch import Flags, Ints
from service.spec import INTEGER_RANGE, Dtype

NamedTensor = tuple[torch.Tensor, str]
_KIND_OF: dict[type, str] = {bool: "bool", float: "float", str: "string", NoneType: "null"}


def require_tensor(value: object, name: str) -> None:
    """Accept a tensor, and nothing that could be made into one."""
    if not isinstance(value, torch.Tensor):
        raise refusal("not-a-tensor", name=name, have=type(value).__name__)


def require_contiguous(tensor: torch.Tensor, name: str) -> None:
    """Accept a tensor without gaps."""
    if not tensor.is_contiguous():
        raise refusal("not-contiguous", name=name)


def require_dtype(tensor: torch.Tensor, name: str, dtype: torch.dtype) -> None:
    """Accept a tensor of exactly ``dtype``."""
    if tensor.dtype != dtype:
        raise refusal("wrong-dtype", name=name, want=dtype, have=tensor.dtype)


def require_rank(tensor: torch.Tensor, name: str, rank: int) -> None:
    """Accept a tensor of ``rank`` axes."""
    if tensor.ndim != rank:
        raise refusal("wrong-rank", name=name, rank=rank, shape=tuple(tensor.shape))


def require_len(tensor: torch.Tensor, name: str, length: int) -> None:
    """Accept a vector of exactly ``length`` elements."""
    require_rank(tensor, name, 1)
    if tensor.shape[0] != length:
        raise refusal("wrong-length", name=name, want=length, have=tensor.shape[0])


def require_min_len(tensor: torch.Tensor, name: str, minimum: int) -> None:
    """Accept a vector of at least ``minimum`` elements."""
    require_rank(tensor, name, 1)
    if tensor.shape[0] < minimum:
        raise refusal("too-short", name=name, minimum=minimum, have=tensor.shape[0])


def require_same_device(reference: torch.Tensor, reference_name: str, tensors: Iterable[NamedTensor]) -> None:
    """Accept tensors that are all on the reference's device; the first that is not is named.

    >>> here, there = torch.zeros(1), torch.zeros(1, device="meta")
    >>> require_same_device(here, "req_pool_indices", [(here, "prefix_lens"), (there, "extend_seq_lens")])
    Traceback (most recent call last):
    service.errors.InvalidInput: kv-canary: extend_seq_lens must be on req_pool_indices's device cpu, got meta
    """
    for tensor, name in tensors:
        if tensor.device != reference.device:
            raise refusal(
                "device-mismatch",
                name=name,
                reference_name=reference_name,
                want=reference.device,
                have=tensor.device,
            )


def require_integer(value: object, name: str, dtype: Dtype) -> None:
    """Accept an int, and nothing that merely compares like one, that ``dtype`` can hold."""
    if type(value) is not int:
        kind = _KIND_OF.get(type(value), "object")
        raise refusal("not-an-integer", place=name, kind=kind)
    smallest, largest = INTEGER_RANGE[dtype]
    if not smallest <= value <= largest:
        raise refusal("value-does-not-fit", place=name, value=value, dtype=dtype)


def refuse_first(bad: Flags, code: str, values: Ints, **fields: object) -> None:
    """Accept values [n] none of which is ``bad`` [n] bool; the first that is, and its index, go into the error."""
    if bad.any():
        index = int(bad.argmax())
        raise refusal(code, index=index, value=int(values[index]), **fields)


def refuse_repeated(values: Ints, code: str) -> None:
    """Accept values [n] that are all different; the first that was there before goes into the error."""
    distinct, first_seen = np.unique(values, return_index=True)
    if distinct.shape != values.shape:
        repeated = np.setdiff1d(np.arange(values.shape[0]), first_seen)
        raise refusal(code, value=int(values[repeated[0]]))
