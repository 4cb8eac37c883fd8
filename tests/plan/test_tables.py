"""The tables that plans look up: which there are, how large, widened, copied and left out."""

import pytest
import torch

from service.errors import Refusal
from service.plan.tables import Tables, require_table

TABLE = torch.arange(6, dtype=torch.int32).reshape(2, 3)
LUT = torch.arange(5)
TOKENS = TABLE + 10


def names(tables: Tables) -> list[str]:
    return [spec.name for _, spec in tables.given()]


def test_the_tables_that_there_are_come_in_input_order() -> None:
    assert names(Tables(TABLE, LUT, TOKENS)) == [
        "req_to_token",
        "full_to_swa_index_mapping",
        "req_to_verify_expected_tokens",
    ]
    assert names(Tables(TABLE, None, TOKENS)) == ["req_to_token", "req_to_verify_expected_tokens"]
    assert Tables(TABLE, LUT, TOKENS).resident_bytes == 24 + 40 + 24
    assert Tables(TABLE).resident_bytes == 24


@pytest.mark.parametrize(("lut", "tokens"), [(True, True), (True, False), (False, True), (False, False)])
def test_tables_that_are_left_out_are_not_there(lut: bool, tokens: bool) -> None:
    left = Tables(TABLE, LUT, TOKENS).without(lut=lut, tokens=tokens)
    assert (left.full_to_swa_index_mapping is None, left.req_to_verify_expected_tokens is None) == (lut, tokens)
    assert left.req_to_token is TABLE


@pytest.mark.parametrize(
    ("rows", "columns", "shape"),
    [(0, 0, (2, 3)), (2, 3, (2, 3)), (1, 5, (2, 5)), (4, 2, (4, 3)), (4, 5, (4, 5)), (-9, -9, (2, 3))],
)
def test_widened_tables_hold_what_they_held_and_0(rows: int, columns: int, shape: tuple[int, int]) -> None:
    wide = Tables(TABLE, LUT, TOKENS).widened(rows, columns)
    assert wide.req_to_verify_expected_tokens is not None
    for table, narrow in ((wide.req_to_token, TABLE), (wide.req_to_verify_expected_tokens, TOKENS)):
        assert (tuple(table.shape), table.dtype) == (shape, torch.int32)
        assert torch.equal(table[:2, :3], narrow)
        assert int(table.sum()) == int(narrow.sum())
    assert wide.full_to_swa_index_mapping is LUT
    assert Tables(TABLE).widened(rows, columns).req_to_verify_expected_tokens is None


def test_a_copy_on_a_device_shares_no_memory_even_with_the_same_device() -> None:
    copied = Tables(TABLE, LUT).on(torch.device("cpu"))
    assert torch.equal(copied.req_to_token, TABLE)
    assert copied.req_to_token.data_ptr() != TABLE.data_ptr()
    assert copied.req_to_verify_expected_tokens is None


def test_a_table_is_found_by_its_name_or_refused() -> None:
    assert require_table(Tables(TABLE, LUT), "full_to_swa_index_mapping") is LUT
    with pytest.raises(Refusal, match="the pool has no full_to_swa_index_mapping"):
        require_table(Tables(TABLE), "full_to_swa_index_mapping")


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (Tables(LUT), "req_to_token must be 2-D, got shape \\(5,\\)"),
        (Tables(TABLE, TABLE), "full_to_swa_index_mapping must be 1-D, got shape \\(2, 3\\)"),
        (Tables(TABLE, LUT[:0]), "full_to_swa_index_mapping length must be >= 1, got 0"),
        (Tables(TABLE, None, LUT), "req_to_verify_expected_tokens must be 2-D, got shape \\(5,\\)"),
    ],
)
def test_tables_of_another_form_are_refused(tables: Tables, message: str) -> None:
    with pytest.raises(Refusal, match=message):
        tables.validate()


def test_tables_are_brought_together_where_one_of_them_is() -> None:
    apart = Tables(TABLE, LUT.to("meta"), TOKENS)
    assert {tensor.device.type for tensor, _ in apart.together().given()} == {"meta"}
    here = Tables(TABLE, LUT)
    assert here.together() is here


def test_tables_are_widened_where_they_are() -> None:
    assert Tables(TABLE.to("meta")).widened(3, 3).req_to_token.device.type == "meta"
