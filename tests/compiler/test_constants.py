"""Programs in two: what needs constants alone, and the rest."""

from __future__ import annotations

import numpy as np
import pytest

from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.compiler.constants import constant_operands, divide, known_arrays, marked
from tensorsmith.evaluate import interpret
from tensorsmith.graph.legalize import legalize
from tensorsmith.ir import IRModule, TensorProgram, Var
from tensorsmith.ops import OPERATORS, GraphBuilder
from tensorsmith.schedule import default
from tensorsmith.verify import verify

M = Var("m", low=1)


def numbers(*shape: int) -> np.ndarray:
    """Whole numbers: sums of them are exact in any order."""
    return np.random.default_rng(sum(shape)).integers(-4, 5, shape).astype(np.float32)


def dense(depth: int, columns: int) -> TensorProgram:
    """A product with a weight, and a bias."""
    x, w = te.placeholder((M, depth), name="x"), te.placeholder((depth, columns), name="w")
    c, k = te.placeholder((columns,), name="c"), te.reduce_axis(depth)
    y = te.compute((M, columns), lambda i, j: te.sum(x[i, k] * w[k, j], axis=k), "y")
    return te.program([x, w, c], te.compute(y.shape, lambda i, j: y[i, j] + c[j], "z"), "dense")


def run_divided(program: TensorProgram, arrays: list[np.ndarray], result: np.ndarray) -> None:
    """The result of a program in two."""
    rest, parts = divide(program)
    assert parts is not None
    assert rest is parts.rest
    verify(parts.before)
    verify(rest)
    made = [np.zeros([int(e.value) for e in p.shape], p.dtype.numpy) for p in parts.before.params]
    made = made[len(parts.constants) :]
    interpret(parts.before, *(arrays[n] for n in parts.constants), *made)
    interpret(rest, *(arrays[n] for n in parts.kept), *made, result)


@pytest.mark.parametrize(("rows", "depth", "columns"), [(1, 3, 5), (9, 64, 48), (40, 20, 130)])
def test_a_weight_is_packed_before(rows: int, depth: int, columns: int) -> None:
    program = default(marked(dense(depth, columns), [1, 2]), "x86-64-v3")
    arrays = [numbers(rows, depth), numbers(depth, columns), numbers(columns)]
    found = np.zeros((rows, columns), np.float32)
    run_divided(program, arrays, found)
    np.testing.assert_array_equal(found, arrays[0] @ arrays[1] + arrays[2])


def test_what_is_computed_of_constants_is_computed_before() -> None:
    x, w = te.placeholder((M, 4), name="x"), te.placeholder((4,), name="w")
    double = te.compute((4,), lambda i: w[i] * 2.0, "double")
    more = te.compute((4,), lambda i: double[i] + w[i], "more")
    z = te.compute((M, 4), lambda i, j: x[i, j] * more[j], "z")
    program = marked(te.program([x, w], z), [1])
    arrays = [numbers(3, 4), numbers(4)]
    found = np.zeros((3, 4), np.float32)
    run_divided(program, arrays, found)
    np.testing.assert_array_equal(found, arrays[0] * arrays[1] * 3)
    _, parts = divide(program)
    assert parts is not None
    assert [p.name for p in parts.before.params] == ["w", "more"]
    assert parts.kept == (0,)


def test_a_sum_is_no_constant_for_its_zeros() -> None:
    """Zeros that need nothing, then a sum of what is no constant, in the same memory."""

    @T.program(attrs={"constants": ("w",)})
    def dot(x: T.Buffer((8,)), w: T.Buffer((8,)), y: T.Buffer((1,))):
        part = T.alloc((4,))
        twice = T.alloc((8,))
        for i in range(8):
            twice[i] = w[i] * 2.0
        for i in range(4):
            part[i] = 0.0
        for i in range(8):
            part[i % 4] = part[i % 4] + x[i] * twice[i]
        y[0] = part[0] + part[1] + part[2] + part[3]

    arrays = [numbers(8), numbers(8) + 1]
    found = np.zeros(1, np.float32)
    run_divided(dot, arrays, found)
    assert found[0] == 2 * arrays[0] @ arrays[1]
    _, parts = divide(dot)
    assert parts is not None
    assert [p.name for p in parts.before.params] == ["w", "twice"]


def test_a_program_that_needs_all_its_operands_stays_whole() -> None:
    program = marked(dense(3, 4), [1])
    rest, parts = divide(program)
    assert parts is None
    assert not rest.attrs
    assert divide(dense(3, 4))[1] is None


def test_operands_are_constant_if_they_are_in_all_calls() -> None:
    b = GraphBuilder(OPERATORS)
    x = b.param("x", (4, 4), "float32")
    w = b.constant(numbers(4, 4))
    first = b("matmul", x, w)
    graph = legalize(IRModule.of(b.function("main", [first]))).graph("main")
    assert constant_operands([graph]) == {"matmul_1": {1}}
    second = b("matmul", first, x)
    graph = legalize(IRModule.of(b.function("main", [second]))).graph("main")
    assert constant_operands([graph]) == {"matmul_1": set()}


def test_aliases_of_constants_are_known() -> None:
    b = GraphBuilder(OPERATORS)
    x = b.param("x", (2, 3, 4), "float32")
    data = numbers(3, 4)
    graph = legalize(IRModule.of(b.function("main", [b("add", x, b.constant(data))]))).graph("main")
    shapes = {known.shape for known in known_arrays(graph).values()}
    assert shapes == {(3, 4), (12,)}
