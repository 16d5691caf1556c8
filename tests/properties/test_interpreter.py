"""The interpreter computes what the semantics say, one point at a time or side by side."""

import numpy as np
from hypothesis import strategies as st

from strategies import (
    arguments,
    copied,
    evaluate_expr,
    modules,
    programs,
    same_bits,
    scalar_exprs,
    scalar_values,
    scalar_variables,
)
from strategies.cases import fast_and_slow
from strategies.reference import from_numpy, to_numpy
from strategies.reference_run import run
from tensorsmith.evaluate import interpret
from tensorsmith.ir import Buffer, For, Load, Store, TensorProgram, Var, const, substitute


def assert_same_bits(left, right):
    for a, b in zip(left, right, strict=True):
        assert type(a) is type(b)
        if isinstance(a, np.ndarray) and a.tobytes() != b.tobytes():
            # The payload of a NaN is left open, and nothing else.
            x, y = a.astype(np.float64), b.astype(np.float64)
            np.testing.assert_array_equal(x, y)
            np.testing.assert_array_equal(np.signbit(x[x == x]), np.signbit(y[y == y]))
            assert a.dtype.kind not in "iub"


def side_by_side_is_one_by_one(data):
    program = data.draw(programs(exact=data.draw(st.booleans())))
    args = data.draw(arguments(program, whole=data.draw(st.booleans())))
    others = copied(args)
    interpret(program, *args)
    interpret(program, *others, vectorize=False)
    assert_same_bits(args, others)


test_side_by_side_is_one_by_one, test_side_by_side_is_one_by_one_slow = fast_and_slow(
    side_by_side_is_one_by_one, fast=100
)


def programs_do_what_the_reference_does(data):
    """Whole numbers, so that no rounding of a transcendental function hides a difference."""
    module = data.draw(modules())
    args = data.draw(arguments(module["main"]))
    others = copied(args)
    interpret(module, *args, entry="main")
    run(module, "main", others)
    for a, b in zip(args, others, strict=True):
        np.testing.assert_array_equal(a, b)


(
    test_programs_do_what_the_reference_does,
    test_programs_do_what_the_reference_does_slow,
) = fast_and_slow(programs_do_what_the_reference_does, fast=100)


def expressions_have_the_reference_value(data):
    variables = data.draw(scalar_variables())
    e = data.draw(scalar_exprs(variables))
    out = Buffer("out", (1,), e.dtype)
    program = TensorProgram("f", (*variables, out), Store(out, (const(0),), e))
    for _ in range(2):
        values = {v: data.draw(scalar_values(v.dtype)) for v in variables}
        result = np.zeros(1, e.dtype.numpy)
        interpret(program, *values.values(), result)
        assert same_bits(from_numpy(result[0], e.dtype), evaluate_expr(e, values))


(
    test_expressions_have_the_reference_value,
    test_expressions_have_the_reference_value_slow,
) = fast_and_slow(expressions_have_the_reference_value, fast=200)

LANES = 6


def expressions_have_the_reference_value_side_by_side(data):
    """Each lane takes its own branches, and must not see the others' faults."""
    variables = data.draw(scalar_variables(max_size=3))
    e = data.draw(scalar_exprs(variables))
    inputs = [Buffer(v.name, (LANES,), v.dtype) for v in variables]
    out = Buffer("out", (LANES,), e.dtype)
    i = Var("i")
    here = {v: Load(b, (i,)) for v, b in zip(variables, inputs, strict=True)}
    loop = For(i, const(LANES), Store(out, (i,), substitute(e, here)))
    rows = [{v: data.draw(scalar_values(v.dtype)) for v in variables} for _ in range(LANES)]
    arrays = [np.array([to_numpy(row[v], v.dtype) for row in rows]) for v in variables]
    result = np.zeros(LANES, e.dtype.numpy)
    interpret(TensorProgram("f", (*inputs, out), loop), *arrays, result)
    for row, got in zip(rows, result, strict=True):
        assert same_bits(from_numpy(got, e.dtype), evaluate_expr(e, row))


(
    test_expressions_have_the_reference_value_side_by_side,
    test_expressions_have_the_reference_value_side_by_side_slow,
) = fast_and_slow(expressions_have_the_reference_value_side_by_side, fast=120)
