"""Extents as data: what they evaluate to, how they read, what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorsmith.arith import simplify
from tensorsmith.codegen.models import Dimensions
from tensorsmith.errors import CodegenError, EvaluationError
from tensorsmith.ir import Buffer, Const, Expr, Max, Min, Select, Var, const, equal, free_vars
from tensorsmith.ir.traverse import substitute
from tensorsmith.runtime.extents import checked, closure, names_in, text_of, value_of

NAMES = [Var("n", low=0), Var("m", low=0), Var("n", low=0)]


@st.composite
def extents(draw: st.DrawFn, depth: int = 3) -> Expr:
    """An expression over three dimensions, two of one name."""
    if depth == 0 or draw(st.booleans()):
        return draw(st.one_of(st.sampled_from(NAMES), st.integers(-5, 40).map(const)))
    a, b = draw(extents(depth - 1)), draw(extents(depth - 1))
    divisor = draw(st.integers(1, 7))
    return draw(
        st.sampled_from(
            [
                a + b,
                a - b,
                a * b,
                a // divisor,
                a % divisor,
                Min(a, b),
                Max(a, b),
                Select(a < b, a, b),
                Select(equal(a, 1) | (b <= 3), b, a + 1),
            ]
        )
    )


def evaluated(root: Expr, values: dict[Var, int]) -> int:
    """The value of an expression, by the rules of the representation."""
    found = simplify(substitute(root, {v: const(value) for v, value in values.items()}))
    assert isinstance(found, Const)
    return int(found.value)


@settings(max_examples=200)
@given(extents(), st.lists(st.integers(0, 100), min_size=3, max_size=3))
def test_extents_are_what_expressions_are(e: Expr, sizes: list[int]) -> None:
    dimensions = Dimensions()
    names = [dimensions.name(v) for v in NAMES]
    assert names == ["n", "m", "n_1"]
    extent = dimensions.extent(e)
    assert checked(json.loads(json.dumps(extent))) == extent
    values = dict(zip(names, sizes, strict=True))
    wanted = evaluated(e, dict(zip(NAMES, sizes, strict=True)))
    assert value_of(extent, values) == wanted
    assert closure(extent, {name: at for at, name in enumerate(names)})(sizes) == wanted
    assert names_in(extent) == {dimensions.name(v) for v in free_vars(e)}


def test_texts() -> None:
    cases = {
        "7": 7,
        "n": "n",
        "(n + 1) // 2": ("floordiv", ("add", "n", 1), 2),
        "n * (m % 4)": ("mul", "n", ("floormod", "m", 4)),
        "select(n == 1, m, min(n, 3))": ("select", ("eq", "n", 1), "m", ("min", "n", 3)),
    }
    for text, extent in cases.items():
        assert text_of(extent) == text


def test_truncating_division_rounds_to_zero() -> None:
    for a in (-7, 7):
        for b in (-2, 2):
            quotient = value_of(("truncdiv", "a", b), {"a": a})
            assert quotient == int(a / b)
            assert value_of(("truncmod", "a", b), {"a": a}) == a - b * quotient


def test_a_branch_that_is_not_taken_may_divide_by_zero() -> None:
    extent = ("select", ("eq", "n", 0), 0, ("floordiv", 12, "n"))
    assert [value_of(extent, {"n": n}) for n in (0, 5)] == [0, 2]
    with pytest.raises(EvaluationError, match=r"the extent 12 // n divides by zero"):
        value_of(("floordiv", 12, "n"), {"n": 0})


def nested(depth: int) -> Any:
    extent: Any = "n"
    for _ in range(depth):
        extent = ["neg", extent]
    return extent


@pytest.mark.parametrize(
    "data",
    [True, 1.5, None, [], ["add", 1], ["exec", "n", 1], [["add"], 1, 2], {"a": 1}, nested(200_000)],
)
def test_what_is_no_extent(data: Any) -> None:
    with pytest.raises((ValueError, RecursionError)):
        checked(data)


def test_extents_that_only_data_tells_are_refused() -> None:
    load = Buffer("count", (), "index")[()]
    with pytest.raises(CodegenError, match="cannot be told without running the model"):
        Dimensions().extent(load + 1)
