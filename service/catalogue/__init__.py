"""Owns the texts of every error: one entry a code. Data only: no HTTP, no torch, no code that raises."""

from service.catalogue.batch import BATCH_ERRORS
from service.catalogue.document import DOCUMENT_ERRORS
from service.catalogue.entry import ErrorEntry, Example
from service.catalogue.pools import POOL_ERRORS
from service.catalogue.scatter import SCATTER_ERRORS
from service.catalogue.serving import SERVING_ERRORS
from service.catalogue.tensors import TENSOR_ERRORS

CATALOGUE: dict[str, ErrorEntry] = {
    entry.code: entry
    for entry in (
        *TENSOR_ERRORS,
        *BATCH_ERRORS,
        *DOCUMENT_ERRORS,
        *SCATTER_ERRORS,
        *POOL_ERRORS,
        *SERVING_ERRORS,
    )
}
"""Every error that a caller can meet, by code."""

__all__ = ["CATALOGUE", "ErrorEntry", "Example"]
