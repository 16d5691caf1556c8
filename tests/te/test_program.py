"""How definitions are put together: order, names, parameters, allocations."""

import numpy as np
import pytest

from tensorsmith import te
from tensorsmith.errors import EvaluationError, IRError
from tensorsmith.evaluate import interpret
from tensorsmith.ir import Alloc, Block, For, Seq, equal


def statements(program):
    body = program.body
    return body.stmts if isinstance(body, Seq) else (body,)


def block_names(program):
    names = []
    for stmt in statements(program):
        inner = stmt
        while isinstance(inner, For):
            inner = inner.body
        if isinstance(inner, Block):
            names.append(inner.name)
    return names


def test_definitions_follow_what_they_read():
    A = te.placeholder((3,), name="A")
    left = te.compute((3,), lambda i: A[i] + 1.0, "left")
    right = te.compute((3,), lambda i: A[i] * 2.0, "right")
    both = te.compute((3,), lambda i: right[i] - left[i], "both")
    program = te.program([A], [both, left])
    assert block_names(program) == ["right", "left", "both"]
    assert [p.name for p in program.params] == ["A", "both", "left"]
    assert [s.buffer.name for s in statements(program) if isinstance(s, Alloc)] == ["right"]
    x, y, z = np.arange(3, dtype="f4"), np.zeros(3, "f4"), np.zeros(3, "f4")
    interpret(program, x, y, z)
    np.testing.assert_array_equal(y, 2 * x - (x + 1))
    np.testing.assert_array_equal(z, x + 1)


def test_names_are_made_unique():
    A = te.placeholder((3,), name="A")
    first = te.compute((3,), lambda i: A[i], "t")
    second = te.compute((3,), lambda i: first[i], "t")
    third = te.compute((3,), lambda i: second[i], "A")
    program = te.program([A], third)
    assert block_names(program) == ["t", "t_1", "A"]
    assert [s.buffer.name for s in statements(program) if isinstance(s, Alloc)] == ["t", "t_1"]
    assert [p.name for p in program.params] == ["A", "A_1"]


def test_a_computed_tensor_may_be_an_input():
    """The program then starts from it."""
    A = te.placeholder((3,), name="A")
    B = te.compute((3,), lambda i: A[i] + 1.0, "B")
    C = te.compute((3,), lambda i: B[i] * 2.0, "C")
    program = te.program(B, C)
    assert block_names(program) == ["C"]
    assert [p.name for p in program.params] == ["B", "C"]


def test_an_output_that_another_definition_reads_is_not_allocated_twice():
    A = te.placeholder((3,), "int32", "A")
    B, C = te.compute((3,), lambda i: (A[i] + 1, A[i] + 2), "B")
    D = te.compute((3,), lambda i: C[i] + B[i], "D")
    program = te.program([A], [D, C])
    assert [s.buffer.name for s in statements(program) if isinstance(s, Alloc)] == ["B_0"]
    d, c = np.zeros(3, "i4"), np.zeros(3, "i4")
    interpret(program, np.arange(3, dtype="i4"), d, c)
    np.testing.assert_array_equal(d, [3, 5, 7])


def test_attributes_are_the_programs():
    A = te.placeholder((3,), name="A")
    program = te.program([A], te.compute((3,), lambda i: A[i]), "f", attrs={"fast_math": True})
    assert program.attrs == {"fast_math": True}
    assert program.name == "f"


def test_long_chains_do_not_overflow_the_stack():
    tensor = A = te.placeholder((1,), "int32", "A")
    for _ in range(1100):
        tensor = te.compute((1,), lambda i, t=tensor: t[i] + 1, "t")
    y = np.zeros(1, "i4")
    interpret(te.program([A], tensor), np.zeros(1, "i4"), y)
    assert y[0] == 1100


def test_a_made_name_does_not_hide_a_given_one():
    A = te.placeholder((3,), name="A")
    tensor = A
    for name in ("t", "t_1", "t", "t_1", "t"):
        tensor = te.compute((3,), lambda i, t=tensor: t[i], name)
    assert block_names(te.program([A], tensor)) == ["t", "t_1", "t_2", "t_1_1", "t_3"]


def test_inlined_definitions_have_no_block_or_memory():
    A = te.placeholder((3, 4), name="A")
    double = te.compute((3, 4), lambda i, j: A[i, j] * 2.0, "double")
    turned = te.compute((4, 3), lambda i, j: double[j, i] + double[0, i], "turned")
    total = te.compute(
        (4,), lambda i: te.sum(turned[i, k], axis=k) if (k := te.reduce_axis(3)) else 0, "total"
    )
    program = te.program([A], total, inline=[double, turned])
    assert block_names(program) == ["total"]
    x, y = np.arange(12, dtype="f4").reshape(3, 4), np.zeros(4, "f4")
    interpret(program, x, y)
    np.testing.assert_array_equal(y, 2 * (x.sum(0) + 3 * x[0]))


def test_what_needs_memory_is_not_inlined():
    A = te.placeholder((3,), name="A")
    k = te.reduce_axis(3)
    total = te.compute((), lambda: te.sum(A[k], axis=k), "total")
    scaled = te.compute((3,), lambda i: A[i] / total, "scaled")
    for output, inline in ((scaled, total), (total, total)):
        with pytest.raises(IRError, match="'total' cannot be computed where it is read"):
            te.program([A], output, inline=[inline])


def test_checks_are_facts():
    m, n = te.var("m", min=0), te.var("n", min=0)
    A, B = te.placeholder((m,), name="A"), te.placeholder((n,), name="B")
    both = te.compute((m,), lambda i: A[i] + B[i], "both")
    with pytest.raises(IRError, match="outside"):
        te.program([A, B], both)
    program = te.program([A, B], both, checks=[(equal(m, n), "as many")])
    x, y = np.arange(3, dtype="f4"), np.zeros(3, "f4")
    interpret(program, x, x, y)
    np.testing.assert_array_equal(y, x + x)
    with pytest.raises(EvaluationError, match="as many"):
        interpret(program, x, np.zeros(4, "f4"), y)
