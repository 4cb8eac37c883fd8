"""What counts as the same plan, and how a difference is told."""

import pytest

from service.bench.equality import DifferentAnswer, expected_plan, require_same, require_same_plan
from tests.cases import inputs_of, load_cases


@pytest.mark.parametrize(
    ("have", "want", "words"),
    [
        (1, 2, "x is 1, not 2"),
        (True, 1, "x is True, not 1"),
        (1.0, 1, "x is 1.0, not 1"),
        (None, [1], "x is None, not [1]"),
        ([1, 2], [1], "x has 2 elements, not 1"),
        ([1, 2, 3], [1, 5, 4], "x[1] is 2, not 5"),
        ("a" * 100, "", "x is 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…, not ''"),
    ],
)
def test_a_difference_is_told_with_its_place(have: object, want: object, words: str) -> None:
    with pytest.raises(DifferentAnswer) as caught:
        require_same("x", have, want)
    assert str(caught.value) == words


def test_what_is_not_expected_is_not_judged_and_what_is_missing_differs() -> None:
    require_same_plan("it", {"a": [1], "device": "cpu"}, {"a": [1]})
    with pytest.raises(DifferentAnswer, match=r"^it: b is None, not 1$"):
        require_same_plan("it", {"a": [1]}, {"a": [1], "b": 1})


def test_the_reference_gives_every_field_of_a_recorded_answer() -> None:
    for case in load_cases("plan")[:40]:
        require_same_plan(case.id, expected_plan(inputs_of(case.request)), case.response)
