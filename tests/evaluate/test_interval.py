"""The interval domain holds every value that a run computes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import strategies as st

from strategies import arguments, programs, scalar_exprs, scalar_values, scalar_variables
from strategies.cases import fast_and_slow
from strategies.reference import evaluate_expr
from tensorsmith.arith.interval import Interval
from tensorsmith.errors import EvaluationError
from tensorsmith.evaluate import FloatRange, IntervalDomain, Walker, interpret, value_bounds
from tensorsmith.ir import (
    INTRINSICS,
    Block,
    Buffer,
    For,
    Iter,
    IterKind,
    Store,
    TensorProgram,
    Var,
    const,
)


def expression_values_are_inside(data: st.DataObject) -> None:
    variables = data.draw(scalar_variables())
    e = data.draw(scalar_exprs(variables))
    points = [
        {v: data.draw(scalar_values(v.dtype)) for v in variables}
        for _ in range(data.draw(st.integers(1, 3)))
    ]
    walker = Walker(IntervalDomain(), {})
    for var in variables:
        walker.values[var] = around([point[var] for point in points])
    found = walker.evaluate(e)
    for point in points:
        value = evaluate_expr(e, point)
        assert found.contains(value), (found, value, point)


def around(values):
    if not isinstance(values[0], float):
        return Interval(int(min(values)), int(max(values)))
    numbers = [v for v in values if not math.isnan(v)]
    low, high = min(numbers, default=math.inf), max(numbers, default=-math.inf)
    return FloatRange(low, high, len(numbers) < len(values))


(
    test_expression_values_are_inside,
    test_expression_values_are_inside_slow,
) = fast_and_slow(expression_values_are_inside, fast=300)


def program_values_are_inside(data: st.DataObject) -> None:
    program = data.draw(programs(exact=data.draw(st.booleans())))
    args = data.draw(arguments(program))
    stated = {
        p.name: ends(arg)
        for p, arg in zip(program.params, args, strict=True)
        if np.size(arg) and not np.any(np.asarray(arg, np.float64) != np.asarray(arg, np.float64))
    }
    found = value_bounds(program, stated)
    interpret(program, *args)
    for param, arg in zip(program.params, args, strict=True):
        if isinstance(param, Buffer) and arg.size:
            for value in np.unique(np.asarray(arg.reshape(-1), np.float64)):
                assert found[param.name].contains(value), (param.name, found, value)


def ends(arg):
    flat = np.asarray(arg, np.float64).reshape(-1)
    return flat.min(), flat.max()


test_program_values_are_inside, test_program_values_are_inside_slow = fast_and_slow(
    program_values_are_inside, fast=100
)


def scale(dtype: str = "int32") -> TensorProgram:
    a, b, i = Buffer("a", (8,), dtype), Buffer("b", (8,), dtype), Var("i")
    return TensorProgram("scale", (a, b), For(i, const(8), Store(b, (i,), a[i] * 2 + 1)))


def test_bounds_of_a_map_are_exact():
    assert value_bounds(scale(), {"a": (-3, 10)})["b"] == Interval(-5, 21)
    assert value_bounds(scale("float32"), {"a": (-3, 10)})["b"] == FloatRange(-5.0, 21.0)


def test_what_may_wrap_may_be_anything():
    assert value_bounds(scale("int8"), {"a": (0, 100)})["b"] == Interval(-128, 127)


def test_a_sum_of_positive_numbers_stays_positive():
    n = Var("n", low=1)
    a, total, i, vi = Buffer("a", (n,)), Buffer("total", ()), Var("i"), Var("vi")
    block = Block(
        "total",
        (Iter(vi, n, IterKind.REDUCE, i),),
        Store(total, (), total[()] + a[vi]),
        init=Store(total, (), const(0, "float32")),
    )
    program = TensorProgram("add", (a, total), For(i, n, block))
    assert value_bounds(program, {"a": (0, 1)})["total"] == FloatRange(0.0, math.inf)


def test_loop_variables_and_dimensions_are_intervals():
    n = Var("n", low=1, high=64)
    out, i = Buffer("out", (n,), "index"), Var("i")
    program = TensorProgram("iota", (out,), For(i, n, Store(out, (i,), i * 3 + 1)))
    assert value_bounds(program)["out"] == Interval(1, 190)
    assert value_bounds(program, {"n": (2, 5)})["out"] == Interval(1, 13)


@pytest.mark.parametrize("name", ["tanh", "sigmoid", "exp", "sqrt", "sin", "erf"])
def test_functions_stay_in_their_images(name):
    a, b, i = Buffer("a", (8,)), Buffer("b", (8,)), Var("i")
    body = For(i, const(8), Store(b, (i,), INTRINSICS[name](a[i])))
    found = value_bounds(TensorProgram("f", (a, b), body), {"a": (0, 100)})["b"]
    image = {"exp": (1 - 1e-6, math.inf), "sqrt": (0, 10), "sin": (-1, 1)}.get(name, (-1e-6, 1))
    assert image[0] <= found.low <= found.high <= image[1]


def test_unknown_names_are_refused():
    with pytest.raises(EvaluationError, match="no parameter or dimension 'm'"):
        value_bounds(scale(), {"m": (0, 1)})
