"""Computations given as programs, statements, and external functions."""

import numpy as np

from tensorsmith import script as T
from tensorsmith import te
from tensorsmith.evaluate import interpret
from tensorsmith.ir import Block, For, Invoke, Region, Store, Var

n = T.dim("n")


@T.program
def reverse(A: T.Buffer((n,), "int32"), B: T.Buffer((n,), "int32")):
    for i in range(n):
        with T.block("B"):
            vi = T.remap("S", i)
            B[vi] = A[n - 1 - vi]


@T.program
def shifted(A: T.Buffer((n,), "int32"), by: T.int32, B: T.Buffer((n,), "int32")):
    kept = T.alloc((n,), "int32")
    for i in range(n):
        kept[i] = A[i]
    for i in range(n):
        B[i] = kept[i] + by


def test_a_program_is_copied_in():
    m = T.dim("m")
    X = te.placeholder((m + 1,), "int32", "X")
    once = te.extern(reverse, [X], ((m + 1,), "int32"), "once")
    twice = te.extern(reverse, once, ((m + 1,), "int32"), "twice")
    x, y, z = np.arange(4, dtype="i4"), np.zeros(4, "i4"), np.zeros(4, "i4")
    interpret(te.program([X], [once, twice]), x, y, z)
    np.testing.assert_array_equal(y, x[::-1])
    np.testing.assert_array_equal(z, x)


def test_its_scalars_are_inputs():
    X, s = te.placeholder((3,), "int32", "X"), te.var("s", "int32")
    Y = te.extern(shifted, [X, s * 2], ((3,), "int32"))
    assert Y.name == "shifted"
    y = np.zeros(3, "i4")
    interpret(te.program([X, s], Y), np.arange(3, dtype="i4"), 5, y)
    np.testing.assert_array_equal(y, [10, 11, 12])


def test_a_function_gives_the_statement():
    X = te.placeholder((3,), "int32", "X")

    def build(source, target):
        i = Var("i")
        return For(i, source.shape[0], Store(target, (i,), source[i] + 1))

    Y = te.extern(build, [X], ((3,), "int32"), "Y")
    y = np.zeros(3, "i4")
    program = te.program([X], Y)
    interpret(program, np.arange(3, dtype="i4"), y)
    np.testing.assert_array_equal(y, [1, 2, 3])
    assert isinstance(program.body, Block)
    assert program.body.name == "Y"


def test_an_external_function_sees_its_regions():
    X = te.placeholder((4, 3), "int32", "X")
    part = Region(X, ((1, 2), (0, 3)))
    Y, Z = te.extern("split", [part, 7], [((2, 3), "int32"), ((2,), "int32")], "parts")
    program = te.program([X], [Y, Z])
    block = program.body
    assert isinstance(block.body, Invoke)
    assert [r.buffer.name for r in block.reads] == ["X"]
    assert [r.buffer.name for r in block.writes] == ["parts_0", "parts_1"]

    def split(source, add, first, second):
        first[...] = source + add
        second[...] = source.sum(1)

    x = np.arange(12, dtype="i4").reshape(4, 3)
    y, z = np.zeros((2, 3), "i4"), np.zeros(2, "i4")
    interpret(program, x, y, z, externs={"split": split})
    np.testing.assert_array_equal(y, x[1:3] + 7)
    np.testing.assert_array_equal(z, x[1:3].sum(1))


def test_within_a_scan_it_works_on_copies_of_the_states():
    X = te.placeholder((3,), "int32", "X")

    def step(t, s, _):
        stepped = te.compute((3,), lambda i: s[i] + 1, "stepped")
        flipped = te.extern(reverse, [stepped], ((3,), "int32"), "flipped")
        again = te.extern(reverse, [s], ((3,), "int32"), "again")
        both = te.compute((3,), lambda i: flipped[i] * 10 + again[i], "both")
        return stepped, both

    a, b = te.scan(2, step, (X, X), "S")
    x = np.array([1, 2, 3], "i4")
    got = np.zeros((2, 3), "i4"), np.zeros((2, 3), "i4")
    interpret(te.program([X], [a, b]), x, *got)
    states = x, x + 1
    np.testing.assert_array_equal(got[0], [x + 1, x + 2])
    np.testing.assert_array_equal(got[1], [(s + 1)[::-1] * 10 + s[::-1] for s in states])


def test_an_external_function_within_a_scan():
    X = te.placeholder((3,), "int32", "X")
    H = te.scan(3, lambda t, s: te.extern("double", [s], ((3,), "int32"), "twice"), X, "H")

    def double(source, target):
        target[...] = source * 2

    x, y = np.array([1, 2, 3], "i4"), np.zeros((3, 3), "i4")
    interpret(te.program([X], H), x, y, externs={"double": double})
    np.testing.assert_array_equal(y, [x * 2, x * 4, x * 8])
