"""Fewer axes: what becomes one, and that the same is computed."""

from __future__ import annotations

import numpy as np
import pytest

from tensorsmith import te
from tensorsmith.arith import simplify
from tensorsmith.evaluate import interpret
from tensorsmith.ir import Const, Var, as_expr, substitute
from tensorsmith.te.collapse import Collapsed, collapse
from tensorsmith.te.graph import definitions_under
from tensorsmith.te.tensor import Tensor

SIZES = {"b": 2, "s": 3}
B, S = Var("b", low=1), Var("s", low=1)


def numbers(shape, values) -> tuple[int, ...]:
    """A shape for these values of the dimensions."""
    found = [simplify(substitute(e, values)) for e in shape]
    assert all(isinstance(e, Const) for e in found)
    return tuple(int(e.value) for e in found)


def run(inputs: list[Tensor], outputs: list[Tensor], values, arrays) -> list[np.ndarray]:
    """The outputs of a program of these definitions, for arrays of any shape."""
    used = [t for t in inputs if any(t in d.inputs for d in definitions_under(outputs, inputs))]
    told = {e for t in (*used, *outputs) for e in t.shape if isinstance(e, Var)}
    scalars = [v for v in values if isinstance(v, Var) and v not in told]
    made = [np.zeros(numbers(o.shape, values), o.dtype.numpy) for o in outputs]
    given = [arrays[n].reshape(numbers(t.shape, values)) for n, t in enumerate(inputs) if t in used]
    program = te.program([*used, *scalars], outputs)
    interpret(program, *given, *(int(values[v].value) for v in scalars), *made)
    return made


def check(inputs: list[Tensor], outputs: list[Tensor], *shapes: str) -> Collapsed:
    """Compare before and after; `shapes` are what the shapes of the outputs read."""
    small = collapse(outputs, inputs)
    values = {B: as_expr(2), S: as_expr(3)}
    values.update({v: as_expr(numbers([e], values)[0]) for v, e in small.extents.items()})
    random = np.random.default_rng(0)
    arrays = [
        random.integers(-4, 5, numbers(t.shape, values)).astype(t.dtype.numpy) for t in inputs
    ]
    before = run(inputs, outputs, values, arrays)
    after = run([small.inputs.get(t, t) for t in inputs], list(small.outputs), values, arrays)
    for one, two in zip(before, after, strict=True):
        np.testing.assert_array_equal(one.reshape(-1), two.reshape(-1))
    assert tuple(str(o.shape).replace(" ", "") for o in small.outputs) == shapes
    return small


def test_elementwise_tensors_are_one_axis() -> None:
    x, y = (te.placeholder((B, S, 4), name=n) for n in "xy")
    z = te.compute((B, S, 4), lambda i, j, k: x[i, j, k] + y[i, j, k], "z")
    small = check([x, y], [te.compute(z.shape, lambda *i: z[i] * 2.0, "w")], "(points,)")
    (points,) = small.extents
    assert points.multiple_of == 4
    assert points.low == 4


def test_constant_extents_stay_constant() -> None:
    x, y = te.placeholder((2, 3, 4), name="x"), te.placeholder((4,), name="y")
    check([x, y], [te.compute((2, 3, 4), lambda i, j, k: x[i, j, k] + y[k], "z")], "(6,4)")


def test_axes_of_extent_1_go() -> None:
    x = te.placeholder((B, 1, 5), name="x")
    y = te.placeholder((1, 1, 5), name="y")
    z = te.compute((B, 1, 5), lambda i, j, k: x[i, 0, k] * y[0, j, k], "z")
    check([x, y], [z], "(b,5)")
    k = te.reduce_axis(1)
    check([x], [te.compute((B, 5), lambda i, j: te.sum(x[i, k, j], axis=k), "t")], "(points,)")


def test_rows_of_a_product_are_one_axis() -> None:
    x, w = te.placeholder((B, S, 6), name="x"), te.placeholder((6, 7), name="w")
    k = te.reduce_axis(6)
    y = te.compute((B, S, 7), lambda b, s, n: te.sum(x[b, s, k] * w[k, n], axis=k), "y")
    z = te.compute(y.shape, lambda b, s, n: y[b, s, n] + 1.0, "z")
    check([x, w], [z], "(points,7)")


def test_reduced_axes_become_one_too() -> None:
    x = te.placeholder((B, 4, 3, 5), name="x")
    p, q = te.reduce_axis(3, "p"), te.reduce_axis(5, "q")
    total = te.compute((B, 4), lambda i, j: te.max(x[i, j, p, q], axis=(p, q)), "total")
    scaled = te.compute(x.shape, lambda i, j, k, n: x[i, j, k, n] - total[i, j], "scaled")
    check([x], [scaled], "(points,15)")


def test_pairs_of_values_are_reduced_together() -> None:
    x = te.placeholder((2, 3, 4), name="x")
    k = te.reduce_axis(4)
    largest, place = te.compute((2, 3), lambda i, j: te.argmax(x[i, j, k], axis=k), "a")
    check([x], [largest, place], "(6,)", "(6,)")


@pytest.mark.parametrize(
    "element",
    [
        lambda x, i, j: x[j, i],
        lambda x, i, j: x[i, j] + x[0, 1],
        lambda x, i, j: x[i, (j + 1) % 4],
    ],
)
def test_axes_that_part_stay_apart(element) -> None:
    x = te.placeholder((4, 4), name="x")
    z = te.compute((4, 4), lambda i, j: element(x, i, j), "z")
    check([x], [z], "(4,4)")


def test_an_axis_that_is_a_value_stays() -> None:
    from tensorsmith import script as T

    x = te.placeholder((B, 4), name="x")
    z = te.compute((B, 4), lambda i, j: x[i, j] + T.cast(j, "float32"), "z")
    check([x], [z], "(b,4)")


def test_what_a_recurrence_depends_on_keeps_its_axes() -> None:
    x = te.placeholder((3, 1, 4), name="x")
    double = te.compute((3, 1, 4), lambda t, i, j: x[t, i, j] * 2.0, "double")
    start = te.compute((1, 4), lambda i, j: x[0, i, j], "start")

    def step(t, before):
        return te.compute((1, 4), lambda i, j: before[i, j] + double[t, i, j], "state")

    history = te.scan(3, step, start)
    after = te.compute((3, 1, 4), lambda t, i, j: history[t, i, j] + 1.0, "after")
    check([x], [after], "(3,4)")
