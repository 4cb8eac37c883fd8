"""Owns the tables that plans look up, apart from any batch."""

from dataclasses import dataclass

import torch

from service.errors import refusal
from service.plan.require import require_min_len, require_rank
from service.spec import EXPECTED_TOKENS, FULL_TO_SWA_INDEX_MAPPING, REQ_TO_TOKEN, TensorSpec


@dataclass(frozen=True, slots=True)
class Tables:
    """The request-to-slot table, and the look-up table and the token table if there are any.

    Names, shapes and dtypes are those of ``service.spec``; all are on one device.
    """

    req_to_token: torch.Tensor
    full_to_swa_index_mapping: torch.Tensor | None = None
    req_to_verify_expected_tokens: torch.Tensor | None = None

    def given(self) -> list[tuple[torch.Tensor, TensorSpec]]:
        """The tables that there are, in input order."""
        named = [
            (self.req_to_token, REQ_TO_TOKEN),
            (self.full_to_swa_index_mapping, FULL_TO_SWA_INDEX_MAPPING),
            (self.req_to_verify_expected_tokens, EXPECTED_TOKENS),
        ]
        return [(tensor, spec) for tensor, spec in named if tensor is not None]

    @property
    def resident_bytes(self) -> int:
        """How many bytes the tables take."""
        return sum(tensor.nbytes for tensor, _ in self.given())

    def validate(self) -> None:
        """Accept tables of the right rank, and a look-up table that is not empty. Raises ``InvalidInput``."""
        for tensor, spec in self.given():
            if spec is FULL_TO_SWA_INDEX_MAPPING:
                require_min_len(tensor, spec.name, 1)
            else:
                require_rank(tensor, spec.name, spec.rank)

    def on(self, device: torch.device) -> "Tables":
        """A copy on ``device``, which shares no memory with these."""
        return Tables(**{spec.name: tensor.to(device, copy=True) for tensor, spec in self.given()})

    def together(self) -> "Tables":
        """The same on one device: that of those which are not on the CPU, if there are any."""
        away = [tensor.device for tensor, _ in self.given() if tensor.device.type != "cpu"]
        return Tables(**{spec.name: tensor.to(away[0]) for tensor, spec in self.given()}) if away else self

    def widened(self, rows: int, columns: int) -> "Tables":
        """The same with tables of at least ``rows`` rows and ``columns`` columns, filled up with 0."""
        return Tables(
            req_to_token=_widened(self.req_to_token, rows, columns),
            full_to_swa_index_mapping=self.full_to_swa_index_mapping,
            req_to_verify_expected_tokens=None
            if self.req_to_verify_expected_tokens is None
            else _widened(self.req_to_verify_expected_tokens, rows, columns),
        )

    def without(self, *, lut: bool, tokens: bool) -> "Tables":
        """The same without the look-up table, the token table, or both."""
        return Tables(
            self.req_to_token,
            None if lut else self.full_to_swa_index_mapping,
            None if tokens else self.req_to_verify_expected_tokens,
        )


def require_table(tables: Tables, name: str) -> torch.Tensor:
    """The table of that name; refused if there is none."""
    for tensor, spec in tables.given():
        if spec.name == name:
            return tensor
    raise refusal("pool-lacks-table", name=name)


def _widened(table: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    have_rows, have_columns = table.shape
    if have_rows >= rows and have_columns >= columns:
        return table
    wide = torch.zeros((max(rows, have_rows), max(columns, have_columns)), dtype=table.dtype, device=table.device)
    wide[:have_rows, :have_columns] = table
    return wide
