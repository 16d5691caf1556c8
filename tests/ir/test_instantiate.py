"""Copies of statements: equal to the original, with new symbols, and replaced ones."""

import numpy as np
from hypothesis import given

from strategies.programs import programs
from tensorsmith import script as T
from tensorsmith.evaluate import interpret
from tensorsmith.ir import Buffer, TensorProgram, const
from tensorsmith.ir.instantiate import instantiate
from tensorsmith.ir.structural import structural_equal

n = T.dim("n")


@T.program
def everything(A: T.Buffer((n,), "int32"), s: T.int32, B: T.Buffer((n,), "int32")):
    kept = T.alloc((n, 2), "int32")
    assert s < 100, "s is small"
    for i in range(n):
        with T.block("kept"):
            vi = T.remap("S", i)
            T.where(i < n)
            T.reads(A[vi])
            T.writes(kept[vi, 0:2])
            kept[vi, 0] = A[vi]
            kept[vi, 1] = s
    count = T.alloc((1,), "int32")
    count[0] = 0
    while count[0] < 3:
        count[0] += 1
    for i, j in T.grid(n, 2):
        with T.block("B"):
            vi, vj = T.remap("SR", i, j)
            with T.init():
                B[vi] = 0
            x = kept[vi, vj] * 2
            if x > 0:
                B[vi] += x
            else:
                B[vi] -= count[0]


def copy_of(program):
    """`program` with a copied body, and nothing replaced."""
    return TensorProgram(program.name, program.params, instantiate(program.body), program.attrs)


def test_a_copy_is_equal_and_may_stand_beside_the_original():
    copy = copy_of(everything)
    assert structural_equal(copy, everything)
    assert copy.script() == everything.script()
    both = TensorProgram(
        "both",
        everything.params,
        type(everything.body)((everything.body, instantiate(everything.body))),
    )
    b = np.zeros(3, np.int32)
    interpret(both, np.array([1, -5, 2], np.int32), 4, b)
    once = np.zeros(3, np.int32)
    interpret(everything, np.array([1, -5, 2], np.int32), 4, once)
    np.testing.assert_array_equal(b, once)


def test_replaced_buffers_and_variables():
    a, s, b = everything.params
    X, Y = Buffer("X", (5,), "int32"), Buffer("Y", (5,), "int32")
    body = instantiate(everything.body, {n: const(5), s: const(7, "int32")}, {a: X, b: Y})
    program = TensorProgram("fixed", (X, Y), body)
    assert program.dims == ()
    x = np.arange(-2, 3, dtype=np.int32)
    got, expected = np.zeros(5, np.int32), np.zeros(5, np.int32)
    interpret(program, x, got)
    interpret(everything, x, 7, expected)
    np.testing.assert_array_equal(got, expected)


def test_a_layout_may_mention_what_is_replaced():
    m = T.dim("m")
    buffer = Buffer("L", (m,), "float32", strides=(m,), offset=m)

    @T.program
    def fill(A: T.Buffer((m,), "float32")):
        inner = T.alloc((m,), "float32", strides=(m,))
        for i in range(m):
            inner[i] = A[i]

    body = instantiate(fill.body, {m: const(4)}, {fill.params[0]: buffer})
    assert "strides=(4,)" in TensorProgram("f", (buffer,), body).script()


@given(programs())
def test_random_programs_are_copied(program):
    assert structural_equal(copy_of(program), program)
